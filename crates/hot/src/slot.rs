//! The place of a hot record: what the hot index maps keys to.

/// Place of a hot record: the number of its segment in memory, and of the record in it.
///
/// Every pair of numbers is valid. The paper's entry has only the segment (*vTableID*, 2 bytes),
/// which must be searched for the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Number of the segment, as the hot store counts them in memory.
    pub segment: u16,
    /// Number of the record in its segment.
    pub record: u16,
}
