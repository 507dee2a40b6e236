//! `completions` and `man`: what is known of the command line, for shells and for readers.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Arguments;
use crate::console::Console;
use crate::failure::{Exit, Failure, Result};

pub(super) fn complete(shell: Shell, console: &Console) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "cleave", &mut script);
    console.write(&script)?;
    Ok(Exit::Done)
}

pub(super) fn man(dir: Option<&Path>, console: &Console) -> Result<Exit> {
    let command = Arguments::command();
    if let Some(dir) = dir {
        let written = clap_mangen::generate_to(command, dir);
        written.map_err(Failure::file("write to", dir))?;
        return Ok(Exit::Done);
    }
    let mut page = Vec::new();
    Man::new(command).render(&mut page).map_err(Failure::output)?;
    console.write(&page)?;
    Ok(Exit::Done)
}
