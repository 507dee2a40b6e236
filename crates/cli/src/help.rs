//! The help of a command: its own options. Those of every command are shown by `cleave --help`.

use std::mem::take;

use clap::Command;

use crate::global::EVERY_COMMAND;

/// The command line of a program, as its help shows it.
pub fn shown(mut command: Command) -> Command {
    // Passes the options of every command on to each.
    command.build();
    let more = format!(
        "Options of every command, such as --db PATH, --preset NAME, --json and --quiet: {} --help",
        command.get_name()
    );
    each_own(command, &more)
}

/// Hides the options of every command in the help of each below this, which ends with `more`.
fn each_own(mut command: Command, more: &str) -> Command {
    for below in command.get_subcommands_mut() {
        let own = take(below).mut_args(|arg| {
            let of_all = arg.get_help_heading() == Some(EVERY_COMMAND);
            if of_all { arg.hide(true) } else { arg }
        });
        let help = own.get_after_help().map(|help| format!("{help}\n\n{more}"));
        *below = each_own(own.after_help(help.unwrap_or_else(|| more.to_owned())), more);
    }
    command
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::shown;
    use crate::args::Arguments;

    #[test]
    fn the_command_line_is_sound_with_its_help() {
        shown(Arguments::command()).debug_assert();
    }
}
