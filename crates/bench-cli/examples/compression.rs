//! What compression of values outside the index saves and costs: orders of about 1 KiB as JSON,
//! put in a random order, read one by one at random, with all of them in memory and with memory for
//! half of them.
//!
//! `cargo run --release -p cleavedb-bench-cli --example compression [PRESET] [COUNT] [DIR]`

use std::path::Path;
use std::time::{Duration, Instant};

use cleavedb::{Db, Durability, Options, Preset, Result, ValueCompression};
use cleavedb_bench::system::{MemoryLimit, drop_caches};

/// Time of each measurement of reads.
const TIME: Duration = Duration::from_secs(10);

/// Memory of the database itself, in bytes.
const MEMORY: usize = 64 << 20;

const MIB: f64 = (1 << 20) as f64;

struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % n
    }

    fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len() as u64) as usize]
    }
}

/// An order of a shop: field names and some words recur, numbers and ids do not.
fn order(n: u64) -> Vec<u8> {
    const FIRST: [&str; 8] =
        ["Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald", "Tony", "Frances"];
    const STREETS: [&str; 6] = ["Main St", "High St", "Park Ave", "Elm St", "Lake Rd", "Hill Rd"];
    const GOODS: [&str; 10] = [
        "lamp", "chair", "desk", "kettle", "blanket", "notebook", "pencil", "clock", "vase",
        "shelf",
    ];
    let mut draw = Draw(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut text = format!(
        "{{\"id\":\"{:016x}\",\"created\":\"2026-{:02}-{:02}T{:02}:{:02}:{:02}Z\",\
         \"customer\":{{\"id\":{},\"name\":\"{} {:x}\",\"email\":\"u{}@example.org\",\
         \"phone\":\"+49{}\"}},\"address\":{{\"street\":\"{} {}\",\"zip\":\"{:05}\"}},\"items\":[",
        draw.below(u64::MAX >> 1),
        1 + draw.below(12),
        1 + draw.below(28),
        draw.below(24),
        draw.below(60),
        draw.below(60),
        draw.below(10_000_000),
        draw.of(&FIRST),
        draw.below(1 << 30),
        draw.below(10_000_000),
        draw.below(1 << 31),
        1 + draw.below(300),
        draw.of(&STREETS),
        draw.below(100_000),
    );
    let mut comma = "";
    while text.len() < 980 {
        text += &format!(
            "{comma}{{\"sku\":\"{:08x}\",\"name\":\"{}\",\"quantity\":{},\"price\":{}.{:02}}}",
            draw.below(1 << 32),
            draw.of(&GOODS),
            1 + draw.below(9),
            draw.below(500),
            draw.below(100),
        );
        comma = ",";
    }
    text += "]}";
    text.into_bytes()
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Reads at random for a while; returns reads a second.
fn reads(db: &Db, count: u64) -> Result<f64> {
    let (mut draw, start, mut done) = (Draw(7), Instant::now(), 0u64);
    while start.elapsed() < TIME {
        for _ in 0..100 {
            let n = draw.below(count);
            let value = db.get(key(n))?.expect("it was put");
            assert!(value.len() > 900);
        }
        done += 100;
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}

fn measure(
    how: (&str, ValueCompression),
    preset: Preset,
    count: u64,
    path: &Path,
) -> Result<[f64; 4]> {
    let options = Options {
        value_compression: how.1,
        memory_bytes: MEMORY,
        durability: Durability::Os,
        ..Options::preset(preset)
    };
    let db = Db::open(path, options.clone())?;
    let start = Instant::now();
    for n in 0..count {
        db.put(key(n), order(n))?;
    }
    db.flush()?;
    let puts = count as f64 / start.elapsed().as_secs_f64();
    if how.1 == ValueCompression::ZstdDictionary {
        let start = Instant::now();
        let made = db.train_dictionary()?;
        println!("another dictionary is made in {:.3} s: {made}", start.elapsed().as_secs_f64());
    }
    db.compact()?;
    db.wait_idle()?;
    let bytes = db.approximate_size(..)?;
    let bytes = (bytes.index_bytes + bytes.value_bytes) as f64;
    db.close()?;
    let db = Db::open(path, options)?;
    // Once through, so that all is in the page cache that fits.
    assert_eq!(db.range(..).filter(Result::is_ok).count() as u64, count);
    let warm = reads(&db, count)?;
    let half = count * 1000 / 2;
    let cold = match MemoryLimit::set(half) {
        Ok(limit) => {
            // What was cached before the limit does not count against it.
            if !drop_caches() {
                eprintln!("the page cache cannot be dropped: needs root");
            }
            reads(&db, count)?;
            let cold = reads(&db, count)?;
            drop(limit);
            cold
        }
        Err(why) => {
            eprintln!("{why}");
            f64::NAN
        }
    };
    db.close()?;
    Ok([bytes, puts, warm, cold])
}

fn main() -> Result<()> {
    let arg = |at| std::env::args().nth(at);
    let preset = arg(1).map_or(Preset::default(), |name| {
        let found = Preset::ALL.into_iter().find(|preset| preset.name() == name);
        found.unwrap_or_else(|| panic!("there is no preset {name}"))
    });
    let count = arg(2).map_or(1_000_000, |count| count.parse().expect("COUNT is a number"));
    let dir = arg(3).map_or_else(std::env::temp_dir, Into::into).join("compression-example");
    println!("{} x {} bytes, {}", count, order(1).len(), preset.name());
    let mut plain = None;
    for how in ValueCompression::ALL {
        let _ = std::fs::remove_dir_all(&dir);
        let [bytes, puts, warm, cold] = measure(how, preset, count, &dir)?;
        let [bytes0, puts0, warm0, cold0] = *plain.get_or_insert([bytes, puts, warm, cold]);
        println!(
            "{:16} {:7.0} MiB ({:.2} of plain)  {:8.0} puts/s ({:.2})  {:8.0} gets/s cached \
             ({:.2})  {:8.0} gets/s with half the memory ({:.2})",
            how.0,
            bytes / MIB,
            bytes / bytes0,
            puts,
            puts / puts0,
            warm,
            warm / warm0,
            cold,
            cold / cold0,
        );
    }
    let _ = std::fs::remove_dir_all(&dir);
    Ok(())
}
