//! Options of presets that keep values in groups (HashKV, sections 3.2 to 3.4; KT-Store, 3.2).

use cleavedb_values::groups::Relocation;
use cleavedb_values::groups::growth::Growth;
use cleavedb_values::groups::victim::{Segments, VictimPolicy};

/// Longest file and largest piece of memory that an option may ask for, in bytes: 64 GiB. More is a
/// mistake, and sums of more might wrap.
pub(crate) const LEN_MAX: u64 = 64 << 30;

/// How groups are sized and collected. The capacity counts at the first flush; later a group that
/// outgrows its main segment splits.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupOptions {
    /// Bytes of values that the groups are made for; more data makes more groups. Default: 8 GiB,
    /// at most 128 groups: fewer if the first flush is small.
    pub capacity_bytes: u64,
    /// Length of a main segment, in bytes. Default: 64 MiB, as in the paper.
    pub main_segment_bytes: u64,
    /// Length of a log segment, in bytes. Default: 1 MiB, as in the paper.
    pub log_segment_bytes: u64,
    /// Space for log segments, as a part of all main segments. Default: 0.3, as in the paper.
    pub reserved_space: f64,
    /// Which group is collected first. Default: greedy, as in the paper.
    pub victim: VictimPolicy,
    /// How the index learns where collections have put survivors. Kept from the creation on.
    /// Default: write-back, as in the paper of HashKV.
    pub relocation: Relocation,
    /// For `KtStore`: a group for each prefix of so many bytes of the keys, as in its paper, in
    /// place of groups that split as they grow. Default: none. Kept from the creation on.
    pub levels: Option<u8>,
    /// Mean length of a record, in bytes, from which on an extent has a listing of its records, so
    /// that a collection does not read dead values. Default: 12 KiB: where records have 16 KiB it
    /// gains a seventh, where they have 8 KiB it loses a twentieth
    /// (`docs/decisions/0028-long-records-are-listed.md`).
    pub listed_record_bytes: u64,
    /// For `HashKv`: whether values that were not updated since their insert leave their group for
    /// a log of cold values, and leave a tag there (HashKV, section 3.4). Default: false.
    pub tagging: bool,
    /// Whether the log of cold values counts in the space goal. Default: true. The paper leaves it
    /// without a limit: if false, it is not collected for the sake of space, and grows.
    pub cold_log_counts: bool,
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self {
            capacity_bytes: 8 << 30,
            main_segment_bytes: 64 << 20,
            log_segment_bytes: 1 << 20,
            reserved_space: 0.3,
            victim: VictimPolicy::Greedy,
            relocation: Relocation::WriteBack,
            levels: None,
            listed_record_bytes: 12 << 10,
            tagging: false,
            cold_log_counts: true,
        }
    }
}

impl GroupOptions {
    /// Each rule that must hold, and what to say if it does not.
    pub(crate) fn rules(&self) -> [(bool, &'static str); 5] {
        [
            (
                !self.tagging || self.relocation == Relocation::WriteBack,
                "tagging needs relocation by write-back: the index alone knows where values of \
                 the cold log lie",
            ),
            (
                (4 << 10..=LEN_MAX).contains(&self.main_segment_bytes)
                    && (4 << 10..=LEN_MAX).contains(&self.log_segment_bytes),
                "main_segment_bytes and log_segment_bytes must lie between 4 KiB and 64 GiB",
            ),
            (
                self.reserved_space >= 0.05 && self.reserved_space.is_finite(),
                "reserved_space must be at least 0.05: below, collection copies without end",
            ),
            (
                self.capacity_bytes / self.main_segment_bytes.max(1) <= 1 << 16,
                "capacity_bytes must be at most 65536 main segments; more data makes more groups",
            ),
            (
                self.levels.is_none_or(|levels| (1..=8).contains(&levels)),
                "levels must lie between 1 and 8: each prefix has a group",
            ),
        ]
    }

    pub(crate) fn growth(&self) -> Growth {
        Growth { group_bytes: self.main_segment_bytes, capacity: self.capacity_bytes }
    }

    pub(crate) fn segments(&self) -> Segments {
        Segments {
            main: self.main_segment_bytes,
            log: self.log_segment_bytes,
            reserved: self.reserved_space,
        }
    }
}
