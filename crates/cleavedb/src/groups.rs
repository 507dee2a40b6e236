//! Groups of values as the engine holds them: made at creation, opened, extended, given back.

use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::{Error, FileNumber, Result};
use cleavedb_storage::{Access, FileKind, Hole, Mode, Name, Storage};
use cleavedb_values::groups::writer::Written;
use cleavedb_values::groups::{Extent, ExtentHandle};
use cleavedb_values::{GroupEdit, GroupTable, LedgerEdit, SegmentSet, ValueLayout};

use crate::engine::Engine;
use crate::manifest::{Edit, LiveFiles};

/// The groups of a new database: one, if its layout has groups. Flushes begin more, when it is
/// known how much there is to be grouped (see [`cleavedb_values::groups::sizing`]).
pub(crate) fn initial(layout: &ValueLayout) -> Result<GroupTable> {
    let mut table = GroupTable::new(layout.groups);
    if table.layout().is_some() {
        table.apply(&GroupEdit::Begin(table.next_id(), Vec::new(), 0))?;
    }
    Ok(table)
}

/// Adds what was written to an edit: files in the ledger, extents in the table of groups.
pub(crate) fn publish(written: &Written, edit: &mut Edit) {
    for (number, len) in &written.files {
        edit.ledger.push(LedgerEdit::Add(*number, FileKind::Group));
        edit.ledger.push(LedgerEdit::Seal(*number, 0, *len));
    }
    edit.groups.extend(written.extents.iter().cloned().map(GroupEdit::Add));
}

/// Group files as parts that nobody names any more: extents that are gone.
fn holes(live: &LiveFiles, number: FileNumber, len: u64) -> Vec<Hole> {
    let name = Name::numbered(FileKind::Group, number);
    let mut holes = Vec::new();
    // The file's header has the first block.
    let mut end = BLOCK as u64;
    let ends = live.groups.extents_in(number).map(|e| (e.place.offset, e.place.offset + e.len()));
    for (begin, next) in ends.chain([(len.next_multiple_of(BLOCK as u64), 0)]) {
        if begin > end {
            holes.push(Hole { name, offset: end, len: begin - end });
        }
        end = next;
    }
    holes
}

impl Engine {
    /// Opens the extents of `live`, whose files are in `segments`; what a crash left behind in the
    /// files is queued to be given back.
    pub(crate) fn open_groups(
        &self,
        live: &LiveFiles,
        segments: &SegmentSet,
    ) -> Result<SegmentSet> {
        for (number, facts) in live.ledger.iter() {
            if facts.kind == FileKind::Group {
                let len = facts.len.unwrap_or_default();
                holes(live, number, len).into_iter().for_each(|hole| self.reaper.give_back(hole));
            }
        }
        let handles = live.groups.extents().map(|extent| self.handle(extent, segments));
        Ok(segments.with_extents(&handles.collect::<Result<Vec<_>>>()?, &[]))
    }

    fn handle(&self, extent: &Extent, segments: &SegmentSet) -> Result<Arc<ExtentHandle>> {
        let file = extent.place.file;
        let segment = segments.get(file).ok_or_else(|| {
            Error::corruption("an extent lies in a file that is not open").with("file", file)
        })?;
        Ok(Arc::new(ExtentHandle::new(extent, segment.clone(), self.reaper.clone())))
    }

    /// `segments` and what was written.
    pub(crate) fn with_written(
        &self,
        segments: &SegmentSet,
        written: &Written,
    ) -> Result<SegmentSet> {
        let files = written.files.iter();
        let opened = files.map(|(number, _)| self.open_segment(FileKind::Group, *number, None));
        let segments = segments.with(&opened.collect::<Result<Vec<_>>>()?, &[]);
        let handles = written.extents.iter().map(|extent| self.handle(extent, &segments));
        Ok(segments.with_extents(&handles.collect::<Result<Vec<_>>>()?, &[]))
    }

    /// Gives the space of a range back. If that fails it comes back with the file.
    pub(crate) fn punch(&self, hole: Hole) {
        if let Ok(file) = self.storage.open(&hole.name, Mode::ReadWrite, Access::Random)
            && file.punch(hole.offset, hole.len).is_ok()
        {
            self.counters.bytes_punched.add(hole.len);
        }
    }
}
