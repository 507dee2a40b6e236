//! Databases: opening, closing, work on all of it, metrics.

use std::ffi::c_int;

use cleavedb::{Db, Durability, Error, ErrorKind, Options, Result};
use cleavedb_named as named;

use super::errors::ErrorOut;
use crate::border::needed;
use crate::databases::{self, HeldDb};
use crate::handles::{Handle, export};
use crate::slices::{Chars, Malloced};

/// What `call` returns for the database of a handle.
pub(super) fn with<T>(db: &Handle<HeldDb>, call: impl FnOnce(&Db) -> Result<T>) -> Result<T> {
    needed(db.get(), "cleavedb_db")?.with(call)
}

/// Why options are refused.
pub(super) fn refused(what: String) -> Error {
    Error::new(ErrorKind::InvalidOptions, what)
}

/// The options of a text, if there is one.
fn options(text: &Chars) -> Result<Options> {
    named::options(named::words(text.utf8()?.unwrap_or_default())).map_err(refused)
}

export! {
    fn cleavedb_open(path: Chars, text: Chars; error: ErrorOut) -> Handle<HeldDb> {
        Ok(HeldDb::handle(Db::open(path.path()?, options(&text)?)?))
    }

    fn cleavedb_open_read_only(path: Chars, text: Chars; error: ErrorOut) -> Handle<HeldDb> {
        Ok(HeldDb::handle(Db::open_read_only_with(path.path()?, options(&text)?)?))
    }

    fn cleavedb_close(db: Handle<HeldDb>; error: ErrorOut) -> c_int {
        databases::close(db).map(|()| 0)
    }

    fn cleavedb_destroy(path: Chars; error: ErrorOut) -> c_int {
        Db::destroy(path.path()?).map(|_| 0)
    }

    fn cleavedb_sync(db: Handle<HeldDb>; error: ErrorOut) -> c_int {
        with(&db, Db::sync).map(|()| 0)
    }

    fn cleavedb_flush(db: Handle<HeldDb>; error: ErrorOut) -> c_int {
        with(&db, Db::flush).map(|()| 0)
    }

    fn cleavedb_compact(db: Handle<HeldDb>; error: ErrorOut) -> c_int {
        with(&db, |db| db.compact().and_then(|()| db.collect())).map(|()| 0)
    }

    fn cleavedb_verify(db: Handle<HeldDb>; error: ErrorOut) -> c_int {
        let report = with(&db, Db::verify)?;
        report.problems.into_iter().next().map_or(Ok(0), Err)
    }

    fn cleavedb_metrics(db: Handle<HeldDb>; error: ErrorOut) -> Malloced {
        with(&db, |db| Ok(Malloced::text(&db.metrics().to_prometheus(&[]))))
    }

    fn cleavedb_durability(db: Handle<HeldDb>; error: ErrorOut) -> c_int {
        with(&db, |db| Ok(match db.options().durability {
            Durability::Buffered => 1,
            Durability::Os => 2,
            Durability::Sync => 3,
        }))
    }

    fn cleavedb_free(memory: Malloced) {
        memory.free();
    }
}
