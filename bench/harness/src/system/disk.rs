//! What the disk can do: the physical limits that an engine's figures stand beside.
//!
//! Past the page cache (`O_DIRECT`), on a file of random bytes: written and read in pieces of 1 MiB
//! by one thread, read in pieces of 4 KiB by 1, 8 and 32 threads at once, and synced after each of
//! some appends of 4 KiB. Each lasts a second at most. A disk with a cache of its own may answer
//! from it; the file is larger than a small one.

use std::fmt::{self, Display, Formatter};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::error::{BenchError, Result};
use crate::system::Device;
use crate::units;

/// Bytes of a sequential piece.
const LARGE: usize = 1 << 20;
/// Bytes of a random piece.
const SMALL: usize = 4096;
/// Pieces that the file has at most.
const PIECES: u64 = 512;
/// Longest time of each measurement.
const LIMIT: Duration = Duration::from_secs(1);
/// Random reads in flight.
const DEPTHS: [usize; 3] = [1, 8, 32];
/// Most syncs that are timed.
const SYNCS: usize = 200;

/// Limits of the disk below a directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskLimits {
    /// The file system on it; not known to older files.
    #[serde(default)]
    pub file_system: String,
    /// Whether the page cache was passed by; if not, these are limits of the cache.
    pub direct: bool,
    /// Bytes of the file that was measured on.
    pub file_bytes: u64,
    /// Bytes a second written in pieces of 1 MiB.
    pub write_per_second: f64,
    /// Bytes a second read in pieces of 1 MiB.
    pub read_per_second: f64,
    /// Random reads of 4 KiB, one entry for each number in flight.
    pub random: Vec<RandomReads>,
    /// Median time of an append of 4 KiB and its `fdatasync`, in microseconds.
    pub sync_p50_us: f64,
    /// 99% took no longer.
    pub sync_p99_us: f64,
}

/// Random reads of 4 KiB, with a fixed number of them in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RandomReads {
    /// Reads in flight.
    pub depth: usize,
    /// Reads a second.
    pub per_second: f64,
    /// Mean time of one, in microseconds.
    pub mean_us: f64,
}

impl DiskLimits {
    /// Measures the disk below `directory`, with a file that is deleted at the end.
    pub fn measure(directory: &Path) -> Result<Self> {
        Self::measure_for(directory, LIMIT)
    }

    fn measure_for(directory: &Path, limit: Duration) -> Result<Self> {
        let path = directory.join("disk-probe");
        let limits = probe(&path, limit).map_err(BenchError::io("measure the disk with", &path));
        let removed = fs::remove_file(&path).map_err(BenchError::io("delete", &path));
        limits.and_then(|limits| removed.map(|()| limits))
    }
}

impl DiskLimits {
    /// The rows of the limits in a report: quantity, and value with its unit.
    pub fn quantities(&self) -> Vec<(String, String)> {
        let size = |bytes: f64| units::bytes(bytes as u64);
        let mut rows = Vec::new();
        let mut add = |name: &str, value: String| rows.push((name.to_owned(), value));
        if !self.file_system.is_empty() {
            add("file system", self.file_system.clone());
        }
        add("page cache", if self.direct { "passed by" } else { "IN THE WAY" }.to_owned());
        add("file", size(self.file_bytes as f64));
        add("pieces of 1 MiB written", size(self.write_per_second) + "/s");
        add("pieces of 1 MiB read", size(self.read_per_second) + "/s");
        for reads in &self.random {
            let (rate, mean) = (units::thousands(reads.per_second), units::short(reads.mean_us));
            let name = format!("random reads of 4 KiB, {} in flight", reads.depth);
            add(&name, format!("{rate}/s, {mean} us each"));
        }
        let (median, most) = (units::short(self.sync_p50_us), units::short(self.sync_p99_us));
        add("append of 4 KiB and sync", format!("{median} us, 99% within {most} us"));
        rows
    }
}

impl Display for DiskLimits {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rate = |rate: f64| units::bytes(rate as u64);
        write!(
            f,
            "disk{}: 1 MiB pieces written at {}/s, read at {}/s; 4 KiB random reads",
            if self.direct { "" } else { " (THROUGH THE PAGE CACHE)" },
            rate(self.write_per_second),
            rate(self.read_per_second),
        )?;
        for reads in &self.random {
            let per_second = units::thousands(reads.per_second);
            write!(f, ", {per_second}/s at depth {}", reads.depth)?;
        }
        let (median, most) = (units::short(self.sync_p50_us), units::short(self.sync_p99_us));
        write!(f, "; append and sync {median} us, 99% within {most} us")
    }
}

fn probe(path: &Path, limit: Duration) -> io::Result<DiskLimits> {
    let (file, direct) = open(path)?;
    let mut buffer = Aligned::random(LARGE);
    let write = timed(limit, |piece| file.write_all_at(buffer.bytes(), piece * LARGE as u64))?;
    file.sync_data()?;
    let written = write.begin.elapsed();
    let file_bytes = write.count * LARGE as u64;
    let read = timed(limit, |piece| {
        file.read_exact_at(buffer.bytes_mut(), piece % write.count * LARGE as u64)
    })?;
    let read_time = read.begin.elapsed();
    let random = DEPTHS.map(|depth| random_reads(&file, file_bytes, depth, limit));
    let mut syncs = syncs(&file, file_bytes, limit)?;
    syncs.sort_unstable();
    let quantile = |share: usize| syncs[(syncs.len() - 1) * share / 100].as_secs_f64() * 1e6;
    Ok(DiskLimits {
        file_system: Device::file_system(path).unwrap_or_default(),
        direct,
        file_bytes,
        write_per_second: file_bytes as f64 / written.as_secs_f64(),
        read_per_second: (read.count * LARGE as u64) as f64 / read_time.as_secs_f64(),
        random: random.into_iter().collect::<io::Result<_>>()?,
        sync_p50_us: quantile(50),
        sync_p99_us: quantile(99),
    })
}

/// Opens `path` past the page cache if the file system can.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let flags = OFlags::DIRECT.bits().cast_signed();
    match options.clone().custom_flags(flags).open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
            Ok((options.open(path)?, false))
        }
        Err(error) => Err(error),
    }
}

/// How much was done since when.
struct Timed {
    begin: Instant,
    count: u64,
}

/// Calls `action` with 0, 1, 2 and so on until `limit` has passed.
fn timed(limit: Duration, mut action: impl FnMut(u64) -> io::Result<()>) -> io::Result<Timed> {
    let mut timed = Timed { begin: Instant::now(), count: 0 };
    while timed.count == 0 || (timed.count < PIECES && timed.begin.elapsed() < limit) {
        action(timed.count)?;
        timed.count += 1;
    }
    Ok(timed)
}

fn random_reads(
    file: &File,
    file_bytes: u64,
    depth: usize,
    limit: Duration,
) -> io::Result<RandomReads> {
    let begin = Instant::now();
    let reader = |number: u64| {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(number);
        let mut buffer = Aligned::random(SMALL);
        let mut count = 0;
        while count == 0 || begin.elapsed() < limit {
            let block = random.next_u64() % (file_bytes / SMALL as u64);
            file.read_exact_at(buffer.bytes_mut(), block * SMALL as u64)?;
            count += 1;
        }
        Ok(count)
    };
    let counts: io::Result<Vec<u64>> = thread::scope(|scope| {
        let readers: Vec<_> =
            (0..depth as u64).map(|number| scope.spawn(move || reader(number))).collect();
        let gone = || io::Error::other("a reading thread panicked");
        readers.into_iter().map(|reader| reader.join().unwrap_or_else(|_| Err(gone()))).collect()
    });
    let (seconds, count) = (begin.elapsed().as_secs_f64(), counts?.iter().sum::<u64>() as f64);
    let mean_us = seconds * 1e6 * depth as f64 / count;
    Ok(RandomReads { depth, per_second: count / seconds, mean_us })
}

fn syncs(file: &File, file_bytes: u64, limit: Duration) -> io::Result<Vec<Duration>> {
    let buffer = Aligned::random(SMALL);
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.is_empty() || (times.len() < SYNCS && begin.elapsed() < limit) {
        let before = Instant::now();
        file.write_all_at(buffer.bytes(), file_bytes + (times.len() * SMALL) as u64)?;
        file.sync_data()?;
        times.push(before.elapsed());
    }
    Ok(times)
}

/// A buffer that direct access takes: it begins at a multiple of 4,096.
struct Aligned {
    bytes: Vec<u8>,
    begin: usize,
    len: usize,
}

impl Aligned {
    fn random(len: usize) -> Self {
        let mut bytes = vec![0; len + SMALL];
        Xoshiro256PlusPlus::seed_from_u64(len as u64).fill_bytes(&mut bytes);
        let begin = bytes.as_ptr().align_offset(SMALL);
        Self { bytes, begin, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.begin..][..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Aligned, DiskLimits};

    #[test]
    fn buffers_are_aligned() {
        for len in [4096, 1 << 20] {
            let buffer = Aligned::random(len);
            assert_eq!((buffer.bytes().as_ptr() as usize % 4096, buffer.bytes().len()), (0, len));
        }
    }

    #[test]
    fn every_limit_is_measured_and_the_file_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let limits = DiskLimits::measure_for(directory.path(), Duration::from_millis(20)).unwrap();
        assert!(limits.file_bytes > 0 && limits.write_per_second > 0.0);
        assert!(limits.read_per_second > 0.0 && limits.sync_p99_us >= limits.sync_p50_us);
        let depths: Vec<_> = limits.random.iter().map(|reads| reads.depth).collect();
        assert_eq!(depths, [1, 8, 32]);
        assert!(limits.random.iter().all(|reads| reads.per_second > 0.0 && reads.mean_us > 0.0));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(limits.to_string().contains("at depth 32") && !limits.file_system.is_empty());
    }
}
