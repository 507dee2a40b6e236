//! How far the background is behind, and how hard writers are slowed down for it.

use cleavedb_index::compaction::Constraints;
use cleavedb_index::compaction::leveled::pick;

use crate::engine::Engine;
use crate::job_state::Damaged;
use crate::manifest::LiveFiles;
use crate::metrics::StallCause;
use crate::space::{budget, sizes};
use crate::survivors::Survivors;
use crate::throttle::Pressure;
use crate::victims;

/// How much writers are slowed down at most if they are not stopped.
const SLOWED: f64 = 0.99;

/// Recomputes how hard writers must be slowed down, and says so under the manifest's lock: of
/// two jobs that end, the later one has the last word. Else writers might wait for good for
/// what was done long ago.
pub(crate) fn update_pressure(engine: &Engine) {
    let jobs = engine.jobs.lock();
    let (damaged, survivors) = (jobs.damaged.clone(), jobs.survivors.clone());
    let merging = jobs.compactions > 0 || jobs.constraints.pinned_above.is_some();
    let constraints = jobs.constraints.clone();
    drop(jobs);
    let manifest = engine.manifest.lock();
    let live = manifest.live();
    sizes::note_bytes(engine, &manifest);
    let target = engine.options.level0_bytes;
    let level0 = live.version.level_bytes(0);
    let (start, stop) = (target.saturating_mul(2), target.saturating_mul(4));
    let mut compaction = Pressure::of(StallCause::Compaction, level0, start, stop);
    // Where damaged tables are in the way, nobody should wait for level 0 to become smaller.
    if compaction.level >= 1.0 && !merging && !compacts(engine, live, &constraints) {
        compaction.level = SLOWED;
    }
    let pressure = compaction.max(space_pressure(engine, live, &damaged, &survivors));
    engine.throttle.set(match budget::limit_pressure(engine, live) {
        // Then no compaction may have room, either: nobody should wait for one.
        Some(limit) if limit.level >= 1.0 => limit,
        Some(limit) => limit.max(pressure),
        None => pressure,
    });
}

/// How far values are beyond the space goal.
pub(crate) fn space_pressure(
    engine: &Engine,
    live: &LiveFiles,
    damaged: &Damaged,
    survivors: &Survivors,
) -> Pressure {
    // The log in use cannot be collected, and has a bound of its own: what the MemTables may
    // cover.
    let value_bytes = victims::counted_bytes(engine, live, damaged);
    let alive = live.estimated_live();
    let allowed = victims::space_goal(engine).allowed(alive);
    let over = value_bytes > allowed;
    let (start, mut stop) = (allowed - allowed / 32, allowed.saturating_add(allowed / 8));
    let garbage = engine.options.log().garbage(&engine.options, (value_bytes, alive, allowed));
    if let Some(garbage) = garbage {
        stop = stop.saturating_add(garbage.beyond);
        engine.throttle.cover(garbage.log_bytes_per_memtable_max);
    }
    // Where nothing can be won writers are slowed, but not stopped for ever.
    let hopeless = over
        && (!victims::can_shrink(engine, live, damaged, survivors)
            || budget::reclaims_nothing(engine, value_bytes));
    let stop = if hopeless { stop.max(value_bytes.saturating_mul(2)) } else { stop };
    Pressure::of(StallCause::Space, value_bytes, start, stop)
}

/// Whether a compaction would begin now.
pub(crate) fn compacts(engine: &Engine, live: &LiveFiles, constraints: &Constraints) -> bool {
    pick(&live.version, &sizes::compaction_options(engine), constraints).is_some()
}
