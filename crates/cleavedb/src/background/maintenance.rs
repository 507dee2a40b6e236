//! Work that a caller requests: flushing everything, a full compaction, a full collection.

mod evacuation;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cleavedb_base::{Error, ErrorKind, Result, SeqNo};
use cleavedb_index::Version;
use cleavedb_index::compaction::leveled::pick_full;
use cleavedb_index::compaction::pieces::{pick_cut, pick_piece};
use cleavedb_index::compaction::{CompactionOptions, Constraints};

pub(crate) use self::evacuation::{
    PromotionsPaused, clear_apart, clear_apart_once, empty_apart, is_apart_empty,
};
use crate::background::jobs::{Begin, compaction, removal};
use crate::background::{log_files, memtables, scheduler};
use crate::control::events;
use crate::control::failures::JobKind;
use crate::engine::Engine;
use crate::operations::commit::Append;
use crate::settings::options::Background;
use crate::store::state::MemSlot;

/// How many times a flush that a caller waits for is tried on a full disk.
const FLUSHES_MAX: usize = 8;

/// Flushes everything that was committed before the call. On a full disk other jobs may hold the
/// room that a flush needs until they end, so it is tried again.
pub(crate) fn flush_all(engine: &Engine) -> Result<()> {
    flush_with(engine, |append| !append.memtable.table.is_empty())
}

/// Flushes what was committed before the call, and the MemTable in use if it `rotates`.
fn flush_with(engine: &Engine, rotates: impl Fn(&Append) -> bool) -> Result<()> {
    events::check_may_wait()?;
    let _hurry = engine.pacer.hurry_flushes();
    let newest = {
        let mut append = engine.commit.append();
        if rotates(&append) {
            memtables::rotate_memtable(engine, &mut append);
        }
        engine.state.load().memtables.get(1).cloned()
    };
    newest.map_or(Ok(()), |newest| flush_upto(engine, &newest))
}

/// Flushes what was committed before the call, and has the log go on in a new file: no byte of the
/// files before is needed to replay it. Returns the last sequence number in these.
pub(crate) fn flush_and_leave_log(engine: &Engine) -> Result<SeqNo> {
    events::check_may_wait()?;
    let _hurry = engine.pacer.hurry_flushes();
    let (newest, last) = {
        let mut append = engine.commit.open_append()?;
        // In this order: the MemTable ends in the new file, where the replay head will be.
        log_files::rotate_log(engine, &mut append)?;
        memtables::rotate_memtable(engine, &mut append);
        (engine.state.load().memtables.get(1).cloned(), append.last_seq())
    };
    newest.map_or(Ok(()), |newest| flush_upto(engine, &newest)).map(|()| last)
}

/// Waits until `newest`, which is full, and all MemTables before it are flushed.
fn flush_upto(engine: &Engine, newest: &Arc<MemSlot>) -> Result<()> {
    // MemTables are flushed oldest first; those that writers fill meanwhile are not waited for.
    let flush = || {
        engine.jobs.lock().failures.forgive();
        scheduler::wait_or_work(
            engine,
            || !engine.state.load().memtables.iter().any(|slot| Arc::ptr_eq(slot, newest)),
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

/// The least piece of a compaction on a full disk may use one in this many parts of the room.
const PARTS_MAX: u64 = 16;

/// Rests of a compaction on a full disk that finds room for no piece, and the length of the first:
/// a thread that has just ended a job, or looked for one, may hold the last version of the index
/// that has a dead table.
const RESTS: u32 = 5;
const REST: Duration = Duration::from_millis(5);

/// Merges everything into the deepest level that has data. Fails if a damaged table prevents that.
pub(crate) fn compact_all(engine: &Engine) -> Result<()> {
    scheduler::wait_idle(engine).or_else(ignore_no_space)?;
    let mut lacks_room = false;
    let all = |version: &Version, constraints: &Constraints| {
        let picked = pick_full(version, constraints, None, None)?;
        lacks_room = picked.bytes_written_max() > compaction::room_to_compact(engine);
        (!lacks_room).then_some(picked)
    };
    let compacted =
        match compaction::compact(engine, Begin::Open, &engine.space().compaction_options(), all) {
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
    // The jobs that are due now exceed the request: if they lack room, the request has not failed.
    scheduler::wait_idle(engine).or_else(ignore_no_space)
}

/// Merges everything part by part, as long as `wanted` holds, on a disk without room for all at
/// once. Fails with `error` if there is no room even for one part that would free something.
pub(crate) fn compact_in_pieces(
    engine: &Engine,
    wanted: &dyn Fn() -> bool,
    error: Error,
) -> Result<bool> {
    let (mut compacted, mut part, mut rests) = (Err(error), 1, 0);
    loop {
        if !wanted() {
            return Ok(true);
        }
        let room = engine.space().room_on_disk() / part;
        match compact_piece(engine, part) {
            Ok(true) => {
                (compacted, part, rests) = (Ok(true), 1, 0);
                removal::purge(engine);
            }
            // Jobs of other threads may make room.
            Ok(false)
                if scheduler::waits_for_others(engine)
                    || engine.space().room_on_disk() / part > room => {}
            Ok(false) if !is_piece_due(engine) => return Ok(compacted.is_ok()),
            Ok(false) if rests < RESTS && engine.options.background != Background::Manual => {
                rests += 1;
                thread::sleep(REST * rests);
                removal::purge(engine);
            }
            Ok(false) => return compacted,
            // Jobs of other threads may take some of the room, so a smaller piece is tried.
            Err(e) if e.kind() == ErrorKind::NoSpace && part < PARTS_MAX => part *= 2,
            Err(e) if e.kind() == ErrorKind::NoSpace => return compacted.or(Err(e)),
            Err(e) => return Err(e),
        }
    }
}

/// Whether there is a piece of any length that would free something.
fn is_piece_due(engine: &Engine) -> bool {
    let jobs = engine.jobs.lock();
    let version = engine.state.load().version.clone();
    pick_piece(&version, &engine.space().compaction_options(), &jobs.constraints, u64::MAX)
        .is_some()
}

/// Runs a piece that fits a fraction of the room on the disk, one in `part`. If there is none, cuts
/// a table into shorter ones, so that there may be one next time.
fn compact_piece(engine: &Engine, part: u64) -> Result<bool> {
    let most = || engine.space().room_on_disk() / part;
    let short = engine.space().short_table_bytes();
    let options = CompactionOptions { table_bytes: short, ..engine.space().compaction_options() };
    let piece = |version: &Version, constraints: &Constraints| {
        pick_piece(version, &options, constraints, most())
    };
    let cut = |version: &Version, constraints: &Constraints| {
        pick_cut(version, &options, constraints, most())
    };
    if compaction::compact(engine, Begin::Open, &options, piece)?.is_some() {
        return Ok(true);
    }
    // A table of a few long values cannot be cut: the result may be as long as before.
    let cut = compaction::compact(engine, Begin::Open, &options, cut)?;
    Ok(cut.is_some_and(|created| created.len() > 1))
}

/// Collects every value file that is sealed now, even if the space goal is met, but only for as
/// long as `wanted` holds.
pub(crate) fn collect_while(engine: &Engine, wanted: &dyn Fn() -> bool) -> Result<()> {
    let before = {
        let mut jobs = engine.jobs.lock();
        let manifest = engine.manifest.lock();
        let newest = manifest.live().value_files.iter().map(|(number, _)| number).next_back();
        std::mem::replace(&mut jobs.forced, newest)
    };
    let collected = match scheduler::wait_idle_while(engine, wanted) {
        // A full disk without room for everything at once gets the compaction in pieces, each of
        // which frees room for the next.
        Err(e) if e.kind() == ErrorKind::NoSpace => {
            let compacted = compact_in_pieces(engine, wanted, e);
            let settled = scheduler::wait_idle_while(engine, wanted);
            // A compaction without room that would free nothing does not make the collection fail.
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

/// Ignores that a job had no room: callers that search for space expect that.
pub(crate) fn ignore_no_space(error: Error) -> Result<()> {
    if error.kind() == ErrorKind::NoSpace { Ok(()) } else { Err(error) }
}
