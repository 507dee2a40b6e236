//! The log: every user commit, written once, and nothing else.
//!
//! One stream of records, cut into files, with its newest part in the window. In log-as-store
//! presets the files are also the youngest value segments: a separated value stays where its commit
//! put it. See `docs/format.md`, "Log file".

mod frame;
mod released;
mod reader;
mod batches;
mod rest;
mod buffer;
mod tail;
mod writer;
pub mod salvage;

#[cfg(all(test, feature = "test-loom"))]
mod loom_tests;

pub use batches::{Batches, LoggedOp, Values};
pub use buffer::{BufferPin, LogBuffer, ReservedSlot};
pub use frame::{FORMAT_VERSION, FileHeader, SyncMarker, newer_format};
pub use reader::LogReader;
pub use tail::TailedFile;
pub use writer::{
    ALLOCATED_MIN, Appender, First, Log, LogFile, PreallocatedLog, Reserved, WriteBack,
};
