//! What a flush, or an open, changes in the hot store.

use std::sync::Arc;

use cleavedb_base::{Location, ValuePointer};

use crate::segment::{HotKey, HotSegment};

/// What a flush changes.
#[derive(Default)]
pub struct HotChange {
    /// New segments.
    pub segments: Vec<Arc<HotSegment>>,
    /// Keys with a new record.
    pub puts: Vec<HotPut>,
    /// Keys that have a newer version elsewhere.
    pub overwritten: Vec<HotKey>,
    /// Keys whose version was moved elsewhere.
    pub demoted: Vec<HotKey>,
    /// Segments that go.
    pub gone: Vec<Location>,
}

/// A new record of a key.
#[derive(Clone, Copy, Debug)]
pub struct HotPut {
    /// The key of the put.
    pub key: HotKey,
    /// Number of its segment among the new ones.
    pub segment: usize,
    /// The place of the record, which is in it.
    pub pointer: ValuePointer,
    /// The heat of a key that was not hot.
    pub heat: u8,
    /// Why it is here.
    pub reason: HotReason,
}

/// Why a record is written to a hot segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotReason {
    /// The key has become hot.
    Admitted,
    /// The key is hot, and was written.
    Updated,
    /// The old segment of the record was evacuated.
    Kept,
    /// The key was read often.
    Promoted,
}
