//! Value files that a job creates. Their numbers are kept so that a failed job can remove them.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::{Error, FileNumber, Result};
use cleavedb_storage::{Access, File, FileClass, FileKind, Name, Storage};
use cleavedb_values::SegmentFactory;

use super::run_writer::RunWriter;
use crate::control::pace::Pace;
use crate::engine::Engine;

/// Creates files of one class.
pub(crate) struct NewFiles<'a> {
    engine: &'a Engine,
    class: FileClass,
    pace: Pace,
    numbers: Mutex<Vec<FileNumber>>,
}

impl<'a> NewFiles<'a> {
    pub(crate) fn new(engine: &'a Engine, class: FileClass, pace: Pace) -> Self {
        Self { engine, class, pace, numbers: Mutex::default() }
    }

    /// Removes all files created so far: the job failed before an edit could name them.
    pub(crate) fn discard(&self) {
        self.engine.discard(self.class.kind(), &self.numbers.lock());
    }
}

impl SegmentFactory for NewFiles<'_> {
    fn create(&self) -> Result<(Name, Arc<dyn File>)> {
        let (stored, memory) = (self.engine.space().bytes(), self.engine.storage.memory());
        let access = Access::of_values(self.class, stored, memory);
        let (number, file) = self.engine.create_paced(self.class, access, &self.pace)?;
        self.numbers.lock().push(number);
        Ok((Name::numbered(self.class.kind(), number), file))
    }
}

/// Removes the files of a job that failed with `error` before an edit could name them.
pub(super) fn given_up(
    engine: &Engine,
    files: &[&NewFiles<'_>],
    writer: &RunWriter<&Engine>,
    error: Error,
) -> Error {
    let error = engine.with_volume(error);
    if !planted(Bug::FailedJobLeavesFiles) {
        files.iter().for_each(|files| files.discard());
        engine.discard(FileKind::Table, &writer.numbers);
    }
    super::failed_write(&engine.poison, error)
}
