//! The catalog: the keyspaces of a database, by name.
//!
//! A keyspace is the range of tree keys that begin with its id (decision 0003). Its name and its
//! options are one record of the *system keyspace*, an ordinary record of the log and the index: so
//! a keyspace is there, after a crash, whenever a write to it is, and to create or drop one takes
//! one commit (decision 0040). The records are read at each open (`docs/format.md`, "System
//! keyspace").

mod dictionaries;
mod record;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use cleavedb_base::key::split_encoded_key;
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_base::sync::{Mutex, MutexGuard};
use cleavedb_base::{Error, ErrorKind, KeyspaceId, Result, SeqNo};

use self::dictionaries::CatalogDictionaries;
use crate::control::compressor::Compressor;
use crate::control::events;
use crate::settings::keyspace_options::KeyspaceOptions;
use crate::settings::options::Options;
use crate::settings::time::Lifetime;

pub(crate) use self::record::{
    DICTIONARIES, FORGOTTEN, NAMES, RANGES, UNTOLD, decode, encode, name_key,
};

/// Name of the keyspace that every database has.
pub(crate) const DEFAULT_NAME: &str = "default";

/// Longest name of a keyspace, in bytes.
const NAME_LEN_MAX: usize = 255;

/// A keyspace as the handles of an open database share it.
#[derive(Debug)]
pub(crate) struct CatalogEntry {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    /// Length from which on values leave the index, in bytes.
    pub(crate) separated_from: usize,
    /// How long values live that have no lifetime of their own.
    pub(crate) lifetime: Lifetime,
    pub(crate) compressor: Compressor,
    /// The keyspace is there, under this name, from this sequence number on at the latest.
    since: SeqNo,
    /// The sequence number of its drop, [`SEQ_MAX`] before.
    dropped: AtomicU64,
    /// The identity of the open database, the same for all of its keyspaces.
    database: Arc<()>,
}

impl CatalogEntry {
    /// Fails if it was dropped. A write checks this under the append lock, where a drop marks it.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        self.check_at(SEQ_MAX - 1)
    }

    /// Fails if it was not there any more as of `seq`.
    #[inline]
    pub(crate) fn check_at(&self, seq: SeqNo) -> Result<()> {
        // Acquire: pairs with the mark of the drop, after which the range may get other keys.
        if seq < self.dropped.load(Ordering::Acquire) { Ok(()) } else { Err(self.gone()) }
    }

    #[cold]
    fn gone(&self) -> Error {
        let what = "the keyspace was dropped; open it again by its name";
        Error::new(ErrorKind::NoKeyspace, what).with("keyspace", &self.name)
    }

    /// The entry of a keyspace that is there from sequence number `since` on.
    pub(crate) fn since(self, since: SeqNo) -> Self {
        Self { since, ..self }
    }

    /// Whether values are stored as they are, but for an expiry.
    #[inline]
    pub(crate) fn stores_plainly(&self) -> bool {
        !self.compressor.is_on()
    }

    /// Marks it as dropped by the commit `seq`, whose caller holds the append lock.
    pub(crate) fn drop_at(&self, seq: SeqNo) {
        self.dropped.store(seq, Ordering::Release);
    }
}

/// A keyspace as batches, snapshots and transactions name it; they take a [`crate::Keyspace`], too.
#[derive(Clone, Debug)]
pub struct KeyspaceRef(pub(crate) Arc<CatalogEntry>);

impl AsRef<Self> for KeyspaceRef {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl KeyspaceRef {
    /// The name of the keyspace; that of the default keyspace is `default`.
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

/// The keyspaces of an open database.
pub(crate) struct Catalog {
    /// The keyspace that every database has.
    pub(crate) default: Arc<CatalogEntry>,
    /// The others, by name. No holder of this lock waits for anything.
    named: Mutex<Named>,
    /// Held while a keyspace is created, changed or dropped, before every other lock. Its holder
    /// commits, so it may wait for jobs: no job may wait for it.
    changing: Mutex<()>,
    pub(crate) dictionaries: CatalogDictionaries,
    /// Length from which on values leave the index whatever a keyspace says, in bytes.
    long_value: usize,
}

/// The keyspaces that have names.
pub(crate) struct Named {
    keyspaces: BTreeMap<String, Arc<CatalogEntry>>,
    /// The named keyspaces, by their ids.
    by_id: BTreeMap<KeyspaceId, Arc<CatalogEntry>>,
    /// Ids of dropped keyspaces, the first dropped first.
    dropped: VecDeque<KeyspaceId>,
    /// An id above those of all keyspaces so far.
    next_id: KeyspaceId,
}

impl Default for Named {
    fn default() -> Self {
        let next_id = KeyspaceId(KeyspaceId::DEFAULT.0 + 1);
        Self {
            keyspaces: BTreeMap::new(),
            by_id: BTreeMap::new(),
            dropped: VecDeque::new(),
            next_id,
        }
    }
}

impl Catalog {
    /// The catalog of a database with these options, before its keyspaces are read.
    pub(crate) fn new(options: &Options) -> Self {
        let dictionaries = CatalogDictionaries::default();
        let compressors = &dictionaries.compressors;
        let default = CatalogEntry {
            id: KeyspaceId::DEFAULT,
            name: DEFAULT_NAME.to_owned(),
            separated_from: options.separated_from(),
            lifetime: KeyspaceOptions::default().lifetime(),
            compressor: Compressor::new(options.value_compression, compressors),
            since: 0,
            dropped: AtomicU64::new(SEQ_MAX),
            database: Arc::default(),
        };
        Self {
            default: Arc::new(default),
            named: Mutex::default(),
            changing: Mutex::default(),
            dictionaries,
            long_value: options.long_value(),
        }
    }

    /// All keyspaces.
    pub(crate) fn entries(&self) -> Vec<Arc<CatalogEntry>> {
        let named = self.named.lock();
        named.all().chain([&self.default]).cloned().collect()
    }

    /// The catalog of a later state of the same database, whose keyspaces are not read yet.
    pub(crate) fn next(&self) -> Self {
        Self {
            default: self.default.clone(),
            named: Mutex::default(),
            changing: Mutex::default(),
            dictionaries: self.dictionaries.next(),
            long_value: self.long_value,
        }
    }

    /// Marks the keyspaces of `earlier` as dropped that are not in this later state, as of `seq`.
    /// The others keep their entries, which handles hold.
    pub(crate) fn take_over(&self, earlier: &Self, seq: SeqNo) {
        let mut named = self.named.lock();
        for entry in earlier.named.lock().all() {
            match named.get(&entry.name).is_some_and(|found| found.id == entry.id) {
                true => named.insert(entry.clone()),
                false => entry.drop_at(seq),
            }
        }
    }

    /// Fails unless `keyspace` is one of this open database.
    #[inline]
    pub(crate) fn check_own(&self, keyspace: &CatalogEntry) -> Result<()> {
        if Arc::ptr_eq(&keyspace.database, &self.default.database) {
            return Ok(());
        }
        let what = "a keyspace of another database, or of an earlier open, was used";
        Err(Error::new(ErrorKind::InvalidArgument, what).with("keyspace", &keyspace.name))
    }

    /// The keyspace of a tree key, and the key in it; `None` if it was dropped.
    pub(crate) fn find<'k>(&self, encoded_key: &'k [u8]) -> Option<(Arc<CatalogEntry>, &'k [u8])> {
        let (id, key) = split_encoded_key(encoded_key)?;
        if id == KeyspaceId::DEFAULT {
            return Some((self.default.clone(), key));
        }
        self.named.lock().by_id.get(&id).map(|entry| (entry.clone(), key))
    }

    /// The name of keyspace `id`, if it is there since `seq` or before.
    pub(crate) fn name_since(&self, id: KeyspaceId, seq: SeqNo) -> Option<String> {
        let named = self.named.lock();
        named.by_id.get(&id).filter(|entry| entry.since <= seq).map(|entry| entry.name.clone())
    }

    /// The names of all keyspaces, by their ids.
    pub(crate) fn names(&self) -> BTreeMap<KeyspaceId, String> {
        let named = self.named.lock();
        let all = named.all().chain([&self.default]);
        all.map(|entry| (entry.id, entry.name.clone())).collect()
    }

    /// Keeps other threads from creating, changing or dropping a keyspace until the guard is
    /// dropped. In an event listener this fails if another thread does so now, since that may wait
    /// for the job that the listener is told of.
    pub(crate) fn change(&self) -> Result<MutexGuard<'_, ()>> {
        lock_to_wait(&self.changing)
    }

    /// The lock on the keyspaces that have names.
    pub(crate) fn named(&self) -> MutexGuard<'_, Named> {
        self.named.lock()
    }

    /// A keyspace of this open database.
    pub(crate) fn entry(
        &self,
        id: KeyspaceId,
        name: &str,
        options: KeyspaceOptions,
    ) -> CatalogEntry {
        let usual = self.default.separated_from;
        let compressed = options.compression.unwrap_or(self.default.compressor.how());
        CatalogEntry {
            id,
            name: name.to_owned(),
            separated_from: options.min_separated.map_or(usual, |least| least.min(self.long_value)),
            lifetime: options.lifetime(),
            compressor: Compressor::new(compressed, &self.dictionaries.compressors),
            since: SEQ_MAX,
            dropped: AtomicU64::new(SEQ_MAX),
            database: self.default.database.clone(),
        }
    }
}

/// A lock whose holder may wait for jobs: an event listener fails if it is not free.
fn lock_to_wait<T>(lock: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    match lock.try_lock() {
        Some(guard) => Ok(guard),
        None => {
            events::check_may_wait()?;
            Ok(lock.lock())
        }
    }
}

impl Named {
    /// All of them, by their names.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<CatalogEntry>> {
        self.keyspaces.values()
    }

    /// The keyspace `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<CatalogEntry>> {
        self.keyspaces.get(name)
    }

    /// Adds a keyspace, or takes the place of one with its name and its id.
    pub(crate) fn insert(&mut self, entry: Arc<CatalogEntry>) {
        self.next_id = self.next_id.max(KeyspaceId(entry.id.0 + 1));
        self.by_id.insert(entry.id, entry.clone());
        self.keyspaces.insert(entry.name.clone(), entry);
    }

    /// Removes a keyspace, which was dropped.
    pub(crate) fn remove(&mut self, entry: &CatalogEntry) {
        self.keyspaces.remove(&entry.name);
        self.by_id.remove(&entry.id);
        self.dropped.push_back(entry.id);
    }

    /// The ids that no keyspace has, as first and last of each gap between those that are in use.
    pub(crate) fn gaps(&self) -> Vec<(KeyspaceId, KeyspaceId)> {
        let taken = || self.by_id.keys().map(|id| id.0);
        let ends = taken().chain([KeyspaceId::SYSTEM.0]);
        let begins = [KeyspaceId::DEFAULT.0].into_iter().chain(taken());
        let gaps = begins.zip(ends).filter(|(begin, end)| begin + 1 < *end);
        gaps.map(|(begin, end)| (KeyspaceId(begin + 1), KeyspaceId(end - 1))).collect()
    }

    /// An id that no keyspace has and that is not `in_use` otherwise: that of the keyspace that was
    /// dropped first, or else a new one. All others are looked through only if there is none.
    pub(crate) fn free_id(&mut self, in_use: impl Fn(KeyspaceId) -> bool) -> Result<KeyspaceId> {
        if let Some(id) = self.dropped.pop_front_if(|id| !in_use(*id)) {
            return Ok(id);
        }
        if self.next_id < KeyspaceId::SYSTEM {
            return Ok(self.next_id);
        }
        let gaps = self.gaps();
        let mut ids = gaps.iter().flat_map(|(first, last)| first.0..=last.0).map(KeyspaceId);
        let found = ids.find(|id| !in_use(*id)).ok_or_else(|| {
            let what = "a database has at most 65,534 keyspaces, those counted whose data is still \
                        being removed; drop some, or wait";
            Error::new(ErrorKind::InvalidArgument, what)
        })?;
        self.dropped = ids.collect();
        Ok(found)
    }
}

/// Fails unless `name` can be that of a keyspace besides the default one.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let what = match name.len() {
        0 => "a keyspace needs a name",
        1..=NAME_LEN_MAX if name == DEFAULT_NAME => {
            "every database has the default keyspace: it is neither created nor dropped"
        }
        1..=NAME_LEN_MAX => return Ok(()),
        _ => "the name of a keyspace has at most 255 bytes",
    };
    Err(Error::new(ErrorKind::InvalidArgument, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(ids: impl IntoIterator<Item = u16>) -> Named {
        let (catalog, mut named) = (Catalog::new(&Options::default()), Named::default());
        for id in ids {
            let entry = catalog.entry(KeyspaceId(id), &id.to_string(), KeyspaceOptions::default());
            named.insert(Arc::new(entry));
        }
        named
    }

    fn drop_one(named: &mut Named, id: u16) {
        let entry = named.by_id[&KeyspaceId(id)].clone();
        named.remove(&entry);
    }

    #[test]
    fn the_id_that_was_dropped_first_is_taken_again() {
        let mut named = named([1, 3, 4, 5]);
        assert_eq!(named.free_id(|_| false).unwrap(), KeyspaceId(6));
        drop_one(&mut named, 4);
        drop_one(&mut named, 1);
        assert_eq!(named.free_id(|id| id.0 == 4).unwrap(), KeyspaceId(6));
        assert_eq!(named.free_id(|_| false).unwrap(), KeyspaceId(4));
        assert_eq!(named.free_id(|_| false).unwrap(), KeyspaceId(1));
        assert_eq!(named.free_id(|_| false).unwrap(), KeyspaceId(6));
    }

    /// However many there are, and were dropped.
    #[test]
    fn a_free_id_is_found_at_once_until_all_were_used() {
        let last = KeyspaceId::SYSTEM.0 - 1;
        let mut named = named((1..=last - 1).filter(|id| *id != 7));
        (1000..9000).for_each(|id| drop_one(&mut named, id));
        let asked = std::cell::Cell::new(0);
        let is_left = |id: KeyspaceId| {
            asked.set(asked.get() + 1);
            (1000..9000).contains(&id.0)
        };
        assert_eq!(named.free_id(is_left).unwrap(), KeyspaceId(last));
        assert_eq!(asked.get(), 1);
        let entry =
            Catalog::new(&Options::default()).entry(KeyspaceId(last), "last", Default::default());
        named.insert(Arc::new(entry));
        assert_eq!(named.free_id(is_left).unwrap(), KeyspaceId(7), "one from before the open");
        assert!(named.free_id(|_| true).is_err());
        assert_eq!(named.free_id(|_| false).unwrap(), KeyspaceId(1000));
    }

    #[test]
    fn gaps_are_the_ids_without_a_keyspace() {
        let last = KeyspaceId::SYSTEM.0 - 1;
        let with = |ids: &[u16]| {
            let gaps = named(ids.iter().copied()).gaps();
            gaps.into_iter().map(|(first, end)| (first.0, end.0)).collect::<Vec<_>>()
        };
        assert_eq!(with(&[]), [(1, last)]);
        assert_eq!(with(&[1, 2, 5]), [(3, 4), (6, last)]);
        assert_eq!(with(&[2, last]), [(1, 1), (3, last - 1)]);
    }

    #[test]
    fn a_keyspace_is_there_up_to_its_drop() {
        let (catalog, other) =
            (Catalog::new(&Options::default()), Catalog::new(&Options::default()));
        let entry = catalog.entry(KeyspaceId(1), "name", KeyspaceOptions::default());
        assert!(entry.check().is_ok() && entry.check_at(9).is_ok());
        entry.drop_at(8);
        assert!(entry.check_at(7).is_ok());
        assert_eq!(entry.check_at(8).unwrap_err().kind(), ErrorKind::NoKeyspace);
        assert!(entry.check().is_err());
        assert!(catalog.check_own(&entry).is_ok() && other.check_own(&entry).is_err());
    }
}
