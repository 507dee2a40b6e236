//! How far background work is behind, and how much writers are slowed down for it.

use cleavedb_index::compaction::leveled::pick;

use crate::background::victims::{Choice, space_goal};
use crate::control::metrics::StallCause;
use crate::control::throttle::{Pressure, SLOWED};
use crate::engine::Engine;

/// Recomputes how much writers must be slowed down, and sets it under the manifest's lock, so that
/// of two jobs that end the later one's result stays. Otherwise an outdated result could stop
/// writers for good.
pub(crate) fn update_pressure(engine: &Engine) {
    let jobs = engine.jobs.lock();
    let (damaged, survivors) = (jobs.damaged.clone(), jobs.survivors.clone());
    let merging = jobs.compactions > 0 || jobs.constraints.pinned_above.is_some();
    let constraints = jobs.constraints.clone();
    drop(jobs);
    let manifest = engine.manifest.lock();
    let live = manifest.live();
    engine.space().note_bytes(&manifest);
    let (target, _) = engine.options.level_bytes(live.version.contents());
    let level0 = live.version.level_bytes(0);
    let (start, stop) = (target.saturating_mul(2), target.saturating_mul(4));
    let growth = engine.throttle.growth().level0;
    let mut compaction = Pressure::growing(StallCause::Compaction, level0, start, stop, growth);
    // If damaged tables prevent a compaction, level 0 will not become smaller: writers are slowed,
    // but not stopped for it.
    let picked = || pick(&live.version, &engine.space().compaction_options(), &constraints);
    if compaction.level >= 1.0 && !merging && picked().is_none() {
        compaction.level = SLOWED;
    }
    engine.pacer.be_gentle(engine.space().rests());
    let choice = Choice::of(engine, live, &damaged, &survivors);
    let pressure = compaction.max(space_pressure(choice));
    engine.throttle.set(match engine.space().limit_pressure(live) {
        // At the space limit no compaction may have room, so writers are stopped for the limit
        // instead.
        Some(limit) if limit.level >= 1.0 => limit,
        Some(limit) => limit.max(pressure),
        None => pressure,
    });
}

/// How far the bytes of values exceed the space goal.
fn space_pressure(choice: Choice<'_>) -> Pressure {
    let Choice { live, space, .. } = choice;
    let (options, throttle) = (space.options, space.throttle);
    // The log in use cannot be collected, so it is not counted; the bytes that MemTables may cover
    // bound it.
    let value_bytes = choice.counted_bytes();
    let alive = live.estimated_live();
    let allowed = space_goal(options, live).allowed(alive);
    let over = value_bytes > allowed;
    let (start, mut stop) = (allowed - allowed / 32, allowed.saturating_add(allowed / 8));
    let growth = throttle.growth().garbage;
    let garbage = options.log().garbage(options, value_bytes, alive, allowed, growth);
    if let Some(garbage) = garbage {
        stop = stop.saturating_add(garbage.beyond);
        throttle.cover(garbage.log_bytes_per_memtable_max);
    }
    // If no collection can free space, writers are slowed, but stopped only at twice the bytes.
    let hopeless = over && (!choice.can_shrink() || space.reclaims_nothing(value_bytes));
    let stop = if hopeless { stop.max(value_bytes.saturating_mul(2)) } else { stop };
    Pressure::growing(StallCause::Space, value_bytes, start, stop, growth)
}
