//! A line of a shell: the commands that only need an open database.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::args::{BoundArgs, CountArgs, DelArgs, MergeArgs, ScanArgs};
use crate::expiry;

/// A line of a shell.
#[derive(Debug, Parser)]
#[command(multicall = true, disable_help_flag = true, disable_version_flag = true)]
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
    /// Remove a key, or all keys that begin with some bytes
    Del(DelArgs),
    /// List keys and values in key order
    Scan(ScanArgs),
    /// Print how many keys there are
    Count(CountArgs),
    /// Show about how many keys there are and what they take
    Size(BoundArgs),
    /// Show statistics of the database since its creation and now, and its use of the machine
    Stats,
    /// Make all writes survive power loss
    Sync,
    /// End
    #[command(alias = "quit")]
    Exit,
}
