//! The features of LevelDB: batches, and iterators as cursors.

use cleavedb_bench::Result;
use cleavedb_bench::capabilities::{Batches, Capabilities, Cursor, Cursors};

use super::{Level, failed};
use crate::native::leveldb;

/// All of them.
pub(super) fn of(store: &Level) -> Capabilities<'_> {
    Capabilities { batches: Some(store), cursors: Some(store), ..Capabilities::default() }
}

impl Batches for Level {
    fn write_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        self.db.write(pairs).map_err(failed("batch"))
    }
}

impl Cursors for Level {
    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(Position(self.db.cursor())))
    }
}

/// A cursor.
struct Position<'a>(leveldb::Cursor<'a>);

impl Position<'_> {
    fn arrived(&self, action: &'static str) -> Result<bool> {
        if self.0.is_valid() {
            return Ok(true);
        }
        self.0.status().map_err(failed(action)).map(|()| false)
    }
}

impl Cursor for Position<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.0.seek(key);
        self.arrived("seek")
    }

    fn next(&mut self) -> Result<bool> {
        self.0.next();
        self.arrived("next")
    }

    fn prev(&mut self) -> Result<bool> {
        self.0.prev();
        self.arrived("prev")
    }

    fn show(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        if let Some((key, value)) = self.0.item() {
            visit(key, value);
        }
        Ok(())
    }
}
