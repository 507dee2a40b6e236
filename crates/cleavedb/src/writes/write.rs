//! Writes, above the commit path: admission, waits, and accounting.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::sync::{MutexGuard, thread};
use cleavedb_base::{Error, ErrorKind, Result, SeqNo};

use crate::background::operand_chains::check_merge;
use crate::background::{memtables, reclaim, scheduler};
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
use crate::writes::admission::{self, Admission, Awaited, Facts, Obstacle};
use crate::writes::room;

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
    /// Whether it fails with [`ErrorKind::WouldWait`] where it would wait for room or for its turn.
    pub(crate) at_once: bool,
}

/// Commits changes of keyspaces as one batch; returns the sequence number of its last operation.
pub(crate) fn write_changes<'a>(
    engine: &Engine,
    changes: impl Iterator<Item = (Change<'a>, &'a Arc<CatalogEntry>)> + Clone,
    durability: Durability,
    terms: Terms<'_>,
) -> Result<SeqNo> {
    terms.keyspaces.iter().try_for_each(|keyspace| engine.catalog.check_own(keyspace))?;
    let (takes, count) = (memory_of(changes.clone()), || changes.clone().count());
    check_memory(takes, engine.options.batch_max(), count)?;
    let bytes = changes.clone().map(|(change, _)| change.len()).sum();
    let mut ranges = RangeDeletes::new(engine);
    for (position, (change, keyspace)) in changes.clone().enumerate() {
        match change {
            Change::One(_) => {}
            // What it deletes of lone files is long, and what is rewritten for that is short.
            Change::Range(begin, end) => {
                ranges.add(position, begin, end, engine.jobs.lone_files.any());
            }
            Change::Merge(key, stored) => check_merge(engine, keyspace, key, stored)?,
        }
    }
    ranges.tidy();
    let last = encoded_changes::encoded(engine, changes, &ranges, |ops| {
        write_ranges(engine, ops, bytes, &ranges, durability, terms)
    })?;
    ranges.done();
    Ok(last)
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
) -> Result<SeqNo> {
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
    let terms = Terms { numbered: Some(&numbered), ..terms };
    let last = write(engine, ops, bytes, durability, terms)?;
    if durability == Durability::Sync {
        // Jobs may apply it from now on, although nothing was flushed.
        engine.jobs.wake();
    }
    Ok(last)
}

/// Commits a batch of `bytes` bytes of keys and values; returns the sequence number of its last
/// operation.
#[inline]
pub(crate) fn write(
    engine: &Engine,
    ops: Ops<'_>,
    bytes: u64,
    durability: Durability,
    terms: Terms<'_>,
) -> Result<SeqNo> {
    engine.gate.check_open()?;
    let synced = durability == Durability::Sync;
    let _timer = engine.timer(if synced { Operation::SyncedWrite } else { Operation::Write });
    let len = ops.record_bytes();
    let admitted = match terms.at_once {
        true => admit_at_once(engine, ops, len, bytes),
        false => admit(engine, ops, len, bytes),
    };
    let committed =
        admitted.and_then(|append| commit_batch(engine, append, ops, len, durability, terms));
    let last = committed.inspect_err(|_| engine.tell_refusal())?;
    engine.counters.user_bytes.add(bytes);
    engine.counters.writes.add(1);
    engine.counters.operations.add(ops.op_count() as u64);
    if engine.jobs.lone_files.any() {
        memtables::hide_lone(engine, ops);
    }
    Ok(last)
}

/// The append lock, with room for `ops`, which have `len` bytes in all and `bytes` of keys and
/// values. Does what admission says about each obstacle until there is none.
#[inline]
fn admit<'e>(
    engine: &'e Engine,
    ops: Ops<'_>,
    len: u64,
    bytes: u64,
) -> Result<MutexGuard<'e, Append>> {
    let slowed = !engine.throttle.is_idle();
    let (mut next, mut failures) = (slowed.then(|| behind(engine, bytes)).flatten(), 0);
    loop {
        let met = match next.take() {
            Some(met) => met,
            None => match room::lock_with_room(engine, ops, len) {
                Ok(append) => return Ok(append),
                Err(met) => met,
            },
        };
        failures += u32::from(matches!(met, Obstacle::Failed(_)));
        next = overcome(engine, ops, met, failures)?;
    }
}

/// As [`admit`], without a wait: fails with [`ErrorKind::WouldWait`] where there is an obstacle.
fn admit_at_once<'e>(
    engine: &'e Engine,
    ops: Ops<'_>,
    len: u64,
    bytes: u64,
) -> Result<MutexGuard<'e, Append>> {
    let throttle = &engine.throttle;
    let slowed = !throttle.is_idle();
    if slowed && (throttle.stop().is_some() || throttle.is_owed(Instant::now())) {
        return Err(would_wait("background work is behind"));
    }
    let append = room::try_lock_with_room(engine, ops, len)?;
    let append = append.ok_or_else(|| would_wait("there is no room for it yet"))?;
    if slowed {
        // The pause for it is left to the writes that follow.
        let _ = behind(engine, bytes);
    }
    Ok(append)
}

/// The error of a merge that has to be a transaction.
#[cold]
pub(crate) fn must_read() -> Error {
    let what = "a merge has to read, since a value that expires was put near it";
    Error::new(ErrorKind::Conflict, what)
}

/// The error of a write that must not wait.
#[cold]
pub(crate) fn would_wait(why: &str) -> Error {
    let what = format!("the write would wait: {why}; nothing is written; use a call that waits");
    Error::new(ErrorKind::WouldWait, what)
}

/// How far background work is behind, for a writer of `bytes` bytes.
#[cold]
fn behind(engine: &Engine, bytes: u64) -> Option<Obstacle> {
    if let Some(cause) = engine.throttle.stop() {
        return Some(Obstacle::Stopped(cause));
    }
    if engine.options.background == Background::Manual {
        return None;
    }
    let (cause, pause) = engine.throttle.pause(bytes, Instant::now())?;
    Some(Obstacle::Slowed(cause, pause))
}

/// Does what admission says about the obstacle that `ops` have met, after as many `failures`.
/// Returns what that has led to, if it must be asked about, too.
#[cold]
fn overcome(
    engine: &Engine,
    ops: Ops<'_>,
    met: Obstacle,
    failures: u32,
) -> Result<Option<Obstacle>> {
    let need = ops.need();
    let facts = Facts {
        need,
        is_limited: engine.limit.is_some(),
        is_limit_reached: engine.space().is_limit_reached(need),
        lacks_space: engine.space().lacks_space(),
        is_disk_full: engine.space().is_disk_full(),
        is_open: engine.check_open().is_ok(),
    };
    match (admission::ask(&met, &facts), met) {
        (Admission::Go, _) => Ok(None),
        (Admission::Pause(cause, pause), _) => {
            thread::sleep(pause);
            engine.stalled(cause, pause);
            Ok(None)
        }
        (Admission::Wait(awaited), _) => wait(engine, awaited),
        (Admission::Reclaim(_), Obstacle::Failed(e)) => {
            reclaim::make_room_on_disk(engine, ops, failures, e).map(|()| None)
        }
        (Admission::Reclaim(need), _) => reclaim::find_space(engine, need).map(|()| None),
        (Admission::Refuse(e), _) => Err(e),
    }
}

/// Interval at which a writer that waits for the end of a bulk load looks again.
const LOAD_LOOK: Duration = Duration::from_millis(10);

/// Waits, or runs jobs; returns what admission is to be asked about then.
fn wait(engine: &Engine, awaited: Awaited) -> Result<Option<Obstacle>> {
    // A load waits for flushes, and a listener may be called by one.
    events::check_may_wait()?;
    match awaited {
        Awaited::Work(cause) => {
            let done = || engine.throttle.stop().is_none() || engine.space().lacks_space();
            // The cause is asked each time, since another one may replace it during the wait.
            let kind = || engine.throttle.stop().map(JobKind::awaited);
            let waited = || scheduler::wait_or_work(engine, done, kind);
            Ok(Some(Obstacle::Waited(engine.waiting(cause, waited))))
        }
        Awaited::Flush => {
            let has_room = || engine.state.load().waiting() < engine.options.memtables_max();
            let flushed = || scheduler::wait_or_work(engine, has_room, || Some(JobKind::Flush));
            Ok(engine.waiting(StallCause::Flush, flushed).err().map(Obstacle::Failed))
        }
        Awaited::Load => {
            let mut state = engine.jobs.lock();
            engine.check_open()?;
            if state.load.is_some() {
                engine.jobs.progress.wait_for(&mut state, LOAD_LOOK);
            }
            Ok(None)
        }
    }
}

/// Commits `ops` as one batch, under the lock that has room for them.
fn commit_batch(
    engine: &Engine,
    append: MutexGuard<'_, Append>,
    ops: Ops<'_>,
    len: u64,
    durability: Durability,
    terms: Terms<'_>,
) -> Result<SeqNo> {
    terms.keyspaces.iter().try_for_each(|keyspace| keyspace.check())?;
    if let Some(reads) = terms.reads {
        engine.commit.recent_writes.check(reads)?;
    }
    append.memtable.lifetimes.announce(ops.announced());
    if terms.must_read.is_some_and(|must_read| must_read()) {
        return Err(must_read());
    }
    let numbered = terms.numbered.unwrap_or(&|_| {});
    engine.commit.write(append, ops, len, durability, numbered, || engine.state.load())
}
