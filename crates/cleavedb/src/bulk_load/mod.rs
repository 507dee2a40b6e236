//! Bulk load: a stream of sorted keys becomes tables and value files, which one edit publishes
//! (decision 0047).
//!
//! All entries have one sequence number. It is chosen at the beginning, far above those in use, so
//! that records and tables need not be rewritten; the numbers of commits stay below it until the
//! load is published, and go on above it ([`install`]). Records wait in memory, a MemTable's worth,
//! and go where flushes and collections would put them in the end: values to groups or segments,
//! entries to tables.

mod chunk;
mod files;
mod install;
mod stubs;

use std::sync::Arc;

use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, ErrorKind, Expiry, Result, SeqNo, ValuePointer};
use cleavedb_index::Entry;
use cleavedb_storage::{Access, FileClass};
use cleavedb_values::collect::survivors::{NewSegment, SurvivorWriter};
use cleavedb_values::groups::writer::Written;

use self::chunk::Chunk;
use self::files::LoadedFiles;
pub(crate) use self::files::end_at_close;
use crate::batch::Op;
use crate::catalog::CatalogEntry;
use crate::encoded_op::EncodedOp;
use crate::engine::Engine;
use crate::jobs::run_writer::RunWriter;
use crate::jobs::separate::loaded;
use crate::limit::Need;
use crate::space::{budget, sizes};
use crate::write::{self, SEQS_RESERVED};

/// Sequence numbers that commits may use while a load is under way: 17 billion. There are enough
/// numbers for four million loads.
const SEQS_LEFT: SeqNo = 1 << 34;

/// Of this many keys one is looked up in the filters, to estimate how many are there already.
const SAMPLED: u64 = 64;

/// The result of a bulk load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngestReport {
    /// Keys that were loaded.
    pub entries: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Tables that were written.
    pub tables: u64,
    /// Of them, those that went to level 0, since others with such keys were there, or since a
    /// collection was under way: compactions move them.
    pub tables_in_level_0: u64,
    /// Bytes of files that were written.
    pub written: u64,
}

/// A bulk load, not published yet.
pub(crate) struct Load {
    engine: Arc<Engine>,
    keyspace: Arc<CatalogEntry>,
    /// The sequence number of all its entries.
    seq: SeqNo,
    chunk: Chunk,
    tables: RunWriter<Arc<Engine>>,
    segments: Vec<NewSegment>,
    groups: Written,
    /// The first and the last tree key.
    first: Vec<u8>,
    last: Vec<u8>,
    /// Keys that are in older tables, by estimate.
    overwritten: u64,
    /// Entries whose values stay in the index, and deletes.
    unseparated: u64,
    report: IngestReport,
    /// Whether an edit names its files, or may.
    named: bool,
}

impl Load {
    /// Begins a load into `keyspace`.
    pub(crate) fn begin(engine: Arc<Engine>, keyspace: Arc<CatalogEntry>) -> Result<Self> {
        keyspace.check()?;
        if engine.hot.as_ref().is_some_and(|store| store.is_incomplete()) {
            let what = "a hot segment is damaged: what a bulk load overwrites could come back; \
                        save the data to a new database (`cleave repair`), and load it there";
            return Err(Error::corruption(what));
        }
        files::begin(&engine)?;
        let begun = number(&engine).and_then(|seq| {
            // Those that are under way do not know of the load.
            loaded::without_flushes(&engine, || Ok(()))?;
            wait_for_collection(&engine)?;
            Ok(seq)
        });
        let seq = begun.inspect_err(|_| files::end(&engine, false))?;
        // Range tombstones of the time before are older than all of it.
        let tables = RunWriter::new(engine.clone(), seq - 1)
            .into_files_of(|engine| files::create(engine, FileClass::Levels, Access::Random));
        Ok(Self {
            engine,
            keyspace,
            seq,
            chunk: Chunk::default(),
            tables,
            segments: Vec::new(),
            groups: Written::default(),
            first: Vec::new(),
            last: Vec::new(),
            overwritten: 0,
            unseparated: 0,
            report: IngestReport::default(),
            named: false,
        })
    }

    /// Adds a key, which must be greater than those before. After an error the load must be
    /// dropped.
    pub(crate) fn put(&mut self, op: Op<'_>) -> Result<()> {
        op.check()?;
        self.engine.gate.check_open()?;
        let prepared = EncodedOp::new(op, &self.keyspace, &self.engine.time);
        let key = prepared.encoded_key.as_bytes();
        if self.report.entries > 0 && *key <= *self.last {
            return Err(unsorted(&self.last, key));
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        if self.report.entries == 0 {
            self.first.extend_from_slice(key);
        }
        if self.report.entries.is_multiple_of(SAMPLED) && self.is_there(&prepared) {
            self.overwritten += SAMPLED;
        }
        self.unseparated += u64::from(!prepared.is_separated());
        self.report.entries += 1;
        self.report.bytes += op.len();
        self.chunk.add(&prepared, self.seq);
        if self.chunk.memory() >= self.engine.options.memtable() { self.write() } else { Ok(()) }
    }

    /// Whether tables that own values may have the key.
    fn is_there(&self, op: &EncodedOp<'_>) -> bool {
        let state = self.engine.state.load();
        let version = &state.version;
        let owns = version.tables().any(|(_, table)| table.meta().pointer_bytes > 0);
        // A filter that cannot be read makes the estimate worse.
        owns && version.may_contain(op.encoded_key.as_bytes(), op.hash).unwrap_or(false)
    }

    /// Writes the records in memory.
    fn write(&mut self) -> Result<()> {
        let engine = &*self.engine;
        engine.check_open()?;
        self.keyspace.check()?;
        if let Some(limit) = engine.limit.as_ref().filter(|limit| limit.is_reached(Need::Write)) {
            return Err(budget::exhausted(engine, limit));
        }
        if engine.full.is_short() {
            write::check_disk_now(engine)?;
        }
        let chunk = std::mem::take(&mut self.chunk);
        let written = self.write_chunk(&chunk).map_err(|e| self.engine.with_volume(e));
        self.chunk = chunk;
        self.chunk.clear();
        written
    }

    fn write_chunk(&mut self, chunk: &Chunk) -> Result<()> {
        let engine = self.engine.clone();
        let places = match engine.options.layout.groups {
            Some(_) => self.write_groups(chunk)?,
            None => self.write_segments(chunk)?,
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

    /// Writes the separated values of `chunk` to new segments; returns their places.
    fn write_segments(&mut self, chunk: &Chunk) -> Result<Vec<ValuePointer>> {
        let engine = &*self.engine;
        let files = LoadedFiles { engine, class: FileClass::Segments };
        let segment_bytes = sizes::segment_bytes(engine);
        let mut writer = SurvivorWriter::new(&files, engine.database_id, segment_bytes);
        let separated = chunk.records().filter(|(_, header)| header.kind.is_separated());
        let places = separated.map(|(entry, header)| {
            let (_, key) = loaded::split_tree_key(entry.key)?;
            writer.append(&header, key, entry.value)
        });
        let places = places.collect::<Result<_>>()?;
        self.segments.extend(writer.finish()?);
        Ok(places)
    }

    /// Writes the separated values of `chunk` to their groups; returns their places.
    fn write_groups(&mut self, chunk: &Chunk) -> Result<Vec<ValuePointer>> {
        let files = LoadedFiles { engine: &self.engine, class: FileClass::Groups };
        let separated = chunk.records().filter(|(_, header)| header.kind.is_separated());
        let pending = &self.groups.extents;
        let (mut written, places) = loaded::write_loaded(&self.engine, separated, pending, &files)?;
        // The filters of whole groups do not learn of these keys; those of extents are asked.
        written.keys.clear();
        self.groups.add(written);
        Ok(places)
    }

    /// Bytes of the files that are complete.
    fn written(&self) -> u64 {
        let segments: u64 = self.segments.iter().map(|segment| segment.len).sum();
        self.tables.bytes() + segments + self.groups.bytes()
    }
}

impl Drop for Load {
    /// Ends the load; unless it was published its files are removed.
    fn drop(&mut self) {
        if self.engine.gate.is_own() {
            files::end(&self.engine, self.named);
        }
    }
}

/// The sequence number of a load that begins now.
fn number(engine: &Engine) -> Result<SeqNo> {
    let last = engine.commit.open_append()?.last_seq();
    if last > SEQ_MAX - SEQS_LEFT - 2 * SEQS_RESERVED {
        let what = "sequence numbers are used up; export the data and import it anew";
        return Err(Error::new(ErrorKind::NoSpace, what));
    }
    Ok(last + if planted(Bug::LoadNumberedEarly) { 0 } else { SEQS_LEFT })
}

/// Waits for the end of a collection that may have begun to split or merge groups.
fn wait_for_collection(engine: &Engine) -> Result<()> {
    if engine.options.layout.groups.is_none() {
        return Ok(());
    }
    let mut jobs = engine.jobs.lock();
    let begun = jobs.constraints.pinned_above;
    while begun.is_some() && jobs.constraints.pinned_above == begun {
        engine.check_open()?;
        engine.jobs.progress.wait_for(&mut jobs, install::LOOK);
    }
    Ok(())
}

/// The error of a key that is not greater than the one before.
#[cold]
fn unsorted(last: &[u8], key: &[u8]) -> Error {
    let shown = |key: &[u8]| {
        let user = loaded::split_tree_key(key).map_or(key, |(_, user)| user);
        let short = &user[..user.len().min(64)];
        let rest = if short.len() < user.len() { "..." } else { "" };
        format!("\"{}\"{rest}", short.escape_ascii())
    };
    let what = match key == last {
        true => format!("a bulk load has the key {} twice", shown(key)),
        false => format!("a bulk load has the key {} behind {}", shown(key), shown(last)),
    };
    let rule =
        "its keys must ascend; sort them, and load them anew: nothing of this load is stored";
    Error::new(ErrorKind::InvalidArgument, format!("{what}; {rule}"))
}
