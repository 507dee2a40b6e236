//! What the commands mean, one file each.

mod get;
mod put;
mod del;
mod scan;
mod import;
mod export;
mod stats;
mod check;
mod collect;
mod compact;
mod bench_report;
mod bench_suite;
mod bench;
mod trace;
mod tune;
mod tour;

use crate::args::{Command, Global};
use crate::console::Console;
use crate::failure::{Exit, Result};

/// Does what was asked for.
pub fn run(command: Command, global: &Global, console: &Console) -> Result<Exit> {
    match command {
        Command::Get { key } => get::run(&key, global, console),
        Command::Put { key, value, durability } => {
            put::run(&key, value.as_deref(), durability.into(), global, console)
        }
        Command::Del { key } => del::run(&key, global, console),
        Command::Scan(args) => scan::run(&args, global, console),
        Command::Import { place, layout } => import::run(&place, &layout, global, console),
        Command::Export { place, layout } => export::run(&place, &layout, global, console),
        Command::Stats => stats::run(global, console),
        Command::Check => check::run(global, console),
        Command::Collect => collect::run(global, console),
        Command::Compact => compact::run(global, console),
        Command::Bench(args) => bench::run(&args, global, console),
        Command::Trace { action } => trace::run(&action, console),
        Command::Tune(args) => tune::run(&args, global, console),
        Command::Tour(args) => tour::run(&args, global, console),
    }
}
