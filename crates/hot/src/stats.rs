//! What a hot store tells of itself.

/// Facts about a hot store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotStats {
    /// Hot keys.
    pub keys: u64,
    /// Segments.
    pub segments: u64,
    /// Bytes of memory of the index.
    pub index_memory: u64,
    /// Bytes of memory in all: index, segments, sketch, and the table of versions that wait.
    pub memory: u64,
    /// HeatLimit: see [`HotStore::limit`](crate::HotStore::limit). `None` while the store is off.
    pub limit: Option<u8>,
    /// Reads, and those that found their key here.
    pub reads: u64,
    /// See `reads`.
    pub hits: u64,
    /// Writes that flushes have counted, and those of hot keys.
    pub writes: u64,
    /// See `writes`.
    pub write_hits: u64,
    /// Records written for keys that were hot.
    pub updates: u64,
    /// Keys that became hot.
    pub admitted: u64,
    /// Keys that became hot because they were read.
    pub promoted: u64,
    /// Records that an evacuation copied to another segment.
    pub kept: u64,
    /// Keys whose records an evacuation moved to the cold side.
    pub demoted: u64,
}
