//! What removes elements that no key has any more: those of keys that have expired, that another
//! value took the place of, or whose database was emptied.

use cleavedb::{Durability, Error};

use super::Store;
use crate::exec::effects::all_elements;
use crate::exec::register::{Owner, entries, owner_key, owner_record};
use crate::model::record::{Collection, KeyContent, KeyRecord};

/// Entries that are looked at in one step.
const SWEPT_AT_ONCE: usize = 1000;

impl Store {
    /// The collection that the record of a key names, if it has one.
    fn collection_at(&self, owner: &Owner) -> cleavedb::Result<Option<Collection>> {
        let databases = self.databases.load();
        let Some((_, keys)) = databases.at(owner.place) else { return Ok(None) };
        let Some(bytes) = keys.get(&owner.key)? else { return Ok(None) };
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
        let mut next = None;
        for item in self.own.range(entries(from)).take(SWEPT_AT_ONCE) {
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
        let _held = self.locks.wait_for(&owner.key);
        // Another key may have it by now; that key's lock is held by what moves it.
        let entry = self.own.get(owner_key(owner.id))?;
        let is_old = entry.is_some_and(|entry| entry == owner_record(owner.place, &owner.key));
        if !is_old || self.has(owner)? {
            return Ok(());
        }
        let mut batch = self.db().batch();
        batch.keyspace(&self.elements).delete_range(all_elements(owner.id))?;
        batch.keyspace(&self.own).delete(owner_key(owner.id))?;
        self.db().write_with(&batch, Durability::Os)
    }
}
