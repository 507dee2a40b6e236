//! One error type: a kind to act on, a sentence to read, and the facts (file, offset, key).
//!
//! The sentence says what happened and what to do; the kind is what programs match on. Errors are
//! cheap to clone, because one failed commit is reported to every writer that shared it.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Result of every fallible operation of CleaveDB.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, as a program needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A key, value, batch or range that can never be accepted; nothing was written.
    InvalidArgument,
    /// An option out of range, or two that contradict each other; nothing was opened.
    InvalidOptions,
    /// The directory holds something else than a CleaveDB database, or nothing where one must be.
    NotADatabase,
    /// A directory that is part of the database is not where it should be: its disk is not mounted,
    /// or something else is in its place. Nothing was changed.
    MissingVolume,
    /// The data was written by a newer release; this one must not touch it.
    NewerFormat,
    /// The database keeps values in another way than the one asked for. Nothing was changed.
    LayoutMismatch,
    /// There is a database, or a keyspace, where a new one was asked for. Nothing was changed.
    AlreadyExists,
    /// There is no keyspace of that name, or it was dropped. Nothing was changed.
    NoKeyspace,
    /// Another process, or another handle in this one, has the database open.
    Locked,
    /// Bytes on disk are not what was written. Only the named record or block is affected.
    Corruption,
    /// The operating system refused a call.
    Io,
    /// The disk, or the configured space, is full. Deletes and collection still work.
    NoSpace,
    /// An earlier write or sync failed. Reads still work; writes are refused until the database is
    /// reopened.
    Poisoned,
    /// Another commit has written what a transaction has read. Nothing was written; run the
    /// transaction again.
    Conflict,
    /// The operands of a merge cannot be applied: their operator is not known to this open, or the
    /// value of the key is none that it knows. Nothing is lost.
    Merge,
    /// A snapshot, a range, a cursor or a transaction still needs what was to leave the disk, or
    /// another bulk load is under way. Drop it and call again.
    Held,
    /// The process that writes the database has removed what a view of it needs, or has changed it
    /// faster than it could be read. Catch up ([`Db::catch_up`]), and take a new view. Nothing is
    /// damaged.
    ///
    /// [`Db::catch_up`]: https://docs.rs/cleavedb/latest/cleavedb/struct.Db.html#method.catch_up
    Outdated,
    /// Changes that a reader asks for are not kept, or not any more, or were lost after it had seen
    /// them. It copies what a snapshot sees, and goes on from there.
    NotRetained,
    /// The database was closed.
    Closed,
    /// The caller has stopped a long call before its end; what it had made was removed, but for the
    /// copy of a migration, with which the next one goes on.
    Stopped,
    /// The disk is mounted, or the database was opened, for reading only.
    ReadOnly,
    /// The handle was made by the process that this one was forked from. Nothing was changed.
    Forked,
    /// The process, or the system, may open no more files: `ulimit -n`. Nothing was changed.
    TooManyFiles,
    /// A call that must not wait would have to. Nothing was written; make it from a thread that may
    /// wait, by the call that does.
    WouldWait,
    /// A call would wait for background work, but no job is due or running. This is a bug of the
    /// engine; the error replaces an endless wait.
    Stalled,
    /// An error of the program itself, which the body of a transaction returned to give it up:
    /// [`Error::other`].
    Other,
}

/// Error numbers EMFILE and ENFILE: no file descriptor is left.
const NO_DESCRIPTOR: [i32; 2] = [24, 23];

impl ErrorKind {
    /// Short name, as printed in front of a message.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid argument",
            Self::InvalidOptions => "invalid options",
            Self::NotADatabase => "not a database",
            Self::MissingVolume => "missing volume",
            Self::NewerFormat => "newer format",
            Self::LayoutMismatch => "layout mismatch",
            Self::AlreadyExists => "already exists",
            Self::NoKeyspace => "no keyspace",
            Self::Locked => "locked",
            Self::Corruption => "corruption",
            Self::Io => "i/o error",
            Self::NoSpace => "no space",
            Self::Poisoned => "poisoned",
            Self::Conflict => "conflict",
            Self::Merge => "merge",
            Self::Held => "held",
            Self::Outdated => "outdated",
            Self::NotRetained => "not retained",
            Self::Closed => "closed",
            Self::Stopped => "stopped",
            Self::ReadOnly => "read only",
            Self::Forked => "forked",
            Self::TooManyFiles => "too many files",
            Self::WouldWait => "would wait",
            Self::Stalled => "stalled",
            Self::Other => "other",
        }
    }
}

/// An error with its kind, its sentence, its facts and, if it came from the system, its cause.
#[derive(Clone)]
pub struct Error(Box<Details>);

#[derive(Clone)]
struct Details {
    kind: ErrorKind,
    message: String,
    facts: Vec<(&'static str, String)>,
    source: Option<Arc<io::Error>>,
}

impl Error {
    /// An error of `kind`; `message` says what happened and what to do.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Details { kind, message: message.into(), facts: Vec::new(), source: None }))
    }

    /// Bytes on disk that are not what was written.
    #[cold]
    #[doc(hidden)]
    pub fn corruption(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corruption, message)
    }

    /// A failed system call; `doing` completes the sentence "failed to ...".
    #[cold]
    #[doc(hidden)]
    pub fn io(doing: impl fmt::Display, cause: io::Error) -> Self {
        let full = matches!(
            cause.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        let no_descriptor = cause.raw_os_error().is_some_and(|e| NO_DESCRIPTOR.contains(&e));
        let (kind, remedy) = match (full, no_descriptor) {
            (true, _) => (ErrorKind::NoSpace, ""),
            (_, true) => {
                (ErrorKind::TooManyFiles, "; raise the limit of the process (`ulimit -n`)")
            }
            _ => (ErrorKind::Io, ""),
        };
        let mut error = Self::new(kind, format!("failed to {doing}{remedy}"));
        error.0.source = Some(Arc::new(cause));
        error
    }

    /// A file of the database that could not be opened; `doing` as in [`Error::io`]. A missing file
    /// is [`ErrorKind::Corruption`]: it was made durable before the record that names it.
    #[cold]
    #[doc(hidden)]
    pub fn unopened(doing: impl fmt::Display, cause: io::Error) -> Self {
        if cause.kind() == io::ErrorKind::NotFound {
            let message = format!("failed to {doing}, which is missing; restore it from a backup");
            return Self::corruption(message);
        }
        Self::io(doing, cause)
    }

    /// A failed sync. Never [`ErrorKind::NoSpace`], whatever the cause: a write can be tried again
    /// after a full disk, but after a failed sync the content of the disk is unknown.
    #[cold]
    #[doc(hidden)]
    pub fn sync_failed(what: impl fmt::Display, cause: io::Error) -> Self {
        Self::lasting(format!("sync {what}"), cause)
    }

    /// A failed call that must not be retried, whatever the cause: never [`ErrorKind::NoSpace`].
    /// `doing` completes the sentence "failed to ...".
    #[cold]
    #[doc(hidden)]
    pub fn lasting(doing: impl fmt::Display, cause: io::Error) -> Self {
        let mut error = Self::new(ErrorKind::Io, format!("failed to {doing}"));
        error.0.source = Some(Arc::new(cause));
        error
    }

    /// An error of the program itself, of kind [`ErrorKind::Other`]: for the body of a transaction,
    /// which can return no other type. [`Error::downcast_ref`] finds it again.
    ///
    /// ```
    /// # use cleavedb_base::Error;
    /// let error = Error::other("the account is empty");
    /// assert_eq!(error.to_string(), "other: the program gave up: the account is empty");
    ///
    /// let error = Error::other("seven".parse::<u8>().unwrap_err());
    /// assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
    /// ```
    #[cold]
    pub fn other(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let mut error = Self::new(ErrorKind::Other, "the program gave up");
        error.0.source = Some(Arc::new(io::Error::other(cause)));
        error
    }

    /// The error that [`Error::other`] was given, if it was one of this type.
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.0.source.as_ref()?.get_ref()?.downcast_ref()
    }

    /// The error, with a remedy added if the disk is full or read-only. A read-only disk
    /// becomes [`ErrorKind::ReadOnly`].
    #[must_use]
    #[doc(hidden)]
    pub fn with_remedy(mut self) -> Self {
        let cause = self.0.source.as_ref().map(|e| e.kind());
        if cause == Some(io::ErrorKind::ReadOnlyFilesystem) {
            self.0.kind = ErrorKind::ReadOnly;
        }
        let remedy = match self.0.kind {
            ErrorKind::ReadOnly => "mount the disk for writing",
            ErrorKind::NoSpace => "make room on the disk",
            _ => return self,
        };
        if !self.0.message.ends_with(remedy) {
            self.0.message.push_str("; ");
            self.0.message.push_str(remedy);
        }
        self
    }

    /// The error with one more fact, printed as `name=value`.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.0.facts.push((name, value.to_string()));
        self
    }

    /// What a program matches on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence, without kind, facts and cause.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The value of the fact `name`, as printed.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.0.facts.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str())
    }

    /// The error that later writes get after this one: kind [`ErrorKind::Poisoned`], same cause.
    #[must_use]
    #[doc(hidden)]
    pub fn poisoned(&self) -> Self {
        let message = format!(
            "an earlier write failed ({self}); reads still work; reopen the database to write again"
        );
        let mut error = Self::new(ErrorKind::Poisoned, message);
        error.0.source = self.0.source.clone();
        error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind.name(), self.0.message)?;
        if let Some(cause) = &self.0.source {
            write!(f, ": {cause}")?;
        }
        for (i, (name, value)) in self.0.facts.iter().enumerate() {
            write!(f, "{}{name}={value}", if i == 0 { " (" } else { ", " })?;
        }
        if self.0.facts.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e.as_ref() as &(dyn std::error::Error + 'static))
    }
}

/// For programs whose calls return [`io::Result`]; the error is the source of the other one.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_and_why() {
        let cause = io::Error::other("device gone");
        let error =
            Error::io("read a block", cause).with("file", "000007.tbl").with("offset", 4096);
        assert_eq!(
            error.to_string(),
            "i/o error: failed to read a block: device gone (file=000007.tbl, offset=4096)"
        );
        assert_eq!(error.fact("offset"), Some("4096"));
        assert_eq!(error.poisoned().kind(), ErrorKind::Poisoned);
    }

    #[test]
    fn a_full_disk_has_its_own_kind() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(Error::io("append", full).kind(), ErrorKind::NoSpace);
    }

    #[test]
    fn a_process_without_descriptors_is_told_the_remedy() {
        for number in NO_DESCRIPTOR {
            let error = Error::io("open a table", io::Error::from_raw_os_error(number));
            assert_eq!(error.kind(), ErrorKind::TooManyFiles);
            assert!(error.message().contains("ulimit -n"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_missing_is_damage() {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        assert_eq!(Error::unopened("open a table", missing).kind(), ErrorKind::Corruption);
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(Error::unopened("open a table", refused).kind(), ErrorKind::Io);
    }

    #[test]
    fn a_remedy_is_said_once() {
        let cause = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        let error = Error::io("append", cause).with_remedy().with_remedy();
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
        assert_eq!(error.message(), "failed to append; mount the disk for writing");
        let full = Error::new(ErrorKind::NoSpace, "delete something, or make room on the disk");
        assert_eq!(full.clone().with_remedy().message(), full.message());
        let other = Error::io("append", io::Error::other("device gone")).with_remedy();
        assert_eq!(other.message(), "failed to append");
    }
}
