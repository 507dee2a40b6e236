//! The arguments of an import that loads in bulk.

use std::path::PathBuf;

use clap::Args;

/// How an import stores its items.
#[derive(Args, Debug)]
#[group(skip)]
pub struct BulkArgs {
    /// Sort all items, and store them at once: all or nothing, without the log
    ///
    /// Faster for many items. They are sorted in 64 MiB of memory and, if they are more, in files
    /// as long as the input, which are removed at the end, or by the next such import after a kill.
    /// Of items with the same key the last one is stored. Several keyspaces are stored one after
    /// another.
    #[arg(long)]
    pub bulk: bool,
    /// Directory for the files that --bulk sorts in; in that of the database, if not given
    #[arg(long, value_name = "DIR", requires = "bulk")]
    pub temp: Option<PathBuf>,
}
