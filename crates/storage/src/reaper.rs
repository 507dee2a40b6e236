//! Files that nobody can reach any more, waiting to be removed.
//!
//! A table or a segment that an edit dropped may still be read through an older picture. Its last
//! reader lets go of it anywhere, also deep in a `get`; that thread only queues the name here, and
//! a background job removes the file.

use parking_lot::Mutex;

use crate::name::Name;

/// Queue of names whose files may be removed.
#[derive(Default)]
pub struct Reaper {
    names: Mutex<Vec<Name>>,
}

impl Reaper {
    /// Queues a file whose drop is durable in the manifest and which no reader holds.
    pub fn bury(&self, name: Name) {
        self.names.lock().push(name);
    }

    /// Takes all queued names.
    pub fn take(&self) -> Vec<Name> {
        std::mem::take(&mut *self.names.lock())
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.names.lock().is_empty()
    }
}
