//! Searches for space on behalf of writers that have none: below a space limit, and on a full disk.
//!
//! A writer that the limit has stopped runs all jobs that are due, and then compacts the index into
//! its deepest level, so that all dead records are known and can be collected. If that does not
//! free enough, the write fails with [`ErrorKind::NoSpace`], and so do others until something has
//! changed. Deletes have some space of their own, and search when that is used up.
//!
//! On a full disk ordinary writes are refused while the reserve is short, and freed space goes to
//! the reserve first: so a database without a free byte can always be read, deleted from, compacted
//! and collected. Deletes without room for their log wait until jobs have freed some.

use std::time::{Duration, Instant};

use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::sync::thread;
use cleavedb_base::{Error, Result};
use cleavedb_storage::Borrower;

use crate::background::jobs::removal;
use crate::background::maintenance::ignore_no_space;
use crate::background::{log_retention, maintenance, pressure, scheduler};
use crate::control::events;
use crate::control::metrics::StallCause;
use crate::engine::Engine;
use crate::operations::ops::Ops;
use crate::settings::options::Background;
use crate::store::full_disk::LOG_LEAST;
use crate::store::limit::{Limit, Need, ReclaimAttempt, ReclaimHistory, ReclaimSnapshot};

/// After a search that found nothing, the next one begins after `SEARCH_REST` times its duration,
/// or once one in `DELETED` entries has been deleted.
const SEARCH_REST: u32 = 8;

const DELETED: u64 = 64;

/// How many times a search waits for jobs that began while it ran others.
const SETTLES_MAX: usize = 100;

const SETTLE_REST: Duration = Duration::from_millis(10);

/// Stops a write that would come too near to the limit: waits for space, or fails if there is none.
pub(crate) fn find_space(engine: &Engine, need: Need) -> Result<()> {
    let Some(limit) = &engine.limit else { return Ok(()) };
    events::check_may_wait()?;
    let _rush = engine.pacer.rush();
    engine.waiting(StallCause::Space, || search(engine, limit, need))
}

fn search(engine: &Engine, limit: &Limit, need: Need) -> Result<()> {
    // One thread searches for all: the others wait for the lock.
    let mut searched = limit.searched.lock();
    if !is_still_out_of_space(engine, limit, need)? {
        return Ok(());
    }
    // Space that no reader holds any more is given back first; if that is enough, there is no
    // search.
    removal::purge(engine);
    while log_retention::give_up_oldest(engine) {
        removal::purge(engine);
        if !is_still_out_of_space(engine, limit, need)? {
            return Ok(());
        }
    }
    if searched.as_ref().is_some_and(|last| is_backing_off(engine, limit, last, need)) {
        return Err(engine.space().exhausted(limit));
    }
    let start = Instant::now();
    *limit.collected.lock() = ReclaimHistory::default();
    settle_within(engine, limit, need)?;
    if is_still_out_of_space(engine, limit, need)? {
        limit.searching.store(true, Ordering::Relaxed);
        let sunk = maintenance::flush_all(engine).and_then(|()| settle_within(engine, limit, need));
        limit.searching.store(false, Ordering::Relaxed);
        sunk.or_else(ignore_no_space)?;
    }
    if !is_still_out_of_space(engine, limit, need)? {
        *searched = None;
        return Ok(());
    }
    let (reclaim_snapshot, end) = (reclaim_snapshot(engine, limit), Instant::now());
    *searched = Some(ReclaimAttempt { reclaim_snapshot, end, took: end - start });
    Err(engine.space().exhausted(limit))
}

/// Whether it is too early for another search. Deletes search again whenever anything has changed,
/// since they are what frees space.
fn is_backing_off(engine: &Engine, limit: &Limit, last: &ReclaimAttempt, need: Need) -> bool {
    let reclaim_snapshot = reclaim_snapshot(engine, limit);
    let manual = engine.options.background == Background::Manual;
    if manual || need == Need::Deletes || reclaim_snapshot == last.reclaim_snapshot {
        return reclaim_snapshot == last.reclaim_snapshot;
    }
    let picture = engine.state.load();
    let tables = picture.version.tables();
    let entries: u64 = tables.map(|(_, table)| table.meta().entries).sum();
    let since = reclaim_snapshot.visible - last.reclaim_snapshot.visible;
    since * DELETED < entries && last.end.elapsed() < last.took * SEARCH_REST
}

/// Updates the pressure; returns whether there still is no space.
fn is_still_out_of_space(engine: &Engine, limit: &Limit, need: Need) -> Result<bool> {
    engine.check_open()?;
    pressure::update_pressure(engine);
    Ok(is_out_of_space(engine, limit, need))
}

fn is_out_of_space(engine: &Engine, limit: &Limit, need: Need) -> bool {
    match need {
        Need::Write => engine.space().lacks_space(),
        Need::Deletes => limit.is_reached(need),
        Need::Long(len) => engine.space().lacks_space() || engine.space().refuses_long(len),
    }
}

/// Runs the jobs that are due, until there is space. A job that has written its output but not yet
/// given its inputs back makes the store look full, so the loop waits until no job is under way.
fn settle_within(engine: &Engine, limit: &Limit, need: Need) -> Result<()> {
    for _ in 0..SETTLES_MAX {
        settle_past_damage(engine, &|| is_out_of_space(engine, limit, need))?;
        if !is_out_of_space(engine, limit, need) || limit.budget.planned() == 0 {
            break;
        }
        engine.jobs.progress.wait_for(&mut engine.jobs.lock(), SETTLE_REST);
    }
    Ok(())
}

/// Runs the jobs that are due, as long as `wanted` holds. If a job finds damage, the damaged file
/// is left alone from then on, and the other jobs go on: damage is no reason to refuse a write.
fn settle_past_damage(engine: &Engine, wanted: &dyn Fn() -> bool) -> Result<()> {
    loop {
        let left_alone = engine.jobs.lock().left_alone();
        let settled = scheduler::wait_idle_while(engine, wanted);
        if settled.is_ok() || engine.jobs.lock().left_alone() == left_alone {
            return settled.or_else(ignore_no_space);
        }
    }
}

fn reclaim_snapshot(engine: &Engine, limit: &Limit) -> ReclaimSnapshot {
    let (snapshots, visible) = engine.snapshots.fix(|| engine.commit.visible());
    ReclaimSnapshot { visible, snapshots, data: limit.budget.data() }
}

/// How many times deletes search for room before they fail.
const ATTEMPTS: u32 = 8;

/// How many times one such search tries everything, with growing pauses.
const ROUNDS: u32 = 6;

/// A flush is worth its cost to a writer if it takes at least this part of the reserve, one in
/// `MUCH`.
const MUCH: u64 = 8;

/// Makes room for the log of `ops`, which has found the disk full `attempts` times, or fails with
/// the `error` of the last attempt. Other writes get a flush, which frees the log of what it
/// flushed. Deletes get more, since they are what frees space: tables are merged and value files
/// collected until there is room.
#[cold]
pub(crate) fn make_room_on_disk(
    engine: &Engine,
    ops: Ops<'_>,
    attempts: u32,
    error: Error,
) -> Result<()> {
    if log_retention::give_up_oldest(engine) {
        removal::purge(engine);
        engine.space().keep_reserve();
        return Ok(());
    }
    events::check_may_wait()?;
    let _rush = engine.pacer.rush();
    match ops.need() {
        // Several attempts, since jobs may take the room before the deletes do.
        Need::Deletes if attempts <= ATTEMPTS => {
            make_room_for_deletes(engine, ops.record_bytes(), error)
        }
        Need::Write if attempts == 1 => make_room_by_flush(engine, error),
        _ => Err(error),
    }
}

/// Flushes what is in MemTables, if a good part of the reserve is kept for that.
fn make_room_by_flush(engine: &Engine, error: Error) -> Result<()> {
    let much = engine.space().unflushed() >= engine.full.reserve.wanted() / MUCH;
    if !much || !engine.full.is_short() || flush_young(engine).is_err() {
        return Err(error);
    }
    removal::purge(engine);
    engine.space().keep_reserve();
    if engine.full.is_short() { Err(error) } else { Ok(()) }
}

/// Flushes what is in MemTables. If the most MemTables wait already, it waits for them and seals no
/// other: each call that fails would add one more.
fn flush_young(engine: &Engine) -> Result<()> {
    let lag = engine.state.load().waiting() >= engine.options.memtables_max();
    if lag { scheduler::wait_idle(engine) } else { maintenance::flush_all(engine) }
}

/// Frees space for deletes of `len` bytes: half of the reserve's part for deletes, if possible; it
/// fails if there is not even room for `len` bytes.
fn make_room_for_deletes(engine: &Engine, len: u64, error: Error) -> Result<()> {
    let reserve = &engine.full.reserve;
    let mut futile_search = engine.full.futile_search.lock();
    let is_out_of_space = |len: u64| {
        removal::purge(engine);
        engine.space().keep_reserve();
        engine.full.is_short() && reserve.left_for(Borrower::Deletes) < len
    };
    let least = LOG_LEAST.max(len);
    if !is_out_of_space(least) {
        return Ok(());
    }
    let begun = Instant::now();
    let visible = engine.commit.visible();
    if futile_search.is_some_and(|(at, end)| at == visible && begun < end) {
        return Err(error);
    }
    let wanted = || is_out_of_space(least.max(reserve.for_deletes() / 2));
    let steps: [&dyn Fn() -> Result<()>; 4] = [
        &|| flush_young(engine),
        &|| scheduler::wait_idle_while(engine, &wanted),
        &|| maintenance::collect_while(engine, &wanted),
        &|| maintenance::compact_in_pieces(engine, &wanted, error.clone()).map(|_| ()),
    ];
    for round in 0..ROUNDS {
        // The errors of single steps are ignored: the room that was made decides.
        steps.iter().take_while(|_| wanted()).for_each(|step| _ = step());
        if engine.options.background == Background::Manual || !is_out_of_space(least) {
            break;
        }
        // Another thread may be about to give space back: a file whose last reader it is, or one
        // that it has begun to remove.
        if !scheduler::waits_for_others(engine) {
            thread::sleep(SETTLE_REST * round);
        }
    }
    let (is_out_of_space, rest) = (is_out_of_space(least), begun.elapsed() * SEARCH_REST);
    *futile_search = is_out_of_space.then(|| (visible, Instant::now() + rest));
    if is_out_of_space { Err(error) } else { Ok(()) }
}
