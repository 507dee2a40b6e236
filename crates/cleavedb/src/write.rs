//! Writing, from above the commit path: throttling, accounting, and the flush of everything.

use std::sync::Arc;
use std::time::Instant;

use cleavedb_base::sync::thread;
use cleavedb_base::{Error, ErrorKind, Result};

use crate::commit::{Prepared, need};
use crate::engine::Engine;
use crate::failures::JobKind;
use crate::limit::{Limit, Need};
use crate::options::{Background, Durability};

/// How often a flush that all wait for is tried on a full disk.
const FLUSHES_MAX: usize = 8;

impl Engine {
    /// Commits a batch of `bytes` bytes of keys and values.
    #[inline]
    pub(crate) fn write(
        &self,
        ops: &[Prepared<'_>],
        bytes: u64,
        durability: Durability,
    ) -> Result<()> {
        self.gate.check_open()?;
        self.slow_down(ops, bytes)?;
        if let Some(limit) = &self.limit {
            self.make_room_for_long(limit, ops)?;
        }
        let mut attempts = 0;
        while let Err(e) = self.commit.write(ops, durability, self) {
            attempts += 1;
            self.make_room_on_disk(ops, attempts, e)?;
        }
        self.counters.user_bytes.add(bytes);
        self.counters.writes.add(1);
        Ok(())
    }

    /// Lets a writer feel how far behind the background is.
    #[inline]
    fn slow_down(&self, ops: &[Prepared<'_>], bytes: u64) -> Result<()> {
        if self.throttle.is_idle() {
            return Ok(());
        }
        self.slow_down_now(ops, bytes)
    }

    #[cold]
    fn slow_down_now(&self, ops: &[Prepared<'_>], bytes: u64) -> Result<()> {
        if let Some(cause) = self.throttle.stop() {
            // What deletes need is asked for when they begin a log file. The wait may show that the
            // disk is full.
            let has_room = || self.limit.is_some() || self.is_full();
            let passes = || has_room() && need(ops) == Need::Deletes;
            if !self.lacks_space() {
                let start = Instant::now();
                let waited = self.wait_for_background();
                self.counters.stalled(cause, start.elapsed());
                // Below a space limit a search may yet find some.
                let searches = self.limit.is_some() && !passes();
                waited.or_else(|e| match e.kind() {
                    ErrorKind::NoSpace if passes() => Ok(()),
                    // On a full disk no job may have room: who asks for log space hears of that.
                    ErrorKind::Stalled if passes() || searches || self.is_full() => Ok(()),
                    _ => Err(e),
                })?;
            }
            let stopped = self.throttle.stop().is_some() && !passes();
            if let Some(limit) = self.limit.as_ref().filter(|_| stopped) {
                return self.find_space(limit, Need::Write);
            }
        } else if self.options.background != Background::Manual
            && let Some((cause, pause)) = self.throttle.pause(bytes, Instant::now())
        {
            thread::sleep(pause);
            self.counters.stalled(cause, pause);
        }
        Ok(())
    }

    /// Waits, or works, until writers are not stopped any more, or for want of space.
    fn wait_for_background(&self) -> Result<()> {
        // What one waits for may turn into another cause.
        self.wait_or_work(
            || self.throttle.stop().is_none() || self.lacks_space(),
            || self.throttle.stop().map(JobKind::awaited),
        )
    }

    /// Searches for space for a batch that is longer than a log file, if there is none.
    fn make_room_for_long(&self, limit: &Limit, ops: &[Prepared<'_>]) -> Result<()> {
        let len = ops.iter().map(Prepared::len).sum();
        if len <= self.options.log_file_bytes || !self.refuses_long(len) {
            return Ok(());
        }
        self.find_space(limit, Need::Long(len))
    }

    /// Whether every operation is in a table.
    pub(crate) fn has_nothing_to_flush(&self) -> bool {
        self.state.load().memtables.iter().all(|slot| slot.table.is_empty())
    }

    /// Flushes everything that was committed before the call. On a full disk other jobs may have
    /// what a flush needs until they end, and it is tried again.
    pub(crate) fn flush_all(&self) -> Result<()> {
        let newest = {
            let mut append = self.commit.append();
            if !append.memtable.table.is_empty() {
                self.rotate_memtable(&mut append);
            }
            self.state.load().memtables.get(1).cloned()
        };
        // MemTables are flushed oldest first; what others fill meanwhile is not waited for.
        let Some(newest) = newest else { return Ok(()) };
        let flush = || {
            self.jobs.lock().failures.forgive();
            self.wait_or_work(
                || !self.state.load().memtables.iter().any(|slot| Arc::ptr_eq(slot, &newest)),
                || Some(JobKind::Flush),
            )
        };
        let lacks = |e: &Error| e.kind() == ErrorKind::NoSpace && self.full.is_short();
        let mut flushed = flush();
        for _ in 1..FLUSHES_MAX {
            if flushed.as_ref().err().is_none_or(|e| !lacks(e)) {
                break;
            }
            self.waits_for_others();
            self.reap();
            flushed = flush();
        }
        flushed
    }
}
