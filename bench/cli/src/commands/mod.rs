//! The commands, one file each.

mod bench_report;
mod bench_suite;
mod bench;
mod trace;
mod tune;

use clap::CommandFactory;
use cleavedb_cli::console::Console;
use cleavedb_cli::failure::{Exit, Result};
use cleavedb_cli::global::Global;
use cleavedb_cli::manual;
use cleavedb_cli::program::Program;

use crate::args::{Arguments, Command};

impl Program for Arguments {
    fn global(&self) -> &Global {
        &self.global
    }

    fn run(self, console: &Console) -> Result<Exit> {
        let global = &self.global;
        match self.command {
            Command::Bench(args) => bench::run(&args, global, console),
            Command::Trace { action } => trace::run(&action, console),
            Command::Tune(args) => tune::run(&args, global, console),
            Command::Completions { shell } => {
                manual::complete(shell, Arguments::command(), console)
            }
            Command::Man { dir } => manual::man(dir.as_deref(), Arguments::command(), console),
        }
    }
}
