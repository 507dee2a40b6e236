//! The MemTable in use makes way for an empty one, and is flushed.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::Ordering;

use crate::commit::Append;
use crate::engine::Engine;
use crate::state::MemSlot;

/// Seals the MemTable and puts an empty one in its place. Commits in flight still insert into
/// the old one; its flush waits for them.
pub(crate) fn rotate_memtable(engine: &Engine, append: &mut Append) {
    // The end of the last record, not of the padding behind it: a log file that ends here ends
    // where replay begins, whether or not a mark follows.
    let position = append.appender.end();
    append.memtable.seal(position, append.last_seq());
    let (memory, written) = (engine.options.memtable(), engine.counters.user_bytes.get());
    let slot = append.memtable.next(memory, position, written, &engine.memtable_pages);
    let slot = Arc::new(slot);
    let file = append.appender.file().number;
    if append.memtable.is_long_in(file) && !planted(Bug::LogBehindLongUnsynced) {
        slot.has_long_in(file);
    }
    append.memtable = slot.clone();
    engine.state.swap(|state| state.with_memtable(slot.clone()));
    engine.throttle.fills_last(|| engine.state.load().waiting() >= engine.options.memtables_max);
    engine.commit.log.rouse();
    engine.jobs.wake();
}

/// Has the MemTable flushed if it has at least `least` deletes, since the entries that they hide
/// stay until then. Returns whether it has.
pub(crate) fn rotate_deletes(engine: &Engine, least: u64) -> bool {
    let state = engine.state.load();
    let many = |slot: &MemSlot| slot.deletes.load(Ordering::Relaxed) >= least;
    if state.waiting() > 0 || !many(state.youngest()) || engine.check_open().is_err() {
        return false;
    }
    drop(state);
    let mut append = engine.commit.append();
    // Another thread may have been first. Before the first write there is no log that could
    // continue behind the MemTable, and no thread to flush it.
    let rotates = many(&append.memtable) && append.appender.is_begun();
    if rotates {
        rotate_memtable(engine, &mut append);
    }
    rotates
}
