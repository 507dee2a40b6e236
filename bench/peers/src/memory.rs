//! How much memory an engine gets for its cache and its write buffers.
//!
//! A store that shares a memory limit with the page cache is sized by that limit, as a user would
//! size it for a machine with that memory: the cache is the share that the engine's authors
//! recommend, and write buffers, all that may exist at once, keep to a share as well. What is left
//! is for the page cache, for what engines do not count, and for the harness.

use cleavedb_bench::system::machine::Machine;
use cleavedb_bench::system::memory_limit::in_force;
use cleavedb_bench::units;

/// Write buffers in bytes, where memory allows: the default of RocksDB, fjall and Badger.
pub const WRITE_BUFFER: u64 = 64 << 20;

/// The largest cache of a machine without a limit: most of the memory is left to the page cache.
const MOST_UNLIMITED: u64 = 1 << 30;

/// What an engine's authors say about its memory.
#[derive(Clone, Copy, Debug)]
pub struct Advice {
    /// Divisor of the memory: the cache is one of these parts.
    pub cache_parts: u64,
    /// The document with this advice.
    pub source: &'static str,
    /// Write buffers that may exist at once; zero if the engine has none.
    pub write_buffers: u64,
    /// Eighths of the limit that they may take together.
    pub write_buffer_eighths: u64,
    /// The smallest write buffer that the authors recommend.
    pub least_write_buffer: u64,
}

/// Memory that there is.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Of the machine.
    pub machine: u64,
    /// The limit of this process's control group, if there is one.
    pub limit: Option<u64>,
}

/// Sizes that fit the memory.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// Bytes of the cache.
    pub cache: u64,
    /// Where that number is from.
    because: String,
    /// Bytes of a write buffer.
    pub write_buffer: u64,
    /// Bytes of all write buffers together; without a limit no bound.
    pub room: u64,
}

impl Memory {
    /// Of this process, now.
    pub fn here() -> Self {
        let machine = Machine::here().memory;
        Self { machine, limit: in_force(machine) }
    }
}

impl Advice {
    /// Sizes for `memory`, the cache as `asked` if it is. All are divided by `miniature`, but a
    /// share of the limit is not: the limit of such a run is divided already.
    pub fn fit(&self, memory: Memory, asked: Option<u64>, miniature: u64) -> Fitted {
        let parts = self.cache_parts;
        let share = |of: &str| format!("1/{parts} of {of}: {}", self.source);
        let (cache, because) = match (asked, memory.limit) {
            (Some(bytes), _) => (bytes / miniature, "--cache".to_owned()),
            (None, Some(limit)) => {
                let limited = format!("the memory limit of {}", units::bytes(limit));
                (limit / parts, share(&limited))
            }
            (None, None) => {
                let most = units::bytes(MOST_UNLIMITED);
                let bytes = (memory.machine / parts).min(MOST_UNLIMITED) / miniature;
                (bytes, share(&format!("the machine's memory, but {most} at most")))
            }
        };
        let room = memory.limit.map_or(u64::MAX, |limit| limit / 8 * self.write_buffer_eighths);
        let fitting = room / self.write_buffers.max(1);
        let write_buffer = (WRITE_BUFFER / miniature).min(fitting.max(self.least_write_buffer));
        Fitted { cache, because, write_buffer, room }
    }
}

impl Fitted {
    /// The cache and where its size is from, for the settings of a run.
    pub fn describe_cache(&self) -> String {
        format!("{} ({})", units::bytes(self.cache), self.because)
    }
}

#[cfg(test)]
mod tests {
    use super::{Advice, Fitted, Memory, WRITE_BUFFER};

    const MIB: u64 = 1 << 20;
    const ADVICE: Advice = Advice {
        cache_parts: 4,
        source: "its book",
        write_buffers: 3,
        write_buffer_eighths: 3,
        least_write_buffer: 8 * MIB,
    };

    fn under(limit: Option<u64>) -> Memory {
        Memory { machine: 2048 * MIB, limit: limit.map(|mib| mib * MIB) }
    }

    fn sizes(fitted: &Fitted) -> (u64, u64) {
        (fitted.cache / MIB, fitted.write_buffer / MIB)
    }

    #[test]
    fn the_limit_sizes_the_cache_and_bounds_write_buffers() {
        let fit = |limit| sizes(&ADVICE.fit(under(limit), None, 1));
        assert_eq!(fit(Some(512)), (128, 64));
        assert_eq!(fit(Some(256)), (64, 32));
        assert_eq!(fit(Some(40)), (10, 8), "no less than what is recommended");
        assert_eq!(fit(None), (512, 64), "of the machine's memory");
        let large = Memory { machine: 1 << 40, limit: None };
        assert_eq!(ADVICE.fit(large, None, 1).cache, 1 << 30);
    }

    #[test]
    fn a_share_of_the_limit_is_not_divided_twice_in_miniature() {
        let fit = |limit, asked| sizes(&ADVICE.fit(under(limit), asked, 4));
        assert_eq!(fit(Some(128), None), (32, 16), "of a limit that was divided");
        assert_eq!(fit(Some(128), Some(64 * MIB)), (16, 16), "what was asked for is divided");
        assert_eq!(fit(None, None), (128, 16), "so is what the machine would have");
    }

    #[test]
    fn settings_say_where_the_size_is_from() {
        let of = |limit, asked| ADVICE.fit(under(limit), asked, 1).describe_cache();
        assert_eq!(of(None, Some(MIB)), "1.00 MiB (--cache)");
        assert_eq!(of(Some(512), None), "128 MiB (1/4 of the memory limit of 512 MiB: its book)");
        assert_eq!(WRITE_BUFFER, 64 * MIB);
    }
}
