//! HashKV's values over any of the other stores (HashKV, sections 3.8 and 4.5, experiment 13).
//!
//! Keys and small values lie in the store below, large ones in groups of our own value store:
//! `cleavedb-values`, as it is. What the engine does in the background is done here by the client
//! whose write fills the write cache, as in the paper: a flush, and a collection when the reserved
//! space is used up. This is for a comparison of speed only: no snapshots, and a store that was not
//! closed is lost, though its writes are logged, so that they cost what they must.

mod cache;
mod files;
mod values;

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use cleavedb_base::{EncodedKey, KeyspaceId, SeqNo, ValuePointer};
use cleavedb_bench::engine::VisitPair;
use cleavedb_bench::{BenchError, Engine, Opener, Result, units};
use cleavedb_storage::pages::PagePool;

use cache::{Cached, WriteCache};
use values::Values;

use crate::settings::{self, described, miniature};

/// Name of the one over RocksDB in results.
pub const ON_ROCKSDB: &str = "hashkv-rocksdb";
/// Name of the one over LevelDB in results.
pub const ON_LEVELDB: &str = "hashkv-leveldb";

/// Sizes of the paper's set-up (section 4.1), for 2 GiB of data instead of 40.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Bytes that the groups are made for.
    pub capacity: u64,
    /// Length of a main segment.
    pub main_segment: u64,
    /// Length of a log segment.
    pub log_segment: u64,
    /// Space for log segments, as a part of all main segments.
    pub reserved: f64,
    /// Bytes of the write cache.
    pub write_cache: u64,
    /// Length from which a value is separated.
    pub threshold: u64,
}

const SIZES: Sizes = Sizes {
    capacity: 2 << 30,
    main_segment: 64 << 20,
    log_segment: 1 << 20,
    reserved: 0.3,
    write_cache: 64 << 20,
    threshold: 192,
};

impl Sizes {
    fn divided(self, parts: u64) -> Self {
        Self {
            capacity: self.capacity / parts,
            main_segment: self.main_segment / parts,
            log_segment: self.log_segment / parts,
            write_cache: self.write_cache / parts,
            ..self
        }
    }
}

/// Opens stores whose keys lie in those of another opener.
pub struct OverOpener {
    name: &'static str,
    index: Box<dyn Opener>,
    sizes: Sizes,
}

impl OverOpener {
    /// Called `name`, over the stores of `index`.
    pub fn new(name: &'static str, index: Box<dyn Opener>) -> Self {
        Self { name, index, sizes: SIZES }
    }
}

impl Opener for OverOpener {
    fn name(&self) -> &str {
        self.name
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        let below = directory.join("index");
        std::fs::create_dir_all(&below).map_err(BenchError::io("create", &below))?;
        let index = self.index.open(&below)?;
        let values = Values::open(&directory.join("values"), self.sizes);
        let values = values.map_err(|error| BenchError::engine(self.name, "open", error))?;
        let cache = WriteCache::open(&directory.join("cache.log"))?;
        let state = RwLock::new(State { values, cache });
        let ahead = PagePool::of(256 << 10, 8);
        Ok(Box::new(Over { name: self.name, index, sizes: self.sizes, state, ahead }))
    }

    fn configured(&self, options: &[(String, String)]) -> Result<Box<dyn Opener>> {
        let parts = miniature(self.name, options)?;
        let mut sizes = SIZES.divided(parts);
        if let Some((_, percent)) =
            options.iter().rfind(|(name, _)| name == settings::RESERVED_SPACE)
        {
            let malformed = |why| BenchError::Usage(format!("reserved-space={percent}: {why}"));
            let number = units::parse(percent.trim_end_matches('%')).map_err(malformed)?;
            sizes.reserved = number as f64 / 100.0;
        }
        let index = self.index.configured(options)?;
        Ok(Box::new(Self { name: self.name, index, sizes }))
    }
}

/// What is not in the store below.
struct State {
    values: Values,
    cache: WriteCache,
}

/// An open store.
struct Over {
    name: &'static str,
    index: Box<dyn Engine>,
    sizes: Sizes,
    state: RwLock<State>,
    /// Pages that scans read values ahead into.
    ahead: Arc<PagePool>,
}

/// An entry of the store below: where a value lies, or the value.
const POINTER: u8 = 1;
const INLINE: u8 = 0;

/// The entry of a value that lies at `pointer`.
fn entry_of(seq: SeqNo, pointer: &ValuePointer) -> Vec<u8> {
    let mut room = [0; ValuePointer::ENCODED_LEN_MAX];
    let len = pointer.encode(&mut room);
    [&[POINTER][..], &seq.to_le_bytes()[..], &room[..len]].concat()
}

/// The content of an entry.
enum Entry<'a> {
    Inline(&'a [u8]),
    Pointer(SeqNo, ValuePointer),
}

impl<'a> Entry<'a> {
    fn decode(bytes: &'a [u8]) -> cleavedb_base::Result<Self> {
        let damaged = || cleavedb_base::Error::corruption("an entry of the index is damaged");
        match bytes.split_first().ok_or_else(damaged)? {
            (&INLINE, value) => Ok(Self::Inline(value)),
            (_, place) => {
                let (seq, pointer) = place.split_first_chunk().ok_or_else(damaged)?;
                Ok(Self::Pointer(SeqNo::from_le_bytes(*seq), ValuePointer::decode(pointer)?))
            }
        }
    }
}

impl Over {
    fn failed(&self, action: &'static str) -> impl Fn(cleavedb_base::Error) -> BenchError + use<> {
        let name = self.name;
        move |error| BenchError::engine(name, action, error)
    }

    // A client that panicked has ended its run; the others may go on until they are stopped.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let state = &mut *self.write();
        state.cache.insert(key, value)?;
        if state.cache.bytes() >= self.sizes.write_cache { self.flush(state) } else { Ok(()) }
    }

    /// Moves the write cache to the groups and to the store below, and collects what must be.
    fn flush(&self, state: &mut State) -> Result<()> {
        let State { values, cache } = state;
        let items = cache.take();
        let pointers = values.write(&items).map_err(self.failed("flush"))?;
        for (item, pointer) in items.iter().zip(pointers) {
            match (&item.value, pointer) {
                (None, _) => self.index.delete(&item.key)?,
                (Some(_), Some(pointer)) => {
                    self.index.put(&item.key, &entry_of(item.seq, &pointer))?;
                }
                (Some(value), None) => {
                    self.index.put(&item.key, &[&[INLINE][..], value].concat())?
                }
            }
        }
        cache.forget_log()?;
        while values.is_due() {
            let moved = values.collect().map_err(self.failed("collect"))?;
            if moved.is_none() {
                break;
            }
            for (key, seq, pointer) in moved.into_iter().flatten() {
                self.index.put(&key, &entry_of(seq, &pointer))?;
            }
            values.reclaim();
        }
        Ok(())
    }
}

impl Engine for Over {
    fn name(&self) -> &str {
        self.name
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store(key, Some(value))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let state = self.read();
        if let Some(cached) = state.cache.get(key) {
            cached.value.as_deref().map(visit);
            return Ok(cached.value.is_some());
        }
        let mut entry = Vec::new();
        if !self.index.get(key, &mut |bytes| entry.extend_from_slice(bytes))? {
            return Ok(false);
        }
        match Entry::decode(&entry).map_err(self.failed("get"))? {
            Entry::Inline(value) => visit(value),
            Entry::Pointer(seq, pointer) => {
                let encoded_key = EncodedKey::new(KeyspaceId(0), key);
                let read = state.values.segments().read(pointer, encoded_key.as_bytes(), seq);
                visit(&read.map_err(self.failed("get"))?);
            }
        }
        Ok(true)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.store(key, None)
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        let state = self.read();
        let mut below: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        // What the cache deletes is taken from these.
        self.index.scan(from, limit.saturating_add(state.cache.deleted()), &mut |key, entry| {
            below.push((key.to_vec(), entry.to_vec()));
        })?;
        let found = merged(&state.cache, from, &below, limit);
        let found =
            found.collect::<cleavedb_base::Result<Vec<_>>>().map_err(self.failed("scan"))?;
        let wanted: Vec<ValuePointer> = found
            .iter()
            .filter_map(|(_, what)| what.pointer().map(|(_, pointer)| pointer))
            .collect();
        let segments = state.values.segments();
        let mut chunks = segments.prefetch_records(&wanted, &self.ahead).into_iter();
        for (key, what) in &found {
            match what {
                Shown::Value(value) => visit(key, value),
                Shown::At(seq, pointer) => {
                    let encoded_key = EncodedKey::new(KeyspaceId(0), key);
                    let encoded_key = encoded_key.as_bytes();
                    let read = match chunks.next().flatten() {
                        Some(chunk) => segments.read_in(&chunk, *pointer, encoded_key, *seq),
                        None => segments.read(*pointer, encoded_key, *seq),
                    };
                    visit(key, &read.map_err(self.failed("scan"))?);
                }
            }
        }
        Ok(found.len())
    }

    fn wait_idle(&self) -> Result<()> {
        self.flush(&mut self.write())?;
        self.index.wait_idle()
    }

    fn describe(&self) -> Vec<(String, String)> {
        let Sizes { capacity, main_segment, log_segment, reserved, write_cache, threshold } =
            self.sizes;
        let mut all = described([
            ("keys in", self.index.name().to_owned()),
            ("capacity", units::bytes(capacity)),
            ("main segment", units::bytes(main_segment)),
            ("log segment", units::bytes(log_segment)),
            ("reserved space", format!("{:.0}%", reserved * 100.0)),
            ("write cache", units::bytes(write_cache)),
            ("threshold", units::bytes(threshold)),
            ("flush and collection", "by the client whose write fills the write cache".to_owned()),
            ("settled", "write cache flushed, then as the store below".to_owned()),
        ]);
        let below = self.index.describe().into_iter();
        all.extend(below.map(|(name, value)| (format!("{}: {name}", self.index.name()), value)));
        all
    }

    fn counters(&self) -> Vec<(String, f64)> {
        let state = self.read();
        let own = state.values.counters().chain([("log_written", state.cache.logged())]);
        let mut all = self.index.counters();
        for (name, bytes) in own {
            match all.iter_mut().find(|(other, _)| other == name) {
                Some((_, sum)) => *sum += bytes as f64,
                None => all.push((name.to_owned(), bytes as f64)),
            }
        }
        all
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.flush(&mut self.write())?;
        let failed = self.failed("close");
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.values.close().map_err(failed)?;
        self.index.close()
    }
}

/// What a scan shows of a key.
enum Shown<'a> {
    Value(&'a [u8]),
    At(SeqNo, ValuePointer),
}

impl Shown<'_> {
    fn pointer(&self) -> Option<(SeqNo, ValuePointer)> {
        match self {
            Self::Value(_) => None,
            Self::At(seq, pointer) => Some((*seq, *pointer)),
        }
    }
}

/// The first `limit` keys from `from` on: those of the cache, and those `below` of which the cache
/// has no write. `below` has as many entries as are shown, and one more for each key that the cache
/// deletes: so no key of the cache is shown behind a key below it that was not read.
fn merged<'a>(
    cache: &'a WriteCache,
    from: &[u8],
    below: &'a [(Vec<u8>, Vec<u8>)],
    limit: usize,
) -> impl Iterator<Item = cleavedb_base::Result<(&'a [u8], Shown<'a>)>> {
    let mut cached = cache.from(from).peekable();
    let mut below = below.iter().peekable();
    let next = move || loop {
        let from_cache = match (cached.peek(), below.peek()) {
            (None, None) => return None,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((key, _)), Some((other, _))) => {
                if *key == other.as_slice() {
                    below.next();
                    continue;
                }
                *key < other.as_slice()
            }
        };
        if !from_cache {
            let (key, entry) = below.next()?;
            return Some(Entry::decode(entry).map(|entry| match entry {
                Entry::Inline(value) => (key.as_slice(), Shown::Value(value)),
                Entry::Pointer(seq, pointer) => (key.as_slice(), Shown::At(seq, pointer)),
            }));
        }
        let (key, Cached { value, .. }) = cached.next()?;
        if let Some(value) = value {
            return Some(Ok((key, Shown::Value(value))));
        }
    };
    std::iter::from_fn(next).take(limit)
}

#[cfg(test)]
mod tests;
