//! Recognisable keys and values, and the search for them in the raw bytes of all files: what was
//! deleted in a range, and collected, is in none of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cleavedb::{Db, Durability, ErrorKind, Keyspace, PutOptions, WriteBatch};
use cleavedb_storage::Name;
use cleavedb_storage_sim::sim::{Image, Rng};

use crate::disks::Disks;
use crate::session::open_all;
use crate::setup::Setup;

/// What each needle begins with, and the digits behind it.
const MARK: &[u8] = b"NDL";
const DIGITS: usize = 12;

/// Keys of each keyspace, and those in the range that is collected.
const KEYS: usize = 240;
const RANGE: std::ops::Range<usize> = 80..160;

/// How long values live that expire.
const TTL: Duration = Duration::from_secs(1);

/// Operations before the range is collected.
pub const WRITES: usize = 900;

/// Names of the keyspaces besides the default one.
const NAMES: [&str; 2] = ["other", "dropped"];

/// The ends of the range.
pub const ENDS: std::ops::Range<&str> = "key00080".."key00160";

/// A place in a raw file: its name, the offset, and the needle there.
pub type Found = (String, usize, u64);

/// Numbers of needles.
type Ids = BTreeSet<u64>;

/// Every needle in `bytes`, with its offset.
pub fn needles_in(bytes: &[u8]) -> impl Iterator<Item = (usize, u64)> {
    (0..bytes.len().saturating_sub(MARK.len() + DIGITS)).filter_map(|at| {
        let rest = bytes[at..].strip_prefix(MARK)?;
        let digits = str::from_utf8(&rest[..DIGITS]).ok()?;
        Some((at, digits.parse().ok()?))
    })
}

/// One key: its bytes, the needle in it, and its value.
#[derive(Clone)]
struct Item {
    value: Vec<u8>,
    needle: u64,
    /// Whether it expires after [`TTL`].
    expires: bool,
}

/// What a database holds, and the needles that it must not hold any more.
pub struct Needles {
    rng: Rng,
    next: u64,
    /// Of each keyspace: the needles of its keys by number, and its content.
    names: BTreeMap<String, Vec<u64>>,
    content: BTreeMap<String, BTreeMap<usize, Item>>,
    /// Needles that were deleted or overwritten in the range, or in a keyspace that was dropped.
    gone: Ids,
}

impl Needles {
    /// Nothing written yet.
    pub fn new(seed: u64) -> Self {
        let (names, content) = (BTreeMap::new(), BTreeMap::new());
        let mut needles = Self { rng: Rng::new(seed), next: 1, names, content, gone: Ids::new() };
        for name in ["default"].into_iter().chain(NAMES) {
            let keys = (0..KEYS).map(|_| needles.fresh()).collect();
            needles.names.insert(name.to_owned(), keys);
            needles.content.insert(name.to_owned(), BTreeMap::new());
        }
        needles
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn key(&self, name: &str, number: usize) -> String {
        format!("key{number:05}NDL{:012}", self.names[name][number])
    }

    fn put(&mut self, keyspace: &Keyspace, number: usize) {
        let needle = self.fresh();
        let times = [1, 5, 20, 60, 150][self.rng.index(5)];
        let value = format!("NDL{needle:012}").repeat(times).into_bytes();
        let key = self.key(keyspace.name(), number);
        let expires = self.rng.chance(15);
        match expires {
            true => keyspace.put_with(key, &value, PutOptions::new().ttl(TTL)).unwrap(),
            false => keyspace.put_with(key, &value, Durability::Os).unwrap(),
        }
        let before = self.of(keyspace).insert(number, Item { value, needle, expires });
        if let Some(before) = before.filter(|_| RANGE.contains(&number)) {
            self.gone.insert(before.needle);
        }
        // A key that was deleted is there again.
        let name = self.names[keyspace.name()][number];
        self.gone.remove(&name);
    }

    fn of(&mut self, keyspace: &Keyspace) -> &mut BTreeMap<usize, Item> {
        self.content.get_mut(keyspace.name()).unwrap()
    }

    fn forget(&mut self, keyspace: &Keyspace, number: usize) {
        let name = self.names[keyspace.name()][number];
        if let Some(before) = self.of(keyspace).remove(&number)
            && RANGE.contains(&number)
        {
            self.gone.extend([name, before.needle]);
        }
    }

    fn delete(&mut self, keyspace: &Keyspace, number: usize) {
        keyspace.delete(self.key(keyspace.name(), number)).unwrap();
        self.forget(keyspace, number);
    }

    fn delete_range(&mut self, db: &Db, keyspace: &Keyspace) {
        let from = self.rng.index(KEYS - 10);
        let to = from + 1 + self.rng.index(10);
        let range = format!("key{from:05}")..format!("key{to:05}");
        let mut batch = WriteBatch::new();
        batch.keyspace(keyspace).delete_range(range).unwrap();
        db.write(&batch).unwrap();
        (from..to).for_each(|number| self.forget(keyspace, number));
    }

    /// Writes, deletes and overwrites `count` times, with jobs and reads in between.
    pub fn work(&mut self, db: &Db, count: usize) {
        let names = NAMES.into_iter().filter(|name| self.content.contains_key(*name));
        let mut all: Vec<Keyspace> = names.map(|name| db.keyspace(name).unwrap()).collect();
        all.push(db.keyspace("default").unwrap());
        for _ in 0..count {
            let keyspace = all[self.rng.index(all.len())].clone();
            let number = self.rng.index(KEYS);
            match self.rng.index(40) {
                0 => db.flush().unwrap(),
                1 => db.compact().unwrap(),
                2 => db.collect().unwrap(),
                3 => self.delete_range(db, &keyspace),
                4..=9 => self.delete(&keyspace, number),
                10..=13 => _ = db.step().unwrap(),
                14..=17 => _ = keyspace.get(self.key(keyspace.name(), number)).unwrap(),
                _ => self.put(&keyspace, number),
            }
        }
    }

    /// Deletes and overwrites most of the range of every keyspace, by each way to do so, and lets
    /// what expires expire.
    pub fn delete_most(&mut self, db: &Db, setup: &Setup) {
        for name in ["default"].into_iter().chain(NAMES) {
            if !self.content.contains_key(name) {
                continue;
            }
            let keyspace = db.keyspace(name).unwrap();
            for number in RANGE {
                match self.rng.index(4) {
                    0 => self.delete(&keyspace, number),
                    1 => self.put(&keyspace, number),
                    _ => {}
                }
            }
            let to = RANGE.start + 30;
            keyspace.delete_range(format!("key{:05}", RANGE.start)..format!("key{to:05}")).unwrap();
            (RANGE.start..to).for_each(|number| self.forget(&keyspace, number));
        }
        setup.clock.advance(TTL);
        for name in ["default"].into_iter().chain(NAMES) {
            let Some(content) = self.content.get(name) else { continue };
            let expired = content.iter().filter(|(_, item)| item.expires);
            let expired: Vec<usize> = expired.map(|(number, _)| *number).collect();
            let keyspace = db.keyspace(name).unwrap();
            expired.into_iter().for_each(|number| self.forget(&keyspace, number));
        }
    }

    /// Drops a keyspace, of which no key or value may stay; returns its handle.
    pub fn drop_one(&mut self, db: &Db) -> Keyspace {
        let [_, name] = NAMES;
        let keyspace = db.keyspace(name).unwrap();
        db.drop_keyspace(name).unwrap();
        self.gone.extend(self.names[name].iter().copied());
        let content = self.content.remove(name).unwrap_or_default();
        self.gone.extend(content.values().map(|item| item.needle));
        keyspace
    }

    /// Whether `files` have none of the needles that are gone.
    pub fn are_gone_from<'f>(
        &self,
        files: impl IntoIterator<Item = (String, &'f [u8])>,
    ) -> Result<(), Vec<Found>> {
        let mut found = Vec::new();
        for (name, bytes) in files {
            let gone = needles_in(bytes).filter(|(_, needle)| self.gone.contains(needle));
            found.extend(gone.map(|(at, needle)| (name.clone(), at, needle)));
        }
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// Searches, as [`Self::are_gone_from`] does, the files of simulated disks.
    pub fn are_gone_from_images(&self, images: &[Image]) -> Result<(), Vec<Found>> {
        let files: Vec<(String, Vec<u8>)> = images
            .iter()
            .flat_map(|image| image.list().into_iter().map(move |(name, _)| (image, name)))
            .map(|(image, name): (&Image, Name)| (name.to_string(), image.read(&name).unwrap()))
            .collect();
        self.are_gone_from(files.iter().map(|(name, bytes)| (name.clone(), &bytes[..])))
    }

    /// Number of needles that must be gone.
    pub fn gone(&self) -> usize {
        self.gone.len()
    }

    /// Compares the database with what was written.
    #[track_caller]
    pub fn check(&self, db: &Db) {
        for (name, content) in &self.content {
            let keyspace = db.keyspace(name).unwrap();
            let mut items = keyspace.range(..).map(|item| item.unwrap());
            for (number, item) in content {
                let found = items.next().expect("a key is missing");
                assert_eq!(found.key, self.key(name, *number).as_bytes());
                assert!(found.value == item.value, "the value of {number} in {name}");
            }
            assert!(items.next().is_none(), "a key is back");
        }
        let report = db.verify().unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

/// A collection of the range fails, and names `what` holds it.
///
/// # Panics
/// If it does not.
#[track_caller]
pub fn an_old_reader_is_named(db: &Db, what: &str) {
    let error = db
        .default_keyspace()
        .collect_range(ENDS)
        .expect_err("an older reader may see what was deleted");
    assert_eq!(error.kind(), ErrorKind::Held, "{error}");
    let holder = error.fact("held by").unwrap_or_default();
    assert!(holder.contains(what), "{error}");
}

/// Fails if a needle that is gone is in a file of `disks`.
///
/// # Panics
/// Then.
#[track_caller]
pub fn no_needle(needles: &Needles, disks: &Disks, what: &str) {
    if let Err(found) = needles.are_gone_from_images(&disks.images()) {
        let first = &found[..found.len().min(5)];
        panic!("{what}: {} needles are left, such as {first:?}", found.len());
    }
}

/// Deletes, overwrites and drops, and collects the range and the dropped keyspace.
///
/// # Panics
/// If a call fails.
pub fn collect_all(needles: &mut Needles, (db, setup): (&Db, &Setup), disks: &Disks) {
    needles.delete_most(db, setup);
    let dropped = needles.drop_one(db);
    assert!(needles.are_gone_from_images(&disks.images()).is_err(), "there is no work to do");
    db.default_keyspace().collect_range(ENDS).unwrap();
    db.keyspace("other").unwrap().collect_range(ENDS).unwrap();
    match needles.rng.chance(50) {
        true => dropped.collect_range(..).unwrap(),
        false => db.collect_dropped().unwrap(),
    }
}

/// A store with work of a seed in which the range was collected.
///
/// # Panics
/// If something that was deleted is left, or anything else is not.
pub fn nothing_is_left(setup: &Setup, seed: u64) {
    let mut needles = Needles::new(seed);
    let disks = Disks::forgetful(setup);
    let db = open_all(&disks.storages(), setup).unwrap();
    needles.work(&db, WRITES);
    assert!(needles.gone() > 50);
    collect_all(&mut needles, (&db, setup), &disks);
    let what = format!("{setup}, seed {seed}");
    no_needle(&needles, &disks, &what);
    needles.check(&db);
    let disks = disks.kill();
    drop(db);
    let db = open_all(&disks.storages(), setup).unwrap();
    no_needle(&needles, &disks, &format!("{what}, killed"));
    needles.check(&db);
    db.close().unwrap();
    no_needle(&needles, &disks, &format!("{what}, closed"));
}

/// Keys whose deletes lie in the log among living values of others leave with them.
///
/// # Panics
/// If they do not.
pub fn deletes_leave_too(setup: &Setup, seed: u64) {
    let mut needles = Needles::new(seed);
    let disks = Disks::forgetful(setup);
    let db = open_all(&disks.storages(), setup).unwrap();
    RANGE.for_each(|number| needles.put(db.default_keyspace(), number));
    db.collect().unwrap();
    for number in RANGE {
        needles.delete(db.default_keyspace(), number);
        needles.put(db.default_keyspace(), number - RANGE.start);
    }
    db.default_keyspace().collect_range(ENDS).unwrap();
    no_needle(&needles, &disks, &setup.name);
    needles.check(&db);
}
