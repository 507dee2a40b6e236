//! What may be typed after `trace`.

use std::path::PathBuf;

use clap::Subcommand;
use cleavedb_bench::cli::BenchArgs;

/// Arguments of a benchmark that define its operations, not how they are measured.
const DRAWN: [&str; 15] = [
    "workload",
    "scale",
    "data",
    "records",
    "value_size",
    "value_sizes",
    "key_order",
    "zipfian",
    "scan_length",
    "threads",
    "operations",
    "rate",
    "seed",
    "out",
    "help",
];

/// What to do about traces.
#[derive(Debug, Subcommand)]
pub enum TraceAction {
    /// Write the operations of workloads to a file; no database is involved
    ///
    /// With --rate the operations have times at which a replay begins them.
    #[command(mut_args(|arg| {
        let drawn = DRAWN.contains(&arg.get_id().as_str());
        arg.hide(!drawn)
    }))]
    Record {
        /// The file; its old content is lost
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// The workloads
        #[command(flatten)]
        bench: Box<BenchArgs>,
    },
    /// Show the mix, the sizes, and the skew of the keys of a trace
    Show {
        /// The file
        file: PathBuf,
    },
}
