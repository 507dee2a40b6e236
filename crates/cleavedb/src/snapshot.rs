//! Snapshots: points in commit order that readers still use.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleavedb_base::SeqNo;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_storage::process;

/// What holds a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldBy {
    /// A snapshot of a user, or that of a transaction.
    Snapshot,
    /// A cursor or a range without one.
    Cursor,
    /// A check of the whole database.
    Check,
}

/// Number of holders of one snapshot, by what they are.
#[derive(Clone, Copy, Default)]
struct Holders([usize; 3]);

/// The live snapshots, and the number of holders of each.
#[derive(Default)]
pub(crate) struct SnapshotList {
    held: Mutex<BTreeMap<SeqNo, Holders>>,
}

impl SnapshotList {
    /// Takes a snapshot of the visible state. `visible` is called under the lock under which jobs
    /// list the snapshots, so that a job either sees the snapshot or drops nothing that it needs.
    pub(crate) fn take(self: &Arc<Self>, by: HeldBy, visible: impl Fn() -> SeqNo) -> HeldSnapshot {
        let early = planted(Bug::SnapshotOutsideLock).then(&visible);
        let mut held = self.held.lock();
        let seq = early.unwrap_or_else(visible);
        held.entry(seq).or_default().0[by as usize] += 1;
        HeldSnapshot { seq, by, list: self.clone(), process: process::id() }
    }

    /// The live snapshots, ascending, and a read point taken under the same lock.
    pub(crate) fn fix(&self, visible: impl Fn() -> SeqNo) -> (Vec<SeqNo>, SeqNo) {
        let held = self.held.lock();
        (held.keys().copied().collect(), visible())
    }

    /// What holds snapshots that are older than `seq`, in words; none if nothing does.
    pub(crate) fn older_than(&self, seq: SeqNo) -> Option<String> {
        let mut older = Holders::default();
        for (_, holders) in self.held.lock().range(..seq) {
            older.0.iter_mut().zip(holders.0).for_each(|(sum, count)| *sum += count);
        }
        let names = ["snapshots or transactions", "cursors or ranges", "checks"];
        let counted = names.iter().zip(older.0).filter(|(_, count)| *count > 0);
        let words: Vec<String> = counted.map(|(name, count)| format!("{count} {name}")).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Number of snapshots held.
    pub(crate) fn len(&self) -> usize {
        self.held.lock().values().flat_map(|holders| holders.0).sum()
    }
}

/// A snapshot that is held until dropped.
pub(crate) struct HeldSnapshot {
    pub(crate) seq: SeqNo,
    by: HeldBy,
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
        if let Some(holders) = held.get_mut(&self.seq) {
            holders.0[self.by as usize] -= 1;
            if holders.0 == [0; 3] {
                held.remove(&self.seq);
            }
        }
    }
}
