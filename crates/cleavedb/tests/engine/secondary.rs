//! A secondary beside a primary: what it sees after it has caught up, and what it says when the
//! primary has removed what an older view needs.

use cleavedb::{Db, Durability, ErrorKind, Snapshot};
use cleavedb_storage_sim::sim::Rng;
use cleavedb_testkit::read::everything;
use cleavedb_testkit::session::open_secondary;
use cleavedb_testkit::{Disks, Generator, Op, Profile, Session, Setup, State};

/// Seeds, each run under every setup, and operations of one sequence.
const SEEDS: u64 = 6;
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
    fn beside(session: &Session, setup: &Setup) -> Result<Self, String> {
        let db = open_secondary(session.storages(), setup).map_err(|e| e.to_string())?;
        let follower = Self { db, snapshots: Vec::new() };
        follower.compare(session.model())?;
        Ok(follower)
    }

    fn compare(&self, model: &State) -> Result<(), String> {
        let found = everything(&self.db)?;
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

    fn catch_up(&self, model: &State) -> Result<(), String> {
        self.db.catch_up().map_err(|e| format!("catch_up: {e}"))?;
        self.compare(model)
    }

    /// Reads the snapshots; those that the primary has made unreadable are dropped.
    fn read_snapshots(&mut self) -> Result<(), String> {
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
fn readable(op: Op, setup: &Setup) -> Op {
    match op {
        Op::Write(writes, Durability::Buffered) if !setup.window_survives => {
            Op::Write(writes, Durability::Os)
        }
        op => op,
    }
}

fn follow(setup: &Setup, seed: u64) -> Result<(), String> {
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

#[test]
fn random_operations_are_followed() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let seeds = match number("CLEAVEDB_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CLEAVEDB_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        for setup in Setup::all() {
            follow(&setup, seed).unwrap_or_else(|e| panic!("{setup}, seed {seed}: {e}"));
        }
    }
}
