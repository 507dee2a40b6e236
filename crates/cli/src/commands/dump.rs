//! `dump`: what stands in the files of a database, which is not opened.

use std::fmt::{self, Display, Write};
use std::ops::ControlFlow;

use cleavedb::Error;
use cleavedb::dump::{Dump, DumpFact, DumpKind, DumpLine, DumpRequest, Dumped};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::args::{DumpArgs, DumpWhat};
use crate::console::Console;
use crate::failure::{Exit, Failure, Result};
use crate::interrupt;

pub(super) fn run(args: &DumpArgs, console: &Console) -> Result<Exit> {
    if args.state && args.what != DumpWhat::Manifest {
        let what = "--state is of a manifest; the other files have none, see dump --help";
        return Err(Failure::Usage(what.to_owned()));
    }
    interrupt::watch(console)?;
    let dump = Dump::open(&args.dir, args.database_id)?;
    let kind = match args.what {
        DumpWhat::Manifest => DumpKind::Manifest,
        DumpWhat::Log => DumpKind::Log,
        DumpWhat::Table => DumpKind::Table,
        DumpWhat::Values => DumpKind::Values,
    };
    let file = args.file.clone();
    let request = DumpRequest { kind, file, values: args.values, state: args.state };
    let left = args.limit.unwrap_or(u64::MAX);
    let mut printer = Printer { args, console, left, lines: 0, damages: 0, failed: None };
    dump.read(&request, &mut |dumped| printer.print(dumped))?;
    let Printer { lines, damages, failed, .. } = printer;
    failed.map_or(Ok(()), Err)?;
    console.flush()?;
    if lines + damages == 0 {
        console.note("there are no such files");
    }
    match damages {
        0 => return Ok(Exit::Done),
        1 => console.warn("1 place is damaged or missing"),
        many => console.warn(&format!("{many} places are damaged or missing")),
    }
    Ok(Exit::Damaged)
}

/// Prints what a dump hands out.
struct Printer<'a> {
    args: &'a DumpArgs,
    console: &'a Console,
    /// Items that may still be printed.
    left: u64,
    /// Lines that were handed out.
    lines: u64,
    damages: u64,
    /// Why it broke off, if not for want of `left`.
    failed: Option<Failure>,
}

impl Printer<'_> {
    fn print(&mut self, dumped: Dumped<'_>) -> ControlFlow<()> {
        let printed = interrupt::check().and_then(|()| match dumped {
            Dumped::Damage(error) => self.damage(&error),
            Dumped::Line(line) => self.line(&line),
        });
        match printed {
            Ok(done) => done,
            Err(failure) => {
                self.failed = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    fn damage(&mut self, error: &Error) -> Result<ControlFlow<()>> {
        self.damages += 1;
        if self.console.json() {
            let (file, offset) = (error.fact("file"), error.fact("offset"));
            let offset = offset.and_then(|offset| offset.parse::<u64>().ok());
            let damage = error.to_string();
            self.console.json_line(&json!({ "file": file, "offset": offset, "damage": damage }))?;
        } else {
            self.console.line(format_args!("DAMAGE: {error}"))?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn line(&mut self, line: &DumpLine<'_>) -> Result<ControlFlow<()>> {
        if line.is_item && self.left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        self.left -= u64::from(line.is_item);
        self.lines += 1;
        let console = self.console;
        if self.args.keys_only {
            let key = line.facts.iter().find_map(|(name, fact)| match fact {
                DumpFact::Key(key) if *name == "key" => Some(*key),
                _ => None,
            });
            match key {
                Some(key) if console.json() => {
                    console.json_line(&json!({ "key": console.json_bytes(key) }))?;
                }
                Some(key) => console.line(console.shown(key))?,
                None => {}
            }
        } else if console.json() {
            console.json_line(&JsonLine { line, console })?;
        } else {
            console.line(LineInWords { line, console })?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// A line as one object: file, offset, what it is, and its facts.
struct JsonLine<'a> {
    line: &'a DumpLine<'a>,
    console: &'a Console,
}

impl Serialize for JsonLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("file", self.line.file)?;
        if let Some(offset) = self.line.offset {
            map.serialize_entry("offset", &offset)?;
        }
        map.serialize_entry("what", self.line.what)?;
        for (name, fact) in &self.line.facts {
            map.serialize_entry(name, &JsonFact(fact, self.console))?;
        }
        map.end()
    }
}

struct JsonFact<'a>(&'a DumpFact<'a>, &'a Console);

impl Serialize for JsonFact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self.0 {
            DumpFact::Number(number) => serializer.serialize_u64(*number),
            DumpFact::Text(text) => serializer.serialize_str(text),
            DumpFact::Key(bytes) | DumpFact::Value(bytes) => {
                self.1.json_bytes(bytes).serialize(serializer)
            }
        }
    }
}

/// A line in words: the file at its beginning, else the offset, what it is, and its facts.
struct LineInWords<'a> {
    line: &'a DumpLine<'a>,
    console: &'a Console,
}

impl Display for LineInWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DumpLine { file, offset, what, facts, .. } = self.line;
        match offset {
            Some(offset) => write!(f, "{offset:>12}  {what}")?,
            // A file, or what `current` says, opens a part; an entry has no offset of its own.
            None if self.line.is_item => write!(f, "{:>12}  {what}", "")?,
            None => write!(f, "{file}")?,
        }
        for (at, (name, fact)) in facts.iter().enumerate() {
            f.write_str(if at == 0 { ": " } else { ", " })?;
            name.chars().try_for_each(|c| f.write_char(if c == '_' { ' ' } else { c }))?;
            match fact {
                DumpFact::Number(number) => write!(f, " {number}")?,
                DumpFact::Text(text) => write!(f, " {text}")?,
                DumpFact::Key(bytes) | DumpFact::Value(bytes) => {
                    write!(f, " {}", self.console.shown(bytes))?;
                }
            }
        }
        Ok(())
    }
}
