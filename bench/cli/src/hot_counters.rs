//! The counters of a hot store, for results.

use cleavedb::metrics::HotMetrics;
use cleavedb_bench::counters::{HOT_ACCESSES, HOT_HITS, HOT_KEYS};

/// Each counter with its name; none without a hot store.
pub fn of(hot: Option<HotMetrics>) -> Vec<(&'static str, u64)> {
    let Some(HotMetrics { bytes, live_bytes, dead_bytes, stats }) = hot else { return Vec::new() };
    vec![
        ("hot_bytes", bytes),
        ("hot_live_bytes", live_bytes),
        ("hot_dead_bytes", dead_bytes),
        (HOT_KEYS, stats.keys),
        ("hot_memory", stats.memory),
        ("hot_index_memory", stats.index_memory),
        ("hot_limit", stats.limit.unwrap_or_default().into()),
        (HOT_ACCESSES, stats.reads + stats.writes),
        (HOT_HITS, stats.hits + stats.write_hits),
        ("hot_reads", stats.reads),
        ("hot_hits", stats.hits),
        ("hot_admitted", stats.admitted),
        ("hot_promoted", stats.promoted),
        ("hot_updates", stats.updates),
        ("hot_kept", stats.kept),
        ("hot_demoted", stats.demoted),
    ]
}
