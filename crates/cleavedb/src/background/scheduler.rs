//! Chooses the job that runs next, and waits for jobs.
//!
//! [`run_one`] alone decides which job runs next. Background threads call it in production; without
//! threads, [`crate::Db::step`] and waiting writers call it, so that a test can replay any
//! schedule.

use std::time::Duration;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, ErrorKind, Result};

use crate::background::jobs::collection::Collect;
use crate::background::jobs::flush::Flush;
use crate::background::jobs::log_preallocation::Preallocate;
use crate::background::jobs::{Begin, Job, compaction, perform, removal};
use crate::background::pressure;
use crate::control::events;
use crate::control::failures::{JobKind, LastFailure};
use crate::engine::Engine;
use crate::engine::panic_guard::PanicGuard;
use crate::settings::options::Background;

/// Number of looks in a row that must find nothing to do, of all threads or of a caller that does
/// jobs itself, with no job ending between them, before a waiting caller gets the error that it is
/// stalled.
const LOOKS: usize = 10;

/// Number of looks that found nothing to do since a job last ended.
#[derive(Default)]
struct EmptyLooks {
    count: usize,
    /// Number of jobs that had ended at the last look.
    ended: u64,
}

impl EmptyLooks {
    /// Counts one look, at which the number of ended jobs was `ended`. If another caller has ended
    /// a job since the last look, the count starts anew: what this caller waits for may take many
    /// jobs of others.
    fn count(&mut self, ended: u64) -> usize {
        let goes_on = self.ended == ended || planted(Bug::LooksAddUp);
        *self = Self { count: if goes_on { self.count + 1 } else { 1 }, ended };
        self.count
    }
}

/// Number of jobs that may win nothing while a caller waits that does all jobs itself. One is not
/// made again on the same inputs, so there are few.
const FUTILE_MAX: u64 = 1000;

/// Counts the jobs that have won nothing since a caller began to wait.
struct Watchdog<'e> {
    engine: &'e Engine,
    before: u64,
}

impl<'e> Watchdog<'e> {
    fn over(engine: &'e Engine) -> Self {
        Self { engine, before: engine.counters.futile_jobs.get() }
    }

    /// Fails if there were too many.
    fn check(&self) -> Result<()> {
        if self.engine.counters.futile_jobs.get() - self.before <= FUTILE_MAX {
            return Ok(());
        }
        let message = "background work repeats without winning anything; this is a bug, please \
                       report it with the metrics";
        Err(Error::new(ErrorKind::Stalled, message))
    }
}

/// Interval at which a waiting caller looks again without being woken.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Runs one job of the given kinds, if one is due: `Ok(true)` if a job ran. After a failed job the
/// other kinds are still tried, since the failed job may need what they do; its error is returned
/// if none ran.
pub(crate) fn run_one(engine: &Engine, kinds: &[JobKind]) -> Result<bool> {
    let (wakeups, pausing) = engine.jobs.begin_look();
    let manual = engine.options.background == Background::Manual;
    let (mut failed, mut idle) = (Ok(false), Vec::new());
    for kind in kinds {
        let pause = pausing.iter().find(|(pausing, _)| pausing == kind && !manual);
        let ran = match pause {
            Some((_, error)) => Err(error.clone()),
            None => run_job(engine, *kind),
        };
        match ran {
            Ok(true) => return Ok(true),
            Ok(false) => idle.push(*kind),
            Err(e) => {
                if engine.check_open().is_err() || planted(Bug::FailureEndsTheLook) {
                    return Err(e);
                }
                failed = failed.and(Err(e));
            }
        }
    }
    engine.jobs.found_nothing(&idle, wakeups);
    failed
}

/// Runs a job of one kind, if one is due. On a full disk all dead space is given back first.
fn run_job(engine: &Engine, kind: JobKind) -> Result<bool> {
    let _guard = PanicGuard(engine);
    let frees = matches!(kind, JobKind::Flush | JobKind::Compact | JobKind::Collect);
    let full = frees && engine.space().is_disk_full();
    if full {
        removal::purge(engine);
    }
    let _rush = full.then(|| engine.pacer.rush());
    match kind {
        JobKind::Flush => {
            // A split that holds up flushes goes first, in this thread: the others may be busy for
            // long.
            let waits = engine.jobs.lock().split_waits.is_some();
            Ok(waits && done::<Collect<'_>>(engine, Begin::Open)? || done::<Flush<'_>>(engine, ())?)
        }
        JobKind::PreallocateLog => done::<Preallocate<'_>>(engine, ()),
        JobKind::Compact => compaction::compact_due(engine),
        JobKind::Collect => done::<Collect<'_>>(engine, Begin::Open),
        JobKind::Remove => Ok(removal::run_remove(engine)),
        JobKind::Punch => Ok(removal::punch_in_turn(engine)),
    }
}

/// Runs a job for `request`; returns whether there was one.
fn done<'e, J: Job<'e>>(engine: &'e Engine, request: J::Request) -> Result<bool> {
    perform::<J>(engine, request).map(|done| done.is_some())
}

/// Runs jobs that are due and short, at a close that has flushed and ended all jobs. If every
/// opening of the database is shorter than its jobs, each would leave a table and a value file for
/// good. A job that was too long, and gave up at the close, may have had the same tables as inputs:
/// it has ended before this. A job that fails here is due again at the next open.
pub(crate) fn tidy(engine: &Engine) {
    let _guard = PanicGuard(engine);
    if engine.limit.is_none() && !engine.space().is_disk_full() {
        let _ = compaction::compact_shortly(engine);
        let _ = perform::<Collect<'_>>(engine, Begin::AtClose);
    }
}

/// Waits until `done`, for jobs of the kinds that `awaited` names; runs jobs in this thread if
/// there are no background threads. Fails if these jobs fail for good, or if no job that could make
/// `done` true is under way or due: with the error of a job of another kind that fails for good, or
/// with [`ErrorKind::Stalled`].
pub(crate) fn wait_or_work(
    engine: &Engine,
    done: impl Fn() -> bool,
    awaited: impl Fn() -> Option<JobKind>,
) -> Result<()> {
    if engine.options.background == Background::Manual {
        let (mut looks, watch) = (EmptyLooks::default(), Watchdog::over(engine));
        while !done() {
            engine.check_open().and_then(|()| watch.check())?;
            let (before, left_alone) = {
                let state = engine.jobs.lock();
                (state.moves(), state.left_alone())
            };
            match run_one(engine, &JobKind::ALL) {
                Ok(false) if waits_for_others(engine) => {}
                Ok(false) if is_stalled(engine, &done) => {
                    // Another caller may have run a job, or made one due, during the look.
                    let moves = engine.jobs.lock().moves();
                    if looks.count(moves.ended) >= LOOKS || moves == before {
                        return Err(stalled());
                    }
                }
                // A job that failed because of damage found just now is no reason to fail: the
                // damaged file is left alone from now on, so other jobs can go on.
                Err(e) if engine.jobs.lock().left_alone() == left_alone => return Err(e),
                _ => {}
            }
        }
        return Ok(());
    }
    if done() {
        return Ok(());
    }
    let _hurry = engine.pacer.hurry_flushes();
    let (mut wakeups, mut looks) = (engine.jobs.wake(), EmptyLooks::default());
    loop {
        let mut state = engine.jobs.lock();
        if done() {
            return Ok(());
        }
        engine.check_open()?;
        // A failure that waiting does not end is the caller's error.
        let failure = awaited().and_then(|kind| state.failures.of(kind));
        // A close does not wait for another try: the log keeps what was not flushed.
        let is_final = |failure: &&LastFailure| failure.is_lasting() || engine.gate.is_closed();
        if let Some(failure) = failure.filter(is_final) {
            return Err(failure.error.clone());
        }
        if !state.is_over(wakeups) {
            engine.jobs.progress.wait_for(&mut state, RETRY_AFTER);
            continue;
        }
        drop(state);
        // A flush, or the end of a snapshot, may have come after the look, so all threads look
        // again.
        if is_stalled(engine, &done) {
            let state = engine.jobs.lock();
            if looks.count(state.moves().ended) >= LOOKS {
                return Err(state.lasting_error().cloned().unwrap_or_else(stalled));
            }
            drop(state);
            wakeups = engine.jobs.wake();
        }
    }
}

/// If other threads run jobs, waits a while for them; returns whether there were any.
pub(crate) fn waits_for_others(engine: &Engine) -> bool {
    let _hurry = engine.pacer.hurry_flushes();
    let mut state = engine.jobs.lock();
    let others = !state.is_idle();
    if others {
        engine.jobs.progress.wait_for(&mut state, RETRY_AFTER);
    }
    others
}

/// Waits for the end of the collection that is under way, if there is one. Those that begin
/// meanwhile are not waited for.
pub(crate) fn wait_for_collection(engine: &Engine) -> Result<()> {
    let mut state = engine.jobs.lock();
    let awaited = state.collections();
    while awaited.under_way && state.collections() == awaited {
        engine.check_open()?;
        engine.jobs.progress.wait_for(&mut state, RETRY_AFTER);
    }
    Ok(())
}

/// Called when no job is under way or due: updates the pressure on writers, and returns whether a
/// caller that waits until `done` still waits.
fn is_stalled(engine: &Engine, done: impl Fn() -> bool) -> bool {
    pressure::update_pressure(engine);
    // Other callers may wait for the same change.
    engine.jobs.progress.notify_all();
    !done()
}

/// Runs jobs in this thread, and waits for those of others, until no job is due.
pub(crate) fn wait_idle(engine: &Engine) -> Result<()> {
    wait_idle_while(engine, &|| true)
}

/// Like [`wait_idle`], but only for as long as `wanted` holds: while others write there may always
/// be a job.
pub(crate) fn wait_idle_while(engine: &Engine, wanted: &dyn Fn() -> bool) -> Result<()> {
    events::check_may_wait()?;
    engine.jobs.lock().failures.forgive();
    if engine.options.background == Background::Manual {
        let watch = Watchdog::over(engine);
        while wanted() && run_one(engine, &JobKind::ALL)? {
            watch.check()?;
        }
        return Ok(());
    }
    let _hurry = engine.pacer.hurry_flushes();
    // The caller's thread runs jobs too, and waits only for those that other threads run.
    while wanted() {
        engine.check_open()?;
        let ended = engine.jobs.lock().moves().ended;
        if run_one(engine, &JobKind::ALL)? {
            continue;
        }
        let mut state = engine.jobs.lock();
        if state.nothing_ended_since(ended) {
            break;
        }
        if !state.is_idle() {
            engine.jobs.progress.wait_for(&mut state, RETRY_AFTER);
        }
    }
    Ok(())
}

/// The error of a caller that waits for a change that no job will make.
#[cold]
fn stalled() -> Error {
    let message = "a call waits for background work of which none is due, running or to be tried \
                   again; this is a bug, please report it with the metrics";
    Error::new(ErrorKind::Stalled, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A regression: a writer got the error that it is stalled while another writer worked for
    /// both. Ten times, in the course of a hundred jobs of the other, it had looked when none was
    /// due.
    fn looks_between_jobs_of_others_do_not_add_up() {
        let mut looks = EmptyLooks::default();
        assert!((0..100).all(|ended| looks.count(ended) == 1));
        assert_eq!((looks.count(99), looks.count(99), looks.count(100)), (2, 3, 1));
    }

    #[test]
    fn looks_count_only_in_a_row() {
        looks_between_jobs_of_others_do_not_add_up();
    }

    #[cfg(feature = "test-planted-bugs")]
    #[test]
    fn planted_looks_that_add_up() {
        cleavedb_base::planted::must_notice(
            Bug::LooksAddUp,
            looks_between_jobs_of_others_do_not_add_up,
        );
    }
}
