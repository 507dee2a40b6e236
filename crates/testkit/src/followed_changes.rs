//! Changes as a secondary tells them: what the primary committed, in order, exactly once, whatever
//! becomes of its process and of its log.

use std::sync::{Arc, OnceLock};

use cleavedb::{ChangeBatch, Changes, Db, Durability, Error, ErrorKind};
use cleavedb_base::sync::atomic::AtomicU64;
use cleavedb_storage::{Storage, StorageLayer};
use cleavedb_storage_sim::sim::{DirectoryOrder, PowerLoss, Rng};

use crate::disks::Disks;
use crate::follow::{ALL, Follower, failed, keeping, profile, rest_from_any};
use crate::generator::Generator;
use crate::op::Op;
use crate::read::Checked;
use crate::secondary::{Flickering, readable};
use crate::session::{Session, open_all, open_secondary};
use crate::setup::Setup;
use crate::state::State;

/// Operations of one sequence.
const OPS: usize = 100;

/// Chance, in percent, that the secondary catches up after an operation, and that it waits then.
const CATCH_UPS: u64 = 40;
const WAITS: u64 = 30;

/// A directory that is another one later: what a process leaves that dies, in its place.
struct Succeeded {
    first: Arc<dyn Storage>,
    next: OnceLock<Arc<Succeeded>>,
}

impl Succeeded {
    fn new(first: Arc<dyn Storage>) -> Arc<Self> {
        Arc::new(Self { first, next: OnceLock::new() })
    }

    /// From now on it is `next`.
    fn by(&self, next: Arc<dyn Storage>) {
        match self.next.get() {
            Some(later) => later.by(next),
            None => _ = self.next.set(Self::new(next)),
        }
    }
}

impl StorageLayer for Succeeded {
    fn inner(&self) -> &dyn Storage {
        self.next.get().map_or(&*self.first, |next| next.inner())
    }
}

/// The directories of `disks`, each to be succeeded.
fn succeeded(disks: &[Arc<dyn Storage>]) -> Vec<Arc<Succeeded>> {
    disks.iter().cloned().map(Succeeded::new).collect()
}

fn opened(disks: &[Arc<Succeeded>], setup: &Setup) -> Checked<Db> {
    let storages: Vec<_> = disks.iter().map(|disk| disk.clone() as Arc<dyn Storage>).collect();
    open_secondary(&storages, setup).map_err(failed)
}

fn succeed(disks: &[Arc<Succeeded>], next: &[Arc<dyn Storage>]) {
    disks.iter().zip(next).for_each(|(disk, next)| disk.by(next.clone()));
}

/// A secondary with a reader of changes that stays, over all sessions of the primary.
struct Beside {
    disks: Vec<Arc<Succeeded>>,
    db: Db,
    changes: Changes,
    told: Follower,
}

impl Beside {
    fn new(session: &Session, setup: &Setup) -> Checked<Self> {
        let disks = succeeded(session.storages());
        let db = opened(&disks, setup)?;
        let changes = db.changes(1).map_err(failed)?;
        Ok(Self { disks, db, changes, told: Follower::new(1) })
    }

    /// What is told now makes up `model`.
    fn compare(&mut self, model: &State, now: u64, waits: bool) -> Checked {
        match waits {
            true => _ = self.changes.wait(std::time::Duration::ZERO),
            false => _ = self.db.catch_up().map_err(failed)?,
        }
        self.told.apply(&self.db, self.changes.by_ref(), now)?;
        if self.told.state != *model {
            let last = self.told.batches.last();
            return Err(format!("another content was told: {last:?}"));
        }
        Ok(())
    }
}

/// Runs operations drawn by `seed`; wherever a secondary has caught up, what it was told is the
/// content. Its reader outlives flushes, closes, kills and recoveries of the primary.
pub fn a_secondary_is_told_the_content(setup: &Setup, seed: u64) -> Checked {
    let setup = &keeping(setup, ALL);
    let mut profile = profile(seed);
    if profile.loads > 0 || setup.has_blobs() {
        // What is not told is read as it is now, and a later merge would change it once more.
        profile.merges = 0;
    }
    let mut rng = Rng::new(seed);
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    let mut beside: Option<Beside> = None;
    for (at, op) in Generator::new(seed, profile).take(OPS).into_iter().enumerate() {
        let op = readable(op, setup);
        let named = |e: String| format!("operation {at}, {op:?}: {e}");
        match (&mut beside, &op) {
            (Some(beside), Op::Kill) => {
                // The files of the dead process, and then those of the one that recovers them.
                session.leave(false)?;
                succeed(&beside.disks, session.storages());
                if rng.chance(CATCH_UPS) {
                    beside.compare(session.model(), setup.now(), false).map_err(named)?;
                }
                session.run(&Op::Reopen)?;
            }
            _ => session.run(&op)?,
        }
        match &mut beside {
            None if session.db().snapshot().seq() > 0 => {
                beside = Some(Beside::new(&session, setup).map_err(named)?);
            }
            Some(beside) if rng.chance(CATCH_UPS) => {
                let waits = rng.chance(WAITS);
                beside.compare(session.model(), setup.now(), waits).map_err(named)?;
            }
            _ => {}
        }
    }
    let Some(mut beside) = beside else { return Ok(()) };
    beside.compare(session.model(), setup.now(), false)?;
    rest_from_any(&beside.db, &beside.told.batches)?;
    rest_from_any(session.db(), &beside.told.batches)
}

/// What a secondary reads of the window while the primary changes it is not the end of the changes.
pub fn a_torn_window_hides_no_change(setup: &Setup) -> Checked {
    let setup = &keeping(setup, ALL);
    let disks = Disks::forgetful(setup);
    let primary = open_all(&disks.storages(), setup).map_err(failed)?;
    let reads = Arc::new(AtomicU64::new(0));
    let over = |inner| -> Arc<dyn Storage> { Arc::new(Flickering { inner, reads: reads.clone() }) };
    let storages: Vec<_> = disks.storages().into_iter().map(over).collect();
    primary.put_with("key", "first", Durability::Os).map_err(failed)?;
    let secondary = open_secondary(&storages, setup).map_err(failed)?;
    let mut changes = secondary.changes(1).map_err(failed)?;
    let mut seen = 0;
    for round in 1..=30_usize {
        secondary.catch_up().map_err(failed)?;
        for batch in changes.by_ref() {
            (seen, _) = (seen + 1, batch.map_err(failed)?);
        }
        if seen != round {
            return Err(format!("{setup}: {seen} batches of {round} were told"));
        }
        primary.put_with("key", [round as u8; 100], Durability::Os).map_err(failed)?;
    }
    Ok(())
}

/// A secondary has told what a loss of power takes from the primary: its reader is told so, and one
/// of durable changes goes on. `state` chooses what is lost. Returns whether something was.
pub fn a_loss_is_told(setup: &Setup, state: usize) -> Checked<bool> {
    let setup = &keeping(setup, ALL);
    let disks = Disks::new(setup);
    let primary = open_all(&disks.storages(), setup).map_err(failed)?;
    let beside = succeeded(&disks.storages());
    primary.put_with("safe", "1", Durability::Sync).map_err(failed)?;
    let secondary = opened(&beside, setup)?;
    let mut any = secondary.changes(1).map_err(failed)?;
    let mut durable = secondary.changes(1).map_err(failed)?.durable_only();
    for key in 0..9_u8 {
        primary.put_with([key], [key; 3000], Durability::Os).map_err(failed)?;
    }
    secondary.catch_up().map_err(failed)?;
    let told = |changes: &mut Changes| changes.by_ref().collect::<Result<Vec<_>, Error>>();
    let (all, safe) = (told(&mut any).map_err(failed)?, told(&mut durable).map_err(failed)?);
    if all.len() != 10 || !all.starts_with(&safe) || safe.is_empty() {
        return Err(format!("{} batches and {} durable ones were told", all.len(), safe.len()));
    }
    let mut replay = disks.replay();
    replay.advance(disks.time());
    let options = PowerLoss { directory: DirectoryOrder::Prefix, states_max: 8, seed: 1 };
    let left = replay.power_loss(&options);
    let left = Disks::from_images(&left[state % left.len()], setup);
    let primary = open_all(&left.storages(), setup).map_err(failed)?;
    primary.put_with("new", "2", Durability::Sync).map_err(failed)?;
    succeed(&beside, &left.storages());
    secondary.catch_up().map_err(failed)?;
    let now = primary.changes(1).map_err(failed)?.collect::<Result<Vec<_>, Error>>();
    let now: Vec<ChangeBatch> = now.map_err(failed)?;
    let is_lost = !now.starts_with(&all);
    match told(&mut any) {
        Err(e) if is_lost && e.kind() == ErrorKind::NotRetained => {}
        Ok(new) if !is_lost && now[all.len()..] == new => {}
        Ok(new) => return Err(format!("after a loss ({is_lost}) {} were told", new.len())),
        Err(e) => return Err(format!("after a loss ({is_lost}): {e}")),
    }
    match told(&mut durable) {
        Ok(rest) if now.starts_with(&safe) && now[safe.len()..] == rest => Ok(is_lost),
        Ok(rest) => Err(format!("{} durable changes were told", rest.len())),
        Err(e) => Err(format!("of durable changes {e} was told")),
    }
}

/// With little log kept, a secondary that keeps up is told everything, and one that falls behind
/// that changes are missing. Returns whether some were.
pub fn a_slow_secondary_is_told_so(setup: &Setup, seed: u64) -> Checked<bool> {
    let setup = &keeping(setup, 20 << 10);
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    session.run(&Op::Flush)?;
    session.db().put("first", "1").map_err(failed)?;
    let disks = succeeded(session.storages());
    let (fast, slow) = (opened(&disks, setup)?, opened(&disks, setup)?);
    let mut changes = [fast.changes(1).map_err(failed)?, slow.changes(1).map_err(failed)?];
    let mut told = Vec::new();
    for at in 0..200_usize {
        let value = vec![at as u8; 100 + (at * (seed as usize + 7)) % 900];
        session.db().put_with("key", value, Durability::Os).map_err(failed)?;
        while session.db().step().map_err(failed)? {}
        changes[0].wait(std::time::Duration::ZERO);
        for batch in changes[0].by_ref() {
            told.push(batch.map_err(failed)?.first);
        }
        if told.len() != at + 2 {
            return Err(format!("{} batches of {} were told", told.len(), at + 2));
        }
    }
    // The view of the late reader is as old as its open, and files that it names may be gone.
    let (mut late, mut is_told) = (Vec::new(), false);
    for _ in 0..2 {
        for batch in changes[1].by_ref() {
            match batch {
                Ok(batch) => late.push(batch.first),
                Err(e) if e.kind() == ErrorKind::NotRetained => {
                    is_told = true;
                    break;
                }
                Err(e) => return Err(format!("a reader that fell behind: {e}")),
            }
        }
        slow.catch_up().map_err(failed)?;
    }
    if !told.starts_with(&late) || !is_told && late != told {
        return Err(format!("one that fell behind was told {late:?}, instead of {told:?}"));
    }
    let oldest = slow.oldest_change().ok_or("no changes are kept")?;
    let rest = slow.changes(oldest).map_err(failed)?.collect::<Result<Vec<_>, Error>>();
    let rest: Vec<u64> = rest.map_err(failed)?.iter().map(|batch| batch.first).collect();
    match !rest.is_empty() && told.ends_with(&rest) {
        true => Ok(is_told),
        false => Err(format!("from {oldest} on {rest:?} are told, instead of the end of {told:?}")),
    }
}
