//! The arguments of `backup` and `restore`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

/// A backup to make, or what to do with those that there are.
#[derive(Args, Debug)]
#[group(skip)]
pub struct BackupArgs {
    /// Directory of the backups; a missing one is made for the first backup
    pub directory: PathBuf,
    /// Remove all but the newest N backups after a successful backup
    #[arg(long, value_name = "N", conflicts_with = "instead")]
    pub keep: Option<NonZeroUsize>,
    /// Copy all files: damage of the backup before is not passed on
    #[arg(long, conflicts_with = "instead")]
    pub full: bool,
    /// Make none, but list all: when each was made, the bytes of its files, and the bytes of files
    /// that no other backup has, which its removal frees
    #[arg(long, group = "instead")]
    pub list: bool,
    /// Make none, but read and check backup NUMBER, or the newest; the exit code is 3 if it is
    /// damaged
    #[arg(long, value_name = "NUMBER", group = "instead")]
    pub verify: Option<Option<u64>>,
    /// Make none, but remove all but the newest N
    #[arg(long, value_name = "N", group = "instead")]
    pub prune: Option<NonZeroUsize>,
    /// Make none, but remove backup NUMBER
    #[arg(long, value_name = "NUMBER", group = "instead")]
    pub remove: Option<u64>,
}

/// The backup to restore, and how.
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// Directory of the backups
    pub directory: PathBuf,
    /// Number of the backup [default: the newest]
    #[arg(long)]
    pub number: Option<u64>,
    /// Do not read and check what was restored: what can be read of a damaged backup is then saved
    /// by `repair`
    #[arg(long)]
    pub no_check: bool,
}
