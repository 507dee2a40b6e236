//! What each program of this command line does around its commands: it reads the arguments, shows
//! what failed, and ends with the exit code that says so.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use cleavedb_named as named;

use crate::console::{self, Console};
use crate::failure::{Exit, Result};
use crate::global::Global;
use crate::help;

/// A program, as its parsed arguments.
pub trait Program: CommandFactory + FromArgMatches {
    /// The arguments of every command.
    fn global(&self) -> &Global;

    /// Does what was asked for.
    fn run(self, console: &Console) -> Result<Exit>;
}

/// Runs the program with the arguments of this process.
pub fn main<P: Program>() -> ExitCode {
    if named::asks_for_list(std::env::args_os()) {
        // A closed output is not a failure.
        let _ = io::stdout().write_all(named::list().as_bytes());
        return Exit::Done.into();
    }
    let command = help::shown(P::command());
    let name = command.get_name().to_owned();
    let matches = command.try_get_matches();
    let program = match matches.and_then(|matches| P::from_arg_matches(&matches)) {
        Ok(program) => program,
        Err(error) => return console::refuse(&error).into(),
    };
    let console = Console::new(&name, program.global());
    let done = program.run(&console);
    match done.and_then(|exit| console.flush().map(|()| exit)) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            console.fail(&failure);
            failure.exit().into()
        }
    }
}
