//! A line of a shell: the commands that only need an open database.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::args::{BoundArgs, CountArgs, DelArgs, MergeArgs, PartArgs, ScanArgs};
use crate::expiry::{self, TtlOrNever};

/// Commands of the shell, one a line; words are quoted as for other shells.
#[derive(Debug, Parser)]
#[command(multicall = true, disable_version_flag = true)]
pub struct ShellLine {
    /// The command.
    #[command(subcommand)]
    pub command: ShellCommand,
}

/// The commands of a shell.
#[derive(Debug, Subcommand)]
pub enum ShellCommand {
    /// Print the value of a key, and a line end
    Get {
        /// The key
        key: OsString,
        /// Which part of the value
        #[command(flatten)]
        part: PartArgs,
    },
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
    /// Remove a key, or all keys that begin with some bytes
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
    /// Print the names of all keyspaces but the default one, and the options of each
    Keyspaces,
    /// Use a keyspace from now on, which is made if there is none; `default` is the first one
    Use {
        /// Its name
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
