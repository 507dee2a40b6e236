//! Advice to the kernel on an open file. Refused advice only costs speed.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::api::Access;

/// Most bytes of one announcement: of a longer range the kernel reads only the beginning, as much
/// as the device takes at once, or the read-ahead of the file system if that is more.
const WILL_NEED_MAX: usize = 1 << 20;

/// Tells the kernel how the file will be read.
pub(super) fn begin(file: &File, access: Access) {
    let advice = match access {
        Access::Random => Advice::Random,
        Access::Sequential => Advice::Sequential,
        // Direct access bypasses the page cache.
        Access::Direct => return,
    };
    let _ = fadvise(file, 0, None, advice);
}

/// Announces that a range will be read soon.
pub(super) fn will_need(file: &File, offset: u64, len: usize) {
    if len <= WILL_NEED_MAX {
        return advise(file, offset, len, Advice::WillNeed);
    }
    // Advice may reach beyond the end of the file: pieces there are not counted.
    let has = file.metadata().map_or(0, |metadata| metadata.len());
    let end = offset.saturating_add(len as u64).min(has);
    for begin in (offset..end).step_by(WILL_NEED_MAX) {
        let len = (end - begin).min(WILL_NEED_MAX as u64);
        advise(file, begin, len as usize, Advice::WillNeed);
    }
}

/// Announces that a range is no longer needed in memory.
pub(super) fn wont_need(file: &File, offset: u64, len: usize) {
    advise(file, offset, len, Advice::DontNeed);
}

fn advise(file: &File, offset: u64, len: usize, advice: Advice) {
    // To the kernel a length of 0 means everything that follows.
    if let Some(len) = NonZeroU64::new(len as u64) {
        let _ = fadvise(file, offset, Some(len), advice);
    }
}

/// Whether the byte at `offset` is in memory.
pub(super) fn is_in_memory(file: &File, offset: u64) -> bool {
    read_resident(file, &mut [0], offset).is_ok_and(|read| read == 1)
}

/// Reads what the page cache has, from `offset` on; fails with `WouldBlock` if it has nothing
/// there, or if the file system does not say.
pub(super) fn read_resident(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    preadv2(file, &mut [IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT).map_err(
        |e| match e {
            Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL => io::ErrorKind::WouldBlock.into(),
            other => other.into(),
        },
    )
}
