//! `destroy`: removes the database.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use cleavedb::Db;
use cleavedb_units as units;
use serde::Serialize;

use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;

#[derive(Serialize)]
struct Destroyed {
    files: u64,
    bytes: u64,
    /// Files that are not CleaveDB's.
    left: Vec<PathBuf>,
}

impl fmt::Display for Destroyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, bytes) = (units::counted(self.files, "file"), units::bytes(self.bytes));
        write!(f, "removed {files} of {bytes}")?;
        self.left.iter().try_for_each(|path| write!(f, "\nleft {}: not CleaveDB's", path.display()))
    }
}

pub(super) fn run(yes: bool, global: &Global, console: &Console) -> Result<Exit> {
    if !yes {
        confirm(global)?;
    }
    let report = Db::destroy(&global.db)?;
    let (files, bytes, left) = (report.files, report.bytes, report.foreign);
    console.outcome(&Destroyed { files, bytes, left })?;
    Ok(Exit::Done)
}

/// Asks whether the database may be removed; fails unless the answer is yes.
fn confirm(global: &Global) -> Result<()> {
    let path = global.db.display();
    if !io::stdin().is_terminal() {
        let what = format!("nothing was removed; --yes removes the database in {path} for good");
        return Err(Failure::Usage(what));
    }
    let asked = write!(io::stderr(), "Remove the database in {path} for good? [y/N] ");
    asked.map_err(Failure::output)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Failure::file("read", "-".as_ref()))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Usage("nothing was removed".to_owned())),
    }
}
