//! What background work is under way, and how threads hear of each other's progress.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cleavedb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cleavedb_base::sync::{Condvar, Mutex, MutexGuard};
use cleavedb_base::{Error, ErrorKind, FileNumber, GroupId, Result, SeqNo};
use cleavedb_index::compaction::Constraints;
use cleavedb_storage::log::LogFile;

/// Kinds of jobs, in the order in which they are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum JobKind {
    /// Write the oldest full MemTable to level 0.
    Flush,
    /// Create the next log file ahead.
    Spare,
    /// Merge or move tables.
    Compact,
    /// Collect value files.
    Collect,
    /// Remove files that nobody can reach.
    Remove,
    /// Give back parts of files that nobody can reach.
    Punch,
}

impl JobKind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Flush, Self::Spare, Self::Compact, Self::Collect, Self::Punch, Self::Remove];
}

/// Where a collection met a damaged record: it is not tried again, since it would block all others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Damaged {
    pub(crate) files: BTreeSet<FileNumber>,
    pub(crate) groups: BTreeSet<GroupId>,
}

/// What is under way.
#[derive(Default)]
pub(crate) struct JobState {
    pub(crate) flushing: bool,
    pub(crate) sparing: bool,
    /// Tables that compactions read, and the epoch at which a running collection fixed its inputs:
    /// its run of new pointers will enter level 0 there, so younger runs must stay above.
    pub(crate) constraints: Constraints,
    pub(crate) compactions: usize,
    /// Threads that remove files or punch holes.
    pub(crate) giving_back: usize,
    /// What cannot be collected.
    pub(crate) damaged: Damaged,
    /// A group whose split a flush has prevented: no flush begins until it was tried again.
    pub(crate) split_waits: Option<GroupId>,
    /// Whether groups are collected one at a time, since the disk had no room for several.
    pub(crate) collect_alone: bool,
    /// Collect files up to this number although the space goal is met.
    pub(crate) forced: Option<FileNumber>,
    pub(crate) last_error: Option<Error>,
    /// How often somebody has asked to look for work.
    calls: u64,
}

/// What [`Jobs::victim`] is without a collection.
const NO_VICTIM: FileNumber = FileNumber(0);

/// How often a close looks for the end of what callers have begun.
const CALLER_LOOK: Duration = Duration::from_millis(10);

/// The jobs of one database.
#[derive(Default)]
pub(crate) struct Jobs {
    state: Mutex<JobState>,
    /// Somebody should look for work.
    work: Condvar,
    /// Some job has finished.
    pub(crate) progress: Condvar,
    closing: AtomicBool,
    /// Number of the file that a running collection reads, which nobody else may drop; 0 for none.
    /// Changed under the manifest's lock.
    victim: AtomicU64,
    seq_limit: AtomicU64,
    /// Log files begun since the open, until a flush has passed them.
    pub(crate) log_files: Mutex<Vec<(FileNumber, Arc<LogFile>)>>,
}

impl Jobs {
    /// Set once the database is closing: long jobs look at it now and then.
    pub(crate) fn closing_flag(&self) -> &AtomicBool {
        &self.closing
    }

    pub(crate) fn closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(crate) fn victim(&self) -> FileNumber {
        FileNumber(self.victim.load(Ordering::Acquire))
    }

    pub(crate) fn set_victim(&self, victim: FileNumber) {
        self.victim.store(victim.0, Ordering::Release);
    }

    pub(crate) fn seq_limit(&self) -> SeqNo {
        self.seq_limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_seq_limit(&self, limit: SeqNo) {
        self.seq_limit.store(limit, Ordering::Relaxed);
    }

    /// Wakes the threads to look for work.
    pub(crate) fn kick(&self) {
        self.state.lock().calls += 1;
        self.work.notify_all();
    }

    /// How often somebody has asked to look for work: to be taken before the look.
    pub(crate) fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Sleeps until somebody asks for work, for `pause` at most; not at all if somebody has asked
    /// since there were `calls`, which a thread that was still looking would have missed. Returns
    /// whether nobody has asked.
    pub(crate) fn wait_for_work(&self, calls: u64, pause: Duration) -> bool {
        let mut state = self.state.lock();
        if !self.closing() && state.calls == calls {
            self.work.wait_for(&mut state, pause);
        }
        state.calls == calls
    }

    /// Tells everybody to stop: running jobs give up, waiting writers fail.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        drop(self.state.lock());
        self.work.notify_all();
        self.progress.notify_all();
    }

    /// Waits until no job is under way that somebody's call has begun; there are no threads, and
    /// jobs give up at a close.
    pub(crate) fn wait_for_callers(&self) {
        let mut state = self.state.lock();
        while state.flushing || state.sparing || state.compactions > 0 || self.victim() != NO_VICTIM
        {
            self.progress.wait_for(&mut state, CALLER_LOOK);
        }
    }

    pub(crate) fn last_error(&self) -> Option<Error> {
        self.state.lock().last_error.clone()
    }

    /// What is under way.
    pub(crate) fn lock(&self) -> MutexGuard<'_, JobState> {
        self.state.lock()
    }

    /// A job has finished: `change` takes it off the list of what is under way.
    pub(crate) fn finish(&self, result: &Result<()>, change: impl FnOnce(&mut JobState)) {
        let mut state = self.state.lock();
        change(&mut state);
        match result {
            // A job that failed is no call: its thread would not wait before it tries again.
            Ok(()) => (state.last_error, state.calls) = (None, state.calls + 1),
            Err(e) if e.kind() == ErrorKind::Closed => {}
            Err(e) => state.last_error = Some(e.clone()),
        }
        drop(state);
        self.work.notify_all();
        self.progress.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// A call that came between a look and the sleep was lost: the flush waited for the next look.
    #[test]
    fn a_call_during_a_look_is_heard() {
        let (jobs, start) = (Jobs::default(), Instant::now());
        let calls = jobs.calls();
        jobs.kick();
        jobs.wait_for_work(calls, Duration::from_secs(60));
        jobs.finish(&Ok(()), |_| {});
        jobs.wait_for_work(calls + 1, Duration::from_secs(60));
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
