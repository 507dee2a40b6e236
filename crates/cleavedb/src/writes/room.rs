//! Room for a batch: a MemTable, a log file and sequence numbers, made under the append lock.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::MutexGuard;
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::{Error, ErrorKind, Result, SeqNo};
use cleavedb_storage::log::FileHeader;

use crate::background::jobs::removal;
use crate::background::{log_files, log_retention, memtables};
use crate::engine::Engine;
use crate::operations::commit::Append;
use crate::operations::ops::Ops;
use crate::store::limit::Need;
use crate::store::manifest::Edit;
use crate::writes::admission::Obstacle;

/// Sequence numbers that one edit reserves.
pub(crate) const SEQS_RESERVED: SeqNo = 1 << 30;

/// Least number of reserved sequence numbers after a commit: before fewer are left, more are
/// reserved.
const SEQS_LOW: SeqNo = 1 << 22;

/// The append lock, with a MemTable, a log file and sequence numbers for `ops`, of `len` bytes in
/// all; both may be new.
pub(crate) fn lock_with_room<'e>(
    engine: &'e Engine,
    ops: Ops<'_>,
    len: u64,
) -> std::result::Result<MutexGuard<'e, Append>, Obstacle> {
    let mut append = engine.commit.open_append()?;
    make_room(engine, &mut append, ops, len)?;
    Ok(append)
}

/// As [`lock_with_room`], where no more than a MemTable has to be made; `None` elsewhere.
pub(crate) fn try_lock_with_room<'e>(
    engine: &'e Engine,
    ops: Ops<'_>,
    len: u64,
) -> Result<Option<MutexGuard<'e, Append>>> {
    let Some(append) = engine.commit.try_open_append() else { return Ok(None) };
    let mut append = append?;
    if !has_room(engine, &append, ops, len) {
        return Ok(None);
    }
    match make_room(engine, &mut append, ops, len) {
        Ok(()) => Ok(Some(append)),
        Err(Obstacle::Failed(e)) => Err(e),
        Err(_) => Ok(None),
    }
}

/// Whether the log file in use, the window and the sequence numbers in reserve do for `ops`.
fn has_room(engine: &Engine, append: &Append, ops: Ops<'_>, len: u64) -> bool {
    let (log, appender) = (&engine.commit.log, &append.appender);
    let last = append.last_seq() + ops.op_count() as u64;
    !engine.full.is_short()
        && log.growth(appender, len).is_none()
        && log.has_room(appender, len)
        && !(are_long(engine, ops) && needs_file_for_long(append))
        && !needs_seqs(engine, last)
}

fn make_room(
    engine: &Engine,
    append: &mut Append,
    ops: Ops<'_>,
    len: u64,
) -> std::result::Result<(), Obstacle> {
    if append.is_held() {
        return Err(Obstacle::Load);
    }
    engine.check_open()?;
    let outgrows_limit = engine.limit.is_some() && len > engine.options.tuning.log_file_bytes;
    if outgrows_limit && engine.space().refuses_long(len) {
        return Err(Obstacle::Long(len));
    }
    if engine.full.is_short() {
        check_disk(engine, ops.need())?;
    }
    let growth = engine.commit.log.growth(&append.appender, len);
    if let Some(longer) = growth.filter(|_| !engine.full.is_short()) {
        engine.commit.grow_window(append, &*engine.storage, longer)?;
    }
    if memtable_full(engine, append) {
        if engine.state.load().waiting() < engine.options.memtables_max() {
            memtables::rotate_memtable(engine, append);
        } else if !squeezes_in(engine, append, ops) {
            return Err(Obstacle::NoRoom);
        }
    }
    have_log(engine, append, ops, len)?;
    if outgrows_limit {
        append.memtable.long_bytes.fetch_add(len, Ordering::Relaxed);
    }
    reserve_seqs(engine, append.last_seq() + ops.op_count() as u64)?;
    Ok(())
}

/// Refuses writes other than deletes while the reserve is in use, unless it is filled by space that
/// no reader holds any more.
#[cold]
pub(crate) fn check_disk(engine: &Engine, need: Need) -> Result<()> {
    while engine.full.is_short() && need != Need::Deletes {
        removal::purge_under_locks(engine);
        engine.space().keep_reserve();
        if engine.full.is_short() && !log_retention::give_up_oldest(engine) {
            let message = "the disk is full, and what is reserved on it is kept for deletes, \
                           compact and collect; delete something, or make room on the disk";
            let reserve = engine.full.reserve.len();
            return Err(Error::new(ErrorKind::NoSpace, message).with("reserve", reserve));
        }
    }
    Ok(())
}

fn memtable_full(engine: &Engine, append: &Append) -> bool {
    let covered = append.appender.next() - append.memtable.start;
    let limits = &engine.memtable_limits;
    let log_bytes = limits.log_bytes.min(engine.throttle.log_bytes_per_memtable_max());
    !append.memtable.table.is_empty()
        && (append.memtable.table.memory() >= limits.memory || covered >= log_bytes)
}

/// Whether `ops` may go to a full MemTable although no other may be begun: deletes may, on a full
/// disk, where flushes may wait for the space that the deletes free.
fn squeezes_in(engine: &Engine, append: &Append, ops: Ops<'_>) -> bool {
    let most = engine.options.memtable().saturating_mul(2);
    engine.space().is_disk_full()
        && ops.need() == Need::Deletes
        && append.memtable.table.memory() < most
}

/// Whether tables will point to values of `ops` in the log, although they point to no other value
/// there.
fn are_long(engine: &Engine, ops: Ops<'_>) -> bool {
    engine.options.log().keeps_long_values() && ops.have_separated()
}

/// Reserves log space for `ops`, of `len` bytes in all: in a new file, if the one in use is not for
/// them.
fn have_log(
    engine: &Engine,
    append: &mut Append,
    ops: Ops<'_>,
    len: u64,
) -> std::result::Result<(), Obstacle> {
    let long = are_long(engine, ops);
    let wants_file = long && needs_file_for_long(append);
    if wants_file || engine.commit.log.needs_file(&append.appender, len) {
        // The limit is asked under the lock, since any number of writers may have passed before it
        // was reached.
        if engine.space().is_limit_reached(ops.need()) {
            return Err(Obstacle::NoRoom);
        }
        log_files::rotate_log(engine, append).map_err(|e| no_room_for_log(engine, ops, e))?;
    }
    if allocate(engine, append, ops, len).map_err(|e| no_room_for_log(engine, ops, e))? {
        engine.space().keep_reserve();
        // The next log file may be due now.
        engine.jobs.wake();
    }
    if long {
        append.memtable.has_long_in(append.appender.file().number);
    }
    Ok(())
}

/// Whether a long value must not go to the log file in use, because a flush may have covered the
/// front of the file without a sync. After a crash the front could be missing, which a reader of
/// the file from its start would find damaged.
fn needs_file_for_long(append: &Append) -> bool {
    let file = append.appender.file();
    let begun_before = append.memtable.start > file.base + FileHeader::RECORD_LEN as u64;
    begun_before && !append.memtable.is_long_in(file.number) && !planted(Bug::LongBehindUnsynced)
}

/// Reserves log space for `len` bytes. On a full disk deletes get some from the reserve.
fn allocate(engine: &Engine, append: &mut Append, ops: Ops<'_>, len: u64) -> Result<bool> {
    loop {
        let allocated = engine.commit.log.allocate(&mut append.appender, len);
        let full = allocated.as_ref().is_err_and(|e| e.kind() == ErrorKind::NoSpace);
        if !full || engine.limit.is_some() {
            return allocated;
        }
        // Space that no reader holds any more is given back first.
        let freed = || {
            removal::purge_under_locks(engine)
                || log_retention::give_up_oldest(engine)
                || engine.full.lends(ops.need(), len)
        };
        if !freed() {
            return allocated;
        }
    }
}

/// The error of a write without room for its log: deletes get one that says that the reserve is
/// used up.
fn no_room_for_log(engine: &Engine, ops: Ops<'_>, error: Error) -> Error {
    if error.kind() != ErrorKind::NoSpace || engine.limit.is_some() || ops.need() != Need::Deletes {
        return error;
    }
    let message = "the disk is full, and what is reserved on it for deletes is used up; \
                   compact and collect give back what was deleted so far";
    Error::new(ErrorKind::NoSpace, message).with("reserve", engine.full.reserve.len())
}

fn needs_seqs(engine: &Engine, last: SeqNo) -> bool {
    last + SEQS_LOW >= engine.jobs.seq_limit()
}

fn reserve_seqs(engine: &Engine, last: SeqNo) -> Result<()> {
    if !needs_seqs(engine, last) {
        return Ok(());
    }
    if last > cleavedb_base::limits::SEQ_MAX - 2 * SEQS_RESERVED {
        let message = "sequence numbers are used up; export the data and import it anew";
        return Err(Error::new(ErrorKind::NoSpace, message));
    }
    let limit = last + SEQS_RESERVED;
    let mut manifest = engine.manifest.lock();
    engine.commit_edit(&mut manifest, &Edit { seq_limit: Some(limit), ..Edit::default() })?;
    engine.jobs.set_seq_limit(limit);
    Ok(())
}
