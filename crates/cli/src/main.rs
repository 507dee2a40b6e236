//! `cleave`: the command line of CleaveDB. All of it is in the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use cleavedb_cli::args::Arguments;
use cleavedb_cli::program;

fn main() -> ExitCode {
    program::main::<Arguments>()
}
