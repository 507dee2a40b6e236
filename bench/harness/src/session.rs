//! A run: workloads one after another on one store of one engine.

use std::mem;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use crate::config::Config;
use crate::counters::SPACE_LIMIT;
use crate::engine::{Engine, Opener};
use crate::error::Result;
use crate::inserts::Inserts;
use crate::meter::Reading;
use crate::null::harness_cost;
use crate::observer::Observer;
use crate::oracle::{self, Past, Span, verify};
use crate::phase::{Outcome, Phase};
use crate::result::{Checks, Conditions, PhaseResult, Sample, Speed, UserBytes, Verification};
use crate::scratch::Scratch;
use crate::system::{MemoryLimit, drop_caches, fetch_files, sync_file_system};
use crate::turns::Turns;
use crate::units;
use crate::values::Values;
use crate::workload::{Begin, Workload};

/// A store and what has been done to it.
pub struct Session<'a> {
    opener: &'a dyn Opener,
    scratch: &'a Scratch,
    config: Config,
    limit: Option<&'a MemoryLimit>,
    observer: &'a dyn Observer,
    turns: Turns,
    values: Values,
    store: Option<(PathBuf, Box<dyn Engine>)>,
    inserts: Inserts,
    /// Phases since the store was empty.
    history: Vec<Past>,
    /// What was found in the stores that were emptied.
    found: Verification,
    phases: u32,
}

/// How the store of a phase was made ready.
#[derive(Default)]
struct Ready {
    open_seconds: Option<f64>,
    caches_dropped: Option<bool>,
}

impl<'a> Session<'a> {
    /// A session in `scratch`; nothing is opened yet.
    pub fn new(
        opener: &'a dyn Opener,
        scratch: &'a Scratch,
        config: Config,
        limit: Option<&'a MemoryLimit>,
        observer: &'a dyn Observer,
    ) -> Result<Self> {
        config.validate()?;
        Ok(Self {
            opener,
            scratch,
            limit,
            observer,
            turns: Turns::Own,
            values: Values::new(&config.value_sizes),
            config,
            store: None,
            inserts: Inserts::new(0),
            history: Vec::new(),
            found: Verification::default(),
            phases: 0,
        })
    }

    /// The session where each piece of the work waits for its turn.
    pub fn taking(self, turns: Turns) -> Self {
        Self { turns, ..self }
    }

    /// Runs one workload.
    pub fn run(&mut self, workload: &Workload) -> Result<PhaseResult> {
        let workload = &self.config.adjusted(workload);
        self.turns.wait(2 * self.phases)?;
        let harness = harness_cost(workload, &self.config)?;
        let ready = self.prepare(workload)?;
        let outcome = self.phase(workload)?;
        let result = self.result(workload, outcome, &ready, harness.as_nanos() as f64);
        self.phases += 1;
        self.observer.ends(&result);
        Ok(result)
    }

    /// Runs `workload` once on the store that was made ready for it.
    fn phase(&mut self, workload: &Workload) -> Result<Outcome> {
        let (directory, engine) = self.store.as_ref().expect("prepared above");
        let before = Span::of(&self.inserts);
        let phase = Phase {
            engine: engine.as_ref(),
            directory,
            workload,
            config: &self.config,
            number: self.phases,
            values: &self.values,
            inserts: &self.inserts,
            whole: !self.history.iter().any(|past| past.workload.leaves_holes()),
            limit: self.limit,
            observer: self.observer,
            turns: self.turns,
            step: 2 * self.phases + 1,
        };
        let outcome = phase.run()?;
        if workload.is_load() {
            self.inserts = Inserts::new(self.config.records);
        }
        let after = Span::of(&self.inserts);
        let (phase, drawn) = (self.phases, outcome.drawn.clone());
        self.history.push(Past { workload: workload.clone(), phase, before, after, drawn });
        Ok(outcome)
    }

    /// Compares all of the store with what was written since it was empty. What is found counts
    /// together with what was found in stores before it.
    pub fn verify(&mut self) -> Result<Verification> {
        self.turns.wait(2 * self.phases)?;
        self.compare()?;
        Ok(self.found.clone())
    }

    fn compare(&mut self) -> Result<()> {
        let Some((directory, engine)) = &self.store else { return Ok(()) };
        // Nothing is measured meanwhile: read files at the disk's pace, not the engine's.
        let lifted = self.limit.is_some_and(MemoryLimit::lift);
        if lifted {
            fetch_files(directory);
        }
        let existing = self.inserts.existing();
        let room = oracle::room(lifted);
        let (config, history) = (&self.config, &self.history);
        let found = verify(engine.as_ref(), config, history, existing, room, self.observer)?;
        self.found = mem::take(&mut self.found).then(found);
        Ok(())
    }

    /// Closes the store.
    pub fn close(&mut self) -> Result<()> {
        self.store.take().map_or(Ok(()), |(_, engine)| engine.close())
    }

    fn prepare(&mut self, workload: &Workload) -> Result<Ready> {
        let directory = match (workload.begin, &self.store) {
            (Begin::AsLeft, Some(_)) => return Ok(Ready::default()),
            (Begin::Cold, Some((directory, _))) => {
                let directory = directory.clone();
                self.close()?;
                directory
            }
            _ => self.emptied(workload)?,
        };
        let caches_dropped = match workload.begin {
            Begin::Cold => {
                sync_file_system(&directory)?;
                Some(drop_caches())
            }
            _ => None,
        };
        let begin = Instant::now();
        let engine = self.opener.open(&directory)?;
        let open_seconds = Some(begin.elapsed().as_secs_f64());
        self.store = Some((directory, engine));
        Ok(Ready { open_seconds, caches_dropped })
    }

    /// The directory of an empty store for `workload`. The store that was there is
    /// compared first, since it is deleted here.
    fn emptied(&mut self, workload: &Workload) -> Result<PathBuf> {
        if self.config.verify {
            self.compare()?;
        }
        self.close()?;
        self.history.clear();
        // A partial fill chooses among all records; a load makes them exist one by one, and a trace
        // has keys of its own.
        let none = workload.is_load() || workload.replays;
        self.inserts = Inserts::new(if none { 0 } else { self.config.records });
        let directory = self.scratch.emptied(self.opener.name())?;
        // Now that the files are gone, and with them what they had of the page cache.
        self.limit.map_or(Ok(()), MemoryLimit::impose)?;
        Ok(directory)
    }

    fn result(
        &self,
        workload: &Workload,
        outcome: Outcome,
        ready: &Ready,
        harness_ns: f64,
    ) -> PhaseResult {
        let (_, engine) = self.store.as_ref().expect("a phase has just run on it");
        let record = self.config.record_bytes();
        let holes = self.history.iter().any(|past| past.workload.leaves_holes());
        let misses = holes || workload.misses();
        let Outcome { tally, reading, latencies, .. } = outcome;
        let (over_limit, exceeded) = over_limit(&reading, &outcome.samples);
        PhaseResult {
            engine: engine.name().to_owned(),
            settings: engine.describe(),
            workload: workload.name.to_owned(),
            phase: self.phases,
            conditions: Conditions {
                records: self.config.records,
                key_bytes: self.config.key_size.bytes() as u64,
                value_bytes: self.config.value_bytes(),
                value_sizes: self.config.value_sizes.to_string(),
                key_order: self.config.key_order.name().to_owned(),
                target_rate: self.config.rate_of(workload).map(|rate| rate.mean),
                latency_from_intended_start: self.config.is_open(workload),
                zipfian: self.config.skew.constant,
                zipfian_ranks: self.config.skew.ranks,
                moves_every: self.config.skew.moves_every,
                scan_length: self.config.scan_length,
                threads: self.config.threads,
                processors: thread::available_parallelism().map_or(1, usize::from),
                seed: self.config.seed,
                memory_limit: self.limit.map(MemoryLimit::bytes),
                caches_dropped: ready.caches_dropped,
                open_seconds: ready.open_seconds,
            },
            warm: outcome.warm,
            speed: Speed {
                operations: outcome.operations,
                running_seconds: outcome.running.as_secs_f64(),
                settled_seconds: outcome.settled.as_secs_f64(),
                sync_seconds: reading.sync.as_secs_f64(),
                harness_ns,
            },
            latency: latencies.overall(),
            latency_by_action: latencies.summaries(),
            latency_buckets: latencies.buckets(),
            checks: Checks {
                wrong_values: tally.wrong,
                not_found: tally.not_found,
                not_found_is_loss: !misses,
                over_limit,
                first_problem: tally.first_problem.or(exceeded),
            },
            user: UserBytes {
                written: tally.written,
                read: tally.read,
                live: (!holes).then(|| self.inserts.count() * record),
            },
            cost: reading.cost.without(tally.waited),
            space: reading.space,
            samples: outcome.samples,
            pieces: outcome.pieces,
            counters: reading.counters,
            counters_growth: reading.counters_growth,
        }
    }
}

/// At how many moments more of the disk was in use than the engine's limit allows, if it has one,
/// and the first of them in words.
fn over_limit(reading: &Reading, samples: &[Sample]) -> (u64, Option<String>) {
    let Some(limit) = reading.counters.get(SPACE_LIMIT) else { return (0, None) };
    let used = samples.iter().map(|sample| sample.allocated).chain([reading.space.end.allocated]);
    let over: Vec<u64> = used.filter(|used| *used as f64 > *limit).collect();
    let words = |used: &u64| {
        format!(
            "{} in use, beyond the limit of {}",
            units::bytes(*used),
            units::bytes(*limit as u64)
        )
    };
    (over.len() as u64, over.first().map(words))
}

#[cfg(test)]
mod tests;
