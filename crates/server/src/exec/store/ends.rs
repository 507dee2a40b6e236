//! The register of ends, kept while it is told that keys have expired: under each key its end, and
//! under each end the key, so that the next ones are found. Both change in one batch with the
//! record of the key, since the engine removes records by itself, and unseen. Databases are named
//! by their places.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use cleavedb::{Durability, Error, Resident, WriteBatch};

use super::Store;
use super::databases::Database;
use crate::exec::effects::{Change, Effects};
use crate::exec::events::{KeyEvent, event};
use crate::exec::failed::failed;
use crate::exec::{Answer, Halt};
use crate::model::record::KeyRecord;

/// The first bytes of the two parts of the register, behind which the place stands.
const BY_KEY: u8 = b'x';
const BY_END: u8 = b'y';

/// The key of the record that says that the register has all ends.
pub(super) const IS_WHOLE: &[u8] = b"ends of keys";

/// Keys that are longer have no room for an end beside them, and are not told of.
const KEY_MAX: usize = 65_500;

/// Ends that are told of in one step.
const TOLD_AT_ONCE: usize = 1000;

/// What is left of the ends that have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Some may be left.
    More,
    /// All were told.
    Told,
}

fn begin(part: u8, place: usize) -> Vec<u8> {
    [&[part][..], &(place as u16).to_be_bytes()].concat()
}

fn by_key(place: usize, key: &[u8]) -> Vec<u8> {
    [&begin(BY_KEY, place), key].concat()
}

fn by_end(place: usize, end: u64, key: &[u8]) -> Vec<u8> {
    [&begin(BY_END, place)[..], &end.to_be_bytes(), key].concat()
}

/// The keys of a part about a place.
fn all_of(part: u8, place: usize) -> Range<Vec<u8>> {
    begin(part, place)..begin(part, place + 1)
}

/// The event of a key whose end has come.
fn expired(database: usize, key: &[u8]) -> KeyEvent {
    let (class, key) = (event::EXPIRED, key.to_vec());
    KeyEvent { class, name: "expired", database, key, absent_from: None }
}

impl Store {
    /// Whether the ends of keys are kept.
    pub fn ends_are_kept(&self) -> bool {
        self.keeps_ends.load(Ordering::Acquire)
    }

    /// Keeps the ends of keys from now on, also of those that are there, or no more.
    pub fn keep_ends(&self, wanted: bool) -> cleavedb::Result<()> {
        self.own.delete(IS_WHOLE)?;
        if !wanted {
            self.keeps_ends.store(false, Ordering::Release);
        }
        let mut batch = self.db.batch();
        for part in [BY_KEY, BY_END] {
            batch.keyspace(&self.own).delete_range(vec![part]..vec![part + 1])?;
        }
        self.db.write_with(&batch, Durability::Os)?;
        if !wanted {
            return Ok(());
        }
        // A writer that holds a key now has not seen that ends are kept.
        let held = self.locks.wait_for_all();
        self.keeps_ends.store(true, Ordering::Release);
        drop(held);
        for database in &self.databases.load_full().all {
            for item in database.keys.range(..) {
                let item = item?;
                if until(item.value)?.is_some() {
                    self.add_end(database, &item.key)?;
                }
            }
        }
        self.own.put(IS_WHOLE, b"")
    }

    /// Adds the end of a key that was there before ends were kept.
    fn add_end(&self, database: &Database, key: &[u8]) -> cleavedb::Result<()> {
        let _held = self.locks.wait_for(key);
        let Some(record) = database.keys.get(key)? else { return Ok(()) };
        let end = until(record)?.filter(|_| key.len() <= KEY_MAX);
        let Some(end) = end else { return Ok(()) };
        let mut batch = self.db.batch();
        self.replace_end(&mut batch, database.place, key, None, Some(end))?;
        self.db.write_with(&batch, Durability::Os)
    }

    /// Adds to a batch that a key has another end.
    fn replace_end(
        &self,
        batch: &mut WriteBatch,
        place: usize,
        key: &[u8],
        old: Option<u64>,
        new: Option<u64>,
    ) -> cleavedb::Result<()> {
        let mut own = batch.keyspace(&self.own);
        if let Some(old) = old {
            own.delete(by_end(place, old, key))?;
        }
        match new {
            Some(new) => {
                own.put(by_key(place, key), new.to_le_bytes())?;
                own.put(by_end(place, new, key), b"")?;
            }
            None => {
                own.delete(by_key(place, key))?;
            }
        }
        Ok(())
    }

    /// Tells of keys whose ends have come by a time, in milliseconds since 1970.
    pub fn tell_ends(&self, now: u64, tell: &dyn Fn(KeyEvent)) -> cleavedb::Result<Ends> {
        let mut told = 0;
        for Database { place, .. } in &self.databases.load_full().all {
            let place = *place;
            let range = by_end(place, 0, b"")..by_end(place, now + 1, b"");
            let prefix = range.start.len();
            for item in self.own.range(range).keys_only().take(TOLD_AT_ONCE) {
                let entry = item?.key;
                let key = &entry[prefix..];
                let _held = self.locks.wait_for(key);
                let end = self.own.get(by_key(place, key))?.map(|end| number(&end));
                // The key may have another end by now.
                if end.is_none_or(|end| by_end(place, end, key) != entry) {
                    continue;
                }
                let mut batch = self.db.batch();
                self.replace_end(&mut batch, place, key, end, None)?;
                self.db.write_with(&batch, Durability::Os)?;
                // While the key is held its database stays where it is.
                let found = self.databases.load().at(place).map(|(database, _)| database);
                found.into_iter().for_each(|database| tell(expired(database, key)));
                told += 1;
            }
        }
        Ok(if told < TOLD_AT_ONCE { Ends::Told } else { Ends::More })
    }

    /// What is wrong with the register, a sentence each, while no key changes.
    pub(super) fn faults_of_ends(&self) -> cleavedb::Result<Vec<String>> {
        let mut wrong = Vec::new();
        if !self.own.contains_key(IS_WHOLE)? {
            return Ok(wrong);
        }
        let at =
            |database, key: &[u8]| format!("database {database}, key '{}'", key.escape_ascii());
        for (database, Database { place, keys }) in self.databases.load().all.iter().enumerate() {
            let place = *place;
            for item in keys.range(..) {
                let item = item?;
                let end = until(item.value)?.filter(|end| *end > now());
                let known = self.own.get(by_key(place, &item.key))?.map(|end| number(&end));
                if item.key.len() <= KEY_MAX && end.is_some() && known != end {
                    let at = at(database, &item.key);
                    wrong.push(format!("{at}: its end {end:?} is registered as {known:?}"));
                }
            }
            for item in self.own.range(all_of(BY_KEY, place)) {
                let (item, prefix) = (item?, begin(BY_KEY, place).len());
                let (key, end) = (&item.key[prefix..], number(&item.value));
                let is_there = keys.contains_key(key)? || end <= now();
                if !is_there || !self.own.contains_key(by_end(place, end, key))? {
                    wrong.push(format!("{}: an end is registered", at(database, key)));
                }
            }
        }
        let count = |part| self.own.range([part]..[part + 1]).keys_only().count();
        if count(BY_KEY) != count(BY_END) {
            wrong.push("a key has more ends than one".to_owned());
        }
        Ok(wrong)
    }

    /// Adds to a batch what the effects of commands change in the register; the events of keys
    /// whose ends have come and were not told.
    pub(super) fn note_ends(
        &self,
        effects: &Effects<'_>,
        now: u64,
        may_wait: bool,
        batch: &mut WriteBatch,
    ) -> Answer<Vec<KeyEvent>> {
        let (mut told, databases) = (Vec::new(), self.databases.load());
        for database in &effects.cleared {
            for part in [BY_KEY, BY_END] {
                let range = all_of(part, databases.all[*database].place);
                batch.keyspace(&self.own).delete_range(range).map_err(failed)?;
            }
        }
        for ((database, key), change) in &effects.keys {
            let new = match change {
                Change::String(_, until) | Change::Collection(_, until) => *until,
                Change::Delete => None,
            };
            let new = new.filter(|_| key.len() <= KEY_MAX);
            let place = databases.all[*database].place;
            let old = match effects.cleared.contains(database) {
                true => None,
                false => self.end_of(place, key, may_wait)?,
            };
            told.extend(old.filter(|end| *end <= now).map(|_| expired(*database, key)));
            if old != new {
                self.replace_end(batch, place, key, old, new).map_err(failed)?;
            }
        }
        Ok(told)
    }

    /// The end of a key in the register.
    fn end_of(&self, place: usize, key: &[u8], may_wait: bool) -> Answer<Option<u64>> {
        let name = by_key(place, key);
        let found = match may_wait {
            true => self.own.get(name).map_err(failed)?,
            false => match self.own.get_resident(name).map_err(failed)? {
                Resident::Found(found) => found,
                Resident::Elsewhere => return Err(Halt::Wait),
            },
        };
        Ok(found.map(|end| number(&end)))
    }
}

/// The time in milliseconds since 1970.
fn now() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64)
}

/// The end of a record.
fn until(record: Bytes) -> cleavedb::Result<Option<u64>> {
    let record = KeyRecord::decode(record);
    Ok(record.map_err(|_| Error::corruption("the record of a key"))?.until)
}

fn number(end: &[u8]) -> u64 {
    end.try_into().map_or(0, u64::from_le_bytes)
}
