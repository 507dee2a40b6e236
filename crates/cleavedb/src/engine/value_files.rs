//! Value files in the engine: their creation, their opening, the edits that name them, and their
//! removal; and the replay head, which decides which of them may be removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, FileNumber, Result};
use cleavedb_storage::log::Log;
use cleavedb_storage::segment::Segment;
use cleavedb_storage::{Access, FileKind, Hole, Mode, Name, Storage};
use cleavedb_values::collect::survivors::NewSegment;
use cleavedb_values::groups::writer::Written;
use cleavedb_values::groups::{Extent, ExtentHandle, Location};
use cleavedb_values::{GroupEdit, GroupTable, SegmentSet, ValueFileEdit, ValueLayout, victim};

use crate::engine::Engine;
use crate::engine::job_state::Jobs;
use crate::store::manifest::{Edit, LiveFiles, ReplayHead};

/// The groups of a new database: one, if its layout has groups. Flushes create more, once the
/// amount of values is known (see [`cleavedb_values::groups::sizing`]).
pub(crate) fn initial(layout: &ValueLayout) -> Result<GroupTable> {
    let mut table = GroupTable::new(layout.groups);
    if table.layout().is_some() {
        table.apply(&GroupEdit::Begin(table.next_id(), Vec::new(), 0))?;
    }
    Ok(table)
}

/// Adds written files and extents to an edit: files to the table of value files, extents to the
/// table of groups.
pub(crate) fn publish(written: &Written, edit: &mut Edit) {
    for (number, len) in &written.files {
        edit.value_files.push(ValueFileEdit::Add(*number, FileKind::Group));
        edit.value_files.push(ValueFileEdit::Seal(*number, 0, *len));
    }
    edit.groups.extend(written.extents.iter().cloned().map(GroupEdit::Add));
}

/// The ranges of a group file that belong to no extent, because their extents were removed.
pub(crate) fn holes(live: &LiveFiles, number: FileNumber, len: u64) -> Vec<Hole> {
    let name = Name::numbered(FileKind::Group, number);
    let mut holes = Vec::new();
    // The first block has the file's header.
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

/// Opens the extents of `live`, whose files are in `segments`, but those that are `known`. Ranges
/// of the files without an extent, which a crash may have left, are queued to be given back.
pub(crate) fn open_groups(
    engine: &Engine,
    live: &LiveFiles,
    segments: &SegmentSet,
    known: &SegmentSet,
) -> Result<SegmentSet> {
    for (number, meta) in live.value_files.group_files() {
        let holes = holes(live, number, meta.len.unwrap_or_default());
        holes.into_iter().for_each(|hole| engine.obsolete_files.give_back(hole));
    }
    let handles = live.groups.extents().map(|extent| match known.extent(extent.place) {
        Ok(known) => Ok(known.clone()),
        Err(_) => handle(engine, extent, segments),
    });
    Ok(segments.with_extents(&handles.collect::<Result<Vec<_>>>()?, &[]))
}

fn handle(engine: &Engine, extent: &Extent, segments: &SegmentSet) -> Result<Arc<ExtentHandle>> {
    let file = extent.place.file;
    let segment = segments.get(file).ok_or_else(|| {
        Error::corruption("an extent lies in a file that is not open").with("file", file)
    })?;
    Ok(Arc::new(ExtentHandle::new(extent, segment.clone(), engine.obsolete_files.clone())))
}

/// Adds the written files and extents to `segments`.
pub(crate) fn with_written(
    engine: &Engine,
    segments: &SegmentSet,
    written: &Written,
) -> Result<SegmentSet> {
    let files = written.files.iter();
    let opened = files.map(|(number, _)| engine.open_segment(FileKind::Group, *number, None));
    let segments = segments.with(&opened.collect::<Result<Vec<_>>>()?, &[]);
    let handles = written.extents.iter().map(|extent| handle(engine, extent, &segments));
    Ok(segments.with_extents(&handles.collect::<Result<Vec<_>>>()?, &[]))
}

/// Punches a range. If that fails, its space is freed when the file is removed.
pub(crate) fn punch(engine: &Engine, hole: Hole) {
    let _name_stays = engine.punching.lock();
    if let Ok(file) = engine.storage.open(&hole.name, Mode::ReadWrite, Access::Random)
        && file.punch(hole.offset, hole.len).is_ok()
    {
        engine.counters.bytes_punched.add(hole.len);
    }
}

/// Group files without an extent, once the extents `gone` are removed.
pub(crate) fn emptied(live: &LiveFiles, gone: &BTreeSet<Location>) -> Vec<(FileNumber, FileKind)> {
    let mut files: Vec<FileNumber> = gone.iter().map(|place| place.file).collect();
    files.dedup();
    files.retain(|file| !live.groups.uses_file(*file, gone));
    files.into_iter().map(|file| (file, FileKind::Group)).collect()
}

/// Marks extents that a durable edit has removed: their last readers give back their space, unless
/// the whole file goes.
pub(crate) fn mark_obsolete(
    engine: &Engine,
    gone: &[Location],
    emptied: &[(FileNumber, FileKind)],
) -> Result<()> {
    let state = engine.state.load_full();
    let whole = |place: &Location| emptied.iter().any(|(file, _)| *file == place.file);
    gone.iter().filter(|place| !whole(place)).try_for_each(|place| {
        state.segments.extent(*place)?.mark_obsolete();
        Ok(())
    })
}

/// Opens segments of survivors.
pub(crate) fn open_segments(engine: &Engine, segments: &[NewSegment]) -> Result<Vec<Arc<Segment>>> {
    let open = |new: &NewSegment| engine.open_segment(FileKind::Segment, new.name.number(), None);
    segments.iter().map(open).collect()
}

/// Adds segments of survivors to an edit.
pub(crate) fn add_segments(segments: &[NewSegment], edit: &mut Edit) {
    for new in segments {
        let number = new.name.number();
        edit.value_files.push(ValueFileEdit::Add(number, FileKind::Segment));
        edit.value_files.push(ValueFileEdit::Seal(number, 0, new.len));
        if !planted(Bug::ColdNotBorn) {
            edit.value_files.push(ValueFileEdit::LiveAdded(number, new.live));
        }
    }
}

/// Moves the replay head to `position`. Log files that end below it are sealed in the table of
/// value files.
pub(crate) fn advance_head(engine: &Engine, live: &LiveFiles, mut position: u64, edit: &mut Edit) {
    if planted(Bug::HeadTooFar) {
        position = engine.commit.log.buffer().written_upto();
    }
    let mut files = engine.jobs.log_files.lock();
    // The head's file is the last one that begins at or below the position.
    let holder = files.iter().rposition(|(_, file)| file.base <= position);
    if let Some(holder) = holder {
        for (number, file) in files.drain(..holder) {
            let end = file.end().expect("a log file with a successor has ended");
            edit.value_files.push(ValueFileEdit::Seal(number, file.base, end - file.base));
        }
        let (file, log) = (files[0].0, &files[0].1);
        edit.head = Some(ReplayHead { file, base: log.base, position });
    } else {
        edit.head = live.head;
    }
}

/// Drops value files without a live record that replay does not need. The deletes and newer
/// versions that killed their records are in tables, so they are durable.
pub(crate) fn drop_dead_files(
    engine: &Engine,
    manifest: &mut crate::store::manifest::Manifest,
) -> Result<()> {
    let live = manifest.live();
    let mut dead = victim::dead_files(&live.value_files, live.head_file());
    let victim = engine.jobs.victim();
    dead.retain(|number| *number != victim || planted(Bug::VictimRemovedByOthers));
    dead.retain(|number| !engine.is_held(*number));
    if dead.is_empty() {
        return Ok(());
    }
    let value_files =
        dead.iter().map(|it| live.changes.drop_edit(&live.value_files, *it)).collect();
    let kinds: Vec<_> =
        dead.iter().filter_map(|n| Some((*n, live.value_files.get(*n)?.kind))).collect();
    engine.commit_edit(manifest, &Edit { value_files, ..Edit::default() })?;
    retire_segments(engine, manifest.live(), &kinds);
    Ok(())
}

/// Removes dropped value files from the read state, after an edit that left `live`. Each file is
/// deleted when its last reader ends, unless readers of changes are told from it.
pub(crate) fn retire_segments(engine: &Engine, live: &LiveFiles, files: &[(FileNumber, FileKind)]) {
    let numbers: Vec<FileNumber> = files.iter().map(|(number, _)| *number).collect();
    let state = engine.state.load_full();
    for (number, kind) in files {
        let segment = state.segments.get(*number);
        match segment {
            _ if engine.stays_told(live, *number, segment) => {}
            Some(segment) => segment.mark_obsolete(),
            // The read state does not have this log file, so it has no readers and is deleted at
            // once.
            None => {
                let name = cleavedb_storage::Name::numbered(*kind, *number);
                engine.obsolete_files.enqueue(name, engine.options.tuning.log_file_bytes);
            }
        }
    }
    engine.state.swap(|state| state.with_segments(state.segments.with(&[], &numbers)));
}

/// Bytes of value files, the log in use included.
pub(crate) fn value_bytes(jobs: &Jobs, log: &Log, live: &LiveFiles) -> u64 {
    let all = live.value_files.whole_bytes() + live.groups.bytes();
    // The table of value files does not have the lengths of log files begun since the replay head.
    let first = jobs.log_files.lock().first().map(|(_, file)| file.base);
    all + first.map_or(0, |base| log.buffer().written_upto().saturating_sub(base))
}
