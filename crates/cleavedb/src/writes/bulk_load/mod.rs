//! Bulk load: a stream of sorted keys becomes tables and value files, which one edit publishes
//! (decision 0047).
//!
//! All entries have one sequence number. It is chosen at the beginning, far above those in use, so
//! that records and tables need not be rewritten; the numbers of commits stay below it until the
//! load is published, and go on above it ([`install`]). Records wait in memory, at most a
//! MemTable's worth, and go where flushes and collections would put them in the end: values to
//! groups or segments, entries to tables.
//!
//! The caller collects a chunk, a thread makes the bytes of files from the chunk before
//! ([`behind`]), and two more write and sync these files ([`files`]).

mod chunk;
mod files;
mod output;
mod behind;
mod install;

use std::sync::Arc;

use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, ErrorKind, Result, SeqNo};
use cleavedb_values::unexposed::Overwritten;

use self::behind::Behind;
use self::chunk::SortedChunk;
pub(crate) use self::files::end_at_close;
use self::output::LoadOutput;
use crate::background::jobs::separate::loaded;
use crate::background::scheduler;
use crate::engine::Engine;
use crate::operations::batch::Op;
use crate::operations::catalog::CatalogEntry;
use crate::operations::commit::Commit;
use crate::operations::encoded_op::EncodedOp;
use crate::writes::room::SEQS_RESERVED;

/// Sequence numbers that commits may use while a load is under way: 17 billion. There are enough
/// numbers for four million loads.
const SEQS_LEFT: SeqNo = 1 << 34;

/// Of this many keys one is looked up in the filters, to estimate how many are there already.
const SAMPLED: u64 = 64;

/// Bytes of records that are collected before they are written, at least.
const CHUNK_MIN: usize = 4 << 20;

/// A chunk is as long as the load before it divided by this, up to a MemTable: with each chunk all
/// extents of the load are gone through.
const CHUNK_PART: u64 = 16;

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
    chunk: SortedChunk,
    behind: Behind,
    /// The first and the last tree key.
    first: Vec<u8>,
    last: Vec<u8>,
    /// Estimate of the records in older tables that the load replaces.
    overwritten: Overwritten,
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
        if engine.is_apart_incomplete() {
            let what = "a hot segment is damaged: what a bulk load overwrites could come back; \
                        save the data to a new database (`cleave repair`), and load it there";
            return Err(Error::corruption(what));
        }
        files::begin(&engine)?;
        let begun = number(&engine.commit).and_then(|seq| {
            // Flushes that are under way do not know of the load.
            loaded::without_flushes(&engine, || Ok(()))?;
            scheduler::wait_for_collection(&engine)?;
            Ok((seq, LoadOutput::new(engine.clone(), seq)?))
        });
        let (seq, output) = begun.inspect_err(|_| files::end(&engine, false))?;
        let behind = Behind::new(output);
        Ok(Self {
            engine,
            keyspace,
            seq,
            chunk: SortedChunk::default(),
            behind,
            first: Vec::new(),
            last: Vec::new(),
            overwritten: Overwritten::default(),
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
            let len = if prepared.is_separated() { op.len() } else { 0 };
            let len = op.value.is_some().then_some(len);
            self.overwritten.add(len, SAMPLED);
        }
        self.unseparated += u64::from(!prepared.is_separated());
        self.report.entries += 1;
        self.report.bytes += op.len();
        self.chunk.add(&prepared, self.seq);
        if self.chunk.memory() >= self.chunk_bytes() { self.write() } else { Ok(()) }
    }

    /// Bytes of records after which they are written. The first chunks are short, so that a short
    /// load, too, is written while it goes on. Where each group gets a part of each chunk, chunks
    /// are as long as what a flush writes.
    fn chunk_bytes(&self) -> usize {
        let (options, most) = (&self.engine.options, self.engine.options.memtable());
        if options.layout().scatters() {
            return most;
        }
        let share = self.report.bytes / CHUNK_PART;
        usize::try_from(share).unwrap_or(most).max(CHUNK_MIN).min(most)
    }

    /// Whether tables that own values may have the key.
    fn is_there(&self, op: &EncodedOp<'_>) -> bool {
        let state = self.engine.state.load();
        let version = &state.version;
        let owns = version.tables().any(|(_, table)| table.meta().pointer_bytes > 0);
        // A filter that cannot be read makes the estimate worse.
        owns && version.may_contain(op.encoded_key.as_bytes(), op.hash).unwrap_or(false)
    }

    /// Begins to write the records in memory.
    fn write(&mut self) -> Result<()> {
        self.keyspace.check()?;
        let chunk = std::mem::take(&mut self.chunk);
        self.chunk = self.behind.write(chunk)?;
        Ok(())
    }
}

impl Drop for Load {
    /// Ends the load; unless it was published its files are removed.
    fn drop(&mut self) {
        if self.engine.gate.is_own() {
            let _ = self.behind.wait();
            files::end(&self.engine, self.named);
        }
    }
}

/// The sequence number of a load that begins now.
fn number(commit: &Commit) -> Result<SeqNo> {
    let last = commit.open_append()?.last_seq();
    if last > SEQ_MAX - SEQS_LEFT - 2 * SEQS_RESERVED {
        let what = "sequence numbers are used up; export the data and import it anew";
        return Err(Error::new(ErrorKind::NoSpace, what));
    }
    Ok(last + if planted(Bug::LoadNumberedEarly) { 0 } else { SEQS_LEFT })
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
