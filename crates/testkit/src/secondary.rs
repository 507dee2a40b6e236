//! A secondary that follows a primary step by step, and must equal the model wherever it has caught
//! up.

use std::io;
use std::sync::Arc;

use cleavedb::{Db, Durability, ErrorKind, Snapshot};
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_storage::{
    Access, File, FileKind, FileLayer, Mode, Name, Storage, StorageLayer, WINDOW_HEADER_LEN,
};
use cleavedb_storage_sim::sim::Rng;

use crate::disks::Disks;
use crate::generator::{Generator, Profile};
use crate::op::Op;
use crate::read::{Checked, everything};
use crate::session::{Session, open_secondary};
use crate::setup::Setup;
use crate::state::State;

/// Operations of one sequence.
const OPS: usize = 120;

/// Chance, in percent, that the secondary catches up after an operation, and that it takes a
/// snapshot then.
const CATCH_UPS: u64 = 30;
const SNAPSHOTS: u64 = 25;

/// A secondary, and its snapshots with what they see.
struct Follower {
    db: Db,
    snapshots: Vec<(Snapshot, State)>,
}

impl Follower {
    fn beside(session: &Session, setup: &Setup) -> Checked<Self> {
        let db = open_secondary(session.storages(), setup).map_err(|e| e.to_string())?;
        let follower = Self { db, snapshots: Vec::new() };
        follower.compare(session.model())?;
        Ok(follower)
    }

    fn compare(&self, model: &State) -> Checked {
        let found = everything(self.db.default_keyspace())?;
        if found == *model {
            return Ok(());
        }
        let differs = |key: &&[u8]| found.get(key) != model.get(key);
        let keys = model.iter().chain(found.iter()).map(|(key, _)| key);
        let key = keys.into_iter().find(differs).map(<[u8]>::to_vec);
        Err(format!(
            "the secondary differs from the model at {:?}",
            key.map(|k| k.escape_ascii().to_string())
        ))
    }

    fn catch_up(&self, model: &State) -> Checked {
        self.db.catch_up().map_err(|e| format!("catch_up: {e}"))?;
        self.compare(model)
    }

    /// Reads the snapshots; those that the primary has made unreadable are dropped.
    fn read_snapshots(&mut self) -> Checked {
        let mut wrong = None;
        self.snapshots.retain(|(snapshot, seen)| {
            let read: Result<Vec<_>, _> = snapshot.range(..).collect();
            match read {
                Err(e) if e.kind() == ErrorKind::Outdated => return false,
                Err(e) => wrong = Some(e.to_string()),
                Ok(items) => {
                    let seen: Vec<_> = seen.iter().collect();
                    let same = items.len() == seen.len()
                        && items.iter().zip(seen).all(|(a, b)| (&a.key[..], &a.value[..]) == b);
                    if !same {
                        wrong = Some("a snapshot of the secondary has changed".to_owned());
                    }
                }
            }
            true
        });
        wrong.map_or(Ok(()), Err)
    }
}

/// Buffered writes reach a secondary through a window file only.
pub(crate) fn readable(op: Op, setup: &Setup) -> Op {
    match op {
        Op::Write(writes, Durability::Buffered) if !setup.window_survives => {
            Op::Write(writes, Durability::Os)
        }
        op => op,
    }
}

/// Runs operations drawn by `seed`, and now and then has a secondary catch up, which must equal the
/// model then. Its snapshots must stay as they are, or be outdated.
pub fn followed(setup: &Setup, seed: u64) -> Checked {
    let ttls = if seed.is_multiple_of(3) { 25 } else { 0 };
    let merges = if seed % 4 < 2 { 60 } else { 0 };
    let profile = Profile { ranges: seed % 2 * 12, ttls, merges, ..Profile::model() };
    let ops = Generator::new(seed, profile).take(OPS);
    let mut rng = Rng::new(seed);
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    let mut follower: Option<Follower> = None;
    for (at, op) in ops.into_iter().enumerate() {
        let op = readable(op, setup);
        let named = |e: String| format!("operation {at}, {op:?}: {e}");
        if matches!(op, Op::Kill) {
            // The files of the dead process, and then those of the one that recovers them.
            session.leave(false)?;
            let dead = Follower::beside(&session, setup).map_err(named)?;
            session.run(&Op::Reopen)?;
            dead.catch_up(session.model()).map_err(named)?;
            follower = Some(dead);
            continue;
        }
        session.run(&op)?;
        match &mut follower {
            None if at > 5 => follower = Some(Follower::beside(&session, setup).map_err(named)?),
            Some(follower) if rng.chance(CATCH_UPS) => {
                follower.catch_up(session.model()).map_err(named)?;
                follower.read_snapshots().map_err(named)?;
                if ttls == 0 && rng.chance(SNAPSHOTS) {
                    follower.snapshots.push((follower.db.snapshot(), session.model().clone()));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Chance, in percent, that a read of the window is torn.
const TORN: u64 = 40;

/// A storage whose window reads as zeros now and then, as a reader may see it that looks while
/// the writer goes on.
pub(crate) struct Flickering {
    pub(crate) inner: Arc<dyn Storage>,
    pub(crate) reads: Arc<AtomicU64>,
}

struct FlickeringWindow {
    inner: Arc<dyn File>,
    reads: Arc<AtomicU64>,
}

impl StorageLayer for Flickering {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    fn open(&self, name: &Name, mode: Mode, access: Access) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(name, mode, access)?;
        if name.kind() != FileKind::Window {
            return Ok(inner);
        }
        Ok(Arc::new(FlickeringWindow { inner, reads: self.reads.clone() }))
    }
}

impl FileLayer for FlickeringWindow {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.inner.read_at(buf, offset)?;
        let is_log = offset >= WINDOW_HEADER_LEN as u64;
        if is_log && Rng::new(self.reads.fetch_add(1, Ordering::Relaxed)).chance(TORN) {
            buf[..read].fill(0);
        }
        Ok(read)
    }
}

/// What a secondary reads of the window while the primary changes it is not the end of the log.
pub fn a_torn_window_is_read_again(setup: &Setup) -> Checked {
    let failed = |e: cleavedb::Error| e.to_string();
    let disks = Disks::forgetful(setup);
    let primary = crate::session::open_all(&disks.storages(), setup).map_err(failed)?;
    let reads = Arc::new(AtomicU64::new(0));
    let over = |inner| -> Arc<dyn Storage> { Arc::new(Flickering { inner, reads: reads.clone() }) };
    let storages: Vec<_> = disks.storages().into_iter().map(over).collect();
    let mut secondary = None;
    for round in 0..20_u8 {
        primary.put_with("key", [round; 100], Durability::Os).map_err(failed)?;
        let opened = || open_secondary(&storages, setup).map_err(failed);
        let secondary: &Db = match &secondary {
            Some(secondary) => secondary,
            None => secondary.insert(opened()?),
        };
        secondary.catch_up().map_err(failed)?;
        if secondary.get("key").map_err(failed)?.as_deref() != Some(&[round; 100][..]) {
            return Err(format!("{setup}: round {round} is not seen"));
        }
    }
    Ok(())
}
