//! The value store: segments of records, their live bytes, and the reclaiming of their space.
//!
//! It has no index: collection uses a small trait, [`collect::Liveness`], that the engine
//! implements. Modules are listed bottom first; a module uses only those above it.

#![forbid(unsafe_code)]

pub mod cut;
pub mod place_map;
pub mod partition;
pub mod layout;
pub mod value_files;
pub mod victim;
pub mod unexposed;
pub mod factory;
pub mod groups;
pub mod coalesced_read;
pub mod dictionary;
pub mod compression;
pub mod owned_record;
pub mod record_cache;
pub mod set;
pub mod collect;

pub use coalesced_read::{Chunk, POOLED_LEN};
pub use compression::ValueCompression;
pub use dictionary::{Dictionaries, Dictionary};
pub use factory::SegmentFactory;
pub use groups::{GroupEdit, GroupTable};
pub use layout::{GroupLayout, LogRole, SurvivorRoute, ValueLayout};
pub use owned_record::OwnedRecord;
pub use partition::{GroupId, Partition};
pub use record_cache::{RecordCache, RecordCacheStats, RecordMemory};
pub use set::{Blob, SegmentSet};
pub use value_files::{RetainedFile, ValueFileEdit, ValueFileMeta, ValueFiles};
