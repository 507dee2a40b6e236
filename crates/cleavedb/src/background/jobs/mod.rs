//! Background jobs, each a type: `plan` chooses the work under the locks, `run` writes new files
//! that no reader sees, `install` publishes them by one edit. [`perform`] takes a job through these
//! steps, and tells of it ([`crate::control::events`]).

pub(crate) mod run_writer;
mod new_files;
pub(crate) mod held_keys;
mod kept_versions;
pub(crate) mod separate;
pub(crate) mod flush;
mod removed_owners;
pub(crate) mod compaction;
mod liveness;
pub(crate) mod collection;
pub(crate) mod log_preallocation;
pub(crate) mod removal;

use std::time::Instant;

use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_index::{Version, VersionEdit};

use crate::background::pressure;
use crate::control::events::Event;
use crate::control::failures::{JobKind, LastFailure};
use crate::control::poison::Poison;
use crate::engine::Engine;
use crate::engine::job_state::JobState;
use crate::engine::range_tombstones;

/// A background job of the engine.
pub(crate) trait Job<'e>: Sized {
    /// Whether the end of such a job changes how far the background is behind, or what room there
    /// is. A job that does not is short, too.
    const GIVES_ROOM: bool = true;

    /// The parameters of a request for such a job.
    type Request;
    /// The files and facts that `run` hands to `install`.
    type Output;
    /// The result for the caller that requested the job.
    type Done;

    /// Chooses the work, marks it as under way, and fixes the read state, all under the locks of
    /// jobs and manifest. `None` if no such job is due, or if it must not begin now.
    fn plan(engine: &'e Engine, request: Self::Request) -> Result<Option<Self>>;

    /// Reads and writes, without locks. If it fails, it has removed its files.
    fn run(&mut self) -> Result<Self::Output>;

    /// Publishes the output by one edit of the manifest.
    fn install(&mut self, output: Self::Output) -> Result<Self::Done>;

    /// The error of a job that failed with `error`: one of corruption if an input counts as
    /// damaged.
    fn blame(&self, error: Error) -> Error {
        error
    }

    /// Releases the resources of the job. The function that it returns marks the job as no longer
    /// under way.
    fn end(self, result: &Result<()>) -> impl FnOnce(&mut JobState);

    /// Describes the job, for events.
    fn about(&self) -> About;

    /// Bytes that it wrote, once it is installed.
    fn bytes_written(&self) -> u64 {
        0
    }

    /// Whether it has won something, once it is installed: tables, entries, bytes, or what a caller
    /// asked for. A job that has not must not be planned again on the same inputs.
    fn has_won(&self) -> bool {
        true
    }
}

/// What a job does and why, in words.
pub(crate) struct About {
    pub(crate) kind: JobKind,
    pub(crate) why: &'static str,
    /// Bytes of its inputs.
    pub(crate) bytes: u64,
}

/// Which jobs may begin.
#[derive(Clone, Copy)]
pub(crate) enum Begin {
    /// Every job that is due, while the database is open.
    Open,
    /// Jobs that are short ([`crate::engine::job_state::SHORT`]), at a close, after all other jobs
    /// have ended.
    AtClose,
}

impl Begin {
    /// Fails if no job may begin. The caller holds the lock under which the job begins.
    fn check(self, engine: &Engine) -> Result<()> {
        match self {
            Self::Open => engine.check_open(),
            Self::AtClose => engine.poison.check(),
        }
    }
}

/// Plans a job for `request`, and runs it: `None` if none is due.
pub(crate) fn perform<'e, J: Job<'e>>(
    engine: &'e Engine,
    request: J::Request,
) -> Result<Option<J::Done>> {
    let Some(mut job) = J::plan(engine, request)? else { return Ok(None) };
    let (About { kind, why, bytes }, start) = (job.about(), Instant::now());
    // No event under the lock that a short job may hold.
    if J::GIVES_ROOM {
        engine.events.tell(Event::JobBegan { job: kind, why, bytes_in: bytes });
    }
    let span = tracing::info_span!("job", kind = kind.name(), why).entered();
    let done = job.run().and_then(|output| job.install(output)).map_err(|e| job.blame(e));
    drop(span);
    let result = done.as_ref().map(|_| ()).map_err(Clone::clone);
    if done.is_ok() && !job.has_won() {
        engine.counters.futile_jobs.add(1);
    }
    let (took, bytes_out) = (start.elapsed(), if done.is_ok() { job.bytes_written() } else { 0 });
    let (failed, leave) = (engine.jobs.failure(kind), job.end(&result));
    match J::GIVES_ROOM {
        true => ended(engine, kind, &result, leave),
        false => engine.jobs.finish(kind, &result, leave),
    }
    let error = result.clone().err();
    let event = Event::JobEnded { job: kind, why, bytes_in: bytes, bytes_out, took, error };
    engine.events.tell(event);
    tell_change(engine, kind, &result, failed);
    done.map(Some)
}

/// Tells that a job of `kind` has failed, or has succeeded after a failure `before`.
fn tell_change(engine: &Engine, job: JobKind, result: &Result<()>, before: Option<LastFailure>) {
    match (result, before) {
        (Ok(()), Some(before)) => {
            let (tries, after) = (before.tries, before.since.elapsed());
            engine.events.tell(Event::JobRecovered { job, tries, after });
        }
        (Err(error), _) if error.kind() != ErrorKind::Closed => {
            let tries = engine.jobs.failure(job).map_or(1, |failure| failure.tries);
            engine.events.tell(Event::JobFailed { job, tries, error: error.clone() });
            engine.tell_refusal();
        }
        _ => {}
    }
}

/// Marks a job as no longer under way. The pressure is updated first, so that a writer that waits
/// for it is woken once, by the end of the job. A job that found damage updates it too, since less
/// space can be reclaimed then.
fn ended(engine: &Engine, kind: JobKind, result: &Result<()>, change: impl FnOnce(&mut JobState)) {
    if result.as_ref().err().is_none_or(|e| e.kind() == ErrorKind::Corruption) {
        pressure::update_pressure(engine);
    }
    engine.space().take_back();
    engine.jobs.finish(kind, result, change);
    range_tombstones::forget(engine);
}

/// Opens the tables that a job has published with `edit`, so that their first reads need not open
/// them. At a close no reads follow, so no table is opened.
fn open_ahead(engine: &Engine, version: &Version, edit: &VersionEdit) {
    if !engine.gate.is_closed() {
        version.open_ahead(edit);
    }
}

/// The error of a background write that failed before an edit could name its files, which were
/// removed. The job is tried again later, unless the disk has become read-only: that poisons the
/// database.
fn failed_write(poison: &Poison, error: Error) -> Error {
    match error.clone().with_remedy() {
        remedied if remedied.kind() == ErrorKind::ReadOnly => poison.set(remedied),
        _ => error,
    }
}
