//! A storage with doors: calls chosen by a test wait until it releases them.
//!
//! So a test can hold a job of a real thread in its middle while it observes the others.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cleavedb_storage::{
    Access, File, FileKind, FileLayer, Mode, Name, RemoveMode, Storage, StorageLayer,
};

/// Interval at which a test polls a condition.
const LOOK: Duration = Duration::from_millis(2);

/// The calls that a door holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Creations of files.
    Create,
    /// Removals of files.
    Remove,
    /// Syncs of files that were created by this storage.
    Sync,
}

/// A closed door.
struct Shut {
    id: u64,
    door: Door,
    kind: FileKind,
    /// Number of calls that it will still hold; further ones pass.
    left: usize,
    /// Number of calls that wait at it now.
    waiting: usize,
}

#[derive(Default)]
struct State {
    shut: Vec<Shut>,
    /// Number of doors that were ever closed.
    closed: u64,
    removed: Vec<RemoveMode>,
}

impl State {
    /// A door that is closed.
    fn find(&self, id: u64) -> Option<&Shut> {
        self.shut.iter().find(|shut| shut.id == id)
    }
}

/// What calls pass.
#[derive(Default)]
struct Doors {
    state: Mutex<State>,
    opened: Condvar,
}

/// A storage with doors.
pub struct Gated {
    inner: Arc<dyn Storage>,
    doors: Arc<Doors>,
}

/// Opens its door when it is dropped. Declare it after the database, whose close waits for the
/// threads that are held.
pub struct Guard<'a> {
    gated: &'a Gated,
    id: u64,
}

impl Guard<'_> {
    /// Calls that wait at this door now.
    pub fn waiting(&self) -> usize {
        self.gated.doors.lock().find(self.id).map_or(0, |shut| shut.waiting)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.gated.doors.lock().shut.retain(|shut| shut.id != self.id);
        self.gated.doors.opened.notify_all();
    }
}

impl Gated {
    /// `inner` with all doors open.
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner, doors: Arc::default() }
    }

    /// Holds the next `most` calls on files of `kind` until the guard is dropped.
    #[must_use]
    pub fn hold(&self, door: Door, kind: FileKind, most: usize) -> Guard<'_> {
        let mut state = self.doors.lock();
        state.closed += 1;
        let id = state.closed;
        state.shut.push(Shut { id, door, kind, left: most, waiting: 0 });
        Guard { gated: self, id }
    }

    /// Calls that wait at any door now.
    pub fn waiting(&self) -> usize {
        self.doors.lock().shut.iter().map(|shut| shut.waiting).sum()
    }

    /// How files were removed since the last call, in order.
    pub fn removed(&self) -> Vec<RemoveMode> {
        std::mem::take(&mut self.doors.lock().removed)
    }
}

impl Doors {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, door: Door, name: &Name) {
        let mut state = self.lock();
        let holds =
            |shut: &&mut Shut| shut.door == door && shut.kind == name.kind() && shut.left > 0;
        let Some(shut) = state.shut.iter_mut().find(holds) else { return };
        shut.left -= 1;
        shut.waiting += 1;
        let id = shut.id;
        while state.find(id).is_some() {
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl StorageLayer for Gated {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        if mode != Mode::CreateNew {
            return self.inner.open(name, mode, access);
        }
        self.doors.pass(Door::Create, name);
        let inner = self.inner.open(name, mode, access)?;
        Ok(Arc::new(GatedFile { inner, name: *name, doors: self.doors.clone() }))
    }

    fn remove(&self, name: &Name, pace: RemoveMode) -> io::Result<()> {
        self.doors.pass(Door::Remove, name);
        self.doors.lock().removed.push(pace);
        self.inner.remove(name, pace)
    }
}

struct GatedFile {
    inner: Arc<dyn File>,
    name: Name,
    doors: Arc<Doors>,
}

impl FileLayer for GatedFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    fn sync(&self) -> io::Result<()> {
        self.doors.pass(Door::Sync, &self.name);
        self.inner.sync()
    }
}

/// Waits for `done`, at most `limit`; returns whether it became true.
pub fn eventually(limit: Duration, done: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}
