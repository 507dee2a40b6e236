//! Flush: the oldest full MemTable becomes a run of level 0.
//!
//! Order (invariant 3): the log through the MemTable's end is synced, if the run will point into
//! it; then the tables; then the directory; then one edit publishes run, live bytes and replay
//! head. Where nothing points into the log, the run alone is what must be durable: log files below
//! the head are forgotten as they are (decision 0011), but for those that hold a long value.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use cleavedb_base::checksum::hash64;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::thread;
use cleavedb_base::{EntryKind, ErrorKind, FileNumber, Result, SeqNo, ValuePointer};
use cleavedb_index::{Entry, KeySample, Retention, RunPosition, TableBuilder, TableMeta};
use cleavedb_storage::{Access, FileClass, FileKind};
use cleavedb_values::{LedgerEdit, SegmentSet, hidden, victim};

use super::grouping::Grouped;
use super::new_files::NewFiles;

use crate::engine::Engine;
use crate::failures::JobKind;
use crate::groups::publish;
use crate::manifest::{Edit, LiveFiles, ReplayHead};
use crate::metrics::{Step, StopWatch};
use crate::state::{MemSlot, Sealed};

/// Tables written from sorted entries, cut at the table length and where level 0 is.
pub(crate) struct RunWriter<'a> {
    engine: &'a Engine,
    table_bytes: u64,
    /// Keys before which a table ends, the next one last.
    cuts: Vec<Box<[u8]>>,
    builder: Option<TableBuilder>,
    last_key: Vec<u8>,
    pub(crate) numbers: Vec<FileNumber>,
    pub(crate) tables: Vec<TableMeta>,
}

impl<'a> RunWriter<'a> {
    pub(crate) fn new(engine: &'a Engine) -> Self {
        Self {
            engine,
            table_bytes: engine.compaction_options().table_end(),
            cuts: Vec::new(),
            builder: None,
            last_key: Vec::new(),
            numbers: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// Ends tables where level 0 asks for it; `sample` tells the keys to come.
    pub(crate) fn cut_like_level0(&mut self, mut sample: impl FnMut() -> KeySample) {
        let version = self.engine.state.load().version.clone();
        let options = self.engine.compaction_options();
        let ends = options.level0.table_ends(&version, &options, &mut sample);
        (self.table_bytes, self.cuts) = (ends.bytes, ends.keys);
        self.cuts.reverse();
    }

    /// Adds an entry; versions of one key never part.
    pub(crate) fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        let full = self.builder.as_ref().is_some_and(|b| b.estimated_size() >= self.table_bytes);
        let mut passed = false;
        while self.cuts.last().is_some_and(|cut| **cut <= *entry.key) {
            self.cuts.pop();
            passed = true;
        }
        if (full || passed) && self.last_key != entry.key {
            self.cut()?;
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(entry.key);
        match &mut self.builder {
            Some(builder) => builder.add(entry),
            none => {
                let engine = self.engine;
                let (number, file) = engine.create_file(FileClass::Level0, Access::Random)?;
                self.numbers.push(number);
                let identity = engine.tables.identity(number);
                let options = engine.table_options();
                none.insert(TableBuilder::new(file, identity, number, &options)?).add(entry)
            }
        }
    }

    fn cut(&mut self) -> Result<()> {
        if let Some(builder) = self.builder.take() {
            self.tables.push(builder.finish()?);
        }
        Ok(())
    }

    /// Ends the last table; all tables are synced.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.cut()
    }

    /// Bytes written.
    pub(crate) fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.size).sum()
    }
}

/// What the run of a flush brings into the world.
#[derive(Default)]
struct Born {
    /// Bytes of records that the run points to, by file.
    bytes: BTreeMap<FileNumber, u64>,
    /// Keys that tables seem to hold already.
    overwritten: u64,
}

/// What a flush has written besides its run.
struct Flushed {
    born: Born,
    grouped: Grouped,
    /// What went into groups, open.
    opened: SegmentSet,
}

impl Engine {
    /// Flushes the oldest full MemTable, if there is one and nobody else does. If a split waits, it
    /// goes first, here, since other threads may have long work before them.
    pub(super) fn run_flush(&self) -> Result<bool> {
        if self.jobs.lock().split_waits.is_some() && self.run_collection()? {
            return Ok(true);
        }
        let (slot, sealed) = {
            let mut state = self.jobs.lock();
            let oldest = self.state.load().oldest_sealed();
            let held = state.flushing || state.split_waits.is_some();
            let Some((slot, sealed)) = oldest.filter(|_| !held) else {
                return Ok(false);
            };
            self.poison.check()?;
            state.flushing = true;
            (slot, sealed)
        };
        let start = Instant::now();
        let result = self.flush(&slot, sealed);
        if result.is_ok() {
            self.throttle.flushed(sealed.end - slot.start, start.elapsed());
            self.throttle.fills_last(|| self.state.load().waiting() >= self.options.memtables_max);
        }
        self.end_job(JobKind::Flush, &result, |state| state.flushing = false);
        result.map(|()| true)
    }

    /// Gives the memory that flushes and MemTables hand on to the system, when nothing is flushed.
    pub(super) fn clear_pages(&self) {
        if self.state.load().waiting() == 0 {
            self.flush_pages.clear();
            self.memtable_pages.clear();
        }
    }

    /// Sorts the MemTable that is flushed next, while the flush of the one before it waits for the
    /// device: for the thread that drains the log, where that has little to do.
    pub(super) fn sort_ahead(&self) {
        if !self.may_sort() {
            return;
        }
        let state = self.state.load_full();
        if let Some((slot, sealed)) = state.second_sealed()
            && self.commit.visible() >= sealed.last_seq
        {
            slot.table.sort();
        }
    }

    /// Whether there may be a MemTable to be sorted ahead.
    pub(super) fn may_sort(&self) -> bool {
        self.commit.log.is_lazy() && self.state.load().second_sealed().is_some()
    }

    fn flush(&self, slot: &Arc<MemSlot>, sealed: Sealed) -> Result<()> {
        // Commits that were numbered before the table was sealed may still be inserting.
        while self.commit.visible() < sealed.last_seq && !planted(Bug::FlushBeforeInserts) {
            thread::yield_now();
        }
        let (snapshots, _) = self.snapshots.fix(|| self.commit.visible());
        if self.leads_into_log(slot) && !planted(Bug::LongValueUnsynced) {
            self.commit.sync_to(sealed.end)?;
        }
        let mut writer = RunWriter::new(self);
        writer.cut_like_level0(|| sample(slot));
        let files = NewFiles::new(self, FileClass::Groups);
        let mut watch = StopWatch::start();
        let written = self.write_groups(slot, &snapshots, &files).and_then(|mut grouped| {
            self.counters.spent(Step::FlushValues, watch.lap());
            let born = self.write_run(slot, &snapshots, &mut grouped, &mut writer)?;
            writer.finish()?;
            let opened = self.with_written(&SegmentSet::default(), &grouped.written)?;
            Ok(Flushed { born, grouped, opened })
        });
        let flushed = written.map_err(|e| self.given_up(&[&files], &writer, e))?;
        self.sync_dir()?;
        self.install_flush(slot, sealed, &writer, flushed)?;
        self.counters.spent(Step::FlushIndex, watch.lap());
        Ok(())
    }

    /// Whether tables will point into the log that `slot` covers: all values are there, or long
    /// ones, or replayed ones that were long under other options.
    fn leads_into_log(&self, slot: &MemSlot) -> bool {
        self.options.log().is_pointed_to(slot.has_long())
    }

    /// Writes what somebody can still see.
    fn write_run(
        &self,
        slot: &MemSlot,
        snapshots: &[SeqNo],
        grouped: &mut Grouped,
        writer: &mut RunWriter<'_>,
    ) -> Result<Born> {
        let mut born = Born::default();
        let version = self.state.load().version.clone();
        // Where tables own no records, none of them can be dead there.
        let owns = version.tables().any(|(_, table)| table.meta().pointer_bytes > 0);
        let mut retention = Retention::new(snapshots);
        let one_in = hidden::one_in(slot.table.capacity());
        let mut keys = 0u64;
        let mut last_key: Option<&[u8]> = None;
        let mut encoded = [0; ValuePointer::ENCODED_LEN_MAX];
        slot.table.for_each_sorted(|entry| {
            if last_key != Some(entry.key) {
                retention.begin_key();
                last_key = Some(entry.key);
                keys += 1;
                // A filter that cannot be read costs an estimate, not the flush.
                let is_there = || version.may_contain(entry.key, hash64(entry.key, 0));
                if owns && keys.is_multiple_of(one_in) && is_there().unwrap_or(false) {
                    born.overwritten += one_in;
                }
            }
            if !retention.keep(entry.seq) {
                return Ok(());
            }
            if let Some(pointer) = grouped.pointer(&entry) {
                let len = pointer.encode(&mut encoded);
                let (kind, value) = (EntryKind::Pointer, &encoded[..len]);
                return writer.add(Entry { kind, value, ..entry });
            }
            if entry.kind == EntryKind::Pointer {
                let pointer = ValuePointer::decode(entry.value)?;
                *born.bytes.entry(pointer.file).or_default() += u64::from(pointer.len);
            }
            writer.add(entry)
        })?;
        Ok(born)
    }

    fn install_flush(
        &self,
        slot: &Arc<MemSlot>,
        sealed: Sealed,
        writer: &RunWriter<'_>,
        Flushed { born, grouped, opened }: Flushed,
    ) -> Result<()> {
        let leads = self.leads_into_log(slot) || planted(Bug::PointsIntoTheLog);
        debug_assert!(leads || born.bytes.is_empty(), "a table points into a log that goes");
        let written = &grouped.written;
        let mut manifest = self.manifest.lock();
        let live = manifest.live();
        let epoch = live.epoch + 1;
        let (owned, entries) =
            live.version.tables().fold((0, 0), |(bytes, entries), (_, table)| {
                (bytes + table.meta().pointer_bytes, entries + table.meta().entries)
            });
        let hidden = hidden::after_flush(live.hidden, born.overwritten, owned, entries);
        let mut edit = Edit {
            epoch: Some(epoch),
            hidden: Some(hidden),
            flushed: Some(sealed.last_seq),
            ..Edit::default()
        };
        edit.index.add_run(RunPosition { epoch, order: 0 }, writer.tables.iter().cloned());
        edit.ledger =
            born.bytes.iter().map(|(file, bytes)| LedgerEdit::Born(*file, *bytes)).collect();
        edit.groups.extend(grouped.begins);
        publish(written, &mut edit);
        self.advance_head(manifest.live(), sealed.end, &mut edit);
        self.commit_edit(&mut manifest, &edit)?;
        let LiveFiles { version, groups, .. } = manifest.live();
        self.state.flushed(slot, version, &opened, groups);
        let version = version.clone();
        self.commit.flushed(sealed.last_seq);
        self.commit.log.forget(sealed.end);
        self.options.log().release_after_flush(|| slot.is_flushed(&self.commit.log));
        if planted(Bug::NeedlessUnderReaders) {
            self.commit.log.needs_no_more(slot.start..sealed.end);
        }
        self.drop_dead_files(&mut manifest)?;
        drop(manifest);
        self.open_ahead(&version, &edit.index);
        self.counters.flushes.add(1);
        self.counters.flush_written.add(writer.bytes() + written.bytes());
        Ok(())
    }

    /// Moves the replay head to `position`: log files that end below are sealed in the ledger.
    pub(crate) fn advance_head(&self, live: &LiveFiles, mut position: u64, edit: &mut Edit) {
        if planted(Bug::HeadTooFar) {
            position = self.commit.log.ring().filled();
        }
        let mut files = self.jobs.log_files.lock();
        // The last file begun at or below the position holds it.
        let holder = files.iter().rposition(|(_, file)| file.base <= position);
        if let Some(holder) = holder {
            for (number, file) in files.drain(..holder) {
                let end = file.end().expect("a log file with a successor has ended");
                edit.ledger.push(LedgerEdit::Seal(number, file.base, end - file.base));
            }
            let (file, log) = (files[0].0, &files[0].1);
            edit.head = Some(ReplayHead { file, base: log.base, position });
        } else {
            edit.head = live.head;
        }
    }

    /// Drops value files in which nothing lives and which replay does not need. What killed their
    /// records is in tables, so it is durable.
    pub(crate) fn drop_dead_files(&self, manifest: &mut crate::manifest::Manifest) -> Result<()> {
        let live = manifest.live();
        let mut dead = victim::dead_files(&live.ledger, live.head_file());
        let victim = self.jobs.victim();
        dead.retain(|number| *number != victim || planted(Bug::VictimDroppedByOthers));
        if dead.is_empty() {
            return Ok(());
        }
        let ledger = dead.iter().map(|number| LedgerEdit::Remove(*number)).collect();
        let kinds: Vec<_> =
            dead.iter().filter_map(|n| Some((*n, live.ledger.get(*n)?.kind))).collect();
        self.commit_edit(manifest, &Edit { ledger, ..Edit::default() })?;
        self.retire_segments(&kinds);
        Ok(())
    }

    /// Takes dropped value files out of the picture; their files go with the last reader.
    pub(crate) fn retire_segments(&self, files: &[(FileNumber, FileKind)]) {
        let numbers: Vec<FileNumber> = files.iter().map(|(number, _)| *number).collect();
        let state = self.state.load_full();
        for (number, kind) in files {
            match state.segments.get(*number) {
                Some(segment) => segment.mark_obsolete(),
                // Nobody reads values from this log; it goes at once.
                None => {
                    let name = cleavedb_storage::Name::numbered(*kind, *number);
                    self.reaper.bury(name, self.options.log_file_bytes);
                }
            }
        }
        self.state.swap(|state| state.with_segments(state.segments.with(&[], &numbers)));
    }

    /// Removes what a job has written that failed before an edit could name it.
    pub(super) fn given_up(
        &self,
        files: &[&NewFiles<'_>],
        writer: &RunWriter<'_>,
        error: cleavedb_base::Error,
    ) -> cleavedb_base::Error {
        let error = self.with_volume(error);
        if !planted(Bug::FailedJobLeavesFiles) {
            files.iter().for_each(|files| files.discard());
            self.discard(FileKind::Table, &writer.numbers);
        }
        self.failed_write(error)
    }

    /// A background write that failed before an edit could name its files, which are gone: it is
    /// tried again later, unless the disk has become read-only.
    pub(super) fn failed_write(&self, error: cleavedb_base::Error) -> cleavedb_base::Error {
        match error.clone().with_remedy() {
            remedied if remedied.kind() == ErrorKind::ReadOnly => self.poison.set(remedied),
            _ => error,
        }
    }
}

/// The keys of a MemTable, each with the bytes of its newest version.
fn sample(slot: &MemSlot) -> KeySample {
    let mut sample = KeySample::default();
    let mut last_key: Option<&[u8]> = None;
    let Ok(()) = slot.table.for_each_sorted(|entry| {
        if last_key.replace(entry.key) != Some(entry.key) {
            sample.add(entry.key, (entry.key.len() + entry.value.len()) as u64);
        }
        Ok::<(), Infallible>(())
    });
    sample
}
