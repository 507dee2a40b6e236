//! What the change feed costs and how fast it is, for every preset: puts a second and bytes written
//! with and without changes kept, in rounds of a drawn order; how fast changes are read back; and
//! how long after its commit a batch reaches a reader, in the process and beside it.
//!
//! `cargo run --release --manifest-path bench/cli/Cargo.toml --example feed [COUNT] [ROUNDS] [DIR]`

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cleavedb::{ChangeKind, Changes, Db, Durability, Options, Preset, Result};

/// Bytes of a value.
const VALUE: usize = 400;

/// How long lags are measured, and the pause between two commits.
const LAG_TIME: Duration = Duration::from_secs(2);
const LAG_PAUSE: Duration = Duration::from_micros(500);

const MIB: f64 = (1 << 20) as f64;

/// One run of puts.
struct Run {
    preset: Preset,
    keeps: bool,
    /// Puts a second, up to the last one, and with all work that it leaves.
    puts: [f64; 2],
    /// Bytes that the database wrote, for each byte that was put.
    written: f64,
    /// MiB of values a second that the changes are read back with.
    told: f64,
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % n
    }
}

/// A value that cannot be compressed.
fn value(number: u64) -> [u8; VALUE] {
    let mut draw = Draw(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut value = [0; VALUE];
    value.chunks_exact_mut(4).for_each(|part| {
        part.copy_from_slice(&(draw.below(1 << 31) as u32).to_le_bytes());
    });
    value
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn options(preset: Preset, keeps: bool) -> Options {
    let change_retention_bytes = keeps.then_some(1 << 40);
    Options { durability: Durability::Os, change_retention_bytes, ..Options::preset(preset) }
}

/// Puts each of half as many keys twice.
fn run(path: &Path, preset: Preset, keeps: bool, count: u64) -> Result<Run> {
    let db = Db::open(path, options(preset, keeps))?;
    let begun = Instant::now();
    for number in 0..count {
        db.put(key(number % (count / 2)), value(number))?;
    }
    let acknowledged = begun.elapsed();
    db.flush()?;
    db.wait_idle()?;
    let puts = [acknowledged, begun.elapsed()].map(|took| count as f64 / took.as_secs_f64());
    let metrics = db.metrics();
    let written = metrics.written() as f64 / metrics.user_bytes as f64;
    let told = if keeps { read_back(&db, count)? } else { 0.0 };
    db.close()?;
    Ok(Run { preset, keeps, puts, written, told })
}

fn read_back(db: &Db, count: u64) -> Result<f64> {
    let (begun, mut batches) = (Instant::now(), 0);
    for batch in db.changes(1)? {
        batch?;
        batches += 1;
    }
    assert_eq!(batches, count);
    Ok((count * VALUE as u64) as f64 / MIB / begun.elapsed().as_secs_f64())
}

/// Milliseconds from the call of a put to the delivery of its batch: of half of them, of 99% of
/// them, and of all.
fn lags(primary: &Db, mut changes: Changes) -> Result<[f64; 3]> {
    let (origin, ended) = (Instant::now(), AtomicBool::new(false));
    let mut lags = Vec::new();
    thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| -> Result<()> {
            let mut value = value(7);
            while origin.elapsed() < LAG_TIME {
                let now = origin.elapsed().as_nanos() as u64;
                value[..8].copy_from_slice(&now.to_le_bytes());
                primary.put(now.to_be_bytes(), value)?;
                thread::sleep(LAG_PAUSE);
            }
            ended.store(true, Ordering::Release);
            Ok(())
        });
        loop {
            let all = ended.load(Ordering::Acquire);
            if !changes.wait(Duration::from_millis(200)) && all {
                break;
            }
            for batch in changes.by_ref() {
                let ChangeKind::Put { value, .. } = &batch?.changes[0].kind else { continue };
                let put = u64::from_le_bytes(value[..8].try_into().expect("eight bytes"));
                lags.push(origin.elapsed().as_nanos() as u64 - put);
            }
        }
        writer.join().expect("the writer does not panic")
    })?;
    lags.sort_unstable();
    let at = |part: f64| lags[((lags.len() - 1) as f64 * part) as usize] as f64 / 1e6;
    Ok([at(0.5), at(0.99), at(1.0)])
}

fn measure_lags(path: &Path, preset: Preset) -> Result<()> {
    let primary = Db::open(path, options(preset, true))?;
    primary.put("first", "1")?;
    let own = lags(&primary, primary.changes(primary.snapshot().seq() + 1)?)?;
    let secondary = Db::open_secondary(path)?;
    let beside = lags(&primary, secondary.changes(primary.snapshot().seq() + 1)?)?;
    let name = preset.to_string();
    let text = |[half, most, all]: [f64; 3]| format!("{half:7.2} {most:7.2} {all:7.2}");
    println!("{name:8} {}   {}", text(own), text(beside));
    primary.close().map(drop)
}

/// The median.
fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().and_then(|it| it.parse().ok()).unwrap_or(150_000);
    let rounds: u64 = arguments.next().and_then(|it| it.parse().ok()).unwrap_or(3);
    let dir = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = dir.join(format!("cleave-feed-{}", std::process::id()));
    std::fs::create_dir(&dir).expect("the directory can be made");
    let (mut draw, mut runs) = (Draw(11), Vec::new());
    for _ in 0..rounds {
        let mut left: Vec<_> =
            Preset::ALL.into_iter().flat_map(|it| [(it, false), (it, true)]).collect();
        while !left.is_empty() {
            let (preset, keeps) = left.swap_remove(draw.below(left.len() as u64) as usize);
            let path = dir.join("db");
            runs.push(run(&path, preset, keeps, count)?);
            Db::destroy(&path)?;
        }
    }
    println!("{count} puts of {VALUE} bytes, medians of {rounds} rounds");
    println!("         puts/s acknowledged    puts/s with all work   written/put    changes");
    println!("preset       off     kept         off     kept           off   kept   MiB/s");
    for preset in Preset::ALL {
        let of = |keeps: bool, figure: fn(&Run) -> f64| {
            let runs = runs.iter().filter(|run| run.preset == preset && run.keeps == keeps);
            median(runs.map(figure).collect())
        };
        let both = |figure: fn(&Run) -> f64| [of(false, figure), of(true, figure)];
        let name = preset.to_string();
        let ([a, b], [c, d]) = (both(|run| run.puts[0]), both(|run| run.puts[1]));
        let ([e, f], told) = (both(|run| run.written), of(true, |run| run.told));
        println!("{name:8} {a:8.0} {b:8.0}    {c:8.0} {d:8.0}        {e:6.2} {f:6.2} {told:7.0}");
    }
    println!("milliseconds from put to delivery: half, 99%, all; in the process, on a secondary");
    for preset in Preset::ALL {
        measure_lags(&dir.join(preset.to_string()), preset)?;
    }
    let _ = std::fs::remove_dir_all(&dir);
    Ok(())
}
