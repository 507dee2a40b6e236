//! What the engine has decided by itself, for metrics and for subscribers of `tracing`.

use crate::control::metrics::Decisions;
use crate::engine::Engine;

impl Engine {
    /// What follows from what is stored, and from the work that waits.
    pub(crate) fn decisions(&self) -> Decisions {
        let levels = self.space().compaction_options();
        let memtable_log_bytes = self.throttle.log_bytes_per_memtable_max();
        Decisions {
            separated_from: self.options.least_separated().map(|bytes| bytes as u64),
            entry_bytes: self.state.load().version.contents().entry_bytes,
            level0_bytes: levels.l0_bytes,
            level1_bytes: levels.l1_bytes,
            memtable_log_bytes: self.memtable_limits.log_bytes.min(memtable_log_bytes),
            slowed: self.throttle.pace(),
        }
    }

    /// Tells subscribers of `tracing` what was decided.
    pub(crate) fn trace_decisions(&self) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let made = self.decisions();
        tracing::debug!(
            separated_from = made.separated_from,
            entry_bytes = made.entry_bytes,
            level0_bytes = made.level0_bytes,
            level1_bytes = made.level1_bytes,
            memtable_log_bytes = made.memtable_log_bytes,
            writers_bytes_per_second = made.slowed.map(|(pace, _)| pace),
            writers_wait_for = made.slowed.map(|(_, cause)| cause.name()),
            "decided"
        );
    }
}
