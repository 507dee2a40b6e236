//! A process over a storage that outlives it: its lock goes when it is killed.
//!
//! A killed engine cannot be dropped (that would close it in order), so it is leaked, and with it
//! the lock that it took. The storage is then used through a new `Process`, which did not take it.

use std::io;
use std::sync::Arc;

use cleavedb_storage::{Access, File, Lock, Mode, Name, Storage, Window};

/// A storage without its lock.
pub struct Process(pub Arc<dyn Storage>);

impl Storage for Process {
    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        self.0.open(name, mode, access)
    }

    fn rename(&self, from: &Name, to: &Name) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &Name) -> io::Result<()> {
        self.0.remove(name)
    }

    fn list(&self) -> io::Result<Vec<(Name, u64)>> {
        self.0.list()
    }

    fn foreign(&self) -> io::Result<Vec<String>> {
        self.0.foreign()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.0.sync_dir()
    }

    fn lock(&self) -> io::Result<Lock> {
        Ok(Box::new(()))
    }

    fn free_space(&self) -> io::Result<u64> {
        self.0.free_space()
    }

    fn open_window(&self, name: &Name, len: usize) -> io::Result<Window> {
        self.0.open_window(name, len)
    }
}
