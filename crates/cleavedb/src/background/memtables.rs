//! Replaces the MemTable in use by an empty one, so that it is flushed.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};

use crate::engine::Engine;
use crate::operations::commit::Append;
use crate::operations::ops::Ops;
use crate::store::state::MemSlot;

/// Seals the MemTable and puts an empty one in its place. Commits in flight still insert into the
/// sealed one; its flush waits for them.
pub(crate) fn rotate_memtable(engine: &Engine, append: &mut Append) {
    // The position is the end of the last record, not of the padding behind it: if a log file ends
    // here, it ends where replay begins, with or without a mark behind the record.
    let position = append.appender.end();
    append.memtable.seal(position, append.last_seq());
    let (memory, written) = (engine.options.memtable(), engine.counters.user_bytes.get());
    let slot = append.memtable.next(memory, position, written, &engine.spare_pages.memtable);
    let slot = Arc::new(slot);
    let file = append.appender.file().number;
    if append.memtable.is_long_in(file) && !planted(Bug::LogBehindLongUnsynced) {
        slot.has_long_in(file);
    }
    append.memtable = slot.clone();
    engine.state.swap(|state| state.with_memtable(slot.clone()));
    engine.throttle.fills_last(|| engine.state.load().waiting() >= engine.options.memtables_max());
    engine.commit.log.rouse();
    engine.jobs.wake();
}

/// Seals the MemTable, which may be empty, for a flush if promotions want one. Called by the thread
/// that flushes: reads take no lock, and make no MemTable.
pub(crate) fn rotate_for_promotions(engine: &Engine) {
    rotate_if(engine, |_| engine.promotions_want_flush());
}

/// Seals the MemTable for a flush if it has at least `least` deletes and values that are over,
/// since what they hide takes space until then. Returns whether it did.
pub(crate) fn rotate_dead(engine: &Engine, least: u64) -> bool {
    let now = engine.earliest_time();
    rotate_if(engine, |slot| slot.dead(now) >= least)
}

/// Seals the MemTable for a flush, since nothing was written for some time.
pub(crate) fn rotate_at_rest(engine: &Engine) {
    rotate_if(engine, |slot| !slot.table.is_empty());
}

/// Seals the MemTable for a flush if its lone files, or those in tables that it hides, want one.
pub(crate) fn rotate_lone(engine: &Engine) {
    rotate_if(engine, |slot| slot.lone.wants_flush(engine.options.memtable() as u64));
}

/// Notes what a commit of `ops` hides of lone files in tables.
#[cold]
pub(crate) fn hide_lone(engine: &Engine, ops: Ops<'_>) {
    let bytes = engine.jobs.lone_files.hidden_bytes(ops);
    if let (1.., Some(slot)) = (bytes, engine.state.load().memtables.first()) {
        slot.lone.hide(bytes);
        rotate_lone(engine);
    }
}

/// Seals the MemTable for a flush if all of its values that do not stay are over, or one has been
/// so for long, since they take space in the log until then.
pub(crate) fn rotate_over(engine: &Engine) -> bool {
    let now = engine.earliest_time();
    let long_ago = engine.long_before(now);
    rotate_if(engine, |slot| slot.lifetimes.are_over(now, long_ago))
}

/// Seals the MemTable for a flush if no other one waits, and it `is_due`. Returns whether it did.
fn rotate_if(engine: &Engine, is_due: impl Fn(&MemSlot) -> bool) -> bool {
    let state = engine.state.load();
    // There is none once a close has flushed it.
    let due = state.memtables.first().filter(|slot| is_due(slot));
    if due.is_none() || state.waiting() > 0 || engine.check_open().is_err() {
        return false;
    }
    drop(state);
    let mut append = engine.commit.append();
    // Another thread may have sealed it meanwhile. Before the first write since the open, the log
    // has not begun: nothing could follow the MemTable, and no thread would flush it.
    let rotates = is_due(&append.memtable) && append.appender.is_begun();
    if rotates {
        rotate_memtable(engine, &mut append);
    }
    rotates
}
