//! Where changes are read: a database that is open here, or the views of one that another process
//! writes.

use std::sync::Arc;

use cleavedb_base::sync::{Mutex, thread};
use cleavedb_base::{ErrorKind, Result};
use cleavedb_storage::process::Own;

use crate::copies::follow::{Follower, PAUSES, may_pass};
use crate::engine::Engine;
use crate::store::manifest::{Manifest, Session};

/// Where changes are read.
#[derive(Clone)]
pub(crate) enum ChangeSource {
    /// A database that is open here.
    Own(Own<Arc<Engine>>),
    /// One that another process writes.
    Followed(Own<Arc<Follower>>),
}

impl ChangeSource {
    /// Fails if the database is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self {
            Self::Own(engine) => engine.gate.check_open(),
            Self::Followed(follower) => follower.view().gate.check_open(),
        }
    }

    /// Reads. The other process changes what is read meanwhile: a look that fails is made again.
    pub(super) fn read<T>(&self, mut read: impl FnMut(&Arc<Engine>) -> Result<T>) -> Result<T> {
        let follower = match self {
            Self::Own(engine) => return read(engine),
            Self::Followed(follower) => follower,
        };
        for pause in PAUSES {
            match read(&follower.own_view()) {
                Err(e) if may_pass(e.kind()) => follower.catch_up()?,
                done => return done,
            };
            thread::sleep(pause);
        }
        let view = follower.own_view();
        read(&view).map_err(|e| view.explained(e))
    }

    /// Has later reads see what was committed before the call.
    pub(super) fn catch_up(&self) -> Result<()> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Followed(follower) => match follower.catch_up() {
                // The other process was faster in each look.
                Err(e) if e.kind() != ErrorKind::Outdated => Err(e),
                _ => Ok(()),
            },
        }
    }

    /// The session of the other process in which `engine` is a view. What a reader has seen of an
    /// earlier one may be lost.
    pub(super) fn session(&self, manifest: &Mutex<Manifest>) -> Option<Session> {
        match self {
            Self::Own(_) => None,
            Self::Followed(_) => manifest.lock().live().session,
        }
    }
}
