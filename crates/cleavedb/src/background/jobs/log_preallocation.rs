//! Preallocation: creates the next log file before a writer needs it.

use cleavedb_base::Result;
use cleavedb_base::sync::MutexGuard;
use cleavedb_storage::log::PreallocatedLog;

use super::{About, Job};
use crate::background::log_files;
use crate::control::failures::JobKind;
use crate::engine::Engine;
use crate::engine::job_state::JobState;

/// The creation of the next log file.
pub(crate) struct Preallocate<'e> {
    engine: &'e Engine,
    /// The slot of the next log file. While it is locked, no other thread creates one.
    ahead: MutexGuard<'e, Option<PreallocatedLog>>,
}

impl<'e> Job<'e> for Preallocate<'e> {
    const GIVES_ROOM: bool = false;

    type Request = ();
    type Output = PreallocatedLog;
    type Done = ();

    fn plan(engine: &'e Engine, (): ()) -> Result<Option<Self>> {
        // If the lock is taken, a file is being created: by another job, or by a writer whose log
        // file is full.
        let Some(ahead) = engine.preallocated_log.try_lock() else { return Ok(None) };
        if ahead.is_some() || !log_files::wants_next_log(engine) {
            return Ok(None);
        }
        engine.jobs.lock().preallocating = true;
        Ok(Some(Self { engine, ahead }))
    }

    fn run(&mut self) -> Result<PreallocatedLog> {
        log_files::create_next_log(self.engine)
    }

    fn install(&mut self, created: PreallocatedLog) -> Result<()> {
        *self.ahead = Some(created);
        Ok(())
    }

    fn end(self, _: &Result<()>) -> impl FnOnce(&mut JobState) {
        |state| state.preallocating = false
    }

    fn about(&self) -> About {
        let why = "the log file in use is half full, or an old one can be used again";
        let bytes = self.engine.space().log_file_bytes();
        About { kind: JobKind::PreallocateLog, why, bytes }
    }
}
