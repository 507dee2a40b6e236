//! What removes elements that no key has any more: those of keys that have expired, that another
//! value took the place of, or whose database was emptied.

use cleavedb::{Durability, Error, ErrorKind};

use super::Store;
use crate::exec::effects::all_elements;
use crate::exec::register::{Owner, entries, owner_id, owner_key, owner_record};
use crate::model::record::{Collection, KeyContent, KeyRecord};

/// Entries that are looked at in one step.
const SWEPT_AT_ONCE: usize = 1000;

/// What a step of the sweeper has done.
#[derive(Debug, Default)]
pub struct Swept {
    /// Where to go on, if that is not the end.
    pub next: Option<u64>,
    /// Damaged records that it has stepped over.
    pub stepped_over: u64,
}

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

    /// Removes the elements that no key has any more, from the collection `from` on. Damaged
    /// records are stepped over: whether a key has the elements is not known then.
    pub fn sweep(&self, from: u64) -> cleavedb::Result<Swept> {
        let mut swept = Swept::default();
        for item in self.own.range(entries(from)).take(SWEPT_AT_ONCE) {
            let item = item?;
            swept.next = owner_id(&item.key).and_then(|id| id.checked_add(1));
            let swept_one = Owner::decode(&item.key, item.value)
                .and_then(|owner| if self.has(&owner)? { Ok(()) } else { self.sweep_one(&owner) });
            match swept_one {
                Err(error) if error.kind() == ErrorKind::Corruption => swept.stepped_over += 1,
                swept_one => swept_one?,
            }
        }
        Ok(swept)
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

#[cfg(test)]
mod tests {
    use cleavedb::{Db, Options};

    use super::*;
    use crate::command::run_lines;

    #[test]
    fn a_damaged_record_is_stepped_over() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Db::open(dir.path(), Options::default()).unwrap(), 1).unwrap();
        let lines = ["rpush a 1", "rpush b 1", "rpush c 1", "set a over", "set c over"];
        run_lines(&store, &lines.map(str::to_owned));
        let keys = store.databases.load().all[0].keys.clone();
        keys.put("b", "x").unwrap();
        store.own.put(owner_key(1000), "x").unwrap();
        let swept = store.sweep(0).unwrap();
        assert_eq!((swept.stepped_over, swept.next), (2, Some(1001)));
        assert_eq!(store.elements.range(..).count(), 1, "that of the damaged key is left");
        keys.delete("b").unwrap();
        store.own.delete(owner_key(1000)).unwrap();
        assert_eq!(store.sweep(0).unwrap().stepped_over, 0);
        assert_eq!(store.elements.range(..).count(), 0);
    }
}
