//! Checkpoints and backups.

use std::ffi::c_int;

use cleavedb::Backups;

use super::db::with;
use super::errors::ErrorOut;
use crate::databases::HeldDb;
use crate::handles::{Handle, export};
use crate::slices::Chars;

export! {
    fn cleavedb_checkpoint(db: Handle<HeldDb>, path: Chars; error: ErrorOut) -> c_int {
        let path = path.path()?;
        with(&db, |db| db.checkpoint(path)).map(|_| 0)
    }

    fn cleavedb_backup(db: Handle<HeldDb>, backups: Chars; error: ErrorOut) -> c_int {
        let path = backups.path()?;
        with(&db, |db| db.backup(path)).map(|_| 0)
    }

    fn cleavedb_restore(backups: Chars, number: u64, path: Chars; error: ErrorOut) -> c_int {
        let number = (number > 0).then_some(number);
        Backups::open(backups.path()?)?.restore(number, path.path()?).map(|_| 0)
    }
}
