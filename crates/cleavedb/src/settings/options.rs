//! Options: each with its default, its unit and its reason, and the presets over them.
//!
//! A database keeps its [`ValueLayout`] from its creation on, until a migration makes another
//! database of it; everything else is tuning, which each open may choose anew. A preset chooses
//! both.

mod presets;
mod log;
mod memory;
mod disk;
mod miniature;
mod validate;

use std::sync::Arc;
use std::time::Duration;

use cleavedb_index::compaction::{Level0, level_bytes_for};
use cleavedb_index::{Compression, Contents, TableOptions};
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
use crate::settings::tuning::Tuning;
use crate::settings::volume::Volume;

pub(crate) use log::LogPolicy;
pub(crate) use memory::MemTableLimits;
pub use presets::Preset;

use presets::PresetRow;

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

/// Options of a database. What is not set follows from the data that is there, or is that of
/// [`Preset::Cleave`] in a new database. On a disk of less than 8 GiB, and below a small
/// [`Options::space_limit`], MemTables, files and levels are made smaller, whatever is set:
/// [`crate::Db::options`] returns the values in effect.
///
/// More fields come with time: end a literal with `..Options::default()`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The preset: how values are kept in a new database, which stores its name, and tuning that
    /// goes with it. An existing database may be opened with another preset of the same layout.
    /// Default: the stored one; for a new database `Cleave`.
    pub preset: Option<Preset>,
    /// How values are kept: stored with the data at creation. An open fails with
    /// [`crate::ErrorKind::LayoutMismatch`] if this, or the preset, asks for another;
    /// [`crate::Db::migrate`] changes it. Default: that of the preset.
    pub layout: Option<ValueLayout>,
    /// Create the database if the directory is missing or empty. Its parent directory must exist.
    /// Default: true.
    pub create_if_missing: bool,
    /// Fail with [`crate::ErrorKind::AlreadyExists`] if there is a database in the directory, which
    /// is not changed. Default: false.
    pub error_if_exists: bool,
    /// Durability of writes that do not specify one. Default: `Sync`, as users of a library expect.
    pub durability: Durability,
    /// Length from which on values leave the index, in bytes; 0 for all of them; may differ at each
    /// open. Default: the length saved with the data
    /// ([`crate::Keyspace::store_min_separated`]); if none is, 768 for `Cleave`, as measured
    /// (`docs/presets.md`), 0 bytes for `WiscKey`, whose paper separates all values, and 192 for
    /// `HashKv`, its paper's own finding (section 3.5), `KtStore` and `HoaKv`; `cleave tune`
    /// measures it on a disk. Has no meaning, and is refused, where the
    /// layout keeps values in the index; long ones leave it there, too
    /// ([`Tuning::long_value_bytes`]).
    pub min_separated: Option<usize>,
    /// Most memory of the database, in bytes: MemTables, log window, cache, filters and block
    /// indexes of tables, buffers of jobs, keys of a collection. Memory that a caller holds,
    /// including returned values, does not count. Sizes that are not set are derived from it
    /// (`crates/cleavedb/src/settings/options/memory.rs`); those that are set may take three
    /// quarters of it together. Default: 768 MiB, from which the defaults below follow, or a third
    /// of the memory of the machine or of the control group, if that is less; at least 48 MiB.
    pub memory_bytes: usize,
    /// Memory for whole records of separated values that were read lately, in bytes; 0 for none. It
    /// is a part of `memory_bytes`: sizes that are not set are derived from the rest, at least 48
    /// MiB. Gets and `multi_get` fill it; scans use what is there. Values longer than a 64th of it
    /// are not cached. A cached value is returned although its file was damaged since. Default: 0,
    /// since the page cache often holds the same bytes (decision 0033).
    pub record_cache_bytes: usize,
    /// Most bytes of hot segments, where the layout has a hot store (`HoaKv`); besides, they take
    /// no more than a quarter of all values, or 8 MiB. Either may be exceeded by half for a short
    /// time. At most 128 GiB. Default: 256 MiB.
    pub hot_bytes: u64,
    /// Compression of blocks of tables, with the values that lie in them: under the default preset
    /// those below 768 bytes. Default: none; keys and pointers gain little beyond shared prefixes.
    pub compression: Compression,
    /// Compression of values outside the index, each by itself, in the thread that writes it; a
    /// keyspace may have another ([`crate::KeyspaceOptions::compression`]). Shorter values than
    /// `min_separated` lie in tables, and it does nothing for them: `compression` does. Values that
    /// are there stay as they are. Default: none.
    pub value_compression: ValueCompression,
    /// Bytes of value files per live byte above which the oldest are collected. Where groups share
    /// a reserve (HashKV), the bytes of the index count too, on both sides. Default: 1.3
    /// (invariant 12).
    pub space_amplification: f64,
    /// Most bytes of all files of the database, in all its directories; reserved space counts, and
    /// so do files that readers still hold. It is never exceeded. Writes are slowed and then
    /// stopped before it, at a distance for the needs of jobs: all MemTables, two log files, and
    /// the largest collection or compaction, about half of the limit. Then all dead data is
    /// collected; if that does not help, writes fail with [`crate::ErrorKind::NoSpace`], while
    /// reads and deletes still work. Below 2.4 GiB, under the default preset, MemTables, log files,
    /// segments and tables are made smaller for it; 12 MiB are enough for every preset, and the
    /// error of an open with too little names the least. It is stored with the data by the first
    /// write of a session, and holds for later opens that set no other; `u64::MAX` lifts it.
    /// Default: the stored one; for a new database none.
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
    /// ([`crate::layout::SurvivorRoute::Tagged`]), and those that operands of merges have yet to
    /// change. Default: none.
    pub filter: Option<Filter>,
    /// What merges do to values, by the names of operators. Default: those of
    /// [`crate::Operand::add`], [`crate::Operand::append`] and [`crate::Operand::max`].
    pub merge_operators: MergeOperators,
    /// Memory for caches, and threads, that other databases share. The memory stands in place of
    /// [`Tuning::cache_bytes`] and [`Options::record_cache_bytes`], which stay unset then, and is
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
    /// Directories besides the database's own, and the classes placed there. Existing ones need not
    /// be named again. Default: none.
    pub volumes: Vec<Volume>,
    /// How background work is done. Default: two threads for compactions and collections, besides
    /// the others.
    pub background: Background,
    /// Sizes and policies that need no choice.
    pub tuning: Tuning,
    #[doc(hidden)]
    pub more: (),
}

impl Default for Options {
    fn default() -> Self {
        Self::of_memory(default_memory())
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

    /// The options with which tables are written.
    pub(crate) fn table_options(&self) -> TableOptions {
        TableOptions {
            block_bytes: self.tuning.block_bytes,
            bits_per_key: self.tuning.filter_bits as u32,
            compression: self.compression,
        }
    }

    /// The default options of a database with this memory, in bytes; that of the machine is not
    /// looked at.
    pub fn of_memory(memory_bytes: usize) -> Self {
        Self {
            preset: None,
            layout: None,
            create_if_missing: true,
            error_if_exists: false,
            durability: Durability::Sync,
            min_separated: None,
            memory_bytes,
            record_cache_bytes: 0,
            hot_bytes: 256 << 20,
            compression: Compression::None,
            value_compression: ValueCompression::None,
            space_amplification: 1.3,
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
            volumes: Vec::new(),
            background: Background::Threads(2),
            tuning: Tuning::default(),
            more: (),
        }
    }

    /// The options of a preset.
    pub fn preset(preset: Preset) -> Self {
        Self { preset: Some(preset), ..Self::default() }
    }

    /// The options for a database that was created with the `stored` preset and layout, or for a
    /// new one: both are set.
    pub(crate) fn resolved(self, stored: Option<(Preset, ValueLayout)>) -> Self {
        let preset = self.preset.or(stored.map(|(preset, _)| preset));
        let of_preset = || self.preset.map(|preset| preset.row().layout);
        let of_stored = || stored.map(|(_, layout)| layout);
        let layout = self.layout.or_else(of_preset).or_else(of_stored);
        let asked = Self { preset, layout, ..self };
        Self { preset: Some(asked.chosen_preset()), layout: Some(asked.layout()), ..asked }
    }

    /// The row of the preset, or of the one most similar to the layout.
    fn row(&self) -> &'static PresetRow {
        let like = || self.layout.as_ref().map(Preset::of_layout);
        self.preset.or_else(like).unwrap_or_default().row()
    }

    /// The preset in effect: if none is set, the one most similar to the layout.
    pub fn chosen_preset(&self) -> Preset {
        self.row().preset
    }

    /// How values are kept.
    #[inline]
    pub fn layout(&self) -> ValueLayout {
        self.layout.unwrap_or_else(|| self.row().layout)
    }

    /// Length of the shortest value that leaves the index, in bytes; `None` if the
    /// layout keeps values in the index.
    #[inline]
    pub(crate) fn least_separated(&self) -> Option<usize> {
        let usual = || self.chosen_preset().min_separated(&self.layout());
        self.min_separated.or_else(usual)
    }

    /// Whether a value of this length is separated.
    pub(crate) fn separates(&self, value_len: usize) -> bool {
        self.least_separated().is_some_and(|least| value_len >= least)
    }

    /// The options for a new database on a large disk, with all that follows from others set.
    #[must_use]
    pub fn in_effect(self) -> Self {
        self.resolved(None).within_memory().complete(None)
    }

    /// The options with all that follows from others set, for a database that saved the length
    /// from which on values leave the index.
    pub(crate) fn complete(self, saved: Option<usize>) -> Self {
        let saved = saved.filter(|_| self.layout().separates());
        let min_separated = self.min_separated.or(saved).or_else(|| self.least_separated());
        let tuning = Tuning {
            long_value_bytes: Some(self.long_value()),
            memtable_bytes: Some(self.memtable()),
            memtables_max: Some(self.memtables_max()),
            window_bytes: Some(self.window()),
            cache_bytes: Some(self.cache()).filter(|_| self.resources.is_none()),
            level0: Some(self.level0()),
            ..self.tuning
        };
        Self { min_separated, tuning, ..self }
    }

    /// Full MemTables that may wait for their flush.
    #[inline]
    pub(crate) fn memtables_max(&self) -> usize {
        self.tuning.memtables_max.unwrap_or_else(|| self.row().memtables_max)
    }

    /// Whether a MemTable gathers as much of the log as the window holds.
    pub(crate) fn gathers(&self) -> bool {
        self.row().gathers
    }

    /// How level 0 is kept.
    #[inline]
    pub(crate) fn level0(&self) -> Level0 {
        self.tuning.level0.unwrap_or_else(|| self.row().level0)
    }

    /// Bytes of level 0 above which it is compacted, and bytes of level 1, of an index with these
    /// contents.
    pub(crate) fn level_bytes(&self, contents: Contents) -> (u64, u64) {
        let usual = level_bytes_for(contents, self.tuning.table_bytes);
        let Tuning { level0_bytes, level1_bytes, .. } = self.tuning;
        (level0_bytes.unwrap_or(usual.0), level1_bytes.unwrap_or(usual.1))
    }

    /// The consequences of the layout for the log.
    #[inline]
    pub(crate) fn log(&self) -> LogPolicy {
        LogPolicy::of(&self.layout())
    }

    /// Most log that one MemTable covers, in bytes.
    pub(crate) fn log_bytes_per_memtable_max(&self) -> u64 {
        self.log().log_bytes_per_memtable_max(self)
    }

    /// When the log goes from a window of `len` bytes to its files.
    pub(crate) fn write_back_of(&self, len: usize) -> WriteBack {
        self.log().write_back(self, len)
    }

    /// The options for a database with the `stored` space limit, and that many bytes of log to
    /// keep for readers of changes.
    pub(crate) fn within_stored(self, stored: Option<u64>, log_kept: u64) -> Self {
        let space_limit = self.space_limit.or(stored).filter(|limit| *limit != u64::MAX);
        let change_retention_bytes = self.change_retention_bytes.or(Some(log_kept));
        Self { space_limit, change_retention_bytes, ..self }
    }

    /// The options with this number of bytes of log to keep for readers of changes.
    pub(crate) fn keeping_log(self, bytes: u64) -> Self {
        Self { change_retention_bytes: Some(bytes).filter(|bytes| *bytes > 0), ..self }
    }

    /// Bytes of the log that are kept for readers of changes; 0 for none.
    pub(crate) fn log_kept(&self) -> u64 {
        self.change_retention_bytes.unwrap_or_default()
    }

    /// Whether log is kept for readers of changes.
    pub(crate) fn keeps_changes(&self) -> bool {
        self.log_kept() > 0
    }

    /// How the log is written, in a window that outlives the process or does not.
    pub(crate) fn log_access(&self, window_survives: bool) -> Access {
        self.log().access(self.durability, window_survives)
    }

    /// The options with groups in which no file is longer than `most` and the capacity is at
    /// most `capacity`; unchanged where there are no groups.
    fn groups_within(self, most: u64, capacity: u64) -> Self {
        let groups = self.changed_groups(|_, groups| GroupOptions {
            main_segment_bytes: groups.main_segment_bytes.min(most),
            capacity_bytes: groups.capacity_bytes.min(capacity),
            ..groups
        });
        let hot_bytes = match self.layout().has_hot_store() {
            true => self.hot_bytes.min((capacity / HOT_PART).max(HOT_MIN)),
            false => self.hot_bytes,
        };
        Self { hot_bytes, tuning: Tuning { groups, ..self.tuning }, ..self }
    }

    /// Options of groups, changed so; unchanged where there are no groups.
    fn changed_groups(
        &self,
        change: impl FnOnce(GroupLayout, GroupOptions) -> GroupOptions,
    ) -> GroupOptions {
        let groups = self.tuning.groups.clone();
        match self.layout().groups {
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
        options.min_separated = Some(1024);
        let error = options.validate().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOptions);
        assert!(error.message().contains("a preset whose layout"));
    }
}
