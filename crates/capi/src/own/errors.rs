//! Errors as handles: their kind, message, path and key.

use std::ffi::c_int;

use cleavedb::{Error, ErrorKind};

use crate::border::ErrorPlace;
use crate::handles::{Handle, export};
use crate::slices::{LentOut, OutPlace};

/// An error that C holds. Texts end in a NUL.
pub(super) struct HeldError {
    kind: c_int,
    message: String,
    path: Option<String>,
    key: Option<String>,
}

/// Where a function of `cleavedb.h` puts its error.
pub(super) type ErrorOut = OutPlace<Handle<HeldError>>;

impl ErrorPlace for ErrorOut {
    fn put(&self, error: &Error) {
        let fact = |name| error.fact(name).map(|fact| format!("{fact}\0"));
        self.set(Handle::new(HeldError {
            kind: number(error.kind()),
            message: format!("{error}\0"),
            path: fact("path").or_else(|| fact("file")),
            key: fact("key"),
        }));
    }
}

/// The number of a kind in the header, for good.
fn number(kind: ErrorKind) -> c_int {
    match kind {
        ErrorKind::InvalidArgument => 1,
        ErrorKind::InvalidOptions => 2,
        ErrorKind::NotADatabase => 3,
        ErrorKind::MissingVolume => 4,
        ErrorKind::NewerFormat => 5,
        ErrorKind::LayoutMismatch => 6,
        ErrorKind::AlreadyExists => 7,
        ErrorKind::NoKeyspace => 8,
        ErrorKind::Locked => 9,
        ErrorKind::Corruption => 10,
        ErrorKind::Io => 11,
        ErrorKind::NoSpace => 12,
        ErrorKind::Poisoned => 13,
        ErrorKind::Conflict => 14,
        ErrorKind::Merge => 15,
        ErrorKind::Held => 16,
        ErrorKind::Outdated => 17,
        ErrorKind::NotRetained => 18,
        ErrorKind::Closed => 19,
        ErrorKind::Stopped => 20,
        ErrorKind::ReadOnly => 21,
        ErrorKind::Forked => 22,
        ErrorKind::TooManyFiles => 23,
        ErrorKind::Stalled => 24,
        // Kinds of later releases get numbers with them.
        _ => 25,
    }
}

fn text(text: Option<&String>) -> LentOut {
    text.map_or_else(LentOut::null, |text| LentOut::bytes(text.as_bytes()))
}

export! {
    fn cleavedb_error_kind(error: Handle<HeldError>) -> c_int {
        error.get().map_or(0, |it| it.kind)
    }

    fn cleavedb_error_message(error: Handle<HeldError>) -> LentOut {
        text(error.get().map(|it| &it.message))
    }

    fn cleavedb_error_path(error: Handle<HeldError>) -> LentOut {
        text(error.get().and_then(|it| it.path.as_ref()))
    }

    fn cleavedb_error_key(error: Handle<HeldError>) -> LentOut {
        text(error.get().and_then(|it| it.key.as_ref()))
    }

    fn cleavedb_error_free(error: Handle<HeldError>) {
        drop(error.take());
    }
}
