//! The engines that CleaveDB is measured against, run by the same harness with the same arguments.
//!
//! Each engine is one module that implements `cleavedb_bench::Opener` and `cleavedb_bench::Engine`.

mod rocks;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use cleavedb_bench::cli::{BenchArgs, run};

use crate::rocks::{RocksArgs, RocksOpener};

/// Runs one peer through the workloads of CleaveDB's benchmark.
#[derive(Parser)]
struct Arguments {
    /// The engine to run
    #[arg(short, long, value_enum, default_value = "rocksdb")]
    engine: Peer,
    #[command(flatten)]
    bench: BenchArgs,
    #[command(flatten)]
    rocks: RocksArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Peer {
    /// RocksDB, leveled
    Rocksdb,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let opener = match arguments.engine {
        Peer::Rocksdb => RocksOpener::new(arguments.rocks),
    };
    match run(&arguments.bench, &opener) {
        Ok(report) if report.passed() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench-peers: {error}");
            ExitCode::FAILURE
        }
    }
}
