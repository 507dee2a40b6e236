//! The arguments of the command line, as types; the commands implement them.

mod keys;
mod keyspaces;
mod backups;
mod bulk;
mod changes;
mod layout;
mod tour;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::durability::DurabilityName;
use crate::expiry::{self, TtlOrNever};
use crate::global::Global;

pub use backups::{BackupArgs, RestoreArgs};
pub use bulk::BulkArgs;
pub use changes::ChangesArgs;
pub use keys::{BoundArgs, CountArgs, DelArgs, GetArgs, MergeArgs, ScanArgs, Within};
pub use keyspaces::KeyspaceCommand;
pub use layout::Layout;
pub use tour::TourArgs;

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
  cleave import --csv big.csv --bulk         many items: sorted, and stored all at once
  cleave --db site.db keyspace list          the keyspaces; --keyspace NAME uses one
  cleave --db site.db stats                  what the database holds, and what that costs
  cleave backup backups --keep 7             make a backup, and remove all but the newest 7
  cleave --db new.db restore backups         make a database of the newest
  cleave --preset lsm migrate                keep values in another way, in the same place
  cleave tour src                            all of it on a copy of a real tree, with figures
  cleave --place levels=/ssd/db put k v      keep level 1 and below on another disk, from now on
  cleave bench quick                         measure: the default, lsm and RocksDB, two minutes
  cleave tune site.db --save                 from which size on its values leave the index

Exit codes:
  0    done; also when the reader of the output closes the pipe
  1    get: there is no such key
  2    invalid arguments
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
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the value of a key
    ///
    /// Standard output gets only the value; on a terminal a line end is added. A value that was put
    /// from a file or from standard input, and is long, is read piece by piece.
    Get {
        /// Which key, and what of it
        #[command(flatten)]
        args: GetArgs,
        /// Where
        #[command(flatten)]
        within: Within,
    },
    /// Store a value under a key
    Put {
        /// The key
        key: OsString,
        /// The value; `-`, or nothing, to read it from standard input
        value: Option<OsString>,
        /// Read the value from this file. As from standard input, a value of 4 MiB and more
        /// (option blob_bytes) goes to a file of its own in the database, piece by piece
        #[arg(long, value_name = "FILE", conflicts_with = "value")]
        file: Option<PathBuf>,
        /// Until when it is there: 90s, 15m, 12h, 7days from now on [default: for good, or as the
        /// keyspace says]
        #[arg(long, value_parser = expiry::ttl, value_name = "DURATION")]
        ttl: Option<Duration>,
        /// What the write must survive before the command ends [default: as --with says, or sync]
        #[arg(long, value_enum)]
        durability: Option<DurabilityName>,
        /// Where
        #[command(flatten)]
        within: Within,
    },
    /// Change the value of a key without reading it: count, append, keep the greatest
    ///
    /// What is there then is computed when it is read, and by background work. A key that is not
    /// there counts as 0, or as empty.
    Merge {
        /// Which change of which key
        #[command(flatten)]
        args: MergeArgs,
        /// What the write must survive before the command ends [default: as --with says, or sync]
        #[arg(long, value_enum)]
        durability: Option<DurabilityName>,
        /// Where
        #[command(flatten)]
        within: Within,
    },
    /// Give the value of a key another time to live
    ///
    /// `get --json` and `scan --json` show when a value expires. The exit code is 1 if there is no
    /// such key.
    Expire {
        /// The key
        key: OsString,
        /// How long it lives from now on: 90s, 15m, 12h, 7days, or never
        #[arg(value_name = "DURATION")]
        ttl: TtlOrNever,
        /// Where
        #[command(flatten)]
        within: Within,
    },
    /// Remove a key, if it exists, or all keys of a range, in one step
    Del {
        /// Which keys
        #[command(flatten)]
        args: DelArgs,
        /// Where
        #[command(flatten)]
        within: Within,
    },
    /// List keys and values in key order
    ///
    /// One line each, key and value separated by a tab; bytes that are not printable text are
    /// written as C would: \t \n \r \\ \x00.
    Scan {
        /// Which keys, and how
        #[command(flatten)]
        args: ScanArgs,
        /// Where
        #[command(flatten)]
        within: Within,
    },
    /// Print the number of keys; values are not read
    Count {
        /// Which keys, and how
        #[command(flatten)]
        args: CountArgs,
        /// Where
        #[command(flatten)]
        within: Within,
    },
    /// Show about how many keys there are and what they take, without reading them
    ///
    /// Estimated from a few blocks of the index, so that it takes no time, however much there is:
    /// within a factor of two or so; versions that were overwritten count until they are
    /// compacted away. Of a range without keys it is exactly nothing.
    Size {
        /// Which keys
        #[command(flatten)]
        bounds: BoundArgs,
        /// Where
        #[command(flatten)]
        within: Within,
    },
    /// List, create and drop keyspaces: spaces of keys of their own, with a name
    ///
    /// Commands that read or write keys use the default keyspace, or another one with --keyspace.
    #[command(subcommand)]
    Keyspace(KeyspaceCommand),
    /// Read commands from the terminal or a pipe, one a line, and keep the database open
    ///
    /// The commands are get, put, merge, expire, del, scan, count and size with their arguments,
    /// batch, commit and rollback, keyspaces, use, stats, compact, collect, sync, help and exit;
    /// words are quoted as for a shell. A terminal has editing, a history, and Tab for commands and
    /// options. In a pipe the first line that fails ends it, with the exit code of its failure and
    /// the number of the line; a missing key is reported, and the exit code is 1 at the end.
    Shell {
        /// How
        #[command(flatten)]
        args: ShellArgs,
        /// Where
        #[command(flatten)]
        within: Within,
    },
    /// Store the contents of a directory tree or a file
    ///
    /// A key that already exists gets the new value. Writes are durable once the command ends;
    /// items before an error in the input stay stored. Symbolic links, devices and empty
    /// directories are not stored. What `export` wrote of several keyspaces goes to keyspaces of
    /// the same names; those that are not there are made with their options.
    Import {
        /// The source
        #[command(flatten)]
        place: PlaceArgs,
        /// How lines are parsed
        #[command(flatten)]
        layout: Layout,
        /// How they are stored
        #[command(flatten)]
        bulk: BulkArgs,
        /// Where to
        #[command(flatten)]
        within: Within,
    },
    /// Write all keys and values to a directory tree or a file
    ///
    /// Imported data is exported byte for byte. A directory must be new or empty; keys that cannot
    /// be file names in it (empty parts, `.` and `..`, NUL, a file that would also be a directory)
    /// are refused and counted, and the exit code is 4 then.
    ///
    /// All keyspaces are written, or, with --keyspace, the keys of one. If there are several, JSON
    /// lines have a member `keyspace`, but for the default one, and a line for each with its
    /// options; CSV has a column in front; a tree has a directory for each, and lists them in its
    /// file .cleave-keyspaces.
    Export {
        /// The target
        #[command(flatten)]
        place: PlaceArgs,
        /// How lines are written
        #[command(flatten)]
        layout: Layout,
        /// Where from
        #[command(flatten)]
        within: Within,
    },
    /// Print what was committed, batch by batch, in commit order
    ///
    /// Needs one that keeps changes: `cleave --with change_retention_bytes=64MiB put ...` stores
    /// that with it. A line has sequence number, keyspace, what was done, keys and values as `scan`
    /// prints them. With --json, `next` is what --from goes on from. What `import --bulk`
    /// stored is one line, `loaded`, with the first and the last key.
    Changes(ChangesArgs),
    /// Show what the database holds, what that costs, and what is wrong with it
    Stats(StatsArgs),
    /// Read and check everything: checksums, order, that every pointer leads to its record
    ///
    /// Of all keyspaces. Keys that are intact but cannot be read, since a merge cannot be applied
    /// to what was there, are named, too; the exit code is 4 if there is nothing else.
    Check,
    /// Save everything readable in a damaged database into a new one, and report what is lost
    ///
    /// The damaged one is only read: nothing in it changes, and its lock is not taken, so it must
    /// not be open elsewhere. Any file may be missing, even `current` and the manifest. A key whose
    /// newest value cannot be read is left out and listed; one that may have been deleted, or
    /// overwritten, by a lost write is saved and listed. Of a key with a merge that cannot be
    /// applied the value below it is saved, and the key listed. Keyspaces come with their options;
    /// so do the threshold of `tune --save`, the space limit and the retention of changes. Changes
    /// that were kept do not, nor does the placement on other disks, unless --place gives one; they
    /// are listed. The exit code is 3 if anything was lost.
    /// The new one has the preset of the old, a guess if `current` is lost, or that of --preset.
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
    /// Copy the database, as it is now, to a directory: a database of its own
    ///
    /// In the same file system most files are linked, so it is quick and takes no space; what one
    /// of the two databases drops or writes again later takes its space until the other drops it,
    /// too. Each can be written, moved or removed without effect on the other. In another file
    /// system all is copied. `cleave --db DIRECTORY` then opens the copy. A process that has the
    /// database open goes on; the copy has all that it wrote before, and is read and checked.
    Checkpoint {
        /// Directory of the copy; must be missing or empty
        directory: PathBuf,
    },
    /// Back the database up, as it is now, to a directory of backups; list, check or remove them
    ///
    /// Each backup is a whole database in a subdirectory that is named by its number, as
    /// `backups/000003`. Files that did not change
    /// since the backup before are links to its files, all others are copied, and nothing is linked
    /// to the database: a backup takes the space of what has changed, and survives whatever happens
    /// to the database and to other backups. Where the file system has no links every backup takes
    /// the space of all. `cleave restore` makes a database of a backup; `cleave --db DIR/000003
    /// get`, and other commands that only read, look into one. A process that has the database open
    /// goes on; the backup has all that it wrote before, and is read and checked.
    Backup(BackupArgs),
    /// Make a new database, in the directory of --db, of a backup: the newest in its directory
    ///
    /// Every file is copied, and then everything is read and checked. The directory of --db must be
    /// missing or empty, and is left empty after a failure. The backup stays.
    Restore(RestoreArgs),
    /// Free the space of dead values, now
    ///
    /// The engine does so by itself when dead values exceed its space goal; this does not wait for
    /// it. With a range, or --keyspace, it does more for less: what was deleted or overwritten
    /// there, keys and values, is then in no file of the database any more, and no crash brings it
    /// back, as laws on personal data may ask for. Copies and checkpoints keep what they have.
    Collect {
        /// Keys of keyspaces that were dropped
        #[arg(long, conflicts_with_all = ["prefix", "from", "to", "keyspace"])]
        dropped: bool,
        /// Which keys; all by default
        #[command(flatten)]
        bounds: BoundArgs,
        /// Where
        #[command(flatten)]
        within: Within,
    },
    /// Merge the tables of the index into one level, now: all, or those of a range
    Compact {
        /// Which keys; all by default
        #[command(flatten)]
        bounds: BoundArgs,
        /// Where
        #[command(flatten)]
        within: Within,
    },
    /// Give the database the preset of --preset, which keeps values in another way
    ///
    /// All is copied to the subdirectory `cleavedb-migration` of the database, read again and
    /// compared, and then exchanged in one step: whatever stops the command, the directory holds
    /// the one or the other, whole. It takes as much free space as the data. If it is stopped, run
    /// it again: it goes on with what was copied, unless the database was written since; to give it
    /// up, migrate to the preset that the database has. Keyspaces, times to
    /// live, the threshold of `tune --save` and the space limit come with it; changes that were
    /// kept do not, and backups begin in another directory. A database with files on other disks is
    /// refused. Presets of one layout, as cleave and ktstore, differ by name and tuning only, and
    /// nothing is copied between them.
    Migrate,
    /// Remove the database, on all of its disks, for good
    ///
    /// Asks before, or needs --yes where standard input is no terminal. The directories stay, and
    /// so do files in them that are not CleaveDB's, which are listed. If it is stopped, run it
    /// again.
    Destroy {
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Serve a database to clients of Redis, over a network
    ///
    /// What stands behind it goes to the program `cleave-server`, which is looked for beside this
    /// program, then on the search path. It takes --dir in place of --db.
    #[command(disable_help_flag = true)]
    Serve(Elsewhere),
    /// Measure: workloads on one preset, or a suite on every preset and peer, with a report
    ///
    /// A command of the program `cleave-bench`, which is run with the same arguments: it is looked
    /// for beside this program, then on the search path.
    #[command(disable_help_flag = true)]
    Bench(Elsewhere),
    /// Record operations of workloads in a file, or show what such a file asks for
    ///
    /// A command of the program `cleave-bench`, as `bench` is.
    #[command(disable_help_flag = true)]
    Trace(Elsewhere),
    /// Find the size from which on values had better leave the index, on this disk
    ///
    /// A command of the program `cleave-bench`, as `bench` is.
    #[command(disable_help_flag = true)]
    Tune(Elsewhere),
    /// Print completions of this command line for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command
    Man {
        /// Directory for a page of each command; made if it is not there
        dir: Option<PathBuf>,
    },
    /// Show the whole store at work on a copy of a real directory tree
    ///
    /// Puts the tree into a new database, reads it back and compares, updates it, reopens it,
    /// collects garbage, checks everything, and prints each step and its cost. The tree is only
    /// read. The database of --db is not touched.
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
    /// Segments and group files: records, extents, key blocks and key directories
    Values,
}

fn database_id(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|error| format!("no hexadecimal number: {error}"))
}

/// Arguments of a command that another program has, and reads.
#[derive(Args, Debug)]
pub struct Elsewhere {
    /// What it takes is shown by --help behind the command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<OsString>,
}

/// Which statistics.
#[derive(Args, Debug)]
pub struct StatsArgs {
    /// Levels, value files, memory, what was done since the creation and since the open, too; JSON
    /// has all in any case
    #[arg(long)]
    pub all: bool,
    /// In the text format of Prometheus, with the path as label `db`; not with --json
    #[arg(long, conflicts_with = "all")]
    pub prometheus: bool,
}

/// How a shell runs commands.
#[derive(Args, Debug)]
pub struct ShellArgs {
    /// What a write must survive before the next line is read; at the end all survive power loss
    /// [default: as --with says, or sync]
    #[arg(long, value_enum)]
    pub durability: Option<DurabilityName>,
}

/// The source or target of keys and values.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub struct PlaceArgs {
    /// A directory tree: the key is the path below PATH, with /, the value the content
    #[arg(long, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    /// JSON lines {"key": "..", "value": ".."}, `-` for a pipe; {"base64": ".."} if not text. With
    /// --key-field: objects of any form
    #[arg(long, value_name = "FILE")]
    pub jsonl: Option<PathBuf>,
    /// CSV with the header key,value (keyspace,key,value for several), or with the columns that are
    /// named; `-` for a pipe
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
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
