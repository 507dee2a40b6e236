//! Chooses what to collect, and fixes its inputs under the locks.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::{FileNumber, Result, SeqNo};
use cleavedb_storage::quota::Plan;
use cleavedb_values::{GroupId, GroupTable};

use crate::background::jobs::Begin;
use crate::background::jobs::liveness::ReadView;
use crate::background::victims::{Choice, Victim};
use crate::engine::Engine;
use crate::engine::job_state::{Damaged, SHORT};
use crate::engine::read_points::ReadPoints;
use crate::store::full_disk::RoomTaken;
use crate::store::limit::{file_rewritten_max, rewritten_max};
use crate::store::manifest::LiveFiles;

/// A collection, with the inputs that were fixed when it began.
pub(crate) struct Collect<'e> {
    pub(super) engine: &'e Engine,
    pub(super) read_view: ReadView,
    pub(super) target: Victim,
    pub(super) groups: Arc<GroupTable>,
    /// Epoch of the youngest flush in the read state.
    pub(super) epoch: u64,
    /// Files and groups that cannot be collected, because they are damaged.
    pub(super) damaged: Damaged,
    /// Whether this collection tries a split again, so that no flush begins before its end.
    pub(super) retries_split: bool,
    /// The first group in which this collection found damage.
    pub(super) failed: Mutex<Option<GroupId>>,
    /// The space that is planned for its output, below a space limit.
    pub(super) plan: Option<Plan>,
    /// Bytes that the disk has room for, if the collection may be done in pieces.
    pub(super) room: Option<u64>,
    /// The part of that room that this collection has taken.
    _taken: RoomTaken,
    /// Whether a caller asked for it, or a split: then it need not win anything.
    pub(super) asked: bool,
    /// Files up to this number are collected because a caller asked for it.
    pub(super) forced: Option<FileNumber>,
    /// Bytes written, once it is installed, and whether it has won something.
    pub(super) written: u64,
    pub(super) won: bool,
}

impl Collect<'_> {
    /// Bytes of the files or extents to collect.
    pub(super) fn bytes(&self) -> u64 {
        self.target.bytes(&self.groups)
    }
}

/// The collection that is most overdue, if one may begin.
pub(super) fn plan(engine: &Engine, begin: Begin) -> Result<Option<Collect<'_>>> {
    let mut jobs = engine.jobs.lock();
    if jobs.constraints.pinned_above.is_some() || (jobs.split_waits.is_some() && jobs.flushing) {
        return Ok(None);
    }
    let manifest = engine.manifest.lock();
    let live = manifest.live();
    let choice = Choice::of(engine, live, &jobs.damaged, &jobs.survivors);
    let Some(target) = choice.choose_target(&jobs) else {
        (jobs.forced, jobs.collect_alone) = (None, false);
        return Ok(None);
    };
    begin.check(engine)?;
    if matches!(begin, Begin::AtClose) && target.bytes(&live.groups) > SHORT {
        return Ok(None);
    }
    let Some((target, plan)) = within_limit(engine, target, live) else {
        // Without room for it, a split no longer holds up flushes, and the caller's request is
        // dropped.
        (jobs.split_waits, jobs.forced) = (None, None);
        return Ok(None);
    };
    let mut points = ReadPoints::of_collection(engine, || read_point(engine));
    if planted(Bug::CollectionWithoutSnapshots) {
        points.snapshots.clear();
    }
    // Without the index entry that takes its place, a value cannot be dropped or replaced; a tag
    // stands for a value in a cold log.
    let table = &live.groups;
    let filter = engine
        .job_filter()
        .filter(|_| points.snapshots.is_empty())
        .filter(|_| table.has_all_entries());
    jobs.constraints.pinned_above = Some(pinned_above(live));
    jobs.collections_begun += 1;
    jobs.collection_applies = Some(points.uncovered_upto());
    if let Victim::File(victim, _) = target {
        engine.jobs.set_victim(victim);
    }
    let (epoch, groups) = (live.epoch, live.groups.clone());
    // While this thread holds the manifest's lock no flush can publish, so the read state has
    // exactly the tables up to the epoch.
    let state = engine.state.load_full();
    // A group that is to split must be collected as a whole, so only collections for space or on
    // request may be done in pieces.
    let asked = jobs.forced.is_some() || !jobs.wanted.is_empty();
    let choice = Choice::of(engine, live, &jobs.damaged, &jobs.survivors);
    let for_space = asked || choice.is_over();
    let room = (for_space && engine.limit.is_none()).then(|| engine.space().room_on_disk());
    let bytes = target.rewritten_max(&groups);
    let _taken = engine.full.take_room(bytes.min(room.unwrap_or(u64::MAX)));
    Ok(Some(Collect {
        engine,
        read_view: ReadView { state, points, filter },
        target,
        groups,
        epoch,
        damaged: jobs.damaged.clone(),
        retries_split: jobs.split_waits.is_some(),
        failed: Mutex::default(),
        plan,
        room,
        _taken,
        asked: asked || jobs.split_waits.is_some(),
        forced: jobs.forced,
        written: 0,
        won: true,
    }))
}

/// The part of `target` that there is room to rewrite, below the space limit.
fn within_limit(
    engine: &Engine,
    target: Victim,
    live: &LiveFiles,
) -> Option<(Victim, Option<Plan>)> {
    let groups = match target {
        Victim::File(_, ref facts) => {
            let plan = engine.space().plan(file_rewritten_max(facts))?;
            return Some((target, plan));
        }
        Victim::Groups(groups) => groups,
    };
    let bytes = |id: &GroupId| rewritten_max(&live.groups, *id);
    let fitting = [&groups[..], &groups[..1]].into_iter().find_map(|ids| {
        let plan = engine.space().plan(ids.iter().map(bytes).sum())?;
        Some((ids.to_vec(), plan))
    });
    fitting.map(|(ids, plan)| (Victim::Groups(ids), plan))
}

/// The youngest operation that a collection may take into account.
fn read_point(engine: &Engine) -> SeqNo {
    match planted(Bug::CollectionWithoutLogSync) {
        true => engine.commit.visible(),
        false => engine.options.log().read_point(engine.commit.visible(), engine.commit.durable()),
    }
}

/// The epoch above which runs stay in level 0 during a collection, so that the run of new pointers
/// can enter below them.
fn pinned_above(live: &LiveFiles) -> u64 {
    // The planted bug: a run of the next epoch may then sink below the run of new pointers.
    live.epoch + u64::from(planted(Bug::RunsSinkPastACollection)) * (1 << 32)
}
