//! Whole runs on an engine in memory: all workloads pass on a right one, and each kind of wrong one
//! is found out.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use cleavedb_bench::config::Config;
use cleavedb_bench::counters::HOT_KEYS;
use cleavedb_bench::engine::VisitPair;
use cleavedb_bench::keys::{KeyOrder, KeySize};
use cleavedb_bench::null::{NullEngine, harness_cost};
use cleavedb_bench::observer::Silent;
use cleavedb_bench::recording::RecordingOpener;
use cleavedb_bench::result::{Checks, Line, Verification};
use cleavedb_bench::scratch::Scratch;
use cleavedb_bench::sizes::ValueSizes;
use cleavedb_bench::trace::{Replay, Trace, Writer};
use cleavedb_bench::warm::WarmUp;
use cleavedb_bench::workload::{Action, WORKLOADS, select};
use cleavedb_bench::{BenchError, Engine, Opener, PhaseResult, Result, Session};

/// What an engine does wrong, once in a hundred operations of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A put is acknowledged and forgotten.
    LosesPuts,
    /// A delete is acknowledged and forgotten.
    LosesDeletes,
    /// A read returns the value with one bit changed.
    FlipsBits,
    /// A read returns another key's value.
    MixesKeys,
    /// A read finds a key that was never written, with the value that it would have.
    Invents,
    /// A scan leaves out a record.
    SkipsInScans,
    /// A put fails.
    Fails,
    /// A put panics.
    Panics,
    /// One read takes 50 ms.
    StallsOnce,
    /// Nothing: every read makes a key hot, until 2,200 are.
    IsHot,
}

type Map = Arc<RwLock<BTreeMap<Vec<u8>, Vec<u8>>>>;

/// Keeps its map when it is closed, as a disk would.
struct Memory {
    map: Map,
    fault: Fault,
    operations: AtomicU64,
}

struct MemoryOpener {
    fault: Fault,
    stored: RwLock<Option<(PathBuf, Map)>>,
}

impl MemoryOpener {
    fn new(fault: Fault) -> Self {
        Self { fault, stored: RwLock::new(None) }
    }
}

impl Opener for MemoryOpener {
    fn name(&self) -> &str {
        "memory"
    }

    /// The stored map again, unless the directory was emptied meanwhile.
    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        let marker = directory.join("stored");
        let mut stored = self.stored.write().unwrap();
        if !marker.exists() {
            *stored = None;
            std::fs::write(&marker, "").map_err(BenchError::io("write", &marker))?;
        }
        let (_, map) = stored.get_or_insert_with(|| (directory.to_owned(), Map::default()));
        let (map, operations) = (map.clone(), AtomicU64::new(0));
        Ok(Box::new(Memory { map, fault: self.fault, operations }))
    }
}

impl Memory {
    fn goes_wrong(&self, fault: Fault) -> bool {
        self.fault == fault && self.operations.fetch_add(1, Ordering::Relaxed) % 100 == 99
    }
}

impl Engine for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.goes_wrong(Fault::Fails) {
            return Err(BenchError::engine("memory", "put", "out of luck"));
        }
        assert!(!self.goes_wrong(Fault::Panics), "an engine's assertion");
        if !self.goes_wrong(Fault::LosesPuts) {
            self.map.write().unwrap().insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if self.fault == Fault::StallsOnce && self.operations.fetch_add(1, Ordering::Relaxed) == 99
        {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        self.goes_wrong(Fault::IsHot);
        let map = self.map.read().unwrap();
        let Some(value) = map.get(key) else {
            let invents = self.goes_wrong(Fault::Invents);
            let null = || NullEngine::new(&ValueSizes::Fixed(50), KeySize::Long);
            return if invents { null().get(key, visit) } else { Ok(false) };
        };
        if self.goes_wrong(Fault::FlipsBits) {
            let mut value = value.clone();
            *value.last_mut().unwrap() ^= 1;
            visit(&value);
        } else if self.goes_wrong(Fault::MixesKeys) {
            visit(map.values().next().unwrap());
        } else {
            visit(value);
        }
        Ok(true)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        if !self.goes_wrong(Fault::LosesDeletes) {
            self.map.write().unwrap().remove(key);
        }
        Ok(())
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        let map = self.map.read().unwrap();
        let range = map.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        let kept = range.filter(|_| !self.goes_wrong(Fault::SkipsInScans));
        Ok(kept.take(limit).map(|(key, value)| visit(key, value)).count())
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn describe(&self) -> Vec<(String, String)> {
        vec![("map".into(), "BTreeMap".into())]
    }

    fn counters(&self) -> Vec<(String, f64)> {
        let hot = (self.operations.load(Ordering::Relaxed).min(2200)) as f64;
        if self.fault == Fault::IsHot { vec![(HOT_KEYS.into(), hot)] } else { Vec::new() }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

fn config(threads: u32) -> Config {
    Config { threads, seed: 7, ..Config::new(3000, 50) }
}

fn run(fault: Fault, config: &Config, names: &[&str]) -> Result<(Vec<PhaseResult>, Verification)> {
    let directory = tempfile::tempdir().unwrap();
    let scratch = Scratch::claim(&directory.path().join("bench"))?;
    let opener = MemoryOpener::new(fault);
    let mut session = Session::new(&opener, &scratch, config.clone(), None, &Silent)?;
    let workloads = select(names)?;
    let results: Result<Vec<_>> = workloads.iter().map(|entry| session.run(entry)).collect();
    let results = results?;
    let verification = session.verify()?;
    session.close()?;
    Ok((results, verification))
}

#[test]
fn a_right_engine_passes_every_workload() {
    for threads in [1, 3] {
        for entry in WORKLOADS {
            let names = ["load", "update", entry.name, "ycsb-a"];
            let (results, found) = run(Fault::None, &config(threads), &names).unwrap();
            let problems: u64 = results.iter().map(PhaseResult::problems).sum();
            assert_eq!(problems, 0, "{}, {threads} threads", entry.name);
            assert!(found.passed() && found.compared > 0, "{}: {found:?}", entry.name);
        }
    }
}

/// The figures of a hot store were those of its filling, and no result said so.
#[test]
fn a_store_is_warm_before_it_is_measured_and_the_result_says_how() {
    let config = Config { warm_up: Some(WarmUp::Still), operations: Some(600), ..config(2) };
    let names = ["load", "ycsb-a", "scan-100", "readrandom-cold"];
    for (fault, least, hot_keys) in [(Fault::IsHot, 3001, Some(2200)), (Fault::None, 3000, None)] {
        let (results, found) = run(fault, &config, &names).unwrap();
        let [load, updates, scans, cold] = &results[..] else { panic!("four phases") };
        assert_eq!((&load.warm, &cold.warm), (&None, &None), "{fault:?}");
        let warm = updates.warm.clone().unwrap();
        assert!(warm.still && warm.hot_keys == hot_keys, "{warm:?}");
        assert!((least..=12_000).contains(&warm.operations), "{warm:?}");
        assert_eq!(scans.warm.as_ref().unwrap().operations, 4 * 8, "they read a pass");
        assert_eq!(updates.speed.operations, 600, "what warmed the store is not measured");
        let line = serde_json::to_value(Line::Phase(Box::new(updates.clone()))).unwrap();
        assert_eq!(line["warm"]["operations"], warm.operations);
        assert!(found.passed() && found.compared == 3000, "{found:?}");
    }
}

#[test]
fn counts_are_those_of_the_workload() {
    let (results, found) = run(Fault::None, &config(2), &["load", "ycsb-d", "ycsb-f"]).unwrap();
    let [load, latest, modify] = &results[..] else { panic!("three phases") };
    assert_eq!(load.speed.operations, 3000);
    assert_eq!((load.user.written, load.user.live), (3000 * 74, Some(3000 * 74)));
    let inserted = latest.latency_by_action["insert"].count;
    assert_eq!(latest.latency.count, 1500);
    assert_eq!(found.records, 3000 + inserted);
    let modified = modify.latency_by_action["read-modify-write"].count;
    assert_eq!(modify.user.written, modified * 74);
    assert_eq!(modify.user.read, 1500 * 74);
}

#[test]
fn every_fault_is_found_out() {
    for (fault, names) in [
        (Fault::LosesPuts, &["load"][..]),
        (Fault::LosesPuts, &["load", "update"]),
        (Fault::LosesDeletes, &["load", "churn"]),
        (Fault::FlipsBits, &["load", "readrandom"]),
        (Fault::MixesKeys, &["load", "readrandom"]),
        (Fault::Invents, &["load", "readmissing"]),
        (Fault::SkipsInScans, &["load"]),
    ] {
        let (results, found) = run(fault, &config(1), names).unwrap();
        let seen = results.iter().any(|result| result.problems() > 0);
        assert!(seen || !found.passed(), "{fault:?} in {names:?}");
        let first = results.iter().find_map(|result| result.checks.first_problem.clone());
        assert!(first.or(found.first_problem).is_some_and(|words| words.contains("user")));
    }
}

#[test]
fn keys_that_are_not_there_are_looked_for_in_every_order() {
    for key_order in [KeyOrder::Hashed, KeyOrder::Ordered, KeyOrder::Shuffled] {
        let config = Config { key_order, ..config(2) };
        let (results, _) = run(Fault::None, &config, &["load", "readmissing"]).unwrap();
        let Checks { not_found, first_problem, .. } = &results[1].checks;
        assert_eq!((*not_found, first_problem), (1500, &None), "{key_order:?}");
        let (results, _) = run(Fault::Invents, &config, &["load", "readmissing"]).unwrap();
        let found = results[1].checks.first_problem.as_deref().unwrap();
        assert!(found.contains("never written"), "{found}");
    }
}

/// A value that was right once is wrong now, though its bytes are those of its key.
#[test]
fn an_old_value_is_not_the_last_one() {
    let (results, found) =
        run(Fault::LosesPuts, &config(1), &["load", "update", "update"]).unwrap();
    assert!(results.iter().all(|result| result.checks.wrong_values == 0));
    assert!(found.wrong > 0 && found.missing > 0, "{found:?}");
}

#[test]
fn a_failing_engine_ends_the_run_with_its_own_words() {
    for threads in [1, 4] {
        let failed = run(Fault::Fails, &config(threads), &["load"]).unwrap_err();
        assert!(failed.to_string().contains("out of luck"), "{failed}");
        let panicked = run(Fault::Panics, &config(threads), &["load"]).unwrap_err();
        assert!(panicked.to_string().contains("an engine's assertion"), "{panicked}");
    }
}

#[test]
fn time_and_counts_end_a_workload_but_never_a_load() {
    let duration = Some(std::time::Duration::from_millis(50));
    let timed = Config { duration, ..config(2) };
    let (results, found) = run(Fault::None, &timed, &["load", "ycsb-a"]).unwrap();
    assert_eq!(results[0].speed.operations, 3000);
    assert!(results[1].speed.running_seconds >= 0.05 && found.passed());
    let counted = Config { operations: Some(77), ..config(2) };
    let (results, _) = run(Fault::None, &counted, &["load", "update"]).unwrap();
    assert_eq!((results[0].speed.operations, results[1].speed.operations), (3000, 77));
}

#[test]
fn a_result_survives_its_json() {
    let (results, _) = run(Fault::None, &config(1), &["load"]).unwrap();
    let line = Line::Phase(Box::new(results[0].clone()));
    let json = serde_json::to_string(&line).unwrap();
    assert!(json.starts_with(r#"{"kind":"phase","engine":"memory""#), "{json}");
    let back: Line = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), json);
}

#[test]
fn the_harness_costs_little() {
    let load = select(&["load"]).unwrap().pop().unwrap();
    let cost = harness_cost(&load, &Config::new(3000, 1024)).unwrap();
    // Far above what an idle machine needs: this one may be busy, and this build unoptimised.
    assert!(cost.as_nanos() < 20_000, "{cost:?}");
}

/// The trace of a run on a right engine, replayed on another one, gives the same kinds of
/// operations and passes; what it does is verified key by key, whatever the number of clients.
#[test]
fn a_recorded_run_replays_on_an_empty_store_and_is_verified() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace");
    let scratch = Scratch::claim(&directory.path().join("bench")).unwrap();
    let (opener, config) = (MemoryOpener::new(Fault::None), config(2));
    let recording = RecordingOpener::new(&opener, &path).unwrap();
    let mut session = Session::new(&recording, &scratch, config.clone(), None, &Silent).unwrap();
    for workload in select(&["load", "ycsb-f", "churn", "ycsb-e"]).unwrap() {
        session.run(&workload).unwrap();
    }
    session.close().unwrap();
    recording.finish().unwrap();
    for threads in [1, 3] {
        for fault in [Fault::None, Fault::LosesPuts, Fault::LosesDeletes] {
            let trace = Arc::new(Trace::open(&path).unwrap());
            let operations = trace.operations();
            let replay = Some(Replay { trace, timed: false });
            let config = Config { threads, replay, ..config.clone() };
            let (results, found) = run(fault, &config, &["trace"]).unwrap();
            assert_eq!(results[0].speed.operations, operations, "{threads} threads");
            assert_eq!(results[0].problems(), 0, "{:?}", results[0].checks);
            let right = fault == Fault::None;
            assert_eq!(found.passed(), right, "{fault:?}, {threads} threads: {found:?}");
            assert!(found.compared > 1000 && results[0].latency_by_action.contains_key("scan"));
        }
    }
}

/// Keys of a trace need not be ours, nor its values as large as ours must be.
#[test]
fn a_foreign_trace_is_verified_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace");
    let mut writer = Writer::create(&path).unwrap();
    for number in 0..2000u64 {
        let key = format!("k{:03}", number % 500);
        writer.add(number, Action::Update, key.as_bytes(), number % 40).unwrap();
    }
    writer.add(9000, Action::Delete, b"k007", 0).unwrap();
    writer.add(9000, Action::Scan, b"k000", 20).unwrap();
    writer.add(20_000, Action::Read, b"k007", 0).unwrap();
    writer.finish().unwrap();
    let trace = Arc::new(Trace::open(&path).unwrap());
    let replay = |timed| Some(Replay { trace: trace.clone(), timed });
    let timed = Config { replay: replay(true), ..config(2) };
    let (results, found) = run(Fault::None, &timed, &["trace"]).unwrap();
    assert!(found.passed() && found.compared == 499 && found.records == 499, "{found:?}");
    assert_eq!((results[0].checks.not_found, results[0].problems()), (1, 0));
    assert!(results[0].speed.running_seconds >= 0.02, "the last one begins after 20 ms");
    assert!(results[0].conditions.latency_from_intended_start);
    // However many records the scale names, they are not those of the trace.
    let fast = Config { records: 5_000_000, replay: replay(false), ..config(1) };
    let (_, found) = run(Fault::None, &fast, &["trace"]).unwrap();
    assert!(found.passed() && found.compared == 499, "{found:?}");
    let (_, found) = run(Fault::LosesPuts, &fast, &["trace"]).unwrap();
    assert!(!found.passed(), "{found:?}");
    assert!(run(Fault::None, &config(1), &["trace"]).unwrap_err().to_string().contains("--trace"));
}

/// An engine that stalls once: in a closed loop one operation pays, in an open loop all that had to
/// wait behind it do.
#[test]
fn an_open_loop_charges_a_stall_to_all_that_waited() {
    let run_at = |rate: Option<&str>| {
        let rate = rate.map(|rate| rate.parse().unwrap());
        let config = Config {
            operations: Some(400),
            warm_up: Some(WarmUp::Operations(0)),
            rate,
            ..config(1)
        };
        let (results, _) = run(Fault::StallsOnce, &config, &["load", "readrandom"]).unwrap();
        results[1].clone()
    };
    let open = run_at(Some("2000"));
    // 50 ms at 2,000 a second: a hundred operations wait, 50 of them for more than 25 ms.
    assert!(open.latency.p90_us > 20_000.0, "{:?}", open.latency);
    assert!(open.speed.running_seconds >= 0.199, "{:?}", open.speed);
    assert_eq!(open.conditions.target_rate, Some(2000.0));
    let closed = run_at(None);
    assert!(closed.latency.p90_us < 20_000.0 && closed.latency.max_us >= 50_000.0);
    assert!(!closed.conditions.latency_from_intended_start);
}

#[test]
fn keys_of_sixteen_bytes_and_keys_that_are_missing() {
    let config = Config { key_size: KeySize::Short, ..config(2) };
    let names = ["load", "readmissing", "ycsb-a", "scan-100", "readbatch", "churn"];
    let (results, found) = run(Fault::None, &config, &names).unwrap();
    assert!(found.passed() && found.compared > 1000, "{found:?}");
    assert_eq!((results[0].user.written, results[0].conditions.key_bytes), (3000 * 66, 16));
    let missing = &results[1];
    assert_eq!((missing.problems(), missing.user.read), (0, 0));
    assert_eq!(missing.checks.not_found, missing.speed.operations);
    let batches = &results[4];
    assert_eq!((batches.problems(), batches.checks.not_found), (0, 0));
    assert_eq!(batches.user.read, batches.speed.operations * 32 * 66);
    let (_, found) = run(Fault::SkipsInScans, &config, &names[..1]).unwrap();
    assert!(!found.passed());
}

#[test]
fn sizes_keys_and_scan_lengths_may_differ() {
    for sizes in ["uniform:8:300", "pareto", "zipfian:40:8192", "two:40:1024:50"] {
        for key_order in [KeyOrder::Hashed, KeyOrder::Ordered, KeyOrder::Shuffled] {
            let value_sizes = sizes.parse().unwrap();
            let config = Config { value_sizes, key_order, scan_length: Some(7), ..config(2) };
            let names = ["load", "ycsb-a", "scan-100", "mixgraph", "queue", "churn"];
            let (results, found) = run(Fault::None, &config, &names).unwrap();
            assert!(found.passed() && found.compared > 1000, "{sizes} {key_order:?}: {found:?}");
            let problems: u64 = results.iter().map(PhaseResult::problems).sum();
            assert_eq!(problems, 0, "{sizes} {key_order:?}");
            let mean = results[0].user.written as f64 / 3000.0 - 24.0;
            let told = results[0].conditions.value_bytes as f64;
            assert!((mean / told - 1.0).abs() < 0.25, "{sizes}: {mean} {told}");
            assert!(results[2].user.read > 0 && results[0].conditions.value_sizes != "50");
        }
        let (_, found) = run(Fault::LosesPuts, &config(1), &["load", "queue"]).unwrap();
        assert!(found.missing > 0, "{found:?}");
    }
}

#[test]
fn a_queue_keeps_its_length_and_moves_on() {
    for key_order in [KeyOrder::Hashed, KeyOrder::Shuffled] {
        let config = |threads| Config { key_order, ..config(threads) };
        let names = ["load", "queue", "queue-read"];
        let (results, found) = run(Fault::None, &config(2), &names).unwrap();
        assert!(found.passed() && results.iter().all(|result| result.problems() == 0));
        let live = results[2].user.live.unwrap();
        assert_eq!(live, found.records * 74);
        assert!((2500..3500).contains(&found.records), "{found:?}");
        let (_, found) = run(Fault::LosesDeletes, &config(1), &["load", "queue"]).unwrap();
        assert!(found.wrong > 0, "a record that expired is still there: {found:?}");
    }
}

#[test]
fn a_queue_takes_the_first_record_that_the_store_finds() {
    let config = Config { key_order: KeyOrder::Shuffled, ..config(3) };
    let (_, found) = run(Fault::SkipsInScans, &config, &["load", "queue"]).unwrap();
    assert!(found.wrong > 0, "a record was stepped over: {found:?}");
    let names = ["load", "delete", "queue", "queue-read"];
    let (results, found) = run(Fault::None, &config, &names).unwrap();
    assert!(found.passed() && results.iter().all(|result| result.problems() == 0), "{found:?}");
}
