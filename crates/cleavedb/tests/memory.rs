//! Resident memory: each preset in a process of its own, phase by phase.
//!
//! What counts is the peak of what is resident, mapped files included, less what the process had
//! before it opened its store and less the caller's own bytes. The small sizes run with all tests;
//! the long run is asked for by name (`docs/testing.md`).

#![cfg(target_os = "linux")]

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use cleavedb::{Db, Durability, ErrorKind, Options, Preset, WriteBatch};
use cleavedb_storage_sim::sim::Rng;
use cleavedb_testkit::budget::of;

/// Set for a child: its directory and what it is to do.
const CHILD: &str = "CLEAVEDB_MEMORY_CHILD";

const MIB: usize = 1 << 20;

/// Records of one batch of ordinary values.
const BATCH: usize = 100;

/// Keys of long values, each of which is written twice.
fn long_keys() -> usize {
    of(1, 3, 3)
}

/// Values of the one long batch.
const BATCH_VALUES: usize = 8;

/// What a child does.
#[derive(Clone, Copy)]
struct Work {
    preset: Preset,
    /// The bound, in bytes, and the part of it that caches records.
    memory: usize,
    record_cache: usize,
    /// Records that are loaded and then updated in drawn order, and the length of their values.
    records: usize,
    value: usize,
    /// Length of a long value, in bytes.
    long: usize,
    /// Length of the long batch, in bytes.
    batch: usize,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { preset, memory, record_cache, records, value, long, batch } = self;
        write!(f, "{preset} {memory} {record_cache} {records} {value} {long} {batch}")
    }
}

impl Work {
    fn parse(text: &str) -> Self {
        let mut words = text.split(' ');
        let preset = Preset::from_name(words.next().unwrap()).unwrap();
        let mut next = || words.next().unwrap().parse().unwrap();
        let (memory, record_cache) = (next(), next());
        let (records, value) = (next(), next());
        Self { preset, memory, record_cache, records, value, long: next(), batch: next() }
    }
}

fn options(work: &Work) -> Options {
    Options {
        durability: Durability::Os,
        memory_bytes: work.memory,
        record_cache_bytes: work.record_cache,
        ..Options::preset(work.preset)
    }
}

/// A figure of this process, in bytes.
fn status(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    let kib: usize =
        line.trim_start_matches(':').trim().strip_suffix(" kB").unwrap().parse().unwrap();
    kib << 10
}

/// Measures one phase after another.
struct Meter {
    before: usize,
}

impl Meter {
    fn start() -> Self {
        Self { before: status("VmRSS") }
    }

    /// Prints the peak since the last phase; `own` bytes of it are the caller's.
    fn end(&self, phase: &str, own: usize) {
        let peak = status("VmHWM").saturating_sub(self.before + own);
        println!("peak {phase} {peak}");
        fs::write("/proc/self/clear_refs", "5").unwrap();
    }
}

/// What the metrics say of memory stays within the bound as well, and leaves a part to jobs.
fn assert_accounted(db: &Db) {
    let metrics = db.metrics();
    let held = metrics.memtable_memory + metrics.window_memory + metrics.spare_memory;
    let caches = metrics.cache_memory + metrics.record_cache_memory;
    assert!(held + caches <= metrics.memory_limit / 10 * 9, "{metrics:?}");
    assert!(metrics.table_memory <= metrics.cache_memory, "{metrics:?}");
}

/// A value that nothing compresses and that its number tells from all others.
fn fill(value: &mut [u8], number: u64) {
    let mut rng = Rng::new(number);
    value.chunks_mut(8).for_each(|word| {
        word.copy_from_slice(&rng.next_u64().to_le_bytes()[..word.len()]);
    });
}

fn update(db: &Db, work: &Work) {
    let mut value = vec![0; work.value];
    let mut rng = Rng::new(7);
    let mut batch = WriteBatch::new();
    for round in 0..2 {
        for at in 0..work.records {
            let key = if round == 0 { at } else { rng.index(work.records) };
            fill(&mut value, (round * work.records + at) as u64);
            batch.put(format!("user{key:016}").as_bytes(), &value).unwrap();
            if (at + 1) % (1000 * BATCH) == 0 {
                assert_accounted(db);
            }
            if (at + 1) % BATCH == 0 {
                db.write_with(&batch, Durability::Os).unwrap();
                batch = WriteBatch::new();
            }
        }
    }
}

/// Gets every record, some of which the cache has to evict.
fn get(db: &Db, work: &Work) {
    for at in 0..work.records {
        let found = db.get(format!("user{at:016}").as_bytes()).unwrap();
        assert_eq!(found.unwrap().len(), work.value);
    }
    assert_accounted(db);
    let metrics = db.metrics();
    assert!(metrics.record_cache_memory > work.record_cache as u64 / 10 * 9, "{metrics:?}");
}

fn long_key(at: usize) -> Vec<u8> {
    format!("long{at}").into_bytes()
}

/// Reads a value and compares it with what `number` names; `expected` is the caller's memory.
fn assert_value(db: &Db, key: &[u8], expected: &mut [u8], number: u64) {
    fill(expected, number);
    let found = db.get(key).unwrap().expect("the value is there");
    assert!(found == *expected, "another value than was written");
}

/// The child. The ordinary test run finds the variable unset.
#[test]
fn child() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let (path, work) = arguments.split_once(' ').unwrap();
    let work = Work::parse(work);
    let mut value = vec![0; work.long];
    // Resident, as the caller's.
    fill(&mut value, 0);
    let mut batch = WriteBatch::new();
    for at in 0..BATCH_VALUES {
        let part = &mut value[..work.batch / BATCH_VALUES];
        fill(part, at as u64);
        batch.put(format!("batch{at}").as_bytes(), part).unwrap();
    }
    let meter = Meter::start();
    let db = Db::open(path, options(&work)).unwrap();
    meter.end("open", 0);
    update(&db, &work);
    meter.end("update", 0);
    if work.record_cache > 0 {
        get(&db, &work);
        meter.end("get", 0);
    }
    db.compact().unwrap();
    db.collect().unwrap();
    meter.end("compact and collect", 0);
    for at in 0..2 * long_keys() {
        fill(&mut value, at as u64);
        db.put_with(long_key(at % long_keys()), &value, Durability::Os).unwrap();
    }
    meter.end("put long values", 0);
    db.compact().unwrap();
    db.collect().unwrap();
    meter.end("compact and collect long values", 0);
    for at in 0..long_keys() {
        assert_value(&db, &long_key(at), &mut value, (at + long_keys()) as u64);
    }
    meter.end("get long values", work.long);
    match db.write_with(&batch, Durability::Os) {
        Ok(()) => meter.end("write a long batch", 0),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            println!("refused {error}");
        }
    }
    db.close().unwrap();
    meter.end("close", 0);
    let db = Db::open(path, options(&work)).unwrap();
    meter.end("open again", 0);
    db.verify().unwrap();
    meter.end("verify", 0);
    db.close().unwrap();
}

/// Runs a child and returns its peaks, in bytes, by phase.
fn peaks(work: Work) -> Vec<(String, usize)> {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), work)
}

fn run(path: &Path, work: Work) -> Vec<(String, usize)> {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture"])
        .env(CHILD, format!("{} {work}", path.join("db").display()))
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success(), "{work}: {out}{err}");
    let peaks = out.lines().filter_map(|line| {
        let (phase, bytes) = line.strip_prefix("peak ")?.rsplit_once(' ')?;
        Some((phase.to_owned(), bytes.parse().ok()?))
    });
    peaks.collect()
}

/// Runs a child and checks that no phase takes more than a tenth above the bound.
fn keeps_its_bound(work: Work) {
    let peaks = peaks(work);
    for (phase, peak) in &peaks {
        println!("{}: {phase}: {} MiB of {}", work.preset, peak / MIB, work.memory / MIB);
    }
    let most = work.memory + work.memory / 10;
    let over = peaks.iter().find(|(_, peak)| *peak > most);
    assert!(over.is_none(), "{work}: {over:?}");
}

fn small(preset: Preset) {
    small_with(preset, 0);
}

/// Records of the small sizes.
fn records() -> usize {
    of(100_000, 400_000, 400_000)
}

fn small_with(preset: Preset, record_cache: usize) {
    let (memory, long, batch) = (48 * MIB + record_cache, 64 * MIB, 128 * MIB);
    let (records, value) = (records(), 100);
    keeps_its_bound(Work { preset, memory, record_cache, records, value, long, batch });
}

fn large(preset: Preset) {
    let (memory, long, batch) = (512 * MIB, 1024 * MIB, 2040 * MIB);
    let (records, value) = (8_000_000, 100);
    keeps_its_bound(Work { preset, memory, record_cache: 0, records, value, long, batch });
}

#[test]
fn cleave() {
    small(Preset::Cleave);
}

#[test]
fn lsm() {
    small(Preset::Lsm);
}

#[test]
fn wisckey() {
    small(Preset::WiscKey);
}

/// Values of 100 bytes, so that what the cache needs for each weighs most; not all have room.
#[test]
fn wisckey_with_a_record_cache() {
    small_with(Preset::WiscKey, 125 * records());
}

#[test]
fn hashkv() {
    small(Preset::HashKv);
}

#[test]
fn ktstore() {
    small(Preset::KtStore);
}

#[test]
fn hoakv() {
    small(Preset::HoaKv);
}

#[test]
fn ohdb() {
    small(Preset::Ohdb);
}

/// A regression: jobs' freed memory stayed with the threads that had used it, 394 MiB in all.
#[test]
fn values_of_256_bytes_in_a_memory_of_256_mib() {
    let (preset, memory, value) = (Preset::KtStore, 256 * MIB, 256);
    let records = of(300_000, 1_000_000, 1_000_000);
    let (long, batch) = (64 * MIB, MIB);
    keeps_its_bound(Work { preset, memory, record_cache: 0, records, value, long, batch });
}

#[test]
#[ignore = "minutes, and 20 GB of disk"]
fn every_preset_at_full_size() {
    Preset::ALL.into_iter().for_each(large);
}
