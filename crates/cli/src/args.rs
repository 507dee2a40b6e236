//! What may be typed: types only; what they mean stands in the commands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use cleavedb::VALUE_LEN_MAX;
use cleavedb_bench::cli::BenchArgs;
use cleavedb_bench::tune::search::UPDATES;
use cleavedb_bench::units;

use crate::bench_args::BenchCommand;
use crate::durability::DurabilityName;
use crate::global::Global;

const EXAMPLES: &str = "\
Examples:
  cleave put greeting 'hello, world'         store a value
  cleave get greeting                        print it, byte for byte
  cleave put photo - < photo.jpg             take the value from standard input
  cleave scan --prefix gr --json             list keys and values as JSON lines
  cleave shell < commands                    many commands, one a line, on one open database
  cleave --hex get 00ff                      a key that is no text
  cleave --db site.db import --dir public    store a directory tree: key = path, value = content
  cleave --db site.db export --dir copy      write it back
  cleave --db site.db stats                  what the database holds, and what that costs
  cleave tour src                            all of it on a copy of a real tree, with figures
  cleave --place levels=/ssd/db put k v      keep level 1 and below on another disk, from now on
  cleave bench quick                         measure: ktstore, lsm and RocksDB, two minutes
  cleave tune site.db --save                 from which size on its values leave the index

Exit codes:
  0    done; also when the reader of the output closes the pipe
  1    get: there is no such key
  2    the command line cannot be meant
  3    damage: check found problems, data on disk is not what was written, or a file is missing
  4    anything else: no database, in use elsewhere, another preset, disk full or not mounted,
       part left out
  130  stopped by Ctrl-C, SIGTERM or SIGHUP; the database was closed in good order";

/// An embedded key-value store that keeps values out of the tree, from the command line.
#[derive(Debug, Parser)]
#[command(name = "cleave", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Arguments {
    /// Arguments of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the value of a key
    ///
    /// Standard output gets the value and nothing else; on a terminal a line end is added.
    Get {
        /// The key
        key: OsString,
    },
    /// Store a value under a key
    Put {
        /// The key
        key: OsString,
        /// The value; `-`, or nothing, to read it from standard input
        value: Option<OsString>,
        /// What the write must survive before the command ends
        #[arg(long, value_enum, default_value = "sync")]
        durability: DurabilityName,
    },
    /// Remove a key, whether it is there or not, or all keys that begin with some bytes
    Del(DelArgs),
    /// List keys and values in key order
    ///
    /// One line each, key and value separated by a tab; bytes that are not printable text are
    /// written as C would: \t \n \r \\ \x00.
    Scan(ScanArgs),
    /// Print how many keys there are; values are not read
    Count(BoundArgs),
    /// Read commands from the terminal or a pipe, one a line, and keep the database open
    ///
    /// The commands are get, put, del, scan and count with their arguments, stats, sync, help and
    /// exit; words are quoted as for a shell. In a pipe the first line that fails ends it, with the
    /// exit code of its failure and the number of the line; a key that is not there is said, and
    /// the exit code is 1 at the end.
    Shell(ShellArgs),
    /// Store the contents of a directory tree or a file
    ///
    /// A key that is already there gets the new value. Writes are durable once the command ends;
    /// what came before an error in the input stays stored. Symbolic links, devices and empty
    /// directories are not stored.
    Import {
        /// From where
        #[command(flatten)]
        place: Place,
        /// How lines are to be understood
        #[command(flatten)]
        layout: Layout,
    },
    /// Write all keys and values to a directory tree or a file
    ///
    /// What import stored comes back byte for byte. A directory must be new or empty; keys that no
    /// file in it can have (empty parts, `.` and `..`, NUL, a file that would also be a directory)
    /// are refused and counted, and the exit code is 4 then.
    Export {
        /// To where
        #[command(flatten)]
        place: Place,
        /// How lines are to be written
        #[command(flatten)]
        layout: Layout,
    },
    /// Show what the database holds: levels, value files, live and dead bytes, amplification
    Stats,
    /// Read everything and check it: checksums, order, that every pointer leads to its record
    Check,
    /// Save all that is readable in a damaged database into a new one, and say what is lost
    ///
    /// The damaged one is only read: nothing in it changes, not even its lock is taken, so nobody
    /// may have it open. It may lack any file, `current` and the manifest too. A key whose newest
    /// value cannot be read is left out and named; one that may have been deleted, or overwritten,
    /// by what is lost is saved and named. The exit code is 3 if anything was lost. The new one has
    /// the preset of the old, a guess if `current` is lost, or that of --preset.
    Repair {
        /// Directory of the damaged database
        damaged: PathBuf,
        /// Directory of the new one; must be missing or empty
        new: PathBuf,
    },
    /// Look inside the files of a database that need not be opened: what stands where, and damage
    ///
    /// One line for each edit of a manifest, record and mark of a log, block and entry of a table,
    /// record and map of values, with its offset; JSON lines with --json. What is shown as a record
    /// or an entry has passed its checksums. Damage is named with file and offset, and reading goes
    /// on behind it; the exit code is 3 then. Files are only read and no lock is taken: a process
    /// may have the database open. It may remove files meanwhile, and writes on at the end of the
    /// log. DIR may lack any file, and may hold only copies of some.
    Dump(DumpArgs),
    /// Give back the space of dead values, now
    ///
    /// The engine does so by itself when dead values exceed its space goal; this does not wait.
    Collect,
    /// Merge all tables of the index into one level, now
    Compact,
    /// Measure: workloads on one preset, or a suite on every preset and peer, with a report
    ///
    /// Without a COMMAND, runs workloads on one preset (YCSB load and A to F, the update phases of
    /// the HashKV paper, and more; --list names them). `quick`, `suite` and `papers` run many
    /// engines in turn, with medians, spread and ratios; `report` makes tables and charts of their
    /// results. Values are verified after every run. Works on data of its own, in a directory that
    /// is deleted at the end; the database of --db is not touched.
    #[command(mut_arg("json", |arg| arg.long("results")))]
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
        /// Directory for a page of each command; must be there
        dir: Option<PathBuf>,
    },
    /// Show the whole store at work on a copy of a real directory tree
    ///
    /// Puts the tree into a new database, reads it back and compares, updates it, reopens it,
    /// collects garbage, checks everything, and prints what happened and what it cost. The tree is
    /// only read. The database of --db is not touched.
    Tour(TourArgs),
}

/// What to look into.
#[derive(Args, Debug)]
pub struct DumpArgs {
    /// Directory of the database, or of files that were copied out of one
    pub dir: PathBuf,
    /// Which files
    #[arg(value_enum, value_name = "WHAT")]
    pub what: DumpWhat,
    /// One of them: its number, its name, or the path of a copy elsewhere [default: the current
    /// manifest, or all files of the other kinds]
    pub file: Option<PathBuf>,
    /// manifest: the state at its end, behind the edits, as one edit that makes it
    #[arg(long)]
    pub state: bool,
    /// Only the keys of records and entries, one a line, and damage
    #[arg(long, conflicts_with = "values")]
    pub keys_only: bool,
    /// The values of records and entries, too
    #[arg(long)]
    pub values: bool,
    /// End behind this many edits, records or entries
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// The database's id, 16 hexadecimal digits, which seeds all checksums; for tables and
    /// manifests without their database [default: from `current`, or from log and value files]
    #[arg(long, value_parser = database_id, value_name = "ID")]
    pub database_id: Option<u64>,
}

/// Files of a database by what they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DumpWhat {
    /// The edits that say which files are alive
    Manifest,
    /// The records and sync marks of log files, and where and why a reader ends
    Log,
    /// Properties, filter, blocks and entries of tables of the index
    Table,
    /// Segments and group files: records, extents, listings and maps
    Values,
}

fn database_id(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|error| format!("no hexadecimal number: {error}"))
}

/// What to remove.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct DelArgs {
    /// The key
    pub key: Option<OsString>,
    /// All keys that begin with these bytes, of which there must be one at least
    #[arg(long, value_name = "BYTES")]
    pub prefix: Option<OsString>,
}

/// How commands of a shell are done.
#[derive(Args, Debug)]
pub struct ShellArgs {
    /// What a write must survive before the next line is read; all survive power loss in the end
    #[arg(long, value_enum, default_value = "sync")]
    pub durability: DurabilityName,
}

/// Which keys are meant; all of them if nothing is said.
#[derive(Args, Debug)]
pub struct BoundArgs {
    /// First key, itself included
    #[arg(long, value_name = "KEY")]
    pub from: Option<OsString>,
    /// Last key, itself not included
    #[arg(long, value_name = "KEY")]
    pub to: Option<OsString>,
    /// Only keys that begin with these bytes
    #[arg(long, value_name = "BYTES")]
    pub prefix: Option<OsString>,
}

/// What to list.
#[derive(Args, Debug)]
pub struct ScanArgs {
    /// Which keys.
    #[command(flatten)]
    pub bounds: BoundArgs,
    /// From the last key to the first
    #[arg(long)]
    pub reverse: bool,
    /// At most this many
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Keys without values; values are not even read
    #[arg(long)]
    pub keys_only: bool,
    /// Raw bytes, each key and each value followed by a NUL, for `xargs -0` and its like
    #[arg(long)]
    pub raw0: bool,
}

/// Where keys and values come from or go to.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub struct Place {
    /// A directory tree: the key is the path below PATH, with /, the value the content
    #[arg(long, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    /// JSON lines {"key": "..", "value": ".."}, `-` for a pipe; {"base64": ".."} if not text. With
    /// --key-field: objects of any form
    #[arg(long, value_name = "FILE")]
    pub jsonl: Option<PathBuf>,
    /// CSV with the header key,value, or with the columns that are named; `-` for a pipe
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

/// Which parts of a line are key and value.
#[derive(Args, Clone, Debug)]
pub struct Layout {
    /// CSV: what stands between two fields, one byte, or `tab` [default: ,]
    #[arg(long, value_parser = delimiter, value_name = "CHAR")]
    pub delimiter: Option<u8>,
    /// CSV: the column of the keys, by its name; by its number, from 1, with --no-header
    #[arg(long, value_name = "COLUMN")]
    pub key_column: Option<String>,
    /// CSV: the column of the values, likewise; columns that are not named are left out then
    #[arg(long, value_name = "COLUMN")]
    pub value_column: Option<String>,
    /// CSV: the first line is no header
    #[arg(long)]
    pub no_header: bool,
    /// JSON lines: the value is the whole line, and its member FIELD, text or a number, the key
    #[arg(long, value_name = "FIELD")]
    pub key_field: Option<String>,
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [b'"' | b'\r' | b'\n'] => Err("quotes and line ends have a meaning of their own".into()),
        [byte] => Ok(*byte),
        _ => Err("it must be one byte, or `tab`".into()),
    }
}

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

/// What to search a threshold for, and what to do with it.
#[derive(Args, Debug)]
pub struct TuneArgs {
    /// A database, or a directory on the disk to measure: the database of --db if not given
    pub dir: Option<PathBuf>,
    /// Seconds that the search may take; two sizes are measured in any case
    #[arg(long, default_value_t = 120.0, value_name = "SECONDS")]
    pub time: f64,
    /// What is measured, after a load and half as many updates as records: a name of `bench --list`
    #[arg(short, long, default_value = UPDATES, value_name = "NAME")]
    pub workload: String,
    /// Bytes of the stores; other sizes keep the proportion that they have to 2 GiB
    #[arg(long, value_parser = units::parse, default_value = "256MiB", value_name = "BYTES")]
    pub data: u64,
    /// Let the stores lie in the page cache, where data that fits memory lies; else what is read
    /// again is read from the disk, as where data is much larger than memory
    #[arg(long)]
    pub cached: bool,
    /// What a write survives before it is acknowledged
    #[arg(long, value_enum, default_value = "os")]
    pub durability: DurabilityName,
    /// Store what is found with the database: later opens that name no threshold use it
    #[arg(long)]
    pub save: bool,
    /// Measure nothing and store this size, or `default` for the preset's own
    #[arg(long, value_parser = Stored::parse, conflicts_with = "save", value_name = "BYTES")]
    pub set: Option<Stored>,
}

/// What is stored about the threshold of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Nothing: the preset decides.
    Default,
    /// This many bytes.
    Least(usize),
}

impl Stored {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "default" {
            return Ok(Self::Default);
        }
        let bytes = units::parse(text).map_err(|why| format!("{why}, or `default`"))?;
        if bytes > VALUE_LEN_MAX as u64 {
            return Err(format!("no value is as long; the longest has {VALUE_LEN_MAX} bytes"));
        }
        Ok(Self::Least(bytes as usize))
    }
}

/// What to show the store on.
#[derive(Args, Debug)]
pub struct TourArgs {
    /// The directory tree
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// How often every file is updated
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub rounds: u32,
    /// Leave the database in this new directory, to look at it with the other commands
    #[arg(long, value_name = "PATH")]
    pub keep: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }
}
