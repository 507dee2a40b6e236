//! Background jobs: who may run next, and the threads that run them.
//!
//! Each kind of job is prepare (locked, decides from a picture), run (unlocked, writes new files)
//! and finish (locked, one manifest edit). What may run next is decided in one place,
//! [`Engine::run_one`]; threads call it in production, `Db::step` and waiting writers call it when
//! there are no threads, so a test can replay any schedule.

mod panic_guard;
mod deaths;
mod compaction;
mod new_files;
mod grouping;
mod flush;
mod liveness;
mod victims;
mod collection;
mod group_collection;
mod threads;

use std::time::Duration;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_index::{Version, VersionEdit};
use cleavedb_storage::{Name, Pace, Reaper, Storage};

pub(crate) use threads::Threads;

use panic_guard::PanicGuard;

use crate::engine::Engine;
use crate::failures::{Failure, JobKind};
use crate::jobs::{Damaged, JobState};
use crate::manifest::LiveFiles;
use crate::metrics::StallCause;
use crate::options::Background;
use crate::throttle::Pressure;
use crate::vain::Survivors;

/// Looks in a row that find nothing to do, of all threads or of a caller that works by itself, and
/// during which no job ends, before who waits is told so.
const LOOKS: usize = 10;

/// Which job may begin.
#[derive(Clone, Copy)]
enum Begin {
    /// Whatever is due, while the database is open.
    Open,
    /// What is short ([`crate::jobs::SHORT`]), at a close that has ended all other jobs.
    AtClose,
}

/// Looks that found nothing to do, since a job has ended.
#[derive(Default)]
struct VainLooks {
    count: usize,
    /// Jobs that had ended at the last one.
    ended: u64,
}

impl VainLooks {
    /// Counts one more, when so many jobs had `ended`. Others who have done something may do more:
    /// what one waits for may take many jobs of theirs.
    fn count(&mut self, ended: u64) -> usize {
        let goes_on = self.ended == ended || planted(Bug::LooksAddUp);
        *self = Self { count: if goes_on { self.count + 1 } else { 1 }, ended };
        self.count
    }
}

/// How often who waits looks again by itself.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How much writers are slowed down at most if they are not stopped.
const SLOWED: f64 = 0.99;

/// Dead files, in tables of full length, from which on they are removed without rests: more than
/// one compaction makes (`docs/decisions/0020-neighbours-go-down-together.md`).
const DEAD_TABLES_MAX: u64 = 32;

impl Engine {
    /// Runs one job of the given kinds, if one is due: `Ok(true)` if a job ran. One that fails
    /// keeps no other from running, which may be what it needs; its error comes back if none ran.
    pub(crate) fn run_one(&self, kinds: &[JobKind]) -> Result<bool> {
        let (calls, pausing) = self.jobs.begin_look();
        let manual = self.options.background == Background::Manual;
        let (mut failed, mut idle) = (Ok(false), Vec::new());
        for kind in kinds {
            let pause = pausing.iter().find(|(pausing, _)| pausing == kind && !manual);
            let ran = match pause {
                Some((_, error)) => Err(error.clone()),
                None => self.run_job(*kind),
            };
            match ran {
                Ok(true) => return Ok(true),
                Ok(false) => idle.push(*kind),
                Err(e) => {
                    if self.check_open().is_err() || planted(Bug::FailureEndsTheLook) {
                        return Err(e);
                    }
                    failed = failed.and(Err(e));
                }
            }
        }
        self.jobs.found_nothing(&idle, calls);
        failed
    }

    /// Runs a job of one kind, if one is due; on a full disk not before all is given back that was
    /// freed.
    fn run_job(&self, kind: JobKind) -> Result<bool> {
        let _guard = PanicGuard(self);
        let frees = matches!(kind, JobKind::Flush | JobKind::Compact | JobKind::Collect);
        if frees && self.is_full() {
            self.reap();
        }
        match kind {
            JobKind::Flush => self.run_flush(),
            JobKind::Spare => self.run_spare(),
            JobKind::Compact => self.run_compaction(),
            JobKind::Collect => self.run_collection(),
            JobKind::Remove => Ok(self.run_remove()),
            JobKind::Punch => Ok(self.run_punch()),
        }
    }

    /// Does what is due and short, at a close that has flushed and ended all jobs: where no session
    /// lasts as long as its jobs, each would leave a table and a value file for good. A job that
    /// was too long to end, and gave up, may have had the same tables: it is over by now. One that
    /// fails is due again.
    pub(crate) fn tidy(&self) {
        let _guard = PanicGuard(self);
        if self.limit.is_none() && !self.is_full() {
            let _ = self.compact_shortly();
            let _ = self.collect_chosen(Begin::AtClose);
        }
    }

    /// Fails if no job may begin; asked under the lock under which it begins.
    fn check_begin(&self, begin: Begin) -> Result<()> {
        match begin {
            Begin::Open => self.check_open(),
            Begin::AtClose => self.poison.check(),
        }
    }

    /// Gives back all that no reader can reach; for an open and a close, when there is nobody to be
    /// spared, and on a full disk. Returns whether there was anything.
    pub(crate) fn reap(&self) -> bool {
        let mut any = false;
        while self.run_punch() || self.remove_next(Reaper::take_name, Pace::Swift) {
            any = true;
        }
        any
    }

    /// Removes gently, unless the space is wanted or removal has fallen behind; and no log while
    /// the next log file is due, which may take its place.
    fn run_remove(&self) -> bool {
        let wanted = self.jobs.lacks_space() || self.is_near_limit() || self.jobs.closing();
        if !wanted && self.keeps_logs() {
            return self.remove_next(Reaper::take_other, Pace::Gentle);
        }
        let behind =
            self.reaper.dead_bytes() > DEAD_TABLES_MAX.saturating_mul(self.options.table_bytes);
        let pace = if wanted || behind { Pace::Swift } else { Pace::Gentle };
        self.remove_next(Reaper::take_name, pace)
    }

    /// Removes a file that no reader can reach any more.
    fn remove_next(&self, take: fn(&Reaper) -> Option<Name>, pace: Pace) -> bool {
        self.give_back_taken(
            || take(&self.reaper),
            |name| {
                // A file that cannot be removed now is an orphan, which the next open removes.
                if self.storage.remove(&name, pace).is_ok() {
                    self.counters.files_removed.add(1);
                }
            },
        )
    }

    /// Punches the ranges that no reader can reach any more.
    fn run_punch(&self) -> bool {
        let take = || Some(self.reaper.take_holes()).filter(|holes| !holes.is_empty());
        self.give_back_taken(take, |holes| holes.into_iter().for_each(|hole| self.punch(hole)))
    }

    /// Takes something from the reaper, and gives it back; not after a failure, when nothing is
    /// removed any more. Returns whether there was anything.
    fn give_back_taken<T>(&self, take: impl FnOnce() -> Option<T>, give: impl FnOnce(T)) -> bool {
        if self.poison.check().is_err() {
            return false;
        }
        let taken = {
            let mut state = self.jobs.lock();
            let Some(taken) = take() else { return false };
            // Under one lock: who waits for all work must see it in one place or the other.
            state.giving_back += 1;
            taken
        };
        give(taken);
        if self.limit.is_some() {
            self.update_pressure();
        }
        self.take_back();
        self.jobs.lock().gave_back();
        // What is gone makes no work, but below a limit jobs may have waited for it.
        if self.limit.is_some() {
            self.jobs.kick();
        }
        self.jobs.progress.notify_all();
        true
    }

    /// Waits until `done`, for jobs of the kinds that `awaited` names; runs jobs in this thread if
    /// there are no others. Fails if these fail, and go on to; and, with [`ErrorKind::Stalled`], if
    /// nothing is under way or due that could make it true.
    pub(crate) fn wait_or_work(
        &self,
        done: impl Fn() -> bool,
        awaited: impl Fn() -> Option<JobKind>,
    ) -> Result<()> {
        if self.options.background == Background::Manual {
            let mut looks = VainLooks::default();
            while !done() {
                self.check_open()?;
                let (before, left_alone) = {
                    let state = self.jobs.lock();
                    (state.moves(), state.left_alone())
                };
                match self.run_one(&JobKind::ALL) {
                    Ok(false) if self.waits_for_others() => {}
                    Ok(false) if self.is_stalled(&done) => {
                        // Another caller may have done some work, or made some, during the look.
                        let moves = self.jobs.lock().moves();
                        if looks.count(moves.ended) >= LOOKS || moves == before {
                            return Err(stalled());
                        }
                    }
                    // What was found to be damaged is in nobody's way any more.
                    Err(e) if self.jobs.lock().left_alone() == left_alone => return Err(e),
                    _ => {}
                }
            }
            return Ok(());
        }
        if done() {
            return Ok(());
        }
        let (mut calls, mut looks) = (self.jobs.kick(), VainLooks::default());
        loop {
            let mut state = self.jobs.lock();
            if done() {
                return Ok(());
            }
            self.check_open()?;
            // What will not get better by waiting is the writer's to know.
            let failure = awaited().and_then(|kind| state.failures.of(kind));
            // A close does not wait for another try: the log keeps what was not flushed.
            let is_final = |failure: &&Failure| failure.is_lasting() || self.gate.is_closed();
            if let Some(failure) = failure.filter(is_final) {
                return Err(failure.error.clone());
            }
            if !state.is_over(calls) {
                self.jobs.progress.wait_for(&mut state, RETRY_AFTER);
                continue;
            }
            drop(state);
            // A flush, or the end of a snapshot, may have come behind the look: all look again.
            if self.is_stalled(&done) {
                if looks.count(self.jobs.lock().moves().ended) >= LOOKS {
                    return Err(stalled());
                }
                calls = self.jobs.kick();
            }
        }
    }

    /// Waits a while for jobs that others run, if there are any.
    pub(crate) fn waits_for_others(&self) -> bool {
        let mut state = self.jobs.lock();
        let others = !state.is_idle();
        if others {
            self.jobs.progress.wait_for(&mut state, RETRY_AFTER);
        }
        others
    }

    /// Whether who waits until `done` waits for nothing, now that no job is under way or due: what
    /// slows writers down is looked at once more.
    fn is_stalled(&self, done: impl Fn() -> bool) -> bool {
        self.update_pressure();
        // Others may wait for the same.
        self.jobs.progress.notify_all();
        !done()
    }

    /// Works, or waits for the threads, until no job is due.
    pub(crate) fn settle(&self) -> Result<()> {
        self.settle_while(&|| true)
    }

    /// The same for as long as it is `wanted`: while others write there may always be a job.
    pub(crate) fn settle_while(&self, wanted: &dyn Fn() -> bool) -> Result<()> {
        self.jobs.lock().failures.forgive();
        if self.options.background == Background::Manual {
            while wanted() && self.run_one(&JobKind::ALL)? {}
            return Ok(());
        }
        // The caller's thread is as good as any other; what others run, it waits for.
        while wanted() {
            self.check_open()?;
            let ended = self.jobs.lock().moves().ended;
            if self.run_one(&JobKind::ALL)? {
                continue;
            }
            let mut state = self.jobs.lock();
            if state.nothing_ended_since(ended) {
                break;
            }
            if !state.is_idle() {
                self.jobs.progress.wait_for(&mut state, RETRY_AFTER);
            }
        }
        Ok(())
    }

    /// Opens the tables that a job has published with `edit`, so that their first reads need not;
    /// not at a close, after which nobody reads them.
    fn open_ahead(&self, version: &Version, edit: &VersionEdit) {
        if !self.gate.is_closed() {
            version.open_ahead(edit);
        }
    }

    /// Takes a job off the list of what is under way. The pressure changes first: a writer that
    /// waits for it is woken once, by the end of the job. Damage changes it, too: there is less to
    /// be won.
    fn end_job(&self, kind: JobKind, result: &Result<()>, change: impl FnOnce(&mut JobState)) {
        if result.as_ref().err().is_none_or(|e| e.kind() == ErrorKind::Corruption) {
            self.update_pressure();
        }
        self.take_back();
        self.jobs.finish(kind, result, change);
    }

    /// Recomputes how hard writers must be slowed down, and says so under the manifest's lock: of
    /// two jobs that end, the later one has the last word. Else writers might wait for good for
    /// what was done long ago.
    pub(crate) fn update_pressure(&self) {
        let jobs = self.jobs.lock();
        let (damaged, survivors) = (jobs.damaged.clone(), jobs.survivors.clone());
        let merging = jobs.compactions > 0 || jobs.constraints.hold_above.is_some();
        let constraints = jobs.constraints.clone();
        drop(jobs);
        let manifest = self.manifest.lock();
        let live = manifest.live();
        self.note_bytes(&manifest);
        let target = self.options.level0_bytes;
        let level0 = live.version.level_bytes(0);
        let (start, stop) = (target.saturating_mul(2), target.saturating_mul(4));
        let mut compaction = Pressure::of(StallCause::Compaction, level0, start, stop);
        // Where damaged tables are in the way, nobody should wait for level 0 to become smaller.
        if compaction.level >= 1.0 && !merging && !self.compacts(live, &constraints) {
            compaction.level = SLOWED;
        }
        let pressure = compaction.max(self.space_pressure(live, &damaged, &survivors));
        self.throttle.set(match self.limit_pressure(live) {
            // Then no compaction may have room, either: nobody should wait for one.
            Some(limit) if limit.level >= 1.0 => limit,
            Some(limit) => limit.max(pressure),
            None => pressure,
        });
    }

    /// How far values are beyond the space goal.
    fn space_pressure(
        &self,
        live: &LiveFiles,
        damaged: &Damaged,
        survivors: &Survivors,
    ) -> Pressure {
        // The log in use cannot be collected, and has a bound of its own: what the MemTables may
        // cover.
        let value_bytes = self.counted_bytes(live, damaged);
        let alive = live.estimated_live();
        let allowed = self.space_goal().allowed(alive);
        let over = value_bytes > allowed;
        let (start, mut stop) = (allowed - allowed / 32, allowed.saturating_add(allowed / 8));
        let garbage = self.options.log().garbage(&self.options, (value_bytes, alive, allowed));
        if let Some(garbage) = garbage {
            stop = stop.saturating_add(garbage.beyond);
            self.throttle.cover(garbage.covered_max);
        }
        // Where nothing can be won writers are slowed, but not stopped for ever.
        let hopeless = over
            && (!self.can_shrink(live, damaged, survivors) || self.collects_in_vain(value_bytes));
        let stop = if hopeless { stop.max(value_bytes.saturating_mul(2)) } else { stop };
        Pressure::of(StallCause::Space, value_bytes, start, stop)
    }
}

/// What who waits for nothing is told.
#[cold]
fn stalled() -> Error {
    let message = "a call waits for background work of which none is due, running or to be tried \
                   again; this is a bug, please report it with the metrics";
    Error::new(ErrorKind::Stalled, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer was told that it waits for nothing while another one worked for both: it missed a
    /// job of the other ten times, in the course of a hundred of them.
    fn looks_between_jobs_of_others_do_not_add_up() {
        let mut looks = VainLooks::default();
        assert!((0..100).all(|ended| looks.count(ended) == 1));
        assert_eq!((looks.count(99), looks.count(99), looks.count(100)), (2, 3, 1));
    }

    #[test]
    fn looks_count_only_in_a_row() {
        looks_between_jobs_of_others_do_not_add_up();
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn planted_looks_that_add_up() {
        cleavedb_base::planted::must_notice(
            Bug::LooksAddUp,
            looks_between_jobs_of_others_do_not_add_up,
        );
    }
}
