//! An engine that does nothing, to learn what the harness itself costs.
//!
//! Reads have to return the right bytes, so this engine makes them anew for each read; what that
//! costs is measured alone and taken off.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::client::{Client, Shared};
use crate::config::Config;
use crate::distribution::Chooser;
use crate::engine::{Engine, VisitPair};
use crate::error::Result;
use crate::inserts::Inserts;
use crate::keys::{hash_of_key, key_of_hash};
use crate::latency::Latencies;
use crate::stream::INSERTED;
use crate::values::Values;
use crate::workload::{Action, ScanLength, Workload};

/// Operations of a calibration; a scan counts as a hundred.
const OPERATIONS: u64 = 200_000;

/// Accepts every write, finds every key.
#[derive(Debug)]
pub struct NullEngine {
    values: Values,
}

impl NullEngine {
    /// Its values have `value_size` bytes.
    pub fn new(value_size: usize) -> Self {
        Self { values: Values::new(value_size) }
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
        let first = hash_of_key(from).unwrap_or(0);
        let mut value = self.values.buffer();
        for hash in (first..).take(limit) {
            self.values.fill(hash, INSERTED, &mut value);
            visit(&key_of_hash(hash), &value);
        }
        Ok(limit)
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn describe(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// The harness' own time for an operation of `workload`, by one client.
pub fn harness_cost(workload: &Workload, config: &Config) -> Result<Duration> {
    let config = Config { threads: 1, ..config.clone() };
    let values = Values::new(config.value_size);
    let engine = NullEngine::new(config.value_size);
    let inserts = Inserts::new(config.records);
    let shared = Shared::new(&engine, workload, &config, 0, &values, &inserts);
    let chooser = Chooser::new(workload.distribution, config.records);
    let mut client = Client::new(&shared, 0, chooser);
    let scans = u64::from(workload.share(Action::Scan));
    let operations = OPERATIONS / (1 + scans);
    // The first tenth brings the pool and the histogram into the caches.
    client.warm_up(operations / 10)?;
    let mut latencies = Latencies::new(workload);
    let begin = Instant::now();
    client.run(operations, None, &mut latencies)?;
    let whole = begin.elapsed() / operations as u32;
    let records = records_read(workload);
    Ok(whole.saturating_sub(record_cost(&engine)?.mul_f64(records)))
}

/// Records that an operation reads, on average.
fn records_read(workload: &Workload) -> f64 {
    let scanned = match workload.scan {
        ScanLength::Fixed(length) => length as f64,
        ScanLength::UpTo(most) => (1 + most) as f64 / 2.0,
    };
    let share = |action| f64::from(workload.share(action)) / 100.0;
    share(Action::Read) + share(Action::ReadModifyWrite) + share(Action::Scan) * scanned
}

/// What this engine takes to make a record.
fn record_cost(engine: &NullEngine) -> Result<Duration> {
    const RECORDS: usize = 100_000;
    let begin = Instant::now();
    engine.scan(&key_of_hash(0), RECORDS, &mut |key, value| {
        black_box((key, value));
    })?;
    Ok(begin.elapsed() / RECORDS as u32)
}
