//! Snapshots: points in commit order that readers still use.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleavedb_base::SeqNo;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_storage::process;

/// The live snapshots, and the number of holders of each.
#[derive(Default)]
pub(crate) struct SnapshotList {
    held: Mutex<BTreeMap<SeqNo, usize>>,
}

impl SnapshotList {
    /// Takes a snapshot of the visible state. `visible` is called under the lock under which jobs
    /// list the snapshots, so that a job either sees the snapshot or drops nothing that it needs.
    pub(crate) fn take(self: &Arc<Self>, visible: impl Fn() -> SeqNo) -> HeldSnapshot {
        let early = planted(Bug::SnapshotOutsideLock).then(&visible);
        let mut held = self.held.lock();
        let seq = early.unwrap_or_else(visible);
        *held.entry(seq).or_default() += 1;
        HeldSnapshot { seq, list: self.clone(), process: process::id() }
    }

    /// The live snapshots, ascending, and a read point taken under the same lock.
    pub(crate) fn fix(&self, visible: impl Fn() -> SeqNo) -> (Vec<SeqNo>, SeqNo) {
        let held = self.held.lock();
        (held.keys().copied().collect(), visible())
    }

    /// Number of snapshots held.
    pub(crate) fn len(&self) -> usize {
        self.held.lock().values().sum()
    }
}

/// A snapshot that is held until dropped.
pub(crate) struct HeldSnapshot {
    pub(crate) seq: SeqNo,
    list: Arc<SnapshotList>,
    process: u32,
}

impl Drop for HeldSnapshot {
    fn drop(&mut self) {
        // In a fork the list is in the state of another thread of the parent, possibly locked.
        if process::id() != self.process {
            return;
        }
        let mut held = self.list.held.lock();
        if let Some(count) = held.get_mut(&self.seq) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.seq);
            }
        }
    }
}
