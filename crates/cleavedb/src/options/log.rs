//! What follows for the log from where values are: how it is written, what a flush and a collection
//! owe it, and how large what belongs to it may be.
//!
//! The log holds every write first. Where values stay in it (WiscKey), its files are the store, and
//! are collected. Where a flush moves them to groups or to tables it makes the log needless; to
//! move them to groups it must read it once more. All that differs is decided here, so that no
//! other file asks which of the three it is.

use cleavedb_base::limits::BLOCK;
use cleavedb_base::{Result, SeqNo};
use cleavedb_storage::Access;
use cleavedb_storage::log::WriteBack;
use cleavedb_values::{LogRole, ValueLayout};

use super::{Durability, Options};

/// How many times as many runs of level 0 wait to be merged while a flush that moves values waits.
const PATIENCE: usize = 2;

/// Least log that a MemTable covers while there is much garbage, in bytes: below, flushes would
/// cost more than they spare writers.
const COVERED_MIN: u64 = 16 << 20;

/// Parts of the memory, each a divisor of it: a MemTable, one that holds values, and what a window
/// that is written back on pressure has besides MemTables.
const MEMTABLE: usize = 12;
const MEMTABLE_OF_VALUES: usize = 32;
const WINDOW_ROOM: usize = 96;

/// Bounds of a window that is drained as soon as there is enough for a write, in bytes: a dozen
/// writes of the drain, or a few where the drain does not wait for the device; and the part of the
/// memory that it may be.
const WINDOW: usize = 16 << 20;
const WINDOW_OF_VALUES: usize = 4 << 20;
const WINDOW_PART: usize = 12;

/// Where values go from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogPolicy {
    /// Nowhere: they stay.
    Stay,
    /// To groups, at the flush.
    ToGroups,
    /// To tables, at the flush, but for long ones, which stay.
    ToTables,
}

/// Bytes of garbage at which writers are stopped for the log, and what its MemTables may cover.
pub(crate) struct LogGarbage {
    /// Bytes beyond what stops writers elsewhere.
    pub(crate) beyond: u64,
    /// Most log that a MemTable may cover.
    pub(crate) log_bytes_per_memtable_max: u64,
}

impl LogPolicy {
    /// What follows from a layout.
    pub(crate) fn of(layout: &ValueLayout) -> Self {
        match (layout.log, layout.groups) {
            (LogRole::ValueStore, _) => Self::Stay,
            (LogRole::WriteAhead, Some(_)) => Self::ToGroups,
            (LogRole::WriteAhead, None) => Self::ToTables,
        }
    }

    /// When the log goes from the window to its files. Where a flush makes it needless, and nobody
    /// asks for it to be durable before, it need not; values on their way to tables are small and
    /// the window is, too.
    fn drain(self, durability: Durability) -> WriteBack {
        match (self, durability) {
            (Self::ToGroups, Durability::Buffered | Durability::Os) => WriteBack::OnPressure,
            _ => WriteBack::Eager,
        }
    }

    /// How the log is written. Past the page cache, if the window holds what a block does not fill
    /// yet (else every commit must be written as it is), and if it must reach the device anyway:
    /// because tables point into it, or because commits are synced by default. A log that nobody
    /// asks to be durable and that a flush makes needless stays in memory, and is mostly gone
    /// before the kernel writes it back (decision 0011). What a flush is to read again stays in
    /// memory, too.
    pub(crate) fn access(self, durability: Durability, window_survives: bool) -> Access {
        let reaches_the_device = match self {
            Self::Stay => true,
            Self::ToGroups => false,
            Self::ToTables => durability == Durability::Sync,
        };
        if window_survives && reaches_the_device { Access::Direct } else { Access::Random }
    }

    /// Most log that one MemTable covers, in bytes. Values that move to groups at the flush count
    /// as its own: until then they are nowhere else.
    pub(crate) fn log_bytes_per_memtable_max(self, options: &Options) -> u64 {
        let most = if self == Self::ToGroups { options.memtable() as u64 } else { u64::MAX };
        options.memtable_log_bytes.min(most)
    }

    /// Part of the memory that one MemTable may be, as a divisor: where it holds values they are
    /// written to tables, and more of them wait.
    pub(crate) fn memtable_part(self) -> usize {
        if self == Self::ToTables { MEMTABLE_OF_VALUES } else { MEMTABLE }
    }

    /// Length of the log window by default, in bytes, where MemTables cover `of_memtables` bytes of
    /// the log: it holds them all if it is written back on pressure.
    pub(crate) fn window_bytes(self, options: &Options, of_memtables: usize) -> usize {
        let memory = options.memory_bytes;
        match self.drain(options.durability) {
            WriteBack::OnPressure => (of_memtables + memory / WINDOW_ROOM).next_multiple_of(BLOCK),
            WriteBack::Eager => {
                let most = if self == Self::ToTables { WINDOW_OF_VALUES } else { WINDOW };
                (memory / WINDOW_PART).min(most) / BLOCK * BLOCK
            }
        }
    }

    /// When the log goes from a window of `len` bytes, which may be shorter than what was asked
    /// for, to its files: where it does not hold what one MemTable covers nothing would be passed
    /// by.
    pub(crate) fn write_back(self, options: &Options, len: usize) -> WriteBack {
        if (len as u64) < self.log_bytes_per_memtable_max(options) {
            return WriteBack::Eager;
        }
        self.drain(options.durability)
    }

    /// Length at which a log file ends. One that is the store is rewritten by a collection, which
    /// has room for `rewritten_max` bytes; elsewhere it goes as a whole.
    pub(crate) fn file_bytes(self, options: &Options, rewritten_max: u64) -> u64 {
        let most = if self == Self::Stay { rewritten_max } else { u64::MAX };
        options.log_file_bytes.min(most)
    }

    /// Longest file or group that a collection rewrites as one, in bytes.
    pub(crate) fn collected_bytes(self, options: &Options) -> u64 {
        match self {
            Self::ToGroups => options.groups.main_segment_bytes,
            Self::Stay | Self::ToTables => options.segment_bytes.max(options.log_file_bytes),
        }
    }

    /// Bytes of values that the flush of a MemTable may write.
    pub(crate) fn flushed_values(self, options: &Options) -> u64 {
        if self == Self::ToGroups { self.log_bytes_per_memtable_max(options) } else { 0 }
    }

    /// Bytes that the flushes of MemTables may write which have `memory` bytes of their own and
    /// cover so many of the log.
    pub(crate) fn flushed_bytes(self, memory: u64, covered: u64) -> u64 {
        if self == Self::ToGroups { covered } else { covered.min(memory) }
    }

    /// Bytes written so far that count as data: of log where that is the store, which pads what is
    /// synced; elsewhere of keys and values.
    pub(crate) fn data_written(self, log: u64, keys_and_values: u64) -> u64 {
        if self == Self::Stay { log } else { keys_and_values }
    }

    /// Whether a commit of `len` bytes, one of whose values is separated, holds a long value that
    /// stays in the log where others move to tables.
    pub(crate) fn keeps_long_value(self, options: &Options, len: u64) -> bool {
        self == Self::ToTables && len >= options.long_value() as u64
    }

    /// Whether tables point into the part of the log that a MemTable covers, once it is flushed;
    /// `has_long` says that some long values lie there, or values that were long under other
    /// options.
    pub(crate) fn is_pointed_to(self, has_long: bool) -> bool {
        match self {
            Self::Stay => true,
            Self::ToGroups => false,
            Self::ToTables => has_long,
        }
    }

    /// Gives back, by `release`, the part of the log that a flushed MemTable covers, if nobody will
    /// read it there.
    pub(crate) fn release_after_flush(self, release: impl FnOnce()) {
        if self == Self::ToGroups {
            release();
        }
    }

    /// Whether a sealed log file must be whole, `live` bytes of which are pointed to: else what
    /// lies below the replay head may never have reached the device (decision 0011).
    pub(crate) fn is_whole(self, live: u64) -> bool {
        self == Self::Stay || live > 0
    }

    /// What a collection may believe. Where the log is the store, all that is visible: the log is
    /// synced before the victim goes. Else only what is durable by itself, so that no collection
    /// drags a log to the device that is about to be needless (decision 0011).
    pub(crate) fn read_point(self, visible: SeqNo, durable: SeqNo) -> SeqNo {
        if self == Self::Stay { visible } else { durable }
    }

    /// Makes durable by `sync` what a collection believed, before what it found dead goes.
    pub(crate) fn sync_before_drop(self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        if self == Self::Stay { sync() } else { Ok(()) }
    }

    /// Makes the log durable to its end, at a close, by `sync`. Where a flush did not need it in
    /// its file it gets a mark at its end, by `end`: that proves at the next open that the manifest
    /// is whole.
    pub(crate) fn end_at_close(
        self,
        sync: impl FnOnce() -> Result<()>,
        end: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if self == Self::ToGroups { end() } else { sync() }
    }

    /// How many times as many runs of level 0 as usual wait to be merged while MemTables wait: a
    /// flush that moves values needs the processor more than reads need few runs; and runs of
    /// pointers are short, and many.
    pub(crate) fn merge_patience(self, waiting: usize) -> usize {
        if self == Self::ToGroups && waiting > 0 { PATIENCE } else { 1 }
    }

    /// What garbage in the log means for writers, where it is the store: of `bytes` of values so
    /// many are `alive`, and as many are `allowed`.
    ///
    /// From halfway to the goal on a flush takes writers half of the way to a stop at most. What
    /// MemTables cover less of the log, garbage may take more (decision 0030).
    pub(crate) fn garbage(
        self,
        options: &Options,
        (bytes, alive, allowed): (u64, u64, u64),
    ) -> Option<LogGarbage> {
        if self != Self::Stay {
            return None;
        }
        let beyond = self.log_bytes_per_memtable_max(options).min(allowed - alive) / 2;
        let until_stop = (allowed / 8).saturating_add(beyond).saturating_add(allowed / 32);
        let much = bytes > alive + (allowed - alive) / 2;
        let log_bytes_per_memtable_max =
            if much { COVERED_MIN.max(until_stop / 2) } else { u64::MAX };
        Some(LogGarbage { beyond, log_bytes_per_memtable_max })
    }
}
