//! Sums over extents, kept up by each edit, so that the choice of a group reads no extent.
//!
//! After each flush the engine asks which group is worth a collection. A store with small MemTables
//! has a hundred thousand extents: to sum them up at each look took half of the processor time.

use super::extent::Extent;

/// Least bytes that are counted as reclaimable for a group tombstone.
const STUB_MIN: u64 = 256;

/// Sums over some extents; all but `records`, `stubs` and `tags` are bytes. They wrap, since
/// lengths come from a file: a sum beyond 64 bits must not end the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The extents.
    pub len: u64,
    /// Number of records.
    pub records: u64,
    /// Records that index entries owned when the extents were published.
    pub separated: u64,
    /// Records that entries in tables own now.
    pub live: u64,
    /// What is beside the records, up to whole blocks.
    pub padding: u64,
    /// Number of group tombstones.
    pub stubs: u64,
    /// Number of tags.
    pub tags: u64,
    /// What the group tombstones hide if each hides a record. It may be of any length: an average
    /// one is assumed.
    pub hidden_max: u64,
}

impl Sums {
    /// The sums of one extent.
    pub fn of(extent: &Extent) -> Self {
        let values = extent.records.wrapping_sub(extent.stubs).wrapping_sub(extent.tags);
        let mean = extent.separated / values.max(1);
        Self {
            len: extent.len(),
            records: extent.records,
            separated: extent.separated,
            live: extent.live,
            padding: extent.len().saturating_sub(extent.separated),
            stubs: extent.stubs,
            tags: extent.tags,
            hidden_max: extent.stubs.wrapping_mul(mean.max(STUB_MIN)),
        }
    }

    /// With those of other extents.
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    /// Without those of extents that are among these.
    pub fn minus(self, other: Self) -> Self {
        self.with(other, u64::wrapping_sub)
    }

    /// Bytes that are known to be dead.
    pub fn dead(&self) -> u64 {
        self.separated.saturating_sub(self.live)
    }

    fn with(self, other: Self, change: fn(u64, u64) -> u64) -> Self {
        Self {
            len: change(self.len, other.len),
            records: change(self.records, other.records),
            separated: change(self.separated, other.separated),
            live: change(self.live, other.live),
            padding: change(self.padding, other.padding),
            stubs: change(self.stubs, other.stubs),
            tags: change(self.tags, other.tags),
            hidden_max: change(self.hidden_max, other.hidden_max),
        }
    }
}
