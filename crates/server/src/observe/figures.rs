//! What a server and its store are like at one moment.

use std::sync::Arc;

use cleavedb::metrics::{DirectoryMetrics, StallCause};
use cleavedb::{Metrics, Options};

use super::Observer;
use super::process::ProcessFigures;
use super::stalls::StallSum;
use super::times::CallSums;
use crate::clients::Connected;
use crate::config::Config;
use crate::saves::Saves;

/// What a server and its store are like at one moment.
pub struct ServerFigures<'a> {
    /// What the server was told.
    pub config: Arc<Config>,
    /// What the server counts.
    pub observer: &'a Observer,
    /// The clients that are connected.
    pub clients: Vec<Arc<Connected>>,
    /// Clients that wait for keys.
    pub blocked: usize,
    /// Damaged records that the sweeper has stepped over in its last round.
    pub swept_over: u64,
    /// What is told of saves.
    pub saves: &'a Saves,
    /// Scripts that are known.
    pub scripts: usize,
    /// Libraries, and functions of them.
    pub libraries: (usize, usize),
    /// The options of the store.
    pub options: &'a Options,
    /// The figures of the store.
    pub metrics: Metrics,
    /// The directories of the store, its own first.
    pub directories: Vec<DirectoryMetrics>,
    /// What the process takes of the machine, where the system tells.
    pub process: Option<ProcessFigures>,
    /// Whether clients get in without a password.
    pub is_open: bool,
    /// Whether the server stops.
    pub stops: bool,
}

impl ServerFigures<'_> {
    /// Bytes of value files that are not needed; log that is not flushed is needed.
    pub fn dead_bytes(&self) -> u64 {
        let metrics = &self.metrics;
        let live = metrics.live_bytes.saturating_sub(metrics.hidden_bytes);
        metrics.value_bytes.saturating_sub(live + metrics.unflushed_bytes)
    }

    /// The commands of the last five minutes.
    pub fn recent_calls(&self) -> CallSums {
        let mut all = CallSums::default();
        let recent = self.observer.history(|history| history.recent());
        recent.iter().for_each(|group| all.add(group));
        all
    }

    /// Waits of writers for a cause in the last five minutes.
    pub fn recent_stalls(&self, cause: StallCause) -> StallSum {
        self.observer.work.stalls.recent(&self.metrics.stalls, cause)
    }

    /// Sorted runs that a look-up may visit.
    pub fn runs(&self) -> usize {
        self.metrics.levels.iter().map(|level| level.runs).sum()
    }

    /// Memory that the store has in use.
    pub fn store_memory(&self) -> u64 {
        let metrics = &self.metrics;
        let kept = metrics.cache_memory + metrics.record_cache_memory + metrics.group_filter_memory;
        metrics.memtable_memory + kept + metrics.window_memory + metrics.spare_memory
    }
}
