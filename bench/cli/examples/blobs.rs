//! What large values cost: put from a reader and read through one, beside plain puts and gets, and
//! beside a file that is written, synced and read.
//!
//! `cargo run --release --manifest-path bench/cli/Cargo.toml --example blobs \
//! [PRESET] [MIB] [COUNT] [DIR]`

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Instant;

use cleavedb::{Db, Durability, Options, Preset};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const MIB: f64 = (1 << 20) as f64;

/// Bytes that cannot be compressed, as long as wanted.
struct Noise {
    seed: u64,
    left: u64,
}

impl Read for Noise {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = buf.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        for word in buf[..len].chunks_mut(8) {
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 7;
            self.seed ^= self.seed << 17;
            word.copy_from_slice(&self.seed.to_le_bytes()[..word.len()]);
        }
        self.left -= len as u64;
        Ok(len)
    }
}

fn noise(seed: u64, bytes: u64) -> Noise {
    Noise { seed: seed + 1, left: bytes }
}

/// Greatest resident memory of this process so far, in MiB.
fn peak() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}

/// Runs `work` on `bytes` bytes; prints MiB a second.
fn timed(name: &str, bytes: u64, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    work()?;
    let rate = bytes as f64 / MIB / start.elapsed().as_secs_f64();
    println!("{name:24} {rate:8.0} MiB/s, peak of memory {:6.0} MiB", peak());
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let preset = Preset::from_name(&next("ktstore")).ok_or("no such preset")?;
    let (len, count): (u64, u64) = (next("64").parse::<u64>()? << 20, next("16").parse()?);
    let dir = next(".");
    let (path, plain) = (Path::new(&dir).join("blobs.db"), Path::new(&dir).join("blobs.plain"));
    let db = Db::open(&path, Options { durability: Durability::Os, ..Options::preset(preset) })?;
    let all = len * count;
    timed("files, synced", all, || {
        for at in 0..count {
            let mut file = File::create(&plain)?;
            io::copy(&mut noise(at, len), &mut file)?;
            file.flush()?;
            file.sync_all()?;
        }
        Ok(())
    })?;
    timed("file, read", len, || {
        io::copy(&mut File::open(&plain)?, &mut io::sink())?;
        Ok(())
    })?;
    timed("put_reader", all, || {
        (0..count).try_for_each(|at| {
            db.default_keyspace().put_reader(at.to_be_bytes(), noise(at, len))?;
            Ok(())
        })
    })?;
    timed("get_reader", all, || {
        for at in 0..count {
            let mut reader =
                db.default_keyspace().get_reader(at.to_be_bytes())?.ok_or("a value is missing")?;
            io::copy(&mut reader, &mut io::sink())?;
        }
        Ok(())
    })?;
    timed("get_range of 4 KiB", count * 4096 * 64, || {
        for at in 0..count * 64 {
            let key = (at % count).to_be_bytes();
            db.default_keyspace().get_range(
                key,
                at.wrapping_mul(0x9e37_79b9) % (len - 4096),
                4096,
            )?;
        }
        Ok(())
    })?;
    timed("put", all, || {
        for at in 0..count {
            let mut value = Vec::new();
            noise(at, len).read_to_end(&mut value)?;
            db.put((at + count).to_be_bytes(), value)?;
        }
        db.flush()?;
        db.sync()?;
        Ok(())
    })?;
    timed("get", all, || {
        for at in count..2 * count {
            db.get(at.to_be_bytes())?.ok_or("a value is missing")?;
        }
        Ok(())
    })?;
    db.close()?;
    fs::remove_file(&plain)?;
    fs::remove_dir_all(&path)?;
    Ok(())
}
