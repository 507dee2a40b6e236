//! Gives back space that grew with writes: when all that is dead was collected, and when a small
//! store is written no more.

use cleavedb_base::Result;

use crate::background::jobs::removal;
use crate::background::memtables;
use crate::engine::Engine;

/// Length of the window at first, in bytes.
pub(crate) const WINDOW_MIN: usize = 64 << 10;

/// Gives back what grew with data that is gone: the window, what is reserved for log files, and of
/// the reserve for a full disk what is more than the data needs now.
pub(crate) fn give_back(engine: &Engine) -> Result<()> {
    // With the log files that would be used again.
    removal::purge(engine);
    let mut append = engine.commit.open_append()?;
    if let Some(next) = &mut *engine.preallocated_log.lock() {
        next.give_back()?;
    }
    // All log is drained, as before the window grows: its bytes get other places.
    engine.commit.drain_all(&mut append)?;
    let log = &engine.commit.log;
    if log.buffer().len() > WINDOW_MIN as u64 {
        log.shrink_window(&*engine.storage, &append.appender, WINDOW_MIN)?;
    }
    log.give_back(&mut append.appender)?;
    drop(append);
    engine.space().cut_reserve();
    Ok(())
}

/// Gives back the window of a small store that is written no more, once it is flushed, and has it
/// flushed if it is not. A failure leaves the window as it is.
pub(crate) fn give_back_at_rest(engine: &Engine) {
    if !engine.space().window_is_long() || engine.check_open().is_err() {
        return;
    }
    if engine.state.load().has_nothing_to_flush() {
        let _ = give_back(engine);
    } else {
        memtables::rotate_at_rest(engine);
    }
}
