//! Writing below the space limit: what writers leave to jobs, and what happens at its end.
//!
//! The storage refuses what exceeds the limit ([`cleavedb_storage::Limited`]). Here is what keeps
//! the database working below it. Writers are slowed, and then stopped, while there is still room
//! for what jobs must write before they give anything back: the flush of every MemTable, and the
//! largest collection or compaction, whichever is more. A job begins only if what it may need is
//! there. A writer that was stopped searches for space: it does all that is due, then lets the
//! index sink into its deepest level, so that all that is dead is known and can be collected. If it
//! is stopped still, the write fails with [`ErrorKind::NoSpace`], and so do others until something
//! has changed. Deletes are not stopped.

use std::time::Instant;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{Error, ErrorKind, GroupId, Result};
use cleavedb_storage::limited::Plan;
use cleavedb_values::GroupTable;

use crate::commit::Append;
use crate::engine::Engine;
use crate::limit::{Collected, Limit, Searched, Situation, apart, flush_max, logs, rewritten_max};
use crate::manifest::LiveFiles;
use crate::metrics::StallCause;
use crate::options::Background;
use crate::throttle::Pressure;

/// A search that found nothing is made again after so many times what it took, or once one in so
/// many entries has been deleted.
const SEARCH_REST: u32 = 8;
const DELETED: u64 = 64;

/// How often a search waits for jobs that began when the last ones had ended.
const SETTLES_MAX: usize = 100;

impl Engine {
    /// Bytes that jobs may need before they give anything back, and that writers leave them.
    fn kept_for_jobs(&self, live: &LiveFiles) -> u64 {
        if planted(Bug::NothingKeptForJobs) {
            return 0;
        }
        let options = &self.options;
        let rewritten = live.groups.groups().map(|(id, _)| rewritten_max(&live.groups, id)).max();
        let file = if live.groups.is_empty() {
            options.segment_bytes.max(options.log_file_bytes)
        } else {
            options.groups.main_segment_bytes
        };
        let index: u64 = live.version.tables().map(|(_, table)| table.meta().size).sum();
        let whole = live.version.level_bytes(0) + live.version.level_bytes(1);
        let neighbours = index.min(self.compaction_options().compaction_bytes_max());
        let compaction = whole.max(neighbours);
        let job = rewritten.unwrap_or_default().max(file).max(compaction);
        let flush = flush_max(options, live.groups.groups().count());
        (options.memtables_max as u64 + 1) * flush + logs(options) + job
    }

    /// How near the files are to the limit, if there is one.
    pub(crate) fn limit_pressure(&self, live: &LiveFiles) -> Option<Pressure> {
        let limit = self.limit.as_ref()?;
        let stop = limit.budget.most().saturating_sub(self.kept_for_jobs(live));
        limit.stop.store(stop, Ordering::Relaxed);
        Some(self.pressure_below(limit, stop))
    }

    fn pressure_below(&self, limit: &Limit, stop: u64) -> Pressure {
        let data = limit.budget.data();
        limit.reached.store(data >= stop, Ordering::Relaxed);
        Pressure::of(StallCause::Space, data, self.slow_from(stop), stop)
    }

    fn slow_from(&self, stop: u64) -> u64 {
        stop - (stop / 32).max(self.options.log_file_bytes).min(stop)
    }

    /// Whether the files come near the limit, so that garbage that the space goal tolerates must
    /// go, of which there is some: by estimate, so not if all was rewritten in vain.
    pub(crate) fn is_short(&self, live: &LiveFiles, counted: u64) -> bool {
        let Some(limit) = &self.limit else { return false };
        let stop = limit.stop.load(Ordering::Relaxed);
        let alive = live.estimated_live();
        limit.budget.data() > self.slow_from(stop)
            && counted > alive + alive / 20
            && limit.collected.lock().in_vain <= counted
    }

    /// Whether files must go at once.
    pub(crate) fn is_near_limit(&self) -> bool {
        self.limit.as_ref().is_some_and(|limit| {
            limit.budget.data() > self.slow_from(limit.stop.load(Ordering::Relaxed))
        })
    }

    /// Whether all of the index must sink, for the sake of what is dead in it.
    pub(crate) fn sinks(&self) -> bool {
        self.limit.as_ref().is_some_and(|limit| limit.searching.load(Ordering::Relaxed))
    }

    /// Looks again at how near the limit is: somebody begins a log file.
    pub(crate) fn log_file_begun(&self) {
        let Some(limit) = &self.limit else { return };
        *limit.collected.lock() = Collected::default();
        let stop = limit.stop.load(Ordering::Relaxed);
        self.throttle.raise(self.pressure_below(limit, stop));
    }

    /// Whether there is room for a collection of `group`.
    pub(crate) fn fits(&self, groups: &GroupTable, group: GroupId) -> bool {
        self.limit.is_none() || self.try_plan(rewritten_max(groups, group)).is_some()
    }

    /// Makes room for a batch of `len` bytes, which is longer than a log file, or refuses it: none
    /// is kept for its log and its flush.
    pub(crate) fn admit_long(&self, limit: &Limit, append: &Append, len: u64) -> Result<()> {
        if self.try_plan(2 * len).is_none() {
            return Err(self.exhausted(limit));
        }
        self.commit.log.allocate(&append.appender, len)
    }

    /// Plans a job that may write so many bytes before it gives any back: `None` if it must not
    /// begin now, `Some(None)` if there is no limit.
    pub(crate) fn plan(&self, bytes: u64) -> Option<Option<Plan>> {
        let Some(limit) = &self.limit else { return Some(None) };
        let plan = self.try_plan(bytes);
        // What others are about to give back will do.
        let starved = plan.is_none() && limit.budget.planned() == 0;
        limit.starved.store(starved, Ordering::Relaxed);
        plan.map(Some)
    }

    fn try_plan(&self, bytes: u64) -> Option<Plan> {
        let state = self.state.load();
        let flush = flush_max(&self.options, state.groups.groups().count());
        let flushes = state.memtables.len() as u64 * flush;
        self.limit.as_ref()?.budget.plan(bytes + bytes / 16, flushes)
    }

    /// Lets a write that would come too near to the limit wait for space, if any can be found.
    pub(crate) fn find_space(&self, limit: &Limit) -> Result<()> {
        let start = Instant::now();
        let found = self.search(limit);
        self.counters.stalled(StallCause::Space, start.elapsed());
        found
    }

    fn search(&self, limit: &Limit) -> Result<()> {
        // One searches for all.
        let mut searched = limit.searched.lock();
        if !self.is_stopped()? {
            return Ok(());
        }
        if searched.as_ref().is_some_and(|last| self.rests(limit, last)) {
            return Err(self.exhausted(limit));
        }
        let start = Instant::now();
        self.settle_within(limit)?;
        if self.is_stopped()? {
            limit.searching.store(true, Ordering::Relaxed);
            let sunk = self.flush_all().and_then(|()| self.settle_within(limit));
            limit.searching.store(false, Ordering::Relaxed);
            sunk.or_else(within)?;
        }
        if !self.is_stopped()? {
            *searched = None;
            return Ok(());
        }
        let (situation, end) = (self.situation(limit), Instant::now());
        *searched = Some(Searched { situation, end, took: end - start });
        Err(self.exhausted(limit))
    }

    /// Whether it is too early for another search.
    fn rests(&self, limit: &Limit, last: &Searched) -> bool {
        let situation = self.situation(limit);
        if self.options.background == Background::Manual || situation == last.situation {
            return situation == last.situation;
        }
        let picture = self.state.load();
        let tables = picture.version.tables();
        let entries: u64 = tables.map(|(_, table)| table.meta().entries).sum();
        let since = situation.visible - last.situation.visible;
        since * DELETED < entries && last.end.elapsed() < last.took * SEARCH_REST
    }

    /// Whether writers are stopped for want of space now.
    fn is_stopped(&self) -> Result<bool> {
        self.check_open()?;
        self.update_pressure();
        Ok(self.lacks_space())
    }

    /// Whether there is a limit, and writers are stopped by it, or for a job that has no room.
    pub(crate) fn lacks_space(&self) -> bool {
        self.limit.as_ref().is_some_and(|limit| {
            let lacks = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
            self.throttle.stop().is_some() && (lacks(&limit.reached) || lacks(&limit.starved))
        })
    }

    /// Does all that is due. What a job has written and not yet given back is no sign of a full
    /// store, so none may be under way at the end.
    fn settle_within(&self, limit: &Limit) -> Result<()> {
        for _ in 0..SETTLES_MAX {
            self.settle().or_else(within)?;
            if limit.budget.planned() == 0 {
                break;
            }
        }
        Ok(())
    }

    fn situation(&self, limit: &Limit) -> Situation {
        let (visible, snapshots) = (self.commit.visible(), self.snapshots.len());
        Situation { visible, snapshots, data: limit.budget.data() }
    }

    #[cold]
    fn exhausted(&self, limit: &Limit) -> Error {
        let manifest = self.manifest.lock();
        let kept = self.kept_for_jobs(manifest.live()) + apart(&self.options);
        let message = "the space limit is reached, and nothing more can be collected; delete \
                       something, release snapshots, or reopen with a higher space_limit";
        Error::new(ErrorKind::NoSpace, message)
            .with("limit", limit.budget.limit())
            .with("used", limit.budget.used())
            .with("kept for jobs", kept)
    }
}

/// That a job had no room is what a search is about, not its failure.
fn within(error: Error) -> Result<()> {
    if error.kind() == ErrorKind::NoSpace { Ok(()) } else { Err(error) }
}
