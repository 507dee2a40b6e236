//! Recorded operations: a file of them, written by a wrapper around an engine or drawn from a
//! workload, and replayed as a workload.
//!
//! The format is described in `docs/benchmarks.md`.

pub mod format;
pub mod replay;
pub mod summary;

pub use format::{Reader, Record, Writer};
pub use replay::{Replay, ReplayStream, Trace};
pub use summary::Summary;
