//! `cleave-bench`: CleaveDB under the workloads of the harness, and its peers beside it.
//!
//! [`args`] is what may be typed, [`commands`] what it means; [`engine`] is CleaveDB as the harness
//! sees it. What both programs have is in the library of `cleave`. The modules, bottom first; a
//! module uses only those before it.

#![forbid(unsafe_code)]
// The print macros panic once their reader has gone away.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod failure;
mod bench_args;
mod trace_args;
mod tune_args;
mod args;
mod countdown;
mod device;
mod hot_counters;
mod variant;
mod engine;
mod commands;

use std::process::ExitCode;

use cleavedb_cli::program;

use crate::args::Arguments;

fn main() -> ExitCode {
    program::main::<Arguments>()
}
