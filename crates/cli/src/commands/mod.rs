//! What the commands mean, one file each.

mod get;
mod put;
mod del;
mod scan;
mod count;
mod stats;
mod shell;
mod papers;
mod import;
mod export;
mod check;
mod repair;
mod dump;
mod collect;
mod compact;
mod bench_report;
mod bench_suite;
mod bench;
mod trace;
mod tune;
mod tour;

use crate::args::Command;
use crate::console::Console;
use crate::failure::{Exit, Result};
use crate::global::Global;

/// Does what was asked for.
pub fn run(command: Command, global: &Global, console: &Console) -> Result<Exit> {
    match command {
        Command::Get { key } => get::run(&key, global, console),
        Command::Put { key, value, durability } => {
            put::run(&key, value.as_deref(), durability.into(), global, console)
        }
        Command::Del(args) => del::run(&args, global, console),
        Command::Scan(args) => scan::run(&args, global, console),
        Command::Count(args) => count::run(&args, global, console),
        Command::Shell(args) => shell::run(&args, global, console),
        Command::Completions { shell } => papers::complete(shell, console),
        Command::Man { dir } => papers::man(dir.as_deref(), console),
        Command::Import { place, layout } => import::run(&place, &layout, global, console),
        Command::Export { place, layout } => export::run(&place, &layout, global, console),
        Command::Stats => stats::run(global, console),
        Command::Repair { damaged, new } => repair::run(&damaged, &new, global, console),
        Command::Dump(args) => dump::run(&args, console),
        Command::Check => check::run(global, console),
        Command::Collect => collect::run(global, console),
        Command::Compact => compact::run(global, console),
        Command::Bench(args) => bench::run(&args, global, console),
        Command::Trace { action } => trace::run(&action, console),
        Command::Tune(args) => tune::run(&args, global, console),
        Command::Tour(args) => tour::run(&args, global, console),
    }
}
