//! Files that a job makes for values, remembered so that a failed job leaves nothing behind; and
//! segments of survivors, opened and named by its edit.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::{FileNumber, Result};
use cleavedb_storage::segment::Segment;
use cleavedb_storage::{Access, File, FileClass, FileKind, Name};
use cleavedb_values::survivors::NewSegment;
use cleavedb_values::{LedgerEdit, SegmentFactory};

use crate::engine::Engine;
use crate::manifest::Edit;

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

impl Engine {
    /// Opens segments of survivors.
    pub(super) fn open_segments(&self, segments: &[NewSegment]) -> Result<Vec<Arc<Segment>>> {
        let open = |new: &NewSegment| self.open_segment(FileKind::Segment, new.name.number(), None);
        segments.iter().map(open).collect()
    }
}

/// Adds segments of survivors to an edit.
pub(super) fn add_segments(segments: &[NewSegment], edit: &mut Edit) {
    for new in segments {
        let number = new.name.number();
        edit.ledger.push(LedgerEdit::Add(number, FileKind::Segment));
        edit.ledger.push(LedgerEdit::Seal(number, 0, new.len));
        if !planted(Bug::ColdNotBorn) {
            edit.ledger.push(LedgerEdit::Born(number, new.live));
        }
    }
}
