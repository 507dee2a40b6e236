//! A file that is written: it stays open until its handle is dropped.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::BLOCK;
use rustix::fs::{AtFlags, FallocateFlags, OFlags, StatxFlags};
use rustix::io::Errno;

use super::{advice, window};
use crate::api::{Access, File};
use crate::mapping::Mapping;

/// Bytes of one block in the system's counts, whatever the block size of the file system.
pub(super) const COUNTED_BLOCK: u64 = 512;

/// Switches the open file to direct access and returns the alignment that it requires: 1 if the
/// file system has no direct access, in which case the file stays buffered.
fn go_direct(file: &fs::File) -> io::Result<usize> {
    let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let alignment = match stat {
        Ok(stat) if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            stat.stx_dio_mem_align.max(stat.stx_dio_offset_align) as usize
        }
        // An older kernel does not tell; no device in use requires more than a block.
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

/// See [`File::identity`]. The time of birth tells apart files that had one inode in turn, and the
/// time of the last change a file from its past, if the whole disk was set back to that.
pub(super) fn identity_of(file: &fs::File) -> u64 {
    let wanted = StatxFlags::INO | StatxFlags::BTIME | StatxFlags::MTIME;
    match rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted) {
        Ok(stat) if StatxFlags::from_bits_retain(stat.stx_mask).contains(wanted) => {
            let device = [stat.stx_dev_major, stat.stx_dev_minor].map(u64::from);
            let times = [stat.stx_btime, stat.stx_mtime];
            let [birth, change] = times.map(|time| [time.tv_sec as u64, u64::from(time.tv_nsec)]);
            let all = [[stat.stx_ino, device[0]], [device[1], 0], birth, change];
            let bytes = all.as_flattened().iter().flat_map(|part| part.to_le_bytes());
            hash64(&bytes.collect::<Vec<u8>>(), 0).max(1)
        }
        _ => 0,
    }
}

/// A file that stays open until its handle is dropped.
pub(super) struct DiskFile {
    file: fs::File,
    alignment: usize,
}

impl DiskFile {
    /// A handle of `file` with this kind of access.
    pub(super) fn new(file: fs::File, access: Access) -> io::Result<Self> {
        let alignment = if access == Access::Direct { go_direct(&file)? } else { 1 };
        advice::begin(&file, access);
        Ok(Self { file, alignment })
    }

    /// Advice is of no use where the page cache is bypassed.
    fn is_cached(&self) -> bool {
        self.alignment == 1
    }
}

impl File for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn read_resident(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.is_cached() {
            true => advice::read_resident(&self.file, buf, offset),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
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
        // Under another name the file is a copy, which keeps its bytes.
        if self.is_copied()? {
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
        Ok(self.file.metadata()?.blocks() * COUNTED_BLOCK)
    }

    fn is_copied(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() > 1)
    }

    fn identity(&self) -> io::Result<u64> {
        Ok(identity_of(&self.file))
    }

    fn map(&self, len: usize) -> io::Result<Option<Mapping>> {
        window::map(&self.file, len)
    }

    fn extend_mapped(&self, len: u64) -> io::Result<()> {
        window::extend(&self.file, len)
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn will_need(&self, offset: u64, len: usize) {
        if self.is_cached() {
            advice::will_need(&self.file, offset, len);
        }
    }

    fn is_in_memory(&self, offset: u64) -> bool {
        self.is_cached() && advice::is_in_memory(&self.file, offset)
    }

    fn wont_need(&self, offset: u64, len: usize) {
        if self.is_cached() {
            advice::wont_need(&self.file, offset, len);
        }
    }
}
