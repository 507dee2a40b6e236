//! The integrity check: reads the whole database and verifies everything.

use std::collections::{BTreeMap, BTreeSet};

use cleavedb_base::checksum::hash64;
use cleavedb_base::filter::BloomFilter;
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::FileIdentity;
use cleavedb_base::{
    EncodedKey, EntryKind, Error, ErrorKind, FileNumber, KeyspaceId, Lasting, Result, ValuePointer,
};
use cleavedb_index::{MergeIter, ReadMode, VisibleIter};
use cleavedb_storage::log::LogReader;
use cleavedb_storage::{Access, FileKind, Mode, Name, Storage};
use cleavedb_values::groups::key_block::KeyBlock;
use cleavedb_values::groups::{Extent, Location};
use cleavedb_values::{GroupId, GroupTable, RetainedFile, ValueFileMeta};

use crate::control::progress::Progress;
use crate::engine::Engine;
use crate::reads::read;
use crate::reads::search::ReadFor;
use crate::settings::options::LogPolicy;
use crate::store::manifest::LiveFiles;
use crate::store::snapshot::{HeldBy, ReadPoint};
use crate::store::state::ReadState;

/// What a check has read, and the problems that it found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Tables read in full.
    pub tables: u64,
    /// Value files read in full.
    pub value_files: u64,
    /// Log files read in full that are kept for readers of changes, and for nothing else.
    pub retained_logs: u64,
    /// Records in all of them.
    pub records: u64,
    /// Visible keys of all keyspaces.
    pub keys: u64,
    /// Bytes of values that visible keys point to.
    pub value_bytes: u64,
    /// The problems found; empty if there are none. At most 100.
    pub problems: Vec<Error>,
    /// Problems that are not listed.
    pub unlisted: u64,
    /// Keys that are intact and cannot be read, each as the error of its read: a merge cannot be
    /// applied to the value below it, or this open does not know its operator. At most 100.
    pub unmerged: Vec<Error>,
    /// Number of all of them.
    pub unmerged_keys: u64,
}

/// Most problems, or keys, that are listed: a lost disk is one cause with many symptoms.
const PROBLEMS_MAX: usize = 100;

impl CheckReport {
    /// Lists a problem, unless the same damage is already listed: a place may be read several
    /// times.
    fn note(&mut self, result: Result<()>) {
        if let Err(problem) = result
            && !self.problems.iter().any(|known| is_same_damage(known, &problem))
        {
            match self.problems.len() {
                0..PROBLEMS_MAX => self.problems.push(problem),
                _ => self.unlisted += 1,
            }
        }
    }
}

/// Whether two problems concern one place, or have the same text.
fn is_same_damage(one: &Error, other: &Error) -> bool {
    let place = one.fact("file").zip(one.fact("offset"));
    let is_there = place.is_some() && place == other.fact("file").zip(other.fact("offset"));
    is_there || one.to_string() == other.to_string()
}

/// Checks the whole database in its current state.
pub(crate) fn check(engine: &Engine, progress: &Progress) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let held = engine.snapshots.take(HeldBy::Check, || engine.commit.visible(), &engine.time);
    // Under the manifest's lock the read state and the table of value files match.
    let (state, live, apart) = {
        let manifest = engine.manifest.lock();
        (engine.state.load_full(), manifest.live().clone(), engine.newest_apart())
    };
    let left_alone = engine.jobs.lock().damaged.extents.clone();
    let index: u64 = state.version.tables().map(|(_, table)| table.meta().size).sum();
    // The index is read three times: by itself, for the live bytes, and for the values.
    let retained: u64 = live.value_files.retained().map(|(_, file)| file.len).sum();
    let total = 3 * index + live.value_bytes() + live.owned() + retained;
    progress.begin(total);
    for (_, table) in state.version.tables() {
        report.tables += 1;
        let verified = table.table().and_then(|table| table.verify());
        report.note(verified);
        progress.add(table.meta().size)?;
    }
    check_values(&state, &live, engine.options.log(), &mut report, progress)?;
    check_retained(engine, &live, &mut report, progress)?;
    check_live_bytes(&state, &live, apart, &left_alone, &mut report);
    progress.add(index)?;
    check_pointers(engine, &state, held.at, &mut report, progress)?;
    check_directory(engine, &mut report)?;
    Ok(report)
}

/// Checks every sealed value file, front to back.
fn check_values(
    state: &ReadState,
    live: &LiveFiles,
    log: LogPolicy,
    report: &mut CheckReport,
    progress: &Progress,
) -> Result<()> {
    for segment in state.segments.iter() {
        let Some(facts) = live.value_files.get_whole(segment.number()) else { continue };
        let Some(len) = facts.len else { continue };
        progress.add(len)?;
        let is_log = live.value_files.is_log(segment.number());
        let needed = if !is_log || log.is_whole(facts.live) {
            Some(0)
        } else {
            needed_from(live, segment.number(), facts)
        };
        let Some(begin) = needed else { continue };
        report.value_files += 1;
        let identity = segment.identity();
        let base = if is_log { facts.base } else { 0 };
        let mut reader = LogReader::new(&**segment.file(), None, identity, base, begin, Some(len))?;
        let read = read_all(&mut reader, len, &mut report.records);
        report.note(read.map_err(|e| e.with("file", segment.name())));
    }
    report.value_files += live.value_files.group_files().count() as u64;
    for extent in live.groups.extents() {
        let checked = check_extent(state, &live.groups, extent, &mut report.records);
        report.note(checked);
        progress.add(extent.len())?;
    }
    Ok(())
}

/// Checks the log files that are kept for readers of changes. Those that go meanwhile are left out.
fn check_retained(
    engine: &Engine,
    live: &LiveFiles,
    report: &mut CheckReport,
    progress: &Progress,
) -> Result<()> {
    for (number, RetainedFile { base, len }) in live.value_files.retained() {
        progress.add(len)?;
        let name = Name::numbered(FileKind::Log, number);
        let identity = FileIdentity::new(engine.database_id, number);
        let mut records = 0;
        let opened = engine.storage.open(&name, Mode::Read, Access::Sequential);
        let read = opened.map_err(|e| Error::unopened("open a log file", e)).and_then(|file| {
            let mut reader = LogReader::new(&*file, None, identity, base, 0, Some(len))?;
            read_all(&mut reader, len, &mut records)
        });
        if read.is_ok() || engine.manifest.lock().live().value_files.is_retained(number) {
            report.retained_logs += 1;
            report.records += records;
            report.note(read.map_err(|e| e.with("file", name)));
        }
    }
    Ok(())
}

/// Offset from which on a file is needed where values do not stay in the log: of a log, only what
/// is behind the replay head. The rest may never have reached the device (decision 0011).
fn needed_from(live: &LiveFiles, number: FileNumber, facts: &ValueFileMeta) -> Option<u64> {
    let head = live.head.filter(|_| facts.kind == FileKind::Log);
    match head {
        Some(head) if number < head.file => None,
        Some(head) if number == head.file => Some(head.position - head.base),
        _ => Some(0),
    }
}

/// Checks one extent of a group, front to back.
fn check_extent(
    state: &ReadState,
    groups: &GroupTable,
    extent: &Extent,
    records: &mut u64,
) -> Result<()> {
    let handle = state.segments.extent(extent.place)?;
    let filter = handle.read_filter()?;
    let listing = handle.read_key_block()?;
    let segment = handle.segment();
    let (begin, end) = (extent.place.offset, extent.place.offset + extent.records_len);
    let identity = segment.identity();
    let mut reader = LogReader::new(&**segment.file(), None, identity, 0, begin, Some(end))?;
    let fail = |what, offset| {
        Err(Error::corruption(what).with("file", segment.name()).with("offset", offset))
    };
    let (mut counted, mut listed) = (0, KeyBlock::default());
    while let Some((offset, record)) = reader.next_record()? {
        let encoded_key = EncodedKey::new(record.header.keyspace, record.key);
        let denied = |filter: &BloomFilter| !filter.may_contain(hash64(encoded_key.as_bytes(), 0));
        let group = groups.group_of(encoded_key.as_bytes());
        let foreign = extent.group != GroupId::HOT && group != Some(extent.group);
        let above = !extent.last.is_empty() && *extent.last < *encoded_key.as_bytes();
        if foreign || above || filter.as_ref().is_some_and(denied) {
            let what = "a record lies in another group's extent, above the extent's last key, or \
                        its filter denies it";
            return fail(what, offset);
        }
        counted += 1;
        listed.add(&record.header, record.key, record.value, identity, offset);
    }
    *records += counted;
    if listing.is_some_and(|listing| listing != listed.bytes()) {
        return fail("the listing of an extent does not match its records", begin);
    }
    if counted != extent.records || reader.offset() != end {
        return fail("an extent has a damaged record", reader.offset());
    }
    Ok(())
}

/// Recounts the live bytes, which are those that entries in tables own, and the records `apart`;
/// but not of extents that are left alone, whose records may be unknown.
fn check_live_bytes(
    state: &ReadState,
    live: &LiveFiles,
    apart: Vec<ValuePointer>,
    left_alone: &BTreeSet<Location>,
    report: &mut CheckReport,
) {
    let mut owned = Owned { live, bytes: BTreeMap::new() };
    apart.into_iter().for_each(|pointer| owned.add(pointer));
    let mut merged = MergeIter::new(state.version.iters(None, None, ReadMode::Ahead));
    let counted = owned.count(&mut merged);
    if counted.is_err() {
        // The bytes that an unreadable table owns are not known.
        return report.note(counted);
    }
    for (place, known) in live.live_by_place() {
        if left_alone.contains(&place) {
            continue;
        }
        let counted = owned.bytes.get(&place).copied().unwrap_or_default();
        if counted != known {
            let what = "the known live bytes differ from what the index owns";
            let error = Error::corruption(what).with("known", known).with("index", counted);
            report.note(Err(error.with("file", place.file).with("offset", place.offset)));
        }
    }
}

/// Reads records up to `len`, the end of the last one.
fn read_all(reader: &mut LogReader<'_>, len: u64, records: &mut u64) -> Result<()> {
    while reader.next_record()?.is_some() {
        *records += 1;
    }
    if reader.offset() == len {
        return Ok(());
    }
    let what = "a log file or segment has a damaged record";
    Err(Error::corruption(what).with("offset", reader.offset()))
}

/// Bytes of records that entries own, by the place that counts them.
struct Owned<'a> {
    live: &'a LiveFiles,
    bytes: BTreeMap<Location, u64>,
}

impl Owned<'_> {
    /// Counts the bytes that entries own.
    fn count(&mut self, merged: &mut MergeIter) -> Result<()> {
        use cleavedb_index::EntryIter;
        merged.seek_first()?;
        while merged.valid() {
            let entry = merged.entry();
            if entry.kind.is_pointer() && !entry.repeat {
                let pointer = ValuePointer::of_entry(entry.kind, entry.value)?.value;
                self.add(pointer);
            }
            merged.next()?;
        }
        Ok(())
    }

    fn add(&mut self, pointer: ValuePointer) {
        // The old entry of a moved record names a place that is removed, and is not counted.
        if let Some(place) = self.live.place_of(pointer) {
            *self.bytes.entry(place).or_default() += u64::from(pointer.len);
        }
    }
}

/// Checks that every visible pointer leads to its record.
fn check_pointers(
    engine: &Engine,
    state: &ReadState,
    at: ReadPoint,
    report: &mut CheckReport,
    progress: &Progress,
) -> Result<()> {
    let seq = at.seq;
    debug_assert!(seq <= SEQ_MAX);
    let mut sources = Vec::new();
    for slot in &state.memtables {
        sources.extend(slot.table.iters());
    }
    sources.extend(state.version.iters(None, None, ReadMode::Ahead));
    // As of no time: values that have expired are checked, too, as long as they are there.
    let mut iter = VisibleIter::new(MergeIter::new(sources), seq, None, None)
        .without_deleted(state.deleted.fragments(seq));
    let mut step = iter.seek_first();
    while step.is_ok() && iter.valid() {
        let counts = !iter.key().starts_with(&KeyspaceId::SYSTEM.0.to_be_bytes());
        report.keys += u64::from(counts && !iter.until().is_over(at.time));
        if iter.kind() == EntryKind::Pointer {
            let resolved = ValuePointer::decode(iter.value())
                .and_then(|pointer| state.segments.check(pointer, iter.key(), iter.seq()));
            if let Ok(bytes) = &resolved {
                report.value_bytes += bytes;
                progress.add(*bytes)?;
            }
            if resolved.is_ok() || !is_left_over(&iter, state, at)? {
                report.note(resolved.map(|_| ()));
            }
        }
        if !iter.kind().hides_older() {
            let found = read::get_encoded(engine, iter.key(), Some(at), ReadFor::Engine);
            match found {
                // A merge that does not fit says nothing about the files.
                Err(e) if e.kind() == ErrorKind::Merge => {
                    report.unmerged_keys += 1;
                    if report.unmerged.len() < PROBLEMS_MAX {
                        let keyspace = engine.catalog.find(iter.key()).map(|(entry, _)| entry);
                        let name = keyspace.map(|entry| entry.name.clone()).unwrap_or_default();
                        report.unmerged.push(e.with("keyspace", name));
                    }
                }
                found => report.note(found.map(drop)),
            }
        }
        if iter.kind() == EntryKind::Marker {
            let found = read::get_encoded(engine, iter.key(), Some(at), ReadFor::Engine);
            if let Ok(Some(Lasting { value, .. })) = &found {
                report.value_bytes += value.len() as u64;
                progress.add(value.len() as u64)?;
            }
            let lost = || Error::corruption("a key that the index knows as hot has no value");
            report.note(found.and_then(|value| value.map(|_| ()).ok_or_else(lost)));
        }
        step = iter.next();
    }
    report.note(step);
    Ok(())
}

/// Whether an entry has expired and is a repeat, whose original a compaction may have dropped with
/// the record.
fn is_left_over(iter: &VisibleIter, state: &ReadState, at: ReadPoint) -> Result<bool> {
    if !iter.until().is_over(at.time) || planted(Bug::LeftOverIsDamage) {
        return Ok(false);
    }
    let (key, seq) = (iter.key(), iter.seq());
    let versions = state.version.versions_of(u64::MAX, key, hash64(key, 0), seq)?;
    Ok(versions.iter().any(|found| found.seq == seq && found.repeat))
}

/// Checks that no file of the manifest is missing.
fn check_directory(engine: &Engine, report: &mut CheckReport) -> Result<()> {
    // While the lock is held, no job adds or drops files after the directory was listed.
    let manifest = engine.manifest.lock();
    let live = manifest.live();
    let files = engine.storage.list().map_err(|e| Error::io("list the directory", e))?;
    let there =
        |kind, number| files.iter().any(|(name, _)| name.kind() == kind && name.number() == number);
    let missing = |kind, number| {
        let name = Name::numbered(kind, number);
        Err(Error::corruption("a file that the manifest names is missing").with("file", name))
    };
    let value_files = live.value_files.iter().map(|(number, facts)| (facts.kind, number));
    let retained = live.value_files.retained().map(|(number, _)| (FileKind::Log, number));
    for (kind, number) in value_files.chain(retained) {
        if !there(kind, number) {
            report.note(missing(kind, number));
        }
    }
    for (_, table) in live.version.tables() {
        if !there(FileKind::Table, table.number()) {
            report.note(missing(FileKind::Table, table.number()));
        }
    }
    Ok(())
}
