//! Writing, from above the commit path: throttling, accounting, and the flush of everything.

use std::sync::Arc;
use std::time::Instant;

use cleavedb_base::Result;
use cleavedb_base::sync::thread;

use crate::commit::Prepared;
use crate::engine::Engine;
use crate::jobs::JobKind;
use crate::metrics::StallCause;
use crate::options::{Background, Durability};

impl Engine {
    /// Commits a batch of `bytes` bytes of keys and values.
    #[inline]
    pub(crate) fn write(
        &self,
        ops: &[Prepared<'_>],
        bytes: u64,
        durability: Durability,
    ) -> Result<()> {
        self.slow_down(ops, bytes)?;
        self.commit.write(ops, durability, self)?;
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
            if cause == StallCause::Space && ops.iter().all(Prepared::is_delete) {
                // It takes little, and without it nothing would ever be given back.
                return Ok(());
            }
            if let Some(limit) = self.limit.as_ref().filter(|_| self.lacks_space()) {
                return self.find_space(limit);
            }
            let start = Instant::now();
            if self.options.background == Background::Manual {
                // Without threads this writer is the background.
                while self.throttle.stop().is_some() && self.run_one(&JobKind::ALL)? {}
            } else {
                // What one waits for may turn into another cause.
                self.wait_or_work(|| self.throttle.stop().is_none() || self.lacks_space())?;
            }
            self.counters.stalled(cause, start.elapsed());
            if let (Some(limit), Some(_)) = (&self.limit, self.throttle.stop()) {
                return self.find_space(limit);
            }
        } else if self.options.background != Background::Manual
            && let Some((cause, pause)) = self.throttle.pause(bytes)
        {
            thread::sleep(pause);
            self.counters.stalled(cause, pause);
        }
        Ok(())
    }

    /// Flushes everything that was committed before the call.
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
        self.wait_or_work(|| {
            !self.state.load().memtables.iter().any(|slot| Arc::ptr_eq(slot, &newest))
        })
    }
}
