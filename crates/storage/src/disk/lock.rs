//! The lock of a directory: a file that is locked while its database is open and names the holder.
//!
//! A directory that was copied by hard links shares its lock file with the original: a process that
//! takes the lock replaces a lock file that has another name by a new one.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;

use super::dir::{Dir, which};
use crate::api::Lock;
use crate::name::{FileKind, Name};
use crate::process;

/// Most bytes of a lock file.
const TEXT_MAX: usize = 64;

/// The holder of a lock that another handle asked for, as far as the file tells: the cause of the
/// error of [`crate::Storage::lock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub process: u32,
    /// Snapshots and ranges that were still held when the holder closed the database, if it did.
    pub held: Option<usize>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            own if own == process::id() => f.write_str("this process")?,
            other => write!(f, "process {other}")?,
        }
        match self.held {
            None => f.write_str(" has the database open"),
            Some(held) => write!(
                f,
                " has closed the database, but held {held} of its snapshots and ranges; drop them, \
                 or end them by `close_now`"
            ),
        }
    }
}

impl std::error::Error for Holder {}

impl Holder {
    /// The one line of the file: the process id and the held snapshots and ranges.
    fn encode(&self) -> String {
        match self.held {
            None => format!("{}\n", self.process),
            Some(held) => format!("{} {held}\n", self.process),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        let mut fields = text.lines().next()?.split(' ');
        let process = fields.next()?.parse().ok()?;
        Some(Self { process, held: fields.next().and_then(|held| held.parse().ok()) })
    }

    /// The holder that the file names.
    fn read(file: &File) -> Option<Self> {
        let mut text = [0; TEXT_MAX];
        let len = file.read_at(&mut text, 0).ok()?;
        Self::decode(std::str::from_utf8(&text[..len]).ok()?)
    }
}

/// The lock file, locked.
pub struct DirLock {
    file: File,
    process: u32,
}

impl DirLock {
    /// Writes to the file that the database was closed while `held` snapshots and ranges were held.
    pub fn note(&self, held: usize) {
        self.write(Holder { process: self.process, held: Some(held) });
    }

    /// Errors are ignored: without the text only the next error message says less.
    fn write(&self, holder: Holder) {
        let text = holder.encode();
        if self.file.write_at(text.as_bytes(), 0).is_ok() {
            let _ = self.file.set_len(text.len() as u64);
        }
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Closing is not enough: a process that was just forked, by any thread of this one, shares
        // the open file, and with it the lock, until it executes its program. And a drop in such a
        // child must not unlock the parent's.
        if self.process == process::id() {
            let _ = self.file.unlock();
        }
    }
}

/// Takes the lock of `dir`; `WouldBlock`, with the holder, if it is taken.
pub(super) fn take(dir: &Dir) -> io::Result<Lock> {
    let name = Name::fixed(FileKind::Lock);
    loop {
        let file = dir.open_file(&name, OFlags::RDWR | OFlags::CREATE)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(match Holder::read(&file) {
                    Some(holder) => io::Error::new(io::ErrorKind::WouldBlock, holder),
                    None => io::ErrorKind::WouldBlock.into(),
                });
            }
            Err(TryLockError::Error(e)) => return Err(e),
        }
        let lock = DirLock { file, process: process::id() };
        let named = match dir.stat(&name) {
            Ok(named) => named,
            // The previous holder has just replaced the file.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        if which(&named) != which(&rustix::fs::fstat(&lock.file)?) {
            continue;
        }
        if named.st_nlink > 1 {
            // Only this process holds the lock, so no other relies on this file.
            dir.unlink(&name)?;
            continue;
        }
        lock.write(Holder { process: lock.process, held: None });
        return Ok(Box::new(lock));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn holder(dir: &Dir) -> Holder {
        let error = take(dir).expect_err("the lock is taken");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        *error.get_ref().and_then(|e| e.downcast_ref()).expect("the file says by whom")
    }

    #[test]
    fn the_lock_says_who_has_it_and_what_was_held_at_the_close() {
        let path = tempfile::tempdir().unwrap();
        let dir = Dir::open(path.path(), false).unwrap();
        let lock = take(&dir).unwrap();
        let own = Holder { process: process::id(), held: None };
        assert_eq!(holder(&dir), own);
        assert_eq!(own.to_string(), "this process has the database open");
        lock.downcast_ref::<DirLock>().unwrap().note(12);
        assert_eq!(holder(&dir), Holder { held: Some(12), ..own });
        assert!(holder(&dir).to_string().contains("held 12"));
        drop(lock);
        let _again = take(&dir).unwrap();
        assert_eq!(holder(&dir), own);
        let other = Holder::decode("77777777 3\nnext").unwrap();
        assert!(other.to_string().starts_with("process 77777777 has closed"), "{other}");
        assert_eq!(Holder::decode("no number"), None);
    }

    #[test]
    fn a_copy_by_links_has_a_lock_of_its_own() {
        let paths = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let dirs = [0, 1].map(|i| Dir::open(paths[i].path(), false).unwrap());
        drop(take(&dirs[0]).unwrap());
        fs::hard_link(paths[0].path().join("lock"), paths[1].path().join("lock")).unwrap();
        let _locks = [0, 1].map(|i| take(&dirs[i]).unwrap());
        dirs.iter().for_each(|dir| assert_eq!(holder(dir).process, process::id()));
    }

    #[test]
    fn a_lock_ends_although_a_forked_process_still_holds_its_file() {
        let path = tempfile::tempdir().unwrap();
        let dir = Dir::open(path.path(), false).unwrap();
        let lock = take(&dir).unwrap();
        let forked = lock.downcast_ref::<DirLock>().unwrap().file.try_clone().unwrap();
        assert_eq!(holder(&dir).process, process::id());
        drop(lock);
        drop(take(&dir).unwrap());
        drop(forked);
    }
}
