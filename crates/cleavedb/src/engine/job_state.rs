//! The background work under way, and how threads wake each other when it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cleavedb_base::sync::{Condvar, Mutex, MutexGuard};
use cleavedb_base::{Error, ErrorKind, FileNumber, Location, Result, SeqNo};
use cleavedb_index::compaction::Constraints;
use cleavedb_storage::FileKind;
use cleavedb_storage::log::LogFile;
use cleavedb_values::GroupId;

use crate::control::failures::{Failures, JobKind, LastFailure};
use crate::control::poison::Poison;
use crate::engine::blobs::LoneFiles;
use crate::settings::crew::Bell;
use crate::store::survivors::Survivors;

/// Value files and groups in which a collection met a damaged record; the damaged tables of
/// compactions are in [`Constraints`]. No job tries any of them again before the next open, since
/// that would block all other jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Damaged {
    pub(crate) files: BTreeSet<FileNumber>,
    pub(crate) groups: BTreeSet<GroupId>,
    /// Extents apart that were to be emptied by a flush that met damage, those that an open could
    /// not read to their ends, and older ones than the latter.
    pub(crate) extents: BTreeSet<Location>,
    /// Why the open could not read such an extent, so that the newest version of a key may be lost.
    pub(crate) lost: Option<Error>,
    /// The last error of damage that a collection or a compaction met.
    pub(crate) last: Option<Error>,
}

/// Files and extents that callers want gone, with what they hold of deleted keys. Numbers and
/// places are never used again, so that those that went do no harm here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WantedGone {
    pub(crate) files: BTreeSet<FileNumber>,
    pub(crate) extents: BTreeSet<Location>,
}

impl WantedGone {
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.extents.is_empty()
    }

    /// Adds what another caller wants.
    pub(crate) fn add(&mut self, other: &Self) {
        self.files.extend(&other.files);
        self.extents.extend(&other.extents);
    }

    /// Removes what went, or what its caller gives up.
    pub(crate) fn remove(&mut self, other: &Self) {
        self.files.retain(|file| !other.files.contains(file));
        self.extents.retain(|place| !other.extents.contains(place));
    }
}

/// A bulk load under way.
#[derive(Default)]
pub(crate) struct LoadUnderWay {
    /// What it has created: a close or a failure removes it.
    pub(crate) files: Vec<(FileKind, FileNumber)>,
    /// Whether it waits for the end of a flush, to begin groups: no other flush begins before.
    begins_groups: bool,
    /// Whether it is being published: a close waits for its end.
    pub(crate) finishing: bool,
}

/// The collections of values at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Collections {
    /// Whether one is under way.
    pub(crate) under_way: bool,
    /// Number of those that have begun since the open.
    pub(crate) begun: u64,
}

impl Collections {
    /// Whether one was under way at some time from `before` until now.
    pub(crate) fn ran_since(self, before: Self) -> bool {
        before.under_way || self.begun != before.begun
    }
}

/// The jobs under way, and what is known for the choice of the next ones.
#[derive(Default)]
pub(crate) struct JobState {
    pub(crate) flushing: bool,
    pub(crate) preallocating: bool,
    /// Tables that compactions read, and the epoch at which a running collection fixed its inputs:
    /// its run of new pointers will enter level 0 there, so younger runs must stay above.
    pub(crate) constraints: Constraints,
    pub(crate) compactions: usize,
    /// Collections that have begun since the open: see [`JobState::collections`].
    pub(crate) collections_begun: u64,
    /// While a collection runs: of what it writes, range tombstones up to this number cover
    /// nothing.
    pub(crate) collection_applies: Option<SeqNo>,
    /// Number of threads that remove files or punch holes.
    pub(crate) giving_back: usize,
    /// Files and groups that cannot be collected.
    pub(crate) damaged: Damaged,
    /// A group whose split a flush has prevented: no flush begins until the split was tried again.
    pub(crate) split_waits: Option<GroupId>,
    /// Whether groups are collected one at a time, since the disk had no room for several.
    pub(crate) collect_alone: bool,
    /// Files up to this number are collected even if the space goal is met, since a caller asked
    /// for it.
    pub(crate) forced: Option<FileNumber>,
    /// Files and extents that are collected because a caller wants each of them gone.
    pub(crate) wanted: WantedGone,
    /// Of each caller that wants the dead records of stores apart gone: the last file whose extents
    /// leave.
    pub(crate) leaving: Vec<FileNumber>,
    /// The bulk load under way. No group is begun, split or merged meanwhile but by the load.
    pub(crate) load: Option<LoadUnderWay>,
    /// Files that collections wrote, which need not be collected again soon.
    pub(crate) survivors: Survivors,
    /// The last failure of each kind of job that has not succeeded since.
    pub(crate) failures: Failures,
    /// Number of jobs that have ended, and of files and ranges that were given back.
    ended: u64,
    /// Number of requests to look for work.
    wakeups: u64,
    /// By kind of job: the value of `wakeups` at the last look that found no job of the kind to be
    /// due.
    looked: BTreeMap<JobKind, u64>,
}

impl JobState {
    /// Number of tables, files and groups that are left alone because they are damaged.
    pub(crate) fn left_alone(&self) -> usize {
        let Damaged { files, groups, extents, .. } = &self.damaged;
        self.constraints.damaged.len() + files.len() + groups.len() + extents.len()
    }

    /// The collections of now.
    pub(crate) fn collections(&self) -> Collections {
        let under_way = self.constraints.pinned_above.is_some();
        Collections { under_way, begun: self.collections_begun }
    }

    /// Whether no job is under way, and no load that flushes wait for.
    pub(crate) fn is_idle(&self) -> bool {
        !self.flushing
            && !self.preallocating
            && self.compactions == 0
            && self.giving_back == 0
            && self.constraints.pinned_above.is_none()
            && !self.load_begins_groups()
    }

    /// Whether a load begins groups now, or waits to do so: no flush begins meanwhile.
    pub(crate) fn load_begins_groups(&self) -> bool {
        self.load.as_ref().is_some_and(|load| load.begins_groups)
    }

    /// Notes that the load begins groups, or that it has: a flush may be due from then on.
    pub(crate) fn set_load_begins_groups(&mut self, begins: bool) {
        self.load.iter_mut().for_each(|load| load.begins_groups = begins);
        self.ended += u64::from(!begins);
    }

    /// The counts of requests and of ended jobs so far.
    pub(crate) fn moves(&self) -> Moves {
        Moves { wakeups: self.wakeups, ended: self.ended }
    }

    /// Counts a file or range that was given back.
    pub(crate) fn gave_back(&mut self) {
        self.giving_back -= 1;
        self.ended += 1;
    }

    /// Whether waiting is pointless after request `wakeups`: no job is under way, and of each kind
    /// that writers wait for none is due, or the last one has failed for good. A job that fails on
    /// a full disk is retried for ever, also when the caller waits for one of another kind.
    pub(crate) fn is_over(&self, wakeups: u64) -> bool {
        let waits_for_retries = planted(Bug::WaitsForRetriesOfOthers);
        let fails = |kind| self.failures.of(kind).is_some_and(LastFailure::is_lasting);
        let is_over = |kind| self.is_idle_of(kind) || (fails(kind) && !waits_for_retries);
        self.wakeups >= wakeups && self.is_idle() && JobKind::AWAITED.into_iter().all(is_over)
    }

    /// The error of a job that writers wait for and that fails for good, if there is one.
    pub(crate) fn lasting_error(&self) -> Option<&Error> {
        let mut failures = JobKind::AWAITED.into_iter().filter_map(|kind| self.failures.of(kind));
        failures.find(|failure| failure.is_lasting()).map(|failure| &failure.error)
    }

    /// Whether no job is under way, and none has ended since the count was `ended`. Only then is a
    /// look that began at that count, and found nothing due, conclusive: a job that ends may make
    /// others due.
    pub(crate) fn nothing_ended_since(&self, ended: u64) -> bool {
        self.is_idle() && (self.ended == ended || planted(Bug::SettleOverlooksJobs))
    }

    /// Whether the last look for jobs of `kind` found none, with no request for work since.
    fn is_idle_of(&self, kind: JobKind) -> bool {
        self.looked.get(&kind) == Some(&self.wakeups)
    }
}

/// Counts as of one moment: as long as they stay equal, no thread has done or requested any work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moves {
    /// Number of requests to look for work.
    pub(crate) wakeups: u64,
    /// Number of jobs that have ended, and of files and ranges that were given back.
    pub(crate) ended: u64,
}

/// Most bytes of a short job: a close waits for its end, which takes about a tenth of a second. If
/// a database were always closed before its jobs end, they would never succeed, and each would
/// leave a table and a value file for good.
pub(crate) const SHORT: u64 = 32 << 20;

/// Interval at which a close checks whether the jobs of callers have ended.
const CALLER_LOOK: Duration = Duration::from_millis(10);

/// The jobs of one database.
#[derive(Default)]
pub(crate) struct Jobs {
    state: Mutex<JobState>,
    /// Signalled when a thread should look for work.
    work: Condvar,
    /// Signalled when a job has ended.
    pub(crate) progress: Condvar,
    /// Rings for the threads that this database shares with others.
    pub(crate) bell: OnceLock<Bell>,
    closing: AtomicBool,
    /// The flag that short jobs get instead of `closing`; never set.
    going_on: AtomicBool,
    /// Number of the file that a running collection reads, which only the collection may drop; 0
    /// for none. Changed under the manifest's lock.
    victim: AtomicU64,
    seq_limit: AtomicU64,
    /// Log files begun since the open, until a flush has passed them.
    pub(crate) log_files: Mutex<Vec<(FileNumber, Arc<LogFile>)>>,
    /// Value files with one value each, of which compactions drop those that are hidden.
    pub(crate) lone_files: LoneFiles,
}

impl Jobs {
    /// The flag at which a job that may write `bytes` looks now and then: once it is set, the job
    /// must give up, since the database is closing.
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

    /// Requests work: wakes the threads. Returns the number of requests with this one.
    pub(crate) fn wake(&self) -> u64 {
        let mut state = self.state.lock();
        state.wakeups += 1;
        let wakeups = state.wakeups;
        drop(state);
        self.call_threads();
        wakeups
    }

    /// Has threads look for work.
    fn call_threads(&self) {
        self.work.notify_all();
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
    }

    /// Number of requests for work so far. A thread must read it before it looks for work.
    pub(crate) fn wakeups(&self) -> u64 {
        self.state.lock().wakeups
    }

    /// Sleeps until the next request for work, for `pause` at most. Returns at once if there was a
    /// request since the count was `wakeups`, which a thread that was still looking would have
    /// missed. Returns whether there was none.
    pub(crate) fn wait_for_work(&self, wakeups: u64, pause: Duration) -> bool {
        let mut state = self.state.lock();
        if !self.closing() && state.wakeups == wakeups {
            self.work.wait_for(&mut state, pause);
        }
        state.wakeups == wakeups
    }

    /// Makes all waiting callers look again, including those that are about to wait.
    pub(crate) fn wake_waiters(&self) {
        drop(self.state.lock());
        self.progress.notify_all();
    }

    /// Tells all threads and callers to stop: running jobs give up, waiting writers fail.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        drop(self.state.lock());
        self.work.notify_all();
        self.progress.notify_all();
    }

    /// At a close, after the threads have ended: waits until no job that a caller runs is under
    /// way. Returns early if the database is poisoned, since a poisoned job may never end.
    pub(crate) fn wait_for_callers(&self, poison: &Poison) {
        let mut state = self.state.lock();
        let publishes = |state: &JobState| state.load.as_ref().is_some_and(|load| load.finishing);
        while (!state.is_idle() || publishes(&state)) && poison.check().is_ok() {
            self.progress.wait_for(&mut state, CALLER_LOOK);
        }
    }

    /// Begins a look for jobs: returns the number of requests so far, and the kinds of jobs that
    /// have failed and must not be tried again yet.
    pub(crate) fn begin_look(&self) -> (u64, Vec<(JobKind, Error)>) {
        let state = self.state.lock();
        (state.wakeups, state.failures.pausing(state.wakeups))
    }

    /// Records that a look that began at `wakeups` requests found no job of `kinds` to be due.
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
        let full =
            |(_, failure): (JobKind, &LastFailure)| failure.error.kind() == ErrorKind::NoSpace;
        state.failures.iter().any(full)
    }

    /// The last failure of jobs of `kind`, if none has succeeded since.
    pub(crate) fn failure(&self, kind: JobKind) -> Option<LastFailure> {
        self.state.lock().failures.of(kind).cloned()
    }

    /// Locks the state of the jobs.
    pub(crate) fn lock(&self) -> MutexGuard<'_, JobState> {
        self.state.lock()
    }

    /// Records the end of a job of `kind`: `change` marks it as no longer under way.
    pub(crate) fn finish(
        &self,
        kind: JobKind,
        result: &Result<()>,
        change: impl FnOnce(&mut JobState),
    ) {
        let mut state = self.state.lock();
        let left_alone = state.left_alone();
        change(&mut state);
        let leaves_alone = kind.leaves_damage_alone() || state.left_alone() > left_alone;
        state.ended += 1;
        match result {
            Ok(()) => {
                state.failures.succeeded(kind);
                state.wakeups += 1;
            }
            Err(e) if e.kind() == ErrorKind::Closed => {}
            // The damaged file is left alone from now on, so another job may be due at once.
            Err(e) if e.kind() == ErrorKind::Corruption && leaves_alone => {
                state.damaged.last = Some(e.clone());
                state.wakeups += 1;
            }
            // The failure of a job is no request for work: its thread would try again without a
            // pause.
            Err(e) => {
                let wakeups = state.wakeups;
                state.failures.failed(kind, e, wakeups);
            }
        }
        drop(state);
        self.call_threads();
        self.progress.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// A regression: a collection that ended during the compaction of a range was overlooked, if it
    /// had published its run after the last look at the index.
    #[test]
    fn a_collection_counts_that_has_ended_since() {
        let mut state = JobState::default();
        let before = state.collections();
        assert!(!state.collections().ran_since(before));
        (state.constraints.pinned_above, state.collections_begun) = (Some(3), 1);
        let during = state.collections();
        assert!(during.ran_since(before), "one has begun");
        state.constraints.pinned_above = None;
        assert!(state.collections().ran_since(before), "one has begun and ended");
        assert!(state.collections().ran_since(during), "one was under way, and has ended");
        let after = state.collections();
        assert!(!state.collections().ran_since(after));
    }

    /// A regression: a writer that waited for a flush was told that none is due, while a bulk load
    /// held it up; and a look during the load was taken for one after it.
    #[test]
    fn a_flush_that_a_load_holds_up_is_waited_for() {
        let jobs = Jobs::default();
        jobs.lock().load = Some(LoadUnderWay::default());
        let ended = jobs.lock().moves().ended;
        jobs.lock().set_load_begins_groups(true);
        jobs.found_nothing(&JobKind::ALL, 0);
        assert!(!jobs.lock().is_over(0));
        jobs.lock().set_load_begins_groups(false);
        assert!(!jobs.lock().nothing_ended_since(ended));
        assert!(jobs.lock().is_over(0), "the next look finds it due");
    }

    /// A regression: a request between a look and the sleep was lost, and the flush waited for the
    /// next look.
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

    /// A regression: a wait for all jobs ended at a look that found nothing, although a compaction
    /// under way ended after it and made the next level due. A put then got the error that the
    /// space limit is reached.
    #[test]
    fn a_look_before_the_end_of_a_job_is_none() {
        let jobs = Jobs::default();
        jobs.lock().compactions += 1;
        let ended = jobs.lock().moves().ended;
        jobs.finish(JobKind::Compact, &Ok(()), |state| state.compactions -= 1);
        assert!(jobs.lock().is_idle() && !jobs.lock().nothing_ended_since(ended));
        let ended = jobs.lock().moves().ended;
        jobs.wake();
        assert!(jobs.lock().nothing_ended_since(ended), "a request for work makes no job due");
    }

    /// A regression: on a full disk a write waited for ever. It waited for a compaction, of which
    /// none was due that had room, while a collection failed for want of space and was retried
    /// without end.
    #[test]
    fn a_wait_ends_although_a_job_of_another_kind_is_retried() {
        let jobs = Jobs::default();
        let wakeups = jobs.wake();
        let full = Error::new(ErrorKind::NoSpace, "the disk is full");
        jobs.finish(JobKind::Collect, &Err(full), |_| {});
        assert!(!jobs.lock().is_over(wakeups), "of two kinds it is not known whether one is due");
        jobs.found_nothing(&[JobKind::Flush, JobKind::Compact], wakeups);
        assert!(jobs.lock().is_over(wakeups));
        assert!(jobs.lock().lasting_error().is_some_and(|e| e.kind() == ErrorKind::NoSpace));
        jobs.lock().failures.forgive();
        assert!(!jobs.lock().is_over(wakeups) && jobs.lock().lasting_error().is_none());
    }

    #[cfg(feature = "test-planted-bugs")]
    #[test]
    fn planted_wait_for_retries_of_another_kind() {
        let wait = a_wait_ends_although_a_job_of_another_kind_is_retried;
        cleavedb_base::planted::must_notice(Bug::WaitsForRetriesOfOthers, wait);
    }

    #[cfg(feature = "test-planted-bugs")]
    #[test]
    fn planted_look_before_the_end_of_a_job() {
        let look = a_look_before_the_end_of_a_job_is_none;
        cleavedb_base::planted::must_notice(Bug::SettleOverlooksJobs, look);
    }
}
