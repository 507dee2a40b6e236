//! Writing below the space limit: what writers leave to jobs, and what happens at its end.
//!
//! The storage refuses what exceeds the limit ([`cleavedb_storage::Limited`]). Here is what keeps
//! the database working below it. Writers are slowed, and then stopped, while there is still room
//! for what jobs must write before they give anything back: the flush of every MemTable, and the
//! largest collection or compaction, whichever is more. A job begins only if what it may need is
//! there. A writer that was stopped searches for space: it does all that is due, then lets the
//! index sink into its deepest level, so that all that is dead is known and can be collected. If it
//! is stopped still, the write fails with [`ErrorKind::NoSpace`], and so do others until something
//! has changed. Deletes have some space of their own, and search at its end, too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::limited::Plan;

use crate::engine::Engine;
use crate::limit::{
    Collected, Limit, Need, Searched, Situation, apart, flush_max, flushed_max, for_deletes, logs,
    planned, rewritten_max,
};
use crate::manifest::LiveFiles;
use crate::metrics::StallCause;
use crate::options::Background;
use crate::state::MemSlot;
use crate::throttle::Pressure;

/// A search that found nothing is made again after so many times what it took, or once one in so
/// many entries has been deleted.
const SEARCH_REST: u32 = 8;
const DELETED: u64 = 64;

/// How often a search waits for jobs that began when the last ones had ended.
const SETTLES_MAX: usize = 100;
const SETTLE_REST: Duration = Duration::from_millis(10);

impl Engine {
    /// Bytes that jobs may need before they give anything back, and that writers leave them.
    fn kept_for_jobs(&self, live: &LiveFiles) -> u64 {
        if planted(Bug::NothingKeptForJobs) {
            return 0;
        }
        let options = &self.options;
        let rewritten = live.groups.groups().map(|(id, _)| rewritten_max(&live.groups, id)).max();
        let file = options.log().collected_bytes(options);
        let index: u64 = live.version.tables().map(|(_, table)| table.meta().size).sum();
        let whole = live.version.level_bytes(0) + live.version.level_bytes(1);
        let neighbours = index.min(self.compaction_options().compaction_bytes_max());
        let compaction = whole.max(neighbours);
        let job = rewritten.unwrap_or_default().max(file).max(compaction);
        let flush = flush_max(options, live.groups.groups().count());
        let flushes = flush.saturating_mul(options.memtables_max as u64 + 1);
        let parts = [logs(options), planned(job), self.long_batches()];
        parts.into_iter().fold(flushes, u64::saturating_add)
    }

    /// How near the files are to the limit, if there is one.
    pub(crate) fn limit_pressure(&self, live: &LiveFiles) -> Option<Pressure> {
        let limit = self.limit.as_ref()?;
        let full = limit.budget.most().saturating_sub(self.kept_for_jobs(live));
        let stop = full.saturating_sub(for_deletes(&self.options, live.groups.groups().count()));
        limit.stop.store(stop, Ordering::Relaxed);
        limit.full.store(full, Ordering::Relaxed);
        let pressure = self.pressure_below(limit, stop);
        limit.stops.store(pressure.level >= 1.0, Ordering::Relaxed);
        Some(pressure)
    }

    fn pressure_below(&self, limit: &Limit, stop: u64) -> Pressure {
        Pressure::of(StallCause::Space, limit.budget.data(), self.slow_from(stop), stop)
    }

    fn slow_from(&self, stop: u64) -> u64 {
        stop - (stop / 32).max(self.options.log_file_bytes).min(stop)
    }

    /// Whether the files come near the limit, so that garbage that the space goal tolerates must
    /// go, of which there is some by estimate.
    pub(crate) fn is_short(&self, live: &LiveFiles, counted: u64) -> bool {
        let Some(limit) = &self.limit else { return false };
        let stop = limit.stop.load(Ordering::Relaxed);
        let alive = live.estimated_live();
        limit.budget.data() > self.slow_from(stop) && counted > alive + alive / 20
    }

    /// Whether as much was rewritten as all the `counted` bytes, and nothing came of it: what is
    /// alive is an estimate, and what is mostly dead may be too long for the room that there is.
    pub(crate) fn collects_in_vain(&self, counted: u64) -> bool {
        self.limit.as_ref().is_some_and(|limit| limit.collected.lock().in_vain > counted)
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
        let pressure = self.pressure_below(limit, limit.stop.load(Ordering::Relaxed));
        self.throttle.raise(pressure);
        // Only who looks under the manifest's lock may take it back.
        limit.stops.fetch_or(pressure.level >= 1.0, Ordering::Relaxed);
    }

    /// Bytes that a job which begins now may write.
    pub(crate) fn room(&self) -> u64 {
        self.limit.as_ref().map_or(u64::MAX, |limit| limit.budget.room(self.flushes()))
    }

    /// Whether a batch of `len` bytes, which is longer than a log file, is to be refused: no room
    /// is kept for its log, its flush, and the log file behind it.
    pub(crate) fn refuses_long(&self, len: u64) -> bool {
        self.limit.is_some() && self.try_plan(self.long_max(len)).is_none()
    }

    fn long_max(&self, len: u64) -> u64 {
        len.saturating_add(flushed_max(len)).saturating_add(self.options.log_file_bytes)
    }

    /// Bytes that flushes may write on account of batches that are longer than a log file.
    fn long_batches(&self) -> u64 {
        let state = self.state.load();
        let bytes = |slot: &Arc<MemSlot>| flushed_max(slot.long_bytes.load(Ordering::Relaxed));
        state.memtables.iter().map(bytes).sum()
    }

    /// Bytes that the flushes of all MemTables may write.
    fn flushes(&self) -> u64 {
        let state = self.state.load();
        let flush = flush_max(&self.options, state.groups.groups().count());
        flush.saturating_mul(state.memtables.len() as u64).saturating_add(self.long_batches())
    }

    /// Plans a job that may write so many bytes before it gives any back: `None` if it must not
    /// begin now, `Some(None)` if there is no limit.
    pub(crate) fn plan(&self, bytes: u64) -> Option<Option<Plan>> {
        let Some(limit) = &self.limit else { return Some(None) };
        let plan = self.try_plan(bytes);
        match plan {
            Some(_) => limit.starved.store(false, Ordering::Relaxed),
            None => limit.starve(),
        }
        plan.map(Some)
    }

    fn try_plan(&self, bytes: u64) -> Option<Plan> {
        self.limit.as_ref()?.budget.plan(planned(bytes), self.flushes())
    }

    /// Lets a write that would come too near to the limit wait for space, if any can be found.
    pub(crate) fn find_space(&self, limit: &Limit, need: Need) -> Result<()> {
        if !self.lacks(limit, need) {
            return Ok(());
        }
        let start = Instant::now();
        let found = self.search(limit, need);
        self.counters.stalled(StallCause::Space, start.elapsed());
        found
    }

    fn search(&self, limit: &Limit, need: Need) -> Result<()> {
        // One searches for all.
        let mut searched = limit.searched.lock();
        if !self.lacks_now(limit, need)? {
            return Ok(());
        }
        // What no reader holds any more needs no search.
        self.reap();
        if searched.as_ref().is_some_and(|last| self.rests(limit, last, need)) {
            return Err(self.exhausted(limit));
        }
        let start = Instant::now();
        *limit.collected.lock() = Collected::default();
        self.settle_within(limit, need)?;
        if self.lacks_now(limit, need)? {
            limit.searching.store(true, Ordering::Relaxed);
            let sunk = self.flush_all().and_then(|()| self.settle_within(limit, need));
            limit.searching.store(false, Ordering::Relaxed);
            sunk.or_else(within)?;
        }
        if !self.lacks_now(limit, need)? {
            *searched = None;
            return Ok(());
        }
        let (situation, end) = (self.situation(limit), Instant::now());
        *searched = Some(Searched { situation, end, took: end - start });
        Err(self.exhausted(limit))
    }

    /// Whether it is too early for another search. Deletes are what one waits for.
    fn rests(&self, limit: &Limit, last: &Searched, need: Need) -> bool {
        let situation = self.situation(limit);
        let manual = self.options.background == Background::Manual;
        if manual || need == Need::Deletes || situation == last.situation {
            return situation == last.situation;
        }
        let picture = self.state.load();
        let tables = picture.version.tables();
        let entries: u64 = tables.map(|(_, table)| table.meta().entries).sum();
        let since = situation.visible - last.situation.visible;
        since * DELETED < entries && last.end.elapsed() < last.took * SEARCH_REST
    }

    /// Whether there is none still, after a look.
    fn lacks_now(&self, limit: &Limit, need: Need) -> Result<bool> {
        self.check_open()?;
        self.update_pressure();
        Ok(self.lacks(limit, need))
    }

    fn lacks(&self, limit: &Limit, need: Need) -> bool {
        match need {
            Need::Write => self.lacks_space(),
            Need::Deletes => limit.is_reached(need),
            Need::Long(len) => self.lacks_space() || self.refuses_long(len),
        }
    }

    /// Whether there is a limit, and writers are stopped by it, or for a job that has no room.
    pub(crate) fn lacks_space(&self) -> bool {
        self.limit.as_ref().is_some_and(|limit| {
            let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
            // A stop may be out of date, since a file's last reader tells nobody: a search looks
            // again.
            let lacks = || is(&limit.stops) || is(&limit.starved) || limit.is_reached(Need::Write);
            self.throttle.stop().is_some() && lacks()
        })
    }

    /// Does what is due, for as long as there is no space. What a job has written and not yet given
    /// back is no sign of a full store, so none may be under way at the end.
    fn settle_within(&self, limit: &Limit, need: Need) -> Result<()> {
        for _ in 0..SETTLES_MAX {
            self.settle_past_damage(&|| self.lacks(limit, need))?;
            if !self.lacks(limit, need) || limit.budget.planned() == 0 {
                break;
            }
            self.jobs.progress.wait_for(&mut self.jobs.lock(), SETTLE_REST);
        }
        Ok(())
    }

    /// Does what is due, as long as it is `wanted`. What is found to be damaged is in nobody's way
    /// from then on, and no reason to refuse a write.
    fn settle_past_damage(&self, wanted: &dyn Fn() -> bool) -> Result<()> {
        loop {
            let left_alone = self.jobs.lock().left_alone();
            let settled = self.settle_while(wanted);
            if settled.is_ok() || self.jobs.lock().left_alone() == left_alone {
                return settled.or_else(within);
            }
        }
    }

    fn situation(&self, limit: &Limit) -> Situation {
        let (snapshots, visible) = self.snapshots.fix(|| self.commit.visible());
        Situation { visible, snapshots, data: limit.budget.data() }
    }

    #[cold]
    pub(crate) fn exhausted(&self, limit: &Limit) -> Error {
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
pub(crate) fn within(error: Error) -> Result<()> {
    if error.kind() == ErrorKind::NoSpace { Ok(()) } else { Err(error) }
}
