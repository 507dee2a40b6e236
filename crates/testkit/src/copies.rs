//! A copy of a database beside its original: of a directory, and by a checkpoint.

use std::sync::Arc;

use cleavedb::Error;
use cleavedb_storage::{Name, Storage};
use cleavedb_storage_sim::Sim;

use crate::disks::Disks;
use crate::generator::{Generator, Profile};
use crate::op::Op;
use crate::read::Checked;
use crate::session::{Session, open};
use crate::setup::Setup;
use crate::state::State;

/// Operations before a checkpoint, and after it.
const OPS: usize = 60;

/// Copies a database, closed or open, and writes to both; fails if both create a file of one name.
pub fn a_copy_stays_apart(setup: &Setup, closed: bool) -> Checked {
    let failed = |e: Error| e.to_string();
    let opened = |sim: &Sim| open(Arc::new(sim.clone()), setup).map_err(failed);
    let original = Sim::new();
    let db = opened(&original)?;
    db.put(b"shared", [1; 300]).map_err(failed)?;
    let mut open = Some(db);
    if let Some(db) = open.take_if(|_| closed) {
        db.close().map_err(failed)?;
    }
    let copy = Sim::from_image(original.image());
    copy.set_directory_id(2);
    if let Some(db) = open {
        db.close().map_err(failed)?;
    }
    let names = |sim: &Sim| -> Result<Vec<Name>, String> {
        let files = sim.list().map_err(|e| e.to_string())?;
        Ok(files.into_iter().map(|(name, _)| name).collect())
    };
    let before = names(&original)?;
    for (sim, value) in [(&original, [2; 300]), (&copy, [3; 300])] {
        let db = opened(sim)?;
        db.put(b"own", value).and_then(|()| db.flush()).map_err(failed)?;
        db.close().map_err(failed)?;
        let db = opened(sim)?;
        for (key, expected) in [(&b"own"[..], value), (b"shared", [1; 300])] {
            if db.get(key).map_err(failed)?.as_deref() != Some(&expected[..]) {
                return Err(format!("{} has another value", key.escape_ascii()));
            }
        }
    }
    let of_copy = names(&copy)?;
    let both = |name: &Name| name.number().0 > 0 && of_copy.contains(name);
    match names(&original)?.iter().find(|name| !before.contains(name) && both(name)) {
        Some(name) => Err(format!("the original and its copy both created {name}")),
        None => Ok(()),
    }
}

/// Makes a checkpoint of a database with operations in every place, and compares it with the model;
/// goes on with both.
pub fn a_checkpoint_has_all(setup: &Setup, seed: u64) -> Checked {
    let failed = |e: Error| format!("checkpoint: {e}");
    let ops = Generator::new(seed, Profile::model()).take(2 * OPS);
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    ops[..OPS].iter().try_for_each(|op| session.run(op))?;
    let target = Sim::new();
    target.set_directory_id(77);
    session.db().checkpoint_in(Arc::new(target.clone())).map_err(failed)?;
    let setup = setup.clone().in_one_directory();
    let mut copy = Session::open(vec![Arc::new(target)], &setup, session.model().clone())?;
    copy.compare_all().map_err(|failure| format!("the copy: {failure}"))?;
    copy.verify()?;
    for op in &ops[OPS..] {
        session.run(op)?;
        if !matches!(op, Op::Kill) {
            copy.run(op).map_err(|failure| format!("the copy: {failure}"))?;
        }
    }
    session.compare_all()?;
    copy.compare_all().map_err(|failure| format!("the copy, at its end: {failure}"))
}
