//! The index: a log-structured merge tree from tree keys to inline values or value pointers.
//!
//! Modules are listed bottom first; a module uses only those above it.

pub mod entry;
pub mod memtable;
pub mod range_tombstones;
pub mod retention;
pub mod operands;
pub mod block;
mod expiry_sample;
pub mod table_format;
mod table_index;
pub mod table_builder;
pub mod cache;
pub mod table;
pub mod merge;
pub mod visible;
pub mod open_tables;
#[cfg(feature = "experiments")]
mod seeks_left;
pub mod table_handle;
pub mod table_set;
pub mod edit;
pub mod buckets;
pub mod version;
pub mod compaction;

pub use cache::BlockCache;
pub use compaction::KeySample;
pub use edit::{RunPosition, VersionEdit};
pub use entry::{Entry, EntryIter, IndexHit};
pub use memtable::{MemHit, MemTable};
pub use merge::MergeIter;
pub use operands::{FoldedVersions, MergeRule};
pub use range_tombstones::{DeletedRanges, Fragments, RangeTombstone};
pub use retention::Retention;
pub use table::{IndexSize, ReadMode};
pub use table_builder::TableBuilder;
pub use table_format::{Compression, TableMeta, TableOptions};
pub use table_handle::TableStore;
pub use version::{Contents, Version};
pub use visible::VisibleIter;

#[cfg(all(test, feature = "test-loom"))]
mod loom_tests;
#[cfg(test)]
mod testing;
