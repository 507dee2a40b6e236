//! Searches for space, for writers that found none: below a space limit, and on a full disk.
//!
//! A writer that the limit has stopped does all that is due, then lets the index sink into its
//! deepest level, so that all that is dead is known and can be collected. If it is stopped still,
//! the write fails with [`ErrorKind::NoSpace`], and so do others until something has changed.
//! Deletes have some space of their own, and search at its end, too.
//!
//! On a full disk ordinary writes are refused while the reserve is short, and what is freed goes to
//! it first: so a database without a free byte can always be read, deleted from, compacted and
//! collected. Deletes that find no room for their log wait until jobs have made some.

use std::time::{Duration, Instant};

use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::Borrower;

use crate::commit::{EncodedOp, need};
use crate::engine::Engine;
use crate::full_disk::LOG_LEAST;
use crate::jobs::removal;
use crate::limit::{Limit, Need, ReclaimAttempt, ReclaimHistory, ReclaimSnapshot};
use crate::maintenance::ignore_no_space;
use crate::metrics::StallCause;
use crate::options::Background;
use crate::space::{budget, reserve};
use crate::{maintenance, pressure, scheduler};

/// A search that found nothing is made again after so many times what it took, or once one in so
/// many entries has been deleted.
const SEARCH_REST: u32 = 8;

const DELETED: u64 = 64;

/// How often a search waits for jobs that began when the last ones had ended.
const SETTLES_MAX: usize = 100;

const SETTLE_REST: Duration = Duration::from_millis(10);

/// Lets a write that would come too near to the limit wait for space, if any can be found.
pub(crate) fn find_space(engine: &Engine, limit: &Limit, need: Need) -> Result<()> {
    if !is_out_of_space(engine, limit, need) {
        return Ok(());
    }
    let start = Instant::now();
    let found = search(engine, limit, need);
    engine.counters.stalled(StallCause::Space, start.elapsed());
    found
}

pub(crate) fn search(engine: &Engine, limit: &Limit, need: Need) -> Result<()> {
    // One searches for all.
    let mut searched = limit.searched.lock();
    if !is_still_out_of_space(engine, limit, need)? {
        return Ok(());
    }
    // What no reader holds any more needs no search.
    removal::purge(engine);
    if searched.as_ref().is_some_and(|last| is_backing_off(engine, limit, last, need)) {
        return Err(budget::exhausted(engine, limit));
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
    Err(budget::exhausted(engine, limit))
}

/// Whether it is too early for another search. Deletes are what one waits for.
pub(crate) fn is_backing_off(
    engine: &Engine,
    limit: &Limit,
    last: &ReclaimAttempt,
    need: Need,
) -> bool {
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

/// Whether there is none still, after a look.
pub(crate) fn is_still_out_of_space(engine: &Engine, limit: &Limit, need: Need) -> Result<bool> {
    engine.check_open()?;
    pressure::update_pressure(engine);
    Ok(is_out_of_space(engine, limit, need))
}

pub(crate) fn is_out_of_space(engine: &Engine, limit: &Limit, need: Need) -> bool {
    match need {
        Need::Write => budget::lacks_space(engine),
        Need::Deletes => limit.is_reached(need),
        Need::Long(len) => budget::lacks_space(engine) || budget::refuses_long(engine, len),
    }
}

/// Does what is due, for as long as there is no space. What a job has written and not yet given
/// back is no sign of a full store, so none may be under way at the end.
pub(crate) fn settle_within(engine: &Engine, limit: &Limit, need: Need) -> Result<()> {
    for _ in 0..SETTLES_MAX {
        settle_past_damage(engine, &|| is_out_of_space(engine, limit, need))?;
        if !is_out_of_space(engine, limit, need) || limit.budget.planned() == 0 {
            break;
        }
        engine.jobs.progress.wait_for(&mut engine.jobs.lock(), SETTLE_REST);
    }
    Ok(())
}

/// Does what is due, as long as it is `wanted`. What is found to be damaged is in nobody's way
/// from then on, and no reason to refuse a write.
pub(crate) fn settle_past_damage(engine: &Engine, wanted: &dyn Fn() -> bool) -> Result<()> {
    loop {
        let left_alone = engine.jobs.lock().left_alone();
        let settled = scheduler::wait_idle_while(engine, wanted);
        if settled.is_ok() || engine.jobs.lock().left_alone() == left_alone {
            return settled.or_else(ignore_no_space);
        }
    }
}

pub(crate) fn reclaim_snapshot(engine: &Engine, limit: &Limit) -> ReclaimSnapshot {
    let (snapshots, visible) = engine.snapshots.fix(|| engine.commit.visible());
    ReclaimSnapshot { visible, snapshots, data: limit.budget.data() }
}

/// How often deletes look for room before they fail.
const ATTEMPTS: u32 = 8;

/// Part of the reserve, one in so many, that is much to have for flushes.
const MUCH: u64 = 8;

/// What a writer is told for whose log there is no room.
pub(crate) fn no_room_for_log(engine: &Engine, ops: &[EncodedOp<'_>], error: Error) -> Error {
    if error.kind() != ErrorKind::NoSpace || engine.limit.is_some() || need(ops) != Need::Deletes {
        return error;
    }
    let message = "the disk is full, and what is reserved on it for deletes is used up; \
                   compact and collect give back what was deleted so far";
    Error::new(ErrorKind::NoSpace, message).with("reserve", engine.full.reserve.len())
}

/// Makes room for the log of `ops`, which found the disk full so many times, or fails with the
/// `error` that they met. The log of what is flushed goes. Deletes wait for more, since they
/// are what frees space: tables are merged and value files collected until they have room.
#[cold]
pub(crate) fn make_room_on_disk(
    engine: &Engine,
    ops: &[EncodedOp<'_>],
    attempts: u32,
    error: Error,
) -> Result<()> {
    if error.kind() != ErrorKind::NoSpace || engine.limit.is_some() || engine.check_open().is_err()
    {
        return Err(error);
    }
    match need(ops) {
        // Jobs may take what was made room for.
        Need::Deletes if attempts <= ATTEMPTS => {
            make_room_for_deletes(engine, ops.iter().map(EncodedOp::len).sum(), error)
        }
        Need::Write if attempts == 1 => make_room_by_flush(engine, error),
        _ => Err(error),
    }
}

/// Flushes what is in MemTables, if a good part of the reserve is for it.
pub(crate) fn make_room_by_flush(engine: &Engine, error: Error) -> Result<()> {
    let much = reserve::unflushed(engine) >= engine.full.reserve.wanted() / MUCH;
    if !much || !engine.full.is_short() || flush_young(engine).is_err() {
        return Err(error);
    }
    removal::purge(engine);
    reserve::keep_reserve(engine);
    if engine.full.is_short() { Err(error) } else { Ok(()) }
}

/// Flushes what is in MemTables. Where as many as may be wait already, none is added: each call
/// that fails would leave one more.
pub(crate) fn flush_young(engine: &Engine) -> Result<()> {
    let lag = engine.state.load().waiting() >= engine.options.memtables_max;
    if lag { scheduler::wait_idle(engine) } else { maintenance::flush_all(engine) }
}

/// Searches for space for deletes: half of what they may have of the reserve, or at least what
/// these need, `len` bytes.
pub(crate) fn make_room_for_deletes(engine: &Engine, len: u64, error: Error) -> Result<()> {
    let reserve = &engine.full.reserve;
    let mut futile_search = engine.full.futile_search.lock();
    let is_out_of_space = |len: u64| {
        removal::purge(engine);
        reserve::keep_reserve(engine);
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
    // Whatever fails, what counts is the room that was made.
    steps.iter().take_while(|_| wanted()).for_each(|step| _ = step());
    let (is_out_of_space, rest) = (is_out_of_space(least), begun.elapsed() * SEARCH_REST);
    *futile_search = is_out_of_space.then(|| (visible, Instant::now() + rest));
    if is_out_of_space { Err(error) } else { Ok(()) }
}
