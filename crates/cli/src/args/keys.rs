//! Which keys a command is for: a keyspace, a key with its change, or a range.

use std::ffi::OsString;

use clap::Args;
use cleavedb_units as units;

/// The keyspace of a command that reads or writes keys.
#[derive(Args, Debug)]
pub struct Within {
    /// The keyspace; put, merge, import and shell create it if there is none [default: default]
    #[arg(short, long, value_name = "NAME")]
    pub keyspace: Option<String>,
}

/// The key to read, and what of its value.
#[derive(Args, Debug)]
pub struct GetArgs {
    /// The key
    pub key: OsString,
    /// Bytes of the value to leave out at its front
    #[arg(long, value_parser = units::parse, value_name = "BYTES")]
    pub offset: Option<u64>,
    /// Most bytes to print
    #[arg(long, value_parser = units::parse, value_name = "BYTES")]
    pub length: Option<u64>,
    /// If a merge cannot be applied to the value: what is below it. A put of that, or a del,
    /// mends the key
    #[arg(long, conflicts_with_all = ["offset", "length"])]
    pub below: bool,
}

/// The keys to remove.
#[derive(Args, Debug)]
pub struct DelArgs {
    /// The key
    #[arg(conflicts_with_all = ["prefix", "from", "to"])]
    pub key: Option<OsString>,
    /// Or all keys of a range.
    #[command(flatten)]
    pub bounds: BoundArgs,
}

/// A range of keys; all keys by default.
#[derive(Args, Debug)]
pub struct BoundArgs {
    /// First key, itself included
    #[arg(long, value_name = "KEY")]
    pub from: Option<OsString>,
    /// End of the range, not included
    #[arg(long, value_name = "KEY")]
    pub to: Option<OsString>,
    /// Only keys that begin with these bytes
    #[arg(long, value_name = "BYTES")]
    pub prefix: Option<OsString>,
}

/// The keys to count, and how.
#[derive(Args, Debug)]
pub struct CountArgs {
    /// The range of keys.
    #[command(flatten)]
    pub bounds: BoundArgs,
    /// Estimate it, from a few blocks of the index: see `size`
    #[arg(long)]
    pub approximate: bool,
}

impl BoundArgs {
    /// Whether they leave out any key.
    pub fn are_given(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.prefix.is_some()
    }
}

/// The keys to list, and the form of the list.
#[derive(Args, Debug)]
pub struct ScanArgs {
    /// The range of keys.
    #[command(flatten)]
    pub bounds: BoundArgs,
    /// From the last key to the first
    #[arg(long)]
    pub reverse: bool,
    /// At most this many
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Keys without values; values are not read
    #[arg(long)]
    pub keys_only: bool,
    /// Raw bytes, each key and each value followed by a NUL, for `xargs -0` and similar tools
    #[arg(long)]
    pub raw0: bool,
}

/// A change of the value of a key.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The key
    pub key: OsString,
    /// add: a whole number in decimal digits, to one; append: bytes; max: the greater value, byte
    /// by byte
    #[arg(value_parser = ["add", "append", "max"])]
    pub operator: String,
    /// What is added, appended or compared
    #[arg(allow_hyphen_values = true)]
    pub operand: OsString,
}
