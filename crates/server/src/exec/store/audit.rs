//! Whether keys, elements and the register of collections fit together.

mod streams;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use super::Store;
use super::databases::Database;
use crate::exec::register::{self, Owner};
use crate::model::element::{self, MEMBERS, PREFIX_LEN, SCORES};
use crate::model::record::{Collection, CollectionKind, KeyContent, KeyRecord};

/// Elements that were found under an id.
#[derive(Default)]
struct FoundElements {
    members: u64,
    scores: u64,
    /// The first and the last position, if it is a list.
    ends: Option<(i64, i64)>,
}

/// A collection, and the database and the key that have it.
struct FoundCollection {
    database: usize,
    place: usize,
    key: Bytes,
    collection: Collection,
}

/// What an audit has found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// What does not fit together, a sentence each: a collection or an end that is not registered,
    /// a wrong number of elements, elements of no collection.
    pub wrong: Vec<String>,
    /// Collections that no key has any more, and that wait for the sweeper.
    pub unused: usize,
}

impl Store {
    /// Looks at all keys and elements. Writes wait meanwhile; memory is taken for each collection.
    pub fn audit(&self) -> cleavedb::Result<Audit> {
        let _held = self.locks.wait_for_all();
        let mut found = self.found_elements()?;
        let (mut wrong, mut owners) = (Vec::new(), HashMap::new());
        for item in self.own.range(register::all()) {
            let item = item?;
            let owner = Owner::decode(&item.key, item.value)?;
            owners.insert(owner.id, (owner.place, owner.key));
        }
        let collections = self.collections(&mut wrong)?;
        let unused = owners.keys().filter(|id| !collections.contains_key(id)).count();
        for (id, FoundCollection { database, place, key, collection }) in collections {
            let at = format!("database {database}, key '{}'", key.escape_ascii());
            if owners.get(&id).is_none_or(|owner| owner != &(place, key)) {
                wrong.push(format!("{at}: collection {id} is not registered there"));
            }
            let elements = found.remove(&id).unwrap_or_default();
            let fault = match collection.kind {
                CollectionKind::Stream => streams::fault(&self.elements, &collection)?,
                _ => fault(collection, &elements),
            };
            let faults =
                fault.into_iter().chain(self.fault_of_ranks(id, collection.kind.ordered())?);
            wrong.extend(faults.map(|what| format!("{at}: {what}")));
        }
        let lost = found.keys().filter(|id| !owners.contains_key(id));
        wrong
            .extend(lost.map(|id| format!("elements of collection {id}, which is not registered")));
        wrong.extend(self.faults_of_ends()?);
        Ok(Audit { wrong, unused })
    }

    fn found_elements(&self) -> cleavedb::Result<BTreeMap<u64, FoundElements>> {
        let mut found = BTreeMap::<u64, FoundElements>::new();
        for item in self.elements.range(..).keys_only() {
            let key = item?.key;
            let (id, part) = element::place(&key).unwrap_or_default();
            let elements = found.entry(id).or_default();
            match part {
                MEMBERS => {
                    elements.members += 1;
                    if let Some(last) = element::position(&key[PREFIX_LEN..]) {
                        let (first, _) = elements.ends.unwrap_or((last, last));
                        elements.ends = Some((first, last));
                    }
                }
                SCORES => elements.scores += 1,
                _ => {}
            }
        }
        Ok(found)
    }

    /// What is wrong with the kept ranks of a collection.
    fn fault_of_ranks(&self, id: u64, part: u8) -> cleavedb::Result<Option<String>> {
        let mut names = Vec::new();
        for item in self.elements.prefix(element::prefix(id, part)).keys_only() {
            names.push(item?.key.slice(PREFIX_LEN..));
        }
        let wrong = self.ranks.ask(id, |blocks| {
            let mut rank = 0;
            while let Some(name) = names.get(rank as usize) {
                let spot = blocks.of_name(name);
                let behind = names.partition_point(|it| spot.to.as_ref().is_none_or(|to| *it < to));
                if spot.before != rank || spot.count == 0 || behind as u64 != rank + spot.count {
                    return Some(format!("{spot:?} begins at {rank} and ends at {behind}"));
                }
                rank += spot.count;
            }
            (rank != blocks.members()).then(|| format!("{rank} members have more ranks"))
        });
        Ok(wrong.flatten())
    }

    /// All collections that keys have, by their ids.
    fn collections(
        &self,
        wrong: &mut Vec<String>,
    ) -> cleavedb::Result<BTreeMap<u64, FoundCollection>> {
        let mut found = BTreeMap::new();
        for (number, Database { place, keys }) in self.databases.load().all.iter().enumerate() {
            let place = *place;
            for item in keys.range(..) {
                let item = item?;
                let key = item.key;
                match KeyRecord::decode(item.value).map(|record| record.content) {
                    Ok(KeyContent::String(_)) => {}
                    Ok(KeyContent::Collection(collection)) => {
                        let id = collection.id;
                        let it = FoundCollection { database: number, place, key, collection };
                        if found.insert(id, it).is_some() {
                            wrong.push(format!("two keys have collection {id}"));
                        }
                    }
                    Err(damaged) => {
                        let key = key.escape_ascii();
                        wrong.push(format!("database {number}, key '{key}': {damaged:?}"));
                    }
                }
            }
        }
        Ok(found)
    }
}

/// What is wrong with the elements of a collection.
fn fault(collection: Collection, found: &FoundElements) -> Option<String> {
    let Collection { kind, len, head, .. } = collection;
    let scores = if kind == CollectionKind::SortedSet { len } else { 0 };
    let (members, of_scores) = (found.members, found.scores);
    if (members, of_scores) != (len, scores) || len == 0 {
        return Some(format!("{len} elements are {members}, and their scores {of_scores}"));
    }
    let ends = Some((head, head.wrapping_add_unsigned(len - 1)));
    if kind == CollectionKind::List && found.ends != ends {
        return Some(format!("positions {ends:?} are {:?}", found.ends));
    }
    None
}
