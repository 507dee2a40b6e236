//! Whether the counts of streams are true, and what is pending belongs to a consumer.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cleavedb::Keyspace;

use crate::exec::effects::all_elements;
use crate::model::element::{CONSUMERS, GROUPS, MEMBERS, OWNED, PENDING, PREFIX_LEN, place};
use crate::model::group::{ConsumerState, GroupState, PendingEntry, split};
use crate::model::record::Collection;
use crate::model::stream::{StreamId, fields};

/// An entry that a group has given, with the name of the group.
type GivenEntry = (Vec<u8>, StreamId);

#[derive(Default)]
struct FoundStream {
    entries: u64,
    first: StreamId,
    last: StreamId,
    groups: BTreeMap<Vec<u8>, GroupState>,
    consumers: BTreeMap<(Vec<u8>, Vec<u8>), ConsumerState>,
    /// The consumers of pending entries.
    pending: BTreeMap<GivenEntry, Vec<u8>>,
    /// Pending entries and consumers, as consumers have them.
    owned: BTreeSet<(GivenEntry, Vec<u8>)>,
}

impl FoundStream {
    /// Adds an element; none if it is damaged.
    fn add(&mut self, part: u8, name: &[u8], value: Bytes) -> Option<()> {
        match part {
            MEMBERS => {
                let id = StreamId::of_bytes(name)?;
                fields(value)?;
                self.entries += 1;
                self.first = if self.entries == 1 { id } else { self.first };
                self.last = id;
            }
            GROUPS => _ = self.groups.insert(name.to_vec(), GroupState::of_bytes(value)?),
            CONSUMERS => {
                let (group, consumer) = split(name)?;
                let key = (group.to_vec(), consumer.to_vec());
                self.consumers.insert(key, ConsumerState::of_bytes(&value)?);
            }
            PENDING => {
                let (group, id) = split(name)?;
                let given = (group.to_vec(), StreamId::of_bytes(id)?);
                self.pending.insert(given, PendingEntry::of_bytes(value)?.consumer.to_vec());
            }
            OWNED => {
                let (group, rest) = split(name)?;
                let (consumer, id) = split(rest)?;
                let given = (group.to_vec(), StreamId::of_bytes(id)?);
                self.owned.insert((given, consumer.to_vec()));
            }
            _ => return None,
        }
        Some(())
    }

    fn fault(&self, stream: &Collection) -> Option<String> {
        let state = stream.stream;
        if (self.entries, self.first) != (stream.len, state.first) || self.last > state.last {
            let Self { entries, first, last, .. } = self;
            return Some(format!(
                "{} entries from {} to {} are {entries} from {first} to {last}",
                stream.len, state.first, state.last
            ));
        }
        let owned = self.pending.iter();
        let owned = owned.map(|(given, consumer)| (given.clone(), consumer.clone()));
        if owned.collect::<BTreeSet<_>>() != self.owned {
            return Some("pending entries are not those that consumers have".to_owned());
        }
        let is_known = |(given, consumer): &(GivenEntry, Vec<u8>)| {
            self.consumers.contains_key(&(given.0.clone(), consumer.clone()))
        };
        if !self.owned.iter().all(is_known) {
            return Some("a pending entry has no consumer".to_owned());
        }
        if !self.consumers.keys().all(|(group, _)| self.groups.contains_key(group)) {
            return Some("a consumer has no group".to_owned());
        }
        self.wrong_count()
    }

    /// A group or a consumer whose counts are not those of what was found.
    fn wrong_count(&self) -> Option<String> {
        let mut of_groups = BTreeMap::<&[u8], (u64, u64)>::new();
        let mut of_consumers = BTreeMap::<(&[u8], &[u8]), u64>::new();
        for (group, _) in self.consumers.keys() {
            of_groups.entry(group).or_default().0 += 1;
        }
        for ((group, _), consumer) in &self.owned {
            of_groups.entry(group).or_default().1 += 1;
            *of_consumers.entry((group, consumer)).or_default() += 1;
        }
        let group = self.groups.iter().find_map(|(name, group)| {
            let found = of_groups.get(&**name).copied().unwrap_or_default();
            let name = name.escape_ascii();
            let is_true = found == (group.consumers, group.pending);
            (!is_true).then(|| format!("group '{name}' has {found:?} and tells {group:?}"))
        });
        let consumer = || {
            self.consumers.iter().find_map(|((group, name), consumer)| {
                let found = of_consumers.get(&(group, name)).copied().unwrap_or_default();
                let name = name.escape_ascii();
                let is_true = found == consumer.pending;
                (!is_true).then(|| format!("consumer '{name}' has {found} and tells {consumer:?}"))
            })
        };
        group.or_else(consumer)
    }
}

/// What is wrong with the elements of a stream.
pub(super) fn fault(elements: &Keyspace, stream: &Collection) -> cleavedb::Result<Option<String>> {
    let mut found = FoundStream::default();
    for item in elements.range(all_elements(stream.id)) {
        let item = item?;
        let (_, part) = place(&item.key).unwrap_or_default();
        let name = item.key.get(PREFIX_LEN..).unwrap_or_default();
        if found.add(part, name, item.value).is_none() {
            return Ok(Some(format!("an element of part {part} is damaged")));
        }
    }
    Ok(found.fault(stream))
}
