//! Finds the files and extents with records of a range of keys that are not needed any more.
//!
//! Groups by ranges of keys are looked through only if they meet the range. Log files, segments and
//! groups by hashes have no range of keys: all of them are looked through; of groups the key
//! blocks, where they have some, and of files everything. A record is needed if it is the value of
//! its key, as the index has it; deletes, short values and markers of the store itself never are.

use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{Record, RecordKind};
use cleavedb_base::{EncodedKey, EntryKind, Error, FileNumber, Result, ValuePointer};
use cleavedb_storage::log::LogReader;
use cleavedb_storage::{Access, FileKind, Mode, MultiDirStorage, Name, Storage};
use cleavedb_values::groups::{Extent, ExtentReader, Group};
use cleavedb_values::{GroupId, ValueFileMeta};

use crate::engine::Engine;
use crate::engine::job_state::WantedGone;
use crate::engine::value_files;
use crate::operations::bounds::Bounds;
use crate::store::manifest::LiveFiles;
use crate::store::state::ReadState;

/// A search through value files.
struct Search<'e> {
    engine: &'e Engine,
    bounds: &'e Bounds,
    state: Arc<ReadState>,
    live: LiveFiles,
}

impl<'e> Search<'e> {
    fn new(engine: &'e Engine, bounds: &'e Bounds) -> Self {
        // Under the manifest's lock both match.
        let manifest = engine.manifest.lock();
        Self { engine, bounds, state: engine.state.load_full(), live: manifest.live().clone() }
    }

    /// Whether a record is one of the range that is not needed.
    fn is_dead(&self, record: &Record<'_>, pointer: ValuePointer) -> Result<bool> {
        let header = &record.header;
        if !header.kind.is_of_key() {
            return Ok(false);
        }
        let key = EncodedKey::new(header.keyspace, record.key);
        let key = key.as_bytes();
        if key < &*self.bounds.lower || &*self.bounds.upper <= key {
            return Ok(false);
        }
        if self.state.deleted.covers(key, header.seq, SEQ_MAX) {
            return Ok(true);
        }
        if header.kind.is_separated() || header.kind == RecordKind::Tag {
            return Ok(!self.is_needed(record, key, pointer)?);
        }
        Ok(!planted(Bug::DeadMarksOverlooked))
    }

    /// Whether a value, or the one that a tag stands for, is that of its key.
    fn is_needed(&self, record: &Record<'_>, key: &[u8], pointer: ValuePointer) -> Result<bool> {
        let (hash, seq) = (hash64(key, 0), record.header.seq);
        let is_it = |kind: EntryKind, found| kind.is_pointer() && found == seq;
        // What operands change is needed, too.
        let memtables = self.state.memtables.iter();
        let mut hits = memtables.flat_map(|slot| slot.table.versions(key, hash, SEQ_MAX));
        if let Some(hit) = hits.find(|hit| hit.kind.hides_older()) {
            return Ok(is_it(hit.kind, hit.seq));
        }
        if let Some(newest) = self.engine.find_apart(key) {
            return Ok(newest == pointer);
        }
        let known = self.state.version.versions_of(u64::MAX, key, hash, SEQ_MAX)?;
        let newest = known.into_iter().find(|it| it.kind.hides_older());
        Ok(newest.is_some_and(|newest| is_it(newest.kind, newest.seq)))
    }

    fn extent_has_dead(&self, extent: &Extent) -> Result<bool> {
        self.engine.check_open()?;
        let handle = self.state.segments.extent(extent.place)?.clone();
        let mut found = false;
        ExtentReader::new(handle, 1).scan(|record, pointer| {
            found = found || self.is_dead(record, pointer)?;
            Ok(())
        })?;
        Ok(found)
    }

    fn file_has_dead(&self, number: FileNumber, facts: &ValueFileMeta, len: u64) -> Result<bool> {
        let Some(segment) = self.state.segments.get(number) else { return Ok(false) };
        let failed = |e: Error| e.with("file", segment.name());
        let identity = segment.identity();
        let file = &**segment.file();
        let mut reader = LogReader::new(file, None, identity, facts.base, 0, Some(len))?;
        reader.header().map_err(failed)?;
        while let Some((offset, record)) = reader.next_record().map_err(failed)? {
            self.engine.check_open()?;
            let pointer =
                ValuePointer { file: number, offset, len: record.header.record_len() as u32 };
            if self.is_dead(&record, pointer)? {
                return Ok(true);
            }
        }
        if reader.offset() < len {
            let what = "a value file has a damaged record, and is not looked through";
            return Err(failed(Error::corruption(what)).with("offset", reader.offset()));
        }
        Ok(false)
    }
}

/// The log files, segments and extents of groups with dead records of a range, and all extents of
/// files that cannot be punched.
pub(crate) fn in_value_files(engine: &Engine, bounds: &Bounds) -> Result<WantedGone> {
    let search = Search::new(engine, bounds);
    let (live, mut found) = (&search.live, WantedGone::default());
    for (number, facts, len) in live.value_files.collectable(live.head_file()) {
        if search.file_has_dead(number, facts, len)? {
            found.files.insert(number);
        }
    }
    let groups = &live.groups;
    let meets = |(id, group): &(GroupId, &Group)| {
        groups.partition().meets(&group.bound, groups.end_of(*id), &bounds.lower, &bounds.upper)
    };
    for (id, _) in groups.groups().filter(meets) {
        for extent in groups.extents_of(id) {
            if search.extent_has_dead(extent)? {
                found.extents.insert(extent.place);
            }
        }
    }
    add_copied(&engine.storage, live, &mut found)?;
    Ok(found)
}

/// A group file with a second name, that of a checkpoint, is not punched: all of it goes if a part
/// of it does, or is gone already.
fn add_copied(storage: &MultiDirStorage, live: &LiveFiles, found: &mut WantedGone) -> Result<()> {
    for (number, facts) in live.value_files.group_files() {
        let extents = || live.groups.extents_in(number).map(|extent| extent.place);
        let len = facts.len.unwrap_or_default();
        let has_gaps = !value_files::holes(live, number, len).is_empty();
        if !has_gaps && !extents().any(|place| found.extents.contains(&place)) {
            continue;
        }
        let name = Name::numbered(FileKind::Group, number);
        let file = storage.open(&name, Mode::Read, Access::Random);
        let copied = file.and_then(|file| file.is_copied());
        if copied.map_err(|e| Error::unopened("open a value file", e).with("file", name))? {
            found.extents.extend(extents());
        }
    }
    Ok(())
}

/// The extents apart with dead records of a range, or with records of the store itself about keys
/// of the range.
pub(crate) fn in_extents_apart(engine: &Engine, bounds: &Bounds) -> Result<WantedGone> {
    let search = Search::new(engine, bounds);
    let mut found = WantedGone::default();
    for extent in search.live.groups.extents_apart() {
        if search.extent_has_dead(extent)? {
            found.extents.insert(extent.place);
        }
    }
    Ok(found)
}
