//! The page cache: written back before a phase, dropped before a cold one.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::Path;

use crate::error::{BenchError, Result};
use crate::system::usage::Usage;

/// Writes back everything that is dirty in the file system of `path`, so that bytes which one phase
/// left in memory do not reach the device during the next.
pub fn sync_file_system(path: &Path) -> Result<()> {
    let directory = File::open(path).map_err(BenchError::io("open", path))?;
    rustix::fs::syncfs(&directory)
        .map_err(|errno| BenchError::io("sync the file system of", path)(errno.into()))
}

/// Reads all files below `path` into the page cache, one after another, if they take less than half
/// of the memory that is available. What cannot be read stays where it is.
pub fn fetch_files(path: &Path) {
    let (usage, available) = (Usage::of(path), available_memory().unwrap_or(0));
    // The length, too: holes of a sparse file are read as zeros.
    if usage.allocated.max(usage.apparent) < available / 2 {
        fetch(path).unwrap_or_default();
    }
}

fn fetch(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)?.flatten() {
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            fetch(&path)?;
        } else if kind.is_file() {
            let mut file = BufReader::with_capacity(1 << 20, File::open(&path)?);
            io::copy(&mut file, &mut io::sink())?;
        }
    }
    Ok(())
}

/// Bytes that a program could use without swapping, page cache included.
pub fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Drops clean pages, entries and inodes of the whole machine; returns whether it could: only root
/// can.
pub fn drop_caches() -> bool {
    fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}
