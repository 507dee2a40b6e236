//! Background jobs, a type each: `plan` decides under the locks, `run` writes new files that no
//! reader sees, `install` publishes them by one edit. [`perform`] takes a job through these steps,
//! and tells subscribers of [`tracing`] about it.

mod run_writer;
mod new_files;
mod separate;
pub(crate) mod flush;
mod dropped_pointers;
pub(crate) mod compaction;
mod liveness;
pub(crate) mod collection;
pub(crate) mod log_preallocation;
pub(crate) mod removal;

use std::time::Instant;

use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_index::{Version, VersionEdit};

use crate::engine::Engine;
use crate::failures::JobKind;
use crate::job_state::JobState;
use crate::pressure;
use crate::space::reserve;

/// A background job of the engine.
pub(crate) trait Job<'e>: Sized {
    /// What may be asked of such a job.
    type Request;
    /// What `run` has written.
    type Output;
    /// What is told of a job that is done.
    type Done;

    /// Chooses what to do, marks it as under way, and fixes what readers see: under the locks of
    /// jobs and manifest. `None` if there is nothing to do, or it must not begin now.
    fn plan(engine: &'e Engine, request: Self::Request) -> Result<Option<Self>>;

    /// Reads and writes, without locks. If it fails it has removed what it wrote.
    fn run(&mut self) -> Result<Self::Output>;

    /// Publishes the output by one edit of the manifest.
    fn install(&mut self, output: Self::Output) -> Result<Self::Done>;

    /// What `error`, with which the job failed, says of its inputs.
    fn blame(&self, error: Error) -> Error {
        error
    }

    /// Lets go of what the job holds. What is returned takes the job off the list of what is under
    /// way.
    fn end(self, result: &Result<()>) -> impl FnOnce(&mut JobState);

    /// What the job does, for events.
    fn about(&self) -> About;
}

/// What a job does and why, in words.
pub(crate) struct About {
    pub(crate) kind: JobKind,
    pub(crate) why: &'static str,
    /// Bytes of its inputs.
    pub(crate) bytes: u64,
}

/// Which job may begin.
#[derive(Clone, Copy)]
pub(crate) enum Begin {
    /// Whatever is due, while the database is open.
    Open,
    /// What is short ([`crate::job_state::SHORT`]), at a close that has ended all other jobs.
    AtClose,
}

impl Begin {
    /// Fails if no job may begin; asked under the lock under which it begins.
    fn check(self, engine: &Engine) -> Result<()> {
        match self {
            Self::Open => engine.check_open(),
            Self::AtClose => engine.poison.check(),
        }
    }
}

/// Plans a job as `request` asks for, and does it: `None` if there is none to do.
pub(crate) fn perform<'e, J: Job<'e>>(
    engine: &'e Engine,
    request: J::Request,
) -> Result<Option<J::Done>> {
    let Some(mut job) = J::plan(engine, request)? else { return Ok(None) };
    let (about, start) = (job.about(), Instant::now());
    let kind = about.kind;
    tracing::debug!(job = kind.name(), why = about.why, bytes = about.bytes, "job begins");
    let done = job.run().and_then(|output| job.install(output)).map_err(|e| job.blame(e));
    let result = done.as_ref().map(|_| ()).map_err(Clone::clone);
    tell(&about, start, &result);
    let leave = job.end(&result);
    ended(engine, kind, &result, leave);
    done.map(Some)
}

/// Tells subscribers of a job that has ended.
fn tell(about: &About, start: Instant, result: &Result<()>) {
    let (job, why, bytes) = (about.kind.name(), about.why, about.bytes);
    let ms = start.elapsed().as_millis() as u64;
    match result {
        Ok(()) => tracing::info!(job, why, bytes, ms, "job done"),
        Err(error) if error.kind() == ErrorKind::Closed => {
            tracing::debug!(job, why, bytes, ms, "job gives up: the database is closing");
        }
        Err(error) => tracing::warn!(job, why, bytes, ms, %error, "job failed"),
    }
}

/// Takes a job off the list of what is under way. The pressure changes first: a writer that waits
/// for it is woken once, by the end of the job. Damage changes it, too: less can be reclaimed.
fn ended(engine: &Engine, kind: JobKind, result: &Result<()>, change: impl FnOnce(&mut JobState)) {
    if result.as_ref().err().is_none_or(|e| e.kind() == ErrorKind::Corruption) {
        pressure::update_pressure(engine);
    }
    reserve::take_back(engine);
    engine.jobs.finish(kind, result, change);
}

/// Opens the tables that a job has published with `edit`, so that their first reads need not; not
/// at a close, after which nothing is read.
fn open_ahead(engine: &Engine, version: &Version, edit: &VersionEdit) {
    if !engine.gate.is_closed() {
        version.open_ahead(edit);
    }
}

/// A background write that failed before an edit could name its files, which are gone: it is tried
/// again later, unless the disk has become read-only.
fn failed_write(engine: &Engine, error: Error) -> Error {
    match error.clone().with_remedy() {
        remedied if remedied.kind() == ErrorKind::ReadOnly => engine.poison.set(remedied),
        _ => error,
    }
}
