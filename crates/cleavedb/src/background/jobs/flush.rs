//! Flush: the oldest full MemTable becomes a run of level 0.
//!
//! Order (invariant 3): first the log is synced through the MemTable's end, if the run will point
//! into it; then the tables are synced; then the directory; then one edit publishes the run, the
//! live bytes and the replay head. If no pointer leads into the log, only the run must be durable:
//! log files below the head are dropped without a sync (decision 0011), except those that hold a
//! long value. Lone files stay as they are, and belong to the run from then on.

mod run;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::thread;
use cleavedb_base::{ErrorKind, FileNumber, Result};
use cleavedb_index::{KeySample, RunPosition};
use cleavedb_storage::FileClass;
use cleavedb_values::unexposed::{self, Overwritten};
use cleavedb_values::{SegmentSet, ValueFileEdit};

use self::run::LiveAdded;
use super::kept_versions::KeptVersions;
use super::new_files::{self, NewFiles};
use super::run_writer::RunWriter;
use super::separate::{self, ApartInstall, SeparatedValues};
use super::{About, Job};
use crate::background::log_retention;
use crate::background::memtables;
use crate::control::failures::JobKind;
use crate::control::flush_pace::FlushPace;
use crate::control::metrics::{Step, StopWatch};
use crate::control::pace::Pace;
use crate::control::throttle::Growth;
use crate::control::totals::Totals;
use crate::engine::Engine;
use crate::engine::job_state::JobState;
use crate::engine::read_points::ReadPoints;
use crate::engine::value_files;
use crate::engine::value_files::publish;
use crate::store::manifest::{Edit, LiveFiles};
use crate::store::state::{MemSlot, Sealed};

/// What a flush has written.
pub(crate) struct Flushed<'e> {
    writer: RunWriter<&'e Engine>,
    added: LiveAdded,
    grouped: SeparatedValues,
    /// Segments of the extents that were written, open for reads.
    opened: SegmentSet,
    watch: StopWatch,
}

/// The flush of one MemTable.
pub(crate) struct Flush<'e> {
    engine: &'e Engine,
    slot: Arc<MemSlot>,
    sealed: Sealed,
    start: Instant,
    /// How long flushes had waited before it.
    waited_before: Duration,
    written: u64,
}

impl<'e> Job<'e> for Flush<'e> {
    type Request = ();
    type Output = Flushed<'e>;
    type Done = ();

    /// Picks the oldest full MemTable; seals the one in use before, if promotions want a flush.
    /// `None` if a flush is under way, or while a split waits for another try.
    fn plan(engine: &'e Engine, (): ()) -> Result<Option<Self>> {
        memtables::rotate_for_promotions(engine);
        let mut state = engine.jobs.lock();
        let oldest = engine.state.load().oldest_sealed();
        let held = state.flushing || state.split_waits.is_some() || state.load_begins_groups();
        let Some((slot, sealed)) = oldest.filter(|_| !held) else { return Ok(None) };
        engine.poison.check()?;
        state.flushing = true;
        engine.pacer.begin_flush();
        let (start, waited_before) = (Instant::now(), engine.pacer.flushes_waited());
        Ok(Some(Self { engine, slot, sealed, start, waited_before, written: 0 }))
    }

    fn run(&mut self) -> Result<Flushed<'e>> {
        let (engine, sealed) = (self.engine, self.sealed);
        // Commits that took their sequence numbers before the table was sealed may still be
        // inserting.
        while engine.commit.visible() < sealed.last_seq && !planted(Bug::FlushBeforeInserts) {
            thread::yield_now();
        }
        let points = ReadPoints::of_flush(engine, sealed.last_seq);
        let is_needed = self.leads_into_log() && !planted(Bug::LongValueUnsynced);
        if is_needed || engine.tells_from_log() {
            engine.commit.sync_to(sealed.end)?;
        }
        let kept = KeptVersions::new(engine, &self.slot, &points);
        let pace = self.pace();
        let mut writer = RunWriter::new(engine, points.uncovered_upto(), pace.clone());
        writer.cut_like_level0(|| sample(&self.slot));
        let files = NewFiles::new(engine, FileClass::Groups, pace.clone());
        let apart_files = SeparatedValues::apart_files(engine, pace);
        let mut watch = StopWatch::start();
        let written = separate::write_groups(engine, &self.slot, &kept, &files, &apart_files);
        let written = written.and_then(|grouped| {
            engine.counters.spent(Step::FlushValues, watch.lap());
            let mut added = run::write(engine, &self.slot, &kept, &grouped, &mut writer)?;
            added.overwritten.bytes += grouped.replaced_by_apart();
            writer.finish()?;
            let opened =
                grouped.all_written().try_fold(SegmentSet::default(), |set, written| {
                    value_files::with_written(engine, &set, written)
                })?;
            Ok((added, grouped, opened))
        });
        let created = [&files, &apart_files];
        let written = written.map_err(|e| new_files::given_up(engine, &created, &writer, e));
        let (added, grouped, opened) = written?;
        engine.sync_dir()?;
        Ok(Flushed { writer, added, grouped, opened, watch })
    }

    fn install(&mut self, flushed: Flushed<'e>) -> Result<()> {
        let Flushed { writer, added, grouped, opened, mut watch } = flushed;
        let leads = self.leads_into_log() || planted(Bug::PointsIntoTheLog);
        let may_be = |file: &FileNumber| leads || self.slot.lone.has(*file);
        debug_assert!(added.bytes.keys().all(may_be), "a table points into a log that goes");
        let (engine, sealed, written) = (self.engine, self.sealed, &grouped.written);
        let mut manifest = engine.manifest.lock();
        let live = manifest.live();
        let epoch = live.epoch + 1;
        let hidden = hidden_after(live, added.overwritten);
        let garbage = hidden.saturating_sub(live.unexposed) as f64;
        let mut edit = Edit {
            epoch: Some(epoch),
            unexposed: Some(hidden),
            flushed: Some(sealed.last_seq),
            ..Edit::default()
        };
        edit.index.add_run(RunPosition { epoch, order: 0 }, writer.tables.iter().cloned());
        edit.value_files = added
            .bytes
            .iter()
            .map(|(file, bytes)| ValueFileEdit::LiveAdded(*file, *bytes))
            .collect();
        let hidden = added.hidden.iter();
        edit.value_files.extend(hidden.filter_map(|file| live.value_files.hide(*file)));
        edit.groups.extend(grouped.begins);
        publish(written, &mut edit);
        let apart = ApartInstall::new(engine, grouped.apart, live, &mut edit);
        value_files::advance_head(engine, live, sealed.end, &mut edit);
        let flush_written = writer.bytes() + written.bytes() + apart.bytes();
        let this = Totals { flushes: 1, flush_written, ..Totals::default() };
        // A process that dies loses no more of the counters than what came after its last flush.
        edit.totals = Some(engine.totals(&manifest).then(this));
        engine.commit_edit(&mut manifest, &edit)?;
        apart.publish()?;
        let LiveFiles { version, groups, .. } = manifest.live();
        engine.state.flushed(&self.slot, version, &opened, apart.emptied(), groups);
        apart.retire(manifest.live());
        let version = version.clone();
        engine.commit.flushed(sealed.last_seq);
        let value_files = &manifest.live().value_files;
        engine.jobs.lone_files.flushed(value_files, &added.hidden, sealed.last_seq);
        engine.commit.log.discard_below(sealed.end);
        engine.options.log().release_after_flush(|| self.slot.mark_flushed(&engine.commit.log));
        if planted(Bug::NeedlessUnderReaders) {
            engine.commit.log.release_range(self.slot.start..sealed.end);
        }
        value_files::drop_dead_files(engine, &mut manifest)?;
        log_retention::enforce(engine, &mut manifest)?;
        drop(manifest);
        super::open_ahead(engine, &version, &edit.index);
        engine.counters.flushes.add(1);
        engine.counters.flush_written.add(flush_written);
        self.written = flush_written;
        engine.counters.spent(Step::FlushIndex, watch.lap());
        let meanwhile = engine.commit.log.buffer().written_upto().saturating_sub(sealed.end);
        let (level0, meanwhile) = (writer.bytes() as f64, meanwhile as f64);
        engine.throttle.flushed(self.log_bytes(), Growth { level0, garbage, meanwhile });
        let covered = engine.space().covered(engine.throttle.growth().meanwhile);
        covered.into_iter().for_each(|most| engine.throttle.cover(most));
        let waited = engine.pacer.flushes_waited().saturating_sub(self.waited_before);
        let took = self.start.elapsed().saturating_sub(waited);
        engine.throttle.flush_took(self.log_bytes(), took);
        let crowded = || engine.state.load().waiting() >= engine.options.memtables_max();
        engine.throttle.fills_last(crowded);
        engine.trace_decisions();
        Ok(())
    }

    fn end(self, result: &Result<()>) -> impl FnOnce(&mut JobState) {
        let damaged = result.as_ref().is_err_and(|e| e.kind() == ErrorKind::Corruption);
        let emptied = self.engine.take_emptied_apart();
        move |state| {
            state.flushing = false;
            state.damaged.extents.extend(emptied.into_iter().filter(|_| damaged));
        }
    }

    fn bytes_written(&self) -> u64 {
        self.written
    }

    fn about(&self) -> About {
        let why = "a MemTable is full, or a caller asked for it";
        About { kind: JobKind::Flush, why, bytes: self.log_bytes() }
    }
}

impl Flush<'_> {
    /// Bytes of the log that the MemTable covers.
    fn log_bytes(&self) -> u64 {
        self.sealed.end - self.slot.start
    }

    /// How fast it writes: by what writers add to the log meanwhile. It does not wait if another
    /// full MemTable does, nor if other databases share its thread.
    pub(crate) fn pace(&self) -> Pace {
        let (engine, state) = (self.engine, self.engine.state.load());
        let next = state.memtables.iter().rev().nth(1);
        let may_wait = state.waiting() == 1 && engine.options.crew().is_none();
        let Some(next) = next.filter(|_| may_wait) else { return Pace::AtOnce };
        // The pace must not keep the MemTable if a reader keeps the file.
        let (next, start, log) = (Arc::downgrade(next), next.start, engine.commit.log.clone());
        let behind = move || {
            let next = next.upgrade().filter(|next| next.sealed().is_none());
            next.map(|_| log.buffer().written_upto().saturating_sub(start))
        };
        Pace::Flush(Arc::new(FlushPace::new(behind)))
    }

    /// Whether tables will point into the log that the MemTable covers: where the log stores all
    /// values, where it keeps the long ones, or where replay found values that were long under
    /// earlier options.
    fn leads_into_log(&self) -> bool {
        self.engine.options.log().is_pointed_to(self.slot.has_long())
    }
}

/// Estimated bytes of dead records whose entries no compaction has met yet, after a run has entered
/// the index that replaces `overwritten` records.
pub(crate) fn hidden_after(live: &LiveFiles, overwritten: Overwritten) -> u64 {
    let (owned, entries) = live.version.tables().fold((0, 0), |(bytes, entries), (_, table)| {
        (bytes + table.meta().pointer_bytes, entries + table.meta().entries)
    });
    unexposed::after_flush(live.unexposed, overwritten, owned, entries)
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
