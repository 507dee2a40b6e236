//! The write cache: what was written and lies in no group yet (HashKV, section 3.2), and its log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use cleavedb_base::SeqNo;
use cleavedb_bench::{BenchError, Result};

/// Bytes that an entry takes beside key and value, about.
const ENTRY: u64 = 96;

/// The newest write of a key.
pub struct Cached {
    /// Number of the write.
    pub seq: SeqNo,
    /// The value; none if the key was deleted.
    pub value: Option<Box<[u8]>>,
}

/// A write that leaves the cache.
pub struct Item {
    /// The key.
    pub key: Vec<u8>,
    /// Number of the write.
    pub seq: SeqNo,
    /// The value; none if the key was deleted.
    pub value: Option<Box<[u8]>>,
}

/// The newest write of each key that was written since the last flush. A write of a key that is
/// there replaces it: hot updates reach no group.
pub struct WriteCache {
    path: PathBuf,
    log: File,
    logged: u64,
    record: Vec<u8>,
    entries: BTreeMap<Vec<u8>, Cached>,
    bytes: u64,
    deleted: usize,
    seq: SeqNo,
}

impl WriteCache {
    /// An empty one that logs to a new file at `path`. Write numbers go on where those of an
    /// earlier one may have ended, by the clock: nothing else is known of it.
    pub fn open(path: &Path) -> Result<Self> {
        let log = File::create(path).map_err(BenchError::io("create", path))?;
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Ok(Self {
            path: path.to_owned(),
            log,
            logged: 0,
            record: Vec::new(),
            entries: BTreeMap::new(),
            bytes: 0,
            deleted: 0,
            seq: now.as_micros() as SeqNo,
        })
    }

    /// Logs a write and keeps it.
    pub fn insert(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.record.clear();
        let lens = [key.len(), value.map_or(usize::MAX, <[u8]>::len)];
        lens.iter().for_each(|len| self.record.extend_from_slice(&len.to_le_bytes()));
        self.record.extend_from_slice(key);
        self.record.extend_from_slice(value.unwrap_or_default());
        // A call for each write, as the other stores do: it survives the death of the process.
        self.log.write_all(&self.record).map_err(BenchError::io("write", &self.path))?;
        self.logged += self.record.len() as u64;
        self.seq += 1;
        self.deleted += usize::from(value.is_none());
        self.bytes += value.map_or(0, <[u8]>::len) as u64;
        let cached = Cached { seq: self.seq, value: value.map(Into::into) };
        match self.entries.get_mut(key) {
            Some(entry) => {
                let before = std::mem::replace(entry, cached);
                self.deleted -= usize::from(before.value.is_none());
                self.bytes -= before.value.map_or(0, |value| value.len() as u64);
            }
            None => {
                self.bytes += key.len() as u64 + ENTRY;
                self.entries.insert(key.to_vec(), cached);
            }
        }
        Ok(())
    }

    /// The newest write of a key, if it is here.
    pub fn get(&self, key: &[u8]) -> Option<&Cached> {
        self.entries.get(key)
    }

    /// All entries from a key on, in order.
    pub fn from(&self, key: &[u8]) -> impl Iterator<Item = (&[u8], &Cached)> {
        let range = self.entries.range::<[u8], _>((Bound::Included(key), Bound::Unbounded));
        range.map(|(key, cached)| (&key[..], cached))
    }

    /// Bytes of memory, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many keys it says are deleted.
    pub fn deleted(&self) -> usize {
        self.deleted
    }

    /// Bytes logged so far.
    pub fn logged(&self) -> u64 {
        self.logged
    }

    /// Empties it, in the order of keys.
    pub fn take(&mut self) -> Vec<Item> {
        (self.bytes, self.deleted) = (0, 0);
        let entries = std::mem::take(&mut self.entries).into_iter();
        entries.map(|(key, Cached { seq, value })| Item { key, seq, value }).collect()
    }

    /// What was taken is durable elsewhere.
    pub fn forget_log(&mut self) -> Result<()> {
        let emptied = self.log.set_len(0).and_then(|()| self.log.rewind());
        emptied.map_err(BenchError::io("empty", &self.path))
    }
}
