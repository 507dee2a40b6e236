//! A log file that is still being written, as a file: what the drain has not written yet is read
//! from the window.
//!
//! So [`super::LogReader`] reads the log of a running database as it reads one that was left.

use std::io;
use std::sync::Arc;

use super::buffer::LogBuffer;
use crate::api::{File, FileLayer, read_exact_at};

/// A log file with its newest bytes. It ends where its maker said, although more may be written
/// behind.
pub struct TailedFile {
    file: Arc<dyn File>,
    buffer: Arc<LogBuffer>,
    base: u64,
    len: u64,
}

impl TailedFile {
    /// The first `len` bytes of `file`, whose first byte has log position `base`; all of them are
    /// stored in `buffer` or drained from there, and none is released.
    pub fn new(file: Arc<dyn File>, buffer: Arc<LogBuffer>, base: u64, len: u64) -> Self {
        Self { file, buffer, base, len }
    }
}

impl FileLayer for TailedFile {
    fn inner(&self) -> &dyn File {
        &*self.file
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = (buf.len() as u64).min(self.len.saturating_sub(offset)) as usize;
        let buf = &mut buf[..len];
        let in_file = self.buffer.read_tail(self.base + offset, buf);
        // A log that goes on in its last file leaves a gap there, which no write fills: behind the
        // end of the file it reads as the hole that it will be.
        let there = self.file.len()?.saturating_sub(offset).min(in_file as u64) as usize;
        buf[there..in_file].fill(0);
        read_exact_at(&*self.file, &mut buf[..there], offset)?;
        Ok(len)
    }

    /// No reader asks for that: a log is read from its beginning.
    fn read_resident(&self, _buf: &mut [u8], _offset: u64) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}
