//! Data that is larger than memory, in small: the pages of a directory's files leave the page cache
//! soon after they came, so that what is read again comes from the device. Unlike a memory limit
//! and dropped caches this takes no privilege and touches no files of other programs; but the
//! hottest pages go, too, where a limit would keep them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

/// How long a page may stay.
const EVERY: Duration = Duration::from_millis(50);

/// Evicts until it is dropped.
#[derive(Debug)]
pub struct Eviction {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Eviction {
    /// Begins with the files below `directory`, but for those that `stay`: dirty pages are written
    /// to the device first, which not every file is meant for.
    pub fn of(directory: &Path, stay: fn(&Path) -> bool) -> Self {
        let (end, ended) = channel();
        let directory: PathBuf = directory.to_owned();
        let thread = thread::spawn(move || {
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                evict(&directory, stay);
            }
        });
        Self { end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Eviction {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was printed, and nothing here depends on it.
            let _ = thread.join();
        }
    }
}

/// Evicts the files below `directory` once. What has just gone is not missed.
fn evict(directory: &Path, stay: fn(&Path) -> bool) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => evict(&path, stay),
            Ok(kind) if kind.is_file() && !stay(&path) => {
                // Advice that is not taken costs exactness only.
                let _ = File::open(&path).map(|file| fadvise(file, 0, None, Advice::DontNeed));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use super::{Eviction, evict};

    #[test]
    fn every_file_is_asked_about_and_keeps_its_bytes() {
        thread_local!(static ASKED: Cell<u32> = const { Cell::new(0) });
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("store");
        fs::create_dir(&inner).unwrap();
        for name in ["a.tbl", "b.log"] {
            fs::write(inner.join(name), name).unwrap();
        }
        evict(directory.path(), |path| {
            ASKED.set(ASKED.get() + 1);
            path.extension().is_some_and(|kind| kind == "log")
        });
        assert_eq!(ASKED.get(), 2);
        assert_eq!(fs::read(inner.join("a.tbl")).unwrap(), b"a.tbl");
        evict(&directory.path().join("gone"), |_| panic!("there is nothing to ask about"));
    }

    #[test]
    fn it_ends_when_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        drop(Eviction::of(directory.path(), |_| false));
    }
}
