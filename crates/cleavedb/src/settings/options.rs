//! Options: each with its default, its unit and its reason, and the presets over them.
//!
//! A database keeps its [`ValueLayout`] from its creation on; everything else is tuning, which each
//! open may choose anew. A preset chooses both.

mod presets;
mod log;
mod memory;
mod disk;
mod miniature;
mod validate;

use std::sync::Arc;
use std::time::Duration;

use cleavedb_index::Compression;
use cleavedb_index::cache::READ_AHEAD;
use cleavedb_index::compaction::Level0;
use cleavedb_storage::Access;
use cleavedb_storage::log::WriteBack;
use cleavedb_values::{GroupLayout, ValueCompression, ValueLayout};

use crate::control::events::EventListener;
use crate::settings::crew::Crew;
use crate::settings::filter::Filter;
use crate::settings::group_options::GroupOptions;
use crate::settings::merge::MergeOperators;
use crate::settings::resources::Resources;
use crate::settings::time::{SystemClock, TimeSource};
use crate::settings::volume::Volume;

pub(crate) use log::LogPolicy;
pub(crate) use memory::MemTableLimits;
pub use presets::Preset;

use memory::default_memory;

/// What an acknowledged write survives. The default of a database is [`Durability::Sync`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Nothing: it is only in memory, until a later write or flush makes it durable.
    Buffered,
    /// The death of the process: the kernel has it.
    Os,
    /// A loss of power: it was synced. Concurrent writers share one sync.
    Sync,
}

/// When a value is kept outside of the index. Where the log stores values this is decided at commit
/// and stored in the record's kind; where groups store them, at the flush that moves it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinSeparated {
    /// Values stay in the index, except long ones ([`Options::long_value_bytes`]).
    Never,
    /// Values of at least this many bytes leave the index; 0 separates every value.
    AtLeast(usize),
    /// As [`MinSeparated::AtLeast`] with the length that [`crate::Keyspace::store_min_separated`]
    /// stored with the data, or with this number of bytes if none is stored.
    Stored(usize),
}

impl MinSeparated {
    /// Whether a value of this length is separated.
    #[inline]
    pub fn separates(self, value_len: usize) -> bool {
        self.least().is_some_and(|least| value_len >= least)
    }

    /// Length of the shortest value that is separated, in bytes; `None` if none is.
    #[inline]
    pub fn least(self) -> Option<usize> {
        match self {
            Self::Never => None,
            Self::AtLeast(least) | Self::Stored(least) => Some(least),
        }
    }

    /// The value in effect for a database with the stored length `saved`.
    pub(crate) fn given(self, saved: Option<usize>) -> Self {
        match self {
            Self::Stored(default) => Self::AtLeast(saved.unwrap_or(default)),
            said => said,
        }
    }
}

/// How background work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// By threads: one drains the log, one flushes, one removes files, and this many compact and
    /// collect.
    Threads(usize),
    /// Only by calls of [`crate::Db::step`], or when a writer must wait: the same calls do the same
    /// work in the same order, as tests need.
    Manual,
}

/// Options of a database. `Options::default()` is `Options::preset(Preset::KtStore)`. On a disk of
/// less than 8 GiB, and below a small [`Options::space_limit`], MemTables, files and levels are
/// made smaller, whatever is set: [`crate::Db::options`] returns the values in effect.
#[derive(Clone, Debug)]
pub struct Options {
    /// The preset whose name a new database stores; tools use its tuning when they open the
    /// database. An existing database may be opened with another preset of the same layout.
    pub preset: Preset,
    /// How values are kept: stored with the data at creation, and compared at every open, which
    /// fails with [`crate::ErrorKind::LayoutMismatch`] if it differs. Default: that of the preset.
    pub layout: ValueLayout,
    /// Create the database if the directory is missing or empty. Its parent directory must exist.
    /// Default: true.
    pub create_if_missing: bool,
    /// Fail with [`crate::ErrorKind::AlreadyExists`] if there is a database in the directory, which
    /// is not changed. Default: false.
    pub error_if_exists: bool,
    /// Durability of writes that do not specify one. Default: `Sync`, as users of a library expect.
    pub durability: Durability,
    /// When values leave the index; may differ at each open. Default: the length saved with the
    /// data; if none is, 0 bytes for `WiscKey`, whose paper separates all values, and 192 for
    /// `HashKv`, its paper's own finding (section 3.5), and for `KtStore`; `cleave tune` measures
    /// it on a disk.
    pub min_separated: MinSeparated,
    /// Most memory of the database, in bytes: MemTables, log window, cache, filters and block
    /// indexes of tables, buffers of jobs, keys of a collection. Memory that a caller holds,
    /// including returned values, does not count. Sizes that are not set are derived from it
    /// (`crates/cleavedb/src/settings/options/memory.rs`); those that are set may take three
    /// quarters of it together. Default: 768 MiB, from which the defaults below follow, or a third
    /// of the memory of the machine or of the control group, if that is less; at least 48 MiB.
    pub memory_bytes: usize,
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
    pub memtables_max: usize,
    /// Most log that one MemTable may cover, in bytes. Default: 256 MiB, to limit replay after a
    /// crash and log that cannot be collected (design, section 2). Where values move into groups at
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
    /// Memory for table blocks, in bytes, less the memory of filters and block indexes
    /// ([`Options::open_tables`]). Default: a twelfth of the memory, 64 MiB: a block that is not
    /// cached is often in the page cache, and caching it twice wastes memory.
    pub cache_bytes: Option<usize>,
    /// Memory for whole records of separated values that were read lately, in bytes; 0 for none. It
    /// is a part of `memory_bytes`: sizes that are not set are derived from the rest, at least 48
    /// MiB. Gets and `multi_get` fill it; scans use what is there. Values longer than a 64th of it
    /// are not cached. A cached value is returned although its file was damaged since. Default: 0,
    /// since the page cache often holds the same bytes (decision 0033).
    pub record_cache_bytes: usize,
    /// Most bytes of a table that are read ahead of a sequential scan. Default: 512 KiB, twice
    /// RocksDB's. With 0 each block is read when it is needed.
    pub read_ahead_bytes: usize,
    /// Uncompressed length of a table block, in bytes. Default: 4096, a page of the device.
    pub block_bytes: usize,
    /// Filter bits per key. Default: 10, for one false positive in a hundred.
    pub filter_bits: usize,
    /// Compression of table blocks. Default: none; keys and pointers gain little beyond shared
    /// prefixes.
    pub compression: Compression,
    /// Compression of values outside the index, each by itself, in the thread that writes it; a
    /// keyspace may have another ([`crate::KeyspaceOptions::compression`]). Values that are there
    /// stay as they are. Default: none.
    pub value_compression: ValueCompression,
    /// Length at which a table ends, in bytes. Default: 32 MiB.
    pub table_bytes: u64,
    /// How level 0 is kept; may differ at each open. Default: whole; for `Ohdb` 10 partitions, as
    /// in the paper (section IV.A). With one table at a time, reads also cause compactions.
    pub level0: Level0,
    /// Bytes of level 0 above which it is compacted into level 1. Default: 512 MiB, so that deeper
    /// levels are rewritten seldom (decision 0021); 64 MiB where the index only holds pointers.
    pub level0_bytes: u64,
    /// Bytes of level 1; each further level holds ten times more. Default: the size of level 0, or
    /// 256 MiB if that is less.
    pub level1_bytes: u64,
    /// Bytes of value files per live byte above which the oldest are collected. Where groups share
    /// a reserve (HashKV), the bytes of the index count too, on both sides. Default: 1.3
    /// (invariant 12).
    pub space_amplification: f64,
    /// Bytes of dead values that are always tolerated. Default: 64 MiB, one log file.
    pub space_floor: u64,
    /// Most bytes of all files of the database, in all its directories; reserved space counts, and
    /// so do files that readers still hold. It is never exceeded. Writes are slowed and then
    /// stopped before it, at a distance for the needs of jobs: all MemTables, two log files, and
    /// the largest collection or compaction, about half of the limit; below 1.5 GB these are made
    /// smaller for it, and the least limit is 12 MiB. Then all dead data is collected; if that does
    /// not help, writes fail with [`crate::ErrorKind::NoSpace`], while reads and deletes still
    /// work. It is stored with the data by the first write of a session, and holds for later opens
    /// that set no other; `u64::MAX` lifts it. Default: the stored one; for a new database none.
    pub space_limit: Option<u64>,
    /// Bytes of the log that are kept, besides what the database needs of it itself, so that
    /// [`crate::Db::changes`] can read what was committed; 0 for none. At least this number of the
    /// last bytes stays, as whole log files: over closes and crashes, as durable as the commits
    /// themselves. On a full disk, and near [`Options::space_limit`], the oldest give way before
    /// writes are refused. It is stored with the data by the first write of a session, and holds
    /// for later opens that set no other. Default: the stored one; for a new database none, which
    /// costs nothing.
    pub change_retention_bytes: Option<u64>,
    /// Open a database whose log window is missing, damaged or foreign after its process has died,
    /// or its disk was detached: the last unsynced writes are lost. Default: false; such an open
    /// fails with [`crate::ErrorKind::Corruption`], so that the file can be restored.
    pub accept_lost_window: bool,
    /// How long values that have expired may take space, if background work is not behind: their
    /// entries leave the index when half of a table has expired, when reads have stepped over as
    /// many of them as pays for it, or this long after the first value of a table has. Then their
    /// space counts as that of deleted values. Default: 24 hours. A shorter time has the index, and
    /// values in it, rewritten more often.
    pub expired_within: Duration,
    /// Tells the time by which values expire. Default: the clock of the system. A time to live
    /// counts from the clock as it is. Reads follow it, too: what has expired by a clock that was
    /// ahead is there again once it is right, unless background work has removed it. Only where the
    /// clock is set back by 10 seconds or less, time stands still for reads until it has caught up.
    /// Background work removes nothing on the strength of a jump ahead by more than 10 seconds
    /// before that has lasted for 10 minutes by [`TimeSource::passed`]; jumps are counted
    /// ([`crate::Metrics::clock_jumps`]). An open believes the clock that it finds.
    pub time: Arc<dyn TimeSource>,
    /// Decides about values when background work meets them: compactions ask about those in the
    /// index, collections about those outside it, so a value may be there for long before it is
    /// asked about; [`crate::Db::compact`] and then [`crate::Db::collect`] ask about all that they
    /// meet. What was replaced is asked about again. While a snapshot, a cursor or a transaction is
    /// held nothing is asked, and one that begins while a job runs may see values that go with the
    /// job's end. Not asked are values in MemTables, of hot keys, in a cold log
    /// ([`crate::SurvivorRoute::Tagged`]), and those that operands of merges have yet to change.
    /// Default: none.
    pub filter: Option<Filter>,
    /// What merges do to values, by the names of operators. Default: those of
    /// [`crate::Operand::add`], [`crate::Operand::append`] and [`crate::Operand::max`].
    pub merge_operators: MergeOperators,
    /// Memory for caches, and threads, that other databases share. The memory stands in place of
    /// [`Options::cache_bytes`] and [`Options::record_cache_bytes`], which stay unset then, and is
    /// no part of [`Options::memory_bytes`]. Default: none, so that each database has its own.
    pub resources: Option<Resources>,
    /// Most bytes that compactions and collections write in a second; [`crate::Db`] can change it
    /// (`set_background_bytes_per_second`). What flushes write counts, but does not wait for
    /// it, since writers would: if flushes take nine tenths or more, the others still write a
    /// tenth. Less than they need slows writers down. No job waits at a close, on a full disk,
    /// while space is searched for, and under [`Background::Manual`]. Default: no limit; at least
    /// 64 KiB.
    pub background_bytes_per_second: Option<u64>,
    /// Are told what happens in the background. Default: none.
    pub listeners: Vec<Arc<dyn EventListener>>,
    /// Of how many operations one is timed, for [`crate::Metrics::latencies`]: 1 for all, which
    /// costs about 100 ns each, 100 for about 1 ns each. Default: 0 for none.
    pub latency_sampling: u32,
    /// Groups of values, for `HashKv` and `KtStore`.
    pub groups: GroupOptions,
    /// Directories besides the database's own, and the classes placed there. Existing ones need not
    /// be named again. Default: none.
    pub volumes: Vec<Volume>,
    /// How background work is done. Default: two threads for compactions and collections, besides
    /// the others.
    pub background: Background,
}

impl Default for Options {
    fn default() -> Self {
        Self::preset(Preset::default())
    }
}

/// Divisor of a small disk for its hot store, and the least bytes of that.
const HOT_PART: u64 = 16;
const HOT_MIN: u64 = 64 << 10;

impl Options {
    /// The threads that do the jobs of several databases, if this one is to be one of them.
    pub(crate) fn crew(&self) -> Option<&Crew> {
        let threads = matches!(self.background, Background::Threads(_));
        self.resources.as_ref().filter(|_| threads)?.crew()
    }

    /// The options of a preset.
    pub fn preset(preset: Preset) -> Self {
        let row = preset.row();
        let (level0_bytes, level1_bytes) = row.level_bytes;
        Self {
            preset,
            layout: row.layout,
            create_if_missing: true,
            error_if_exists: false,
            durability: Durability::Sync,
            min_separated: row.min_separated,
            memory_bytes: default_memory(),
            long_value_bytes: None,
            blob_bytes: 4 << 20,
            memtable_bytes: None,
            memtables_max: row.memtables_max,
            memtable_log_bytes: 256 << 20,
            log_file_bytes: 64 << 20,
            segment_bytes: 64 << 20,
            window_bytes: None,
            cache_bytes: None,
            record_cache_bytes: 0,
            read_ahead_bytes: READ_AHEAD,
            block_bytes: 4096,
            filter_bits: 10,
            compression: Compression::None,
            value_compression: ValueCompression::None,
            table_bytes: 32 << 20,
            level0: row.level0,
            level0_bytes,
            level1_bytes,
            space_amplification: 1.3,
            space_floor: 64 << 20,
            space_limit: None,
            change_retention_bytes: None,
            accept_lost_window: false,
            expired_within: Duration::from_secs(24 * 60 * 60),
            time: Arc::new(SystemClock),
            filter: None,
            merge_operators: MergeOperators::default(),
            resources: None,
            background_bytes_per_second: None,
            listeners: Vec::new(),
            latency_sampling: 0,
            groups: GroupOptions::default(),
            volumes: Vec::new(),
            background: Background::Threads(2),
        }
    }

    /// These options with another layout, and with the separation of the preset most similar to it,
    /// if the current one is not valid for it.
    #[must_use]
    pub fn with_layout(self, layout: ValueLayout) -> Self {
        let fits = layout.separates() == (self.min_separated != MinSeparated::Never);
        let min_separated =
            if fits { self.min_separated } else { self.preset.min_separated(&layout) };
        Self { layout, min_separated, ..self }
    }

    /// The consequences of the layout for the log.
    #[inline]
    pub(crate) fn log(&self) -> LogPolicy {
        LogPolicy::of(&self.layout)
    }

    /// Most log that one MemTable covers, in bytes.
    pub(crate) fn log_bytes_per_memtable_max(&self) -> u64 {
        self.log().log_bytes_per_memtable_max(self)
    }

    /// When the log goes from a window of `len` bytes to its files.
    pub(crate) fn write_back_of(&self, len: usize) -> WriteBack {
        self.log().write_back(self, len)
    }

    /// These options for a database with the `stored` space limit, and that many bytes of log to
    /// keep for readers of changes.
    pub(crate) fn within_stored(self, stored: Option<u64>, change_retention: u64) -> Self {
        let space_limit = self.space_limit.or(stored).filter(|limit| *limit != u64::MAX);
        let change_retention_bytes = self.change_retention_bytes.or(Some(change_retention));
        Self { space_limit, change_retention_bytes, ..self }
    }

    /// Bytes of the log that are kept for readers of changes; 0 for none.
    pub(crate) fn change_retention(&self) -> u64 {
        self.change_retention_bytes.unwrap_or_default()
    }

    /// Whether log is kept for readers of changes.
    pub(crate) fn keeps_changes(&self) -> bool {
        self.change_retention() > 0
    }

    /// How the log is written, in a window that outlives the process or does not.
    pub(crate) fn log_access(&self, window_survives: bool) -> Access {
        self.log().access(self.durability, window_survives)
    }

    /// Options of groups, in which no file is longer than `most` and the capacity is at most
    /// `capacity`; unchanged where there are no groups.
    fn groups_within(&self, most: u64, capacity: u64) -> GroupOptions {
        self.changed_groups(|layout, groups| GroupOptions {
            main_segment_bytes: groups.main_segment_bytes.min(most),
            capacity_bytes: groups.capacity_bytes.min(capacity),
            hot_bytes: match layout.hot {
                true => groups.hot_bytes.min((capacity / HOT_PART).max(HOT_MIN)),
                false => groups.hot_bytes,
            },
            ..groups
        })
    }

    /// Options of groups, changed so; unchanged where there are no groups.
    fn changed_groups(
        &self,
        change: impl FnOnce(GroupLayout, GroupOptions) -> GroupOptions,
    ) -> GroupOptions {
        let groups = self.groups.clone();
        match self.layout.groups {
            None => groups,
            Some(layout) => change(layout, groups),
        }
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::ErrorKind;

    use super::*;

    /// Where little memory may be locked the window is short, and the log of no MemTable fits in
    /// it.
    #[test]
    fn a_short_window_is_drained_at_once() {
        let options = Options { durability: Durability::Os, ..Options::preset(Preset::KtStore) };
        assert_eq!(options.write_back_of(4 << 20), WriteBack::Eager);
        assert_eq!(options.write_back_of(options.window()), WriteBack::OnPressure);
        assert_eq!(Options::preset(Preset::WiscKey).write_back_of(16 << 20), WriteBack::Eager);
    }

    #[test]
    fn contradictions_are_refused_with_a_reason() {
        let mut options = Options::preset(Preset::Lsm);
        options.min_separated = MinSeparated::AtLeast(1024);
        let error = options.validate().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOptions);
        assert!(error.message().contains("a preset whose layout"));
    }
}
