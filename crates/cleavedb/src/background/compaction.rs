//! Compaction: runs the index's jobs and publishes their edits, with what died in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleavedb_base::record::FileIdentity;
use cleavedb_base::{FileNumber, Result, ValuePointer};
use cleavedb_index::compaction::job::{CompactionJob, DropSink, TableFactory};
use cleavedb_index::compaction::leveled::{pick, pick_full};
use cleavedb_index::compaction::{Compaction, CompactionOptions, Constraints};
use cleavedb_index::{Entry, Version};
use cleavedb_storage::{Access, File, FileKind};
use cleavedb_values::{LedgerEdit, hidden};

use crate::engine::Engine;
use crate::manifest::Edit;
use crate::state::ReadState;

/// Adds up, by file, the bytes of records whose last pointer goes.
#[derive(Default)]
struct Deaths {
    died: BTreeMap<FileNumber, u64>,
    damaged: Option<cleavedb_base::Error>,
}

impl DropSink for Deaths {
    fn dropped(&mut self, entry: Entry<'_>) {
        match ValuePointer::decode(entry.value) {
            Ok(pointer) => *self.died.entry(pointer.file).or_default() += u64::from(pointer.len),
            Err(e) => self.damaged = Some(e),
        }
    }
}

impl TableFactory for Engine {
    fn create(&self) -> Result<(FileNumber, Arc<dyn File>, FileIdentity)> {
        let (number, file) = self.create_file(FileKind::Table, Access::Random)?;
        Ok((number, file, self.tables.identity(number)))
    }
}

impl Engine {
    pub(super) fn compaction_options(&self) -> CompactionOptions {
        CompactionOptions {
            level0: self.options.level0,
            l0_bytes: self.options.level0_bytes,
            l1_bytes: self.options.level1_bytes,
            table_bytes: self.options.table_bytes,
            ..CompactionOptions::default()
        }
    }

    pub(super) fn run_compaction(&self) -> Result<bool> {
        self.compact_picked(|version, constraints| {
            pick(version, &self.compaction_options(), constraints)
        })
    }

    /// Merges everything into the deepest level that has data.
    pub(crate) fn compact_all(&self) -> Result<()> {
        self.settle()?;
        self.compact_picked(|version, constraints| pick_full(version, constraints, None, None))?;
        self.settle()
    }

    fn compact_picked(
        &self,
        choose: impl FnOnce(&Version, &Constraints) -> Option<Compaction>,
    ) -> Result<bool> {
        let (mut job, compaction) = {
            let mut jobs = self.jobs.lock();
            let manifest = self.manifest.lock();
            let version = manifest.live().version.clone();
            let Some(compaction) = choose(&version, &jobs.constraints) else {
                return Ok(false);
            };
            self.check_open()?;
            jobs.constraints.start(&compaction);
            jobs.compactions += 1;
            let (snapshots, _) = self.snapshots.fix(|| self.commit.visible());
            let options = (self.compaction_options(), self.table_options());
            let job = CompactionJob::prepare(
                &version,
                compaction.clone(),
                snapshots,
                &options.0,
                &options.1,
            );
            let held = |epoch| {
                compaction
                    .inputs
                    .iter()
                    .any(|input| input.position.is_some_and(|position| position.epoch > epoch))
            };
            let job = match jobs.constraints.hold_above {
                Some(epoch) if held(epoch) => job.below_which_a_run_may_enter(),
                _ => job,
            };
            (job, compaction)
        };
        let mut deaths = Deaths::default();
        let result = job
            .run(self, &mut deaths, self.jobs.closing_flag())
            .and_then(|()| deaths.damaged.take().map_or(Ok(()), Err));
        let result = match result {
            Ok(()) => self.install_compaction(job, deaths.died),
            Err(e) => {
                self.discard(FileKind::Table, job.created());
                Err(self.failed_write(e))
            }
        };
        self.jobs.finish(&result, |state| {
            state.constraints.end(&compaction);
            state.compactions -= 1;
        });
        if result.is_ok() {
            self.update_pressure();
        }
        result.map(|()| true)
    }

    fn install_compaction(
        &self,
        job: CompactionJob,
        died: BTreeMap<FileNumber, u64>,
    ) -> Result<()> {
        let moves = job.compaction().moves;
        let (index, stats) = job.finish();
        let mut manifest = self.manifest.lock();
        // Records of files that are gone were moved by a collection; their new entries own them.
        let known = |number: &FileNumber| manifest.live().ledger.get(*number).is_some();
        let ledger = died
            .iter()
            .filter(|(number, _)| known(number))
            .map(|(number, bytes)| LedgerEdit::Died(*number, *bytes))
            .collect();
        let before = manifest.live().version.clone();
        let died = died.values().sum();
        let hidden = Some(hidden::after_compaction(manifest.live().hidden, died));
        let edit = Edit { index, ledger, hidden, ..Edit::default() };
        self.commit_edit(&mut manifest, &edit)?;
        let version = manifest.live().version.clone();
        self.swap_state(|state| ReadState {
            memtables: state.memtables.clone(),
            version: version.clone(),
            segments: state.segments.clone(),
        });
        before.retire(&edit.index);
        drop(before);
        self.drop_dead_files(&mut manifest)?;
        drop(manifest);
        let counter =
            if moves { &self.counters.compaction_moves } else { &self.counters.compactions };
        counter.add(1);
        if !moves {
            self.counters.compaction_read.add(stats.input_bytes);
            self.counters.compaction_written.add(stats.output_bytes);
        }
        Ok(())
    }
}
