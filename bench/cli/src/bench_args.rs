//! Arguments of `bench`: workloads on one engine, or one of the commands that run many engines.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cleavedb_bench::cli::BenchArgs;
use cleavedb_bench::suite::MINIATURE;
use cleavedb_cli::durability::DurabilityName;
use cleavedb_units as units;

/// What to measure.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_value_name = "COMMAND")]
#[command(after_help = EXAMPLES)]
pub struct BenchCommand {
    /// Many engines rather than one preset.
    #[command(subcommand)]
    pub many: Option<Many>,
    /// What a write survives before it is acknowledged [default: as --with says, or os]
    #[arg(long, value_enum)]
    pub durability: Option<DurabilityName>,
    /// Simulate the time of another device: hdd, sata or nvme, at SPEED times its own speed; with
    /// CLASS= for the disk on which --place puts this class of files. The size of the page cache is
    /// --option page-cache=SIZE (1GiB). The data should lie on a faster device
    #[arg(long, value_name = "[CLASS=]NAME[:SPEED]")]
    pub device: Vec<String>,
    /// The workloads.
    #[command(flatten)]
    pub bench: BenchArgs,
}

const EXAMPLES: &str = "\
Examples:
  cleave bench quick                             the default, lsm and RocksDB, in two minutes
  cleave bench quick --all                       every preset and every peer: longer
  cleave bench quick --out quick.html            the same, with charts
  cleave bench suite --config ycsb               YCSB on every engine, three times
  cleave bench suite --config ycsb --resume      go on where it was stopped
  cleave bench papers hashkv                     one paper's experiments, beside its own figures
  cleave bench features transactions --no-peers  what transactions cost
  cleave bench report suite-ycsb.jsonl           tables and charts of any result file
  cleave --preset lsm bench -w load,ycsb-a       two workloads on one preset
  cleave bench --device hdd:10 -w fillrandom     as on a hard disk that is ten times as fast
  cleave --preset ohdb bench --place levels=/ssd -w fillrandom      on two disks
  cleave --preset ohdb bench --option place=levels --device hdd:10 --device levels=sata:10 \
      -w fillrandom                              on two modelled ones
  cleave bench --list                            the workloads

A result is worth what its conditions are: run on an idle machine, as root (to limit memory and
to drop caches), with --dir on the disk that is to be measured. What was not so, the result says.";

/// Commands that run many engines, or none.
#[derive(Debug, Subcommand)]
pub enum Many {
    /// A first answer in two minutes: the presets cleave and lsm, and RocksDB
    ///
    /// 430,000 records of 1 KiB under a memory limit of 320 MiB; load, cold reads, scans and
    /// updates. Engines take turns, one workload each, so that all see the same state of the disk,
    /// and start again three times. More engines take longer, because a load cannot be shortened. A
    /// short trial comes first: on a machine that is slow, or busy, all sizes are divided, and
    /// repetitions that would take too long are left out.
    Quick {
        /// Every preset, and every peer that is found; this takes much longer
        #[arg(long)]
        all: bool,
        /// Divide all sizes by N, instead of the trial's result
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=64), value_name = "N")]
        miniature: Option<u64>,
        #[command(flatten)]
        suite: SuiteArgs,
    },
    /// The whole suite, or one of its parts: an hour and a half for each of three repetitions
    ///
    /// Each engine runs in a process of its own, in turn, three times unless --repetitions changes
    /// that. A crash, the memory limit, a hang or a wrong value ends only that process, and is
    /// reported in the table. Reads, updates and scans end after five seconds. Results are stored
    /// as they come: a stopped run continues with --resume.
    Suite {
        /// Which suite (--list names them)
        #[arg(long, default_value = "full", value_name = "NAME")]
        config: String,
        /// Only these lists of workloads
        #[arg(long, value_delimiter = ',', value_name = "LIST,..")]
        only: Vec<String>,
        /// List the suites and their lists, and exit
        #[arg(long)]
        list: bool,
        #[command(flatten)]
        suite: SuiteArgs,
    },
    /// The experiments of the papers on every preset, beside the figures of the paper
    ///
    /// Sizes are scaled to this machine; the paper's figures are for its own machine and data.
    /// Peers run only if --engines names them.
    Papers {
        /// Papers: wisckey, hashkv, kt-store, hoakv, ohdb; all if none is given
        papers: Vec<String>,
        /// List the experiments and their parameters, and exit
        #[arg(long)]
        list: bool,
        /// Only these experiments
        #[arg(long, value_delimiter = ',', value_name = "NAME,..")]
        experiment: Vec<String>,
        /// Only these of their lists, as the report names them
        #[arg(long, value_name = "LIST")]
        only: Vec<String>,
        /// Divide the experiments' 2 GiB of data and 1 GiB of memory by N, and in proportion all
        /// sizes of engines, including varied ones
        #[arg(
            long,
            value_parser = clap::value_parser!(u64).range(1..=64),
            default_value_t = MINIATURE,
            value_name = "N"
        )]
        miniature: u64,
        #[command(flatten)]
        suite: SuiteArgs,
    },
    /// What single features cost: transactions, keyspaces, deletes of ranges, and more
    ///
    /// Each feature is measured on every engine that has it, beside the plain calls that do the
    /// same, in rounds; the order of the engines is drawn for each. Runs the presets cleave and
    /// lsm, and the peers that have some of the features; --no-peers and --engines choose others.
    Features {
        /// Features; all if none is given
        features: Vec<String>,
        /// List the features, and exit
        #[arg(long)]
        list: bool,
        /// Divide records and times by N
        #[arg(
            long,
            value_parser = clap::value_parser!(u64).range(1..),
            default_value_t = 1,
            value_name = "N"
        )]
        part: u64,
        #[command(flatten)]
        suite: SuiteArgs,
    },
    /// Tables and charts of result files, of this or any earlier run
    Report {
        /// Result files (JSON lines)
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The engine to compare with; the suite's own if not given
        #[arg(long, value_name = "ENGINE")]
        baseline: Option<String>,
        #[command(flatten)]
        pages: Pages,
    },
}

/// Files of a report.
#[derive(Args, Clone, Debug, Default)]
pub struct Pages {
    /// Write the report with charts to this file: a self-contained page
    #[arg(long, value_name = "FILE.html")]
    pub out: Option<PathBuf>,
    /// Write its tables to this file as Markdown
    #[arg(long, value_name = "FILE.md")]
    pub markdown: Option<PathBuf>,
    /// Write what documents quote to this file as Markdown: of lists the default preset, hoakv and
    /// the best one beside the peers, of a paper's experiments its own preset beside all others
    #[arg(long, value_name = "FILE.md")]
    pub brief: Option<PathBuf>,
    /// Draw the default preset's throughput as a multiple of the baseline's
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<PathBuf>,
}

/// Engines and conditions of a suite.
#[derive(Args, Clone, Debug)]
pub struct SuiteArgs {
    /// Engines, in the order of every round, instead of the command's own choice; they run all
    /// lists, however slow they are. With options as in cleave+record-cache=128MiB one is
    /// another engine
    #[arg(long, value_delimiter = ',', value_name = "NAME,..")]
    pub engines: Vec<String>,
    /// The program of the peers; else looked for beside this program, in a checkout's
    /// bench/target/release, and on the search path
    #[arg(long, value_name = "PATH")]
    pub peers: Option<PathBuf>,
    /// Presets only
    #[arg(long, conflicts_with = "peers")]
    pub no_peers: bool,
    /// The engine to compare with; rocksdb if it is found, else cleave-lsm
    #[arg(long, value_name = "ENGINE")]
    pub baseline: Option<String>,
    /// Number of runs of each engine, instead of the suite's own
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100), value_name = "N")]
    pub repetitions: Option<u32>,
    /// Memory limit including the page cache, instead of the suite's own; needs root, or a control
    /// group of the user
    #[arg(long, value_parser = units::parse, value_name = "SIZE")]
    pub memory_limit: Option<u64>,
    /// Do not limit memory: data may fit the page cache
    #[arg(long, conflicts_with = "memory_limit")]
    pub no_memory_limit: bool,
    /// Seconds after which a workload other than a load or a pass of updates ends, instead of the
    /// suite's own
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    pub duration: Option<u64>,
    /// Seconds after which an engine is taken to hang, and killed
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Directory for the data: a new one, or one that a benchmark made; deleted at the end
    #[arg(long, default_value = "bench-data", value_name = "DIR")]
    pub dir: PathBuf,
    /// Append the results to this file (JSON lines)
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Continue with the results in that file: finished runs are not repeated
    #[arg(long)]
    pub resume: bool,
    #[command(flatten)]
    pub pages: Pages,
}
