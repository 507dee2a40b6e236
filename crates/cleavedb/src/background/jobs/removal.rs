//! Removal: files that no reader can reach are removed, and ranges of files punched.

use cleavedb_storage::{Name, ObsoleteFiles, RemoveMode, Storage};

use crate::background::{log_files, pressure};
use crate::control::events::{Event, Events};
use crate::engine::Engine;
use crate::engine::value_files;

/// Bytes of dead files, counted in tables of full length, above which removal no longer pauses
/// between files: more than one compaction leaves
/// (`docs/decisions/0020-neighbours-go-down-together.md`).
const DEAD_TABLES_MAX: u64 = 32;

/// Divisor of a store for the bytes above which removal no longer pauses, if these are fewer.
const DEAD_PART: u64 = 16;

/// Bytes of ranges to punch above which nothing is collected before they are punched: what one
/// collection leaves.
const HOLES_MAX: u64 = 64 << 20;

/// Gives back all space that no reader can reach, without pauses: at an open and a close, when no
/// user's operation could be slowed down, and on a full disk. Returns whether there was any.
pub(crate) fn purge(engine: &Engine) -> bool {
    purge_telling(engine, Events::tell)
}

/// As [`purge`], by a caller that holds a lock.
pub(crate) fn purge_under_locks(engine: &Engine) -> bool {
    purge_telling(engine, Events::tell_later)
}

fn purge_telling(engine: &Engine, tell: fn(&Events, Event)) -> bool {
    let next = || remove_next(engine, ObsoleteFiles::take_name, RemoveMode::Immediate, tell);
    let mut any = false;
    while run_punch(engine) || next() {
        any = true;
    }
    any
}

/// Removes one file, with pauses unless the space is needed or removal has fallen behind. While the
/// next log file is due, no unwritten log file is removed, since it may become the next one.
pub(crate) fn run_remove(engine: &Engine) -> bool {
    let wanted =
        engine.jobs.lacks_space() || engine.space().is_near_limit() || engine.jobs.closing();
    let most = DEAD_TABLES_MAX.saturating_mul(engine.options.tuning.table_bytes);
    let most = most.min(engine.space().bytes() / DEAD_PART);
    let behind = engine.obsolete_files.dead_bytes() > most;
    let pace = if wanted || behind { RemoveMode::Immediate } else { RemoveMode::Paced };
    let keeps_logs = !wanted && log_files::keeps_logs(engine);
    let take = if keeps_logs { ObsoleteFiles::take_other } else { ObsoleteFiles::take_name };
    remove_next(engine, take, pace, Events::tell)
}

/// Removes one file that no reader can reach any more.
fn remove_next(
    engine: &Engine,
    take: fn(&ObsoleteFiles) -> Option<Name>,
    pace: RemoveMode,
    tell: fn(&Events, Event),
) -> bool {
    give_back_taken(
        engine,
        || take(&engine.obsolete_files),
        |name| {
            let _not_punched = name.kind().has_extents().then(|| engine.punching.lock());
            // A file that cannot be removed now is an orphan, which the next open removes.
            if engine.storage.remove(&name, pace).is_ok() {
                engine.counters.files_removed.add(1);
                tell(&engine.events, Event::FileRemoved { file: name.to_string() });
            }
        },
    )
}

/// Punches the ranges that no reader can reach any more.
pub(crate) fn run_punch(engine: &Engine) -> bool {
    let take = || Some(engine.obsolete_files.take_holes()).filter(|holes| !holes.is_empty());
    give_back_taken(engine, take, |holes| {
        holes.into_iter().for_each(|hole| value_files::punch(engine, hole))
    })
}

/// As [`run_punch`], unless another thread punches: it would wait for each range, while a
/// collection may be due. With many bytes to punch that is better than more of them.
pub(crate) fn punch_in_turn(engine: &Engine) -> bool {
    let turn = engine.punches.try_lock();
    (turn.is_some() || engine.obsolete_files.hole_bytes() > HOLES_MAX) && run_punch(engine)
}

/// Takes an item from the queue of dead files and ranges, and gives its space back. After a failed
/// write nothing is removed any more. Returns whether there was an item.
fn give_back_taken<T>(
    engine: &Engine,
    take: impl FnOnce() -> Option<T>,
    give: impl FnOnce(T),
) -> bool {
    if engine.poison.check().is_err() {
        return false;
    }
    let taken = {
        let mut state = engine.jobs.lock();
        let Some(taken) = take() else { return false };
        // The item leaves the queue and is counted under one lock: a thread that waits for the end
        // of all work must find it in one place or the other.
        state.giving_back += 1;
        taken
    };
    give(taken);
    if engine.limit.is_some() {
        pressure::update_pressure(engine);
    }
    engine.space().take_back();
    engine.jobs.lock().gave_back();
    // Removal makes no other work due, but below a space limit jobs may have waited for the room.
    if engine.limit.is_some() {
        engine.jobs.wake();
    }
    engine.jobs.progress.notify_all();
    true
}

#[cfg(test)]
mod tests;
