//! Collection of all that is dead, on request: whatever the space goal, and under every layout.
//!
//! What is dead has to be known first, and only merges find it out: of tombstones, newer versions,
//! range tombstones and expired values with what they hide. So everything is flushed, and the index
//! is compacted as far as it has something dead. Tables, blobs and files without a live record go
//! with that, which is all under a layout that keeps values in tables. Then the other value files
//! and groups are collected. At last the window, the log files and the reserve for a full disk get
//! the length that what is left needs.

use cleavedb_base::{ErrorKind, KeyspaceId, Result, SeqNo};

use crate::background::maintenance::{self, ignore_no_space};
use crate::background::{give_back, range_collection, scheduler};
use crate::engine::Engine;
use crate::open::session;
use crate::operations::bounds::Bounds;
use crate::operations::commit::Commit;

/// Frees the space of all that was dead before the call. On a disk without room for that at once,
/// what one pass frees is the room for the next.
pub(crate) fn collect_all(engine: &Engine) -> Result<()> {
    let upto = engine.commit.visible();
    match is_log_long(&engine.commit) {
        true => maintenance::flush_and_leave_log(engine).map(drop)?,
        false => maintenance::flush_all(engine)?,
    }
    let _patient = engine.dead_reads.wait_idle();
    let mut pass = collect_once(engine, upto)?;
    // What a flush has moved out of a store apart may be dead as well.
    if pass.lacked_room || engine.has_apart() {
        pass = collect_once(engine, upto)?;
    }
    give_back::give_back(engine)?;
    pass.damage
}

/// Bytes of log from which on the log file in use is left: all of it is flushed.
const LOG_MAX: u64 = 1 << 20;

fn is_log_long(commit: &Commit) -> bool {
    let append = commit.append();
    let begun = append.appender.is_begun();
    begun && append.appender.end() - append.appender.file().base > LOG_MAX
}

/// How a pass has ended.
struct Pass {
    lacked_room: bool,
    /// The error of a damaged table. All else is collected nevertheless.
    damage: Result<()>,
}

fn collect_once(engine: &Engine, upto: SeqNo) -> Result<Pass> {
    let is_clear = maintenance::clear_apart(engine)?;
    session::end_log_file(engine)?;
    // One that began before the flush may not know what is dead, and would move it.
    scheduler::wait_for_collection(engine)?;
    let all = Bounds::of_all(KeyspaceId(0), KeyspaceId::SYSTEM);
    let compacted = range_collection::compact(engine, &all, upto);
    let (mut lacked_room, mut damage) = (!is_clear, Ok(()));
    match compacted {
        Err(e) if e.kind() == ErrorKind::NoSpace => {
            lacked_room = true;
            maintenance::compact_in_pieces(engine, &|| true, e)
                .map(drop)
                .or_else(ignore_no_space)?;
        }
        Err(e) if e.kind() == ErrorKind::Corruption => damage = Err(e),
        compacted => compacted?,
    }
    maintenance::collect_while(engine, &|| true)?;
    Ok(Pass { lacked_room, damage })
}
