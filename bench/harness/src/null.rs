//! An engine that does nothing, to learn what the harness itself costs.
//!
//! Reads have to return the right bytes, so this engine makes them anew for each read; what that
//! costs is measured alone and taken off.

use std::cell::RefCell;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use crate::client::{Client, Shared};
use crate::config::Config;
use crate::engine::{Engine, VisitPair};
use crate::error::Result;
use crate::inserts::Inserts;
use crate::keys::{KeySize, hash_of_any};
use crate::latency::Latencies;
use crate::sizes::ValueSizes;
use crate::stream::INSERTED;
use crate::trace::Replay;
use crate::values::{ValueBuffer, Values};
use crate::workload::{Action, Workload};

/// Operations of a calibration; a scan counts as many as it reads records.
const OPERATIONS: u64 = 200_000;
/// Rounds that these are done in. Their median counts: one that something else disturbed does not,
/// and the quickest would make the harness cheaper than it is on the whole.
const ROUNDS: u64 = 10;

thread_local! {
    /// Where the values that are read are made.
    static VALUE: RefCell<ValueBuffer> = RefCell::default();
}

/// Accepts every write, finds every key.
#[derive(Debug)]
pub struct NullEngine {
    values: Values,
    key_size: KeySize,
}

impl NullEngine {
    /// An engine with values as large as `sizes` says, and keys of `key_size`.
    pub fn new(sizes: &ValueSizes, key_size: KeySize) -> Self {
        Self { values: Values::new(sizes), key_size }
    }
}

impl Engine for NullEngine {
    fn name(&self) -> &str {
        "null"
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        black_box((key, value));
        Ok(())
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.scan(key, 1, &mut |_, value| visit(value))?;
        Ok(true)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        black_box(key);
        Ok(())
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        let first = hash_of_any(from);
        VALUE.with_borrow_mut(|buffer| {
            for hash in (first..).take(limit) {
                visit(&self.key_size.key(hash), self.values.make(hash, INSERTED, buffer));
            }
        });
        Ok(limit)
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn describe(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// The harness' own time for an operation of `workload`, by one client in a closed loop: making the
/// operation, its key and value, checking what comes back, and the clock.
pub fn harness_cost(workload: &Workload, config: &Config) -> Result<Duration> {
    let scanned = f64::from(workload.share(Action::Scan)) / 100.0 * workload.scan.typical();
    let operations = (OPERATIONS as f64 / (1.0 + scanned)).max(ROUNDS as f64) as u64;
    let replay = config.replay.clone().map(|replay| Replay { timed: false, ..replay });
    let own = Config { threads: 1, rate: None, duration: None, replay, ..config.clone() };
    let values = Values::new(&config.value_sizes);
    let engine = NullEngine::new(&config.value_sizes, config.key_size);
    let inserts = Inserts::new(config.records);
    let shared = Shared::new(&engine, workload, &own, 0, &values, &inserts);
    let chooser = own.chooser(workload, config.records);
    let mut client = Client::new(&shared, 0, chooser)?;
    // The first tenth brings the pool and the histogram into the caches.
    client.warm_up(operations / 10, None)?;
    let mut latencies = Latencies::new(workload);
    let record = record_cost(&engine)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let (begin, read, drawn) = (Instant::now(), client.values_read(), client.drawn());
        client.run(operations / ROUNDS, None, &mut latencies)?;
        let whole = begin.elapsed();
        let reads = record.mul_f64((client.values_read() - read) as f64);
        // A short trace ends before the rounds do.
        if let Some(done) = NonZeroU32::new((client.drawn() - drawn) as u32) {
            rounds.push(whole.saturating_sub(reads) / done.get());
        }
    }
    Ok(median(rounds))
}

/// What this engine takes to make a record.
fn record_cost(engine: &NullEngine) -> Result<Duration> {
    const RECORDS: u32 = 10_000;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        engine.scan(&engine.key_size.key(0), RECORDS as usize, &mut |key, value| {
            black_box((key, value));
        })?;
        rounds.push(begin.elapsed() / RECORDS);
    }
    Ok(median(rounds))
}

/// The middle one of `rounds`; zero if there are none.
fn median(mut rounds: Vec<Duration>) -> Duration {
    rounds.sort_unstable();
    rounds.get(rounds.len() / 2).copied().unwrap_or_default()
}
