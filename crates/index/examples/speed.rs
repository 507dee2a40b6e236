//! Speed of the index in reads, merges and compactions: `cargo run --release -p cleavedb-index
//! --example speed [directory]`. Without a directory the tables lie in memory, so that the CPU is
//! measured.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::record::FileIdentity;
use cleavedb_base::{EntryKind, FileNumber, Result, ValuePointer};
use cleavedb_index::cache::BlockCache;
use cleavedb_index::compaction::job::{
    CompactionJob, SubcompactionMode, TableFactory, ValueGcObserver,
};
use cleavedb_index::compaction::leveled::pick_full;
use cleavedb_index::compaction::{CompactionOptions, Constraints};
use cleavedb_index::edit::{RunPosition, VersionEdit};
use cleavedb_index::entry::Entry;
use cleavedb_index::merge::MergeIter;
use cleavedb_index::table::ReadMode;
use cleavedb_index::table_builder::TableBuilder;
use cleavedb_index::table_format::{Compression, TableOptions};
use cleavedb_index::table_handle::TableStore;
use cleavedb_index::version::Version;
use cleavedb_index::visible::VisibleIter;
use cleavedb_storage::{Disk, File, ObsoleteFiles, Storage};
use cleavedb_storage_sim::Sim;

const RUNS: u64 = 4;
const KEYS_PER_RUN: u64 = 500_000;
const READS: u64 = 500_000;

struct Factory {
    store: Arc<TableStore>,
    next: AtomicU64,
}

impl TableFactory for Factory {
    fn create(&self, _: u8) -> Result<(FileNumber, Arc<dyn File>, FileIdentity)> {
        let number = FileNumber(self.next.fetch_add(1, Ordering::Relaxed));
        Ok((number, self.store.create(number)?, self.store.identity(number)))
    }
}

struct NoSink;

impl ValueGcObserver for NoSink {
    fn owner_removed(&mut self, _: Entry<'_>) -> Result<()> {
        Ok(())
    }

    fn split(&self) -> Self {
        Self
    }

    fn merge(&mut self, _: Self) {}
}

/// A 24-byte tree key in which the runs interleave.
fn key(n: u64) -> [u8; 24] {
    let mut key = *b"\0\0user000000000000000000";
    let mut rest = n;
    for digit in key[6..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn per_second(what: &str, count: u64, bytes: u64, begin: Instant) {
    let seconds = begin.elapsed().as_secs_f64();
    let mega = |n: u64| n as f64 / seconds / 1e6;
    println!("{what:32} {:7.2} M/s {:7.0} MB/s", mega(count), mega(bytes));
}

fn flush(
    factory: &Factory,
    options: &TableOptions,
    run: u64,
    pointers: bool,
) -> Result<VersionEdit> {
    let (number, file, identity) = factory.create(0)?;
    let mut builder = TableBuilder::new(file, identity, number, options)?;
    let (mut value, inline) = ([0; ValuePointer::ENCODED_LEN_MAX], [b'v'; 100]);
    for i in 0..KEYS_PER_RUN {
        let n = i * RUNS + run;
        let pointer = ValuePointer { file: FileNumber(123_456), offset: n * 1100, len: 1100 };
        let len = pointer.encode(&mut value);
        let (kind, value) = match pointers {
            true => (EntryKind::Pointer, &value[..len]),
            false => (EntryKind::Inline, &inline[..]),
        };
        let seq = run * KEYS_PER_RUN + hash64(&i.to_le_bytes(), 0) % KEYS_PER_RUN;
        builder.add(Entry { key: &key(n), seq, kind, repeat: false, value })?;
    }
    let mut edit = VersionEdit::default();
    edit.add_run(RunPosition { epoch: run, order: 0 }, [builder.finish()?]);
    Ok(edit)
}

fn read(version: &Version, rounds: u64) -> Result<()> {
    let keys = RUNS * KEYS_PER_RUN;
    let kinds = [("get, cold cache", 0), ("get, warm cache", 0), ("get of an absent key", 1)];
    for (what, miss) in kinds {
        let begin = Instant::now();
        let mut found = 0;
        for i in 0..rounds {
            let mut key = key(hash64(&i.to_le_bytes(), 1) % keys);
            key[23] += miss * 64;
            found += u64::from(version.get(&key, hash64(&key, 0), SEQ_MAX)?.is_some());
        }
        assert_eq!(found, if miss == 0 { rounds } else { 0 });
        per_second(what, rounds, 0, begin);
    }
    for forward in [true, false] {
        let merged = MergeIter::new(version.iters(None, None, ReadMode::Cached));
        let mut iter = VisibleIter::new(merged, SEQ_MAX, None, None);
        let begin = Instant::now();
        let mut bytes = 0;
        if forward {
            iter.seek_first()?
        } else {
            iter.seek_last()?
        }
        while iter.valid() {
            bytes += (iter.key().len() + iter.value().len()) as u64;
            if forward { iter.next()? } else { iter.prev()? }
        }
        let what = if forward { "scan forwards" } else { "scan backwards" };
        per_second(what, keys, bytes, begin);
    }
    Ok(())
}

fn measure(
    storage: Arc<dyn Storage>,
    options: &TableOptions,
    pointers: bool,
    first: u64,
) -> Result<u64> {
    let kind = if pointers { "pointers" } else { "100 B values" };
    println!("{kind}, {:?}", options.compression);
    let cache = Arc::new(BlockCache::new(1 << 30));
    let store = TableStore::new(storage, 1, cache, Arc::new(ObsoleteFiles::default()));
    let store = Arc::new(store);
    let factory = Factory { store: Arc::clone(&store), next: AtomicU64::new(first) };
    let mut version = Version::empty(store);
    let begin = Instant::now();
    for run in 0..RUNS {
        version = version.apply(&flush(&factory, options, run, pointers)?)?;
    }
    let raw = version.tables().map(|(_, table)| table.meta().raw_bytes).sum();
    let size = version.level_bytes(0);
    per_second("build tables", RUNS * KEYS_PER_RUN, raw, begin);
    read(&version, READS)?;
    let all = pick_full(&version, &Constraints::default(), None, None).expect("level 0 has runs");
    let compaction = CompactionOptions { table_bytes: 8 << 20, ..CompactionOptions::default() };
    let compact = |halves, what| -> Result<_> {
        let (all, none) = (all.clone(), Vec::new());
        let mut job = CompactionJob::prepare(&version, all, none, &compaction, options);
        let begin = Instant::now();
        job.run(&factory, &mut NoSink, halves, &AtomicBool::new(false))?;
        per_second(what, RUNS * KEYS_PER_RUN, raw, begin);
        version.apply(&job.finish().0)
    };
    compact(SubcompactionMode::AtOnce, "compact 4 runs into 1, in halves")?;
    let version = compact(SubcompactionMode::Never, "compact 4 runs into 1")?;
    println!("{:32} {:7.1} of {:.1} MB", "size", size as f64 / 1e6, raw as f64 / 1e6);
    read(&version, READS)?;
    Ok(factory.next.into_inner())
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let sim = Sim::new();
    sim.stop_recording();
    let storage: Arc<dyn Storage> = match std::env::args().nth(1) {
        Some(path) => Arc::new(Disk::open(path, true)?),
        None => Arc::new(sim),
    };
    let mut next = 1;
    for pointers in [false, true] {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let options = TableOptions { compression, ..TableOptions::default() };
            next = measure(Arc::clone(&storage), &options, pointers, next)?;
        }
    }
    Ok(())
}
