//! The real disk: a thin wrapper over positioned system calls on one directory.
//!
//! There are no retries, padding or caches: a call of the trait is a call of the system, and its
//! error is passed on; only long files are removed piece by piece (`gentle.rs`). The directory is
//! held open, and every name is looked up through its descriptor (`dir.rs`): no rename of the
//! directory and no change of the current directory leads to other files. Files that are read share
//! a bounded number of descriptors ([`open_files`]). The directory is private to its owner (0700,
//! files 0600). `window` describes how a file becomes a [`crate::Window`], and the error contract
//! of stores into it.

pub mod open_files;
mod dir;
mod advice;
mod window;
mod file;
mod read_file;
mod gentle;
pub(crate) mod lock;
mod backups;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use rustix::fs::OFlags;

pub use self::backups::DiskBackups;
use self::dir::Dir;
use self::file::DiskFile;
use self::read_file::ReadFile;
use crate::api::{Access, File, Lock, LockMode, Mode, RemoveMode, Storage};
use crate::machine;
use crate::name::Name;

/// A directory of the file system.
pub struct Disk {
    dir: Arc<Dir>,
}

impl Disk {
    /// Opens the directory `path`; if it is missing and `create` is set, makes it durably.
    pub fn open(path: impl AsRef<Path>, create: bool) -> io::Result<Self> {
        Ok(Self { dir: Arc::new(Dir::open(path.as_ref(), create)?) })
    }
}

impl Storage for Disk {
    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        let flags = match mode {
            Mode::Read if access != Access::Direct => {
                return Ok(Arc::new(ReadFile::new(self.dir.clone(), *name, access)?));
            }
            Mode::Read => OFlags::RDONLY,
            Mode::ReadWrite => OFlags::RDWR,
            Mode::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        let file = self.dir.open_file(name, flags)?;
        Ok(Arc::new(DiskFile::new(file, access)?))
    }

    fn rename(&self, from: &Name, to: &Name) -> io::Result<()> {
        self.dir.rename(from, to)
    }

    fn remove(&self, name: &Name, pace: RemoveMode) -> io::Result<()> {
        gentle::remove(&self.dir, name, pace)
    }

    fn list(&self) -> io::Result<Vec<(Name, u64)>> {
        let mut ours = Vec::new();
        self.dir.visit(|entry| ours.extend(entry.ok()))?;
        Ok(ours)
    }

    fn foreign(&self) -> io::Result<Vec<String>> {
        let mut foreign = Vec::new();
        self.dir.visit(|entry| foreign.extend(entry.err()))?;
        Ok(foreign)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.dir.sync()
    }

    fn lock(&self, mode: LockMode) -> io::Result<Lock> {
        lock::take(&self.dir, mode)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.dir.free_space()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.dir.descriptor())
    }

    fn boot_id(&self) -> u64 {
        std::fs::read("/proc/sys/kernel/random/boot_id").map_or(0, |id| hash64(&id, 0).max(1))
    }

    fn directory_id(&self) -> u64 {
        self.dir.id().map_or(0, |(device, inode)| hash64(&inode.to_le_bytes(), device).max(1))
    }

    fn memory(&self) -> u64 {
        machine::memory().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use cleavedb_base::FileNumber;
    use cleavedb_base::limits::BLOCK;
    use rustix::io::Errno;

    use super::*;
    use crate::api::{read_exact_at, write_all_at};
    use crate::backups::BackupStorage;
    use crate::name::{BackupName, FileKind};

    fn log(number: u64) -> Name {
        Name::numbered(FileKind::Log, FileNumber(number))
    }

    fn permissions(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_directory_is_made_only_on_request_and_is_private() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a");
        for error in [Disk::open(&path, false).err(), Disk::open(path.join("b"), true).err()] {
            assert_eq!(error.unwrap().kind(), io::ErrorKind::NotFound);
        }
        assert!(!path.exists());
        let disk = Disk::open(&path, true).unwrap();
        Disk::open(&path, true).expect("an existing directory is opened");
        assert_eq!(permissions(&path), 0o700);
        disk.open(&log(1), Mode::CreateNew, Access::Random).unwrap();
        assert_eq!(permissions(&path.join("000001.log")), 0o600);
        let error = Disk::open(path.join("000001.log"), true).err().unwrap();
        assert!(error.raw_os_error().is_some(), "a file is not a directory: {error}");
    }

    #[test]
    fn strangers_are_told_apart_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), false).unwrap();
        disk.open(&log(1), Mode::CreateNew, Access::Random).unwrap();
        fs::write(dir.path().join("notes.txt"), "x").unwrap();
        fs::create_dir(dir.path().join("000002.log")).unwrap();
        symlink(dir.path().join("000001.log"), dir.path().join("000003.log")).unwrap();
        assert_eq!(disk.list().unwrap(), [(log(1), 0)]);
        let mut foreign = disk.foreign().unwrap();
        foreign.sort_unstable();
        assert_eq!(foreign, ["000002.log", "000003.log", "notes.txt"]);
        let error = disk.open(&log(3), Mode::Read, Access::Random).err().unwrap();
        assert_eq!(error.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    }

    #[test]
    fn a_resident_read_is_a_read_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), false).unwrap();
        let file = disk.open(&log(1), Mode::CreateNew, Access::Random).unwrap();
        write_all_at(&*file, &[7; 100], 0).unwrap();
        let refused = |read: std::io::Result<usize>| {
            assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        };
        let mut buf = [0; 200];
        let reader = disk.open(&log(1), Mode::Read, Access::Random).unwrap();
        refused(reader.read_resident(&mut buf, 0));
        assert_eq!(reader.read_at(&mut buf[..1], 0).unwrap(), 1);
        for file in [&file, &reader] {
            match file.read_resident(&mut buf, 10) {
                Ok(len) => assert_eq!((len, &buf[..90]), (90, &[7; 90][..])),
                other => refused(other),
            }
        }
        if let Ok(direct) = disk.open(&log(1), Mode::ReadWrite, Access::Direct) {
            refused(direct.read_resident(&mut buf, 0));
        }
    }

    #[test]
    fn advice_changes_nothing_that_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), false).unwrap();
        let file = disk.open(&log(1), Mode::CreateNew, Access::Random).unwrap();
        write_all_at(&*file, b"warm", 0).unwrap();
        file.will_need(0, 4);
        file.will_need(u64::MAX, usize::MAX);
        file.will_need(0, usize::MAX);
        file.will_need(u64::MAX, 1);
        assert!(!file.is_in_memory(1 << 30), "there is nothing");
        file.wont_need(0, 4);
        file.wont_need(u64::MAX, usize::MAX);
        let mut buf = [0; 4];
        read_exact_at(&*file, &mut buf, 0).unwrap();
        assert_eq!(&buf, b"warm");
    }

    #[test]
    fn a_punched_range_reads_as_zeros_and_its_blocks_come_back() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), false).unwrap();
        let file = disk.open(&log(1), Mode::CreateNew, Access::Random).unwrap();
        write_all_at(&*file, &[7; 8 * BLOCK], 0).unwrap();
        file.sync().unwrap();
        let blocks = || fs::metadata(dir.path().join("000001.log")).unwrap().blocks();
        let before = blocks();
        file.punch(0, 0).expect("nothing to give back is no error");
        file.punch(BLOCK as u64, 4 * BLOCK as u64).unwrap();
        assert_eq!(file.len().unwrap(), 8 * BLOCK as u64);
        let mut bytes = [0; 8 * BLOCK];
        read_exact_at(&*file, &mut bytes, 0).unwrap();
        assert!(bytes[..BLOCK].iter().chain(&bytes[5 * BLOCK..]).all(|byte| *byte == 7));
        let hole = bytes[BLOCK..5 * BLOCK].iter().all(|byte| *byte == 0);
        assert!(!hole || blocks() < before, "a hole takes no blocks");
    }

    /// A copy of a database may be made of links.
    #[test]
    fn a_file_with_another_name_is_not_punched() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), false).unwrap();
        let file = disk.open(&log(1), Mode::CreateNew, Access::Random).unwrap();
        write_all_at(&*file, &[7; 4 * BLOCK], 0).unwrap();
        assert!(!file.is_copied().unwrap());
        fs::hard_link(dir.path().join("000001.log"), dir.path().join("copy")).unwrap();
        let reader = disk.open(&log(1), Mode::Read, Access::Random).unwrap();
        assert!(file.is_copied().unwrap() && reader.is_copied().unwrap());
        file.punch(0, BLOCK as u64).unwrap();
        assert_eq!(fs::read(dir.path().join("copy")).unwrap(), [7; 4 * BLOCK]);
    }

    /// Longer than the tick of any file system's clock.
    const TICK: std::time::Duration = std::time::Duration::from_millis(30);

    #[test]
    fn an_identity_is_that_of_one_state_of_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), false).unwrap();
        let file = disk.open(&log(1), Mode::CreateNew, Access::Random).unwrap();
        write_all_at(&*file, &[7; 4 * BLOCK], 0).unwrap();
        let identity = || disk.open(&log(1), Mode::Read, Access::Random).unwrap().identity();
        let first = identity().unwrap();
        if first == 0 {
            println!("skipped: the file system does not tell the time of birth");
            return;
        }
        assert_eq!(file.identity().unwrap(), first);
        let path = |number| dir.path().join(log(number).to_string());
        fs::hard_link(path(1), path(2)).unwrap();
        fs::remove_file(path(2)).unwrap();
        disk.rename(&log(1), &log(3)).unwrap();
        disk.rename(&log(3), &log(1)).unwrap();
        assert_eq!(identity().unwrap(), first, "names are no part of it");
        std::thread::sleep(TICK);
        file.punch(0, BLOCK as u64).unwrap();
        let punched = identity().unwrap();
        std::thread::sleep(TICK);
        write_all_at(&*file, &[8], 5).unwrap();
        let written = identity().unwrap();
        fs::copy(path(1), path(2)).unwrap();
        fs::rename(path(2), path(1)).unwrap();
        let all = [first, punched, written, identity().unwrap()];
        assert!((0..4).all(|at| !all[..at].contains(&all[at])), "{all:?}");
    }

    #[test]
    fn backups_are_directories_that_no_link_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let backups = DiskBackups::open(dir.path(), false).unwrap();
        let [whole, unfinished] = [BackupName::Whole(1), BackupName::Unfinished(1)];
        let backup = backups.create(&unfinished).unwrap();
        assert_eq!(permissions(&dir.path().join("000001.unfinished")), 0o700);
        backup.open(&log(1), Mode::CreateNew, Access::Random).unwrap();
        let error = backups.create(&unfinished).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        backups.rename(&unfinished, &whole).unwrap();
        assert_eq!(crate::backups::list(&backups).unwrap(), [whole]);
        assert_eq!(backups.open(&whole).unwrap().list().unwrap(), [(log(1), 0)]);
        let refused = backups.remove(&whole).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::DirectoryNotEmpty);
        backup.remove(&log(1), RemoveMode::Immediate).unwrap();
        backups.remove(&whole).unwrap();
        assert_eq!(backups.open(&whole).err().unwrap().kind(), io::ErrorKind::NotFound);
        symlink(dir.path(), dir.path().join("000002")).unwrap();
        fs::write(dir.path().join("000003"), "a file").unwrap();
        for number in [2, 3] {
            assert!(backups.open(&BackupName::Whole(number)).is_err());
        }
    }

    #[test]
    fn reserved_space_does_not_show_as_length() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), false).unwrap();
        let before = disk.free_space().unwrap();
        assert!(before > 0);
        let file = disk.open(&log(1), Mode::CreateNew, Access::Sequential).unwrap();
        file.allocate(0).unwrap();
        file.allocate(1 << 20).unwrap();
        assert_eq!(file.len().unwrap(), 0);
        let mut buf = [0; 1];
        let error = read_exact_at(&*file, &mut buf, 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let error = file.allocate(1 << 62).unwrap_err();
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::FileTooLarge];
        assert!(full.contains(&error.kind()), "{error}");
    }
}
