//! `shell`: commands from a terminal or a pipe, one a line, on a database that stays open.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStringExt;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use cleavedb::{Db, Keyspace, WriteBatch};

use crate::args::{Arguments, DelArgs, ShellArgs, Within};
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
    let global = &global.with_durability(args.durability);
    let db = store::open_or_create(global, console)?;
    let on_terminal = io::stdin().is_terminal();
    let done = store::keyspace(&db, within).and_then(|keyspace| {
        let db = &db;
        Shell { db, keyspace, batch: None, on_terminal, global, console }.read()
    });
    store::closed(db, done)
}

/// An open database, and the form of answers.
struct Shell<'a> {
    db: &'a Db,
    /// The one that commands use.
    keyspace: Keyspace,
    /// What was changed since `batch`, and is not written yet.
    batch: Option<WriteBatch>,
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
                return self.end(exit);
            }
            number += 1;
            match self.answer(&line) {
                Ok(true) => {}
                Ok(false) => return self.end(exit),
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

    /// Ends with `exit`, unless a batch is left.
    fn end(&self, exit: Exit) -> Result<Exit> {
        if self.batch.is_none() {
            return Ok(exit);
        }
        let what = "the batch at the end was not committed: nothing of it is stored";
        Err(Failure::Usage(what.to_owned()))
    }

    /// Runs a line; false if it ends the shell.
    fn answer(&mut self, line: &[u8]) -> Result<bool> {
        let words = shlex::bytes::split(line)
            .ok_or_else(|| Failure::Usage("a quote is not closed".to_owned()))?;
        let words: Vec<_> = words.into_iter().map(OsString::from_vec).collect();
        let Some(first) = words.first() else { return Ok(true) };
        let line = match ShellLine::try_parse_from(&words) {
            Ok(line) => line,
            Err(error)
                if error.kind() == ErrorKind::InvalidSubcommand
                    && Arguments::command().find_subcommand(first).is_some() =>
            {
                let first = first.to_string_lossy();
                return Err(Failure::Usage(format!(
                    "the shell has no command {first}: run `cleave {first}` outside of it"
                )));
            }
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

    /// Adds a change to the batch that was begun; false if `command` is none, or there is no batch.
    fn add(&mut self, command: &ShellCommand) -> Result<bool> {
        let Self { keyspace, batch: Some(batch), console, .. } = self else { return Ok(false) };
        let bytes = |argument: &OsString| from_argument(argument, console.hex());
        let mut batch = batch.keyspace(keyspace);
        match command {
            ShellCommand::Put { key, value, ttl: None } => batch.put(bytes(key)?, bytes(value)?)?,
            ShellCommand::Put { key, value, ttl: Some(ttl) } => {
                batch.put_with_ttl(bytes(key)?, bytes(value)?, *ttl)?
            }
            ShellCommand::Merge(args) => {
                let (key, operand) = merge::parsed(args, console)?;
                batch.merge(key, &operand)?
            }
            ShellCommand::Del(DelArgs { key: Some(key), .. }) => batch.delete(bytes(key)?)?,
            ShellCommand::Del(DelArgs { key: None, bounds }) => {
                batch.delete_range(del::range(bounds, console)?)?
            }
            ShellCommand::Expire { .. } => {
                let what = "expire reads the value and cannot be in a batch; put it with --ttl";
                return Err(Failure::Usage(what.to_owned()));
            }
            _ => return Ok(false),
        };
        Ok(true)
    }

    /// Begins, writes or gives up the batch.
    fn batch(&mut self, command: &ShellCommand) -> Result<()> {
        let what = match (command, self.batch.take()) {
            (ShellCommand::Batch, None) => {
                self.batch = Some(self.db.batch());
                return Ok(());
            }
            (ShellCommand::Batch, begun) => {
                self.batch = begun;
                "a batch was begun before; commit or rollback ends it"
            }
            (ShellCommand::Commit, Some(batch)) => {
                return Ok(self.db.write(&batch)?);
            }
            (_, Some(_)) => return Ok(()),
            (_, None) => "no batch was begun",
        };
        Err(Failure::Usage(what.to_owned()))
    }

    fn run(&mut self, command: &ShellCommand) -> Result<bool> {
        if self.add(command)? {
            return Ok(true);
        }
        let Self { db, keyspace, global, console, .. } = self;
        let keyspace = &*keyspace;
        let bytes = |argument: &OsString| from_argument(argument, console.hex());
        match command {
            ShellCommand::Get(args) => {
                get::print(keyspace, &bytes(&args.key)?, args, true, console)?;
            }
            ShellCommand::Put { key, value, ttl } => {
                let (key, value) = (bytes(key)?, bytes(value)?);
                put::store(keyspace, &key, &value, *ttl)?;
                put::announce(&key, value.len() as u64, console)?;
            }
            ShellCommand::Merge(args) => merge::merge(keyspace, args, console)?,
            ShellCommand::Expire { key, ttl } => expire::expire(keyspace, &bytes(key)?, ttl.0)?,
            ShellCommand::Del(args) => del::delete(keyspace, args, console)?,
            ShellCommand::Scan(args) => scan::list(keyspace, args, console)?,
            ShellCommand::Count(args) => count::print(keyspace, args, console)?,
            ShellCommand::Size(args) => size::print(keyspace, args, console)?,
            ShellCommand::Stats { all } => stats::print(db, *all, global, console)?,
            ShellCommand::Batch | ShellCommand::Commit | ShellCommand::Rollback => {
                self.batch(command)?;
            }
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
