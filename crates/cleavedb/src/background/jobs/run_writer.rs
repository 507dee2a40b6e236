//! Writes a run: tables of sorted entries, which end at the table length and at the table bounds of
//! level 0.

use std::ops::Deref;
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{FileNumber, Result, SeqNo};
use cleavedb_index::compaction::table_ends;
use cleavedb_index::{Entry, KeySample, RunPosition, TableBuilder, TableMeta};
use cleavedb_storage::{Access, File, FileClass};

use crate::control::pace::Pace;
use crate::engine::Engine;
use crate::store::manifest::LiveFiles;

/// Creates the file of a table.
type NewTable = dyn Fn(&Engine, &Pace) -> Result<(FileNumber, Arc<dyn File>)> + Send;

/// Tables of sorted entries, which end at the table length and at the table bounds of level 0.
pub(crate) struct RunWriter<E> {
    engine: E,
    new_table: Box<NewTable>,
    pace: Pace,
    /// See [`TableMeta::uncovered_upto`].
    uncovered_upto: SeqNo,
    table_bytes: u64,
    /// Keys before which a table ends, the next one last.
    split_keys: Vec<Box<[u8]>>,
    builder: Option<TableBuilder>,
    last_key: Vec<u8>,
    pub(crate) numbers: Vec<FileNumber>,
    pub(crate) tables: Vec<TableMeta>,
}

impl<E: Deref<Target = Engine>> RunWriter<E> {
    /// A writer of a run of which range tombstones up to `uncovered_upto` cover nothing.
    pub(crate) fn new(engine: E, uncovered_upto: SeqNo, pace: Pace) -> Self {
        let table_bytes = engine.space().compaction_options().table_end();
        Self {
            engine,
            new_table: Box::new(|engine, pace| {
                engine.create_paced(FileClass::Level0, Access::Random, pace)
            }),
            pace,
            uncovered_upto,
            table_bytes,
            split_keys: Vec::new(),
            builder: None,
            last_key: Vec::new(),
            numbers: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// The writer with files that `new_table` creates.
    pub(crate) fn into_files_of(
        self,
        new_table: impl Fn(&Engine, &Pace) -> Result<(FileNumber, Arc<dyn File>)> + Send + 'static,
    ) -> Self {
        Self { new_table: Box::new(new_table), ..self }
    }

    /// Ends tables at this length from now on, in bytes.
    pub(crate) fn cut_at(&mut self, table_bytes: u64) {
        self.table_bytes = table_bytes;
    }

    /// Takes back what [`RunWriter::new`] was told, before the first entry: the run will have
    /// entries that range tombstones may cover.
    pub(crate) fn may_be_covered(&mut self) {
        self.uncovered_upto = 0;
    }

    /// Ends tables at the bounds of level 0; `sample` samples the keys to come.
    pub(crate) fn cut_like_level0(&mut self, mut sample: impl FnMut() -> KeySample) {
        let version = self.engine.state.load().version.clone();
        let options = self.engine.space().compaction_options();
        let ends = table_ends(&version, &options, &mut sample);
        (self.table_bytes, self.split_keys) = (ends.bytes, ends.keys);
        self.split_keys.reverse();
    }

    /// Adds an entry. All versions of a key go to one table.
    pub(crate) fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        let full = self.builder.as_ref().is_some_and(|b| b.estimated_size() >= self.table_bytes);
        let mut passed = false;
        while self.split_keys.last().is_some_and(|cut| **cut <= *entry.key) {
            self.split_keys.pop();
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
                let engine = &*self.engine;
                let (number, file) = (self.new_table)(engine, &self.pace)?;
                self.numbers.push(number);
                let identity = engine.tables.identity(number);
                let options = engine.options.table_options();
                let builder = TableBuilder::new(file, identity, number, &options)?;
                let builder = builder.with_uncovered_upto(self.uncovered_upto);
                none.insert(builder).add(entry)
            }
        }
    }

    fn cut(&mut self) -> Result<()> {
        if let Some(builder) = self.builder.take() {
            self.tables.push(builder.finish()?);
        }
        Ok(())
    }

    /// Ends the last table. All tables are synced then.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.cut()
    }

    /// Bytes written.
    pub(crate) fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.size).sum()
    }
}

/// Where in level 0 the run of a collection enters that fixed its inputs at `epoch`.
pub(crate) fn run_position(live: &LiveFiles, epoch: u64) -> RunPosition {
    let position = live.version.next_position(epoch);
    if planted(Bug::RunAboveNextFlush) {
        return RunPosition { epoch: position.epoch + 1, order: position.order + 1 };
    }
    position
}
