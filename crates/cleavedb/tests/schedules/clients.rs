//! Several clients at once: batches are whole, what was acknowledged is seen, and what a crash
//! leaves is a prefix of the order of commits.
//!
//! Each writer counts up under two keys of its own, one batch a number, and writes beside it the
//! number of the other writer that it saw. So a reader can tell a torn batch, a lost one, and one
//! that survived something that it had seen.

use std::sync::{Arc, Mutex};

use cleavedb::{Bytes, Db, Durability, Error, Snapshot, WriteBatch};
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_base::sync::checker::thread;
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::{DirectoryOrder, Image, PowerLoss, Rng, SECTOR};
use cleavedb_testkit::Setup;
use cleavedb_testkit::session::open;

use crate::{manual, setup};

/// Batches of each writer, looks of the reader, and jobs that are asked for.
const WRITES: u64 = 10;
const READS: usize = 8;
const REQUESTS: usize = 4;

/// Values that one key takes in turn, and how often it is looked at meanwhile.
const TURNS: u64 = 24;
const GETS: usize = 120;
const RANGES: usize = 60;

/// Points of the history at which the disk is looked at, and images of each loss of power.
const POINTS: usize = 8;
const IMAGES: usize = 2;

/// Keys of both writers: first and last, so that they fall into different tables.
const KEYS: [[&[u8]; 2]; 2] = [[b"a of 0", b"y of 0"], [b"b of 1", b"z of 1"]];

/// A batch that was acknowledged, and the number of operations that the disk had seen.
struct Acknowledged {
    at: usize,
    writer: usize,
    number: u64,
    durability: Durability,
}

/// What a reader found of one writer: its number, and what it had seen of the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    number: u64,
    saw: u64,
}

struct Clients {
    db: Db,
    sim: Sim,
    seed: u64,
    acknowledged: Mutex<Vec<Acknowledged>>,
    newest: [AtomicU64; 2],
}

fn text(error: Error) -> String {
    error.to_string()
}

fn value(found: Found, len: usize) -> Vec<u8> {
    let mut bytes = vec![found.number as u8; 16 + len];
    bytes[..8].copy_from_slice(&found.number.to_le_bytes());
    bytes[8..16].copy_from_slice(&found.saw.to_le_bytes());
    bytes
}

fn parse(value: Option<Bytes>) -> Found {
    let Some(value) = value else { return Found::default() };
    let (words, _) = value.as_chunks::<8>();
    Found { number: u64::from_le_bytes(words[0]), saw: u64::from_le_bytes(words[1]) }
}

/// What both writers did, through `get`; fails if that is no state after a prefix of commits.
fn found(get: impl Fn(&[u8]) -> Result<Option<Bytes>, Error>) -> Result<[Found; 2], String> {
    let mut all = [Found::default(); 2];
    for (of, keys) in all.iter_mut().zip(KEYS) {
        let [first, last] = keys.map(|key| get(key).map(parse).map_err(text));
        *of = first?;
        let last = last?;
        if *of != last {
            return Err(format!("half of a batch: {of:?} and {last:?}"));
        }
    }
    for (of, other) in [(all[0], all[1]), (all[1], all[0])] {
        if of.saw > other.number {
            return Err(format!("{of:?} is there, but what it saw is not: {other:?}"));
        }
    }
    Ok(all)
}

impl Clients {
    fn numbers(&self) -> [u64; 2] {
        [0, 1].map(|writer: usize| self.newest[writer].load(Ordering::Acquire))
    }

    fn write(&self, writer: usize) -> Result<(), String> {
        let mut rng = Rng::new(self.seed * 7 + writer as u64);
        for number in 1..=WRITES {
            let saw = parse(self.db.get(KEYS[1 - writer][0]).map_err(text)?).number;
            let len = [10, 600, 3000, 9000][rng.index(4)];
            let durability = [Durability::Os, Durability::Sync][rng.index(2)];
            let mut batch = WriteBatch::new();
            for key in KEYS[writer] {
                batch.put(key, &value(Found { number, saw }, len)).map_err(text)?;
            }
            self.db.write_with(&batch, durability).map_err(text)?;
            let at = self.sim.history_len();
            let acknowledged = Acknowledged { at, writer, number, durability };
            self.acknowledged.lock().unwrap().push(acknowledged);
            self.newest[writer].store(number, Ordering::Release);
        }
        Ok(())
    }

    /// What a snapshot shows: the same by key and in order, and all that was acknowledged before.
    fn look(&self, snapshot: &Snapshot, least: [u64; 2]) -> Result<[Found; 2], String> {
        let seen = found(|key| snapshot.get(key))?;
        for (seen, least) in seen.iter().zip(least) {
            if seen.number < least {
                return Err(format!("{seen:?}, but {least} was acknowledged"));
            }
        }
        let range = snapshot.range(..).collect::<Result<Vec<_>, _>>().map_err(text)?;
        let by_range = found(|key| {
            Ok(range.iter().find(|item| item.key == key).map(|item| item.value.clone()))
        })?;
        if by_range != seen {
            return Err(format!("a range gives {by_range:?}, gets give {seen:?}"));
        }
        Ok(seen)
    }

    fn read(&self) -> Result<(), String> {
        for _ in 0..READS {
            let least = self.numbers();
            let snapshot = self.db.snapshot();
            let seen = self.look(&snapshot, least)?.map(|found| found.number);
            for (keys, least) in KEYS.iter().zip(seen) {
                let number = parse(self.db.get(keys[1]).map_err(text)?).number;
                if number < least {
                    return Err(format!("a get gives {number}, a snapshot before it {least}"));
                }
            }
            let least = self.numbers();
            let range = self.db.range(..).collect::<Result<Vec<_>, _>>().map_err(text)?;
            for (keys, least) in KEYS.iter().zip(least) {
                let item = range.iter().find(|item| item.key == keys[0]);
                let number = parse(item.map(|item| item.value.clone())).number;
                if number < least {
                    return Err(format!("a range gives {number}, but {least} was acknowledged"));
                }
            }
        }
        Ok(())
    }

    fn ask_for_jobs(&self) -> Result<(), String> {
        let mut rng = Rng::new(self.seed * 11);
        for _ in 0..REQUESTS {
            let done = match rng.below(4) {
                0 => self.db.collect(),
                1 => self.db.compact(),
                _ => self.db.flush(),
            };
            done.map_err(text)?;
        }
        Ok(())
    }

    /// Runs all clients to their end.
    fn run(self: &Arc<Self>) -> Result<(), String> {
        let spawn = |body: fn(&Self) -> Result<(), String>| {
            let clients = self.clone();
            thread::spawn(move || body(&clients))
        };
        let threads = [
            spawn(|clients| clients.write(0)),
            spawn(|clients| clients.write(1)),
            spawn(Self::read),
            spawn(Self::ask_for_jobs),
        ];
        for thread in threads {
            thread.join().map_err(|_| "a client panicked")??;
        }
        self.db.wait_idle().map_err(text)?;
        self.look(&self.db.snapshot(), [WRITES; 2])?;
        match self.db.verify().map_err(text)?.problems.first() {
            Some(problem) => Err(format!("verify: {problem}")),
            None => Ok(()),
        }
    }

    /// What a crash at `point` may not take: what was acknowledged in a mode that covers it.
    fn least(&self, point: usize, weakest: Durability) -> [u64; 2] {
        let mut least = [0; 2];
        for batch in self.acknowledged.lock().unwrap().iter() {
            if batch.at <= point && batch.durability >= weakest {
                least[batch.writer] = least[batch.writer].max(batch.number);
            }
        }
        least
    }

    /// Crashes at some points of what was done to the disk.
    fn crash(&self, setup: &Setup) -> Result<(), String> {
        let mut rng = Rng::new(self.seed);
        let mut replay = self.sim.replay(SECTOR);
        let stride = (replay.last_point() / POINTS).max(1);
        let mut point = rng.index(stride);
        while point < replay.last_point() {
            replay.advance(point);
            survives(setup, &replay.process_kill(), self.least(point, Durability::Os))
                .map_err(|failure| format!("killed at {point}: {failure}"))?;
            let options = PowerLoss {
                directory: DirectoryOrder::Subset,
                states_max: IMAGES,
                seed: self.seed,
            };
            for image in replay.power_loss(&options) {
                survives(setup, &image, self.least(point, Durability::Sync))
                    .map_err(|failure| format!("power lost at {point}: {failure}"))?;
            }
            point += 1 + rng.index(2 * stride);
        }
        Ok(())
    }
}

/// Recovers from `image` and looks for what it may not have lost.
fn survives(setup: &Setup, image: &Image, least: [u64; 2]) -> Result<(), String> {
    let sim = Sim::from_image(image.clone());
    sim.stop_recording();
    sim.set_window_survives(setup.window_survives);
    let db = open(Arc::new(sim), &manual(setup)).map_err(text)?;
    for (found, least) in found(|key| db.get(key))?.iter().zip(least) {
        if found.number < least {
            return Err(format!("{found:?}, but {least} was acknowledged"));
        }
    }
    Ok(())
}

/// Two writers, a reader and a thread that asks for jobs; then crashes.
pub fn clients(seed: u64) -> Result<(), String> {
    let setup = setup(seed);
    let sim = Sim::new();
    sim.set_window_survives(setup.window_survives);
    let db = open(Arc::new(sim.clone()), &setup).map_err(text)?;
    let (acknowledged, newest) = Default::default();
    let clients = Arc::new(Clients { db, sim, seed, acknowledged, newest });
    let outcome = clients.run().and_then(|()| clients.crash(&setup));
    outcome.map_err(|failure| format!("{setup}: {failure}"))
}

/// Looks at the one key, again and again; what was acknowledged before a look is seen.
fn look_again(
    newest: &AtomicU64,
    times: usize,
    look: impl Fn() -> Result<Option<Bytes>, Error>,
) -> Result<(), String> {
    let mut before = 0;
    for _ in 0..times {
        before = newest.load(Ordering::Acquire).max(before);
        let number = parse(look().map_err(text)?).number;
        if number < before {
            return Err(format!("{number} is seen, but {before} was acknowledged or seen"));
        }
        before = number;
    }
    Ok(())
}

/// One key that is overwritten and flushed, and two readers that look at it all the time.
pub fn lookers(seed: u64) -> Result<(), String> {
    let setup = setup(seed);
    let sim = Sim::new();
    sim.stop_recording();
    let db = open(Arc::new(sim), &setup).map_err(text)?;
    let newest = Arc::new(AtomicU64::new(0));
    let getter = {
        let (db, newest) = (db.clone(), newest.clone());
        thread::spawn(move || look_again(&newest, GETS, || db.get(b"key")))
    };
    let ranger = {
        let (db, newest) = (db.clone(), newest.clone());
        let first = move || db.range(..).next().transpose();
        thread::spawn(move || look_again(&newest, RANGES, || Ok(first()?.map(|item| item.value))))
    };
    for number in 1..=TURNS {
        let len = [10, 9000, 9000][number as usize % 3];
        db.put(b"key", &value(Found { number, saw: 0 }, len)).map_err(text)?;
        newest.store(number, Ordering::Release);
        if number.is_multiple_of(3) {
            db.flush().map_err(text)?;
        }
    }
    for thread in [getter, ranger] {
        let looked = thread.join().map_err(|_| "a reader panicked")?;
        looked.map_err(|failure| format!("{setup}: {failure}"))?;
    }
    Ok(())
}
