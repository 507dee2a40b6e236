//! What is collected, and what is fixed for it under the locks.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::{FileNumber, Result, SeqNo};
use cleavedb_storage::quota::Plan;
use cleavedb_values::{GroupId, GroupTable};

use crate::engine::Engine;
use crate::full_disk::RoomTaken;
use crate::job_state::{Damaged, SHORT};
use crate::jobs::Begin;
use crate::jobs::liveness::ReadView;
use crate::limit::{file_rewritten_max, rewritten_max};
use crate::manifest::LiveFiles;
use crate::space::{budget, reserve};
use crate::victims::{self, Target};

/// A collection, with what was fixed when it began.
pub(crate) struct Collect<'e> {
    pub(super) engine: &'e Engine,
    pub(super) read_view: ReadView,
    pub(super) target: Target,
    pub(super) groups: Arc<GroupTable>,
    /// Epoch of the youngest flush that the read state holds.
    pub(super) epoch: u64,
    /// What cannot be collected.
    pub(super) damaged: Damaged,
    /// Whether no flush begins before this collection has ended.
    pub(super) retries_split: bool,
    /// The first group that was found to be damaged.
    pub(super) failed: Mutex<Option<GroupId>>,
    /// Space for what it writes, where space is limited.
    pub(super) plan: Option<Plan>,
    /// What the disk has room for, if it may be done in pieces.
    pub(super) room: Option<u64>,
    /// What it takes of that.
    _taken: RoomTaken,
    /// Files up to this number are to be collected.
    pub(super) forced: Option<FileNumber>,
}

impl Collect<'_> {
    /// Bytes of what is collected.
    pub(super) fn bytes(&self) -> u64 {
        self.target.bytes(&self.groups)
    }
}

/// The collection that is due most, if one may begin.
pub(super) fn plan(engine: &Engine, begin: Begin) -> Result<Option<Collect<'_>>> {
    let mut jobs = engine.jobs.lock();
    if jobs.constraints.pinned_above.is_some() || (jobs.split_waits.is_some() && jobs.flushing) {
        return Ok(None);
    }
    let manifest = engine.manifest.lock();
    let live = manifest.live();
    let Some(target) = victims::choose_target(engine, live, &jobs) else {
        (jobs.forced, jobs.collect_alone) = (None, false);
        return Ok(None);
    };
    begin.check(engine)?;
    if matches!(begin, Begin::AtClose) && target.bytes(&live.groups) > SHORT {
        return Ok(None);
    }
    let Some((target, plan)) = within_limit(engine, target, live) else {
        // A split that there is no room for is not waited for, nor is what was asked for.
        (jobs.split_waits, jobs.forced) = (None, None);
        return Ok(None);
    };
    let (mut snapshots, read_point) = engine.snapshots.fix(|| read_point(engine));
    if planted(Bug::CollectionWithoutSnapshots) {
        snapshots.clear();
    }
    jobs.constraints.pinned_above = Some(pinned_above(&target, live));
    if let Target::File(victim, _) = target {
        engine.jobs.set_victim(victim);
    }
    let (epoch, groups) = (live.epoch, live.groups.clone());
    // Under the manifest's lock no flush can publish: the tables that readers see are those up
    // to the epoch.
    let state = engine.state.load_full();
    // Groups that are to split do so as a whole, or not at all.
    let for_space = jobs.forced.is_some() || victims::is_over(engine, live, &jobs.damaged);
    let room = (for_space && engine.limit.is_none()).then(|| reserve::room_on_disk(engine));
    let bytes = target.rewritten_max(&groups);
    let _taken = engine.full.take_room(bytes.min(room.unwrap_or(u64::MAX)));
    Ok(Some(Collect {
        engine,
        read_view: ReadView { state, snapshots, read_point },
        target,
        groups,
        epoch,
        damaged: jobs.damaged.clone(),
        retries_split: jobs.split_waits.is_some(),
        failed: Mutex::default(),
        plan,
        room,
        _taken,
        forced: jobs.forced,
    }))
}

/// As much of `target` as there is room to rewrite, below the space limit.
fn within_limit(
    engine: &Engine,
    target: Target,
    live: &LiveFiles,
) -> Option<(Target, Option<Plan>)> {
    let groups = match target {
        Target::File(_, ref facts) => {
            let plan = budget::plan(engine, file_rewritten_max(facts))?;
            return Some((target, plan));
        }
        Target::Groups(groups) => groups,
    };
    let bytes = |id: &GroupId| rewritten_max(&live.groups, *id);
    let fitting = [&groups[..], &groups[..1]].into_iter().find_map(|ids| {
        let plan = budget::plan(engine, ids.iter().map(bytes).sum())?;
        Some((ids.to_vec(), plan))
    });
    fitting.map(|(ids, plan)| (Target::Groups(ids), plan))
}

/// The youngest operation that a collection may believe.
fn read_point(engine: &Engine) -> SeqNo {
    match planted(Bug::CollectionWithoutLogSync) {
        true => engine.commit.visible(),
        false => engine.options.log().read_point(engine.commit.visible(), engine.commit.durable()),
    }
}

/// The epoch above which runs stay in level 0 while `target` is collected: its run of new pointers
/// is to enter below them. Where pointers are soft there will be no run.
fn pinned_above(target: &Target, live: &LiveFiles) -> u64 {
    if matches!(target, Target::Groups(_)) && !live.groups.relocation().writes_run() {
        return u64::MAX;
    }
    // A run of the next epoch, too, may then sink below the run of new pointers.
    live.epoch + u64::from(planted(Bug::RunsSinkPastACollection)) * (1 << 32)
}
