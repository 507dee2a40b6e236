//! Standard output for results, standard error for errors and notes, each as text or as JSON.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use clap::error::ErrorKind;
use serde::Serialize;
use serde_json::json;

use crate::encoding::{JsonBytes, escape, to_hex};
use crate::failure::{Exit, Failure, Result, in_words_of_the_program};
use crate::global::Global;

/// Output of results, notes and errors, and its form.
pub struct Console {
    /// Of the program, in front of errors.
    name: String,
    out: RefCell<BufWriter<Stdout>>,
    json: bool,
    hex: bool,
    quiet: bool,
}

impl Console {
    /// Of the program `name`, in the form that the arguments ask for.
    pub fn new(name: &str, global: &Global) -> Self {
        let out = RefCell::new(BufWriter::with_capacity(1 << 16, io::stdout()));
        let name = name.to_owned();
        Self { name, out, json: global.json, hex: global.hex, quiet: global.quiet }
    }

    /// Whether results are JSON.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Whether keys and values are hex.
    pub fn hex(&self) -> bool {
        self.hex
    }

    /// Whether progress and notes are suppressed.
    pub fn quiet(&self) -> bool {
        self.quiet
    }

    /// Whether the output goes to a terminal.
    pub fn on_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Raw bytes to standard output.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        self.out.borrow_mut().write_all(bytes).map_err(Failure::output)
    }

    /// A line of text to standard output.
    pub fn line(&self, line: impl Display) -> Result<()> {
        writeln!(self.out.borrow_mut(), "{line}").map_err(Failure::output)
    }

    /// A line of JSON to standard output.
    pub fn json_line(&self, value: &impl Serialize) -> Result<()> {
        let mut out = self.out.borrow_mut();
        serde_json::to_writer(&mut *out, value).map_err(|e| Failure::output(e.into()))?;
        out.write_all(b"\n").map_err(Failure::output)
    }

    /// The outcome of a command: as JSON, or as its own text.
    pub fn outcome<T: Serialize + Display>(&self, outcome: &T) -> Result<()> {
        if self.json { self.json_line(outcome) } else { self.line(outcome) }
    }

    /// Bytes in the form for a line of text.
    pub fn shown(&self, bytes: &[u8]) -> String {
        if self.hex { to_hex(bytes) } else { escape(bytes) }
    }

    /// Bytes in the form for JSON.
    pub fn json_bytes<'a>(&self, bytes: &'a [u8]) -> JsonBytes<'a> {
        JsonBytes { bytes, hex: self.hex }
    }

    /// Writes buffered output.
    pub fn flush(&self) -> Result<()> {
        self.out.borrow_mut().flush().map_err(Failure::output)
    }

    /// Prints a note, which is not an error.
    pub fn note(&self, note: &str) {
        if self.quiet {
            return;
        }
        say(&if self.json { json!({ "note": note }).to_string() } else { format!("note: {note}") });
    }

    /// Reports a loss, even if notes are suppressed.
    pub fn warn(&self, loss: &str) {
        say(&match self.json {
            true => json!({ "warning": loss }).to_string(),
            false => format!("warning: {loss}"),
        });
    }

    /// Reports a key that a list leaves out, since a merge cannot be applied to its value; `count`
    /// are left out so far, of which the first ones are named. Returns any other error.
    pub fn left_out(&self, error: cleavedb::Error, count: &mut u64) -> Result<()> {
        if error.kind() != cleavedb::ErrorKind::Merge {
            return Err(error.into());
        }
        *count += 1;
        if *count <= LEFT_OUT_MAX {
            self.warn(&format!("left out: {}", in_words_of_the_program(&error)));
        }
        Ok(())
    }

    /// Reports the error that ended the command, unless the reader of the output has closed it.
    pub fn fail(&self, failure: &Failure) {
        // Output before the error is still a result.
        let _ = self.flush();
        if failure.exit() != Exit::Done {
            let (exit, message) = (failure.exit(), failure.to_string());
            match self.json {
                true => say_error(failure.kind(), exit, &message),
                false => say(&format!("{}: {message}", self.name)),
            }
            if exit == Exit::Damaged && !self.json {
                self.note(DAMAGED);
            }
        }
    }
}

/// Most keys of a list that are named as left out.
const LEFT_OUT_MAX: u64 = 20;

/// What to do about damage.
const DAMAGED: &str = "`cleave check` names all that is damaged; restore a backup, or `cleave \
                       repair DAMAGED NEW` saves what is readable";

/// Shows help, or the error in the command line.
pub fn refuse(error: &clap::Error) -> Exit {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A closed output is not a failure.
        let _ = error.print();
        return Exit::Done;
    }
    if std::env::args_os().any(|argument| argument == "--json") {
        let text = error.render().to_string();
        let text = text.trim().trim_start_matches("error: ");
        say_error("usage", Exit::Usage, text);
    } else {
        let _ = error.print();
    }
    Exit::Usage
}

/// An error as JSON.
fn say_error(kind: &str, exit: Exit, message: &str) {
    let error = json!({ "kind": kind, "message": message, "exit": exit.code() });
    say(&json!({ "error": error }).to_string());
}

/// Writes a line to standard error; errors are ignored.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
