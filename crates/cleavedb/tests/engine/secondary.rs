//! A secondary beside a primary: what it sees after it has caught up, and what it says when the
//! primary has removed what an older view needs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cleavedb::{Background, Db, Durability, Error, ErrorKind, Options, Snapshot, WriteBatch};
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

/// Keys of the writer of the test with threads, how many bytes their values have at most, and for
/// how long a primary is followed.
const KEYS: usize = 60;
const VALUE_MAX: usize = 3000;
const FOLLOWED: Duration = Duration::from_millis(1500);

/// The key that a round writes, and its twin in the same batch.
fn keys_of(round: u64) -> [String; 2] {
    let at = (round as usize * 7) % KEYS;
    [format!("key{at:03}"), format!("twin{at:03}")]
}

/// A value that names its round.
fn value_of(round: u64) -> Vec<u8> {
    let mut value = round.to_be_bytes().to_vec();
    let len = Rng::new(round).index(VALUE_MAX);
    value.resize(8 + len, round as u8);
    value
}

/// The round that a value names, which must be whole.
fn round_of(value: &[u8]) -> u64 {
    let round = u64::from_be_bytes(value[..8].try_into().unwrap());
    assert_eq!(value, value_of(round), "a value of round {round}");
    round
}

/// Writes rounds until told to stop; `acknowledged` is the last round that was.
fn write_rounds(db: &Db, acknowledged: &AtomicU64, stop: &AtomicBool) {
    for round in 1.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let mut batch = WriteBatch::new();
        keys_of(round).iter().for_each(|key| _ = batch.put(key, value_of(round)).unwrap());
        batch.put("last", round.to_be_bytes()).unwrap();
        let durability = if round % 50 == 0 { Durability::Sync } else { Durability::Os };
        db.write_with(&batch, durability).unwrap();
        acknowledged.store(round, Ordering::Release);
        match round % 5000 {
            900 => drop(db.delete_range("none".."nonf").unwrap()),
            1800 => db.flush().unwrap(),
            4900 => db.collect().unwrap(),
            _ => {}
        }
    }
}

/// Reads everything of the secondary, which must be one moment not before `least`, and returns it.
fn moment(snapshot: &Snapshot, least: u64) -> Result<u64, Error> {
    let last = snapshot.get("last")?.map_or(0, |v| u64::from_be_bytes(v[..].try_into().unwrap()));
    assert!(last >= least, "round {least} was acknowledged, and {last} is seen");
    for at in 0..KEYS as u64 {
        // The last round up to the moment that wrote the key.
        let expected = (last.saturating_sub(KEYS as u64 - 1).max(1)..=last)
            .find(|round| keys_of(*round) == keys_of(at));
        for key in keys_of(at) {
            let found = snapshot.get(&key)?.map(|value| round_of(&value));
            assert_eq!(found, expected, "{key} as of round {last}");
        }
    }
    let items = snapshot.range(..).collect::<Result<Vec<_>, _>>()?;
    let keys = (last as usize).min(KEYS) * 2 + usize::from(last > 0);
    assert_eq!(items.len(), keys, "keys as of round {last}");
    Ok(last)
}

/// Catches up again and again with a primary whose jobs run at the same time. Returns how many
/// snapshots were read whole, and how many were outdated.
fn follow_live(setup: &Setup) -> (usize, usize) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let options = Options { background: Background::Threads(2), ..setup.options.clone() };
    let primary = Db::open(&path, options.clone()).unwrap();
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (mut whole, mut outdated) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| write_rounds(&primary, &acknowledged, &stop));
        let stop_at_end = StopAtEnd(&stop);
        while acknowledged.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let mut before = acknowledged.load(Ordering::Acquire);
        let secondary = Db::open_secondary_with(&path, options.clone()).unwrap();
        let mut kept = secondary.snapshot();
        let begun = Instant::now();
        while begun.elapsed() < FOLLOWED {
            let at_least = acknowledged.load(Ordering::Acquire);
            secondary.catch_up().unwrap();
            let last = secondary.get("last").unwrap().unwrap();
            let last = u64::from_be_bytes(last[..].try_into().unwrap());
            assert!(last >= at_least, "{last} is seen, {at_least} was acknowledged");
            for snapshot in [&kept, &secondary.snapshot()] {
                match moment(snapshot, before) {
                    Ok(_) => whole += 1,
                    Err(e) if e.kind() == ErrorKind::Outdated => outdated += 1,
                    Err(e) => panic!("{e}"),
                }
            }
            for at in 0..KEYS as u64 {
                secondary.get(&keys_of(at)[0]).unwrap().map(|value| round_of(&value));
            }
            (before, kept) = (at_least, secondary.snapshot());
        }
        drop(stop_at_end);
    });
    (whole, outdated)
}

/// Stops the writer, also when a check fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_primary_at_work_is_followed() {
    for setup in Setup::designs().into_iter().chain(Setup::partitioned()) {
        let (whole, outdated) = follow_live(&setup);
        println!("{setup}: {whole} snapshots were whole, {outdated} outdated");
        assert!(whole > 0, "{setup}: no snapshot could be read");
    }
}
