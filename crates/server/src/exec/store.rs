//! The store of a server: its databases on the engine.

mod databases;
mod sweep;
mod ends;
mod audit;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, UNIX_EPOCH};

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use cleavedb::{Db, Durability, Keyspace, PutLifetime, Resident, Snapshot, WriteBatch};

use super::effects::{Change, Effects, all_elements};
use super::events::KeyEvent;
use super::failed::failed;
use super::ids::Ids;
use super::reads::{KeyPlace, KeyWalk, Reads, Visit};
use super::register::{self, owner_key, owner_record};
use super::{Answer, Halt, Held, Locks, LongPlan, LongReply, Ranks, Waiters, Watches};
use crate::model::element;
use crate::model::record::{self, KeyRecord};

#[cfg(test)]
pub use self::audit::Audit;
use self::databases::{Databases, place_key, place_record};
pub use self::databases::{key_place, placed};
pub use self::ends::Ends;

/// Most bytes that a walk visits in a thread that must not wait: others wait for that thread.
const VISITED_AT_ONCE: usize = 128 << 10;

/// How often a reader looks whether databases are swapped by now.
const SWAP: Duration = Duration::from_micros(50);

/// The key of the libraries of functions, a dump of them, among the server's own records.
const LIBRARIES: &[u8] = b"libraries";

/// What a key costs beside its bytes, as bytes of the same time.
const KEY_COST: usize = 256;

/// An open store, with what its commands share.
pub struct Store {
    db: Db,
    /// Where the keys of each database lie. A swap holds all locks.
    databases: ArcSwap<Databases>,
    /// Of the elements of all collections.
    elements: Keyspace,
    /// Of the server's own records.
    own: Keyspace,
    ids: Ids,
    /// Locks of keys.
    pub locks: Locks,
    /// Keys that clients watch.
    pub watches: Watches,
    /// Clients that wait for keys.
    pub waiters: Waiters,
    ranks: Ranks,
    /// Whether the ends of keys are kept.
    keeps_ends: AtomicBool,
}

impl Store {
    /// The databases of `db`, which are made if they are not there. Fails if another one has keys.
    pub fn open(db: Db, databases: usize) -> cleavedb::Result<Self> {
        let own = db.keyspace("server")?;
        Ok(Self {
            databases: ArcSwap::from_pointee(Databases::open(&db, &own, databases)?),
            elements: db.keyspace("elements")?,
            ids: Ids::open(&own)?,
            keeps_ends: own.contains_key(ends::IS_WHOLE)?.into(),
            own,
            db,
            locks: Locks::default(),
            watches: Watches::default(),
            waiters: Waiters::default(),
            ranks: Ranks::default(),
        })
    }

    /// The engine.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Number of databases.
    pub fn databases(&self) -> usize {
        self.databases.load().all.len()
    }

    /// The places of all databases: see [`key_place`].
    pub fn places(&self) -> Vec<usize> {
        self.settled().all.iter().map(|database| database.place).collect()
    }

    /// The databases when none is being swapped.
    fn settled(&self) -> Guard<Arc<Databases>> {
        loop {
            let databases = self.databases.load();
            if !databases.is_changing {
                return databases;
            }
            drop(databases);
            std::thread::sleep(SWAP);
        }
    }

    /// About how many keys a database has.
    pub fn about_keys(&self, database: usize) -> Answer<u64> {
        let size = self.databases.load().all[database].keys.approximate_size(..);
        size.map(|size| size.entries).map_err(failed)
    }

    /// The records as they are at each read, which is one of a held key, or the only one; without
    /// a wait, or with one if it `may_wait`.
    pub fn reads(&self, may_wait: bool) -> StoredRecords<'_> {
        StoredRecords { store: self, may_wait, at: None }
    }

    /// The records as they are now, whatever is written meanwhile.
    pub fn reads_at_once(&self, may_wait: bool) -> StoredRecords<'_> {
        let at = loop {
            let databases = self.settled();
            let snapshot = self.db.snapshot();
            if Arc::ptr_eq(&databases, &self.databases.load()) {
                break (snapshot, Guard::into_inner(databases));
            }
        };
        StoredRecords { store: self, may_wait, at: Some(at) }
    }

    /// Has keys of a database fetched that will be read one by one.
    pub fn prefetch(&self, database: usize, keys: &[&[u8]]) {
        self.settled().all[database].keys.prefetch(keys);
    }

    /// Takes the locks of keys, and of those that clients which wait for them have: see
    /// [`Locks::take`].
    pub fn hold(&self, keys: &[&[u8]], may_wait: bool) -> Option<Held<'_>> {
        let mut held = Held::new();
        self.hold_more(&mut held, keys, may_wait).then_some(held)
    }

    /// As [`Store::hold`], beside locks that are held: see [`Locks::take_more`].
    pub fn hold_more<'a>(&'a self, held: &mut Held<'a>, keys: &[&[u8]], may_wait: bool) -> bool {
        let before = held.len();
        let mut more = self.waiters.more_keys(keys);
        loop {
            let all = keys.iter().copied().chain(more.iter().map(Vec::as_slice));
            if !self.locks.take_more(held, all, may_wait) {
                return false;
            }
            // A client may have begun to wait before the locks were there.
            let wanted = self.waiters.more_keys(keys);
            if wanted.is_subset(&more) {
                return true;
            }
            held.truncate(before);
            more = wanted;
        }
    }

    /// Writes what commands have changed, as one, at a time in milliseconds since 1970; it survives
    /// the death of the process. Returns what is to be told of keys. Without `may_wait` it stops
    /// where it would have to, and nothing is written.
    pub fn commit<'e>(
        &self,
        effects: &'e Effects<'_>,
        now: u64,
        may_wait: bool,
    ) -> Answer<Cow<'e, [KeyEvent]>> {
        let mut batch = self.batch(effects).map_err(failed)?;
        let mut told = self.told(&effects.events, now, may_wait)?;
        if self.ends_are_kept() {
            let expired = self.note_ends(effects, now, may_wait, &mut batch)?;
            if !expired.is_empty() {
                told = [expired, told.into_owned()].concat().into();
            }
        }
        let written = match may_wait {
            _ if !effects.origins.is_empty() => self.write_swapping(effects, &batch),
            true => self.db.write_numbered(&batch, Durability::Os),
            false => self.db.try_write(&batch, Durability::Os),
        };
        written.map_err(failed).inspect_err(|halt| {
            if !matches!(halt, Halt::Wait) {
                self.ranks.forget(effects.ranked_all().map(|(id, ..)| id));
            }
        })?;
        if !effects.ranked.is_empty() {
            self.ranks.count(effects.ranked_all());
        }
        Ok(told)
    }

    /// Writes a batch behind which databases are swapped, also for reads without locks.
    fn write_swapping(&self, effects: &Effects<'_>, batch: &WriteBatch) -> cleavedb::Result<u64> {
        let before = self.databases.load_full();
        self.databases
            .store(Arc::new(Databases { is_changing: true, ..Databases::clone(&before) }));
        let written = self.db.write_numbered(batch, Durability::Os);
        let behind = match &written {
            Ok(_) => Arc::new(before.swapped(effects)),
            Err(_) => before,
        };
        self.databases.store(behind);
        written
    }

    /// Events without those of keys that were there before, if they need that they were not.
    fn told<'e>(
        &self,
        events: &'e [KeyEvent],
        now: u64,
        may_wait: bool,
    ) -> Answer<Cow<'e, [KeyEvent]>> {
        if events.iter().all(|event| event.absent_from.is_none()) {
            return Ok(events.into());
        }
        let reads = self.reads(may_wait);
        let is_told = |event: &KeyEvent| {
            let Some(database) = event.absent_from else { return Ok(true) };
            let record = reads.get(KeyPlace::Keys(database), &event.key)?;
            let record = record.map(KeyRecord::decode);
            Ok(record.is_none_or(|record| record.is_ok_and(|record| record.is_over(now))))
        };
        let mut told = Vec::new();
        for event in events {
            if is_told(event)? {
                told.push(event.clone());
            }
        }
        Ok(told.into())
    }

    /// The dump of the libraries of functions, if there are any.
    pub fn libraries(&self) -> cleavedb::Result<Option<Bytes>> {
        self.own.get(LIBRARIES)
    }

    /// Keeps a dump of the libraries of functions; it survives the death of the process.
    pub fn keep_libraries(&self, dump: &[u8]) -> Answer<()> {
        self.own.put_with(LIBRARIES, dump, Durability::Os).map_err(failed)?;
        Ok(())
    }

    /// The number of the last write that a command may have seen.
    pub fn written(&self) -> u64 {
        self.db.snapshot().seq()
    }

    fn batch(&self, effects: &Effects<'_>) -> cleavedb::Result<WriteBatch> {
        let (mut batch, databases) = (self.db.batch(), self.databases.load());
        // Who follows changes is told of keys behind where their databases lie.
        for (database, origin) in effects.swapped() {
            let place = place_record(databases.all[origin].place);
            batch.keyspace(&self.own).put(place_key(database), place)?;
        }
        for database in &effects.cleared {
            batch.keyspace(&databases.all[*database].keys).delete_range(..)?;
        }
        if effects.is_flushed {
            batch.keyspace(&self.elements).delete_range(..)?;
            batch.keyspace(&self.own).delete_range(register::all())?;
        }
        for id in &effects.dropped {
            batch.keyspace(&self.elements).delete_range(all_elements(*id))?;
        }
        for range in &effects.cuts {
            batch.keyspace(&self.elements).delete_range(element::slices(range))?;
        }
        for (key, value) in &effects.elements {
            let mut elements = batch.keyspace(&self.elements);
            match value {
                Some(value) => elements.put(key, value)?,
                None => elements.delete(key)?,
            };
        }
        for ((database, key), change) in &effects.keys {
            let mut within = batch.keyspace(&databases.all[*database].keys);
            match change {
                Change::Delete => within.delete(key)?,
                Change::String(value, until) => {
                    let head = record::of_string(*until);
                    within.put_parts_with(key, &[&head, value], lifetime(*until))?
                }
                Change::Collection(collection, until) => {
                    let record = record::of_collection(*collection, *until);
                    within.put_parts_with(key, &[&record], lifetime(*until))?
                }
            };
        }
        for (id, owner) in &effects.owners {
            let mut own = batch.keyspace(&self.own);
            match owner {
                Some((database, key)) => {
                    let place = databases.all[*database].place;
                    own.put(owner_key(*id), owner_record(place, key))?
                }
                None => own.delete(owner_key(*id))?,
            };
        }
        Ok(batch)
    }
}

/// How long the engine keeps a record that lives until a time.
fn lifetime(until: Option<u64>) -> PutLifetime {
    until.map_or(PutLifetime::Forever, |until| {
        PutLifetime::Until(UNIX_EPOCH + Duration::from_millis(until))
    })
}

/// The records of a store.
#[derive(Clone)]
pub struct StoredRecords<'a> {
    store: &'a Store,
    may_wait: bool,
    /// As of when, and the databases then; as of each read without one.
    at: Option<(Snapshot, Arc<Databases>)>,
}

impl StoredRecords<'_> {
    /// Reads in a keyspace, as of one moment.
    fn read<T>(
        &self,
        place: KeyPlace,
        read: impl Fn(&Keyspace, Option<&Snapshot>) -> Answer<T>,
    ) -> Answer<T> {
        match (place, &self.at) {
            (KeyPlace::Elements, at) => {
                read(&self.store.elements, at.as_ref().map(|(snapshot, _)| snapshot))
            }
            (KeyPlace::Keys(database), Some((snapshot, databases))) => {
                read(&databases.all[database].keys, Some(snapshot))
            }
            (KeyPlace::Keys(database), None) => loop {
                let databases = self.store.settled();
                let found = read(&databases.all[database].keys, None);
                if Arc::ptr_eq(&databases, &self.store.databases.load()) {
                    return found;
                }
            },
        }
    }
}

impl StoredRecords<'_> {
    /// A reply with elements as they are as of the same moment.
    pub fn long_reply(&self, plan: LongPlan) -> LongReply {
        let at = self.at.as_ref().map(|(snapshot, _)| snapshot.clone());
        let at = at.unwrap_or_else(|| self.store.db.snapshot());
        LongReply::new(plan, at, self.store.elements.clone())
    }
}

impl Reads for StoredRecords<'_> {
    fn databases(&self) -> usize {
        self.store.databases()
    }

    fn get(&self, place: KeyPlace, key: &[u8]) -> Answer<Option<Bytes>> {
        self.read(place, |keyspace, at| {
            let at = at.map(|at| at.keyspace(keyspace));
            if self.may_wait {
                return at.map_or_else(|| keyspace.get(key), |at| at.get(key)).map_err(failed);
            }
            let found = at.map_or_else(|| keyspace.get_resident(key), |at| at.get_resident(key));
            match found.map_err(failed)? {
                Resident::Found(value) => Ok(value),
                Resident::Elsewhere => Err(Halt::Wait),
            }
        })
    }

    fn has(&self, place: KeyPlace, key: &[u8]) -> Answer<bool> {
        self.read(place, |keyspace, at| {
            let at = at.map(|at| at.keyspace(keyspace));
            if self.may_wait {
                let found =
                    at.map_or_else(|| keyspace.contains_key(key), |at| at.contains_key(key));
                return found.map_err(failed);
            }
            let found =
                at.map_or_else(|| keyspace.contains_resident(key), |at| at.contains_resident(key));
            found.map_err(failed)?.ok_or(Halt::Wait)
        })
    }

    fn expect_elements(&self, keys: &mut dyn Iterator<Item = Vec<u8>>) {
        let elements = &self.store.elements;
        let Some(first) = keys.next().filter(|_| self.may_wait) else { return };
        // If the first one is there, the others mostly are. Errors are met when they are read.
        if matches!(elements.get_resident(&first), Ok(Resident::Elsewhere)) {
            let keys: Vec<_> = std::iter::once(first).chain(keys).collect();
            elements.prefetch(&keys);
        }
    }

    fn walk(&self, walk: KeyWalk<'_>, visit: &mut Visit<'_>) -> Answer<()> {
        let mut range = self.read(walk.space, |keyspace, at| {
            Ok(match at {
                Some(at) => at.keyspace(keyspace).range(walk.range),
                None => keyspace.range(walk.range),
            })
        })?;
        if !walk.with_values {
            range = range.keys_only();
        }
        if !self.may_wait {
            range = range.resident();
        }
        let mut left = VISITED_AT_ONCE;
        while let Some(item) = if walk.is_reversed { range.next_back() } else { range.next() } {
            let item = item.map_err(failed)?;
            if !self.may_wait {
                left = left
                    .checked_sub(KEY_COST + item.key.len() + item.value.len())
                    .ok_or(Halt::Wait)?;
            }
            if visit(&item.key, &item.value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn new_id(&self) -> Answer<u64> {
        self.store.ids.next(&self.store.own, self.may_wait)
    }

    fn may_wait(&self) -> bool {
        self.may_wait
    }

    fn ranks(&self) -> Answer<Option<&Ranks>> {
        match self.at {
            None => Ok(Some(&self.store.ranks)),
            Some(_) => Err(Halt::Hold),
        }
    }

    fn has_ranks(&self, id: u64) -> bool {
        self.at.is_none() && self.store.ranks.ask(id, |_| ()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use cleavedb::Options;
    use parking_lot::Mutex;

    use super::*;

    fn open(dir: &tempfile::TempDir) -> Store {
        Store::open(Db::open(dir.path(), Options::default()).unwrap(), 1).unwrap()
    }

    /// A write can be read before its commit has returned.
    #[test]
    fn what_can_be_read_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir);
        let mut batch = store.db.batch();
        batch.keyspace(&store.databases.load().all[0].keys).put("key", "value").unwrap();
        let seq = store.db.write_numbered(&batch, Durability::Os).unwrap();
        assert_eq!(store.written(), seq);
    }

    #[test]
    fn the_end_of_a_key_waits_for_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir);
        store.keep_ends(true).unwrap();
        let mut effects = Effects::default();
        effects.change((0, "key".as_bytes().into()), Change::String(b"value".into(), Some(5)));
        store.commit(&effects, 1, true).unwrap();
        let told = Mutex::new(Vec::new());
        let tell = |event: KeyEvent| told.lock().push(event.name);
        std::thread::scope(|scope| {
            let held = store.locks.take([&b"key"[..]].into_iter(), false).unwrap();
            let telling = scope.spawn(|| store.tell_ends(6, &tell).unwrap());
            std::thread::sleep(Duration::from_millis(50));
            assert!(told.lock().is_empty());
            drop(held);
            telling.join().unwrap();
        });
        assert_eq!(*told.lock(), ["expired"]);
    }
}
