//! Ends of sessions, and copies: checkpoints, backups, readers, secondaries.

use std::sync::Arc;

use cleavedb_storage::Storage;
use cleavedb_storage_sim::Sim;

use super::Together;
use super::content::failed;
use crate::backups::Shelf;
use crate::read::Checked;
use crate::session::{open, open_all, open_read_only, open_secondary};

impl Together {
    /// Closes the database, or kills its process, and opens it again, now and then for reading
    /// only first.
    pub(super) fn reopen(&mut self, kills: bool) -> Checked {
        self.tell(if kills { "kill" } else { "reopen" });
        self.leave_all();
        let db = self.db.take().expect("it is open");
        if kills {
            self.disks = self.disks.kill();
            // Followers read what is there; the handle belongs to a process that is gone.
            self.beside = None;
            drop(db);
            self.look_beside()?;
        } else {
            db.close().map_err(failed)?;
        }
        if self.rng.chance(30) {
            let db = open_read_only(&self.disks.storages(), &self.setup).map_err(failed)?;
            self.content.check(&db).map_err(|e| format!("a reader: {e}"))?;
        }
        self.db = Some(open_all(&self.disks.storages(), &self.setup).map_err(failed)?);
        self.content.check(self.db()).map_err(|e| format!("after the open: {e}"))
    }

    fn look_beside(&mut self) -> Checked {
        let db = match self.beside.take() {
            Some(db) => {
                db.catch_up().map_err(failed)?;
                db
            }
            None => open_secondary(&self.disks.storages(), &self.setup).map_err(failed)?,
        };
        self.content.check(&db).map_err(|e| format!("a secondary: {e}"))?;
        if let Some(feed) = &self.feed {
            feed.check_told(&db).map_err(|e| format!("a secondary: {e}"))?;
        }
        self.beside = Some(db);
        Ok(())
    }

    /// A secondary catches up.
    pub(super) fn catch_up(&mut self) -> Checked {
        self.tell("a secondary catches up");
        self.look_beside()
    }

    fn check_copy(&self, copy: Sim) -> Checked {
        let setup = self.setup.clone().in_one_directory();
        let db = open(Arc::new(copy), &setup).map_err(failed)?;
        self.content.check(&db)?;
        db.flush().and_then(|()| db.compact()).and_then(|()| db.collect()).map_err(failed)?;
        self.content.check(&db).map_err(|e| format!("after its jobs: {e}"))?;
        db.close().map(drop).map_err(failed)
    }

    /// Makes a checkpoint, which must have everything.
    pub(super) fn checkpoint(&mut self) -> Checked {
        self.tell("a checkpoint");
        let target = Sim::new();
        target.set_directory_id(77);
        self.db().checkpoint_in(Arc::new(target.clone()) as Arc<dyn Storage>).map_err(failed)?;
        self.check_copy(target).map_err(|e| format!("a checkpoint: {e}"))
    }

    /// Makes a backup, and restores it.
    pub(super) fn back_up(&mut self) -> Checked {
        self.tell("a backup");
        let shelf = self.shelf.get_or_insert_with(Shelf::default);
        let db = self.db.as_ref().expect("it is open");
        let made = shelf.back_up(db).map_err(failed)?;
        let restored = shelf.restored(made.number, 78).map_err(failed)?;
        self.check_copy(restored).map_err(|e| format!("a backup: {e}"))
    }
}
