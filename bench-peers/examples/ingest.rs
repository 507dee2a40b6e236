//! RocksDB's bulk load: tables that `SstFileWriter` makes, moved into an empty database. Beside it:
//! `cargo run --release -p cleavedb-bench-cli --example bulk`.
//!
//! `cargo run --release --example ingest [MIB] [ROUNDS] [DIR]`, in `bench-peers`

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use rocksdb::{
    DB, DBCompressionType, IngestExternalFileOptions, Options, SstFileWriter, WriteOptions,
};

/// Lengths of values, and bytes of a table: RocksDB's own target for one.
const LENS: [usize; 3] = [100, 1024, 16 << 10];
const TABLE: u64 = 64 << 20;

fn key(i: u64) -> [u8; 16] {
    (u128::from(i) << 16).to_be_bytes()
}

/// A value that cannot be compressed, in `out`.
fn fill(out: &mut [u8], mut seed: u64) {
    for piece in out.chunks_mut(8) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bytes = (seed ^ (seed >> 29)).to_le_bytes();
        piece.copy_from_slice(&bytes[..piece.len()]);
    }
}

/// Seconds of a load of `count` values of this length.
fn load(dir: &Path, options: &Options, (count, len): (u64, usize)) -> Result<f64, Box<dyn Error>> {
    let db = DB::open(options, dir.join("db"))?;
    let (start, mut value) = (Instant::now(), vec![0; len]);
    let (mut paths, mut i) = (Vec::new(), 0);
    while i < count {
        let path = dir.join(format!("{i}.sst"));
        let mut table = SstFileWriter::create(options);
        table.open(&path)?;
        let end = count.min(i + TABLE / (len as u64 + 16));
        for number in i..end {
            fill(&mut value, number);
            table.put(key(number), &value)?;
        }
        table.finish()?;
        paths.push(path);
        i = end;
    }
    let mut moved = IngestExternalFileOptions::default();
    moved.set_move_files(true);
    db.ingest_external_file_opts(&moved, paths)?;
    Ok(start.elapsed().as_secs_f64())
}

/// Seconds of as many puts, with a log that is not synced, and a flush.
fn put(dir: &Path, options: &Options, (count, len): (u64, usize)) -> Result<f64, Box<dyn Error>> {
    let db = DB::open(options, dir.join("db"))?;
    let (start, mut value) = (Instant::now(), vec![0; len]);
    for number in 0..count {
        fill(&mut value, number);
        db.put_opt(key(number), &value, &WriteOptions::default())?;
    }
    db.flush()?;
    Ok(start.elapsed().as_secs_f64())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or| arguments.get(at).and_then(|it| it.parse().ok()).unwrap_or(or);
    let (mib, rounds): (u64, u64) = (number(0, 1024), number(1, 3));
    let parent = arguments.get(2).map_or_else(std::env::temp_dir, Into::into);
    let dir = parent.join(format!("rocks-ingest-{}", std::process::id()));
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    for len in LENS {
        let count = (mib << 20) / (len as u64 + 16);
        let mib = (count * (len as u64 + 16)) as f64 / f64::from(1 << 20);
        for _ in 0..rounds {
            for (what, work) in [("ingest", load as fn(_, _, _) -> _), ("put", put)] {
                fs::create_dir_all(&dir)?;
                let seconds: f64 = work(&dir, &options, (count, len))?;
                let (rate, bytes) = (count as f64 / seconds, mib / seconds);
                println!("rocksdb {what:6} {len:6} B: {rate:8.0}/s {bytes:5.0} MiB/s");
                fs::remove_dir_all(&dir)?;
            }
        }
    }
    Ok(())
}
