//! What a line of a shell may be: the commands that need no more than an open database.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::args::{BoundArgs, DelArgs, ScanArgs};

/// A line of a shell.
#[derive(Debug, Parser)]
#[command(multicall = true, disable_help_flag = true, disable_version_flag = true)]
pub struct ShellLine {
    /// What to do.
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
    },
    /// Remove a key, or all keys that begin with some bytes
    Del(DelArgs),
    /// List keys and values in key order
    Scan(ScanArgs),
    /// Print how many keys there are
    Count(BoundArgs),
    /// Show what the database holds and did, and what it has of the machine now
    Stats,
    /// Make all that was written survive power loss
    Sync,
    /// End
    #[command(alias = "quit")]
    Exit,
}
