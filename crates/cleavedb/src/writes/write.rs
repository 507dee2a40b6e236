//! Writes, above the commit path: slow-down, accounting, and room for the batch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::checksum::hash64;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::sync::{MutexGuard, thread};
use cleavedb_base::{EncodedKey, Error, ErrorKind, Result, SeqNo};
use cleavedb_storage::log::FileHeader;

use crate::background::jobs::removal;
use crate::background::space::{budget, reserve};
use crate::background::{
    log_files, log_retention, memtables, operand_chains, pressure, reclaim, scheduler,
};
use crate::control::events;
use crate::control::failures::JobKind;
use crate::control::latency::Operation;
use crate::control::metrics::StallCause;
use crate::engine::Engine;
use crate::engine::encoded_changes;
use crate::engine::range_deletes::RangeDeletes;
use crate::operations::batch::{Change, check_memory, memory_of};
use crate::operations::catalog::CatalogEntry;
use crate::operations::commit::Append;
use crate::operations::ops::Ops;
use crate::operations::recent_writes::ReadSet;
use crate::settings::options::{Background, Durability};
use crate::store::limit::{Limit, Need};
use crate::store::manifest::Edit;

/// What a commit depends on, besides its operations.
#[derive(Clone, Copy, Default)]
pub(crate) struct Terms<'a> {
    /// What a transaction has read: no other commit may have written any of it since.
    pub(crate) reads: Option<&'a ReadSet>,
    /// Keyspaces of the operations besides the default one: none may have been dropped.
    pub(crate) keyspaces: &'a [Arc<CatalogEntry>],
    /// Asked under the append lock: whether its operands have to read, since values may expire
    /// where they go. Nothing is written then.
    pub(crate) must_read: Option<&'a dyn Fn() -> bool>,
    /// Called with the first sequence number, under the append lock, before the commit is visible.
    pub(crate) numbered: Option<&'a dyn Fn(SeqNo)>,
}

/// Commits changes of keyspaces as one batch.
pub(crate) fn write_changes<'a>(
    engine: &Engine,
    changes: impl Iterator<Item = (Change<'a>, &'a Arc<CatalogEntry>)> + Clone,
    durability: Durability,
    terms: Terms<'_>,
) -> Result<()> {
    terms.keyspaces.iter().try_for_each(|keyspace| engine.catalog.check_own(keyspace))?;
    let (takes, count) = (memory_of(changes.clone()), || changes.clone().count());
    check_memory(takes, engine.options.batch_max(), count)?;
    let bytes = changes.clone().map(|(change, _)| change.len()).sum();
    let mut ranges = RangeDeletes::new(engine);
    for (position, (change, keyspace)) in changes.clone().enumerate() {
        match change {
            Change::One(_) => {}
            // What it deletes of blobs is long, and what is rewritten for that is short.
            Change::Range(begin, end) => {
                ranges.add(position, begin, end, engine.jobs.stale_blobs.any());
            }
            Change::Operand(key, stored) => {
                engine.merges.operators().check_stored(stored)?;
                let encoded_key = EncodedKey::new(keyspace.id, key);
                let encoded_key = encoded_key.as_bytes();
                operand_chains::note_long(engine, encoded_key, hash64(encoded_key, 0));
            }
        }
    }
    ranges.tidy();
    encoded_changes::encoded(engine, changes, &ranges, |ops| {
        write_ranges(engine, ops, bytes, &ranges, durability, terms)
    })?;
    ranges.done();
    Ok(())
}

/// Commits `ops`, some of which are those of `ranges`, if there are any, and the last ones their
/// removals.
pub(crate) fn write_ranges(
    engine: &Engine,
    ops: Ops<'_>,
    bytes: u64,
    ranges: &RangeDeletes<'_>,
    durability: Durability,
    terms: Terms<'_>,
) -> Result<()> {
    if ranges.is_empty() {
        return write(engine, ops, bytes, durability, terms);
    }
    let before = terms.numbered;
    let numbered = |first: SeqNo| {
        if let Some(before) = before {
            before(first);
        }
        ranges.numbered(first);
    };
    write(engine, ops, bytes, durability, Terms { numbered: Some(&numbered), ..terms })?;
    if durability == Durability::Sync {
        // Jobs may apply it from now on, although nothing was flushed.
        engine.jobs.wake();
    }
    Ok(())
}

/// Commits a batch of `bytes` bytes of keys and values.
#[inline]
pub(crate) fn write(
    engine: &Engine,
    ops: Ops<'_>,
    bytes: u64,
    durability: Durability,
    terms: Terms<'_>,
) -> Result<()> {
    engine.gate.check_open()?;
    let synced = durability == Durability::Sync;
    let _timer = engine.timer(if synced { Operation::SyncedWrite } else { Operation::Write });
    slow_down(engine, ops, bytes)?;
    if let Some(limit) = &engine.limit {
        make_room_for_long(engine, limit, ops)?;
    }
    let mut attempts = 0;
    while let Err(e) = commit_batch(engine, ops, durability, terms) {
        attempts += 1;
        engine.tell_refusal();
        reclaim::make_room_on_disk(engine, ops, attempts, e)?;
    }
    engine.counters.user_bytes.add(bytes);
    engine.counters.writes.add(1);
    engine.counters.operations.add(ops.op_count() as u64);
    if engine.jobs.stale_blobs.any() {
        memtables::hides_blobs(engine, engine.jobs.stale_blobs.hidden_bytes(ops));
    }
    Ok(())
}

/// Slows a writer down by how far background work is behind.
#[inline]
fn slow_down(engine: &Engine, ops: Ops<'_>, bytes: u64) -> Result<()> {
    if engine.throttle.is_idle() {
        return Ok(());
    }
    slow_down_now(engine, ops, bytes)
}

#[cold]
fn slow_down_now(engine: &Engine, ops: Ops<'_>, bytes: u64) -> Result<()> {
    if let Some(cause) = engine.throttle.stop() {
        events::check_may_wait()?;
        // Deletes pass: they ask for their space when they begin a log file. Whether they pass is
        // asked again after the wait, which may show that the disk is full.
        let has_room = || engine.limit.is_some() || reserve::is_full(engine);
        let passes = || has_room() && ops.need() == Need::Deletes;
        if !budget::lacks_space(engine) {
            let waited = engine.waiting(cause, || wait_for_background(engine));
            // Below a space limit a search may still find space.
            let searches = engine.limit.is_some() && !passes();
            waited.or_else(|e| match e.kind() {
                ErrorKind::NoSpace if passes() => Ok(()),
                // On a full disk no job may have room; the writer then gets the error when it
                // reserves log space.
                ErrorKind::Stalled if passes() || searches || reserve::is_full(engine) => Ok(()),
                _ => Err(e),
            })?;
        }
        let stopped = engine.throttle.stop().is_some() && !passes();
        if let Some(limit) = engine.limit.as_ref().filter(|_| stopped) {
            return reclaim::find_space(engine, limit, Need::Write);
        }
    } else if engine.options.background != Background::Manual
        && let Some((cause, pause)) = engine.throttle.pause(bytes, Instant::now())
    {
        thread::sleep(pause);
        engine.stalled(cause, pause);
    }
    Ok(())
}

/// Waits, or runs jobs, until writers are not stopped any more, or until there is a lack of space.
fn wait_for_background(engine: &Engine) -> Result<()> {
    // The cause is asked each time, since another one may replace it during the wait.
    scheduler::wait_or_work(
        engine,
        || engine.throttle.stop().is_none() || budget::lacks_space(engine),
        || engine.throttle.stop().map(JobKind::awaited),
    )
}

/// Searches for space for a batch that is longer than a log file, if there is too little.
fn make_room_for_long(engine: &Engine, limit: &Limit, ops: Ops<'_>) -> Result<()> {
    let len = ops.record_bytes();
    if len <= engine.options.tuning.log_file_bytes || !budget::refuses_long(engine, len) {
        return Ok(());
    }
    reclaim::find_space(engine, limit, Need::Long(len))
}

/// Interval at which a writer that waits for the end of a bulk load looks again.
const LOAD_LOOK: Duration = Duration::from_millis(10);

/// Sequence numbers that one edit reserves.
pub(crate) const SEQS_RESERVED: SeqNo = 1 << 30;

/// Least number of reserved sequence numbers after a commit: before fewer are left, more are
/// reserved.
const SEQS_LOW: SeqNo = 1 << 22;

/// Prepares the MemTable, the log file and the sequence numbers for `ops`, of `len` bytes in all;
/// may replace the MemTable and the log file. `false` if the caller must wait without the lock and
/// try again.
fn make_room(engine: &Engine, append: &mut Append, ops: Ops<'_>, len: u64) -> Result<bool> {
    engine.check_open()?;
    check_disk(engine, ops)?;
    let outgrows_file = len > engine.options.tuning.log_file_bytes;
    let growth = engine.commit.log.growth(&append.appender, len);
    if let Some(longer) = growth.filter(|_| !engine.full.is_short()) {
        engine.commit.grow_window(append, &*engine.storage, longer)?;
    }
    let refused = |_: &&Limit| outgrows_file && budget::refuses_long(engine, len);
    if let Some(limit) = engine.limit.as_ref().filter(refused) {
        return Err(budget::exhausted(engine, limit));
    }
    if memtable_full(engine, append) {
        let crowded = engine.state.load().waiting() >= engine.options.memtables_max();
        match crowded {
            false => memtables::rotate_memtable(engine, append),
            true if squeezes_in(engine, append, ops) => {}
            true => return Ok(false),
        }
    }
    let long = have_long(engine, ops);
    let apart = long && needs_file_for_long(append);
    if apart || engine.commit.log.needs_file(&append.appender, len) {
        // The limit is asked under the lock, since any number of writers may have passed before it
        // was reached.
        if is_stopped_by_limit(engine, ops) {
            return Ok(false);
        }
        log_files::rotate_log(engine, append)
            .map_err(|e| reclaim::no_room_for_log(engine, ops, e))?;
    }
    if allocate(engine, append, ops, len).map_err(|e| reclaim::no_room_for_log(engine, ops, e))? {
        reserve::keep_reserve(engine);
        // The next log file may be due now.
        engine.jobs.wake();
    }
    if outgrows_file && engine.limit.is_some() {
        append.memtable.long_bytes.fetch_add(len, Ordering::Relaxed);
    }
    if long {
        append.memtable.has_long_in(append.appender.file().number);
    }
    reserve_seqs(engine, append.last_seq() + ops.op_count() as u64)?;
    Ok(true)
}

/// Waits until there may be room for `ops`.
fn wait_for_room(engine: &Engine, ops: Ops<'_>) -> Result<()> {
    events::check_may_wait()?;
    if let Some(limit) = engine.limit.as_ref().filter(|_| is_stopped_by_limit(engine, ops)) {
        pressure::update_pressure(engine);
        return reclaim::find_space(engine, limit, ops.need());
    }
    let has_room = || engine.state.load().waiting() < engine.options.memtables_max();
    let flushed = || scheduler::wait_or_work(engine, has_room, || Some(JobKind::Flush));
    engine.waiting(StallCause::Flush, flushed)
}

/// Waits a while for the end of a bulk load that is being published.
#[cold]
fn wait_for_load(engine: &Engine) -> Result<()> {
    // A load waits for flushes, and a listener may be called by one.
    events::check_may_wait()?;
    let mut state = engine.jobs.lock();
    engine.check_open()?;
    if state.load.is_some() {
        engine.jobs.progress.wait_for(&mut state, LOAD_LOOK);
    }
    Ok(())
}

/// Whether the space limit is reached for `ops`.
fn is_stopped_by_limit(engine: &Engine, ops: Ops<'_>) -> bool {
    engine.limit.as_ref().is_some_and(|limit| limit.is_reached(ops.need()))
}

fn memtable_full(engine: &Engine, append: &Append) -> bool {
    let covered = append.appender.next() - append.memtable.start;
    let limits = &engine.memtable_limits;
    let log_bytes = limits.log_bytes.min(engine.throttle.log_bytes_per_memtable_max());
    !append.memtable.table.is_empty()
        && (append.memtable.table.memory() >= limits.memory || covered >= log_bytes)
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

/// Whether `ops` may go to a full MemTable although no other may be begun: deletes may, on a full
/// disk, where flushes may wait for the space that the deletes free.
fn squeezes_in(engine: &Engine, append: &Append, ops: Ops<'_>) -> bool {
    let most = engine.options.memtable().saturating_mul(2);
    reserve::is_full(engine) && ops.need() == Need::Deletes && append.memtable.table.memory() < most
}

/// Whether `ops` has a long value to which tables will point in the log, although they point to no
/// other value there.
fn have_long(engine: &Engine, ops: Ops<'_>) -> bool {
    engine.options.log().keeps_long_values() && ops.have_separated()
}

/// Whether a long value must not go to the log file in use, because a flush may have covered the
/// front of the file without a sync. After a crash the front could be missing, which a reader of
/// the file from its start would find damaged.
fn needs_file_for_long(append: &Append) -> bool {
    let file = append.appender.file();
    let begun_before = append.memtable.start > file.base + FileHeader::RECORD_LEN as u64;
    begun_before && !append.memtable.is_long_in(file.number) && !planted(Bug::LongBehindUnsynced)
}

fn reserve_seqs(engine: &Engine, last: SeqNo) -> Result<()> {
    if last + SEQS_LOW < engine.jobs.seq_limit() {
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

/// The append lock, with room for `ops`, of `len` bytes in all.
fn lock_with_room<'e>(
    engine: &'e Engine,
    ops: Ops<'_>,
    len: u64,
) -> Result<MutexGuard<'e, Append>> {
    loop {
        let mut append = engine.commit.open_append()?;
        if append.is_held() {
            drop(append);
            wait_for_load(engine)?;
            continue;
        }
        if make_room(engine, &mut append, ops, len)? {
            return Ok(append);
        }
        drop(append);
        wait_for_room(engine, ops)?;
    }
}

/// Commits `ops` as one batch.
fn commit_batch(
    engine: &Engine,
    ops: Ops<'_>,
    durability: Durability,
    terms: Terms<'_>,
) -> Result<()> {
    let (len, expiring) = (ops.record_bytes(), ops.expiring());
    let append = lock_with_room(engine, ops, len)?;
    terms.keyspaces.iter().try_for_each(|keyspace| keyspace.check())?;
    if let Some(reads) = terms.reads {
        engine.commit.recent_writes.check(reads)?;
    }
    append.memtable.will_expire(expiring);
    if terms.must_read.is_some_and(|must_read| must_read()) {
        let what = "a merge has to read, since a value that expires was put near it meanwhile";
        return Err(Error::new(ErrorKind::Conflict, what));
    }
    let numbered = terms.numbered.unwrap_or(&|_| {});
    engine.commit.write(append, ops, len, durability, numbered, || engine.state.load())
}

/// Refuses writes other than deletes while the reserve is in use.
#[inline]
pub(crate) fn check_disk(engine: &Engine, ops: Ops<'_>) -> Result<()> {
    if !engine.full.is_short() || ops.need() == Need::Deletes {
        return Ok(());
    }
    check_disk_now(engine)
}

#[cold]
pub(crate) fn check_disk_now(engine: &Engine) -> Result<()> {
    // Space that no reader holds any more is given back first.
    removal::purge_under_locks(engine);
    reserve::keep_reserve(engine);
    while engine.full.is_short() && log_retention::give_up_oldest(engine) {
        removal::purge_under_locks(engine);
        reserve::keep_reserve(engine);
    }
    if !engine.full.is_short() {
        return Ok(());
    }
    let message = "the disk is full, and what is reserved on it is kept for deletes, compact \
                   and collect; delete something, or make room on the disk";
    Err(Error::new(ErrorKind::NoSpace, message).with("reserve", engine.full.reserve.len()))
}
