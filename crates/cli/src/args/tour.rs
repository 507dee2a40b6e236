//! The arguments of `tour`.

use std::path::PathBuf;

use clap::Args;

/// The tree and options of a tour.
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
