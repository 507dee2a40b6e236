//! The directory of a sorter's files. It has one name in its parent, so that the next sorter finds
//! what a killed one has left.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// How names of runs begin and end; nothing else is removed.
const PREFIX: &str = "run-";
const SUFFIX: &str = ".sorted";

/// A directory, which is removed when it is dropped.
pub(super) struct TempDirectory {
    path: PathBuf,
    runs: u64,
}

impl TempDirectory {
    /// Makes the directory `path`, without the runs that are there.
    pub(super) fn new(path: PathBuf) -> Result<Self> {
        remove(&path);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(Failure::file("create", &path)(error))
            }
            _ => Ok(Self { path, runs: 0 }),
        }
    }

    /// The path of the next run.
    pub(super) fn next_name(&mut self) -> PathBuf {
        self.runs += 1;
        self.path.join(format!("{PREFIX}{:06}{SUFFIX}", self.runs))
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes the runs in a directory, and then the directory, if nothing else is there.
fn remove(path: &Path) {
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_run = name.to_str().is_some_and(|it| it.starts_with(PREFIX) && it.ends_with(SUFFIX));
        if is_run {
            let _ = fs::remove_file(entry.path());
        }
    }
    let _ = fs::remove_dir(path);
}
