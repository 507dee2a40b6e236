//! `cleave`: the command line of CleaveDB.
//!
//! [`args`] is what may be typed, [`commands`] what it means. Everything between is about bytes:
//! how they are shown, read from and written to files, and counted. The modules, bottom first; a
//! module uses only those before it.

#![forbid(unsafe_code)]

mod failure;
mod encoding;
mod durability;
mod placement;
mod level0;
mod space_limit;
mod named;
mod global;
mod bench_args;
mod args;
mod help;
mod shell_line;
mod bounds;
mod console;
mod interrupt;
mod progress;
mod miniature;
mod store;
mod watch;
mod space;
mod vitals;
mod formats;
mod loader;
mod device;
mod variant;
mod engine;
mod commands;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::args::Arguments;
use crate::console::Console;

fn main() -> ExitCode {
    let matches = help::command().try_get_matches();
    let arguments = match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return console::refuse(&error).into(),
    };
    let console = Console::new(&arguments.global);
    let done = commands::run(arguments.command, &arguments.global, &console);
    match done.and_then(|exit| console.flush().map(|()| exit)) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            console.fail(&failure);
            failure.exit().into()
        }
    }
}
