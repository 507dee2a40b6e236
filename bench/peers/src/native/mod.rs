//! The only `unsafe` of the peers: C libraries behind interfaces that cannot be misused.

pub mod heap;
#[cfg(feature = "leveldb")]
pub mod leveldb;
#[cfg(feature = "lmdb")]
pub mod lmdb;
