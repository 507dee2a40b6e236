//! What may be typed: the commands of `cleave-bench`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use cleavedb_cli::global::Global;

use crate::bench_args::BenchCommand;
use crate::trace_args::TraceAction;
use crate::tune_args::TuneArgs;

/// Measures CleaveDB; `cleave bench`, `cleave trace` and `cleave tune` run this program.
#[derive(Debug, Parser)]
#[command(name = "cleave-bench", version, max_term_width = 100)]
pub struct Arguments {
    /// Arguments of every command, those of `cleave`.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure: workloads on one preset, or a suite on every preset and peer, with a report
    ///
    /// Without a COMMAND, runs workloads on one preset (YCSB load and A to F, the update phases of
    /// the HashKV paper, and more; --list names them). `quick`, `suite` and `papers` run many
    /// engines in turn, with medians, spread and ratios; `report` makes tables and charts of their
    /// results. Values are verified after every run. Works on data of its own, in a directory that
    /// is deleted at the end; the database of --db is not touched.
    #[command(mut_arg("quiet", |arg| arg.global(true)))]
    Bench(Box<BenchCommand>),
    /// Record operations of workloads in a file, or show what such a file asks for
    ///
    /// `cleave bench --trace FILE` replays one; `cleave bench --record FILE` records what a
    /// benchmark really asks of the store, with the times at which it does.
    Trace {
        /// What to do
        #[command(subcommand)]
        action: TraceAction,
    },
    /// Find the size from which on values had better leave the index, on this disk
    ///
    /// Measures updates of small stores of many value sizes, with the values outside the index and
    /// in it, and finds the size from which on separation gains (HashKV, section 3.5). The stores
    /// have the preset of the database and lie beside it, in a directory that is deleted at the
    /// end: it is the disk of the database's own directory that is measured. The database is opened
    /// once, to learn its threshold, and changed by --save and --set only. An idle machine gives a
    /// sharper answer.
    Tune(TuneArgs),
    /// Print completions of this command line for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command
    Man {
        /// Directory for a page of each command; must exist
        dir: Option<PathBuf>,
    },
}
