//! Backups of a database that goes on: each has what was written before it, and nothing else.

use std::sync::Arc;

use cleavedb::reports::BackupReport;
use cleavedb::{BackupMode, Backups, Db, Error, Progress, RestoreMode};
use cleavedb_storage::{BackupStorage, FileKind, Storage};
use cleavedb_storage_sim::sim::{PowerLoss, SECTOR};
use cleavedb_storage_sim::{FaultyBackups, Sim};
use tempfile::TempDir;

use crate::disks::Disks;
use crate::generator::{Generator, Profile};
use crate::op::Op;
use crate::read::{Checked, everything};
use crate::session::{Session, open_all, open_read_only};
use crate::setup::Setup;
use crate::state::State;

/// Operations before each backup.
const OPS: usize = 50;

/// Backups that are made between operations.
const BACKUPS: usize = 3;

fn failed(error: Error) -> String {
    error.to_string()
}

/// A directory of backups on a real disk, removed on drop.
pub struct Shelf {
    _dir: TempDir,
    /// The storage of the directory, which may fail.
    pub storage: Arc<FaultyBackups>,
    /// The backups in it.
    pub backups: Backups,
}

impl Default for Shelf {
    fn default() -> Self {
        Self::with(|storage| storage)
    }
}

impl Shelf {
    /// An empty directory, whose storage is changed by `change`.
    ///
    /// # Panics
    /// If there is no directory for temporary files.
    pub fn with(change: impl FnOnce(FaultyBackups) -> FaultyBackups) -> Self {
        let dir = tempfile::tempdir().expect("a directory for temporary files");
        let storage = FaultyBackups::open(dir.path()).expect("it was just made");
        let storage = Arc::new(change(storage));
        Self { _dir: dir, backups: Backups::open_in(storage.clone()), storage }
    }

    /// Makes a backup of `db`.
    pub fn back_up(&self, db: &Db) -> Result<BackupReport, Error> {
        db.backup_in(&*self.storage, BackupMode::Incremental, &Progress::default())
    }

    /// The storage of the backups.
    pub fn as_storage(&self) -> &dyn BackupStorage {
        &*self.storage
    }

    /// Compares backup `number` with its model, and checks all of it.
    pub fn compare(&self, number: u64, model: &State) -> Checked {
        let named = |failure: String| format!("backup {number}: {failure}");
        let (_, db) = self.backups.open_backup(Some(number)).map_err(failed).map_err(named)?;
        if everything(db.default_keyspace()).map_err(named)? != *model {
            return Err(named("the content differs from the model".to_owned()));
        }
        let checked = self.backups.verify(Some(number), &Progress::default()).map_err(failed)?;
        match checked.problems.first() {
            Some(problem) => Err(named(problem.to_string())),
            None => Ok(()),
        }
    }

    /// Restores backup `number` in an empty directory, which is not that of another database.
    pub fn restored(&self, number: u64, directory_id: u64) -> Result<Sim, Error> {
        let target = Sim::new();
        target.set_directory_id(directory_id);
        let to: Arc<dyn Storage> = Arc::new(target.clone());
        let mode = RestoreMode::Checked;
        self.backups.restore_in(Some(number), &to, mode, &Progress::default()).map(|_| target)
    }
}

/// Makes backups between operations, in each of which the process may die, and compares each with
/// the model of its moment, while the database goes on; then removes some, and goes on with the
/// first and the last one, of which backups are made in the same directory.
pub fn backups_have_all(setup: &Setup, seed: u64) -> Checked {
    let ops = Generator::new(seed, Profile::model()).take((BACKUPS + 1) * OPS);
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    let (shelf, mut models) = (Shelf::default(), Vec::new());
    for part in ops.chunks(OPS).take(BACKUPS) {
        part.iter().try_for_each(|op| session.run(op))?;
        shelf.back_up(session.db()).map_err(failed)?;
        models.push(session.model().clone());
    }
    let more = &ops[BACKUPS * OPS..];
    more.iter().try_for_each(|op| session.run(op))?;
    let compare_all = || (1..).zip(&models).try_for_each(|(n, model)| shelf.compare(n, model));
    compare_all()?;
    let first = shelf.restored(1, 77).map_err(failed)?;
    let removed = shelf.backups.prune(1).map_err(failed)?;
    let last = BACKUPS as u64;
    if removed != Vec::from_iter(1..last) {
        return Err(format!("removed {removed:?}"));
    }
    shelf.compare(last, &models[BACKUPS - 1])?;
    let newest = shelf.restored(last, 78).map_err(failed)?;
    for (restored, model) in [(first, &models[0]), (newest, &models[BACKUPS - 1])] {
        let setup = setup.clone().in_one_directory();
        let storages: Vec<Arc<dyn Storage>> = vec![Arc::new(restored)];
        let mut copy = Session::open(storages, &setup, model.clone())?;
        copy.compare_all().map_err(|failure| format!("restored: {failure}"))?;
        let alive = more.iter().filter(|op| !matches!(op, Op::Kill));
        alive.clone().try_for_each(|op| copy.run(op))?;
        let made = shelf.back_up(copy.db()).map_err(failed)?;
        shelf.compare(made.number, copy.model())?;
    }
    shelf.compare(last, &models[BACKUPS - 1])?;
    session.compare_all()
}

/// Most states of the disk for each crash of a restore.
const STATES_MAX: usize = 6;

/// Cuts the power at sampled moments of a restore: what a reader then finds is no database, or all
/// of it; and all of it at the end.
pub fn a_restore_survives_a_loss_of_power(setup: &Setup, seed: u64) -> Checked {
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    let ops = Generator::new(seed, Profile::model()).take(OPS);
    ops.iter().try_for_each(|op| session.run(op))?;
    let shelf = Shelf::default();
    shelf.back_up(session.db()).map_err(failed)?;
    let target = Sim::new();
    target.set_directory_id(77);
    let to: Arc<dyn Storage> = Arc::new(target.clone());
    let (mode, progress) = (RestoreMode::Unchecked, Progress::default());
    shelf.backups.restore_in(None, &to, mode, &progress).map_err(failed)?;
    let setup = setup.clone().in_one_directory();
    let options = PowerLoss { states_max: STATES_MAX, seed, ..PowerLoss::default() };
    let mut replay = target.replay(SECTOR);
    let end = replay.last_point();
    for point in (0..end).filter(|point| point % 4 == seed as usize % 4).chain([end]) {
        replay.advance(point);
        for image in replay.power_loss(&options) {
            let sim = Sim::from_image(image);
            let files = sim.list().map_err(|e| e.to_string())?;
            if point < end && files.iter().all(|(name, _)| name.kind() != FileKind::Current) {
                continue;
            }
            let named = |failure: String| format!("a crash at {point} of {end}: {failure}");
            let db = open_read_only(&[Arc::new(sim)], &setup).map_err(failed).map_err(named)?;
            if everything(db.default_keyspace()).map_err(named)? != *session.model() {
                return Err(named("the content differs from the model".to_owned()));
            }
        }
    }
    Ok(())
}

/// Keys of the database that is set back.
const KEYS: u64 = 300;

/// Sets the disks of a database back to an earlier state, and lets it write other values, so that
/// it makes files of the same names and lengths as before; fails if a backup has any of the values
/// that are in the backup before it.
pub fn a_backup_after_a_disk_was_set_back(setup: &Setup) -> Checked {
    let write = |db: &Db, fill: u8| -> Checked {
        for key in 0..KEYS {
            db.put(key.to_be_bytes(), vec![fill; 200 + key as usize % 7 * 300]).map_err(failed)?;
        }
        db.flush().and_then(|()| db.collect()).map_err(failed)
    };
    let opened = |disks: &Disks| open_all(&disks.storages(), setup).map_err(failed);
    let shelf = Shelf::default();
    let disks = Disks::forgetful(setup);
    let db = opened(&disks)?;
    write(&db, 1)?;
    db.close().map_err(failed)?;
    let before = disks.images();
    for (number, fill) in [(1, 2), (2, 3)] {
        let disks = Disks::from_images(&before, setup);
        disks.stop_recording();
        let db = opened(&disks)?;
        write(&db, fill)?;
        shelf.back_up(&db).map_err(failed)?;
        shelf.compare(number, &everything(db.default_keyspace())?)?;
    }
    Ok(())
}
