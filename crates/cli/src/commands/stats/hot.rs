//! The hot store in `stats`: what is in it, what it costs, and what it has done.

use std::fmt;

use cleavedb::metrics::HotMetrics;
use cleavedb_units as units;

/// The hot store of a database, in words.
pub struct Hot<'a>(pub &'a HotMetrics);

impl Hot<'_> {
    /// Which keys are hot.
    fn admission(&self) -> String {
        match self.0.stats.limit {
            None => "off, since accesses are spread evenly".to_owned(),
            Some(limit) => format!("a key is hot from its access {limit} on"),
        }
    }
}

impl fmt::Display for Hot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HotMetrics { bytes, live_bytes, stats, .. } = self.0;
        let count = |count: u64| units::thousands(count as f64);
        let of_live = |part: u64| match *live_bytes {
            0 => String::new(),
            live => format!(" ({:.1}% of the live bytes)", 100.0 * part as f64 / live as f64),
        };
        writeln!(
            f,
            "  {} in {} of {}, {} of it live; {}",
            units::counted(stats.keys, "hot key"),
            units::counted(stats.segments, "segment"),
            units::bytes(*bytes),
            units::bytes(*live_bytes),
            self.admission(),
        )?;
        writeln!(
            f,
            "  {}{} of memory for them, its index {}{}",
            units::bytes(stats.memory),
            of_live(stats.memory),
            units::bytes(stats.index_memory),
            of_live(stats.index_memory),
        )?;
        writeln!(
            f,
            "  since the open {} of {} reads were of hot keys; keys became hot: {} by writes, {} \
             by reads; updates {}, copied {}, demoted {}",
            count(stats.hits),
            count(stats.reads),
            count(stats.admitted),
            count(stats.promoted),
            count(stats.updates),
            count(stats.kept),
            count(stats.demoted),
        )
    }
}
