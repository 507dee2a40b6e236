//! What may be typed after `trace`.

use std::path::PathBuf;

use clap::Subcommand;
use cleavedb_bench::cli::BenchArgs;

/// Arguments of a benchmark that say what is asked for, and not how it is measured.
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
    /// Write the operations that workloads would ask for; no database is involved
    ///
    /// With --rate the operations have times, at which a replay can begin them.
    #[command(mut_args(|arg| {
        let drawn = DRAWN.contains(&arg.get_id().as_str());
        arg.hide(!drawn)
    }))]
    #[command(mut_arg("json", |arg| arg.long("results")))]
    Record {
        /// The file; what it held is lost
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// The workloads
        #[command(flatten)]
        bench: Box<BenchArgs>,
    },
    /// Show mix, sizes, and how unequal the keys of a trace are
    Show {
        /// The file
        file: PathBuf,
    },
}
