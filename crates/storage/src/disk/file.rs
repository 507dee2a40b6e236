//! An open file: positioned calls of the system, and advice to it.

use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt};

use cleavedb_base::limits::BLOCK;
use rustix::fs::{Advice, AtFlags, FallocateFlags, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::api::{Access, File};

/// Most bytes that are announced to the kernel by one call: of a longer range it reads the
/// beginning only, as much as the device takes at once, or the read-ahead of the file system if
/// that is more.
const WILL_NEED_MAX: usize = 1 << 20;

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

/// A file that stays open until its handle is dropped.
pub(super) struct DiskFile {
    file: fs::File,
    alignment: usize,
}

impl DiskFile {
    /// A handle of `file`, whose bytes are to travel by `access`.
    pub(super) fn new(file: fs::File, access: Access) -> io::Result<Self> {
        let alignment = match access {
            Access::Random => advise(&file, Advice::Random),
            Access::Sequential => advise(&file, Advice::Sequential),
            Access::Direct => go_direct(&file)?,
        };
        Ok(Self { file, alignment })
    }

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
