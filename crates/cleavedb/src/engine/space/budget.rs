//! Space below a space limit: how much writers leave to jobs, and how much a job may take.
//!
//! The storage refuses writes that exceed the limit ([`cleavedb_storage::QuotaStorage`]). Writers
//! are slowed, and then stopped, while there is still room for what jobs must write before they
//! give space back: the flush of every MemTable, and the larger of the largest collection and the
//! largest compaction. A job begins only if there is room for the most that it may write. Some room
//! is set aside for deletes.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{Error, ErrorKind};
use cleavedb_storage::quota::Plan;

use crate::control::metrics::StallCause;
use crate::control::throttle::Pressure;
use crate::engine::space::SpaceContext;
use crate::store::limit::{
    Limit, Need, ReclaimHistory, flush_max, flushed_max, for_deletes, for_metadata, logs, planned,
    rewritten_max,
};
use crate::store::manifest::LiveFiles;
use crate::store::state::MemSlot;

impl SpaceContext<'_> {
    /// Bytes that writers leave free for what jobs may write before they give space back.
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
        let flushes = flush.saturating_mul(options.memtables_max() as u64 + 1);
        let parts = [logs(options), planned(job), self.long_batches()];
        parts.into_iter().fold(flushes, u64::saturating_add)
    }

    /// How near the files are to the limit, if there is one.
    pub(crate) fn limit_pressure(&self, live: &LiveFiles) -> Option<Pressure> {
        let limit = self.limit?;
        let full = limit.budget.most().saturating_sub(self.kept_for_jobs(live));
        let stop = full.saturating_sub(for_deletes(self.options, live.groups.groups().count()));
        limit.stop.store(stop, Ordering::Relaxed);
        limit.full.store(full, Ordering::Relaxed);
        let pressure = self.pressure_below(limit, stop);
        limit.writes_blocked.store(pressure.level >= 1.0, Ordering::Relaxed);
        Some(pressure)
    }

    fn pressure_below(&self, limit: &Limit, stop: u64) -> Pressure {
        Pressure::of(StallCause::Space, limit.budget.data(), self.slow_from(stop), stop)
    }

    fn slow_from(&self, stop: u64) -> u64 {
        stop - (stop / 32).max(self.options.tuning.log_file_bytes).min(stop)
    }

    /// Whether the files are near the limit and, by estimate, have garbage: then garbage is
    /// collected even though the space goal tolerates it.
    pub(crate) fn needs_garbage(&self, live: &LiveFiles, counted: u64) -> bool {
        let Some(limit) = self.limit else { return false };
        let stop = limit.stop.load(Ordering::Relaxed);
        let alive = live.estimated_live();
        limit.budget.data() > self.slow_from(stop) && counted > alive + alive / 20
    }

    /// Whether collections have rewritten more than all the `counted` bytes without freeing space.
    /// This happens since the live bytes are an estimate, and since a file that is mostly dead may
    /// be too long for the room that there is.
    pub(crate) fn reclaims_nothing(&self, counted: u64) -> bool {
        self.limit.is_some_and(|limit| limit.collected.lock().futile_bytes > counted)
    }

    /// Whether dead files must be removed at once.
    pub(crate) fn is_near_limit(&self) -> bool {
        self.limit.is_some_and(|limit| {
            limit.budget.data() > self.slow_from(limit.stop.load(Ordering::Relaxed))
        })
    }

    /// Updates how near the limit is, when a writer begins a log file.
    pub(crate) fn log_file_begun(&self) {
        let Some(limit) = self.limit else { return };
        *limit.collected.lock() = ReclaimHistory::default();
        let pressure = self.pressure_below(limit, limit.stop.load(Ordering::Relaxed));
        self.throttle.raise(pressure);
        // Only a thread that holds the manifest's lock may clear the flag.
        limit.writes_blocked.fetch_or(pressure.level >= 1.0, Ordering::Relaxed);
    }

    /// Bytes that a job that begins now may write.
    pub(crate) fn room_below_limit(&self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.budget.room(self.flushes()))
    }

    /// Whether a batch of `len` bytes, which is longer than a log file, must be refused: no room is
    /// set aside for its log, its flush, and the log file behind it.
    pub(crate) fn refuses_long(&self, len: u64) -> bool {
        self.limit.is_some() && self.try_plan(self.long_max(len)).is_none()
    }

    fn long_max(&self, len: u64) -> u64 {
        len.saturating_add(flushed_max(len)).saturating_add(self.options.tuning.log_file_bytes)
    }

    /// Bytes that flushes may write for batches that are longer than a log file.
    fn long_batches(&self) -> u64 {
        let state = self.state.load();
        let bytes = |slot: &Arc<MemSlot>| flushed_max(slot.long_bytes.load(Ordering::Relaxed));
        state.memtables.iter().map(bytes).sum()
    }

    /// Bytes that the flushes of all MemTables may write.
    fn flushes(&self) -> u64 {
        let state = self.state.load();
        let flush = flush_max(self.options, state.groups.groups().count());
        flush.saturating_mul(state.memtables.len() as u64).saturating_add(self.long_batches())
    }

    /// Reserves room for a job that may write `bytes` before it gives any back: `None` if the job
    /// must not begin now, `Some(None)` if there is no limit.
    pub(crate) fn plan(&self, bytes: u64) -> Option<Option<Plan>> {
        let Some(limit) = self.limit else { return Some(None) };
        let plan = self.try_plan(bytes);
        match plan {
            Some(_) => limit.jobs_blocked.store(false, Ordering::Relaxed),
            None => limit.block_jobs(),
        }
        plan.map(Some)
    }

    fn try_plan(&self, bytes: u64) -> Option<Plan> {
        self.limit?.budget.plan(planned(bytes), self.flushes())
    }

    /// Whether there is a limit, and writers are stopped because of it, or because a job has no
    /// room.
    pub(crate) fn lacks_space(&self) -> bool {
        self.limit.is_some_and(|limit| {
            let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
            // The throttle's stop may be out of date, since the last reader of a file frees space
            // without a call to the engine: a search computes it again.
            let lacks = || {
                is(&limit.writes_blocked)
                    || is(&limit.jobs_blocked)
                    || limit.is_reached(Need::Write)
            };
            self.throttle.stop().is_some() && lacks()
        })
    }

    /// Whether there is a limit, and writers with this need are stopped because of it.
    pub(crate) fn is_limit_reached(&self, need: Need) -> bool {
        self.limit.is_some_and(|limit| limit.is_reached(need))
    }

    #[cold]
    pub(crate) fn exhausted(&self, limit: &Limit) -> Error {
        let manifest = self.manifest.lock();
        let kept = self.kept_for_jobs(manifest.live()) + for_metadata(self.options);
        let message = "the space limit is reached, and nothing more can be collected; delete \
                   something, release snapshots, or reopen with a higher space_limit";
        Error::new(ErrorKind::NoSpace, message)
            .with("limit", limit.budget.limit())
            .with("used", limit.budget.used())
            .with("kept for jobs", kept)
    }
}
