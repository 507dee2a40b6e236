//! A line of a shell: the commands that only need an open database.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::args::{BoundArgs, CountArgs, DelArgs, GetArgs, MergeArgs, ScanArgs};
use crate::expiry::{self, TtlOrNever};

const OTHERS: &str = "Other commands of `cleave --help`, as check, import and backup, run outside.";

/// Commands of the shell, one a line; words are quoted as for other shells.
#[derive(Debug, Parser)]
#[command(multicall = true, disable_version_flag = true, after_help = OTHERS)]
pub struct ShellLine {
    /// The command.
    #[command(subcommand)]
    pub command: ShellCommand,
}

/// The commands of a shell.
#[derive(Debug, Subcommand)]
pub enum ShellCommand {
    /// Print the value of a key, and a line end
    Get(GetArgs),
    /// Store a value under a key
    Put {
        /// The key
        key: OsString,
        /// The value
        value: OsString,
        /// How long it is there: 90s, 15m, 12h, 7days from now on
        #[arg(long, value_parser = expiry::ttl, value_name = "DURATION")]
        ttl: Option<Duration>,
    },
    /// Change the value of a key without reading it
    Merge(MergeArgs),
    /// Give the value of a key another time to live
    Expire {
        /// The key
        key: OsString,
        /// How long it lives from now on: 90s, 15m, 12h, 7days, or never
        #[arg(value_name = "DURATION")]
        ttl: TtlOrNever,
    },
    /// Remove a key, or all keys of a range
    Del(DelArgs),
    /// List keys and values in key order
    Scan(ScanArgs),
    /// Print how many keys there are
    Count(CountArgs),
    /// Show about how many keys there are and what they take
    Size(BoundArgs),
    /// Show what the database holds, and what that costs
    Stats {
        /// Levels, files, memory, and what was done, too
        #[arg(long)]
        all: bool,
    },
    /// Begin a batch: what put, merge and del change from here on is written by commit, all at once
    Batch,
    /// Write the batch: all of it, or, after a failure, nothing
    Commit,
    /// Give the batch up
    Rollback,
    /// Print the names of all keyspaces but the default one, and the options of each
    Keyspaces,
    /// Use a keyspace from now on, which is made if there is none; `default` is the first one
    Use {
        /// The name of the keyspace
        name: String,
    },
    /// Merge the tables of the index, now
    Compact,
    /// Free the space of dead values, now
    Collect,
    /// Make all writes survive power loss
    Sync,
    /// End
    #[command(alias = "quit")]
    Exit,
}
