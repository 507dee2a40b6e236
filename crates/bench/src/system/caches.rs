//! The page cache: written back before a phase, dropped before a cold one.

use std::fs::{self, File};
use std::path::Path;

use crate::error::{BenchError, Result};

/// Writes back everything that is dirty in the file system of `path`, so that bytes which one phase
/// left in memory do not reach the device during the next.
pub fn sync_file_system(path: &Path) -> Result<()> {
    let directory = File::open(path).map_err(BenchError::io("open", path))?;
    rustix::fs::syncfs(&directory)
        .map_err(|errno| BenchError::io("sync the file system of", path)(errno.into()))
}

/// Drops clean pages, entries and inodes of the whole machine; returns whether it could: only root
/// can.
pub fn drop_caches() -> bool {
    fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}
