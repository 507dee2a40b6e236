//! The hot store in `stats`: what is in it, what it costs, and what it has done.

use std::fmt;

use cleavedb::HotMetrics;
use cleavedb_units as units;
use serde::Serialize;

/// The hot store of a database.
#[derive(Serialize)]
pub struct HotStore {
    keys: u64,
    segments: u64,
    /// Bytes of its segments on disk, and of the records in them that are alive, or dead.
    bytes: u64,
    live_bytes: u64,
    dead_bytes: u64,
    /// Bytes of memory of its index, and in all.
    index_memory: u64,
    memory: u64,
    /// Accesses from which on a key is hot; none while the store is off.
    heat_limit: Option<u8>,
    /// Since the open: reads, those of them that found their key here, and records by the reason
    /// for which they were written or left.
    reads: u64,
    hits: u64,
    admitted: u64,
    promoted: u64,
    updates: u64,
    kept: u64,
    demoted: u64,
}

impl From<HotMetrics> for HotStore {
    fn from(metrics: HotMetrics) -> Self {
        let HotMetrics { bytes, live_bytes, dead_bytes, stats } = metrics;
        Self {
            keys: stats.keys,
            segments: stats.segments,
            bytes,
            live_bytes,
            dead_bytes,
            index_memory: stats.index_memory,
            memory: stats.memory,
            heat_limit: stats.limit,
            reads: stats.reads,
            hits: stats.hits,
            admitted: stats.admitted,
            promoted: stats.promoted,
            updates: stats.updates,
            kept: stats.kept,
            demoted: stats.demoted,
        }
    }
}

impl HotStore {
    /// Which keys are hot.
    fn admission(&self) -> String {
        match self.heat_limit {
            None => "off, since accesses are spread evenly".to_owned(),
            Some(limit) => format!("a key is hot from its access {limit} on"),
        }
    }
}

impl fmt::Display for HotStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: u64| units::thousands(count as f64);
        let of_live = |part: u64| match self.live_bytes {
            0 => String::new(),
            live => format!(" ({:.1}% of the live bytes)", 100.0 * part as f64 / live as f64),
        };
        writeln!(
            f,
            "  {} in {} of {}, {} of it live; {}",
            units::counted(self.keys, "hot key"),
            units::counted(self.segments, "segment"),
            units::bytes(self.bytes),
            units::bytes(self.live_bytes),
            self.admission(),
        )?;
        writeln!(
            f,
            "  {}{} of memory for them, its index {}{}",
            units::bytes(self.memory),
            of_live(self.memory),
            units::bytes(self.index_memory),
            of_live(self.index_memory),
        )?;
        writeln!(
            f,
            "  since the open {} of {} reads were of hot keys; keys became hot: {} by writes, {} \
             by reads; updates {}, copied {}, demoted {}",
            count(self.hits),
            count(self.reads),
            count(self.admitted),
            count(self.promoted),
            count(self.updates),
            count(self.kept),
            count(self.demoted),
        )
    }
}
