//! One client: draws operations, gives them to the engine, times them, checks what comes back.
//!
//! This loop is the harness' cost. In a closed loop it reads the clock once an operation (the end
//! of one is the start of the next, so a time includes drawing the operation and making key and
//! value); in an open loop a time counts from the intended start. It touches nothing that another
//! thread writes, but for the number of records.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use quanta::Clock;

use crate::config::Config;
use crate::distribution::Chooser;
use crate::engine::Engine;
use crate::error::{BenchError, Result};
use crate::inserts::Inserts;
use crate::keys::{Key, KeyOrder, hash_of_any};
use crate::latency::Latencies;
use crate::pace::{Pace, wait_until};
use crate::stream::{Operation, Place, Stream};
use crate::trace::ReplayStream;
use crate::values::{ValueBuffer, Values};
use crate::workload::{Action, Workload};

/// Operations of a warm-up between two looks at the time.
const WATCHED_EVERY: u64 = 64;

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
    /// The largest key that is there when the phase begins, if no record that existed is gone: then
    /// a scan begins at its start key, and is short only at the end of the store.
    pub end: Option<Key>,
    /// Held by the client that takes the first record.
    pub pops: Mutex<()>,
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
        let (pops, failed) = (Mutex::new(()), AtomicBool::new(false));
        Self { engine, workload, config, phase, values, inserts, end: None, pops, failed, done }
    }

    /// The shared state where every record that exists is there.
    pub fn whole(self) -> Self {
        if self.workload.replays || self.workload.share(Action::Scan) == 0 {
            return self;
        }
        let records = self.inserts.oldest()..self.inserts.existing();
        let end = records.map(|record| self.config.key_order.hash(record)).max();
        Self { end: end.map(|hash| self.config.key_size.key(hash)), ..self }
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
    /// Values with bytes not of their key, or that were never written, and scans out of order.
    pub wrong: u64,
    /// Reads that found nothing.
    pub not_found: u64,
    /// Bytes of keys and values written.
    pub written: u64,
    /// Bytes of keys and values read.
    pub read: u64,
    /// Values read.
    pub values_read: u64,
    /// Processor time that waiting for intended starts took, which no engine is charged for.
    pub waited: Duration,
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
        self.values_read += other.values_read;
        self.waited += other.waited;
        self.first_problem = self.first_problem.take().or(other.first_problem);
    }

    fn problem(&mut self, key: &[u8], what: &str) {
        self.wrong += 1;
        self.first_problem
            .get_or_insert_with(|| format!("{}: {what}", String::from_utf8_lossy(key)));
    }

    fn check(&mut self, values: &Values, hash: u64, key: &[u8], value: &[u8]) {
        self.values_read += 1;
        self.read += (key.len() + value.len()) as u64;
        if let Err(mismatch) = values.check(hash, value) {
            self.problem(key, &mismatch.to_string());
        }
    }

    fn missed(&mut self, key: &[u8]) {
        self.not_found += 1;
        self.first_problem
            .get_or_insert_with(|| format!("{}: not found", String::from_utf8_lossy(key)));
    }
}

/// Where a client's operations come from.
enum Source<'a> {
    Drawn(Stream<'a>, &'a Config, Option<Pace>),
    Replayed(ReplayStream),
}

/// An operation on a key, and when to begin it.
struct Task {
    operation: Operation,
    hash: u64,
    start: Option<Duration>,
}

impl Source<'_> {
    /// The next operation; its key, if it is one of ours, is written to `key`.
    #[inline(always)]
    fn next(&mut self, key: &mut Key) -> Result<Option<Task>> {
        match self {
            Self::Drawn(stream, config, pace) => {
                let operation = stream.draw();
                let hash = config.key_order.hash(operation.record);
                *key = config.key_size.key(hash);
                let start = pace.as_mut().map(Pace::next_start);
                Ok(Some(Task { operation, hash, start }))
            }
            Self::Replayed(stream) => {
                let Some(operation) = stream.draw()? else { return Ok(None) };
                Ok(Some(Task { operation, hash: stream.hash(), start: stream.start() }))
            }
        }
    }

    fn drawn(&self) -> u64 {
        match self {
            Self::Drawn(stream, ..) => stream.drawn(),
            Self::Replayed(stream) => stream.drawn(),
        }
    }
}

/// A client and its place in the sequence of its operations.
pub struct Client<'a> {
    shared: &'a Shared<'a>,
    source: Source<'a>,
    done: &'a AtomicU64,
    key: Key,
    buffer: ValueBuffer,
    tally: Tally,
    /// Operations of the pieces that were run.
    counted: u64,
}

impl<'a> Client<'a> {
    /// Client number `thread`; `chooser` was made for the phase's workload.
    pub fn new(shared: &'a Shared<'a>, thread: u32, chooser: Chooser) -> Result<Self> {
        let Shared { workload, config, .. } = *shared;
        let place = shared.place(thread);
        let source = match &config.replay {
            Some(replay) if workload.replays => {
                let operations = config.operations_of(workload);
                Source::Replayed(ReplayStream::new(replay, place, operations)?)
            }
            None if workload.replays => {
                return Err(BenchError::Usage("name the trace to replay with --trace FILE".into()));
            }
            _ => {
                let stream = Stream::new(workload, place, shared.inserts, chooser);
                let stream = stream.shuffled(config.shuffle_of(workload));
                let pace = config.rate_of(workload);
                let pace = pace.map(|rate| Pace::new(rate, thread, config.threads));
                Source::Drawn(stream, config, pace)
            }
        };
        let done = &shared.done[thread as usize].0;
        let buffer = ValueBuffer::with_room(shared.values.sizes().largest());
        let (key, tally) = (config.key_size.key(0), Tally::default());
        Ok(Self { shared, source, done, key, buffer, tally, counted: 0 })
    }

    /// Does up to `operations` operations that are not counted or timed, as fast as it can, for no
    /// longer than `duration`.
    pub fn warm_up(&mut self, operations: u64, duration: Option<Duration>) -> Result<()> {
        let deadline = duration.map(|duration| Instant::now() + duration);
        for count in 0..operations {
            let late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            let over = count.is_multiple_of(WATCHED_EVERY) && late();
            if over || self.shared.failed.load(Ordering::Relaxed) {
                break;
            }
            let Some(task) = self.source.next(&mut self.key)? else { break };
            self.perform(&task)?;
        }
        self.tally = Tally { first_problem: self.tally.first_problem.take(), ..Tally::default() };
        if let Source::Drawn(_, _, Some(pace)) = &mut self.source {
            pace.restart();
        }
        Ok(())
    }

    /// Does up to `operations` operations, for no longer than `duration`: a piece of the phase.
    pub fn run(
        &mut self,
        operations: u64,
        duration: Option<Duration>,
        latencies: &mut Latencies,
    ) -> Result<()> {
        let clock = Clock::new();
        let (begin, raw) = (clock.now(), clock.raw());
        let elapsed = || clock.delta_as_nanos(raw, clock.raw());
        let deadline = duration.map_or(u64::MAX, |duration| duration.as_nanos() as u64);
        let mut before = 0;
        let earlier = self.counted;
        for count in 1..=operations {
            let Some(task) = self.source.next(&mut self.key)? else { break };
            if let Some(start) = task.start {
                before = start.as_nanos() as u64;
                self.tally.waited += wait_until(&clock, begin + start);
            }
            self.perform(&task)?;
            let now = elapsed();
            latencies.record(task.operation.action, now.saturating_sub(before));
            self.counted = earlier + count;
            self.done.store(self.counted, Ordering::Relaxed);
            if now >= deadline || self.shared.failed.load(Ordering::Relaxed) {
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

    /// Operations drawn so far, warm-up included.
    pub fn drawn(&self) -> u64 {
        self.source.drawn()
    }

    /// Values read so far.
    pub fn values_read(&self) -> u64 {
        self.tally.values_read
    }

    /// Ends the client: operations drawn in all, and what it found.
    pub fn finish(self) -> (u64, Tally) {
        (self.source.drawn(), self.tally)
    }

    /// Reads the record of `task` together with others, as one batch.
    #[cold]
    fn read_batch(&mut self, task: &Task) -> Result<()> {
        let Self { shared, source, tally, key, .. } = self;
        let mut keys = vec![(task.hash, *key)];
        for _ in 1..shared.workload.batch {
            let Some(task) = source.next(key)? else { break };
            keys.push((task.hash, *key));
        }
        let names: Vec<&[u8]> = keys.iter().map(|(_, key)| &key[..]).collect();
        let mut found = vec![false; keys.len()];
        shared.engine.multi_get(&names, &mut |at, value| {
            found[at] = true;
            tally.check(shared.values, keys[at].0, names[at], value);
        })?;
        let missed = names.iter().zip(found).filter(|(_, found)| !found);
        missed.for_each(|(key, _)| tally.missed(key));
        Ok(())
    }

    #[inline(always)]
    fn perform(&mut self, task: &Task) -> Result<()> {
        if self.shared.workload.batch > 1 {
            return self.read_batch(task);
        }
        let Self { shared, buffer, tally, source, key, .. } = self;
        let Shared { engine, values, .. } = **shared;
        let Task { operation, hash, .. } = *task;
        let key: &[u8] = match source {
            Source::Drawn(..) => key,
            Source::Replayed(stream) => stream.key(),
        };
        let make = |buffer| match operation.size {
            None => values.make(hash, operation.version, buffer),
            Some(size) => values.make_sized(hash, operation.version, size, buffer),
        };
        match operation.action {
            Action::Read => {
                let found = engine.get(key, &mut |value| tally.check(values, hash, key, value))?;
                match (found, shared.workload.reads_what_is_absent()) {
                    (true, false) => {}
                    (false, false) => tally.missed(key),
                    (true, true) => tally.problem(key, "was found, and was never written"),
                    (false, true) => tally.not_found += 1,
                }
            }
            Action::Update | Action::Insert => {
                let value = make(buffer);
                engine.put(key, value)?;
                tally.written += (key.len() + value.len()) as u64;
                if operation.action == Action::Insert && !shared.workload.is_load() {
                    shared.inserts.acknowledge(operation.record);
                }
            }
            Action::ReadModifyWrite => {
                let value = make(buffer);
                let visit = &mut |value: &[u8]| tally.check(values, hash, key, value);
                let found = engine.read_modify_write(key, value, visit)?;
                tally.written += (key.len() + value.len()) as u64;
                if !found {
                    tally.missed(key);
                }
            }
            Action::Scan => {
                scan(engine, values, key, operation.length, shared.end.as_ref(), tally)?;
            }
            Action::Expire if shared.config.key_order != KeyOrder::Hashed => {
                if !pop(shared, tally)? {
                    tally.missed(key);
                }
            }
            Action::Delete | Action::Expire => engine.delete(key)?,
        }
        Ok(())
    }
}

/// Takes the first record, which the store has to find; returns whether there was one.
fn pop(shared: &Shared<'_>, tally: &mut Tally) -> Result<bool> {
    // Two clients that search before they delete would take the same one.
    let _turn = shared.pops.lock().unwrap_or_else(PoisonError::into_inner);
    shared.engine.pop_first(&mut |key, value| {
        let hash = hash_of_any(key);
        tally.check(shared.values, hash, key, value);
        shared.config.key_order.number(hash).into_iter().for_each(|it| shared.inserts.expired(it));
    })
}

/// Scans `length` records from `from`, and checks their order and their values; with the `end` of a
/// whole store also that the first one is there, and that a short scan has come to the end.
fn scan(
    engine: &dyn Engine,
    values: &Values,
    from: &[u8],
    length: usize,
    end: Option<&Key>,
    tally: &mut Tally,
) -> Result<()> {
    let mut last = from.to_vec();
    let mut visited = 0;
    let returned = engine.scan(from, length, &mut |key, value| {
        tally.check(values, hash_of_any(key), key, value);
        let in_order = if visited == 0 { key >= &last[..] } else { key > &last[..] };
        if !in_order {
            tally.problem(key, "scanned out of order");
        }
        if visited == 0 && end.is_some() && key != from {
            tally.problem(from, "a scan that starts at it does not show it");
        }
        visited += 1;
        last.clear();
        last.extend_from_slice(key);
    })?;
    if returned != visited || visited > length {
        tally.problem(from, &format!("scan of {length} says {returned} and shows {visited}"));
    }
    let ended = |end: &Key| visited > 0 && last[..] >= end[..];
    if visited < length && !end.is_none_or(ended) {
        tally.problem(from, &format!("scan of {length} ends after {visited}, before the last key"));
    }
    Ok(())
}
