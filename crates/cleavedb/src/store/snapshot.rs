//! Snapshots: points in commit order that readers still use, each with the time as of which values
//! that expire are there or not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cleavedb_base::SeqNo;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_storage::process;

use crate::settings::time::Time;

/// What a reader sees: versions up to a sequence number, as of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadPoint {
    pub(crate) seq: SeqNo,
    /// In milliseconds since the beginning of 1970.
    pub(crate) time: u64,
}

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

/// The holders of a snapshot.
struct Holders {
    /// Number of the holders, by what they are.
    counts: [usize; 3],
    /// The earliest of their times.
    time: u64,
}

/// The live snapshots, and the holders of each.
#[derive(Default)]
pub(crate) struct SnapshotList {
    held: Mutex<BTreeMap<SeqNo, Holders>>,
}

impl SnapshotList {
    /// Takes a snapshot of the visible state. `visible` is called under the lock under which jobs
    /// list the snapshots, so that a job either sees the snapshot or drops nothing that it needs.
    pub(crate) fn take(
        self: &Arc<Self>,
        by: HeldBy,
        visible: impl Fn() -> SeqNo,
        time: &Time,
    ) -> HeldSnapshot {
        let early = planted(Bug::SnapshotOutsideLock).then(&visible);
        let mut held = self.held.lock();
        let seq = early.unwrap_or_else(visible);
        let time = time.millis();
        let none = Holders { counts: [0; 3], time };
        let holders = held.entry(seq).or_insert(none);
        holders.counts[by as usize] += 1;
        holders.time = holders.time.min(time);
        let at = ReadPoint { seq, time };
        HeldSnapshot { at, by, list: self.clone(), process: process::id() }
    }

    /// The earliest time of a live snapshot, or `now` if that is earlier, under the lock under
    /// which snapshots are taken.
    pub(crate) fn earliest_time(&self, now: impl Fn() -> u64) -> u64 {
        let held = self.held.lock();
        // The clock may have jumped back between two of them.
        held.values().map(|holders| holders.time).fold(now(), u64::min)
    }

    /// The live snapshots, ascending, and a read point taken under the same lock.
    pub(crate) fn fix(&self, visible: impl Fn() -> SeqNo) -> (Vec<SeqNo>, SeqNo) {
        let held = self.held.lock();
        (held.keys().copied().collect(), visible())
    }

    /// What holds snapshots that are older than `seq`, in words; none if nothing does.
    pub(crate) fn older_than(&self, seq: SeqNo) -> Option<String> {
        let mut older = [0; 3];
        for (_, holders) in self.held.lock().range(..seq) {
            older.iter_mut().zip(holders.counts).for_each(|(sum, count)| *sum += count);
        }
        let names = ["snapshots or transactions", "cursors or ranges", "checks"];
        let counted = names.iter().zip(older).filter(|(_, count)| *count > 0);
        let words: Vec<String> = counted.map(|(name, count)| format!("{count} {name}")).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// How long the oldest snapshot has been held, by the clock of `time`.
    pub(crate) fn oldest_for(&self, time: &Time) -> Option<Duration> {
        let oldest = self.held.lock().values().map(|holders| holders.time).min()?;
        Some(Duration::from_millis(time.millis().saturating_sub(oldest)))
    }

    /// Number of snapshots held.
    pub(crate) fn len(&self) -> usize {
        self.held.lock().values().flat_map(|holders| holders.counts).sum()
    }
}

/// A snapshot that is held until dropped.
pub(crate) struct HeldSnapshot {
    pub(crate) at: ReadPoint,
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
        if let Some(holders) = held.get_mut(&self.at.seq) {
            holders.counts[self.by as usize] -= 1;
            if holders.counts == [0; 3] {
                held.remove(&self.at.seq);
            }
        }
    }
}
