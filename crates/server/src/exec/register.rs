//! The register of collections: under each id the key that has it, which a write changes in one
//! batch with the key's record. By it a sweep finds elements that no key has any more: those of
//! keys that have expired, that another value took the place of, or whose database was emptied.

use std::ops::{Bound, Range};

use bytes::{Buf, Bytes};
use cleavedb::{Durability, Error};

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Store;
use super::effects::all_elements;
use crate::model::record::{Collection, KeyContent, KeyRecord};

/// The first byte of the register's keys.
const OWNERS: u8 = b'c';

/// Entries that are looked at between two looks at whether the server stops.
const SWEPT_AT_ONCE: usize = 1000;

/// How long the sweeper rests between two such looks, and between two rounds.
const REST: Duration = Duration::from_millis(20);
const ROUND: Duration = Duration::from_secs(15 * 60);

/// When the sweeper works.
#[derive(Default)]
pub struct Sweeper {
    is_over: Mutex<bool>,
    wake: Condvar,
    /// Whether a database was emptied since the last round.
    is_wanted: AtomicBool,
}

impl Sweeper {
    /// Sweeps in rounds, until [`Sweeper::end`]. An error is left to the next round: what it meets
    /// is told to clients that meet it, too.
    pub fn run(&self, store: &Store) {
        while self.rests_for(ROUND) {
            let mut from = Some(0);
            while let Some(begin) = from
                && self.rests_for(REST)
            {
                from = store.sweep(begin).unwrap_or(None);
            }
        }
    }

    /// Begins a round soon.
    pub fn wake(&self) {
        self.is_wanted.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Rests for that long, or until it is wanted; whether it goes on then.
    fn rests_for(&self, time: Duration) -> bool {
        let mut is_over = self.is_over.lock();
        if !*is_over && !self.is_wanted.swap(false, Ordering::AcqRel) {
            self.wake.wait_for(&mut is_over, time);
            self.is_wanted.store(false, Ordering::Release);
        }
        !*is_over
    }

    /// Ends [`Sweeper::run`].
    pub fn end(&self) {
        *self.is_over.lock() = true;
        self.wake.notify_one();
    }
}

/// The key of an entry.
pub(super) fn owner_key(id: u64) -> [u8; 9] {
    let mut key = [OWNERS; 9];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

/// An entry: the number of the database, little-endian in 2 bytes, and the key.
pub(super) fn owner_record(database: usize, key: &[u8]) -> Vec<u8> {
    [&(database as u16).to_le_bytes()[..], key].concat()
}

/// The range of all entries.
pub(super) fn all() -> Range<[u8; 1]> {
    [OWNERS]..[OWNERS + 1]
}

/// An entry that was read.
pub(super) struct Owner {
    pub(super) id: u64,
    pub(super) database: usize,
    pub(super) key: Bytes,
}

impl Owner {
    pub(super) fn decode(key: &[u8], mut record: Bytes) -> cleavedb::Result<Self> {
        let damaged = || Error::corruption("an entry of the server's register of collections");
        let id = key.get(1..).and_then(|id| id.try_into().ok()).map(u64::from_be_bytes);
        let database = record.try_get_u16_le().map_err(|_| damaged())?;
        Ok(Self { id: id.ok_or_else(damaged)?, database: database.into(), key: record })
    }
}

impl Store {
    /// The collection that the record of a key names, if it has one.
    pub(super) fn collection_at(&self, owner: &Owner) -> cleavedb::Result<Option<Collection>> {
        let Some(database) = self.database(owner.database) else { return Ok(None) };
        let Some(bytes) = database.get(&owner.key)? else { return Ok(None) };
        let record = KeyRecord::decode(bytes);
        let record = record.map_err(|_| Error::corruption("the record of a key"))?;
        Ok(match record.content {
            KeyContent::Collection(collection) => Some(collection),
            KeyContent::String(_) => None,
        })
    }

    /// Removes the elements that no key has any more, from the collection `from` on; returns where
    /// to go on, if that is not the end.
    pub fn sweep(&self, from: u64) -> cleavedb::Result<Option<u64>> {
        let range = (Bound::Included(owner_key(from)), Bound::Excluded([OWNERS + 1; 9]));
        let mut next = None;
        for item in self.own.range(range).take(SWEPT_AT_ONCE) {
            let item = item?;
            let owner = Owner::decode(&item.key, item.value)?;
            next = owner.id.checked_add(1);
            if !self.has(&owner)? {
                self.sweep_one(&owner)?;
            }
        }
        Ok(next)
    }

    /// Whether a key has the collection that the register says it has.
    fn has(&self, owner: &Owner) -> cleavedb::Result<bool> {
        let found = self.collection_at(owner)?;
        Ok(found.is_some_and(|collection| collection.id == owner.id))
    }

    fn sweep_one(&self, owner: &Owner) -> cleavedb::Result<()> {
        let _held = self.locks.take([&*owner.key].into_iter(), true);
        // Another key may have it by now; that key's lock is held by what moves it.
        let entry = self.own.get(owner_key(owner.id))?;
        let is_old = entry.is_some_and(|entry| entry == owner_record(owner.database, &owner.key));
        if !is_old || self.has(owner)? {
            return Ok(());
        }
        let mut batch = self.db().batch();
        batch.keyspace(&self.elements).delete_range(all_elements(owner.id))?;
        batch.keyspace(&self.own).delete(owner_key(owner.id))?;
        self.db().write_with(&batch, Durability::Os)
    }
}
