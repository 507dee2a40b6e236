//! The simulator: a directory in memory that remembers everything done to it and can crash.
//!
//! In ordinary use it behaves as [`cleavedb_storage::Disk`] does. It records every operation that
//! changes the disk; a [`Replay`] of that record stops between any two operations and enumerates
//! the images that a real disk could hold after a crash there, each of which starts a simulator of
//! its own.
//! It also asserts *write-once*: no byte below a file's synced length is rewritten (windows are
//! exempt). There is no clock and no randomness here but what a caller seeds.

mod rng;
mod content;
mod image;
mod event;
mod pending;
mod replay;
mod choices;
mod states;
mod state;
mod file;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod parity_tests;
#[cfg(test)]
mod toy_tests;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::sync::{Mutex, MutexGuard};
use cleavedb_storage::{
    Access, File, FileKind, Lock, LockMode, Mode, Name, RemoveMode, Storage, WindowObserver,
};
use rustix::io::Errno;

pub use choices::DirectoryOrder;
pub use event::{Event, FileId};
pub use image::Image;
pub use replay::{Replay, SECTOR};
pub use rng::Rng;
pub use states::{PowerLoss, States};

use file::SimFile;
use state::State;

/// What direct access asks of offsets, lengths and buffers, in bytes.
const DIRECT_ALIGNMENT: usize = 512;

/// A simulated directory. Clones are handles of the same one.
#[derive(Clone)]
pub struct Sim {
    state: Arc<Mutex<State>>,
    /// The process that this handle, and every file opened through it, belongs to.
    process: u64,
}

impl Default for Sim {
    fn default() -> Self {
        Self::new()
    }
}

impl Sim {
    /// An empty directory.
    pub fn new() -> Self {
        Self::from_image(Image::default())
    }

    /// A directory that holds `image`, all of it durable, as after a reboot.
    pub fn from_image(image: Image) -> Self {
        Self { state: Arc::new(Mutex::new(State::new(image, Arc::default()))), process: 0 }
    }

    /// Another disk of the machine that `other` belongs to: their operations have one order.
    pub fn beside(other: &Self, image: Image) -> Self {
        let clock = other.state.lock().clock.clone();
        Self { state: Arc::new(Mutex::new(State::new(image, clock))), process: 0 }
    }

    /// Operations that all disks of the machine have recorded so far.
    pub fn time(&self) -> usize {
        self.state.lock().clock.load(Ordering::Relaxed)
    }

    /// The crash point of this disk at a time of the machine.
    pub fn point_at(&self, time: usize) -> usize {
        self.state.lock().times.partition_point(|at| *at < time)
    }

    /// Kills the process that uses the directory and returns a handle for the next one. What was
    /// opened before changes nothing any more, however long it lives, and holds no lock.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut state = self.state.lock();
        state.process += 1;
        (state.locked, state.readers) = (false, 0);
        Self { state: self.state.clone(), process: state.process }
    }

    /// The directory, unless the process of this handle is dead.
    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        if state.process == self.process { Ok(state) } else { Err(Errno::IO.into()) }
    }

    /// What every file holds now, durable or not.
    pub fn image(&self) -> Image {
        self.state.lock().image()
    }

    /// Limits the sum of all files: writes and reservations beyond it find the disk full.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity = bytes;
    }

    /// Makes all files clones of files of another directory (`cp --reflink`): their blocks, which
    /// must not be rewritten, are taken from that one and are not freed with them.
    pub fn share(&self) {
        self.state.lock().share();
    }

    /// Number of reservations so far for which the disk had no room.
    pub fn refused_reservations(&self) -> u64 {
        self.state.lock().refused
    }

    /// Switches the write-once assertion; tests that plant a bug turn it off.
    pub fn set_write_once(&self, on: bool) {
        self.state.lock().write_once = on;
    }

    /// Chooses whether windows survive the process, as where files can be mapped, or not.
    pub fn set_window_survives(&self, survives: bool) {
        self.state.lock().window_survives = survives;
    }

    /// Makes it the directory that has this id: a copy has another one.
    pub fn set_directory_id(&self, id: u64) {
        self.state.lock().directory_id = id;
    }

    /// Memory of the machine, in bytes: unknown unless set.
    pub fn set_memory(&self, bytes: u64) {
        self.state.lock().memory = bytes;
    }

    /// Stops recording for good and drops the history: for long runs that no crash check follows.
    pub fn stop_recording(&self) {
        self.state.lock().history = None;
    }

    /// Puts a file into the directory whose name is not ours.
    pub fn add_foreign(&self, spelled: impl Into<String>) {
        self.state.lock().foreign.push(spelled.into());
    }

    /// Whether `name` would be found after a power loss now, for the same file as now. The engine
    /// asserts this before it makes a record durable that mentions the name (create-before-name).
    pub fn is_name_durable(&self, name: &Name) -> bool {
        let state = self.state.lock();
        state.names.contains_key(name) && state.names.get(name) == state.durable_names.get(name)
    }

    /// Records that a sync of the file `name` failed: the kernel now takes its pending data for
    /// clean, so a later sync does not make it durable. Nothing happens if there is no such file.
    pub fn lose_sync(&self, name: &Name) {
        let mut state = self.state.lock();
        if let Ok(file) = state.find(name) {
            state.lose_sync(file);
        }
    }

    /// Number of operations recorded so far.
    ///
    /// # Panics
    /// If recording was stopped.
    pub fn history_len(&self) -> usize {
        self.state.lock().history.as_ref().expect("recording was stopped").len()
    }

    /// All operations recorded so far, to be printed when a check fails.
    ///
    /// # Panics
    /// If recording was stopped.
    pub fn history(&self) -> Vec<Event> {
        self.state.lock().history.clone().expect("recording was stopped")
    }

    /// A replay of the record so far, standing before the first operation. The disk writes `unit`
    /// bytes at once or not at all: [`SECTOR`], or a smaller power of two to tear sectors as well.
    ///
    /// # Panics
    /// If recording was stopped.
    pub fn replay(&self, unit: usize) -> Replay {
        let history = self.history();
        Replay::new(&self.state.lock().initial, history, unit)
    }

    fn find_or_create(state: &mut State, name: &Name) -> io::Result<FileId> {
        state.find(name).or_else(|_| state.create(name))
    }
}

impl Storage for Sim {
    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        let mut state = self.alive()?;
        let file = match mode {
            Mode::Read | Mode::ReadWrite => state.find(name)?,
            Mode::CreateNew => state.create(name)?,
        };
        let alignment = if access == Access::Direct { DIRECT_ALIGNMENT } else { 1 };
        state.open(file);
        Ok(Arc::new(SimFile::new(
            self.state.clone(),
            self.process,
            file,
            (mode == Mode::Read).then_some(*name),
            alignment,
        )))
    }

    fn rename(&self, from: &Name, to: &Name) -> io::Result<()> {
        self.alive()?.rename(from, to)
    }

    fn remove(&self, name: &Name, _pace: RemoveMode) -> io::Result<()> {
        self.alive()?.remove(name)
    }

    fn list(&self) -> io::Result<Vec<(Name, u64)>> {
        let state = self.alive()?;
        let len = |file: &FileId| state.inode(*file).content.len() as u64;
        Ok(state.names.iter().map(|(name, file)| (*name, len(file))).collect())
    }

    fn foreign(&self) -> io::Result<Vec<String>> {
        Ok(self.alive()?.foreign.clone())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.alive()?.sync_dir();
        Ok(())
    }

    fn lock(&self, mode: LockMode) -> io::Result<Lock> {
        let mut state = self.alive()?;
        let name = Name::fixed(FileKind::Lock);
        match mode {
            LockMode::Exclusive => _ = Self::find_or_create(&mut state, &name)?,
            LockMode::Shared if state.find(&name).is_err() => return Ok(Box::new(())),
            LockMode::Shared => {}
        }
        if state.locked || (mode == LockMode::Exclusive && state.readers > 0) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match mode {
            LockMode::Exclusive => state.locked = true,
            LockMode::Shared => state.readers += 1,
        }
        Ok(Box::new(Held { state: self.state.clone(), process: self.process, mode }))
    }

    fn free_space(&self) -> io::Result<u64> {
        Ok(self.alive()?.free_space())
    }

    fn memory(&self) -> u64 {
        self.state.lock().memory
    }

    fn boot_id(&self) -> u64 {
        1 + self.state.lock().initial.boots
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn directory_id(&self) -> u64 {
        self.state.lock().directory_id
    }
}

/// The lock of a simulated directory.
struct Held {
    state: Arc<Mutex<State>>,
    process: u64,
    mode: LockMode,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if state.process == self.process {
            match self.mode {
                LockMode::Exclusive => state.locked = false,
                LockMode::Shared => state.readers -= 1,
            }
        }
    }
}

/// Carries stores into a window to its file, as a shared mapping does.
struct Ear {
    state: Arc<Mutex<State>>,
    process: u64,
    file: FileId,
}

impl WindowObserver for Ear {
    fn stored(&self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        if state.process == self.process {
            state.store(self.file, offset, bytes);
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.state.lock().close(self.file);
    }
}
