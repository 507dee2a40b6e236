//! What every key must hold at the end of a run, by replaying the run's writes.
//!
//! Operations are a function of the seed or of a trace, so nothing is remembered while clients run,
//! and the check costs the measurement nothing. A key that several threads wrote in the same phase
//! may hold the last value of any of them; otherwise there is one right answer. The store is
//! scanned once; what it holds is looked up among the expectations by the hash of its key.

use std::time::Instant;

use crate::config::Config;
use crate::engine::Engine;
use crate::error::Result;
use crate::inserts::Inserts;
use crate::keys::{hash_of_any, hash_of_key};
use crate::observer::Observer;
use crate::result::Verification;
use crate::stream::{INSERTED, Place, Stream, phase_of, version};
use crate::system::available_memory;
use crate::trace::{Replay, ReplayStream};
use crate::values::Values;
use crate::workload::{Action, Workload};

/// Bytes of an expectation but for the version that each thread wrote last: its hash, its place,
/// and whether the record was seen.
const EXPECTATION: u64 = 17;
/// Bytes of expectations within a memory limit that this process cannot lift or did not set.
const ROOM: u64 = 48 << 20;
/// Without a limit expectations may take one part in `ROOM_SHARE` of the memory, and no more than
/// `ROOM_MAX` bytes.
const ROOM_SHARE: u64 = 4;
const ROOM_MAX: u64 = 1 << 30;
/// Marks the version of a delete.
const DELETED: u64 = 1 << 63;
/// A record that was never written.
const ABSENT: u64 = DELETED;
/// Records between two reports of progress.
const REPORT_EVERY: u64 = 1 << 16;
/// Actions after which a record holds another version, or is gone.
const WRITES: [Action; 3] = [Action::Update, Action::ReadModifyWrite, Action::Delete];

/// The records of a store, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Records below were removed from the end of a queue.
    pub oldest: u64,
    /// Records from here on were never inserted.
    pub existing: u64,
}

impl Span {
    /// As `inserts` has it now.
    pub fn of(inserts: &Inserts) -> Self {
        Self { oldest: inserts.oldest(), existing: inserts.existing() }
    }
}

/// A phase that ran, with what is needed to run it again.
#[derive(Clone, Debug)]
pub struct Past {
    /// What ran.
    pub workload: Workload,
    /// The number of the phase in the run.
    pub phase: u32,
    /// The records when it began.
    pub before: Span,
    /// The records when it ended.
    pub after: Span,
    /// Operations drawn by each thread.
    pub drawn: Vec<u64>,
}

impl Past {
    fn place(&self, config: &Config, thread: u32) -> Place {
        let Config { seed, threads, .. } = *config;
        Place { seed, phase: self.phase, thread, threads }
    }

    /// Calls `visit` with thread, hash of the key and mark of every write of a replayed trace.
    fn replayed(
        &self,
        config: &Config,
        replay: &Replay,
        mut visit: impl FnMut(usize, u64, u64),
    ) -> Result<()> {
        for (thread, &drawn) in (0..).zip(&self.drawn) {
            let mut stream = ReplayStream::new(replay, self.place(config, thread), u64::MAX)?;
            while stream.drawn() < drawn {
                let Some(operation) = stream.draw()? else { break };
                if WRITES.contains(&operation.action) {
                    visit(
                        thread as usize,
                        stream.hash(),
                        mark(operation.action, operation.version),
                    );
                }
            }
        }
        Ok(())
    }
}

/// A version, and whether it is the end of the record.
fn mark(action: Action, version: u64) -> u64 {
    if action == Action::Delete { version | DELETED } else { version }
}

/// What the records must hold.
struct Expectations<'a> {
    config: &'a Config,
    /// One record in `stride` is compared.
    stride: u64,
    threads: usize,
    /// For each compared record, the last version that each thread wrote.
    last: Vec<u64>,
    /// Hashes of the compared records, ascending, with their place in `last`.
    order: Vec<(u64, usize)>,
}

impl<'a> Expectations<'a> {
    /// For a store with `existing` records after the phases of `history`, oldest first.
    fn new(config: &'a Config, history: &[Past], existing: u64, room: u64) -> Result<Self> {
        let threads = config.threads as usize;
        let replays = history.iter().filter(|past| past.workload.replays).count() as u64;
        let traced = config.replay.as_ref().map_or(0, |replay| replay.trace.writes() * replays);
        let needed = (existing + traced) * (EXPECTATION + 8 * threads as u64);
        let stride = needed.div_ceil(room).max(1);
        let compared = existing.div_ceil(stride);
        let mut order: Vec<_> =
            (0..compared).map(|at| (config.key_order.hash(at * stride), at as usize)).collect();
        order.sort_unstable();
        let last = vec![ABSENT; compared as usize * threads];
        let mut expectations = Self { config, stride, threads, last, order };
        expectations.add_traced_keys(history)?;
        for past in history {
            expectations.replay(past)?;
            expectations.set(past.before.existing..past.after.existing, INSERTED);
            let expired = version(&past.place(config, 0), 0) | DELETED;
            expectations.set(past.before.oldest..past.after.oldest, expired);
        }
        Ok(expectations)
    }

    /// Makes room for keys that only a trace writes. Where some records are compared by number, a
    /// key that spells a number is left to that.
    fn add_traced_keys(&mut self, history: &[Past]) -> Result<()> {
        let Some(replay) = &self.config.replay else { return Ok(()) };
        let (mut hashes, numbered) = (Vec::new(), !self.order.is_empty());
        for past in history.iter().filter(|past| past.workload.replays) {
            past.replayed(self.config, replay, |_, hash, _| {
                let spelled = numbered && self.stride > 1 && hash & DELETED == 0;
                if !spelled && hash.is_multiple_of(self.stride) && self.find(hash).is_none() {
                    hashes.push(hash);
                }
            })?;
        }
        hashes.sort_unstable();
        hashes.dedup();
        let first = self.last.len() / self.threads;
        self.last.resize(self.last.len() + hashes.len() * self.threads, ABSENT);
        self.order.extend(hashes.into_iter().zip(first..));
        self.order.sort_unstable();
        Ok(())
    }

    /// Where the key of `hash` is compared, if it is: index into `order`.
    fn find(&self, hash: u64) -> Option<usize> {
        self.order.binary_search_by_key(&hash, |(hash, _)| *hash).ok()
    }

    /// The records of these numbers hold `version` now, no matter which thread wrote it.
    fn set(&mut self, numbers: std::ops::Range<u64>, version: u64) {
        let from = (numbers.start.div_ceil(self.stride) as usize) * self.threads;
        let to = (numbers.end.div_ceil(self.stride) as usize) * self.threads;
        if from < to {
            self.last[from..to].fill(version);
        }
    }

    fn replay(&mut self, past: &Past) -> Result<()> {
        if let (true, Some(replay)) = (past.workload.replays, &self.config.replay) {
            return past.replayed(self.config, replay, |thread, hash, version| {
                if let Some(found) = self.find(hash) {
                    let (_, at) = self.order[found];
                    self.last[at * self.threads + thread] = version;
                }
            });
        }
        if WRITES.iter().all(|&write| past.workload.share(write) == 0) {
            return Ok(());
        }
        let Span { oldest, existing } = past.before;
        let inserts = Inserts::between(oldest, existing);
        let chooser = self.config.chooser(&past.workload, inserts.count());
        for (thread, &drawn) in (0..).zip(&past.drawn) {
            let place = past.place(self.config, thread);
            let mut stream = Stream::new(&past.workload, place, &inserts, chooser.clone());
            for _ in 0..drawn {
                let operation = stream.draw();
                let write = WRITES.contains(&operation.action);
                if write && operation.record.is_multiple_of(self.stride) {
                    let at = (operation.record / self.stride) as usize;
                    self.last[at * self.threads + thread as usize] =
                        mark(operation.action, operation.version);
                }
            }
        }
        Ok(())
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

/// Bytes that expectations may take; more if the run's memory limit was `lifted`.
pub fn room(lifted: bool) -> u64 {
    let there = if lifted { available_memory() } else { None };
    there.map_or(ROOM, |there| (there / ROOM_SHARE).clamp(ROOM, ROOM_MAX))
}

/// Scans all of `engine` and compares it with what `history` wrote. Expectations take no more than
/// `room` bytes: if there are more records, every nth one is compared, and of the others the bytes.
pub fn verify(
    engine: &dyn Engine,
    config: &Config,
    history: &[Past],
    existing: u64,
    room: u64,
    observer: &dyn Observer,
) -> Result<Verification> {
    let begin = Instant::now();
    let expectations = Expectations::new(config, history, existing, room)?;
    let mut check = Check {
        values: Values::new(&config.value_sizes),
        seen: vec![false; expectations.order.len()],
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
struct Check<'a> {
    values: Values,
    expectations: &'a Expectations<'a>,
    /// Which of the compared records were there, in the order of their hashes.
    seen: Vec<bool>,
    found: Verification,
    last: Option<Vec<u8>>,
}

impl Check<'_> {
    fn record(&mut self, key: &[u8], value: &[u8]) {
        self.found.records += 1;
        let hash = hash_of_any(key);
        if self.last.as_deref().is_some_and(|last| last >= key) {
            return self.unexpected(key, "is out of order, or there twice");
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        let expected = self.expectations.find(hash);
        if let Some(found) = expected {
            self.seen[found] = true;
        } else if self.expectations.stride == 1 {
            let foreign = hash_of_key(key).is_none();
            let what = if foreign { "is not a key of this run" } else { "was never written" };
            self.unexpected(key, what);
        }
        match self.values.check(hash, value) {
            Err(mismatch) => self.wrong(key, &mismatch.to_string()),
            Ok(version) => {
                let Some(found) = expected else { return };
                let (_, at) = self.expectations.order[found];
                self.found.compared += 1;
                if !self.expectations.allows(at, version) {
                    self.wrong(key, &format!("holds version {version:#x}, which is not the last"));
                }
            }
        }
    }

    fn finish(mut self) -> Verification {
        for (found, (hash, at)) in self.expectations.order.iter().enumerate() {
            if !self.seen[found] && !self.expectations.allows(*at, ABSENT) {
                self.found.missing += 1;
                let key = self.expectations.config.key_size.key(*hash);
                self.problem(&key, "is missing");
            }
        }
        self.found
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
