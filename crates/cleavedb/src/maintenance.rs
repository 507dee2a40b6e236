//! Work that a caller asks for: the flush of everything, a full compaction, a full collection.

use std::sync::Arc;

use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_index::Version;
use cleavedb_index::compaction::leveled::pick_full;
use cleavedb_index::compaction::pieces::{pick_cut, pick_piece};
use cleavedb_index::compaction::{CompactionOptions, Constraints};

use crate::engine::Engine;
use crate::failures::JobKind;
use crate::jobs::{Begin, compaction, removal};
use crate::space::{reserve, sizes};
use crate::{memtables, scheduler};

/// How often a flush that all wait for is tried on a full disk.
const FLUSHES_MAX: usize = 8;

/// Flushes everything that was committed before the call. On a full disk other jobs may have
/// what a flush needs until they end, and it is tried again.
pub(crate) fn flush_all(engine: &Engine) -> Result<()> {
    let newest = {
        let mut append = engine.commit.append();
        if !append.memtable.table.is_empty() {
            memtables::rotate_memtable(engine, &mut append);
        }
        engine.state.load().memtables.get(1).cloned()
    };
    // MemTables are flushed oldest first; what others fill meanwhile is not waited for.
    let Some(newest) = newest else { return Ok(()) };
    let flush = || {
        engine.jobs.lock().failures.forgive();
        scheduler::wait_or_work(
            engine,
            || !engine.state.load().memtables.iter().any(|slot| Arc::ptr_eq(slot, &newest)),
            || Some(JobKind::Flush),
        )
    };
    let lacks = |e: &Error| e.kind() == ErrorKind::NoSpace && engine.full.is_short();
    let mut flushed = flush();
    for _ in 1..FLUSHES_MAX {
        if flushed.as_ref().err().is_none_or(|e| !lacks(e)) {
            break;
        }
        scheduler::waits_for_others(engine);
        removal::purge(engine);
        flushed = flush();
    }
    flushed
}

/// Into how many parts the room on a full disk is divided for a piece.
const PARTS_MAX: u64 = 16;

/// Merges everything into the deepest level that has data. Fails if that cannot be, since a
/// table is damaged.
pub(crate) fn compact_all(engine: &Engine) -> Result<()> {
    scheduler::wait_idle(engine).or_else(ignore_no_space)?;
    let mut lacks_room = false;
    let all = |version: &Version, constraints: &Constraints| {
        let picked = pick_full(version, constraints, None, None)?;
        lacks_room = picked.bytes_written_max() > compaction::room_to_compact(engine);
        (!lacks_room).then_some(picked)
    };
    let compacted =
        match compaction::compact(engine, Begin::Open, &sizes::compaction_options(engine), all) {
            Ok(_) if lacks_room => compact_in_pieces(engine, &|| true, compaction::no_room()),
            Err(e) if e.kind() == ErrorKind::NoSpace => compact_in_pieces(engine, &|| true, e),
            compacted => compacted.map(|tables| tables.is_some()),
        };
    if !compacted? {
        let jobs = engine.jobs.lock();
        if let (false, Some(error)) = (jobs.constraints.damaged.is_empty(), &jobs.damaged.last) {
            return Err(error.clone());
        }
    }
    // What is due now is more than was asked for: that it lacks room is no failure of this.
    scheduler::wait_idle(engine).or_else(ignore_no_space)
}

/// Merges all, part by part and as long as it is `wanted`, on a disk that has no room for all
/// at once; fails with `error` if none fits of what would free something.
pub(crate) fn compact_in_pieces(
    engine: &Engine,
    wanted: &dyn Fn() -> bool,
    error: Error,
) -> Result<bool> {
    let (mut compacted, mut part) = (Err(error), 1);
    loop {
        if !wanted() {
            return Ok(true);
        }
        let room = reserve::room_on_disk(engine) / part;
        match compact_piece(engine, part) {
            Ok(true) => {
                (compacted, part) = (Ok(true), 1);
                removal::purge(engine);
            }
            // What others do may make room.
            Ok(false)
                if scheduler::waits_for_others(engine)
                    || reserve::room_on_disk(engine) / part > room => {}
            Ok(false) if compacted.is_err() && !is_piece_due(engine) => return Ok(false),
            Ok(false) => return compacted,
            // Others may take some of it, too.
            Err(e) if e.kind() == ErrorKind::NoSpace && part < PARTS_MAX => part *= 2,
            Err(e) if e.kind() == ErrorKind::NoSpace => return compacted.or(Err(e)),
            Err(e) => return Err(e),
        }
    }
}

/// Whether there is a piece that would free something, however long.
fn is_piece_due(engine: &Engine) -> bool {
    let jobs = engine.jobs.lock();
    let version = engine.state.load().version.clone();
    pick_piece(&version, &sizes::compaction_options(engine), &jobs.constraints, u64::MAX).is_some()
}

/// Does a piece for which one part in so many of the room on the disk suffices, or cuts a table
/// so that there are some.
fn compact_piece(engine: &Engine, part: u64) -> Result<bool> {
    let most = || reserve::room_on_disk(engine) / part;
    let short = sizes::short_table_bytes(engine);
    let options = CompactionOptions { table_bytes: short, ..sizes::compaction_options(engine) };
    let piece = |version: &Version, constraints: &Constraints| {
        pick_piece(version, &options, constraints, most())
    };
    let cut = |version: &Version, constraints: &Constraints| {
        pick_cut(version, &options, constraints, most())
    };
    if compaction::compact(engine, Begin::Open, &options, piece)?.is_some() {
        return Ok(true);
    }
    // A table of few long values may be as long as before.
    let cut = compaction::compact(engine, Begin::Open, &options, cut)?;
    Ok(cut.is_some_and(|created| created > 1))
}

/// Collects every value file that is sealed now, whether the space goal asks for it or not.
pub(crate) fn collect_all(engine: &Engine) -> Result<()> {
    collect_while(engine, &|| true)
}

/// The same for as long as it is `wanted`.
pub(crate) fn collect_while(engine: &Engine, wanted: &dyn Fn() -> bool) -> Result<()> {
    let before = {
        let mut jobs = engine.jobs.lock();
        let manifest = engine.manifest.lock();
        let newest = manifest.live().value_files.iter().map(|(number, _)| number).next_back();
        std::mem::replace(&mut jobs.forced, newest)
    };
    let collected = match scheduler::wait_idle_while(engine, wanted) {
        // What a full disk has no room for together goes piece by piece, and gives room to the
        // rest.
        Err(e) if e.kind() == ErrorKind::NoSpace => {
            let compacted = compact_in_pieces(engine, wanted, e);
            let settled = scheduler::wait_idle_while(engine, wanted);
            // A compaction that has no room, and would free nothing, is no failure of this.
            let done = compacted.is_ok() && engine.jobs.failure(JobKind::Collect).is_none();
            if done { settled.or_else(ignore_no_space) } else { settled }
        }
        settled => settled,
    };
    if !wanted() {
        engine.jobs.lock().forced = before;
    }
    collected
}

/// That a job had no room is what a search is about, not its failure.
pub(crate) fn ignore_no_space(error: Error) -> Result<()> {
    if error.kind() == ErrorKind::NoSpace { Ok(()) } else { Err(error) }
}
