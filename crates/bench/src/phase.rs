//! One workload on an open engine, measured from the first operation to settled.
//!
//! Order: write back what is dirty, start the clients, warm up, read the counters, run, let the
//! engine finish its background work, write back, read the counters again.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::client::{Client, Shared, Tally};
use crate::config::Config;
use crate::engine::Engine;
use crate::error::{BenchError, Result};
use crate::inserts::Inserts;
use crate::latency::Latencies;
use crate::meter::{Meter, Reading};
use crate::observer::Observer;
use crate::result::Sample;
use crate::system::{MemoryLimit, sync_file_system};
use crate::values::Values;
use crate::workload::Workload;

/// Between two samples of throughput and space; between two reports of progress.
const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// A phase about to run.
pub struct Phase<'a> {
    /// The engine, open.
    pub engine: &'a dyn Engine,
    /// Where its files are.
    pub directory: &'a Path,
    /// What is asked of it.
    pub workload: &'a Workload,
    /// Sizes, seed, threads.
    pub config: &'a Config,
    /// Number of the phase in its run.
    pub number: u32,
    /// The values.
    pub values: &'a Values,
    /// The records that exist.
    pub inserts: &'a Inserts,
    /// Whether all of them do: no phase before this one left holes.
    pub whole: bool,
    /// The memory limit in force.
    pub limit: Option<&'a MemoryLimit>,
    /// Who is told how it goes.
    pub observer: &'a dyn Observer,
}

/// What a phase did.
pub struct Outcome {
    /// From the first operation to the end of the last.
    pub running: Duration,
    /// From the first operation until no background work was left.
    pub settled: Duration,
    /// Measured operations.
    pub operations: u64,
    /// Operations drawn by each thread, warm-up included: enough to replay them.
    pub drawn: Vec<u64>,
    /// What the clients found.
    pub tally: Tally,
    /// How long operations took.
    pub latencies: Latencies,
    /// Throughput and space over time.
    pub samples: Vec<Sample>,
    /// The counters.
    pub reading: Reading,
}

/// What one client thread returns.
struct ClientEnd {
    drawn: u64,
    tally: Tally,
    latencies: Latencies,
}

impl Phase<'_> {
    /// Runs it.
    pub fn run(&self) -> Result<Outcome> {
        sync_file_system(self.directory)?;
        let shared = Shared::new(
            self.engine,
            self.workload,
            self.config,
            self.number,
            self.values,
            self.inserts,
        );
        let chooser = self.config.chooser(self.workload, self.inserts.count());
        // Made before any thread starts: one that failed would leave the others at the barrier.
        let clients: Vec<_> = (0..self.config.threads)
            .map(|number| Client::new(&shared, number, chooser.clone()))
            .collect::<Result<_>>()?;
        let total = self.config.operations_of(self.workload);
        self.observer.begins(self.workload, (total < u64::MAX).then_some(total));
        let parties = self.config.threads as usize + 1;
        let (warm, go) = (Barrier::new(parties), Barrier::new(parties));
        thread::scope(|scope| {
            let clients: Vec<_> = (0..)
                .zip(clients)
                .map(|(number, client)| {
                    let (warm, go) = (&warm, &go);
                    scope.spawn(move || self.client(client, number, warm, go))
                })
                .collect();
            warm.wait();
            let meter = Meter::start(self.engine, self.directory, self.limit);
            // Even without a meter the clients are let go, or they would wait for ever.
            let joined = || clients.into_iter().map(joined).collect();
            let begin = Instant::now();
            go.wait();
            match meter {
                Ok(meter) => self.measure(&shared, meter, begin, joined),
                Err(error) => joined().and(Err(error)),
            }
        })
    }

    /// From the moment that clients go: waits for them by `joined`, settles, reads the counters.
    fn measure(
        &self,
        shared: &Shared<'_>,
        meter: Meter<'_>,
        begin: Instant,
        joined: impl FnOnce() -> Result<Vec<ClientEnd>>,
    ) -> Result<Outcome> {
        let (stop, stopped) = channel::<()>();
        let (ends, running, settled, samples) = thread::scope(|scope| {
            let sampler = scope.spawn(|| self.sample(&meter, shared, begin, stopped));
            let ends = joined();
            let running = begin.elapsed();
            self.observer.settles();
            let ends = ends.and_then(|ends| self.engine.settle().map(|()| ends));
            let settled = begin.elapsed();
            drop(stop);
            (ends, running, settled, sampler.join().unwrap_or_default())
        });
        let ends = ends?;
        let reading = meter.finish(&samples)?;
        let drawn = ends.iter().map(|end| end.drawn).collect();
        let (tally, latencies) = merge(self.workload, ends);
        let operations = shared.done();
        Ok(Outcome { running, settled, operations, drawn, tally, latencies, samples, reading })
    }

    /// Bytes of the records that exist after `done` operations, if that can be known.
    fn live(&self, done: u64) -> Option<u64> {
        let records = if self.workload.is_load() { done } else { self.inserts.count() };
        (self.whole && !self.workload.leaves_holes()).then(|| records * self.config.record_bytes())
    }

    /// A client's thread. Both barriers are passed whatever happens, or the phase would hang.
    fn client(
        &self,
        mut client: Client<'_>,
        number: u32,
        warm: &Barrier,
        go: &Barrier,
    ) -> Result<ClientEnd> {
        let threads = u64::from(self.config.threads);
        let part = |total: u64| total / threads + u64::from(u64::from(number) < total % threads);
        let mut latencies = Latencies::new(self.workload);
        let warmed = caught(|| client.warm_up(part(self.config.warm_up_of(self.workload))));
        warm.wait();
        go.wait();
        let ran = warmed.and_then(|()| {
            // Keys divide a trace among the clients: none of them knows how much is its own.
            let operations = self.config.operations_of(self.workload);
            let operations = if self.workload.replays { operations } else { part(operations) };
            let duration = self.config.duration_of(self.workload);
            caught(|| client.run(operations, duration, &mut latencies))
        });
        let ran = ran.inspect_err(|_| client.give_up());
        let (drawn, tally) = client.finish();
        ran.map(|()| ClientEnd { drawn, tally, latencies })
    }

    /// Samples until `stopped` hangs up.
    fn sample(
        &self,
        meter: &Meter<'_>,
        shared: &Shared<'_>,
        begin: Instant,
        stopped: Receiver<()>,
    ) -> Vec<Sample> {
        let mut samples = Vec::new();
        while stopped.recv_timeout(SAMPLE_EVERY) == Err(RecvTimeoutError::Timeout) {
            let (elapsed, done) = (begin.elapsed(), shared.done());
            samples.push(meter.sample(elapsed, done, self.live(done)));
            self.observer.runs(done, elapsed);
        }
        samples
    }
}

fn merge(workload: &Workload, ends: Vec<ClientEnd>) -> (Tally, Latencies) {
    let none = (Tally::default(), Latencies::new(workload));
    ends.into_iter().fold(none, |(mut tally, mut latencies), end| {
        tally.merge(end.tally);
        latencies.merge(&end.latencies);
        (tally, latencies)
    })
}

fn joined<T>(handle: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    handle.join().unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// Turns a panic of the engine into an error of the run.
fn caught(action: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

fn panicked(panic: &(dyn Any + Send)) -> BenchError {
    let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
    let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
    BenchError::Panicked(words.unwrap_or_else(|| "no message".to_owned()))
}
