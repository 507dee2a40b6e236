//! The commands, one file each.

mod get;
mod put;
mod del;
mod scan;
mod count;
mod stats;
mod shell;
mod import;
mod export;
mod check;
mod checkpoint;
mod repair;
mod dump;
mod collect;
mod compact;
mod tour;

use clap::CommandFactory;

use crate::args::{Arguments, Command};
use crate::console::Console;
use crate::failure::{Exit, Result};
use crate::global::Global;
use crate::program::Program;
use crate::{door, manual};

impl Program for Arguments {
    fn global(&self) -> &Global {
        &self.global
    }

    fn run(self, console: &Console) -> Result<Exit> {
        run(self.command, &self.global, console)
    }
}

fn run(command: Command, global: &Global, console: &Console) -> Result<Exit> {
    match command {
        Command::Get { key } => get::run(&key, global, console),
        Command::Put { key, value, durability } => {
            put::run(&key, value.as_deref(), durability.into(), global, console)
        }
        Command::Del(args) => del::run(&args, global, console),
        Command::Scan(args) => scan::run(&args, global, console),
        Command::Count(args) => count::run(&args, global, console),
        Command::Shell(args) => shell::run(&args, global, console),
        Command::Completions { shell } => manual::complete(shell, Arguments::command(), console),
        Command::Man { dir } => manual::man(dir.as_deref(), Arguments::command(), console),
        Command::Import { place, layout } => import::run(&place, &layout, global, console),
        Command::Export { place, layout } => export::run(&place, &layout, global, console),
        Command::Stats => stats::run(global, console),
        Command::Repair { damaged, new } => repair::run(&damaged, &new, global, console),
        Command::Dump(args) => dump::run(&args, console),
        Command::Check => check::run(global, console),
        Command::Collect => collect::run(global, console),
        Command::Compact => compact::run(global, console),
        Command::Checkpoint { directory } => checkpoint::run(&directory, global, console),
        Command::Bench(_) | Command::Trace(_) | Command::Tune(_) => {
            door::pass().map(|never| match never {})
        }
        Command::Tour(args) => tour::run(&args, global, console),
    }
}
