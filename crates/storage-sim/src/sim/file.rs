//! An open file of the simulator.

use std::io;
use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::sync::{Mutex, MutexGuard};
use cleavedb_storage::{File, Mapping, Name, WindowMemory};
use rustix::io::Errno;

use super::Ear;
use super::event::FileId;
use super::state::State;

pub(super) struct SimFile {
    state: Arc<Mutex<State>>,
    process: u64,
    file: FileId,
    /// The name of the file, if it may be read only: by that it is opened again.
    read_as: Option<Name>,
    alignment: usize,
}

impl SimFile {
    /// A handle of `file`, which the caller has counted as open.
    pub(super) fn new(
        state: Arc<Mutex<State>>,
        process: u64,
        file: FileId,
        read_as: Option<Name>,
        alignment: usize,
    ) -> Self {
        Self { state, process, file, read_as, alignment }
    }

    /// Refuses what a device would refuse of direct access.
    fn check_alignment(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let alignment = self.alignment;
        let aligned = offset.is_multiple_of(alignment as u64)
            && buf.len().is_multiple_of(alignment)
            && buf.as_ptr().addr().is_multiple_of(alignment);
        if aligned {
            return Ok(());
        }
        let message = format!(
            "direct access to {} bytes at {offset} from {:p} is not aligned to {alignment}",
            buf.len(),
            buf.as_ptr()
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    }

    /// The directory, unless the process of this handle is dead.
    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        if state.process == self.process { Ok(state) } else { Err(Errno::IO.into()) }
    }

    fn check_writable(&self, refusal: Errno) -> io::Result<()> {
        if self.read_as.is_none() { Ok(()) } else { Err(refusal.into()) }
    }

    /// The directory, if the file is still there to be read.
    fn readable(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        match &self.read_as {
            Some(name) if state.find(name)? != self.file => Err(Errno::NOENT.into()),
            _ => Ok(state),
        }
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check_alignment(buf, offset)?;
        let offset = usize::try_from(offset).map_err(|_| Errno::INVAL)?;
        Ok(self.readable()?.inode(self.file).content.read(offset, buf))
    }

    /// Every other block of a file counts as one that is not in memory, so that tests see both, and
    /// reads that end between them.
    fn read_resident(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let block = offset / BLOCK as u64;
        if block % 2 == 1 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let rest = (block + 1) * BLOCK as u64 - offset;
        let len = buf.len().min(rest as usize);
        self.read_at(&mut buf[..len], offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.check_writable(Errno::BADF)?;
        self.check_alignment(buf, offset)?;
        self.alive()?.write(self.file, offset, buf, self.alignment)
    }

    fn sync(&self) -> io::Result<()> {
        self.alive()?.sync(self.file);
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        self.check_writable(Errno::BADF)?;
        self.alive()?.allocate(self.file, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.check_writable(Errno::INVAL)?;
        self.alive()?.truncate(self.file, len)
    }

    /// Memory of its own, and an observer that records each store in the file.
    fn map(&self, len: usize) -> io::Result<Option<Mapping>> {
        let mut state = self.alive()?;
        if !state.window_survives {
            return Ok(None);
        }
        state.open(self.file);
        let ear = Ear { state: self.state.clone(), process: self.process, file: self.file };
        Ok(Some(Mapping { memory: WindowMemory::of_zeros(len)?, observer: Some(Arc::new(ear)) }))
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        self.check_writable(Errno::BADF)?;
        self.alive()?.punch(self.file, offset, len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.readable()?.inode(self.file).content.len() as u64)
    }

    fn space(&self) -> io::Result<u64> {
        Ok(self.readable()?.inode(self.file).space())
    }

    fn is_copied(&self) -> io::Result<bool> {
        Ok(false)
    }

    fn identity(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn extend_mapped(&self, len: u64) -> io::Result<()> {
        self.allocate(len)?;
        self.truncate(len)
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    /// All of the disk is memory, which no read waits for: advice and questions about a cache
    /// mean nothing here.
    fn will_need(&self, _offset: u64, _len: usize) {}

    fn is_in_memory(&self, _offset: u64) -> bool {
        false
    }

    fn wont_need(&self, _offset: u64, _len: usize) {}
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.state.lock().close(self.file);
    }
}
