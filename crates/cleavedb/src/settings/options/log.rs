//! The consequences of the layout for the log: how it is written, what flushes and collections do
//! with it, and its sizes.
//!
//! The log gets every write first. Where values stay in it (WiscKey), its files are the value
//! store, and are collected. Where a flush moves values to groups or to tables, it releases the
//! log; to move them to groups it must read the log again. All differences are decided here, so
//! that no other file checks which of the three it is.

use cleavedb_base::limits::BLOCK;
use cleavedb_base::{Result, SeqNo};
use cleavedb_storage::Access;
use cleavedb_storage::log::WriteBack;
use cleavedb_values::{LogRole, ValueLayout};

use super::{Durability, Options};

/// Factor for the runs of level 0 that trigger a merge, while a flush that moves values is waiting.
const PATIENCE: usize = 2;

/// Least log that a MemTable covers while there is much garbage, in bytes: with less, flushes would
/// cost writers more than they save.
const COVERED_MIN: u64 = 16 << 20;

/// Parts of the memory, each a divisor of it: a MemTable, one that holds values, and what a window
/// that is written back on pressure has besides MemTables.
const MEMTABLE: usize = 12;
const MEMTABLE_OF_VALUES: usize = 32;
const WINDOW_ROOM: usize = 96;

/// Bounds of an eagerly drained window, in bytes: a dozen writes of the drain, or a few where the
/// drain does not wait for the device; and its divisor of the memory.
const WINDOW: usize = 16 << 20;
const WINDOW_OF_VALUES: usize = 4 << 20;
const WINDOW_PART: usize = 12;

/// Bytes that writers write at least while a MemTable is flushed, for each byte of its log: a flush
/// is four times as fast ([`crate::control::flush_pace`]). And by how much more room they have.
const LEAST_MEANWHILE: f64 = 0.25;
const MEANWHILE: f64 = 1.25;

/// Divisor of a store for the length of log files where the log stays in the window, and their
/// least and greatest length, in bytes.
const UNWRITTEN_OF_STORE: u64 = 16;
const UNWRITTEN: (u64, u64) = (4 << 20, 24 << 20);

/// Where values go from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogPolicy {
    /// Values stay in the log.
    Stay,
    /// To groups, at the flush.
    ToGroups,
    /// To tables, at the flush, except long ones, which stay in the log.
    ToTables,
}

/// Limits of garbage in the log, and of the log that MemTables cover.
pub(crate) struct LogGarbage {
    /// Bytes of garbage beyond the usual limit that stops writers.
    pub(crate) beyond: u64,
    /// Most log that a MemTable may cover.
    pub(crate) log_bytes_per_memtable_max: u64,
}

impl LogPolicy {
    /// The policy for a layout.
    pub(crate) fn of(layout: &ValueLayout) -> Self {
        match (layout.log, layout.groups) {
            (LogRole::ValueStore, _) => Self::Stay,
            (LogRole::WriteAhead, Some(_)) => Self::ToGroups,
            (LogRole::WriteAhead, None) => Self::ToTables,
        }
    }

    /// Whether values go to groups.
    pub(crate) fn moves_to_groups(self) -> bool {
        self == Self::ToGroups
    }

    /// When the log is written from the window to its files. The drain is lazy where a flush
    /// releases the log and it need not be durable before; values for tables are small, and so is
    /// the window.
    fn drain(self, durability: Durability) -> WriteBack {
        match (self, durability) {
            (Self::ToGroups, Durability::Buffered | Durability::Os) => WriteBack::OnPressure,
            _ => WriteBack::Eager,
        }
    }

    /// How the log is written. It bypasses the page cache if the window holds partially filled
    /// blocks (otherwise every commit must be written by itself) and if the log must reach the
    /// device anyway: because tables point into it, or because commits are synced by default. A log
    /// that need not be durable and that a flush releases stays in memory, and is mostly removed
    /// before the kernel writes it back (decision 0011). Log that a flush will read again also
    /// stays in memory.
    pub(crate) fn access(self, durability: Durability, window_survives: bool) -> Access {
        let reaches_the_device = match self {
            Self::Stay => true,
            Self::ToGroups => false,
            Self::ToTables => durability == Durability::Sync,
        };
        if window_survives && reaches_the_device { Access::Direct } else { Access::Random }
    }

    /// Bytes of log for which a window has room, for each MemTable. Values that move to groups at
    /// the flush count as memory of the MemTable: until then they are nowhere else.
    pub(crate) fn log_bytes_per_memtable(self, options: &Options) -> u64 {
        let most = if self == Self::ToGroups { options.memtable() as u64 } else { u64::MAX };
        options.tuning.memtable_log_bytes.min(most)
    }

    /// Most log that one MemTable covers, in bytes.
    pub(crate) fn log_bytes_per_memtable_max(self, options: &Options) -> u64 {
        let usual = self.log_bytes_per_memtable(options);
        let covered = self.covered(options, options.window() as u64, LEAST_MEANWHILE);
        covered.map_or(usual, |covered| covered.max(usual))
    }

    /// Bytes of log for which a window has room, for all MemTables together.
    pub(crate) fn log_bytes_of_memtables(self, options: &Options) -> u64 {
        let memtables = (options.memtables_max() as u64).saturating_add(1);
        self.log_bytes_per_memtable(options).saturating_mul(memtables)
    }

    /// How much log a MemTable should cover where it gathers what the window of `window` bytes
    /// holds, and writers write `meanwhile` bytes for each byte of its log until its flush has
    /// ended. The more it gathers, the more is overwritten in it, and is never moved (decision
    /// 0068).
    pub(crate) fn covered(self, options: &Options, window: u64, meanwhile: f64) -> Option<u64> {
        let gathers = self == Self::ToGroups && options.gathers();
        let room = match self.drain(options.durability) {
            WriteBack::OnPressure => window,
            WriteBack::Eager => u64::MAX,
        };
        let room = self.log_bytes_of_memtables(options).min(room) as f64;
        let part = 1.0 + MEANWHILE * meanwhile.max(LEAST_MEANWHILE);
        gathers.then_some((room / part) as u64)
    }

    /// How much log the first MemTable should cover, as [`Self::covered`] has it: as much as in a
    /// load. The window will have grown by then; and the first flush of a store divides its keys
    /// into groups, the better the more keys it has.
    pub(crate) fn covered_at_first(self, options: &Options) -> Option<u64> {
        self.covered(options, options.window() as u64, 1.0)
    }

    /// Part of the memory that one MemTable may be, as a divisor: where it holds values they are
    /// written to tables, and more of them wait.
    pub(crate) fn memtable_part(self) -> usize {
        if self == Self::ToTables { MEMTABLE_OF_VALUES } else { MEMTABLE }
    }

    /// Length of the log window by default, in bytes, where MemTables cover `of_memtables` bytes of
    /// the log: it holds them all if it is written back on pressure.
    pub(crate) fn window_bytes(self, options: &Options, of_memtables: usize) -> usize {
        let memory = options.divided_memory();
        match self.drain(options.durability) {
            WriteBack::OnPressure => (of_memtables + memory / WINDOW_ROOM).next_multiple_of(BLOCK),
            WriteBack::Eager => {
                let most = if self == Self::ToTables { WINDOW_OF_VALUES } else { WINDOW };
                (memory / WINDOW_PART).min(most) / BLOCK * BLOCK
            }
        }
    }

    /// When the log goes from a window of `len` bytes, which may be shorter than what was asked
    /// for, to its files: where it does not hold what one MemTable covers, and where changes are
    /// read from the files, nothing would be passed by.
    pub(crate) fn write_back(self, options: &Options, len: usize) -> WriteBack {
        if (len as u64) < self.log_bytes_per_memtable(options) || options.keeps_changes() {
            return WriteBack::Eager;
        }
        self.drain(options.durability)
    }

    /// Whether the window holds all that MemTables cover, and a MemTable gathers what it holds.
    fn gathers_in_window(self, options: &Options) -> bool {
        options.gathers() && self.drain(options.durability) == WriteBack::OnPressure
    }

    /// Length at which a log file of a store of `bytes` bytes ends. Where the log is the value
    /// store, a collection rewrites a file, in at most `rewritten_max` bytes; otherwise files are
    /// removed as a whole. Where the log stays in the window its files are hardly ever written, but
    /// take their space.
    pub(crate) fn file_bytes(self, options: &Options, bytes: u64, rewritten_max: u64) -> u64 {
        let most = match self {
            Self::Stay => rewritten_max,
            _ if self.gathers_in_window(options) => {
                (bytes / UNWRITTEN_OF_STORE).clamp(UNWRITTEN.0, UNWRITTEN.1)
            }
            _ => u64::MAX,
        };
        options.tuning.log_file_bytes.min(most)
    }

    /// Longest file or group that one collection rewrites, in bytes.
    pub(crate) fn collected_bytes(self, options: &Options) -> u64 {
        match self {
            Self::ToGroups => options.tuning.groups.main_segment_bytes,
            Self::Stay | Self::ToTables => {
                options.tuning.segment_bytes.max(options.tuning.log_file_bytes)
            }
        }
    }

    /// Upper bound of the bytes of values that the flush of a MemTable writes.
    pub(crate) fn flushed_values(self, options: &Options) -> u64 {
        if self == Self::ToGroups { self.log_bytes_per_memtable_max(options) } else { 0 }
    }

    /// Upper bound of the bytes that flushes of MemTables write, with `memory` bytes of their own
    /// and `covered` bytes of log.
    pub(crate) fn flushed_bytes(self, memory: u64, covered: u64) -> u64 {
        if self == Self::ToGroups { covered } else { covered.min(memory) }
    }

    /// Bytes written so far that count as data: log bytes where the log is the value store, since
    /// syncs pad it; otherwise keys and values.
    pub(crate) fn data_written(self, log: u64, keys_and_values: u64) -> u64 {
        if self == Self::Stay { log } else { keys_and_values }
    }

    /// Whether only long values stay in the log, while others move to tables.
    pub(crate) fn keeps_long_values(self) -> bool {
        self == Self::ToTables
    }

    /// Whether tables point into the part of the log that a MemTable covers, after its flush;
    /// `has_long` says that it has long values, or values that were long under other options.
    pub(crate) fn is_pointed_to(self, has_long: bool) -> bool {
        match self {
            Self::Stay => true,
            Self::ToGroups => false,
            Self::ToTables => has_long,
        }
    }

    /// Releases, by `release`, the part of the log that a flushed MemTable covers, if it will not
    /// be read there.
    pub(crate) fn release_after_flush(self, release: impl FnOnce()) {
        if self == Self::ToGroups {
            release();
        }
    }

    /// Whether a sealed log file with `live` bytes must be complete: otherwise the part below the
    /// replay head may never have reached the device (decision 0011).
    pub(crate) fn is_whole(self, live: u64) -> bool {
        self == Self::Stay || live > 0
    }

    /// The read point of a collection. Where the log is the value store, the visible sequence
    /// number: the log is synced before the victim is removed. Otherwise the durable one, so that
    /// no collection forces log to the device that is about to be released (decision 0011).
    pub(crate) fn read_point(self, visible: SeqNo, durable: SeqNo) -> SeqNo {
        if self == Self::Stay { visible } else { durable }
    }

    /// Syncs the log up to the read point of a collection, by `sync`, before records dead by then
    /// are dropped.
    pub(crate) fn sync_before_drop(self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        if self == Self::Stay { sync() } else { Ok(()) }
    }

    /// Makes the log durable to its end, at a close, by `sync`. Where flushes did not need its
    /// files it gets a mark at its end instead, by `end`, which proves at the next open that the
    /// manifest is complete.
    pub(crate) fn end_at_close(
        self,
        sync: impl FnOnce() -> Result<()>,
        end: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if self == Self::ToGroups { end() } else { sync() }
    }

    /// Factor for the runs of level 0 that trigger a merge, while MemTables wait: a flush that
    /// moves values needs the processor more than reads need few runs; and runs of pointers are
    /// many and short.
    pub(crate) fn merge_patience(self, waiting: usize) -> usize {
        if self == Self::ToGroups && waiting > 0 { PATIENCE } else { 1 }
    }

    /// The effect of garbage on writers, where the log is the value store: `bytes` of values exist,
    /// `alive` of them are live, and `allowed` are tolerated.
    ///
    /// A flush brings writers at most half of the way to a stop: from halfway to the goal on, if
    /// all of its log is garbage; below, if the share of the last flushes is, `growth`. Garbage
    /// may take the space of log that MemTables do not cover (decision 0059).
    pub(crate) fn garbage(
        self,
        options: &Options,
        bytes: u64,
        alive: u64,
        allowed: u64,
        growth: f64,
    ) -> Option<LogGarbage> {
        if self != Self::Stay {
            return None;
        }
        let beyond = self.log_bytes_per_memtable_max(options).min(allowed - alive) / 2;
        let until_stop = (allowed / 8).saturating_add(beyond).saturating_add(allowed / 32);
        let until_much = (alive + (allowed - alive) / 2).saturating_sub(bytes) as f64 / growth;
        // A cast of infinity, where nothing becomes garbage, is the maximum.
        let covered = (until_stop / 2).saturating_add(until_much as u64);
        let log_bytes_per_memtable_max = covered.max(COVERED_MIN);
        Some(LogGarbage { beyond, log_bytes_per_memtable_max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::options::Preset;

    #[test]
    fn a_memtable_gathers_what_writers_leave_of_the_window() {
        let options = |preset| Options { durability: Durability::Os, ..Options::preset(preset) };
        let options = Options { memory_bytes: 768 << 20, ..options(Preset::Cleave) };
        let covered = |options: &Options, window: u64, meanwhile| {
            LogPolicy::ToGroups.covered(options, window << 20, meanwhile).map(|bytes| bytes >> 20)
        };
        let of = |meanwhile| covered(&options, 200, meanwhile).unwrap();
        assert_eq!([0.0, 0.25, 0.5, 1.0, 4.0].map(of), [146, 146, 118, 85, 32]);
        assert_eq!(options.log_bytes_per_memtable_max() >> 20, 146);
        assert_eq!(covered(&options, 90, 1.0), Some(40), "a window that is still short");
        let ktstore = Options { preset: Some(Preset::KtStore), ..options };
        assert_eq!(covered(&ktstore, 200, 1.0), None, "the presets of papers stay as they are");
        assert_eq!(ktstore.log_bytes_per_memtable_max(), 64 << 20);
    }

    #[test]
    fn log_files_that_are_not_written_are_short() {
        let options = Options { durability: Durability::Os, ..Options::preset(Preset::Cleave) };
        let of = |options: &Options, mib: u64| {
            LogPolicy::ToGroups.file_bytes(options, mib << 20, u64::MAX) >> 20
        };
        assert_eq!([1, 128, 256, 4000].map(|mib| of(&options, mib)), [4, 8, 16, 24]);
        let synced = Options { durability: Durability::Sync, ..options };
        assert_eq!(of(&synced, 1), 64, "its log files are written");
    }

    #[test]
    fn a_memtable_covers_what_becomes_as_much_garbage_as_writers_bear() {
        let options = Options::preset(Preset::WiscKey);
        let covered = |bytes: u64, growth: f64| {
            let garbage =
                LogPolicy::Stay.garbage(&options, bytes << 20, 200 << 20, 264 << 20, growth);
            garbage.unwrap().log_bytes_per_memtable_max >> 20
        };
        let much = covered(300, 0.5);
        assert_eq!((much, covered(232, 0.5), covered(300, 0.0)), (36, much, much));
        // Below, there is room for more, in proportion; a load leaves no garbage.
        assert_eq!((covered(212, 0.5), covered(212, 1.0)), (much + 40, much + 20));
        assert_eq!(covered(212, 0.0), u64::MAX >> 20);
    }
}
