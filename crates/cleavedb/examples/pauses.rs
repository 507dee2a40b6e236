//! How long puts wait while another call works beside them, every 3 s.
//!
//! `cargo run --release -p cleavedb --example pauses -- PRESET VALUE_BYTES PUTS KEYS THREADS CALL`,
//! where `CALL` is `none`, `collect`, `compact` or `backup`; or `sync`, where each put is synced,
//! and nothing works beside them. Keys are drawn evenly from as many as `KEYS`, or from all if
//! it is 0. The data is in the directory `pauses`, which the program makes.

use std::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use cleavedb::{Db, Durability, Options, Preset, Result};

/// Numbers that look random, the same on each machine: the finalizer of SplitMix64.
fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ (n >> 31)
}

/// Puts until `next` reaches `puts`, and returns how long those of 50 ms and more took.
fn put_all(db: &Db, len: u64, next: &AtomicU64, puts: u64, keys: u64) -> Result<Vec<Duration>> {
    let mut long = Vec::new();
    loop {
        let n = next.fetch_add(1, Relaxed);
        if n >= puts {
            return Ok(long);
        }
        let words = (0..len.div_ceil(8)).map(|i| mixed(n ^ (i << 40)));
        let value: Vec<u8> = words.flat_map(u64::to_le_bytes).take(len as usize).collect();
        let key = mixed(n).checked_rem(keys).unwrap_or_else(|| mixed(n));
        let start = Instant::now();
        db.put(format!("{key:016x}"), value)?;
        long.extend(Some(start.elapsed()).filter(|took| took.as_millis() >= 50));
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |at: usize, default| args.get(at).map_or(default, String::as_str);
    let number = |at, default| arg(at, default).parse::<u64>();
    let preset = Preset::from_name(arg(0, "wisckey")).ok_or("there is no preset of this name")?;
    let (len, puts, keys) = (number(1, "1024")?, number(2, "5000")?, number(3, "1000")?);
    let (threads, call) = (number(4, "2")?, arg(5, "none"));

    std::fs::create_dir_all("pauses")?;
    let durability = if call == "sync" { Durability::Sync } else { Durability::Os };
    let db = Db::open("pauses/data", Options { durability, ..Options::preset(preset) })?;
    let (next, ended, start) = (AtomicU64::new(0), AtomicBool::new(false), Instant::now());
    let long = Mutex::new(Vec::new());
    thread::scope(|scope| -> Result<()> {
        let beside = scope.spawn(|| -> Result<()> {
            loop {
                thread::park_timeout(Duration::from_secs(3));
                match call {
                    _ if ended.load(Relaxed) => return Ok(()),
                    "collect" => db.collect()?,
                    "compact" => db.compact()?,
                    "backup" => drop(db.backup("pauses/backup")?),
                    _ => {}
                }
            }
        });
        let put = || put_all(&db, len, &next, puts, keys).map(|l| long.lock().unwrap().extend(l));
        let writers: Vec<_> = (0..threads).map(|_| scope.spawn(put)).collect();
        writers.into_iter().try_for_each(|writer| writer.join().expect("no writer panics"))?;
        ended.store(true, Relaxed);
        beside.thread().unpark();
        let rate = puts as f64 / start.elapsed().as_secs_f64();
        println!("{preset}, {len} B: {rate:.0} puts a second");
        beside.join().expect("the call does not panic")
    })?;
    let mut long = long.into_inner()?;
    long.sort();
    println!("puts of 50 ms and more: {}, of which the longest: {:.0?}", long.len(), long.last());
    Ok(())
}
