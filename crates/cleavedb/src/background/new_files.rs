//! Files that a job makes for values, remembered so that a failed job leaves nothing behind.

use std::sync::Arc;

use cleavedb_base::sync::Mutex;
use cleavedb_base::{FileNumber, Result};
use cleavedb_storage::{Access, File, FileClass, Name};
use cleavedb_values::SegmentFactory;

use crate::engine::Engine;

/// Makes files of one class.
pub(super) struct NewFiles<'a> {
    engine: &'a Engine,
    class: FileClass,
    numbers: Mutex<Vec<FileNumber>>,
}

impl<'a> NewFiles<'a> {
    pub(super) fn new(engine: &'a Engine, class: FileClass) -> Self {
        Self { engine, class, numbers: Mutex::default() }
    }

    /// Removes all of them: the job failed before an edit could name them.
    pub(super) fn discard(&self) {
        self.engine.discard(self.class.kind(), &self.numbers.lock());
    }
}

impl SegmentFactory for NewFiles<'_> {
    fn create(&self) -> Result<(Name, Arc<dyn File>)> {
        let (number, file) = self.engine.create_file(self.class, Access::Direct)?;
        self.numbers.lock().push(number);
        Ok((Name::numbered(self.class.kind(), number), file))
    }
}
