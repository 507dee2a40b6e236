//! The storage trait: one flat directory, positioned I/O, no paths, no cursors.
//!
//! Two disciplines keep crash states few and proofs short, and the simulator asserts both:
//! *write-once* (no byte below a file's synced length is rewritten) and *create-before-name* (a
//! file's directory entry is durable before any durable record mentions it).

use std::any::Any;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use cleavedb_base::{Error, ErrorKind};
use rustix::io::Errno;

use crate::class::FileClass;
use crate::layer::layered;
use crate::mapping::Mapping;
use crate::name::Name;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// An existing file, for reading. It may be closed between two calls and opened again by its
    /// name: a file that was removed or renamed since cannot be read through the handle.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A new file; fails if the name is taken.
    CreateNew,
}

/// How a file's bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Through the page cache; any offset and length. Read-ahead by the kernel is off: the engine
    /// knows what it will read next, and the device's window of several MiB drowns random reads.
    Random,
    /// Through the page cache, with the kernel's read-ahead: for files read front to back.
    Sequential,
    /// Writes bypass the page cache: offsets, lengths and buffers are multiples of
    /// [`File::alignment`]. Reads of the same handle must be aligned too.
    Direct,
}

/// Part of the memory that a store may take whose values are written through the page cache, as a
/// divisor.
const CACHED_OF_MEMORY: u64 = 4;

impl Access {
    /// How a job writes values of this class in a store of `stored` bytes. Hot ones are read and
    /// written again soon: they stay in the page cache. So do all of a store that takes at most a
    /// quarter of `memory`: they evict nothing that is needed more (decision 0066).
    #[doc(hidden)]
    pub fn of_values(class: FileClass, stored: u64, memory: u64) -> Self {
        let stays = class == FileClass::Hot || stored <= memory / CACHED_OF_MEMORY;
        if stays { Self::Random } else { Self::Direct }
    }
}

/// How a file is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveMode {
    /// A long file in pieces, with rests, so that the device serves other requests meanwhile.
    Paced,
    /// Without rests: its space is needed, or there is no other work to protect.
    Immediate,
}

/// Who else may hold the lock of a directory at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// No other handle.
    Exclusive,
    /// Other handles with a shared lock: nothing in the directory is changed meanwhile.
    Shared,
}

/// Held while a database is open; released on drop.
pub type Lock = Box<dyn Any + Send + Sync>;

layered! {
    /// One flat directory of files.
    trait Storage;
    /// A storage that lies on another one: it is a [`Storage`], too.
    layer StorageLayer;

    /// Opens or creates a file.
    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>>;
    /// Replaces `to` by `from`, atomically.
    fn rename(&self, from: &Name, to: &Name) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &Name, pace: RemoveMode) -> io::Result<()>;
    /// Every file with one of our names, and its length. Other files are ignored.
    fn list(&self) -> io::Result<Vec<(Name, u64)>>;
    /// Names in the directory that are not ours: no database is created among other files.
    fn foreign(&self) -> io::Result<Vec<String>>;
    /// Makes creations, renames and removals durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Takes the lock on the directory; `WouldBlock` if another handle, also in this process, holds
    /// it and one of both is exclusive: then the cause of the error is the holder, if it is known.
    /// A shared lock changes nothing in the directory. Where the file of the lock is missing, as in
    /// a copy, a shared lock locks nothing.
    fn lock(&self, mode: LockMode) -> io::Result<Lock>;
    /// Bytes that may still be written.
    fn free_space(&self) -> io::Result<u64>;
    /// The directory itself, where it is one of the file system: files can be linked into it.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
    /// Tells one run of the machine from the next, so that recovery knows whether memory was lost
    /// since; 0 where that is unknown.
    fn boot_id(&self) -> u64;
    /// Tells this directory from a copy of it, and stays the same when it is renamed; 0 where
    /// that is unknown.
    fn directory_id(&self) -> u64;
    /// Memory that the process may use, the page cache of its files included, in bytes; 0 where
    /// that is unknown.
    fn memory(&self) -> u64;
}

layered! {
    /// One open file. All offsets are absolute; handles have no cursor and may be shared.
    trait File;
    /// A file that lies on another one: it is a [`File`], too.
    layer FileLayer;

    /// Reads up to `buf.len()` bytes; may be short, 0 at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// As [`File::read_at`], from memory alone: fails with `WouldBlock` where that would wait for
    /// the device, or where it is unknown whether it would.
    fn read_resident(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes up to `buf.len()` bytes; may be short.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes data and length durable (not the name).
    fn sync(&self) -> io::Result<()>;
    /// Reserves disk space up to `len` without changing the length, so that a full disk shows here.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Cuts or extends the file.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Frees the disk space of a range that will not be read any more; the length stays. The bytes
    /// read as zeros or, also after a crash, as they were. Where holes are not supported, and in a
    /// file that has another name ([`File::is_copied`]), nothing happens, and the space is freed
    /// with the file.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Bytes that it takes on the disk, holes and reserved space regarded; its length where
    /// that is unknown.
    fn space(&self) -> io::Result<u64>;
    /// Whether it has another name (a copy by a hard link); false where that is unknown.
    fn is_copied(&self) -> io::Result<bool>;
    /// Tells this file, and each state of its bytes, from every other one, on every disk of the
    /// machine: it changes with every write and every hole, and no copy has it. 0 where that is
    /// unknown. Two states between which the clock of the file system does not tick look alike.
    fn identity(&self) -> io::Result<u64>;
    /// Maps the first `len` bytes of the file, which may have fewer yet, for a window: stores into
    /// the memory outlive the process. `None` where they would not, or where a store might end in a
    /// signal.
    fn map(&self, len: usize) -> io::Result<Option<Mapping>>;
    /// Makes the file `len` bytes long, so that a store into its mapping needs no further block.
    fn extend_mapped(&self, len: u64) -> io::Result<()>;
    /// Multiple that direct access asks of offsets and lengths; 1 for buffered access.
    fn alignment(&self) -> usize;
    /// Says that these bytes will be read soon, so that several places can be fetched side by side.
    /// Returns at once; advice that cannot be taken costs speed only.
    fn will_need(&self, offset: u64, len: usize);
    /// Whether the byte at `offset` is in memory, so that a read of it is quick; false where
    /// that is unknown.
    fn is_in_memory(&self, offset: u64) -> bool;
    /// Says that these bytes are not needed in memory any longer, so that they leave before others
    /// do. Advice, as above.
    fn wont_need(&self, offset: u64, len: usize);
}

/// How far a read goes for its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To the device.
    Device,
    /// To memory, the page cache included: a read that would wait for the device fails.
    Memory,
}

impl Reach {
    /// The error of a read within it that has failed; `doing` as in [`Error::io`].
    #[cold]
    pub fn failed(self, doing: &str, cause: io::Error) -> Error {
        if self == Self::Memory && cause.kind() == io::ErrorKind::WouldBlock {
            return Error::new(ErrorKind::WouldWait, format!("to {doing} waits for the device"));
        }
        Error::io(doing, cause)
    }
}

/// Fills `buf` from `offset`; fails with `UnexpectedEof` if the file ends before.
pub fn read_exact_at(file: &dyn File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    read_exact_within(Reach::Device, file, buf, offset)
}

/// As [`read_exact_at`], from within `reach`; fails with `WouldBlock` where that does not do.
pub fn read_exact_within(
    reach: Reach,
    file: &dyn File,
    mut buf: &mut [u8],
    mut offset: u64,
) -> io::Result<()> {
    while !buf.is_empty() {
        let read = match reach {
            Reach::Device => file.read_at(buf, offset),
            Reach::Memory => file.read_resident(buf, offset),
        };
        match read {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                buf = &mut buf[n..];
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Writes all of `buf` at `offset`.
pub fn write_all_at(file: &dyn File, mut buf: &[u8], mut offset: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match file.write_at(buf, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                buf = &buf[n..];
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Whether a call failed because the disk or the user's quota is full. The database's own space
/// limit is not meant.
pub fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull
        || error.raw_os_error() == Some(Errno::DQUOT.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_through_the_page_cache_while_a_quarter_of_the_memory_holds_all() {
        let cached =
            |class, stored, memory| Access::of_values(class, stored, memory) == Access::Random;
        assert!(cached(FileClass::Groups, 0, 0) && cached(FileClass::Groups, 250, 1000));
        assert!(!cached(FileClass::Groups, 251, 1000) && !cached(FileClass::Segments, 1, 0));
        assert!(cached(FileClass::Hot, u64::MAX, 0));
    }
}
