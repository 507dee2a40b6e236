//! Removal: files that no reader can reach are removed, and ranges of files punched.

use cleavedb_storage::{Name, ObsoleteFiles, RemoveMode, Storage};

use crate::engine::Engine;
use crate::space::{budget, reserve};
use crate::{log_files, pressure, value_files};

/// Dead files, in tables of full length, from which on they are removed without rests: more than
/// one compaction makes (`docs/decisions/0020-neighbours-go-down-together.md`).
const DEAD_TABLES_MAX: u64 = 32;

/// Gives back all that no reader can reach; for an open and a close, when there is nobody to be
/// spared, and on a full disk. Returns whether there was anything.
pub(crate) fn purge(engine: &Engine) -> bool {
    let mut any = false;
    while run_punch(engine) || remove_next(engine, ObsoleteFiles::take_name, RemoveMode::Immediate)
    {
        any = true;
    }
    any
}

/// Removes gently, unless the space is wanted or removal has fallen behind; and no log while
/// the next log file is due, which may take its place.
pub(crate) fn run_remove(engine: &Engine) -> bool {
    let wanted =
        engine.jobs.lacks_space() || budget::is_near_limit(engine) || engine.jobs.closing();
    if !wanted && log_files::keeps_logs(engine) {
        return remove_next(engine, ObsoleteFiles::take_other, RemoveMode::Paced);
    }
    let behind = engine.obsolete_files.dead_bytes()
        > DEAD_TABLES_MAX.saturating_mul(engine.options.table_bytes);
    let pace = if wanted || behind { RemoveMode::Immediate } else { RemoveMode::Paced };
    remove_next(engine, ObsoleteFiles::take_name, pace)
}

/// Removes a file that no reader can reach any more.
fn remove_next(
    engine: &Engine,
    take: fn(&ObsoleteFiles) -> Option<Name>,
    pace: RemoveMode,
) -> bool {
    give_back_taken(
        engine,
        || take(&engine.obsolete_files),
        |name| {
            // A file that cannot be removed now is an orphan, which the next open removes.
            if engine.storage.remove(&name, pace).is_ok() {
                engine.counters.files_removed.add(1);
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

/// Takes something from the queue of obsolete files, and gives it back; not after a failure, when
/// nothing is removed any more. Returns whether there was anything.
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
        // Under one lock: who waits for all work must see it in one place or the other.
        state.giving_back += 1;
        taken
    };
    give(taken);
    if engine.limit.is_some() {
        pressure::update_pressure(engine);
    }
    reserve::take_back(engine);
    engine.jobs.lock().gave_back();
    // What is gone makes no work, but below a limit jobs may have waited for it.
    if engine.limit.is_some() {
        engine.jobs.wake();
    }
    engine.jobs.progress.notify_all();
    true
}
