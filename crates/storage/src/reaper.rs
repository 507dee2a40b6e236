//! Files and parts of files that nobody can reach any more, waiting to be given back.
//!
//! A table, a segment or an extent that an edit dropped may still be read through an older picture.
//! Its last reader lets go of it anywhere, also deep in a `get`; that thread only queues it here,
//! and a background job removes the file or punches the hole.

use cleavedb_base::sync::Mutex;

use crate::name::Name;

/// A range of a file that nobody reads any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The file.
    pub name: Name,
    /// Where the range begins, in bytes.
    pub offset: u64,
    /// Its length, in bytes.
    pub len: u64,
}

/// Queue of names whose files may be removed, and of ranges that may be given back.
#[derive(Default)]
pub struct Reaper {
    names: Mutex<Vec<Name>>,
    holes: Mutex<Vec<Hole>>,
}

impl Reaper {
    /// Queues a file whose drop is durable in the manifest and which no reader holds.
    pub fn bury(&self, name: Name) {
        self.names.lock().push(name);
    }

    /// Queues a range whose drop is durable in the manifest and which no reader holds.
    pub fn give_back(&self, hole: Hole) {
        self.holes.lock().push(hole);
    }

    /// Takes all queued ranges.
    pub fn take_holes(&self) -> Vec<Hole> {
        std::mem::take(&mut *self.holes.lock())
    }

    /// Takes all queued names.
    pub fn take(&self) -> Vec<Name> {
        std::mem::take(&mut *self.names.lock())
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.names.lock().is_empty() && self.holes.lock().is_empty()
    }
}
