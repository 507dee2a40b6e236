//! What a database decides by itself, since it follows from what is stored and from the work that
//! waits.

use super::StallCause;

/// What follows from what is stored, and from the work that waits, where a caller sets nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decisions {
    /// Length from which on values leave the index, in bytes; `None` if none does for its length
    /// alone.
    pub separated_from: Option<u64>,
    /// Mean length of an entry of the index, key and value or pointer together, in bytes; `None`
    /// without tables.
    pub entry_bytes: Option<u64>,
    /// Bytes of level 0 above which it is compacted, by that length.
    pub level0_bytes: u64,
    /// Bytes of level 1, by that length.
    pub level1_bytes: u64,
    /// Most log that the next MemTable covers, in bytes: while much is overwritten, or flushes are
    /// fast, the default preset gathers more.
    pub memtable_log_bytes: u64,
    /// The pace to which writers are slowed down, in bytes a second, and what they would wait for;
    /// `None` while they are not.
    pub slowed: Option<(u64, StallCause)>,
}
