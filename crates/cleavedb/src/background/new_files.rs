//! Files that a job makes for values, remembered so that a failed job leaves nothing behind.

use std::sync::Arc;

use cleavedb_base::sync::Mutex;
use cleavedb_base::{FileNumber, Result};
use cleavedb_storage::{Access, File, FileKind, Name};
use cleavedb_values::SegmentFactory;

use crate::engine::Engine;

/// Makes files of one kind.
pub(super) struct NewFiles<'a> {
    engine: &'a Engine,
    kind: FileKind,
    numbers: Mutex<Vec<FileNumber>>,
}

impl<'a> NewFiles<'a> {
    pub(super) fn new(engine: &'a Engine, kind: FileKind) -> Self {
        Self { engine, kind, numbers: Mutex::default() }
    }

    /// Removes all of them: the job failed before an edit could name them.
    pub(super) fn discard(&self) {
        self.engine.discard(self.kind, &self.numbers.lock());
    }
}

impl SegmentFactory for NewFiles<'_> {
    fn create(&self) -> Result<(Name, Arc<dyn File>)> {
        let (number, file) = self.engine.create_file(self.kind, Access::Direct)?;
        self.numbers.lock().push(number);
        Ok((Name::numbered(self.kind, number), file))
    }
}
