//! The engines that CleaveDB is measured against, behind the interface of its harness.
//!
//! Each engine is one module that implements `cleavedb_bench::Opener` and `cleavedb_bench::Engine`,
//! and a feature of this crate. Durability is the same for all: a write that was acknowledged
//! survives the death of the process, not the loss of power; of some it can be asked that it does
//! ([`settings::Durability`]). (What [`over`] puts on top of an
//! engine only logs its writes, and is lost with the process.)

#![deny(unsafe_code)]

pub mod settings;
pub mod memory;
pub mod idle;
#[allow(unsafe_code)]
mod native;
mod fresh;
#[cfg(feature = "rocksdb")]
pub mod rocks;
#[cfg(feature = "leveldb")]
pub mod level;
#[cfg(feature = "fjall")]
pub mod fjall;
#[cfg(feature = "lmdb")]
pub mod lmdb;
#[cfg(feature = "redb")]
pub mod redb;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "badger")]
pub mod badger;
pub mod over;
pub mod engines;

#[cfg(not(any(
    feature = "rocksdb",
    feature = "leveldb",
    feature = "fjall",
    feature = "lmdb",
    feature = "redb",
    feature = "sqlite",
    feature = "badger"
)))]
compile_error!("no engine: choose at least one feature");
