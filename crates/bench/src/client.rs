//! One client: draws operations, gives them to the engine, times them, checks what comes back.
//!
//! This loop is the harness' cost. It reads the clock once an operation (the end of one is the
//! start of the next, so a time includes drawing the operation and making key and value), and
//! touches nothing that another thread writes, but for the number of records.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::distribution::Chooser;
use crate::engine::Engine;
use crate::error::Result;
use crate::inserts::Inserts;
use crate::keys::{Key, fnv_hash, hash_of_key, key_of_hash};
use crate::latency::Latencies;
use crate::stream::{Operation, Place, Stream};
use crate::values::Values;
use crate::workload::{Action, Workload};

/// What the clients of a phase share.
pub struct Shared<'a> {
    /// The engine.
    pub engine: &'a dyn Engine,
    /// What is asked of it.
    pub workload: &'a Workload,
    /// Sizes, seed, threads.
    pub config: &'a Config,
    /// Number of the phase.
    pub phase: u32,
    /// The values.
    pub values: &'a Values,
    /// The records that exist.
    pub inserts: &'a Inserts,
    /// Set when a client failed: the others need not go on.
    pub failed: AtomicBool,
    /// Operations done, by thread.
    pub done: Vec<Done>,
}

/// Operations done by a thread, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Done(AtomicU64);

impl<'a> Shared<'a> {
    /// For a phase of `workload` on `engine`.
    pub fn new(
        engine: &'a dyn Engine,
        workload: &'a Workload,
        config: &'a Config,
        phase: u32,
        values: &'a Values,
        inserts: &'a Inserts,
    ) -> Self {
        let done = (0..config.threads).map(|_| Done::default()).collect();
        let failed = AtomicBool::new(false);
        Self { engine, workload, config, phase, values, inserts, failed, done }
    }

    /// Operations done by all threads, warm-up not counted.
    pub fn done(&self) -> u64 {
        self.done.iter().map(|done| done.0.load(Ordering::Relaxed)).sum()
    }

    fn place(&self, thread: u32) -> Place {
        let Config { seed, threads, .. } = *self.config;
        Place { seed, phase: self.phase, thread, threads }
    }
}

/// What a client found.
#[derive(Debug, Default)]
pub struct Tally {
    /// Values whose bytes are not those of their key, and scans out of order.
    pub wrong: u64,
    /// Reads that found nothing.
    pub not_found: u64,
    /// Records written.
    pub written: u64,
    /// Records read.
    pub read: u64,
    /// The first problem, in words.
    pub first_problem: Option<String>,
}

impl Tally {
    /// Adds what another client found.
    pub fn merge(&mut self, other: Self) {
        self.wrong += other.wrong;
        self.not_found += other.not_found;
        self.written += other.written;
        self.read += other.read;
        self.first_problem = self.first_problem.take().or(other.first_problem);
    }

    fn problem(&mut self, key: &[u8], what: &str) {
        self.wrong += 1;
        self.first_problem
            .get_or_insert_with(|| format!("{}: {what}", String::from_utf8_lossy(key)));
    }

    fn check(&mut self, values: &Values, hash: u64, key: &[u8], value: &[u8]) {
        self.read += 1;
        if let Err(mismatch) = values.check(hash, value) {
            self.problem(key, &mismatch.to_string());
        }
    }

    fn missed(&mut self, key: &Key) {
        self.not_found += 1;
        self.first_problem
            .get_or_insert_with(|| format!("{}: not found", String::from_utf8_lossy(key)));
    }
}

/// A client and its place in the sequence of its operations.
pub struct Client<'a> {
    shared: &'a Shared<'a>,
    stream: Stream<'a>,
    done: &'a AtomicU64,
    value: Vec<u8>,
    tally: Tally,
}

impl<'a> Client<'a> {
    /// Client number `thread`; `chooser` was made for the phase's workload.
    pub fn new(shared: &'a Shared<'a>, thread: u32, chooser: Chooser) -> Self {
        let place = shared.place(thread);
        let stream = Stream::new(shared.workload, place, shared.inserts, chooser);
        let done = &shared.done[thread as usize].0;
        Self { shared, stream, done, value: shared.values.buffer(), tally: Tally::default() }
    }

    /// Does `operations` operations that are not counted or timed.
    pub fn warm_up(&mut self, operations: u64) -> Result<()> {
        for _ in 0..operations {
            if self.shared.failed.load(Ordering::Relaxed) {
                break;
            }
            let operation = self.stream.draw();
            self.perform(operation)?;
        }
        self.tally = Tally { first_problem: self.tally.first_problem.take(), ..Tally::default() };
        Ok(())
    }

    /// Does up to `operations` operations, for no longer than `duration`.
    pub fn run(
        &mut self,
        operations: u64,
        duration: Option<Duration>,
        latencies: &mut Latencies,
    ) -> Result<()> {
        let begin = Instant::now();
        let deadline = duration.map(|duration| begin + duration);
        let mut before = begin;
        for count in 1..=operations {
            let operation = self.stream.draw();
            self.perform(operation)?;
            let now = Instant::now();
            latencies.record(operation.action, (now - before).as_nanos() as u64);
            self.done.store(count, Ordering::Relaxed);
            let over = deadline.is_some_and(|deadline| now >= deadline);
            if over || self.shared.failed.load(Ordering::Relaxed) {
                break;
            }
            before = now;
        }
        Ok(())
    }

    /// Tells the other clients that this one failed.
    pub fn give_up(&self) {
        self.shared.failed.store(true, Ordering::Relaxed);
    }

    /// Ends the client: operations drawn in all, and what it found.
    pub fn finish(self) -> (u64, Tally) {
        (self.stream.drawn(), self.tally)
    }

    fn perform(&mut self, operation: Operation) -> Result<()> {
        let Self { shared, value, tally, .. } = self;
        let Shared { engine, values, .. } = **shared;
        let hash = fnv_hash(operation.record);
        let key = key_of_hash(hash);
        match operation.action {
            Action::Read => {
                let found =
                    engine.get(&key, &mut |value| tally.check(values, hash, &key, value))?;
                if !found {
                    tally.missed(&key);
                }
            }
            Action::Update | Action::Insert => {
                values.fill(hash, operation.version, value);
                engine.put(&key, value)?;
                tally.written += 1;
                if operation.action == Action::Insert && !shared.workload.is_load() {
                    shared.inserts.acknowledge(operation.record);
                }
            }
            Action::ReadModifyWrite => {
                values.fill(hash, operation.version, value);
                let visit = &mut |value: &[u8]| tally.check(values, hash, &key, value);
                let found = engine.read_modify_write(&key, value, visit)?;
                tally.written += 1;
                if !found {
                    tally.missed(&key);
                }
            }
            Action::Scan => scan(engine, values, &key, operation.length, tally)?,
            Action::Delete => engine.delete(&key)?,
        }
        Ok(())
    }
}

/// Scans `length` records from `from`, and checks their order and their values.
fn scan(
    engine: &dyn Engine,
    values: &Values,
    from: &Key,
    length: usize,
    tally: &mut Tally,
) -> Result<()> {
    let mut last = None;
    let mut visited = 0;
    let returned = engine.scan(from, length, &mut |key, value| {
        visited += 1;
        let hash = hash_of_key(key);
        match hash {
            Some(hash) => tally.check(values, hash, key, value),
            None => tally.problem(key, "not a key of this run"),
        }
        // Keys order as their hashes do, so the hash of the last one is all there is to remember.
        let in_order = match last {
            None => key >= from.as_slice(),
            Some(last) => hash > last,
        };
        if !in_order {
            tally.problem(key, "scanned out of order");
        }
        last = Some(hash);
    })?;
    if returned != visited || visited > length {
        tally.problem(from, &format!("scan of {length} says {returned} and shows {visited}"));
    }
    Ok(())
}
