//! What may be typed after `bench`: one engine's workloads, or one of the commands that run many.

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
    /// What a write survives before it is acknowledged
    #[arg(long, value_enum, default_value = "os")]
    pub durability: DurabilityName,
    /// Take the time of another device: hdd, sata or nvme, at SPEED times its own speed; with
    /// CLASS= that of the disk on which --place puts this class of files. The page cache is
    /// --option page-cache=SIZE (1GiB). The data should lie on a faster device
    #[arg(long, value_name = "[CLASS=]NAME[:SPEED]")]
    pub device: Vec<String>,
    /// The workloads.
    #[command(flatten)]
    pub bench: BenchArgs,
}

const EXAMPLES: &str = "\
Examples:
  cleave bench quick                             ktstore, lsm and RocksDB, in two minutes
  cleave bench quick --all                       every preset and every peer: longer
  cleave bench quick --out quick.html            the same, with charts
  cleave bench suite --config ycsb               YCSB on every engine, three times
  cleave bench suite --config ycsb --resume      go on where it was stopped
  cleave bench papers hashkv                     one paper's experiments, beside its own figures
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
    /// A first answer in two minutes: the presets ktstore and lsm, and RocksDB
    ///
    /// 430,000 records of 1 KiB under a memory limit of 320 MiB; load, cold reads, scans and
    /// updates. Engines take turns, a piece of work each, so that all meet the same disk, and begin
    /// anew three times. More engines take longer, because a load cannot be cut short. A short
    /// trial comes first: on a machine that is slow, or busy, all sizes are divided, and
    /// repetitions that would come too late are left out.
    Quick {
        /// Every preset, and every peer that is found, though that takes much longer
        #[arg(long)]
        all: bool,
        /// Divide all sizes by N, in place of what the trial finds
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=64), value_name = "N")]
        miniature: Option<u64>,
        #[command(flatten)]
        suite: SuiteArgs,
    },
    /// The whole suite, or one of its parts: an hour and a half for each of three repetitions
    ///
    /// Each engine runs in a process of its own, in turn, three times unless --repetitions says
    /// otherwise. A crash, the memory limit, a hang or a wrong value ends that process alone, and
    /// the table says so. Reads, updates and scans end after five seconds. Results are kept as they
    /// come: a run that was stopped goes on by --resume.
    Suite {
        /// Which suite (--list names them)
        #[arg(long, default_value = "full", value_name = "NAME")]
        config: String,
        /// Only these of its lists of workloads
        #[arg(long, value_delimiter = ',', value_name = "LIST,..")]
        only: Vec<String>,
        /// Name the suites and their lists, and exit
        #[arg(long)]
        list: bool,
        #[command(flatten)]
        suite: SuiteArgs,
    },
    /// The experiments of the papers on every preset, with the paper's own figure beside ours
    ///
    /// Sizes are scaled to this machine; the paper's figures are of its own machine and data. Peers
    /// take part only if --engines names them.
    Papers {
        /// Papers: wisckey, hashkv, kt-store, hoakv, ohdb; all if none is given
        papers: Vec<String>,
        /// Name the experiments and what they vary, and exit
        #[arg(long)]
        list: bool,
        /// Only these experiments
        #[arg(long, value_delimiter = ',', value_name = "NAME,..")]
        experiment: Vec<String>,
        /// Only these of their lists, as the report names them
        #[arg(long, value_name = "LIST")]
        only: Vec<String>,
        /// Divide the experiments' 2 GiB of data and 1 GiB of memory by N, and with them all that
        /// engines size by their data, what is varied included
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

/// Files that a report is written to.
#[derive(Args, Clone, Debug, Default)]
pub struct Pages {
    /// Write the report with charts to this file: one page, nothing else needed
    #[arg(long, value_name = "FILE.html")]
    pub out: Option<PathBuf>,
    /// Write its tables to this file as Markdown
    #[arg(long, value_name = "FILE.md")]
    pub markdown: Option<PathBuf>,
}

/// Engines and conditions of a suite.
#[derive(Args, Clone, Debug)]
pub struct SuiteArgs {
    /// Engines, in the order of every round, in place of the command's own choice; they run all
    /// lists, however slow they are
    #[arg(long, value_delimiter = ',', value_name = "NAME,..")]
    pub engines: Vec<String>,
    /// The program of the peers; else looked for beside this program, in a checkout's
    /// bench-peers/target/release, and on the search path
    #[arg(long, value_name = "PATH")]
    pub peers: Option<PathBuf>,
    /// Presets only
    #[arg(long, conflicts_with = "peers")]
    pub no_peers: bool,
    /// The engine to compare with; rocksdb if it is there, else cleave-lsm
    #[arg(long, value_name = "ENGINE")]
    pub baseline: Option<String>,
    /// How often each engine runs, in place of the suite's own number
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100), value_name = "N")]
    pub repetitions: Option<u32>,
    /// Memory with the page cache, in place of the suite's own; needs root, or a control group of
    /// one's own
    #[arg(long, value_parser = units::parse, value_name = "SIZE")]
    pub memory_limit: Option<u64>,
    /// Do not limit memory: data may fit the page cache
    #[arg(long, conflicts_with = "memory_limit")]
    pub no_memory_limit: bool,
    /// Seconds after which a workload that is no load ends, in place of the suite's own
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    pub duration: Option<u64>,
    /// Seconds after which an engine is taken to hang, and killed
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Directory for the data: a new one, or one that a benchmark made; deleted at the end
    #[arg(long, default_value = "bench-data", value_name = "DIR")]
    pub dir: PathBuf,
    /// Gather the results in this file (JSON lines)
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Go on with the results in that file: what is done is not run again
    #[arg(long)]
    pub resume: bool,
    #[command(flatten)]
    pub pages: Pages,
}
