//! The help of a command: its own options. Those of every command are shown by `cleave --help`.

use std::mem::take;

use clap::{Command, CommandFactory};

use crate::args::Arguments;
use crate::global::EVERY_COMMAND;

/// Ends the help of each command.
const MORE: &str = "\
Options of every command, such as --db PATH, --preset NAME, --json and --quiet: cleave --help";

/// The command line, as its help shows it.
pub fn command() -> Command {
    let mut command = Arguments::command();
    // Hands the options of every command down.
    command.build();
    each_own(command)
}

/// Hides the options of every command in the help of each below this.
fn each_own(mut command: Command) -> Command {
    for below in command.get_subcommands_mut() {
        let own = take(below).mut_args(|arg| {
            let of_all = arg.get_help_heading() == Some(EVERY_COMMAND);
            if of_all { arg.hide(true) } else { arg }
        });
        let more = own.get_after_help().map_or(MORE.to_owned(), |help| format!("{help}\n\n{MORE}"));
        *below = each_own(own.after_help(more));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn the_command_line_is_sound_with_its_help() {
        command().debug_assert();
    }
}
