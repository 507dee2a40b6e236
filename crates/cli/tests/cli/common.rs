//! A directory to run `cleave` in.

use cleavedb_testkit::program;

pub use cleavedb_testkit::program::{PATIENCE, Ran, json_lines};

/// The program `cleave`.
pub struct Cleave;

impl program::Program for Cleave {
    const PATH: &str = env!("CARGO_BIN_EXE_cleave");
}

/// A directory of its own, in which `cleave` runs.
pub type Home = program::Home<Cleave>;
