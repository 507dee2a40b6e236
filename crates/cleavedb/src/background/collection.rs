//! Collection: the oldest value files give back the space of what died in them.
//!
//! Prepare fixes, under the locks that publish and that create snapshots, the picture, the read
//! point S, the live snapshots and the epoch e of the youngest flush, and from then on keeps runs
//! of later epochs in level 0. Run reads and moves (see [`cleavedb_values::collect`]). Finish syncs
//! the log through S, so that what killed the others is durable (invariant 7), and swaps everything
//! by one edit: the run of new pointers enters level 0 at e, above all that was read and below all
//! later flushes, however long it took to write.

use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result, SeqNo};
use cleavedb_index::{Entry, KeySample, MemHit, Retention, RunPosition};
use cleavedb_storage::{Access, File, FileKind, Name};
use cleavedb_values::collect::{
    Collected, Liveness, RunEntry, SegmentFactory, Victim, Visible, collect,
};
use cleavedb_values::victim::{SpaceGoal, oldest_first};
use cleavedb_values::{FileFacts, LedgerEdit, hidden};
use parking_lot::Mutex;

use super::flush::RunWriter;
use crate::engine::Engine;
use crate::jobs::JobState;
use crate::manifest::{Edit, LiveFiles};
use crate::state::ReadState;

/// What a collection fixed when it began.
struct Fixed {
    state: Arc<ReadState>,
    victim: (FileNumber, FileFacts),
    snapshots: Vec<SeqNo>,
    read_point: SeqNo,
    /// Epoch of the youngest flush that the picture holds.
    epoch: u64,
}

/// The index as of the read point.
struct AsOf<'a> {
    fixed: &'a Fixed,
}

impl Liveness for AsOf<'_> {
    fn visible(&self, tree_key: &[u8], out: &mut Vec<Visible>) -> Result<()> {
        let Fixed { state, snapshots, read_point, .. } = self.fixed;
        let hash = hash64(tree_key, 0);
        let mut retention = Retention::new(snapshots);
        let mut hits: Vec<MemHit<'_>> = Vec::new();
        for slot in &state.memtables {
            slot.table.versions_of(tree_key, hash, *read_point, &mut hits);
        }
        for hit in hits.iter().filter(|hit| retention.keep(hit.seq)) {
            let value = hit.value.to_vec();
            out.push(Visible { seq: hit.seq, kind: hit.kind, value, in_table: false });
        }
        for found in state.version.versions_of(u64::MAX, tree_key, hash, *read_point)? {
            if retention.keep(found.seq) {
                let value = found.value.to_vec();
                out.push(Visible { seq: found.seq, kind: found.kind, value, in_table: true });
            }
        }
        Ok(())
    }
}

/// Creates segments and remembers them, so that a failed collection leaves nothing behind.
struct Segments<'a> {
    engine: &'a Engine,
    numbers: Mutex<Vec<FileNumber>>,
}

impl SegmentFactory for Segments<'_> {
    fn create(&self) -> Result<(Name, Arc<dyn File>)> {
        let (number, file) = self.engine.create_file(FileKind::Segment, Access::Direct)?;
        self.numbers.lock().push(number);
        Ok((Name::numbered(FileKind::Segment, number), file))
    }
}

impl Engine {
    /// What space is tolerated.
    pub(crate) fn space_goal(&self) -> SpaceGoal {
        SpaceGoal {
            amplification: self.options.space_amplification,
            floor: self.options.space_floor,
        }
    }

    /// Bytes of value files, the log in use included.
    pub(crate) fn value_bytes(&self, live: &LiveFiles) -> u64 {
        let open_log = self.commit.log.ring().filled() - self.log_in_use_from(live);
        live.ledger.sealed() + open_log
    }

    /// Log position from which on the ledger does not know the log yet.
    fn log_in_use_from(&self, live: &LiveFiles) -> u64 {
        let first = self.jobs.log_files.lock().first().map(|(_, file)| file.base);
        first.or(live.head.map(|head| head.base)).unwrap_or_default()
    }

    /// The file to collect, if one should be: space is beyond the goal, or somebody asked for all
    /// files up to a number.
    fn choose_victim(&self, live: &LiveFiles, jobs: &JobState) -> Option<FileNumber> {
        let sound = |number| !jobs.damaged.contains(&number);
        let victim = oldest_first(&live.ledger, live.head_file(), sound)?;
        let over = live.ledger.sealed() > self.space_goal().begin(live.estimated_live());
        (over || jobs.forced.is_some_and(|upto| victim <= upto)).then_some(victim)
    }

    pub(super) fn run_collection(&self) -> Result<bool> {
        let Some(fixed) = self.prepare_collection()? else { return Ok(false) };
        let result = self.collect_one(&fixed);
        self.jobs.set_victim(FileNumber(0));
        let damaged = result.as_ref().is_err_and(|e| e.kind() == ErrorKind::Corruption);
        self.jobs.finish(&result, |state| {
            state.constraints.hold_above = None;
            // A file with a damaged record is not collected again: it would block all others.
            state.damaged.extend(damaged.then_some(fixed.victim.0));
        });
        if result.is_ok() {
            self.update_pressure();
        }
        result.map(|()| true)
    }

    fn prepare_collection(&self) -> Result<Option<Fixed>> {
        let mut jobs = self.jobs.lock();
        if jobs.constraints.hold_above.is_some() {
            return Ok(None);
        }
        let manifest = self.manifest.lock();
        let live = manifest.live();
        let Some(victim) = self.choose_victim(live, &jobs) else {
            jobs.forced = None;
            return Ok(None);
        };
        self.check_open()?;
        let Some(facts) = live.ledger.get(victim).cloned() else { return Ok(None) };
        let (mut snapshots, read_point) = self.snapshots.fix(|| self.commit.visible());
        if planted(Bug::CollectionWithoutSnapshots) {
            snapshots.clear();
        }
        jobs.constraints.hold_above = Some(live.epoch);
        self.jobs.set_victim(victim);
        let epoch = live.epoch;
        // Under the manifest's lock no flush can publish: the picture's tables are those up to the
        // epoch.
        let state = self.state.load_full();
        Ok(Some(Fixed { state, victim: (victim, facts), snapshots, read_point, epoch }))
    }

    fn collect_one(&self, fixed: &Fixed) -> Result<()> {
        let (number, facts) = &fixed.victim;
        let segment = fixed.state.segments.get(*number).ok_or_else(|| {
            Error::corruption("the victim of a collection is not open").with("file", number)
        })?;
        let victim = Victim {
            segment: segment.clone(),
            base: facts.base,
            len: facts.len.unwrap_or_default(),
        };
        let segments = Segments { engine: self, numbers: Mutex::default() };
        let mut writer = RunWriter::new(self);
        let done = collect(
            &[victim],
            &AsOf { fixed },
            &segments,
            self.database_id,
            self.options.segment_bytes,
            &|| self.jobs.closing(),
        )
        .and_then(|collected| {
            writer.cut_like_level0(&sample(&collected.run));
            collected.run.iter().try_for_each(|entry| writer.add(as_entry(entry)))?;
            writer.finish()?;
            Ok(collected)
        });
        let collected = done.map_err(|e| {
            self.discard(FileKind::Segment, &segments.numbers.lock());
            self.discard(FileKind::Table, &writer.numbers);
            self.failed_write(e)
        })?;
        // From here on nothing is discarded: a failed sync or edit may have reached the disk.
        self.sync_dir()?;
        if !planted(Bug::CollectionWithoutLogSync) {
            self.commit.sync()?;
        }
        self.install_collection(fixed, &collected, &writer)
    }

    fn install_collection(
        &self,
        fixed: &Fixed,
        collected: &Collected,
        writer: &RunWriter<'_>,
    ) -> Result<()> {
        let (victim, facts) = &fixed.victim;
        let mut edit = Edit::default();
        let survived = collected.segments.iter().map(|new| new.live).sum();
        let mut opened = Vec::new();
        for new in &collected.segments {
            let number = new.name.number();
            edit.ledger.push(LedgerEdit::Add(number, FileKind::Segment));
            edit.ledger.push(LedgerEdit::Seal(number, 0, new.len));
            edit.ledger.push(LedgerEdit::Born(number, new.live));
            opened.push(self.open_segment(FileKind::Segment, number, None)?);
        }
        edit.ledger.push(LedgerEdit::Remove(*victim));
        let mut manifest = self.manifest.lock();
        let mut position = manifest.live().version.next_position(fixed.epoch);
        if planted(Bug::RunAboveNextFlush) {
            position = RunPosition { epoch: position.epoch + 1, order: position.order + 1 };
        }
        edit.index.add_run(position, writer.tables.iter().cloned());
        let live = manifest.live();
        let all = live.ledger.live();
        edit.hidden = Some(hidden::after_collection(live.hidden, facts.live, survived, all));
        if planted(Bug::UnlinkBeforeEdit) {
            self.discard(facts.kind, &[*victim]);
        }
        self.commit_edit(&mut manifest, &edit)?;
        let version = manifest.live().version.clone();
        self.swap_state(|state| ReadState {
            memtables: state.memtables.clone(),
            version: version.clone(),
            segments: Arc::new(state.segments.with(&opened, &[])),
        });
        self.retire_segments(&[(*victim, facts.kind)]);
        drop(manifest);
        self.counters.collections.add(1);
        self.counters.collection_read.add(collected.bytes_read);
        self.counters.collection_written.add(collected.bytes_moved + writer.bytes());
        Ok(())
    }

    /// Collects every value file that is sealed now, whether the space goal asks for it or not.
    pub(crate) fn collect_all(&self) -> Result<()> {
        {
            let mut jobs = self.jobs.lock();
            let manifest = self.manifest.lock();
            let live = manifest.live();
            jobs.forced = live.ledger.iter().map(|(number, _)| number).next_back();
        }
        self.settle()
    }
}

/// The keys of a run, with the bytes of their newest versions.
fn sample(run: &[RunEntry]) -> KeySample {
    let mut sample = KeySample::default();
    for versions in run.chunk_by(|a, b| a.key == b.key) {
        let newest = &versions[0];
        sample.add(&newest.key, (newest.key.len() + newest.value.len()) as u64);
    }
    sample
}

fn as_entry(entry: &RunEntry) -> Entry<'_> {
    let RunEntry { key, seq, kind, repeat, value } = entry;
    Entry { key, seq: *seq, kind: *kind, repeat: *repeat, value }
}
