//! Beside: a storage as a reader sees it beside the process that writes it.
//!
//! Nothing is changed and nothing is locked: the writer must not wait for the reader. Files may be
//! removed, renamed, cut and punched at any time, so a reader believes only what it has verified.

use std::io;
use std::sync::Arc;

use rustix::io::Errno;

use crate::api::{Access, File, Lock, LockMode, Mode, RemoveMode, Storage, StorageLayer};
use crate::name::Name;

/// A storage that is only read, while another process writes it. Files of it can be linked: the
/// writer changes none in place that has two names.
pub struct Beside {
    inner: Arc<dyn Storage>,
}

impl Beside {
    /// A layer over `inner`.
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner }
    }
}

impl StorageLayer for Beside {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        match mode {
            Mode::Read => self.inner.open(name, mode, access),
            Mode::ReadWrite | Mode::CreateNew => Err(Errno::ROFS.into()),
        }
    }

    fn rename(&self, _from: &Name, _to: &Name) -> io::Result<()> {
        Err(Errno::ROFS.into())
    }

    fn remove(&self, _name: &Name, _pace: RemoveMode) -> io::Result<()> {
        Err(Errno::ROFS.into())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Err(Errno::ROFS.into())
    }

    /// No lock: the writer holds it.
    fn lock(&self, _mode: LockMode) -> io::Result<Lock> {
        Ok(Box::new(()))
    }
}
