//! The arguments of `changes`.

use clap::Args;

/// Which changes, and whether to go on.
#[derive(Args, Debug)]
pub struct ChangesArgs {
    /// First sequence number [default: the oldest that is kept]
    #[arg(long, value_name = "SEQ")]
    pub from: Option<u64>,
    /// Go on with what is committed later, until Ctrl-C
    ///
    /// Beside the process that writes the database, which does not notice, and beside those that
    /// open it later. Fails if the changes that are to follow are not kept any more, or were lost.
    #[arg(long)]
    pub follow: bool,
    /// Only changes of this keyspace
    #[arg(short, long, value_name = "NAME")]
    pub keyspace: Option<String>,
}
