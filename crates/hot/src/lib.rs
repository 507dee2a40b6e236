//! The hot store: which keys are accessed most, and where their records lie (HoaKV, sections 3.2
//! and 3.3).
//!
//! Modules are listed bottom first; a module uses only those above it.

#![forbid(unsafe_code)]

pub mod slot;
mod entry;
mod table;
mod shard;
pub mod index;
pub mod heat;
pub mod segment;
pub mod change;
pub mod evacuation;
pub mod worth;
pub mod promotions;
mod stats;
pub mod store;
pub mod loading;

pub use heat::HeatSketch;
pub use index::HotIndex;
pub use slot::Slot;
pub use stats::HotStats;
pub use store::HotStore;

#[cfg(all(test, feature = "test-loom"))]
mod loom_tests;
#[cfg(test)]
mod testing;
