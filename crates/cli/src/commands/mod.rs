//! The commands, one file each.

mod get;
mod put;
mod merge;
mod expire;
mod del;
mod scan;
mod count;
mod size;
mod stats;
mod keyspace;
mod shell;
mod bulk_import;
mod import;
mod export;
mod changes;
mod check;
mod checkpoint;
mod backup;
mod restore;
mod repair;
mod dump;
mod collect;
mod compact;
mod migrate;
mod destroy;
mod tour;

use clap::CommandFactory;

use self::put::ValueArgument;
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
        Command::Get { args, within } => get::run(&args, &within, global, console),
        Command::Put { key, value, file, ttl, durability, within } => {
            let global = &global.with_durability(durability);
            put::run(&key, &ValueArgument::of(value, file), ttl, &within, global, console)
        }
        Command::Merge { args, durability, within } => {
            merge::run(&args, &within, &global.with_durability(durability), console)
        }
        Command::Expire { key, ttl, within } => expire::run(&key, ttl.0, &within, global, console),
        Command::Del { args, within } => del::run(&args, &within, global, console),
        Command::Scan { args, within } => scan::run(&args, &within, global, console),
        Command::Count { args, within } => count::run(&args, &within, global, console),
        Command::Size { bounds, within } => size::run(&bounds, &within, global, console),
        Command::Keyspace(command) => keyspace::run(&command, global, console),
        Command::Shell { args, within } => shell::run(&args, &within, global, console),
        Command::Completions { shell } => manual::complete(shell, Arguments::command(), console),
        Command::Man { dir } => manual::man(dir.as_deref(), Arguments::command(), console),
        Command::Import { place, layout, bulk, within } => {
            import::run(&place, &layout, &bulk, &within, global, console)
        }
        Command::Export { place, layout, within } => {
            export::run(&place, &layout, &within, global, console)
        }
        Command::Changes(args) => changes::run(&args, global, console),
        Command::Stats(args) => stats::run(&args, global, console),
        Command::Repair { damaged, new } => repair::run(&damaged, &new, global, console),
        Command::Dump(args) => dump::run(&args, console),
        Command::Check => check::run(global, console),
        Command::Collect { dropped, bounds, within } => {
            collect::run(dropped, &bounds, &within, global, console)
        }
        Command::Compact { bounds, within } => compact::run(&bounds, &within, global, console),
        Command::Migrate => migrate::run(global, console),
        Command::Destroy { yes } => destroy::run(yes, global, console),
        Command::Checkpoint { directory } => checkpoint::run(&directory, global, console),
        Command::Backup(args) => backup::run(&args, global, console),
        Command::Restore(args) => restore::run(&args, global, console),
        Command::Bench(_) | Command::Trace(_) | Command::Tune(_) => {
            door::BENCH.become_it(None).map(|never| match never {})
        }
        Command::Serve(_) => door::SERVER.become_it(Some("serve")).map(|never| match never {}),
        Command::Tour(args) => tour::run(&args, global, console),
    }
}
