//! The real disk: a thin wrapper over positioned system calls on one directory.
//!
//! Nothing here retries, pads or caches: a call of the trait is a call of the system, and its error
//! is passed on as it is; only long files are removed piece by piece ([`gentle`]). The directory is
//! private to its owner (0700, files 0600), and names never follow symbolic links. How a file
//! becomes a [`Window`], and the error contract of stores into it, stands in `window`.

mod gentle;
pub(crate) mod memory;
pub(crate) mod window;

use std::fs::{self, DirBuilder, OpenOptions, TryLockError};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use rustix::fs::{Advice, AtFlags, FallocateFlags, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::api::{Access, File, Lock, Mode, Pace, Storage};
use crate::name::{FileKind, Name};
use crate::window::Window;

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Most bytes that are announced to the kernel by one call: of a longer range it reads the
/// beginning only, as much as the device takes at once, or the read-ahead of the file system if
/// that is more.
const WILL_NEED_MAX: usize = 1 << 20;

/// A directory of the file system.
pub struct Disk {
    path: PathBuf,
    /// Held open to be synced.
    dir: fs::File,
}

impl Disk {
    /// Opens the directory `path`; if it is missing and `create` is set, makes it durably.
    pub fn open(path: impl AsRef<Path>, create: bool) -> io::Result<Self> {
        let path = path.as_ref();
        if create {
            create_dir(path)?;
        }
        let flags = OFlags::DIRECTORY.bits() as i32;
        let dir = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        Ok(Self { path: path.to_owned(), dir })
    }

    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).mode(FILE_MODE).custom_flags(OFlags::NOFOLLOW.bits() as i32);
        options
    }

    fn path_of(&self, name: &Name) -> PathBuf {
        self.path.join(name.to_string())
    }

    /// Calls `visit` with each entry: its name, if it is a file of ours, or its spelling.
    fn visit(&self, mut visit: impl FnMut(Result<(Name, u64), String>)) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // Removed since the directory was read.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            let spelled = entry.file_name().to_string_lossy().into_owned();
            match Name::parse(&spelled) {
                Some(name) if metadata.is_file() => visit(Ok((name, metadata.len()))),
                _ => visit(Err(spelled)),
            }
        }
        Ok(())
    }
}

/// Makes `path` and its missing parents, each durable in the one above.
fn create_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    // A relative path of one part lies in the current directory, which has no spelling in it.
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_dir(parent)?;
    match DirBuilder::new().mode(DIR_MODE).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        other => other?,
    }
    fs::File::open(parent)?.sync_all()
}

impl Storage for Disk {
    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        let mut options = Self::options();
        match mode {
            Mode::Read => {}
            Mode::ReadWrite => _ = options.write(true),
            Mode::CreateNew => _ = options.write(true).create_new(true),
        }
        let file = options.open(self.path_of(name))?;
        let alignment = match access {
            Access::Random => advise(&file, Advice::Random),
            Access::Sequential => advise(&file, Advice::Sequential),
            Access::Direct => go_direct(&file)?,
        };
        Ok(Arc::new(DiskFile { file, alignment }))
    }

    fn rename(&self, from: &Name, to: &Name) -> io::Result<()> {
        fs::rename(self.path_of(from), self.path_of(to))
    }

    fn remove(&self, name: &Name, pace: Pace) -> io::Result<()> {
        gentle::remove(&self.path_of(name), pace)
    }

    fn list(&self) -> io::Result<Vec<(Name, u64)>> {
        let mut ours = Vec::new();
        self.visit(|entry| ours.extend(entry.ok()))?;
        Ok(ours)
    }

    fn foreign(&self) -> io::Result<Vec<String>> {
        let mut foreign = Vec::new();
        self.visit(|entry| foreign.extend(entry.err()))?;
        Ok(foreign)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.dir.sync_all()
    }

    fn lock(&self) -> io::Result<Lock> {
        let path = self.path_of(&Name::fixed(FileKind::Lock));
        let file = Self::options().write(true).create(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {
                // For people only: a full disk that cannot take it is no reason not to go on.
                let _ = file.set_len(0);
                let _ = file.write_at(process::id().to_string().as_bytes(), 0);
                Ok(Box::new(DirLock(file)))
            }
            Err(TryLockError::WouldBlock) => Err(is_locked(&file)),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn free_space(&self) -> io::Result<u64> {
        let fs = rustix::fs::fstatvfs(&self.dir)?;
        Ok(fs.f_bavail.saturating_mul(fs.f_frsize))
    }

    fn open_window(&self, name: &Name, len: usize) -> io::Result<Window> {
        let file = Self::options().write(true).create(true).open(self.path_of(name))?;
        window::open(&file, len)
    }
}

/// The error of who cannot have the lock: names the process that holds it, if that has said so.
fn is_locked(file: &fs::File) -> io::Error {
    let mut bytes = [0; 16];
    let len = file.read_at(&mut bytes, 0).unwrap_or(0);
    let holder = str::from_utf8(&bytes[..len]).ok().and_then(|text| text.parse::<u32>().ok());
    let kind = io::ErrorKind::WouldBlock;
    holder.map_or(kind.into(), |process| io::Error::new(kind, process.to_string()))
}

/// The lock file, locked.
struct DirLock(fs::File);

impl Drop for DirLock {
    fn drop(&mut self) {
        // Nobody must take the process of an earlier lock for that of a later one.
        let _ = self.0.set_len(0);
        // Closing is not enough: a process that was just forked, by any thread of this one, holds
        // the same open file, and with it the lock, until it runs its program.
        let _ = self.0.unlock();
    }
}

/// Tells the kernel how the file will be read. Advice that is refused costs speed only.
fn advise(file: &fs::File, advice: Advice) -> usize {
    let _ = rustix::fs::fadvise(file, 0, None, advice);
    1
}

/// Switches the open file to direct access and returns the alignment that it asks for: 1 if the
/// file system knows no direct access, in which case the file stays buffered.
fn go_direct(file: &fs::File) -> io::Result<usize> {
    let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let alignment = match stat {
        Ok(stat) if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            stat.stx_dio_mem_align.max(stat.stx_dio_offset_align) as usize
        }
        // An older kernel does not tell; no device in use asks for more than a block.
        _ => BLOCK,
    };
    if alignment == 0 {
        return Ok(1);
    }
    // Setting the flag afterwards, instead of opening with it, cannot leave a created file behind.
    let flags = rustix::fs::fcntl_getfl(file)? | OFlags::DIRECT;
    match rustix::fs::fcntl_setfl(file, flags) {
        Ok(()) => Ok(alignment),
        Err(Errno::INVAL) => Ok(1),
        Err(e) => Err(e.into()),
    }
}

struct DiskFile {
    file: fs::File,
    alignment: usize,
}

impl DiskFile {
    /// Of no use where the page cache is bypassed.
    fn advise(&self, offset: u64, len: usize, advice: Advice) {
        // To the kernel a length of 0 is all that follows.
        let len = NonZeroU64::new(len as u64);
        if self.alignment == 1 && len.is_some() {
            let _ = rustix::fs::fadvise(&self.file, offset, len, advice);
        }
    }
}

impl File for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, len) {
            // Without reservations a full disk shows at the write instead.
            Err(Errno::OPNOTSUPP) => Ok(()),
            other => Ok(other?),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, offset, len) {
            Err(Errno::OPNOTSUPP) => Ok(()),
            other => Ok(other?),
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn space(&self) -> io::Result<u64> {
        // The unit of the call, whatever that of the file system is.
        Ok(self.file.metadata()?.blocks() * 512)
    }

    fn is_copied(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() > 1)
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn will_need(&self, offset: u64, len: usize) {
        if len <= WILL_NEED_MAX {
            return self.advise(offset, len, Advice::WillNeed);
        }
        // Advice may name more than the file has: the pieces must not be counted for that.
        let end = offset.saturating_add(len as u64).min(self.len().unwrap_or(0));
        for begin in (offset..end).step_by(WILL_NEED_MAX) {
            let len = (end - begin).min(WILL_NEED_MAX as u64);
            self.advise(begin, len as usize, Advice::WillNeed);
        }
    }

    fn is_in_memory(&self, offset: u64) -> bool {
        let mut byte = [0];
        let mut bufs = [io::IoSliceMut::new(&mut byte)];
        let read = rustix::io::preadv2(&self.file, &mut bufs, offset, ReadWriteFlags::NOWAIT);
        self.alignment == 1 && read == Ok(1)
    }

    fn wont_need(&self, offset: u64, len: usize) {
        self.advise(offset, len, Advice::DontNeed);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use cleavedb_base::FileNumber;

    use super::*;
    use crate::api::{read_exact_at, write_all_at};

    fn log(number: u64) -> Name {
        Name::numbered(FileKind::Log, FileNumber(number))
    }

    fn permissions(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_directory_is_made_only_on_request_and_is_private() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a").join("b");
        let error = Disk::open(&path, false).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
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
    fn a_lock_ends_although_a_forked_process_still_holds_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path(), false).unwrap();
        let lock = disk.lock().unwrap();
        let forked = lock.downcast_ref::<DirLock>().unwrap().0.try_clone().unwrap();
        let refused = disk.lock().err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(refused.to_string(), process::id().to_string(), "it names the holder");
        drop(lock);
        drop(disk.lock().unwrap());
        drop(forked);
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
