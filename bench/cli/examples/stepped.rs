//! Workloads whose jobs the caller steps, so that every run does the same: for counting
//! instructions, which the noise of a machine does not reach.
//!
//! ```sh
//! cargo build --release --manifest-path bench/cli/Cargo.toml --example stepped
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!     --toggle-collect='stepped::counted*' target/release/examples/stepped ktstore update 80000
//! ```
//!
//! The count that callgrind prints is that of all operations and of the jobs that they cause, to
//! the last flush. The store is loaded by a process of its own, which callgrind does not follow.

use std::error::Error;
use std::fs::read_to_string;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

use cleavedb::{Background, Db, Durability, Options, Preset};
use cleavedb_bench::distribution::{SCRAMBLED_RANKS, ZIPFIAN_CONSTANT, Zipfian};
use cleavedb_bench::hash::{fnv_hash, mix};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "stepped PRESET load|update|ycsb-a|...|ycsb-f [OPERATIONS [VALUE_BYTES [DIR]]]";

/// Keys, each loaded once before the other workloads.
const KEYS: u64 = 40_000;

/// Operations between two looks for jobs.
const STEP: usize = 500;

/// What is done with a key.
enum Operation {
    Put,
    Get,
    GetAndPut,
    Scan(usize),
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |at: usize| arguments.get(at).map(String::as_str);
    let (name, workload) = (argument(1).ok_or(USAGE)?, argument(2).ok_or(USAGE)?);
    let preset = Preset::from_name(name).ok_or(USAGE)?;
    let count = argument(3).map_or(Ok(KEYS), str::parse)?;
    let value = vec![7; argument(4).map_or(Ok(1024), str::parse)?];
    let temporary = tempfile::tempdir()?;
    let dir = argument(5).map_or(temporary.path().join("db"), Into::into);
    if workload != "load" {
        load(name, value.len(), &dir)?;
    }
    let operations = drawn(workload, count)?;
    let options = Options {
        durability: Durability::Buffered,
        background: Background::Manual,
        memory_bytes: 48 << 20,
        ..Options::preset(preset)
    };
    let db = Db::open(dir, options)?;
    let (before, calls) = (db.metrics(), bytes_of_calls()?);
    counted(&db, &operations, &value)?;
    let (after, [read, wrote]) = (db.metrics(), bytes_of_calls()?);
    println!(
        "{name} {workload}: {} operations, {} bytes written, {} read and {} written by calls, \
         {} flushes, {} compactions, {} collections",
        operations.len(),
        after.written() - before.written(),
        read - calls[0],
        wrote - calls[1],
        after.flushes - before.flushes,
        after.compactions - before.compactions,
        after.collections - before.collections,
    );
    Ok(db.close_now()?)
}

/// Loads and settles a store at `dir`, in another process.
fn load(preset: &str, value_bytes: usize, dir: &Path) -> Result<()> {
    let count = [KEYS.to_string(), value_bytes.to_string()];
    let mut command = Command::new(std::env::current_exe()?);
    command.args([preset, "load"]).args(count).arg(dir).stdout(Stdio::null());
    if !command.status()?.success() {
        return Err("the load failed".into());
    }
    Ok(())
}

/// The operations of `workload`, drawn beforehand so that their choice is not counted.
fn drawn(workload: &str, count: u64) -> Result<Vec<(Operation, [u8; 8])>> {
    // Of a hundred operations as many read, scan, or read and put; the others put.
    let (reads, scans, both) = match workload {
        "load" | "update" => (0, 0, 0),
        "ycsb-a" => (50, 0, 0),
        "ycsb-b" | "ycsb-d" => (95, 0, 0),
        "ycsb-c" => (100, 0, 0),
        "ycsb-e" => (0, 95, 0),
        "ycsb-f" => (50, 0, 50),
        _ => return Err(USAGE.into()),
    };
    let inserts = matches!(workload, "ycsb-d" | "ycsb-e");
    let latest = Zipfian::new(KEYS, ZIPFIAN_CONSTANT);
    let scrambled = Zipfian::new(SCRAMBLED_RANKS, ZIPFIAN_CONSTANT);
    let mut keys = KEYS;
    let draw = |at| {
        let random = mix(at);
        let unit = (mix(random) >> 11) as f64 / (1u64 << 53) as f64;
        let operation = match random % 100 {
            share if share < reads => Operation::Get,
            share if share < reads + scans => Operation::Scan(1 + (random >> 32) as usize % 100),
            share if share < reads + scans + both => Operation::GetAndPut,
            _ => Operation::Put,
        };
        let key = match workload {
            "load" => at * 7919 % KEYS,
            _ if inserts && matches!(operation, Operation::Put) => {
                keys += 1;
                keys - 1
            }
            "update" => (unit * KEYS as f64) as u64,
            "ycsb-d" => keys - 1 - latest.rank(unit),
            _ => fnv_hash(scrambled.rank(unit)) % KEYS,
        };
        (operation, key.to_be_bytes())
    };
    Ok((0..count).map(draw).collect())
}

/// What callgrind counts: the operations, and the jobs that they cause.
#[inline(never)]
fn counted(db: &Db, operations: &[(Operation, [u8; 8])], value: &[u8]) -> Result<()> {
    for some in operations.chunks(STEP) {
        for (operation, key) in some {
            if let Operation::Get | Operation::GetAndPut = operation {
                black_box(db.get(key)?);
            }
            if let Operation::Put | Operation::GetAndPut = operation {
                db.put(key, value)?;
            }
            if let Operation::Scan(limit) = *operation {
                for entry in db.range(&key[..]..).with_limit_hint(limit).take(limit) {
                    black_box(entry?);
                }
            }
        }
        while db.step()? {}
    }
    db.flush()?;
    Ok(db.wait_idle()?)
}

/// Bytes that this process has read and written by system calls.
fn bytes_of_calls() -> Result<[u64; 2]> {
    let counters = read_to_string("/proc/self/io")?;
    let of = |name| counters.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
    Ok([of("rchar: ").parse()?, of("wchar: ").parse()?])
}
