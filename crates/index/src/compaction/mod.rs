//! Compaction: merges tables into older places, and drops entries that no reader can see.
//!
//! The policy ([`leveled`]) is a pure function of a version: it picks inputs and a place for the
//! outputs. The [`job`] does the work, without a lock, and ends in one edit.
//!
//! Invariants of every [`Compaction`], asserted by its constructor and proved in `leveled`:
//!
//! 1. An entry never sinks below an older entry of its key: with a table, every table of an older
//!    place between it and the outputs that shares keys with it is an input too.
//! 2. Outputs and untouched tables of the target level have no common keys.
//! 3. It may run beside the compactions that its [`Constraints`] listed.

mod types;
mod level_sizes;
mod picker;
pub mod futile;
mod level0;
mod tombstones;
mod hidden_tables;
#[cfg(feature = "experiments")]
mod seeks;
mod packing;
pub mod leveled;
pub mod range;
pub mod pieces;
pub mod placement;
pub mod job;

pub use level_sizes::level_bytes_for;
#[cfg(feature = "experiments")]
pub use level0::compacts_on_seeks;
pub use level0::{KeySample, TableEnds, table_ends};
pub use types::{Compaction, CompactionInput, CompactionOptions, Constraints, Level0, WriteRange};

#[cfg(test)]
mod tests;
