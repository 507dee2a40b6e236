//! How a bulk load is published: by one edit, after which commits go on above its number.
//!
//! MemTables are searched before tables, so no MemTable may hold an older version of a key of the
//! load: all of them are flushed first. That goes without a pause for writers, and then once more
//! while commits wait, for what was written in between. Neither may the hot store, which is
//! searched before tables, too: it is emptied in the same way. Under the append lock, with nothing
//! in MemTables, the edit follows, then the read state, then the sequence number: what was
//! committed before the load is older, what comes after it is newer, and a reader sees all of it or
//! nothing.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::MutexGuard;
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_index::RunPosition;
use cleavedb_index::compaction::placement::LevelChooser;
use cleavedb_index::edit::AddedTable;
use cleavedb_values::SegmentSet;

use super::output::LoadOutput;
use super::{IngestReport, Load};
use crate::background::jobs::flush::hidden_after;
use crate::background::{maintenance, pressure};
use crate::engine::Engine;
use crate::engine::value_files;
use crate::operations::commit::Append;
use crate::operations::recent_writes::WrittenKeys;
use crate::store::manifest::{Edit, LiveFiles, LoadedRange};
use crate::writes::room::SEQS_RESERVED;

/// Keeps commits waiting, and the hot store empty, until it is dropped.
struct HeldCommits<'e>(&'e Engine);

impl Drop for HeldCommits<'_> {
    fn drop(&mut self) {
        self.0.commit.append().hold(false);
        self.0.jobs.wake_waiters();
    }
}

impl Load {
    /// Makes the load visible, and durable. If that fails, nothing of it is stored.
    pub(crate) fn finish(mut self) -> Result<IngestReport> {
        self.engine.jobs.lock().load.iter_mut().for_each(|load| load.finishing = true);
        self.write()?;
        let (mut output, _) = self.behind.wait()?;
        output.finish()?;
        self.report.tables = output.tables.tables.len() as u64;
        if self.report.entries == 0 {
            return Ok(self.report);
        }
        let engine = self.engine.clone();
        let engine = &*engine;
        let _paused = maintenance::PromotionsPaused::new(engine);
        flush_all(engine)?;
        let held = HeldCommits(engine);
        let append = loop {
            engine.commit.open_append()?.hold(true);
            flush_all(engine)?;
            let append = engine.commit.open_append()?;
            engine.commit.settle(&append);
            if is_flushed(engine, &append) || planted(Bug::LoadUnderMemTables) {
                break append;
            }
        };
        // No commit can be made; flushes of nothing may go on.
        drop(append);
        output.write_stubs(self.unseparated)?;
        output.finish()?;
        if !planted(Bug::LoadUnsynced) {
            engine.sync_dir()?;
        }
        let opened = output.open()?;
        let append = engine.commit.open_append()?;
        self.install(append, &output, &opened)?;
        drop(held);
        pressure::update_pressure(engine);
        engine.space().keep_reserve();
        engine.jobs.wake();
        self.report.written = output.bytes();
        engine.counters.user_bytes.add(self.report.bytes);
        engine.counters.flush_written.add(self.report.written);
        Ok(self.report)
    }

    /// Publishes everything, under the append lock.
    fn install(
        &mut self,
        mut append: MutexGuard<'_, Append>,
        output: &LoadOutput,
        opened: &SegmentSet,
    ) -> Result<()> {
        let engine = self.engine.clone();
        self.keyspace.check()?;
        if append.last_seq() >= self.seq && !planted(Bug::LoadNumberedEarly) {
            let what = "too many writes were made during a bulk load; load less at once";
            return Err(Error::new(ErrorKind::Conflict, what));
        }
        let options = engine.space().compaction_options();
        let jobs = engine.jobs.lock();
        let mut manifest = engine.manifest.lock();
        // Under the lock: the edit of a close must be the last.
        engine.check_open()?;
        let live = manifest.live();
        let epoch = live.epoch + 1;
        let seq_limit = (self.seq + SEQS_RESERVED).max(engine.jobs.seq_limit());
        let mut edit = Edit {
            epoch: Some(epoch),
            unexposed: Some(hidden_after(live, self.overwritten)),
            flushed: Some(self.seq),
            seq_limit: Some(seq_limit),
            ..Edit::default()
        };
        let mut placement = LevelChooser::new(&live.version, &options, &jobs.constraints);
        for meta in &output.tables.tables {
            let level = placement.level_of(meta);
            self.report.tables_in_level_0 += u64::from(level == 0);
            let position = (level == 0).then_some(RunPosition { epoch, order: 0 });
            edit.index.added.push(AddedTable { level, position, meta: meta.clone() });
        }
        // No job can be planned before the lock of the manifest is released.
        drop(jobs);
        value_files::add_segments(&output.segments, &mut edit);
        value_files::publish(&output.groups, &mut edit);
        let (first, last) = (self.first.clone(), self.last.clone());
        edit.changes.loads.extend(engine.told_of(LoadedRange { seq: self.seq, first, last }));
        let committed = engine.commit_edit(&mut manifest, &edit);
        self.named = committed.is_ok() || manifest.is_in_doubt();
        committed?;
        engine.jobs.set_seq_limit(seq_limit);
        let LiveFiles { version, groups, .. } = manifest.live();
        engine.state.swap(|state| {
            let state = state.with_version(version.clone());
            state.with_groups(state.segments.joined(opened), groups.clone())
        });
        engine.tell(edit.changes.loads);
        engine.commit.flushed(self.seq);
        // Before the lock is released: no compaction may take it for older than it is.
        let mut behind = self.last.clone();
        behind.push(0);
        let written = WrittenKeys::Range(self.first.as_slice().into(), behind.into());
        engine.commit.publish_load(&mut append, self.seq, written);
        Ok(())
    }
}

/// Whether every operation is in tables, and no key is hot nor will become so. The caller holds the
/// append lock, and no commit is under way.
fn is_flushed(engine: &Engine, append: &Append) -> bool {
    // The flush of an empty MemTable, too, may move keys to the hot store, if it began before the
    // store was paused.
    append.memtable.table.is_empty()
        && engine.state.load().waiting() == 0
        && maintenance::is_apart_empty(engine)
}

/// Flushes everything that was committed before the call, and empties the hot store.
fn flush_all(engine: &Engine) -> Result<()> {
    if planted(Bug::LoadUnderMemTables) {
        return Ok(());
    }
    maintenance::flush_all(engine)?;
    maintenance::empty_apart(engine)
}
