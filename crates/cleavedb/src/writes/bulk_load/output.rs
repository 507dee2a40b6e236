//! What a bulk load has written so far: tables, and segments or extents of groups.

mod stubs;

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::Header;
use cleavedb_base::{Error, Result, SeqNo, ValuePointer};
use cleavedb_index::Entry;
use cleavedb_storage::FileClass;
use cleavedb_values::SegmentSet;
use cleavedb_values::collect::survivors::{NewSegment, SurvivorWriter};
use cleavedb_values::groups::ExtentWriter;
use cleavedb_values::groups::writer::Written;

use super::chunk::SortedChunk;
use super::files::{LoadedFiles, NewValueFiles};
use crate::background::jobs::run_writer::RunWriter;
use crate::background::jobs::separate::loaded;
use crate::control::pace::Pace;
use crate::engine::Engine;
use crate::engine::value_files;
use crate::store::limit::Need;
use crate::writes::room;

/// Files of a load, which no edit names yet.
pub(super) struct LoadOutput {
    pub(super) engine: Arc<Engine>,
    /// The sequence number of all entries.
    pub(super) seq: SeqNo,
    files: Arc<LoadedFiles>,
    pub(super) tables: RunWriter<Arc<Engine>>,
    values: ValueWriter,
    /// What has ended: everything after [`LoadOutput::finish`].
    pub(super) segments: Vec<NewSegment>,
    pub(super) groups: Written,
}

/// The writer of values that leave the index.
enum ValueWriter {
    Segments(SurvivorWriter<'static>),
    Groups(Box<ExtentWriter<'static>>),
}

impl ValueWriter {
    fn new(engine: &Engine, files: &Arc<LoadedFiles>) -> Self {
        let files = |class| NewValueFiles { files: files.clone(), class };
        match engine.options.log().moves_to_groups() {
            true => Self::Groups(Box::new(loaded::writer(engine, files(FileClass::Groups)))),
            false => {
                let (files, len) =
                    (files(FileClass::Segments), engine.options.tuning.segment_bytes);
                Self::Segments(SurvivorWriter::new(files, engine.database_id, len))
            }
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Segments(writer) => writer.bytes(),
            Self::Groups(writer) => writer.bytes(),
        }
    }
}

/// A record of a chunk: the entry that has its stored value, and its header.
type Record<'c> = (Entry<'c>, Header);

impl LoadOutput {
    pub(super) fn new(engine: Arc<Engine>, seq: SeqNo) -> Result<Self> {
        let files = Arc::new(LoadedFiles::new(engine.clone())?);
        let new_table = {
            let files = files.clone();
            move |_: &Engine, _: &Pace| files.create(FileClass::Levels)
        };
        // Range tombstones of the time before are older than all of it.
        let tables = RunWriter::new(engine.clone(), seq - 1, Pace::AtOnce).into_files_of(new_table);
        let values = ValueWriter::new(&engine, &files);
        let (segments, groups) = Default::default();
        Ok(Self { engine, seq, files, tables, values, segments, groups })
    }

    /// Ends and syncs all files. More may be written, to new ones.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.end_files().map_err(|e| self.engine.with_volume(e))
    }

    fn end_files(&mut self) -> Result<()> {
        self.tables.finish()?;
        match std::mem::replace(&mut self.values, ValueWriter::new(&self.engine, &self.files)) {
            ValueWriter::Segments(writer) => self.segments.extend(writer.finish()?),
            ValueWriter::Groups(writer) => self.groups.add(writer.finish()?),
        }
        if planted(Bug::LoadNotAwaited) { Ok(()) } else { self.files.settle() }
    }

    /// Writes the records of `chunk`.
    pub(super) fn write(&mut self, chunk: &SortedChunk) -> Result<()> {
        let engine = &*self.engine;
        engine.check_open()?;
        let bytes = engine.space().bytes() + self.bytes() + chunk.memory() as u64;
        let (table_bytes, segment_bytes) = engine.space().of_load(bytes);
        self.tables.cut_at(table_bytes);
        if let Some(limit) = engine.limit.as_ref().filter(|limit| limit.is_reached(Need::Write)) {
            return Err(engine.space().exhausted(limit));
        }
        if engine.full.is_short() {
            room::check_disk(engine, Need::Write)?;
        }
        if let ValueWriter::Segments(writer) = &mut self.values {
            writer.cut_at(segment_bytes);
        }
        let written = self.files.check().and_then(|()| self.write_records(chunk));
        written.map_err(|e| self.engine.with_volume(e))
    }

    fn write_records(&mut self, chunk: &SortedChunk) -> Result<()> {
        let separated = chunk.records().filter(|(_, header)| header.kind.is_separated());
        let mut places = self.write_values(separated)?.into_iter();
        let mut room = [0; ValuePointer::ENCODED_LEN_MAX];
        for (entry, header) in chunk.records() {
            if !header.kind.is_separated() {
                self.tables.add(entry)?;
                continue;
            }
            let place = places.next().ok_or_else(|| {
                Error::corruption("a bulk load has lost the place of a value that it wrote")
            })?;
            let (kind, len) = place.encode_moved(entry.kind, entry.value, &mut room)?;
            self.tables.add(Entry { kind, value: &room[..len], ..entry })?;
        }
        Ok(())
    }

    /// Writes records that leave the index, or group tombstones; returns their places.
    pub(super) fn write_values<'r>(
        &mut self,
        records: impl Iterator<Item = Record<'r>>,
    ) -> Result<Vec<ValuePointer>> {
        match &mut self.values {
            ValueWriter::Groups(writer) => {
                loaded::write_loaded(&self.engine, records, &self.groups.extents, writer)
            }
            ValueWriter::Segments(writer) => {
                let place = |(entry, header): Record<'r>| {
                    let (_, key) = loaded::split_tree_key(entry.key)?;
                    writer.append(&header, key, entry.value)
                };
                records.map(place).collect()
            }
        }
    }

    /// The value files that were written, open for reads.
    pub(super) fn open(&self) -> Result<SegmentSet> {
        let segments = value_files::open_segments(&self.engine, &self.segments)?;
        let opened = self.engine.catalog.no_segments().with(&segments, &[]);
        value_files::with_written(&self.engine, &opened, &self.groups)
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        let ended: u64 = self.segments.iter().map(|segment| segment.len).sum();
        self.tables.bytes() + ended + self.groups.bytes() + self.values.bytes()
    }
}
