//! A soak: the default for an hour at four fifths of the rate that it can keep. Values are of mixed
//! lengths, the hot keys move every two minutes, and every minute each client deletes a range of a
//! twentieth of its keys and puts them back. Every read is compared with the last write, and the
//! whole store at the end, after a minute without writes. Prints a line every ten seconds, and can
//! draw space, memory and latency.
//!
//! `cargo run --release --manifest-path bench/cli/Cargo.toml --example soak -- --help`

use std::error::Error;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use cleavedb::{Db, Durability, Options};
use cleavedb_bench::distribution::{Chooser, Distribution, Skew};
use cleavedb_bench::hash::mix;
use cleavedb_bench::keys::{Key, KeyOrder, KeySize, Shuffle, hash_of_any};
use cleavedb_bench::latency::Latencies;
use cleavedb_bench::pace::{Pace, Rate, wait_until};
use cleavedb_bench::random::below;
use cleavedb_bench::report::chart::{Axes, Paint, Series, alone, lines, stacked};
use cleavedb_bench::sizes::ValueSizes;
use cleavedb_bench::system::process::Processes;
use cleavedb_bench::system::{MemoryLimit, Usage};
use cleavedb_bench::units;
use cleavedb_bench::values::{ValueBuffer, Values};
use cleavedb_bench::workload::{Action, select};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const MIB: f64 = (1 << 20) as f64;
/// Clients, each with keys of its own.
const CLIENTS: u32 = 2;
/// The share of what the store can keep that is asked of it.
const SHARE: f64 = 0.8;
/// Between two samples, and samples of a line.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
const SAMPLES: u32 = 10;
/// Between two deletes of a range by a client, which has an Nth of its keys.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
const SWEEP_PART: u64 = 20;
/// Seconds until other keys are hot.
const MOVE_EVERY: f64 = 120.0;
/// How long no client writes at the end.
const REST: Duration = Duration::from_secs(60);
/// What space may be at every moment: this share of the live bytes, and these beside it.
const SPACE_SHARE: f64 = 1.3;
const SPACE_FLOOR: f64 = 256.0 * MIB;

/// A soak of the default
#[derive(Parser)]
struct Args {
    /// Minutes at a rate
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Minutes as fast as it can, before: the last two thirds of them say the rate
    #[arg(long, default_value_t = 6.0)]
    learn: f64,
    /// Operations a second, in place of four fifths of what was learned
    #[arg(long)]
    rate: Option<f64>,
    /// Records, of 1.7 KiB on average
    #[arg(long, value_parser = units::parse, default_value = "1200k")]
    records: u64,
    /// Limit on memory, page cache included
    #[arg(long, value_parser = units::parse, default_value = "1GiB")]
    memory_limit: u64,
    /// Directory below which the store is, until the end
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Draw space, memory and latency to this file
    #[arg(long, value_name = "FILE.svg")]
    chart: Option<PathBuf>,
}

/// Bytes of a value.
fn length(number: u64, version: u32) -> usize {
    let draw = mix(number << 32 | u64::from(version));
    let within = draw >> 32;
    let bytes = match draw % 100 {
        0..40 => 100 + within % 200,
        40..85 => 512 + within % 1024,
        85..98 => 4096,
        _ => 32 << 10,
    };
    bytes as usize
}

fn key(number: u64) -> Key {
    KeySize::Long.key(KeyOrder::Ordered.hash(number))
}

/// What the clients share.
struct Shared {
    db: Db,
    values: Values,
    /// Bytes of keys and values that are there.
    live: AtomicU64,
    operations: AtomicU64,
    stop: AtomicBool,
    /// How long operations took since the last line, by client.
    windows: Vec<Mutex<Latencies>>,
}

/// A client, the only one that writes its keys.
struct Client<'a> {
    shared: &'a Shared,
    number: u32,
    own: Range<u64>,
    /// The last version of each of its records; 0 if it is not there.
    versions: Vec<u32>,
    written: u32,
    chooser: Chooser,
    random: Xoshiro256PlusPlus,
    buffer: ValueBuffer,
    /// Records that were deleted and are to be put back, by their places.
    gone: Range<u64>,
}

impl<'a> Client<'a> {
    fn new(shared: &'a Shared, number: u32, records: u64) -> Self {
        let each = records / u64::from(CLIENTS);
        let from = each * u64::from(number);
        Self {
            shared,
            number,
            own: from..from + each,
            versions: vec![0; each as usize],
            written: 0,
            chooser: Chooser::new(Distribution::Uniform, each, 1, Skew::default()),
            random: Xoshiro256PlusPlus::seed_from_u64(u64::from(number)),
            buffer: ValueBuffer::default(),
            gone: 0..0,
        }
    }

    fn each(&self) -> u64 {
        self.own.end - self.own.start
    }

    /// Bytes of the record at `place`, if it is there.
    fn bytes(&self, place: u64) -> u64 {
        match self.versions[place as usize] {
            0 => 0,
            version => (key(0).len() + length(self.own.start + place, version)) as u64,
        }
    }

    fn put(&mut self, place: u64) -> Result<()> {
        let number = self.own.start + place;
        self.written += 1;
        let (version, hash) = (self.written, KeyOrder::Ordered.hash(number));
        let length = length(number, version);
        let value = self.shared.values.make_sized(hash, version.into(), length, &mut self.buffer);
        self.shared.db.put(&*key(number), value)?;
        let before = self.bytes(place);
        self.versions[place as usize] = version;
        self.shared.live.fetch_add(self.bytes(place), Ordering::Relaxed);
        self.shared.live.fetch_sub(before, Ordering::Relaxed);
        Ok(())
    }

    fn get(&self, place: u64) -> Result<()> {
        let number = self.own.start + place;
        let found = self.shared.db.get(&*key(number))?;
        check(&self.shared.values, number, found.as_deref(), self.versions[place as usize])
    }

    /// Deletes a range of records, and remembers to put them back.
    fn sweep(&mut self) -> Result<()> {
        let (each, many) = (self.each(), self.each() / SWEEP_PART);
        let from = below(&mut self.random, each - many);
        let (first, end) = (key(self.own.start + from), key(self.own.start + from + many));
        self.shared.db.delete_range(first[..].to_vec()..end[..].to_vec())?;
        let dead = (from..from + many).map(|place| self.bytes(place)).sum();
        self.shared.live.fetch_sub(dead, Ordering::Relaxed);
        self.versions[from as usize..(from + many) as usize].fill(0);
        self.gone = from..from + many;
        Ok(())
    }

    /// A read or a write.
    fn step(&mut self) -> Result<Action> {
        let draw = below(&mut self.random, 100);
        if draw < 10 {
            let absent = |place: &u64| self.versions[*place as usize] == 0;
            if let Some(place) = self.gone.by_ref().find(absent) {
                return self.put(place).map(|()| Action::Update);
            }
        }
        let each = self.each();
        let place = self.chooser.next(&mut self.random, each);
        if draw < 55 {
            return self.put(place).map(|()| Action::Update);
        }
        self.get(place).map(|()| Action::Read)
    }

    /// Puts every record once.
    fn load(&mut self) -> Result<()> {
        let order = Shuffle::new(self.each(), 1);
        (0..self.each()).try_for_each(|at| self.put(order.of(at)))
    }

    /// Works until it is to stop: as fast as it can, or at `rate`, with times from when operations
    /// were due.
    fn run(&mut self, rate: Option<f64>) -> Result<()> {
        let clock = quanta::Clock::new();
        let rate = rate.map(|mean| Rate { mean, swing: 0.0, period: 1.0 });
        let mut pace = rate.map(|rate| Pace::new(rate, self.number, CLIENTS));
        let (begin, started) = (clock.now(), Instant::now());
        let mut sweep_at = SWEEP_EVERY * (1 + self.number) / CLIENTS;
        while !self.shared.stop.load(Ordering::Relaxed) {
            let due = pace.as_mut().map(|pace| begin + pace.next_start());
            due.into_iter().for_each(|due| _ = wait_until(&clock, due));
            let due = due.unwrap_or_else(|| clock.now());
            let action = if started.elapsed() >= sweep_at {
                sweep_at += SWEEP_EVERY;
                self.sweep().map(|()| Action::Update)?
            } else {
                self.step()?
            };
            let took = clock.now().duration_since(due);
            self.shared.operations.fetch_add(1, Ordering::Relaxed);
            let window = &self.shared.windows[self.number as usize];
            let mut window = window.lock().unwrap_or_else(PoisonError::into_inner);
            window.record(action, took.as_nanos() as u64);
        }
        Ok(())
    }
}

/// Whether what was read is what was written last.
fn check(values: &Values, number: u64, found: Option<&[u8]>, version: u32) -> Result<()> {
    let hash = KeyOrder::Ordered.hash(number);
    let told = found.map_or(Ok(0), |value| values.check(hash, value))?;
    if told != u64::from(version) {
        return Err(format!("record {number} holds version {told}, not {version}").into());
    }
    Ok(())
}

/// Lets every client do its `task` in a thread of its own, `meanwhile` beside them; all stop when
/// that ends.
fn together<'a, T>(
    shared: &Shared,
    clients: &mut [Client<'a>],
    task: impl Fn(&mut Client<'a>) -> Result<()> + Sync,
    meanwhile: impl FnOnce() -> T,
) -> Result<T> {
    shared.stop.store(false, Ordering::Relaxed);
    thread::scope(|scope| {
        let task = &task;
        let end_all = |error| {
            shared.stop.store(true, Ordering::Relaxed);
            error
        };
        let spawn = |client| scope.spawn(move || task(client).map_err(end_all));
        let threads: Vec<_> = clients.iter_mut().map(spawn).collect();
        let done = meanwhile();
        shared.stop.store(true, Ordering::Relaxed);
        threads.into_iter().try_for_each(|it| it.join().expect("a client does not panic"))?;
        Ok(done)
    })
}

/// What a line says: seconds since the rate began, bytes, and times in microseconds.
#[derive(Default)]
struct Row {
    second: f64,
    operations: f64,
    allocated: u64,
    live: u64,
    resident: u64,
    half: f64,
    p999: f64,
    longest: f64,
}

impl Row {
    fn of_bound(&self) -> f64 {
        self.allocated as f64 / (self.live as f64 * SPACE_SHARE + SPACE_FLOOR)
    }

    fn print(&self) {
        println!(
            "{:7.1} {:9.0} {:8.0} {:9.2} {:9.1} {:9.0} {:9.0} {:6.2} {:7.2} {:9.0}",
            self.second / 60.0,
            self.operations,
            self.half,
            self.p999 / 1e3,
            self.longest / 1e3,
            self.live as f64 / MIB,
            self.allocated as f64 / MIB,
            self.allocated as f64 / self.live as f64,
            self.of_bound(),
            self.resident as f64 / MIB,
        );
    }
}

/// Samples for `time`, or until a client failed; each row has the largest space and memory of it.
fn watch(shared: &Shared, directory: &Path, time: Duration, begin: Instant) -> Vec<Row> {
    let (started, mut rows) = (Instant::now(), Vec::<Row>::new());
    while started.elapsed() < time && !shared.stop.load(Ordering::Relaxed) {
        let (at, done) = (Instant::now(), shared.operations.load(Ordering::Relaxed));
        let mut row = Row::default();
        for _ in 0..SAMPLES {
            thread::sleep(SAMPLE_EVERY);
            let now = Row {
                allocated: Usage::of(directory).allocated,
                live: shared.live.load(Ordering::Relaxed).max(1),
                ..Row::default()
            };
            if now.of_bound() > row.of_bound() {
                (row.allocated, row.live) = (now.allocated, now.live);
            }
            row.resident = row.resident.max(Processes::default().memory().unwrap_or_default());
        }
        let mut times = fresh();
        for window in &shared.windows {
            let mut window = window.lock().unwrap_or_else(PoisonError::into_inner);
            times.merge(&std::mem::replace(&mut *window, fresh()));
        }
        let (times, now) = (times.overall(), shared.operations.load(Ordering::Relaxed));
        row.second = begin.elapsed().as_secs_f64();
        row.operations = (now - done) as f64 / at.elapsed().as_secs_f64();
        (row.half, row.p999, row.longest) = (times.p50_us, times.p999_us, times.max_us);
        row.print();
        rows.push(row);
    }
    rows
}

fn fresh() -> Latencies {
    let both = select(&["ycsb-a"]).expect("the workload is known");
    Latencies::new(&both[both.len() - 1])
}

/// Compares the whole store with what was written; returns how many records it has.
fn verify(shared: &Shared, clients: &[Client<'_>]) -> Result<u64> {
    let versions: Vec<u32> = clients.iter().flat_map(|it| it.versions.iter().copied()).collect();
    let (mut next, mut there) = (0, 0);
    for item in shared.db.range(..) {
        let item = item?;
        let number = KeyOrder::Ordered.number(hash_of_any(&item.key)).unwrap_or_default();
        let skipped = next..number.min(versions.len() as u64);
        skipped
            .into_iter()
            .try_for_each(|it| check(&shared.values, it, None, versions[it as usize]))?;
        let version = versions.get(number as usize).copied().unwrap_or_default();
        check(&shared.values, number, Some(&item.value), version)?;
        (next, there) = (number + 1, there + 1);
    }
    let left = next..versions.len() as u64;
    left.into_iter().try_for_each(|it| check(&shared.values, it, None, versions[it as usize]))?;
    Ok(there)
}

fn draw(rows: &[Row], memory_bytes: usize) -> String {
    let series = |paint, of: &dyn Fn(&Row) -> f64| Series {
        paint,
        points: rows.iter().map(|row| (row.second / 60.0, of(row))).collect(),
    };
    let own = Paint::Engine(0);
    let panel = |series: &[Series], x_title| {
        let short = |value: f64| format!("{value:.0}");
        lines(series, &Axes { x: &short, y: &short, x_title, logarithmic: false })
    };
    let bound = |row: &Row| (row.live as f64 * SPACE_SHARE + SPACE_FLOOR) / MIB;
    let space = [
        series(own, &|row| row.allocated as f64 / MIB),
        series(Paint::Reference, &|row| row.live as f64 / MIB),
        series(Paint::Budget(0), &bound),
    ];
    let memory = [
        series(own, &|row| row.resident as f64 / MIB),
        series(Paint::Budget(0), &|_| memory_bytes as f64 / MIB),
    ];
    let latency = [series(own, &|row| row.p999 / 1e3)];
    let panels = [
        panel(&space, "minutes; MiB taken, live (grey) and allowed (red)"),
        panel(&memory, "minutes; MiB resident and allowed (red)"),
        panel(&latency, "minutes; 99.9th percentile, ms"),
    ];
    alone(&stacked(&panels))
}

/// The median over `rows`.
fn median(rows: &[Row], of: impl Fn(&Row) -> f64) -> f64 {
    let mut all: Vec<_> = rows.iter().map(of).collect();
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

fn conclude(rows: &[Row]) {
    let most = |of: &dyn Fn(&Row) -> f64| rows.iter().map(of).fold(0.0, f64::max);
    println!(
        "most: space {:.2} of its bound, resident {:.0} MiB, p99.9 {:.1} ms, longest {:.0} ms",
        most(&Row::of_bound),
        most(&|row| row.resident as f64) / MIB,
        most(&|row| row.p999) / 1e3,
        most(&|row| row.longest) / 1e3,
    );
    let quarter = rows.len().div_ceil(4).max(1);
    for (name, rows) in ["first", "second", "third", "last"].iter().zip(rows.chunks(quarter)) {
        println!(
            "{name} quarter, medians: {:.0} op/s, space {:.2}, resident {:.0} MiB, p99.9 {:.2} ms",
            median(rows, |row| row.operations),
            median(rows, |row| row.allocated as f64 / row.live as f64),
            median(rows, |row| row.resident as f64 / MIB),
            median(rows, |row| row.p999 / 1e3),
        );
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let _limit = MemoryLimit::set(args.memory_limit).inspect_err(|why| eprintln!("{why}"));
    let home = tempfile::tempdir_in(&args.dir)?;
    let directory = home.path().join("db");
    let options = Options { durability: Durability::Os, ..Options::default() };
    let memory_bytes = options.memory_bytes;
    let shared = Shared {
        db: Db::open(&directory, options)?,
        values: Values::new(&ValueSizes::Fixed(1024)),
        live: AtomicU64::new(0),
        operations: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        windows: (0..CLIENTS).map(|_| Mutex::new(fresh())).collect(),
    };
    let mut clients: Vec<_> =
        (0..CLIENTS).map(|number| Client::new(&shared, number, args.records)).collect();
    together(&shared, &mut clients, Client::load, || ())?;
    println!(
        " minute      op/s   p50,us  p99.9,ms   max,ms  live,MiB     space  share  bound  resident"
    );
    let begin = Instant::now();
    let minutes = |count: f64| Duration::from_secs_f64(count * 60.0);
    let moving = |clients: &mut [Client<'_>], rate: f64| {
        for client in clients {
            let moves_every = Some((rate / f64::from(CLIENTS) * MOVE_EVERY) as u64);
            let (each, ranks) = (client.each(), client.each());
            let skew = Skew { moves_every, ranks, ..Skew::default() };
            client.chooser = Chooser::new(Distribution::Moving, each, 1, skew);
        }
    };
    let rate = match args.rate {
        Some(rate) => rate,
        None => {
            moving(&mut clients, 60_000.0);
            let watching = || watch(&shared, &directory, minutes(args.learn), begin);
            let rows = together(&shared, &mut clients, |it| it.run(None), watching)?;
            let rest = &rows[rows.len() / 3..];
            rest.iter().map(|row| row.operations).sum::<f64>() / rest.len() as f64 * SHARE
        }
    };
    println!("{rate:.0} operations a second from here on");
    moving(&mut clients, rate);
    let begin = Instant::now();
    let watching = || watch(&shared, &directory, minutes(args.minutes), begin);
    let mut rows = together(&shared, &mut clients, |it| it.run(Some(rate)), watching)?;
    conclude(&rows);
    println!("no writes from here on");
    shared.stop.store(false, Ordering::Relaxed);
    rows.extend(watch(&shared, &directory, REST, begin));
    let there = verify(&shared, &clients)?;
    println!("{there} records, each with its last write");
    if let Some(path) = args.chart {
        fs::write(path, draw(&rows, memory_bytes))?;
    }
    shared.db.close()?;
    Ok(())
}
