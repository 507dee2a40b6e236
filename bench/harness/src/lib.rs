//! Workloads and measurement: what is asked of a key-value engine, and what it cost.
//!
//! The crate depends on no engine, though some tables name those that they are about. An engine
//! is whatever implements [`Engine`] and can be opened by an [`Opener`]; a peer lives in a
//! workspace of its own and runs the same code with the same command-line arguments
//! ([`cli::BenchArgs`]). The modules by what they are for; below, they stand bottom first, and a
//! module uses only those before it:
//!
//! - what is asked: [`error`], [`capabilities`], [`engine`], [`hash`], [`random`],
//!   [`keys`], [`ranges`], [`distribution`], [`sizes`], [`values`],
//!   [`workload`], [`trace`], [`config`], [`inserts`], [`stream`], [`transcript`],
//!   [`experiments`]
//! - what is measured: [`system`], [`latency`], [`counters`], [`result`], [`observer`]
//! - how it runs: [`turns`], [`pace`], [`client`], [`meter`], [`phase`], [`oracle`], [`null`],
//!   [`recording`], [`scratch`], [`session`], [`progress`], [`output`], [`cli`]
//! - what single features cost: [`features`]
//! - many engines, one after another: [`suite`], [`catalogue`], [`estimate`], [`record`],
//!   [`orchestrate`]
//! - what is shown: [`table`], [`report`]
//! - what is searched for: [`tune`]
//!
//! Everything that an engine receives is a function of the seed, so a run can be repeated exactly,
//! and [`oracle`] can replay the writes of a run to know what every key must hold at its end.

#![forbid(unsafe_code)]
// The print macros panic once their reader has gone away.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod error;
pub mod hash;
pub mod keys;
pub mod random;
pub mod inserts;
pub mod ranges;
pub mod distribution;
pub mod capabilities;
pub mod engine;
pub mod sizes;
pub mod values;
pub mod scratch;
pub mod system;
pub mod workload;
pub mod stream;
pub mod trace;
pub mod pace;
pub mod warm;
pub mod config;
pub mod transcript;
pub mod counters;
pub mod latency;
pub mod client;
pub mod result;
pub mod experiments;
pub mod meter;
pub mod null;
pub mod observer;
pub mod turns;
pub mod table;
pub mod oracle;
pub mod recording;
pub mod phase;
pub mod progress;
pub mod session;
pub mod output;
pub mod features;
pub mod cli;
mod lists;
pub mod suite;
pub mod catalogue;
pub mod estimate;
pub mod record;
pub mod report;
pub mod tune;
pub mod orchestrate;

pub use cleavedb_units as units;
pub use engine::{Engine, Opener};
pub use error::{BenchError, Result};
pub use result::PhaseResult;
pub use session::Session;
pub use workload::Workload;
