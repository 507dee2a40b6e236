//! The lock of a directory: a file that is locked while its database is open and names the holder.
//!
//! A directory that was copied by hard links shares its lock file with the original: a process that
//! takes the lock for itself replaces a lock file that has another name by a new one. Processes
//! that only read share the lock, and leave the file as it is.

use std::fmt;
use std::fs::{DirEntry, File, Metadata, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::dir::{Dir, which};
use crate::api::{Lock, LockMode};
use crate::name::{FileKind, Name};
use crate::process;

/// Most bytes of a lock file.
const TEXT_MAX: usize = 64;

/// The holder of a lock that another handle asked for, as far as the file tells: the cause of the
/// error of [`crate::Storage::lock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A handle that may write.
    Writer {
        /// The process id of the writer.
        process: u32,
        /// Snapshots and ranges that were still held when it closed the database, if it did.
        held: Option<usize>,
    },
    /// A process that keeps the lock of a writer that has ended, as one that was forked does.
    Heir {
        /// The process id of the heir, if this user may know it.
        process: Option<u32>,
        /// The process id of the writer.
        writer: u32,
    },
    /// Handles that only read. The file does not say whose they are.
    Readers,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (process, held) = match *self {
            Self::Writer { process, held } => (process, held),
            Self::Heir { process: Some(heir), writer } => {
                return write!(
                    f,
                    "process {heir} keeps the lock of process {writer}, which had the database \
                     open and has ended: it was forked from that process; end process {heir}"
                );
            }
            Self::Heir { process: None, writer } => {
                return write!(
                    f,
                    "process {writer} had the database open and has ended, but its lock is kept: \
                     by a process that was forked from it, or it belongs to another container or \
                     machine; end that process"
                );
            }
            Self::Readers => {
                return f.write_str(
                    "this process, or another one, has the database open for reading only; close \
                     all such handles, and drop their snapshots and ranges",
                );
            }
        };
        match process {
            own if own == process::id() => f.write_str("this process")?,
            other => write!(f, "process {other}")?,
        }
        match held {
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
    /// Reads the one line of the file: the process id of a writer, and the snapshots and ranges
    /// that it held.
    fn decode(text: &str) -> Option<Self> {
        let mut fields = text.lines().next()?.split(' ');
        let process = fields.next()?.parse().ok()?;
        let held = fields.next().and_then(|held| held.parse().ok());
        Some(Self::Writer { process, held })
    }

    /// The holder of `file`, which could not be locked in this mode.
    fn of(file: &File, refused: LockMode) -> Option<Self> {
        // Readers leave the text of an earlier writer in the file, but let others share the lock.
        if refused == LockMode::Exclusive && file.try_lock_shared().is_ok() {
            let _ = file.unlock();
            return Some(Self::Readers);
        }
        let mut text = [0; TEXT_MAX];
        let len = file.read_at(&mut text, 0).ok()?;
        let named = Self::decode(std::str::from_utf8(&text[..len]).ok()?)?;
        Some(match named {
            Self::Writer { process, .. } if process != process::id() => {
                heir_of(process, file).unwrap_or(named)
            }
            _ => named,
        })
    }
}

/// The holder that keeps `file` locked instead of the process `writer`, if that has ended.
fn heir_of(writer: u32, file: &File) -> Option<Holder> {
    let others = openers(file);
    if others.contains(&writer) {
        return None;
    }
    let id = i32::try_from(writer).ok().and_then(Pid::from_raw);
    let is_gone = id.is_none_or(|id| test_kill_process(id) == Err(Errno::SRCH));
    let process = others.first().copied();
    (is_gone || process.is_some()).then_some(Holder::Heir { process, writer })
}

/// The processes that have `file` open, this handle left out, as far as this user may know them.
fn openers(file: &File) -> Vec<u32> {
    let Ok(own) = file.metadata() else { return Vec::new() };
    let entries = |path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let number = |entry: &DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let opens = |process: &u32, path: PathBuf| {
        entries(path.join("fd")).any(|entry| {
            let is_own =
                *process == process::id() && number(&entry) == Some(file.as_raw_fd() as u32);
            let is_file = |it: Metadata| (it.dev(), it.ino()) == (own.dev(), own.ino());
            !is_own && std::fs::metadata(entry.path()).is_ok_and(is_file)
        })
    };
    let all = entries(PathBuf::from("/proc"));
    all.filter_map(|entry| number(&entry).filter(|process| opens(process, entry.path()))).collect()
}

/// The lock file, locked.
pub struct DirLock {
    file: File,
    process: u32,
    mode: LockMode,
}

impl DirLock {
    /// Writes to the file that the database was closed while `held` snapshots and ranges were held;
    /// nothing if the lock is shared.
    pub fn note(&self, held: usize) {
        if self.mode == LockMode::Exclusive {
            self.write(format!("{} {held}\n", self.process));
        }
    }

    /// Errors are ignored: without the text only the next error message says less.
    fn write(&self, text: String) {
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

/// Takes the lock of `dir` in this mode; `WouldBlock`, with the holder, if it is taken.
pub(super) fn take(dir: &Dir, mode: LockMode) -> io::Result<Lock> {
    let name = Name::fixed(FileKind::Lock);
    loop {
        let file = match mode {
            LockMode::Exclusive => dir.open_file(&name, OFlags::RDWR | OFlags::CREATE)?,
            LockMode::Shared => match dir.open_file(&name, OFlags::RDONLY) {
                // A copy may lack the file, and a reader may not create it.
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Box::new(())),
                opened => opened?,
            },
        };
        let locked = match mode {
            LockMode::Exclusive => file.try_lock(),
            LockMode::Shared => file.try_lock_shared(),
        };
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(match Holder::of(&file, mode) {
                    Some(holder) => io::Error::new(io::ErrorKind::WouldBlock, holder),
                    None => io::ErrorKind::WouldBlock.into(),
                });
            }
            Err(TryLockError::Error(e)) => return Err(e),
        }
        let lock = DirLock { file, process: process::id(), mode };
        let named = match dir.stat(&name) {
            Ok(named) => named,
            // The previous holder has just replaced the file.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        if which(&named) != which(&rustix::fs::fstat(&lock.file)?) {
            continue;
        }
        if mode == LockMode::Exclusive {
            if named.st_nlink > 1 {
                // Only this process holds the lock, so no other relies on this file.
                dir.unlink(&name)?;
                continue;
            }
            lock.write(format!("{}\n", lock.process));
        }
        return Ok(Box::new(lock));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn alone(dir: &Dir) -> io::Result<Lock> {
        take(dir, LockMode::Exclusive)
    }

    fn shared(dir: &Dir) -> io::Result<Lock> {
        take(dir, LockMode::Shared)
    }

    fn holder(taken: io::Result<Lock>) -> Holder {
        let error = taken.expect_err("the lock is taken");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        *error.get_ref().and_then(|e| e.downcast_ref()).expect("the file says by whom")
    }

    #[test]
    fn the_lock_says_who_has_it_and_what_was_held_at_the_close() {
        let path = tempfile::tempdir().unwrap();
        let dir = Dir::open(path.path(), false).unwrap();
        let lock = alone(&dir).unwrap();
        let own = Holder::Writer { process: process::id(), held: None };
        assert_eq!(holder(alone(&dir)), own);
        assert_eq!(own.to_string(), "this process has the database open");
        lock.downcast_ref::<DirLock>().unwrap().note(12);
        let closed = Holder::Writer { process: process::id(), held: Some(12) };
        assert_eq!([holder(alone(&dir)), holder(shared(&dir))], [closed; 2]);
        assert!(closed.to_string().contains("held 12"));
        drop(lock);
        let _again = alone(&dir).unwrap();
        assert_eq!(holder(alone(&dir)), own);
        let other = Holder::decode("77777777 3\nnext").unwrap();
        assert!(other.to_string().starts_with("process 77777777 has closed"), "{other}");
        assert_eq!(Holder::decode("no number"), None);
    }

    #[test]
    fn readers_share_the_lock_keep_writers_out_and_leave_the_file_as_it_is() {
        let path = tempfile::tempdir().unwrap();
        let dir = Dir::open(path.path(), false).unwrap();
        drop(shared(&dir).unwrap());
        assert!(!path.path().join("lock").exists(), "a copy without the file stays without it");
        drop(alone(&dir).unwrap());
        fs::hard_link(path.path().join("lock"), path.path().join("other name")).unwrap();
        let text = "7 3\n";
        fs::write(path.path().join("lock"), text).unwrap();
        let readers = [(); 2].map(|()| shared(&dir).unwrap());
        for reader in readers {
            assert_eq!(holder(alone(&dir)), Holder::Readers, "not the writer of the text");
            shared(&dir).expect("a writer that was refused is not in the way");
            reader.downcast_ref::<DirLock>().unwrap().note(12);
            assert_eq!(fs::read_to_string(path.path().join("lock")).unwrap(), text);
        }
        let _writer = alone(&dir).unwrap();
        let own = Holder::Writer { process: process::id(), held: None };
        assert_eq!(holder(shared(&dir)), own);
    }

    /// A regression: the error named the process that was killed, and not the child of it that kept
    /// the lock.
    #[test]
    fn a_lock_that_was_inherited_names_the_heir() {
        let path = tempfile::tempdir().unwrap();
        let dir = Dir::open(path.path(), false).unwrap();
        let lock = alone(&dir).unwrap();
        lock.downcast_ref::<DirLock>().unwrap().write("77777777\n".to_owned());
        let heir = Holder::Heir { process: Some(process::id()), writer: 77_777_777 };
        assert_eq!([holder(alone(&dir)), holder(shared(&dir))], [heir; 2]);
        let text = heir.to_string();
        assert!(text.contains(&format!("end process {}", process::id())), "{text}");
        // A process that lives, but does not have the file open.
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero();
        lock.downcast_ref::<DirLock>().unwrap().write(format!("{parent}\n"));
        assert!(matches!(holder(alone(&dir)), Holder::Heir { process: Some(_), .. }));
    }

    #[test]
    fn a_copy_by_links_has_a_lock_of_its_own() {
        let paths = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let dirs = [0, 1].map(|i| Dir::open(paths[i].path(), false).unwrap());
        drop(alone(&dirs[0]).unwrap());
        fs::hard_link(paths[0].path().join("lock"), paths[1].path().join("lock")).unwrap();
        let _locks = [0, 1].map(|i| alone(&dirs[i]).unwrap());
        let own = Holder::Writer { process: process::id(), held: None };
        dirs.iter().for_each(|dir| assert_eq!(holder(alone(dir)), own));
    }

    #[test]
    fn a_lock_ends_although_a_forked_process_still_holds_its_file() {
        let path = tempfile::tempdir().unwrap();
        let dir = Dir::open(path.path(), false).unwrap();
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            let lock = take(&dir, mode).unwrap();
            let forked = lock.downcast_ref::<DirLock>().unwrap().file.try_clone().unwrap();
            assert_eq!(alone(&dir).err().unwrap().kind(), io::ErrorKind::WouldBlock);
            drop(lock);
            drop(alone(&dir).unwrap());
            drop(forked);
        }
    }
}
