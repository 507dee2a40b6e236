//! What background work is under way, and how threads hear of each other's progress.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cleavedb_base::sync::{Condvar, Mutex, MutexGuard};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result, SeqNo};
use cleavedb_index::compaction::Constraints;
use cleavedb_storage::log::LogFile;
use cleavedb_values::GroupId;

use crate::failures::{Failure, Failures, JobKind};
use crate::poison::Poison;
use crate::survivors::Survivors;

/// Where a collection met a damaged record, or a compaction a damaged block: it is not tried again
/// before the next open, since it would block all others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Damaged {
    pub(crate) files: BTreeSet<FileNumber>,
    pub(crate) groups: BTreeSet<GroupId>,
    /// What was met last.
    pub(crate) last: Option<Error>,
}

/// What is under way.
#[derive(Default)]
pub(crate) struct JobState {
    pub(crate) flushing: bool,
    pub(crate) preallocating: bool,
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
    /// What collections wrote, and need not look at again soon.
    pub(crate) survivors: Survivors,
    /// What failed, and was not done since.
    pub(crate) failures: Failures,
    /// Jobs that have ended, and things that were given back.
    ended: u64,
    /// How often somebody has asked to look for work.
    wakeups: u64,
    /// How often somebody had, before the last look that found no job of a kind to be due.
    looked: BTreeMap<JobKind, u64>,
}

impl JobState {
    /// Number of tables, files and groups that are left alone because they are damaged.
    pub(crate) fn left_alone(&self) -> usize {
        self.constraints.damaged.len() + self.damaged.files.len() + self.damaged.groups.len()
    }

    /// Whether no job is under way.
    pub(crate) fn is_idle(&self) -> bool {
        !self.flushing
            && !self.preallocating
            && self.compactions == 0
            && self.giving_back == 0
            && self.constraints.pinned_above.is_none()
    }

    /// What has happened so far.
    pub(crate) fn moves(&self) -> Moves {
        Moves { wakeups: self.wakeups, ended: self.ended }
    }

    /// Something was given back.
    pub(crate) fn gave_back(&mut self) {
        self.giving_back -= 1;
        self.ended += 1;
    }

    /// Whether nobody will do anything for who waits since there were `calls`: no job is under way,
    /// none is due, and none that writers wait for has failed and will be tried again.
    pub(crate) fn is_over(&self, wakeups: u64) -> bool {
        self.wakeups >= wakeups
            && self.is_idle()
            && JobKind::AWAITED.iter().all(|k| self.is_idle_of(*k))
    }

    /// Whether nothing is under way, nor has ended since so many jobs had `ended`: then a look that
    /// began at that time and found nothing due is to be believed. What ends may make others due.
    pub(crate) fn nothing_ended_since(&self, ended: u64) -> bool {
        self.is_idle() && (self.ended == ended || planted(Bug::SettleOverlooksJobs))
    }

    /// Whether the last look for jobs of `kind` found none, and nobody has asked for another.
    fn is_idle_of(&self, kind: JobKind) -> bool {
        self.looked.get(&kind) == Some(&self.wakeups)
    }
}

/// What has happened up to a moment: if that does not change, nobody has done anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moves {
    /// How often somebody has asked to look for work.
    pub(crate) wakeups: u64,
    /// Jobs that have ended, and things that were given back.
    pub(crate) ended: u64,
}

/// Most bytes that a job may write so that a close waits for its end, a tenth of a second or so:
/// where each session is shorter than its jobs nothing would ever come of them, and each would
/// leave a table and a value file for good.
pub(crate) const SHORT: u64 = 32 << 20;

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
    /// What short jobs look at in its place; never set.
    going_on: AtomicBool,
    /// Number of the file that a running collection reads, which nobody else may drop; 0 for none.
    /// Changed under the manifest's lock.
    victim: AtomicU64,
    seq_limit: AtomicU64,
    /// Log files begun since the open, until a flush has passed them.
    pub(crate) log_files: Mutex<Vec<(FileNumber, Arc<LogFile>)>>,
}

impl Jobs {
    /// Set once a job that may write so many bytes must give up, since the database is closing: it
    /// looks at it now and then.
    pub(crate) fn gives_up(&self, bytes: u64) -> &AtomicBool {
        if bytes <= SHORT { &self.going_on } else { &self.closing }
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

    /// Wakes the threads to look for work. Returns how often somebody has asked for it by now.
    pub(crate) fn wake(&self) -> u64 {
        let mut state = self.state.lock();
        state.wakeups += 1;
        let wakeups = state.wakeups;
        drop(state);
        self.work.notify_all();
        wakeups
    }

    /// How often somebody has asked to look for work: to be taken before the look.
    pub(crate) fn wakeups(&self) -> u64 {
        self.state.lock().wakeups
    }

    /// Sleeps until somebody asks for work, for `pause` at most; not at all if somebody has asked
    /// since there were `calls`, which a thread that was still looking would have missed. Returns
    /// whether nobody has asked.
    pub(crate) fn wait_for_work(&self, wakeups: u64, pause: Duration) -> bool {
        let mut state = self.state.lock();
        if !self.closing() && state.wakeups == wakeups {
            self.work.wait_for(&mut state, pause);
        }
        state.wakeups == wakeups
    }

    /// Has all who wait look again, also those that are about to wait.
    pub(crate) fn wake_waiters(&self) {
        drop(self.state.lock());
        self.progress.notify_all();
    }

    /// Tells everybody to stop: running jobs give up, waiting writers fail.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        drop(self.state.lock());
        self.work.notify_all();
        self.progress.notify_all();
    }

    /// Waits until no job is under way that somebody's call has begun, at a close: there are no
    /// threads any more. Not if a failure has ended all jobs.
    pub(crate) fn wait_for_callers(&self, poison: &Poison) {
        let mut state = self.state.lock();
        while !state.is_idle() && poison.check().is_ok() {
            self.progress.wait_for(&mut state, CALLER_LOOK);
        }
    }

    /// The calls so far, to be taken before a look for jobs, and the kinds of jobs that have failed
    /// and pause.
    pub(crate) fn begin_look(&self) -> (u64, Vec<(JobKind, Error)>) {
        let state = self.state.lock();
        (state.wakeups, state.failures.pausing(state.wakeups))
    }

    /// A look that began when there were `calls` found no job of `kinds` to be due.
    pub(crate) fn found_nothing(&self, kinds: &[JobKind], wakeups: u64) {
        let mut state = self.state.lock();
        let new = |kind: &&JobKind| state.looked.get(*kind) != Some(&wakeups);
        let new: Vec<JobKind> = kinds.iter().filter(new).copied().collect();
        if !new.is_empty() {
            state.looked.extend(new.into_iter().map(|kind| (kind, wakeups)));
            drop(state);
            self.progress.notify_all();
        }
    }

    /// Whether a job has failed for want of space.
    pub(crate) fn lacks_space(&self) -> bool {
        let state = self.state.lock();
        let full = |(_, failure): (JobKind, &Failure)| failure.error.kind() == ErrorKind::NoSpace;
        state.failures.iter().any(full)
    }

    /// What failed last of jobs of `kind`, if none has succeeded since.
    pub(crate) fn failure(&self, kind: JobKind) -> Option<Failure> {
        self.state.lock().failures.of(kind).cloned()
    }

    /// What is under way.
    pub(crate) fn lock(&self) -> MutexGuard<'_, JobState> {
        self.state.lock()
    }

    /// A job of `kind` has finished: `change` takes it off the list of what is under way.
    pub(crate) fn finish(
        &self,
        kind: JobKind,
        result: &Result<()>,
        change: impl FnOnce(&mut JobState),
    ) {
        let mut state = self.state.lock();
        change(&mut state);
        state.ended += 1;
        match result {
            Ok(()) => {
                state.failures.succeeded(kind);
                state.wakeups += 1;
            }
            Err(e) if e.kind() == ErrorKind::Closed => {}
            // What is damaged is left alone from now on: there is nothing to try again.
            Err(e) if e.kind() == ErrorKind::Corruption && kind.leaves_damage_alone() => {
                state.damaged.last = Some(e.clone());
                state.wakeups += 1;
            }
            // A job that failed is no call: its thread would not wait before it tries again.
            Err(e) => {
                let wakeups = state.wakeups;
                state.failures.failed(kind, e, wakeups);
            }
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
        let wakeups = jobs.wakeups();
        jobs.wake();
        jobs.wait_for_work(wakeups, Duration::from_secs(60));
        jobs.finish(JobKind::Flush, &Ok(()), |_| {});
        jobs.wait_for_work(wakeups + 1, Duration::from_secs(60));
        assert!(start.elapsed() < Duration::from_secs(60));
    }

    /// A settle ended at a look that found nothing, although a compaction that had been under way
    /// ended behind it and made the next level due: a put was told that its limit is reached.
    #[test]
    fn a_look_before_the_end_of_a_job_is_none() {
        let jobs = Jobs::default();
        jobs.lock().compactions += 1;
        let ended = jobs.lock().moves().ended;
        jobs.finish(JobKind::Compact, &Ok(()), |state| state.compactions -= 1);
        assert!(jobs.lock().is_idle() && !jobs.lock().nothing_ended_since(ended));
        let ended = jobs.lock().moves().ended;
        jobs.wake();
        assert!(jobs.lock().nothing_ended_since(ended), "that somebody asks for work makes none");
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn planted_look_before_the_end_of_a_job() {
        let look = a_look_before_the_end_of_a_job_is_none;
        cleavedb_base::planted::must_notice(Bug::SettleOverlooksJobs, look);
    }
}
