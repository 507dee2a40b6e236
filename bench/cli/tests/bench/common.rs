//! A directory to run `cleave-bench` in.

use cleavedb_testkit::program;

pub use cleavedb_testkit::program::Ran;

/// The program `cleave-bench`.
pub struct CleaveBench;

impl program::Program for CleaveBench {
    const PATH: &str = env!("CARGO_BIN_EXE_cleave-bench");
}

/// A directory of its own, in which `cleave-bench` runs.
pub type Home = program::Home<CleaveBench>;
