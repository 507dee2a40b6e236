//! What a directory holds, and when that was changed last: for tests that nothing changes it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Each file of a directory: its name, length, and the times of its last changes.
///
/// # Panics
/// If the directory cannot be read.
pub fn listing(directory: &Path) -> Vec<(String, u64, i64, i64)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let told = entries.map(|entry| {
        let about = entry.metadata().unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, about.len(), about.mtime_nsec(), about.ctime_nsec())
    });
    let mut all: Vec<_> = told.collect();
    all.sort();
    all
}
