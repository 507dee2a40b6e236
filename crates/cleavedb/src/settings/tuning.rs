//! Tuning: sizes and policies that follow from the other options where they are not set.

use cleavedb_index::cache::READ_AHEAD;
use cleavedb_index::compaction::Level0;

use crate::settings::group_options::GroupOptions;

/// Sizes and policies that need no choice: for tests and benchmarks. No promise between versions.
///
/// What is `None` follows from [`crate::Options::memory_bytes`] or from the preset. More fields
/// come with time: end a literal with `..Tuning::default()`.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Length from which on a value is long, in bytes: no preset keeps it in the index, where
    /// flushes and compactions would hold it whole in memory. It stays in the log, or goes to its
    /// group, and is copied in pieces of 1 MiB. Default: 1 MiB, or a 768th of the memory if that is
    /// less; at most a 48th.
    pub long_value_bytes: Option<usize>,
    /// Length from which on a value that comes from a reader ([`crate::Keyspace::put_reader`]) gets
    /// a file of its own, in bytes; 1 GiB at most. Default: 4 MiB, since each such file costs a
    /// sync and an edit of the manifest.
    pub blob_bytes: u64,
    /// Memory of one MemTable, in bytes. Default: a twelfth of the memory, 64 MiB, at which a flush
    /// is one table of useful length; where values stay in the index a 32nd, 24 MiB, so that the
    /// log is needed for a short time and most of it never reaches the device (decision 0021).
    pub memtable_bytes: Option<usize>,
    /// Full MemTables that may wait for their flush before writers wait. Default: 2; 3 for
    /// `WiscKey`, whose MemTables are small.
    pub memtables_max: Option<usize>,
    /// Most log that one MemTable may cover, in bytes. Default: 256 MiB, to limit replay after a
    /// crash and log that cannot be collected. Where values move into groups at
    /// the flush, it is also limited to a MemTable's memory.
    pub memtable_log_bytes: u64,
    /// Length at which a log file ends, in bytes. Default: 64 MiB, the unit of collection; at most
    /// a twelfth of the memory, since a collection holds the keys of a file.
    pub log_file_bytes: u64,
    /// Length at which a segment of survivors ends, in bytes. Default: 64 MiB; at most a twelfth of
    /// the memory.
    pub segment_bytes: u64,
    /// Length to which the log window may grow, in bytes, a multiple of 4096. It is a mapped file
    /// where that is safe, else memory; it is never locked. Default: 16 MiB, a dozen writes of the
    /// drain; 4 MiB where values stay in the index, since the drain does not wait for the device
    /// there. Where values move into groups at the flush and commits are not synced by default: the
    /// log of all MemTables and 8 MiB, 200 MiB in all, so that the flush reads it there and the log
    /// is hardly ever written to its files (decision 0026).
    pub window_bytes: Option<usize>,
    /// Memory for table blocks, in bytes, less the memory of filters and block indexes. Default: a
    /// twelfth of the memory, 64 MiB: a block that is not cached is often in the page cache, and
    /// caching it twice wastes memory.
    pub cache_bytes: Option<usize>,
    /// Most bytes of a table that are read ahead of a sequential scan. Default: 512 KiB, twice
    /// RocksDB's. With 0 each block is read when it is needed.
    pub read_ahead_bytes: usize,
    /// Uncompressed length of a table block, in bytes. Default: 4096, a page of the device.
    pub block_bytes: usize,
    /// Filter bits per key. Default: 10, for one false positive in a hundred.
    pub filter_bits: usize,
    /// Length at which a table ends, in bytes. Default: 32 MiB.
    pub table_bytes: u64,
    /// How level 0 is kept; may differ at each open. Default: whole; for `Ohdb` 10 partitions, as
    /// in the paper (section IV.A). With one table at a time, reads also cause compactions.
    pub level0: Option<Level0>,
    /// Bytes of level 0 above which it is compacted into level 1. Default: 512 MiB, so that deeper
    /// levels are rewritten seldom (decision 0021); 64 MiB where the index only holds pointers.
    pub level0_bytes: Option<u64>,
    /// Bytes of level 1; each further level holds ten times more. Default: the size of level 0, or
    /// 256 MiB if that is less.
    pub level1_bytes: Option<u64>,
    /// Bytes of dead values that are always tolerated. Default: 64 MiB, one log file.
    pub space_floor: u64,
    /// Most tables whose filter and index are in memory, however little that takes: what figures of
    /// papers vary. Default: none.
    #[cfg(feature = "experiments")]
    pub open_tables_max: Option<usize>,
    /// Groups of values, where the layout has some.
    pub groups: GroupOptions,
    #[doc(hidden)]
    pub more: (),
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            long_value_bytes: None,
            blob_bytes: 4 << 20,
            memtable_bytes: None,
            memtables_max: None,
            memtable_log_bytes: 256 << 20,
            log_file_bytes: 64 << 20,
            segment_bytes: 64 << 20,
            window_bytes: None,
            cache_bytes: None,
            read_ahead_bytes: READ_AHEAD,
            block_bytes: 4096,
            filter_bits: 10,
            table_bytes: 32 << 20,
            level0: None,
            level0_bytes: None,
            level1_bytes: None,
            space_floor: 64 << 20,
            #[cfg(feature = "experiments")]
            open_tables_max: None,
            groups: GroupOptions::default(),
            more: (),
        }
    }
}
