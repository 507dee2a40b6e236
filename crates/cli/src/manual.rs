//! `completions` and `man`: what is known of a command line, for shells and for readers.

use std::fs;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::console::Console;
use crate::failure::{Exit, Failure, Result};

/// Prints completions of `command` for a shell.
pub fn complete(shell: Shell, mut command: Command, console: &Console) -> Result<Exit> {
    let (name, mut script) = (command.get_name().to_owned(), Vec::new());
    clap_complete::generate(shell, &mut command, name, &mut script);
    console.write(&script)?;
    Ok(Exit::Done)
}

/// Prints the manual page of `command`, or writes one for each command below it into `dir`.
pub fn man(dir: Option<&Path>, command: Command, console: &Console) -> Result<Exit> {
    if let Some(dir) = dir {
        fs::create_dir_all(dir).map_err(Failure::file("create", dir))?;
        let written = clap_mangen::generate_to(command, dir);
        written.map_err(Failure::file("write to", dir))?;
        return Ok(Exit::Done);
    }
    let mut page = Vec::new();
    Man::new(command).render(&mut page).map_err(Failure::output)?;
    console.write(&page)?;
    Ok(Exit::Done)
}
