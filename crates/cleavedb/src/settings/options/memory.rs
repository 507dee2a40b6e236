//! Memory: how [`Options::memory_bytes`] is divided.
//!
//! At the default every size that is not set gets its measured optimum, and all scale with the
//! memory. A record cache is taken off first. Of the rest MemTables, window and cache take at most
//! three quarters; what they leave is for jobs, whose needs follow from the lengths of their files.

use cleavedb_hot::HotStore;
use cleavedb_storage::machine;

use super::Options;
use crate::settings::merge::Merges;
use crate::settings::tuning::Tuning;

/// Most memory of a database by default, in bytes, and its part of what the process may use, as a
/// divisor.
const MEMORY: usize = 768 << 20;
const MEMORY_OF_MACHINE: u64 = 3;

/// Least memory of a database, in bytes: below, buffers of jobs alone exceed their part.
pub(super) const MEMORY_MIN: usize = 48 << 20;

/// Parts of the memory, each a divisor of it: the cache, the unit of collection, and a piece of the
/// log that a flush reads.
const CACHE: usize = 12;
const FILE: usize = 12;
pub(super) const PIECE: usize = 48;

/// Divisor of the memory for the most that filters of groups take, at 2 to 4 bytes a key: those of
/// 8 million keys at the default.
const GROUP_FILTERS: usize = 32;

/// Divisor of the memory for the most of a full hot store's, at 1 KiB a record.
const HOT_STORE_MAX: usize = 4;

/// Divisor of the memory for that of a batch: the MemTable that takes it may be nearly full
/// before.
const BATCH: usize = 8;

/// Divisor of the memory for the longest inline value, and its greatest default, in bytes.
const LONG_VALUE: usize = 768;
const LONG_VALUE_MAX: usize = 1 << 20;

/// Most bytes of MemTables' log in a window.
const WINDOW_MAX: usize = 1 << 30;

/// Values of this length, in bytes, may be made of operands where shorter ones are separated.
const MERGED_VALUE: usize = 1024;

/// Default memory of a database, in bytes.
pub(super) fn default_memory() -> usize {
    part_of(machine::memory())
}

/// The memory of a database by default where the process may use `memory` bytes, if that is known.
fn part_of(memory: Option<u64>) -> usize {
    let part = memory.map_or(MEMORY as u64, |memory| memory / MEMORY_OF_MACHINE);
    (part as usize).clamp(MEMORY_MIN, MEMORY)
}

/// What a MemTable may take until it is full, in bytes.
pub(crate) struct MemTableLimits {
    pub(crate) memory: usize,
    /// Of the log that it covers.
    pub(crate) log_bytes: u64,
}

impl Options {
    /// Memory that derived sizes are parts of, in bytes: what a record cache leaves.
    pub(super) fn divided_memory(&self) -> usize {
        self.memory_bytes.saturating_sub(self.record_cache_bytes)
    }

    /// Memory of one MemTable, in bytes.
    pub(crate) fn memtable(&self) -> usize {
        let part = self.log().memtable_part();
        self.tuning.memtable_bytes.unwrap_or(self.divided_memory() / part)
    }

    /// What one MemTable may take.
    pub(crate) fn memtable_limits(&self) -> MemTableLimits {
        let log_bytes = self.log_bytes_per_memtable_max();
        MemTableLimits { memory: self.memtable(), log_bytes }
    }

    /// Memory of the block cache, in bytes; 0 if it is shared ([`Options::resources`]).
    pub(crate) fn cache(&self) -> usize {
        if self.resources.is_some() {
            return 0;
        }
        self.tuning.cache_bytes.unwrap_or(self.divided_memory() / CACHE)
    }

    /// Memory of the filters and indexes of open tables, in bytes: three quarters of the cache, and
    /// half of the part that MemTables, window and cache do not use. About 1.5 bytes are needed for
    /// each entry; with fewer, reads reopen tables, at some hundred KiB each time.
    pub(crate) fn open_tables(&self) -> usize {
        let part = self.divided_memory() / 4 * 3;
        self.cache() / 4 * 3 + part.saturating_sub(self.taken()) / 2
    }

    /// Most tables with their filter and index in memory, whatever [`Options::open_tables`] allows.
    pub(crate) fn open_tables_max(&self) -> usize {
        #[cfg(feature = "experiments")]
        if let Some(most) = self.tuning.open_tables_max {
            return most;
        }
        usize::MAX
    }

    /// Most memory of the filters of groups ([`crate::Metrics::group_filter_memory`]), in bytes: a
    /// part of what is for jobs. Groups beyond are asked through the filters of their extents.
    pub(crate) fn group_filters(&self) -> usize {
        self.memory_bytes / GROUP_FILTERS
    }

    /// Whether the index of the hot store, if there is one, leaves enough memory.
    pub(super) fn hot_store_fits(&self) -> bool {
        let memory = HotStore::memory_max(self.hot_bytes);
        !self.layout().has_hot_store() || memory <= (self.memory_bytes / HOT_STORE_MAX) as u64
    }

    /// Most bytes of MemTables, cache and window.
    pub(super) fn taken(&self) -> usize {
        let tables = self.memtable().saturating_mul(self.memtables_max().saturating_add(1));
        tables.saturating_add(self.cache()).saturating_add(self.window())
    }

    /// Length of the log window of a new database, in bytes.
    pub(crate) fn window(&self) -> usize {
        let covered = self.log().log_bytes_of_memtables(self);
        let of_memtables = usize::try_from(covered).unwrap_or(usize::MAX).min(WINDOW_MAX);
        self.tuning.window_bytes.unwrap_or_else(|| self.log().window_bytes(self, of_memtables))
    }

    /// Length from which on a value is long, in bytes.
    pub(crate) fn long_value(&self) -> usize {
        self.tuning
            .long_value_bytes
            .unwrap_or((self.divided_memory() / LONG_VALUE).min(LONG_VALUE_MAX))
    }

    /// Length from which on a value leaves the index, in bytes.
    #[inline]
    pub(crate) fn separated_from(&self) -> usize {
        self.least_separated().unwrap_or(usize::MAX).min(self.long_value())
    }

    /// What a database has for merges. Values that jobs make of operands are short: where values
    /// are separated, those that are not are rewritten with the index.
    pub(crate) fn merges(&self) -> Merges {
        let value_max = self.separated_from().max(MERGED_VALUE).min(self.long_value());
        Merges::new(&self.merge_operators, value_max)
    }

    /// Most memory of a batch, besides that of its caller, in bytes.
    pub(crate) fn batch_max(&self) -> usize {
        self.divided_memory() / BATCH
    }

    /// Most memory of the keys of recent commits that are kept for open transactions, in bytes.
    pub(crate) fn recent_writes_max(&self) -> usize {
        self.divided_memory() / PIECE
    }

    /// Bytes of the log that a flush reads at once.
    pub(crate) fn flush_piece(&self) -> usize {
        (self.divided_memory() / PIECE).clamp(1 << 20, cleavedb_values::POOLED_LEN as usize)
    }

    /// The options for an open: derived sizes are set, and no file is longer than the memory
    /// allows.
    pub(crate) fn within_memory(self) -> Self {
        let most = (self.divided_memory() / FILE) as u64;
        let within = self.groups_within(most, u64::MAX);
        let tuning = Tuning {
            memtable_bytes: Some(within.memtable()),
            log_file_bytes: within.tuning.log_file_bytes.min(most),
            segment_bytes: within.tuning.segment_bytes.min(most),
            ..within.tuning
        };
        Self { tuning, ..within }
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::options::{Durability, Options, Preset};

    fn options(preset: Preset, memory_bytes: usize, durability: Durability) -> Options {
        Options { memory_bytes, durability, ..Options::preset(preset) }
    }

    #[test]
    fn the_default_comes_to_the_sizes_that_were_measured() {
        let sizes = |preset| {
            let options = options(preset, super::MEMORY, Durability::Os).within_memory();
            [
                options.memtable(),
                options.cache(),
                options.window(),
                options.tuning.segment_bytes as usize,
            ]
            .map(|bytes| bytes >> 20)
        };
        assert_eq!(sizes(Preset::Lsm), [24, 64, 4, 64]);
        assert_eq!(sizes(Preset::WiscKey), [64, 64, 16, 64]);
        assert_eq!(sizes(Preset::KtStore), [64, 64, 200, 64]);
        assert_eq!(sizes(Preset::Cleave), [64, 64, 200, 64]);
    }

    #[test]
    fn a_small_machine_gives_a_third_of_its_memory() {
        let mib = |memory: Option<u64>| super::part_of(memory.map(|mib| mib << 20)) >> 20;
        assert_eq!([None, Some(64_000), Some(512), Some(100)].map(mib), [768, 768, 170, 48]);
    }

    #[test]
    fn sizes_follow_the_memory_and_leave_a_part_of_it_to_jobs() {
        for preset in Preset::ALL {
            for memory in [48 << 20, 100_000_000, 512 << 20, 16 << 30] {
                for durability in [Durability::Os, Durability::Sync] {
                    options(preset, memory, durability).validate().unwrap();
                }
            }
        }
        assert!(options(Preset::Lsm, 47 << 20, Durability::Os).validate().is_err());
    }

    #[test]
    fn a_full_hot_store_takes_a_quarter_of_the_memory_at_most() {
        let fits = |times: f64| {
            let mut options = options(Preset::HoaKv, 1 << 30, Durability::Os);
            options.hot_bytes = (times * (1u64 << 30) as f64) as u64;
            options.hot_store_fits()
        };
        assert!(fits(7.0) && !fits(7.6), "it takes a 30th of its bytes");
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused_with_the_way_on() {
        let mut options = Options::preset(Preset::Lsm);
        options.tuning.cache_bytes = Some(1 << 30);
        assert!(options.validate().unwrap_err().message().contains("raise it"));
        options.memory_bytes = 2 << 30;
        options.validate().unwrap();
    }
}
