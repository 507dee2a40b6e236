//! One workload on an open engine, measured from the first operation to settled.
//!
//! Order: write back what is dirty, warm up ([`crate::warm`]), read the counters, run, let the
//! engine finish its background work, write back, read the counters again. A phase in pieces does
//! what follows the warm-up once for each, and adds up what it measured.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, Shared, Tally};
use crate::config::Config;
use crate::counters::HOT_KEYS;
use crate::engine::Engine;
use crate::error::{BenchError, Result};
use crate::inserts::Inserts;
use crate::latency::Latencies;
use crate::meter::{Meter, Reading};
use crate::observer::Observer;
use crate::result::{PieceTime, Sample};
use crate::system::{MemoryLimit, sync_file_system};
use crate::turns::Turns;
use crate::values::Values;
use crate::warm::{Warm, Warming};
use crate::workload::Workload;

/// Between two samples of throughput and space; between two reports of progress.
const SAMPLE_EVERY: Duration = Duration::from_millis(500);
/// Before the first sample of a piece; twice as long before each that follows, up to the other.
/// Pieces may be short, and a sample costs some microseconds for each file.
const FIRST_SAMPLE: Duration = Duration::from_millis(50);

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
    /// Receives its progress.
    pub observer: &'a dyn Observer,
    /// Tells when a piece of it may begin.
    pub turns: Turns,
    /// The step that it waits for.
    pub step: u32,
}

/// What a phase did.
pub struct Outcome {
    /// From the first operation to the end of the last.
    pub running: Duration,
    /// From the first operation until no background work was left.
    pub settled: Duration,
    /// How the store was warmed before them, if the run asked for a warm one.
    pub warm: Option<Warm>,
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
    /// The pieces of the phase, if it ran in several.
    pub pieces: Vec<PieceTime>,
    /// The counters.
    pub reading: Reading,
}

/// A client, and how long its operations took.
struct Clocked<'a> {
    client: Client<'a>,
    latencies: Latencies,
    /// Why it could not go on.
    failed: Option<BenchError>,
}

/// What the clients of a piece do: their part of the operations, for no longer than `duration`.
#[derive(Clone, Copy)]
struct Piece {
    /// Of the whole phase.
    operations: u64,
    /// Which part of them this is, and of how many.
    part: (u32, u32),
    duration: Option<Duration>,
    /// Whether the engine is to finish its background work at the end.
    settles: bool,
}

impl Piece {
    /// Operations of client `number` of `clients`.
    fn share(&self, number: u32, clients: u32, replays: bool) -> u64 {
        match self.operations {
            // Keys divide a trace among the clients: none knows how much is its own.
            all if replays || all == u64::MAX => all,
            all => part(part(all, clients, number), self.part.1, self.part.0),
        }
    }
}

impl Outcome {
    /// The outcome of two pieces: `self`, and then `next`.
    pub fn then(mut self, next: Self) -> Self {
        let (settled, operations) = (self.settled.as_secs_f64(), self.operations);
        self.pieces.extend(next.pieces);
        self.samples.extend(next.samples.into_iter().map(|sample| Sample {
            seconds: settled + sample.seconds,
            operations: operations + sample.operations,
            ..sample
        }));
        self.tally.merge(next.tally);
        self.latencies.merge(&next.latencies);
        Self {
            running: self.running + next.running,
            settled: self.settled + next.settled,
            operations: self.operations + next.operations,
            drawn: next.drawn,
            reading: self.reading.then(next.reading),
            ..self
        }
    }
}

impl Phase<'_> {
    /// Runs it.
    pub fn run(&self) -> Result<Outcome> {
        sync_file_system(self.directory)?;
        let Self { engine, workload, config, .. } = *self;
        let shared = Shared::new(engine, workload, config, self.number, self.values, self.inserts);
        let whole = self.whole && !workload.misses();
        let shared = if whole { shared.whole() } else { shared };
        let chooser = config.chooser(workload, self.inserts.count());
        let mut clients: Vec<_> = (0..config.threads)
            .map(|number| {
                let client = Client::new(&shared, number, chooser.clone())?;
                Ok(Clocked { client, latencies: Latencies::new(workload), failed: None })
            })
            .collect::<Result<_>>()?;
        let total = config.operations_of(workload);
        self.observer.begins(workload, (total < u64::MAX).then_some(total));
        let warm = self.warm_up(&mut clients)?;
        let pieces = config.pieces_of(workload);
        let piece = |at: u32| Piece {
            operations: total,
            part: (at, pieces),
            duration: config.duration_of(workload).map(|whole| whole / pieces),
            settles: workload.writes() || at + 1 == pieces,
        };
        let mut whole = self.piece(piece(0), &shared, &mut clients)?;
        for at in 1..pieces {
            whole = whole.then(self.piece(piece(at), &shared, &mut clients)?);
        }
        let (drawn, tallies): (Vec<_>, Vec<_>) = clients
            .into_iter()
            .map(|clocked| {
                whole.latencies.merge(&clocked.latencies);
                clocked.client.finish()
            })
            .unzip();
        tallies.into_iter().for_each(|tally| whole.tally.merge(tally));
        Ok(Outcome { drawn, warm, ..whole })
    }

    /// Warms the store, in windows until it is warm if the run asks for that.
    fn warm_up(&self, clients: &mut [Clocked<'_>]) -> Result<Option<Warm>> {
        let Self { engine, workload, config, .. } = *self;
        let (begin, limit) = (Instant::now(), config.warm_up_time());
        let mut unmeasured = |operations: u64| {
            let left = limit.map(|limit| limit.saturating_sub(begin.elapsed()));
            let drawn = |clients: &[Clocked<'_>]| clients.iter().map(|it| it.client.drawn()).sum();
            let before: u64 = drawn(clients);
            let share = |number| part(operations, config.threads, number);
            let task =
                |clocked: &mut Clocked<'_>, number| clocked.client.warm_up(share(number), left);
            self.together(clients, || (), task)?;
            Ok(drawn(clients) - before)
        };
        let Some(window) = config.window_of(workload) else {
            return unmeasured(config.warm_up_of(workload)).map(|_| None);
        };
        let mut warming = Warming::default();
        loop {
            let operations = unmeasured(window)?;
            // What was noted of hot keys is moved by background work.
            engine.wait_idle()?;
            let hot_keys = engine.counters().into_iter().find(|(name, _)| name == HOT_KEYS);
            let hot_keys = hot_keys.map(|(_, keys)| keys as u64);
            let in_time = limit.is_none_or(|limit| begin.elapsed() < limit);
            if !warming.goes_on(operations, hot_keys, in_time) {
                return Ok(Some(warming.warm));
            }
        }
    }

    /// One piece, from its turn to settled; what its clients counted is not in it yet.
    fn piece(
        &self,
        piece: Piece,
        shared: &Shared<'_>,
        clients: &mut [Clocked<'_>],
    ) -> Result<Outcome> {
        self.turns.wait(self.step)?;
        let (stop, stopped) = channel::<()>();
        let before = shared.done();
        let meter = Meter::start(self.engine, self.directory, self.limit)?;
        let begin = OnceLock::new();
        let start = || *begin.get_or_init(Instant::now);
        let (ran, running, settled, samples) = thread::scope(|scope| {
            let sampler = scope.spawn(|| self.sample(&meter, shared, before, start, stopped));
            let ran = self.together(
                clients,
                || _ = start(),
                |clocked, number| {
                    let (clients, replays) = (self.config.threads, self.workload.replays);
                    let operations = piece.share(number, clients, replays);
                    clocked.client.run(operations, piece.duration, &mut clocked.latencies)
                },
            );
            let running = start().elapsed();
            // Space is often at its peak now. A sampler that has panicked has no more to say.
            let _ = stop.send(());
            self.observer.settles();
            let settles = piece.settles && ran.is_ok();
            let ran = if settles { self.engine.wait_idle() } else { ran };
            let settled = start().elapsed();
            drop(stop);
            (ran, running, settled, sampler.join().unwrap_or_default())
        });
        ran?;
        let reading = meter.finish(&samples)?;
        let operations = shared.done() - before;
        let [running_seconds, settled_seconds] = [running, settled].map(|time| time.as_secs_f64());
        Ok(Outcome {
            running,
            settled,
            warm: None,
            operations,
            pieces: vec![PieceTime { operations, running_seconds, settled_seconds }],
            drawn: Vec::new(),
            tally: Tally::default(),
            latencies: Latencies::new(self.workload),
            samples,
            reading,
        })
    }

    /// Lets every client do its `task` in a thread of its own; all begin at once, after `begin`.
    fn together<'a>(
        &self,
        clients: &mut [Clocked<'a>],
        begin: impl FnOnce(),
        task: impl Fn(&mut Clocked<'a>, u32) -> Result<()> + Sync,
    ) -> Result<()> {
        let go = Barrier::new(clients.len() + 1);
        thread::scope(|scope| {
            for (number, clocked) in (0..).zip(clients.iter_mut()) {
                let (go, task) = (&go, &task);
                scope.spawn(move || {
                    go.wait();
                    if let Err(error) = caught(|| task(clocked, number)) {
                        clocked.client.give_up();
                        clocked.failed = Some(error);
                    }
                });
            }
            begin();
            go.wait();
        });
        clients.iter_mut().find_map(|clocked| clocked.failed.take()).map_or(Ok(()), Err)
    }

    /// Bytes of the records that exist after `done` operations, if that can be known.
    fn live(&self, done: u64) -> Option<u64> {
        let records = if self.workload.is_load() { done } else { self.inserts.count() };
        (self.whole && !self.workload.leaves_holes()).then(|| records * self.config.record_bytes())
    }

    /// Samples until `stopped` hangs up, and whenever it says something.
    fn sample(
        &self,
        meter: &Meter<'_>,
        shared: &Shared<'_>,
        before: u64,
        start: impl Fn() -> Instant,
        stopped: Receiver<()>,
    ) -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut pause = FIRST_SAMPLE;
        while stopped.recv_timeout(pause) != Err(RecvTimeoutError::Disconnected) {
            pause = SAMPLE_EVERY.min(pause * 2);
            let (elapsed, done) = (start().elapsed(), shared.done());
            samples.push(meter.sample(elapsed, done - before, self.live(done)));
            self.observer.runs(done, elapsed);
        }
        samples
    }
}

/// The `at`th of `pieces` nearly equal parts of `total`.
fn part(total: u64, pieces: u32, at: u32) -> u64 {
    let pieces = u64::from(pieces);
    total / pieces + u64::from(u64::from(at) < total % pieces)
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
