//! `shell`: commands from a terminal or a pipe, one a line, on a database that stays open.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStringExt;

use clap::Parser;
use cleavedb::{Db, Durability, Keyspace};

use crate::args::{ShellArgs, Within};
use crate::commands::{count, del, expire, get, keyspace, merge, put, scan, size, stats};
use crate::console::Console;
use crate::encoding::from_argument;
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::interrupt;
use crate::shell_input::ShellInput;
use crate::shell_line::{ShellCommand, ShellLine};
use crate::store;

const PROMPT: &str = "cleave> ";

pub(super) fn run(
    args: &ShellArgs,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    interrupt::watch(console)?;
    let db = store::open_or_create(global, console)?;
    let on_terminal = io::stdin().is_terminal();
    let durability = args.durability.into();
    let done = store::keyspace(&db, within).and_then(|keyspace| {
        let db = &db;
        Shell { db, keyspace, durability, on_terminal, global, console }.read()
    });
    store::closed(db, done)
}

/// An open database, and the form of answers.
struct Shell<'a> {
    db: &'a Db,
    /// The one that commands use.
    keyspace: Keyspace,
    durability: Durability,
    on_terminal: bool,
    global: &'a Global,
    console: &'a Console,
}

impl Shell<'_> {
    /// Runs lines up to the end, or up to the first failure if the input is not a terminal.
    fn read(&mut self) -> Result<Exit> {
        let prompt = if self.console.quiet() { "" } else { PROMPT };
        let mut input = ShellInput::open(self.on_terminal, prompt)?;
        let (mut line, mut number, mut exit) = (Vec::new(), 0_u64, Exit::Done);
        loop {
            self.console.flush()?;
            if !input.next(&mut line)? {
                return Ok(exit);
            }
            number += 1;
            match self.answer(&line) {
                Ok(true) => {}
                Ok(false) => return Ok(exit),
                Err(cause) => {
                    let missing = matches!(cause, Failure::NotFound);
                    let ends = matches!(cause, Failure::Interrupted | Failure::PipeClosed);
                    // At a terminal the line stands above.
                    let failure = match self.on_terminal && !ends {
                        true => cause,
                        false => Failure::Line { number, cause: Box::new(cause) },
                    };
                    if ends || !(missing || self.on_terminal) {
                        return Err(failure);
                    }
                    self.console.fail(&failure);
                    exit = if missing && !self.on_terminal { Exit::NotFound } else { exit };
                }
            }
        }
    }

    /// Runs a line; false if it ends the shell.
    fn answer(&mut self, line: &[u8]) -> Result<bool> {
        let words = shlex::bytes::split(line)
            .ok_or_else(|| Failure::Usage("a quote is not closed".to_owned()))?;
        if words.is_empty() {
            return Ok(true);
        }
        let line = match ShellLine::try_parse_from(words.into_iter().map(OsString::from_vec)) {
            Ok(line) => line,
            Err(error) if !error.use_stderr() => {
                return self.console.line(error.render()).map(|()| true);
            }
            Err(error) => {
                let text = error.render().to_string();
                let text = text.trim().trim_start_matches("error: ");
                return Err(Failure::Usage(text.to_owned()));
            }
        };
        self.run(&line.command)
    }

    fn run(&mut self, command: &ShellCommand) -> Result<bool> {
        let Self { db, keyspace, durability, global, console, .. } = self;
        let keyspace = &*keyspace;
        let bytes = |argument: &OsString| from_argument(argument, console.hex());
        match command {
            ShellCommand::Get { key, part } => {
                get::print(keyspace, &bytes(key)?, *part, (true, console))?;
            }
            ShellCommand::Put { key, value, ttl } => {
                let (key, value) = (bytes(key)?, bytes(value)?);
                put::store(keyspace, (&key, &value), *ttl, *durability)?;
                put::announce(&key, value.len() as u64, console)?;
            }
            ShellCommand::Merge(args) => merge::merge(keyspace, args, *durability, console)?,
            ShellCommand::Expire { key, ttl } => expire::expire(keyspace, &bytes(key)?, ttl.0)?,
            ShellCommand::Del(args) => del::delete(keyspace, args, *durability, console)?,
            ShellCommand::Scan(args) => scan::list(keyspace, args, console)?,
            ShellCommand::Count(args) => count::print(keyspace, args, console)?,
            ShellCommand::Size(args) => size::print(keyspace, args, console)?,
            ShellCommand::Stats { all } => stats::print(db, *all, global, console)?,
            ShellCommand::Keyspaces => keyspace::list(db, console)?,
            ShellCommand::Use { name } => self.keyspace = db.keyspace(name)?,
            ShellCommand::Compact => db.compact()?,
            ShellCommand::Collect => db.collect()?,
            ShellCommand::Sync => db.sync()?,
            ShellCommand::Exit => return Ok(false),
        }
        Ok(true)
    }
}
