//! What every key must hold at the end of a run, by replaying the run's writes.
//!
//! Operations are a function of the seed, so nothing is remembered while clients run, and the check
//! costs the measurement nothing. A key that several threads wrote in the same phase may hold the
//! last value of any of them; otherwise there is one right answer. The store is scanned once, in
//! key order, beside the expectations in the same order.

use std::time::Instant;

use crate::config::Config;
use crate::distribution::Chooser;
use crate::engine::Engine;
use crate::error::Result;
use crate::inserts::Inserts;
use crate::keys::{fnv_hash, hash_of_key, key_of_hash};
use crate::observer::Observer;
use crate::result::Verification;
use crate::stream::{INSERTED, Place, Stream, phase_of};
use crate::values::Values;
use crate::workload::{Action, Workload};

/// Most expectations held, of 24 bytes each: a run may have to live within a small memory limit. If
/// there are more records, every nth one is compared.
const MOST_EXPECTATIONS: u64 = 2 << 20;
/// Marks the version of a delete.
const DELETED: u64 = 1 << 63;
/// A record that was never written.
const ABSENT: u64 = DELETED;
/// Records between two reports of progress.
const REPORT_EVERY: u64 = 1 << 16;

/// A phase that ran, with what is needed to run it again.
#[derive(Clone, Debug)]
pub struct Past {
    /// What ran.
    pub workload: Workload,
    /// Its number in the run.
    pub phase: u32,
    /// Records that existed when it began.
    pub existing: u64,
    /// Operations drawn by each thread.
    pub drawn: Vec<u64>,
}

/// What the records must hold.
struct Expectations {
    /// Every so manyth record is compared.
    stride: u64,
    threads: usize,
    /// For each compared record, the last version that each thread wrote.
    last: Vec<u64>,
    /// Hashes of the compared records, ascending, with their place in `last`.
    order: Vec<(u64, usize)>,
}

impl Expectations {
    /// For a store with `existing` records after the phases of `history`, oldest first.
    fn new(config: &Config, history: &[Past], existing: u64) -> Self {
        let threads = config.threads as usize;
        let stride = (existing * threads as u64).div_ceil(MOST_EXPECTATIONS).max(1);
        let compared = existing.div_ceil(stride);
        let loaded = history.first().is_some_and(|first| first.workload.is_load());
        let initial = if loaded { INSERTED } else { ABSENT };
        let mut order: Vec<_> =
            (0..compared).map(|at| (fnv_hash(at * stride), at as usize)).collect();
        order.sort_unstable();
        let last = vec![initial; compared as usize * threads];
        let mut expectations = Self { stride, threads, last, order };
        for past in history {
            expectations.replay(config, past);
        }
        expectations
    }

    fn replay(&mut self, config: &Config, past: &Past) {
        let writes = [Action::Update, Action::ReadModifyWrite, Action::Delete];
        if writes.iter().all(|&write| past.workload.share(write) == 0) {
            return;
        }
        let inserts = Inserts::new(past.existing);
        let chooser = Chooser::new(past.workload.distribution, past.existing);
        for (thread, &drawn) in (0..).zip(&past.drawn) {
            let Config { seed, threads, .. } = *config;
            let place = Place { seed, phase: past.phase, thread, threads };
            let mut stream = Stream::new(&past.workload, place, &inserts, chooser.clone());
            for _ in 0..drawn {
                let operation = stream.draw();
                let mark = if operation.action == Action::Delete { DELETED } else { 0 };
                let write = writes.contains(&operation.action);
                if write && operation.record.is_multiple_of(self.stride) {
                    let at = (operation.record / self.stride) as usize;
                    self.last[at * self.threads + thread as usize] = operation.version | mark;
                }
            }
        }
    }

    /// Whether the record at `at` may hold `version` ([`ABSENT`] if it is not there).
    fn allows(&self, at: usize, version: u64) -> bool {
        let last = &self.last[at * self.threads..][..self.threads];
        let newest = last.iter().map(|version| phase_of(version & !DELETED)).max();
        last.iter()
            .filter(|&version| Some(phase_of(version & !DELETED)) == newest)
            .any(|&last| if last & DELETED == 0 { last == version } else { version == ABSENT })
    }
}

/// Scans all of `engine` and compares it with what `history` wrote.
pub fn verify(
    engine: &dyn Engine,
    config: &Config,
    history: &[Past],
    existing: u64,
    observer: &dyn Observer,
) -> Result<Verification> {
    let begin = Instant::now();
    let expectations = Expectations::new(config, history, existing);
    let mut check = Check {
        values: Values::new(config.value_size),
        rest: expectations.order.iter().copied().peekable(),
        expectations: &expectations,
        found: Verification::default(),
        last: None,
    };
    engine.scan(b"", usize::MAX, &mut |key, value| {
        check.record(key, value);
        if check.found.records.is_multiple_of(REPORT_EVERY) {
            observer.verifies(check.found.records);
        }
    })?;
    let mut found = check.finish();
    found.seconds = begin.elapsed().as_secs_f64();
    Ok(found)
}

/// A walk over the store beside the expectations.
struct Check<'a, I: Iterator<Item = (u64, usize)>> {
    values: Values,
    expectations: &'a Expectations,
    rest: std::iter::Peekable<I>,
    found: Verification,
    last: Option<u64>,
}

impl<I: Iterator<Item = (u64, usize)>> Check<'_, I> {
    fn record(&mut self, key: &[u8], value: &[u8]) {
        self.found.records += 1;
        let Some(hash) = hash_of_key(key) else {
            return self.unexpected(key, "is not a key of this run");
        };
        if self.last.replace(hash).is_some_and(|last| last >= hash) {
            return self.unexpected(key, "is out of order, or there twice");
        }
        while let Some((_, at)) = self.rest.next_if(|(expected, _)| *expected < hash) {
            self.absent(at);
        }
        let expected = self.rest.next_if(|(expected, _)| *expected == hash);
        if expected.is_none() && self.expectations.stride == 1 {
            self.unexpected(key, "was never written");
        }
        match self.values.check(hash, value) {
            Err(mismatch) => self.wrong(key, &mismatch.to_string()),
            Ok(version) => {
                let Some((_, at)) = expected else { return };
                self.found.compared += 1;
                if !self.expectations.allows(at, version) {
                    self.wrong(key, &format!("holds version {version:#x}, which is not the last"));
                }
            }
        }
    }

    fn finish(mut self) -> Verification {
        while let Some((_, at)) = self.rest.next() {
            self.absent(at);
        }
        self.found
    }

    fn absent(&mut self, at: usize) {
        if !self.expectations.allows(at, ABSENT) {
            self.found.missing += 1;
            let key = key_of_hash(fnv_hash(at as u64 * self.expectations.stride));
            self.problem(&key, "is missing");
        }
    }

    fn wrong(&mut self, key: &[u8], what: &str) {
        self.found.wrong += 1;
        self.problem(key, what);
    }

    fn unexpected(&mut self, key: &[u8], what: &str) {
        self.found.unexpected += 1;
        self.problem(key, what);
    }

    fn problem(&mut self, key: &[u8], what: &str) {
        let words = || format!("{} {what}", String::from_utf8_lossy(key));
        self.found.first_problem.get_or_insert_with(words);
    }
}
