//! Options of layouts that keep values in groups (HashKV, sections 3.2 to 3.4; KT-Store, 3.2).

use cleavedb_values::groups::sizing::GroupSizes;
use cleavedb_values::groups::victim::{SegmentSizes, VictimPolicy};

/// Longest file and largest piece of memory that an option may ask for, in bytes: 64 GiB. More is a
/// mistake, and sums of more might wrap.
pub(crate) const LEN_MAX: u64 = 64 << 30;

/// How groups are sized and collected. The capacity counts at the first flush; later a group that
/// outgrows its main segment splits.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupOptions {
    /// Bytes of values that the groups are made for; more data makes more groups. Default: 8 GiB,
    /// 128 groups by hash, and 64 by ranges: fewer if the first flush is small.
    pub capacity_bytes: u64,
    /// Length of a main segment, in bytes. Default: 64 MiB, as in the paper.
    pub main_segment_bytes: u64,
    /// Length of a log segment, in bytes, where groups share some: by hash. Default: 1 MiB, as in
    /// the paper.
    pub log_segment_bytes: u64,
    /// Space for log segments, as a part of all main segments, where groups share them. Default:
    /// 0.3, as in the paper.
    pub reserved_space: f64,
    /// Mean length of a record, in bytes, from which on an extent has a key block of its records,
    /// so that a collection does not read dead values. Default: 12 KiB: where records have 16 KiB
    /// it gains a seventh, where they have 8 KiB it loses a twentieth
    /// (`docs/decisions/0010-groups-are-extents.md`).
    pub key_block_record_bytes: u64,
    /// Most bytes of the records of a hot segment (HoaKV's vTable, section 3.3), 16 KiB to 2 MiB. A
    /// value that takes more than an eighth of it does not become hot. Default: 2 MiB.
    pub hot_segment_bytes: u64,
    /// HeatLimit: accesses within the last half-lives from which on a key becomes hot, 1 to 15
    /// (HoaKV, section 3.2). Default: none: it is 1 where all accesses are reads, 4 where all are
    /// writes, and more while the hot store is full.
    pub heat_limit: Option<u8>,
    /// What figures of papers vary. Default: what the presets do.
    #[cfg(feature = "experiments")]
    pub experiments: GroupExperiments,
}

/// What figures of papers vary about groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupExperiments {
    /// Whether groups by ranges of keys begin as one (HoaKV, section 3.5): the first flush divides
    /// nothing, and a collection divides a group that has grown to twice its main segment. The
    /// capacity has no effect then. Default: false, since each division copies the group.
    pub one_at_first: bool,
    /// Which group is collected first. Default: greedy, as in the paper.
    pub victim: VictimPolicy,
    /// Whether the log of cold values, which there is with tagging, counts in the space goal.
    /// Default: true. The paper leaves it without a limit: if false, it is not collected for the
    /// sake of space, and grows.
    pub cold_log_counts: bool,
}

impl Default for GroupExperiments {
    fn default() -> Self {
        Self { one_at_first: false, victim: VictimPolicy::Greedy, cold_log_counts: true }
    }
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self {
            capacity_bytes: 8 << 30,
            main_segment_bytes: 64 << 20,
            log_segment_bytes: 1 << 20,
            reserved_space: 0.3,
            key_block_record_bytes: 12 << 10,
            hot_segment_bytes: 2 << 20,
            heat_limit: None,
            #[cfg(feature = "experiments")]
            experiments: GroupExperiments::default(),
        }
    }
}

impl GroupOptions {
    /// What is varied, or what the presets do.
    #[inline]
    pub(crate) fn experiments(&self) -> GroupExperiments {
        #[cfg(feature = "experiments")]
        let varied = self.experiments;
        #[cfg(not(feature = "experiments"))]
        let varied = GroupExperiments::default();
        varied
    }

    /// The sizes that groups should have.
    pub(crate) fn sizes(&self) -> GroupSizes {
        GroupSizes {
            group_bytes: self.main_segment_bytes,
            capacity: self.capacity_bytes,
            one_at_first: self.experiments().one_at_first,
        }
    }

    /// Lengths of segments, as HashKV has them.
    pub(crate) fn segments(&self) -> SegmentSizes {
        SegmentSizes {
            main: self.main_segment_bytes,
            log: self.log_segment_bytes,
            reserved: self.reserved_space,
        }
    }
}
