//! Copies and checks of a store that goes on while they are made, without its help.

use std::io;
use std::sync::Arc;

use cleavedb::{Db, Durability, Error, Progress, WriteBatch};
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_storage::{Access, File, Mode, Name, Storage, StorageLayer};
use cleavedb_storage_sim::Sim;

use crate::backups::Shelf;
use crate::disks::Disks;
use crate::generator::{Generator, Profile};
use crate::op::Op;
use crate::read::Checked;
use crate::secondary::readable;
use crate::session::{Session, open_all, open_read_only, open_secondary};
use crate::setup::Setup;
use crate::state::State;

/// Operations before each copy, and copies.
const OPS: usize = 40;
const COPIES: usize = 3;

fn failed(error: Error) -> String {
    error.to_string()
}

/// An empty directory that is not that of another database.
fn other_directory() -> Sim {
    let sim = Sim::new();
    sim.set_directory_id(77);
    sim
}

/// Has a secondary make checkpoints and backups between operations of its primary, which are not
/// told of it; each must equal the model of its moment, and the backups stay as they are.
pub fn copies_of_a_followed_store(setup: &Setup, seed: u64) -> Checked {
    let ops = Generator::new(seed, Profile::model()).take((COPIES + 1) * OPS);
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    let (shelf, mut models) = (Shelf::default(), Vec::new());
    for part in ops.chunks(OPS) {
        for op in part.iter().filter(|op| !matches!(op, Op::Kill)) {
            session.run(&readable(op.clone(), setup))?;
        }
        let secondary = open_secondary(session.storages(), setup).map_err(failed)?;
        let target: Arc<dyn Storage> = Arc::new(other_directory());
        secondary.checkpoint_in(target.clone()).map_err(failed)?;
        let copied = setup.clone().in_one_directory();
        let copy = Session::open(vec![target], &copied, session.model().clone())?;
        copy.compare_all().map_err(|failure| format!("the checkpoint: {failure}"))?;
        shelf.back_up(&secondary).map_err(failed)?;
        models.push(session.model().clone());
    }
    (1..).zip(&models).try_for_each(|(number, model)| shelf.compare(number, model))
}

/// A storage that something happens beside, before each file that is opened and each list.
struct Meddled {
    inner: Arc<dyn Storage>,
    meddle: Arc<dyn Fn() + Send + Sync>,
}

impl StorageLayer for Meddled {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        (self.meddle)();
        self.inner.open(name, mode, access)
    }

    fn list(&self) -> io::Result<Vec<(Name, u64)>> {
        (self.meddle)();
        self.inner.list()
    }
}

/// Keys of a store that is changed, and how often it is changed under one call at most.
const KEYS: u8 = 60;
const CHANGES: u64 = 4;

/// Writes all keys anew, and drops the files with the values before.
fn overwrite(db: &Db, round: u64) -> Result<(), Error> {
    let mut batch = WriteBatch::new();
    for key in 0..KEYS {
        batch.put([key], [round as u8; 300])?;
    }
    db.write_with(&batch, Durability::Os)?;
    db.flush()?;
    db.compact()?;
    db.collect()
}

/// A primary, and a secondary under whose calls it changes: before each `every`th file that is
/// opened, once it is told to.
struct Changing {
    secondary: Db,
    round: Arc<AtomicU64>,
    /// Changes that are still to come.
    left: Arc<AtomicU64>,
}

impl Changing {
    fn new(setup: &Setup, every: u64) -> Result<Self, Error> {
        let disks = Disks::forgetful(setup);
        let primary = open_all(&disks.storages(), setup)?;
        let round = Arc::new(AtomicU64::new(1));
        overwrite(&primary, 1)?;
        let (left, calls) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
        let (rounds, changes) = (round.clone(), left.clone());
        let meddle: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            let is_due = calls.fetch_add(1, Ordering::Relaxed) % every == every - 1;
            if is_due && changes.load(Ordering::Relaxed) > 0 {
                changes.fetch_sub(1, Ordering::Relaxed);
                let round = rounds.fetch_add(1, Ordering::Relaxed) + 1;
                overwrite(&primary, round).expect("the disk is simulated");
            }
        });
        let over =
            |inner| -> Arc<dyn Storage> { Arc::new(Meddled { inner, meddle: meddle.clone() }) };
        let storages: Vec<_> = disks.storages().into_iter().map(over).collect();
        Ok(Self { secondary: open_secondary(&storages, setup)?, round, left })
    }

    /// Has the primary change under `call`. Returns its answer, and the last round before it.
    fn under<T>(&self, call: impl FnOnce(&Db) -> Result<T, Error>) -> Result<(T, u64), String> {
        let before = self.round.load(Ordering::Relaxed);
        self.left.store(CHANGES, Ordering::Relaxed);
        let answer = call(&self.secondary);
        match self.left.swap(0, Ordering::Relaxed) {
            CHANGES => Err("nothing has changed under the call".to_owned()),
            _ => Ok((answer.map_err(failed)?, before)),
        }
    }
}

/// Whether `db` is one moment, not before round `least`, and undamaged.
fn is_one_moment(db: &Db, least: u64) -> Checked {
    let values = (0..KEYS).map(|key| db.get([key]));
    let values = values.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let rounds: Vec<_> =
        values.iter().map(|value| Some(u64::from(*value.as_ref()?.first()?))).collect();
    if rounds.iter().any(|round| *round != rounds[0] || round.is_none_or(|it| it < least)) {
        return Err(format!("the rounds of a copy since {least}: {rounds:?}"));
    }
    match db.verify().map_err(failed)?.problems.first() {
        Some(problem) => Err(problem.to_string()),
        None => Ok(()),
    }
}

/// Makes a checkpoint and backups of a primary that drops all its files now and then while they
/// are copied: each is of one moment, which is not before the call.
pub fn copies_of_a_changing_store(setup: &Setup, every: u64) -> Checked {
    let changing = Changing::new(setup, every).map_err(failed)?;
    let target: Arc<dyn Storage> = Arc::new(other_directory());
    let (_, least) = changing.under(|db| db.checkpoint_in(target.clone()))?;
    let copied = setup.clone().in_one_directory();
    is_one_moment(&open_read_only(&[target], &copied).map_err(failed)?, least)?;
    let shelf = Shelf::default();
    for number in 1..3 {
        let (made, least) = changing.under(|db| shelf.back_up(db))?;
        let (_, backup) = shelf.backups.open_backup(Some(number)).map_err(failed)?;
        is_one_moment(&backup, least).map_err(|failure| format!("{made:?}: {failure}"))?;
    }
    Ok(())
}

/// Checks a primary that drops all its files now and then under the check: that is no damage.
pub fn checks_of_a_changing_store(setup: &Setup, every: u64) -> Checked {
    let changing = Changing::new(setup, every).map_err(failed)?;
    let (report, _) = changing.under(|db| db.verify_with(&Progress::default()))?;
    match report.problems.first() {
        Some(problem) => Err(problem.to_string()),
        None => Ok(()),
    }
}
