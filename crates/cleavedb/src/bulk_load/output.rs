//! What a bulk load has written so far: tables, and segments or extents of groups.

mod stubs;

use std::sync::Arc;

use cleavedb_base::record::Header;
use cleavedb_base::sync::side_by_side;
use cleavedb_base::{Error, Expiry, Result, SeqNo, ValuePointer};
use cleavedb_index::Entry;
use cleavedb_storage::{Access, FileClass};
use cleavedb_values::SegmentSet;
use cleavedb_values::collect::survivors::{NewSegment, SurvivorWriter};
use cleavedb_values::groups::writer::Written;

use super::chunk::Chunk;
use super::files::{self, LoadedFiles};
use crate::engine::Engine;
use crate::jobs::run_writer::RunWriter;
use crate::jobs::separate::loaded;
use crate::limit::Need;
use crate::options::Background;
use crate::pace::Pace;
use crate::space::{budget, sizes};
use crate::{value_files, write};

/// Parts of a chunk that are written at once: one fills its buffer while the other one waits for
/// the device.
const PARTS: usize = 2;

/// Files of a load, which no edit names yet.
pub(super) struct Output {
    pub(super) engine: Arc<Engine>,
    /// The sequence number of all entries.
    pub(super) seq: SeqNo,
    pub(super) tables: RunWriter<Arc<Engine>>,
    pub(super) segments: Vec<NewSegment>,
    pub(super) groups: Written,
}

/// A record of a chunk: the entry that has its stored value, and its header.
type Record<'c> = (Entry<'c>, Header);

impl Output {
    pub(super) fn new(engine: Arc<Engine>, seq: SeqNo) -> Self {
        // Range tombstones of the time before are older than all of it.
        let tables = RunWriter::new(engine.clone(), seq - 1, Pace::Flush)
            .into_files_of(|engine, _| files::create(engine, FileClass::Levels, Access::Direct));
        Self { engine, seq, tables, segments: Vec::new(), groups: Written::default() }
    }

    /// Writes the records of `chunk`.
    pub(super) fn write(&mut self, chunk: &Chunk) -> Result<()> {
        let engine = &*self.engine;
        engine.check_open()?;
        let bytes = sizes::bytes(engine) + self.bytes() + chunk.memory() as u64;
        let (table_bytes, segment_bytes) = sizes::of_load(engine, bytes);
        self.tables.cut_at(table_bytes);
        if let Some(limit) = engine.limit.as_ref().filter(|limit| limit.is_reached(Need::Write)) {
            return Err(budget::exhausted(engine, limit));
        }
        if engine.full.is_short() {
            write::check_disk_now(engine)?;
        }
        let written = self.write_records(chunk, segment_bytes);
        written.map_err(|e| self.engine.with_volume(e))
    }

    fn write_records(&mut self, chunk: &Chunk, segment_bytes: u64) -> Result<()> {
        let separated = chunk.records().filter(|(_, header)| header.kind.is_separated());
        let places = match self.engine.options.log().moves_to_groups() {
            true => self.write_groups(separated)?,
            false => self.write_segments(&separated.collect::<Vec<_>>(), segment_bytes)?,
        };
        let mut places = places.into_iter();
        let mut room = [0; ValuePointer::ENCODED_LEN_MAX];
        for (entry, header) in chunk.records() {
            if !header.kind.is_separated() {
                self.tables.add(entry)?;
                continue;
            }
            let (expiry, _) = Expiry::split(header.kind.expires(), entry.value)?;
            let place = places.next().ok_or_else(|| {
                Error::corruption("a bulk load has lost the place of a value that it wrote")
            })?;
            let (kind, len) = place.encode_entry(expiry, &mut room);
            self.tables.add(Entry { kind, value: &room[..len], ..entry })?;
        }
        Ok(())
    }

    /// Writes values to new segments; returns their places.
    fn write_segments(
        &mut self,
        records: &[Record<'_>],
        segment_bytes: u64,
    ) -> Result<Vec<ValuePointer>> {
        let engine = &*self.engine;
        let files = LoadedFiles { engine, class: FileClass::Segments };
        let write = |part: &[Record<'_>]| {
            let mut writer = SurvivorWriter::new(&files, engine.database_id, segment_bytes);
            let places = part.iter().map(|(entry, header)| {
                let (_, key) = loaded::split_tree_key(entry.key)?;
                writer.append(header, key, entry.value)
            });
            let places = places.collect::<Result<Vec<_>>>()?;
            Ok((places, writer.finish()?))
        };
        let parts = parts(records, segment_bytes);
        // Without background threads one thread does all parts, so that tests can be replayed.
        let done: Vec<Result<_>> = match engine.options.background {
            Background::Manual => parts.into_iter().map(write).collect(),
            Background::Threads(_) => side_by_side(&parts, write),
        };
        let mut places = Vec::with_capacity(records.len());
        for part in done {
            let (of_part, segments) = part?;
            places.extend(of_part);
            self.segments.extend(segments);
        }
        Ok(places)
    }

    /// Writes records to their groups; returns their places.
    pub(super) fn write_groups<'r>(
        &mut self,
        records: impl Iterator<Item = Record<'r>>,
    ) -> Result<Vec<ValuePointer>> {
        let files = LoadedFiles { engine: &self.engine, class: FileClass::Groups };
        let pending = &self.groups.extents;
        let (mut written, places) = loaded::write_loaded(&self.engine, records, pending, &files)?;
        // The filters of whole groups do not learn of these keys; those of extents are asked.
        written.keys.clear();
        self.groups.add(written);
        Ok(places)
    }

    /// The value files that were written, open for reads.
    pub(super) fn open(&self) -> Result<SegmentSet> {
        let segments = value_files::open_segments(&self.engine, &self.segments)?;
        let dictionaries = self.engine.catalog.dictionaries.clone();
        let opened = SegmentSet::new(dictionaries).with(&segments, &[]);
        value_files::with_written(&self.engine, &opened, &self.groups)
    }

    /// Bytes of the files that are complete.
    pub(super) fn bytes(&self) -> u64 {
        let segments: u64 = self.segments.iter().map(|segment| segment.len).sum();
        self.tables.bytes() + segments + self.groups.bytes()
    }
}

/// `records` in parts of about the same length, of half a segment each, at least.
fn parts<'r, 'c>(records: &'r [Record<'c>], segment_bytes: u64) -> Vec<&'r [Record<'c>]> {
    let len = |(_, header): &Record<'_>| header.record_len() as u64;
    let bytes: u64 = records.iter().map(len).sum();
    let part = (bytes / PARTS as u64).max(segment_bytes / 2);
    let (mut parts, mut rest) = (Vec::new(), records);
    while !rest.is_empty() {
        let mut so_far = 0;
        let count = rest.iter().take_while(|record| {
            let begun = so_far;
            so_far += len(record);
            begun < part
        });
        let count = count.count();
        let (first, others) = rest.split_at(count);
        parts.push(first);
        rest = others;
    }
    parts
}
