//! Why a command did not do what it was asked for, and the exit code that says so.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cleavedb::ErrorKind;

/// The result of everything that can end a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// How a command ended, as scripts see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All done. Also a reader that closed the pipe: it has seen enough.
    Done,
    /// `get` found nothing.
    NotFound,
    /// The arguments cannot be meant.
    Usage,
    /// Data on disk is not what was written.
    Damaged,
    /// Everything else: no database, in use elsewhere, a full disk, part of the work left out.
    Failed,
    /// Stopped by a signal, in good order.
    Interrupted,
}

impl Exit {
    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NotFound => 1,
            Self::Usage => 2,
            Self::Damaged => 3,
            Self::Failed => 4,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command ended early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Whoever read the output went away.
    #[error("the reader of the output has gone")]
    PipeClosed,
    /// A signal that asked for the end.
    #[error("interrupted; the database was closed in good order")]
    Interrupted,
    /// There is no such key.
    #[error("there is no such key")]
    NotFound,
    /// Arguments that cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// There is no database where one must be.
    #[error("there is no database in {}; `put` and `import` create one", .0.display())]
    NoDatabase(PathBuf),
    /// The engine's own words.
    #[error(transparent)]
    Engine(#[from] cleavedb::Error),
    /// A measurement that could not go on, in the words of the harness.
    #[error("{0}")]
    Bench(String),
    /// A command that another program has, which is not installed.
    #[error(
        "this command needs the program {program}, which is neither beside {} nor on the search \
         path; `cargo install --path crates/bench-cli` in a checkout of CleaveDB installs it",
        .beside.display()
    )]
    NotInstalled {
        /// Its name.
        program: &'static str,
        /// This program.
        beside: PathBuf,
    },
    /// A file of the user's.
    #[error("cannot {action} {}: {source}", named(.path))]
    File {
        /// What was tried, as a verb: "read".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// An import that came to an end before that of its input.
    #[error("{cause}; {items} items are in and stay")]
    Stopped {
        /// Why.
        cause: Box<Failure>,
        /// Items that are stored.
        items: u64,
    },
    /// A line of a shell that failed.
    #[error("line {number}: {cause}")]
    Line {
        /// Its number, from 1.
        number: u64,
        /// Why.
        cause: Box<Failure>,
    },
    /// A file of the user's that does not hold what it should.
    #[error("{}: {message}", named(.path))]
    Input {
        /// The file.
        path: PathBuf,
        /// Where in it, and what is wrong.
        message: String,
    },
}

/// The name of a file for people.
fn named(path: &Path) -> std::path::Display<'_> {
    if path.as_os_str() == "-" { Path::new("standard input").display() } else { path.display() }
}

impl Failure {
    /// Returns a closure for `map_err` on a call for a file of the user's.
    pub fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }

    /// A failed write of the output.
    pub fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::PipeClosed,
            _ => Self::File { action: "write to", path: "standard output".into(), source: error },
        }
    }

    /// How the command ends.
    pub fn exit(&self) -> Exit {
        match self {
            Self::PipeClosed => Exit::Done,
            Self::Interrupted => Exit::Interrupted,
            Self::NotFound => Exit::NotFound,
            Self::Stopped { cause, .. } | Self::Line { cause, .. } => cause.exit(),
            Self::Usage(_) => Exit::Usage,
            Self::Engine(error) => match error.kind() {
                ErrorKind::InvalidArgument | ErrorKind::InvalidOptions => Exit::Usage,
                ErrorKind::Corruption => Exit::Damaged,
                _ => Exit::Failed,
            },
            _ => Exit::Failed,
        }
    }

    /// A short name for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PipeClosed => "pipe closed",
            Self::Interrupted => "interrupted",
            Self::NotFound => "not found",
            Self::Stopped { cause, .. } | Self::Line { cause, .. } => cause.kind(),
            Self::Usage(_) => "usage",
            Self::NoDatabase(_) => "no database",
            Self::Engine(error) => error.kind().name(),
            Self::Bench(_) => "bench",
            Self::NotInstalled { .. } => "not installed",
            Self::File { .. } => "file",
            Self::Input { .. } => "input",
        }
    }
}
