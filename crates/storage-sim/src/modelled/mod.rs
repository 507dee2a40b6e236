//! SimulatedDevice: a storage that takes the time of another device.
//!
//! Every call goes to the storage below, and then takes as long as the device of a [`Profile`]
//! would need, in real time or on a [`Clock`] that a test reads. So results for hard disks and SSDs
//! can be had on any machine, and a database with two disks is two of these on one clock. The time
//! is never shorter than that of the storage below, which should be fast: memory, or a better
//! device.
//!
//! What costs what:
//!
//! * *Reads* through the page cache cost what of their pages is not in a cache of the given size,
//!   one request for each missing piece. Files opened for sequential reading fetch
//!   [`READ_AHEAD`] bytes at a time. Direct reads always go to the device.
//! * *Advice* ([`File::will_need`]) starts the same requests without waiting; a read that comes
//!   before they are done waits for the rest.
//! * *Writes* through the page cache cost nothing until a sync of the file, or until
//!   [`DIRTY_MAX`] bytes wait: then the writer waits until all of them are written. Direct writes
//!   cost one request each.
//! * *Syncs* cost one write for each dirty piece and a flush of the device. A sync of the directory
//!   costs one write of a page for each name that changed or length that was set, in a place of its
//!   own, and a flush: a journal.
//! * *The window*: to make it is a change for the journal. Stores are stores into memory and cost
//!   nothing: no caller waits for them, and the same bytes are charged when the log is drained.
//!
//! Left out: write-back that the kernel starts by itself, also of the window; pages that are read
//! because a write covers part of them; seeks inside a file that is not contiguous; the order of
//! requests in a queue; the collection of an SSD itself; metadata that is not in memory. Two
//! modelled storages share no page cache.

mod profile;
mod clock;
mod device;
mod page_cache;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};

use cleavedb_base::limits::BLOCK;
use cleavedb_base::sync::Mutex;
use cleavedb_storage::{Access, File, FileLayer, Mode, Name, RemoveMode, Storage, StorageLayer};

use device::{Device, Direction, Extent};
use page_cache::PageCache;

pub use clock::Clock;
pub use device::DeviceTotals;
pub use profile::Profile;

/// Bytes that a file opened for sequential reading fetches at a time: twice the kernel's default
/// window of 128 KiB, as it does for advised files.
pub const READ_AHEAD: u64 = 256 << 10;

/// Dirty bytes at which a writer must wait for the device: a tenth of 1 GiB, as the kernel's
/// default share of memory for background write-back.
pub const DIRTY_MAX: u64 = 100 << 20;

/// Where the file system's journal lies: not in a file of ours.
const JOURNAL: u64 = 0;

/// What storage and files share.
struct Shared {
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    device: Device,
    cache: PageCache,
    /// Open or once opened files by their names.
    files: HashMap<Name, Arc<Inode>>,
    next_file: u64,
    /// Changes of names and lengths since the last sync of the directory.
    changes: u64,
    journal_end: u64,
}

impl State {
    fn write(&mut self, now: u64, extents: &[Extent]) -> u64 {
        extents
            .iter()
            .fold(now, |done, extent| done.max(self.device.request(now, Direction::Write, *extent)))
    }
}

/// A file, as long as it has a name or an open handle.
struct Inode {
    number: u64,
    /// Not what keeps it alive: it holds the inodes.
    shared: Weak<Shared>,
}

impl Drop for Inode {
    fn drop(&mut self) {
        // Without a name it cannot be opened again: its dirty pages are never written.
        let all = Extent { file: self.number, offset: 0, len: u64::MAX };
        if let Some(shared) = self.shared.upgrade() {
            shared.state.lock().cache.forget(all);
        }
    }
}

/// A storage that takes the time of another device.
pub struct SimulatedDevice {
    inner: Arc<dyn Storage>,
    shared: Arc<Shared>,
}

impl SimulatedDevice {
    /// Wraps `inner` in a device of `profile` with a page cache of `cache_bytes`.
    pub fn new(inner: Arc<dyn Storage>, profile: Profile, clock: Clock, cache_bytes: u64) -> Self {
        let state = State {
            device: Device::new(profile),
            cache: PageCache::new(cache_bytes),
            files: HashMap::new(),
            next_file: JOURNAL + 1,
            changes: 0,
            journal_end: 0,
        };
        Self { inner, shared: Arc::new(Shared { clock, state: Mutex::new(state) }) }
    }

    /// What the device has done so far.
    pub fn totals(&self) -> DeviceTotals {
        self.shared.state.lock().device.totals()
    }

    /// The file of `name`, which exists.
    fn inode(&self, name: &Name) -> Arc<Inode> {
        let mut state = self.shared.state.lock();
        if let Some(inode) = state.files.get(name) {
            return inode.clone();
        }
        let number = state.next_file;
        state.next_file += 1;
        let inode = Arc::new(Inode { number, shared: Arc::downgrade(&self.shared) });
        state.files.insert(*name, inode.clone());
        inode
    }
}

impl Shared {
    /// Waits for what `ask` asks of the device, given the present time: it returns when that is
    /// done.
    fn charge(&self, ask: impl FnOnce(&mut State, u64) -> u64) {
        let now = self.clock.nanos();
        let done = ask(&mut self.state.lock(), now);
        self.clock.wait_until(done);
    }
}

impl StorageLayer for SimulatedDevice {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(name, mode, access)?;
        let inode = self.inode(name);
        if mode == Mode::CreateNew {
            self.shared.state.lock().changes += 1;
        }
        let access = match access {
            // A file system without direct access leaves the file buffered.
            Access::Direct if inner.alignment() == 1 => Access::Random,
            access => access,
        };
        Ok(Arc::new(ModelledFile { inner, inode, access, shared: self.shared.clone() }))
    }

    fn rename(&self, from: &Name, to: &Name) -> io::Result<()> {
        self.inner.rename(from, to)?;
        let inode = self.inode(from);
        let mut state = self.shared.state.lock();
        state.changes += 1;
        state.files.remove(from);
        let replaced = state.files.insert(*to, inode);
        // The end of a file takes the lock.
        drop(state);
        drop(replaced);
        Ok(())
    }

    fn remove(&self, name: &Name, pace: RemoveMode) -> io::Result<()> {
        self.inner.remove(name, pace)?;
        let mut state = self.shared.state.lock();
        state.changes += 1;
        let removed = state.files.remove(name);
        drop(state);
        drop(removed);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()?;
        self.shared.charge(|state, now| {
            let len = BLOCK as u64 * std::mem::take(&mut state.changes).max(1);
            let journal = Extent { file: JOURNAL, offset: state.journal_end, len };
            state.journal_end += len;
            let written = state.write(now, &[journal]);
            state.device.flush(written)
        });
        Ok(())
    }
}

struct ModelledFile {
    inner: Arc<dyn File>,
    inode: Arc<Inode>,
    /// As it is served: direct only if the storage below is.
    access: Access,
    shared: Arc<Shared>,
}

impl ModelledFile {
    fn extent(&self, offset: u64, len: usize) -> Extent {
        Extent { file: self.inode.number, offset, len: len as u64 }
    }

    /// Asks the device for what of `extent` is not in memory; returns when all of it is there.
    fn fetch(&self, state: &mut State, now: u64, extent: Extent, file_len: u64) -> u64 {
        let found = state.cache.look_up(extent);
        found.missing.into_iter().fold(found.ready, |ready, mut missing| {
            if self.access == Access::Sequential {
                missing.len = missing.len.max(READ_AHEAD);
            }
            let end = file_len.next_multiple_of(BLOCK as u64);
            missing.len = missing.len.min(end.saturating_sub(missing.offset));
            let done = state.device.request(now, Direction::Read, missing);
            state.cache.insert(missing, done);
            ready.max(done)
        })
    }

    /// A change of length or of blocks, which goes to the journal.
    fn changed(&self, forget: Extent) {
        let mut state = self.shared.state.lock();
        state.changes += 1;
        state.cache.forget(forget);
    }
}

impl FileLayer for ModelledFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.inner.read_at(buf, offset)?;
        if read == 0 {
            return Ok(0);
        }
        let extent = self.extent(offset, read);
        // The end is known without a call if the read came to it or stays behind it.
        let len = if self.access == Access::Sequential { self.inner.len()? } else { u64::MAX / 2 };
        self.shared.charge(|state, now| match self.access {
            Access::Direct => state.device.request(now, Direction::Read, extent),
            Access::Random | Access::Sequential => self.fetch(state, now, extent, len),
        });
        Ok(read)
    }

    fn read_resident(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = (buf.len() as u64).min(self.inner.len()?.saturating_sub(offset));
        let extent = Extent { file: self.inode.number, offset, len };
        let now = self.shared.clock.nanos();
        let found = self.shared.state.lock().cache.look_up(extent);
        if self.access == Access::Direct || !found.missing.is_empty() || found.ready > now {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let written = self.inner.write_at(buf, offset)?;
        if written == 0 {
            return Ok(0);
        }
        let extent = self.extent(offset, written);
        self.shared.charge(|state, now| {
            if self.access == Access::Direct {
                state.cache.forget(extent);
                return state.write(now, &[extent]);
            }
            state.cache.insert(extent, now);
            if state.cache.soil(extent) < DIRTY_MAX {
                return now;
            }
            let dirty = state.cache.take_all_dirty();
            state.write(now, &dirty)
        });
        Ok(written)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()?;
        self.shared.charge(|state, now| {
            let dirty = state.cache.take_dirty(self.inode.number);
            let written = state.write(now, &dirty);
            state.device.flush(written)
        });
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.inner.allocate(len)?;
        self.changed(self.extent(0, 0));
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.inner.truncate(len)?;
        self.changed(Extent { file: self.inode.number, offset: len, len: u64::MAX - len });
        Ok(())
    }

    fn extend_mapped(&self, len: u64) -> io::Result<()> {
        self.inner.extend_mapped(len)?;
        self.changed(self.extent(0, 0));
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.punch(offset, len)?;
        self.changed(Extent { file: self.inode.number, offset, len });
        Ok(())
    }

    fn will_need(&self, offset: u64, len: usize) {
        self.inner.will_need(offset, len);
        // Advice beyond the end of the file asks for nothing.
        let Ok(file_len) = self.inner.len() else { return };
        let len = (len as u64).min(file_len.saturating_sub(offset));
        if self.access == Access::Direct || len == 0 {
            return;
        }
        let now = self.shared.clock.nanos();
        let mut state = self.shared.state.lock();
        self.fetch(&mut state, now, Extent { file: self.inode.number, offset, len }, file_len);
    }

    fn is_in_memory(&self, offset: u64) -> bool {
        let extent = Extent { file: self.inode.number, offset, len: 1 };
        self.shared.state.lock().cache.look_up(extent).missing.is_empty()
    }

    fn wont_need(&self, offset: u64, len: usize) {
        self.inner.wont_need(offset, len);
        let extent = Extent { file: self.inode.number, offset, len: len as u64 };
        self.shared.state.lock().cache.drop_clean(extent);
    }
}

#[cfg(test)]
mod tests;
