//! Reasons for the failure of a command, and its exit code.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cleavedb::ErrorKind;

/// The result of calls that can end a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// How a command ended, as exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success. Also if the reader of the output closed the pipe.
    Done,
    /// `get` found nothing.
    NotFound,
    /// Invalid arguments.
    Usage,
    /// Data on disk is not what was written.
    Damaged,
    /// Everything else: no database, in use elsewhere, a full disk, part of the work left out.
    Failed,
    /// Stopped by a signal, after a regular close.
    Interrupted,
}

impl Exit {
    /// The exit code.
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
    /// The reader of the output closed it.
    #[error("the reader of the output has closed it")]
    PipeClosed,
    /// A signal asked to stop.
    #[error("interrupted; the database was closed in good order")]
    Interrupted,
    /// There is no such key.
    #[error("there is no such key")]
    NotFound,
    /// Invalid arguments.
    #[error("{0}")]
    Usage(String),
    /// The database does not exist.
    #[error("there is no database in {}; `put` and `import` create one", .0.display())]
    NoDatabase(PathBuf),
    /// An error of the engine.
    #[error("{}", in_words_of_the_program(.0))]
    Engine(#[from] cleavedb::Error),
    /// A measurement that could not go on, in the words of the harness.
    #[error("{0}")]
    Bench(String),
    /// A command that another program has, which is not installed.
    #[error(
        "this command needs the program {program}, which is neither beside {} nor on the search \
         path; `cargo install --path {sources}` in a checkout of CleaveDB installs it",
        .beside.display()
    )]
    NotInstalled {
        /// The name of the program.
        program: &'static str,
        /// The folder of its crate.
        sources: &'static str,
        /// The path of the running program.
        beside: PathBuf,
    },
    /// A file of the user's.
    #[error("cannot {action} {}: {source}", named(.path))]
    File {
        /// The action, as a verb: "read".
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// An import that ended before its input.
    #[error("{cause}; {} stored before it, and kept", cleavedb_units::counted(*.items, "item"))]
    Stopped {
        /// The reason.
        cause: Box<Failure>,
        /// Items that were stored.
        items: u64,
    },
    /// An import in bulk that ended before its input.
    #[error("{cause}; nothing of this import is stored")]
    Undone {
        /// The reason.
        cause: Box<Failure>,
    },
    /// Keys of a list that cannot be read.
    #[error("{} left out: a merge cannot be applied", cleavedb_units::counted(*.0, "key"))]
    LeftOut(u64),
    /// A line of a shell that failed.
    #[error("line {number}: {cause}")]
    Line {
        /// The number of the line, from 1.
        number: u64,
        /// The reason.
        cause: Box<Failure>,
    },
    /// A user's file with invalid content.
    #[error("{}: {message}", named(.path))]
    Input {
        /// The file.
        path: PathBuf,
        /// The place and the fault.
        message: String,
    },
}

/// What errors of the library advise, and how this program does it.
const ADVICE: [(&str, &str); 9] = [
    (
        "give them up (`drop_changes`) and call again",
        "`--with change_retention_bytes=0` gives them up",
    ),
    (
        "open the database with change_retention_bytes",
        "a write `--with change_retention_bytes=64MiB` has them kept from then on",
    ),
    (
        "copy what a snapshot sees, and go on behind its sequence number",
        "`cleave export` has what is there, and changes without --from begin with the oldest",
    ),
    (" (`durable_only` returns no such changes)", ""),
    ("does not accept the operand", "does not accept the operand; add takes a whole number"),
    ("(u64::MAX; --space-limit none)", "(`--space-limit none`)"),
    ("see ValueCompression::ZstdDictionary", "see `keyspace create --compression`"),
    ("`Db::migrate` changes", "`cleave --preset NAME migrate` changes"),
    ("give it to Options::merge_operators", "the programs that write this database have it"),
];

/// An error of the engine, with advice for the command line.
pub fn in_words_of_the_program(error: &cleavedb::Error) -> String {
    let said = error.to_string();
    ADVICE.iter().fold(said, |said, (library, program)| said.replace(library, program))
}

/// The name of a file for messages.
fn named(path: &Path) -> std::path::Display<'_> {
    if path.as_os_str() == "-" { Path::new("standard input").display() } else { path.display() }
}

impl Failure {
    /// Returns a closure for `map_err` on a call for a user's file.
    pub fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }

    /// A failed read of a value, which has the error of the database in it.
    pub fn of_reader(error: io::Error) -> Self {
        match error.downcast::<cleavedb::Error>() {
            Ok(error) => Self::Engine(error),
            Err(error) => Self::output(error),
        }
    }

    /// A failed write of the output.
    pub fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::PipeClosed,
            _ => Self::File { action: "write to", path: "standard output".into(), source: error },
        }
    }

    /// The exit code of the failure.
    pub fn exit(&self) -> Exit {
        match self {
            Self::PipeClosed => Exit::Done,
            Self::Interrupted => Exit::Interrupted,
            Self::NotFound => Exit::NotFound,
            Self::Stopped { cause, .. } | Self::Undone { cause } | Self::Line { cause, .. } => {
                cause.exit()
            }
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
            Self::Stopped { cause, .. } | Self::Undone { cause } | Self::Line { cause, .. } => {
                cause.kind()
            }
            Self::Usage(_) => "usage",
            Self::NoDatabase(_) => "no database",
            Self::Engine(error) => error.kind().name(),
            Self::Bench(_) => "bench",
            Self::NotInstalled { .. } => "not installed",
            Self::LeftOut(_) => "left out",
            Self::File { .. } => "file",
            Self::Input { .. } => "input",
        }
    }
}
