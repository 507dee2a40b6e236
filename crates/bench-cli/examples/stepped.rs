//! A load and uniform updates whose jobs the caller steps, so that every run does the same: for
//! counting instructions, which the noise of a machine does not reach.
//!
//! ```sh
//! cargo build --release -p cleavedb-bench-cli --example stepped
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!     target/release/examples/stepped ktstore 80000
//! ```
//!
//! The count that callgrind prints, divided by the 40,000 puts and the updates, is that of one.

use std::error::Error;

use cleavedb::{Background, Db, Durability, Options, Preset};

/// Keys, each loaded once before the updates.
const KEYS: u64 = 40_000;

/// Puts between two looks for jobs.
const STEP: u64 = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "ktstore".to_owned());
    let preset = Preset::from_name(&name);
    let preset = preset.ok_or("the first argument is a preset, as ktstore")?;
    let updates: u64 = arguments.next().as_deref().unwrap_or("80000").parse()?;
    let dir = tempfile::tempdir()?;
    let options = Options {
        durability: Durability::Buffered,
        background: Background::Manual,
        memory_bytes: 48 << 20,
        ..Options::preset(preset)
    };
    let db = Db::open(dir.path().join("db"), options)?;
    let (value, mut random) = ([7; 1024], 1u64);
    for put in 0..KEYS + updates {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let key = if put < KEYS { put * 7919 % KEYS } else { (random >> 33) % KEYS };
        db.put(key.to_be_bytes(), value)?;
        while put.is_multiple_of(STEP) && db.step()? {}
    }
    db.wait_idle()?;
    let metrics = db.metrics();
    println!(
        "{} flushes, {} compactions, {} collections",
        metrics.flushes, metrics.compactions, metrics.collections
    );
    Ok(())
}
