//! Everything at once in one store, so that features meet: writes of every kind to keyspaces that
//! come and go, values that expire, merges, loads, transactions, snapshots and cursors that are
//! kept, jobs, copies of every kind, kills.
//!
//! What happens is a function of the seed. A failure prints the last operations.

mod content;
mod transactions;
mod feed;
mod copies;
mod writes;

use std::collections::VecDeque;
use std::time::Duration;

use cleavedb::{
    Db, ErrorKind, Filter, FilterDecision, Keyspace, KeyspaceOptions, Snapshot, ValueCompression,
};
use cleavedb_storage_sim::sim::Rng;

use self::content::{Content, DEFAULT, Space, failed};
use self::feed::Feed;
use self::transactions::Open;
use crate::backups::Shelf;
use crate::compressed::json;
use crate::disks::Disks;
use crate::follow::{ALL, keeping};
use crate::generator::{Generator, Profile};
use crate::op::Write;
use crate::read::Checked;
use crate::session::{self, open_all};
use crate::setup::Setup;
use crate::state::State;
use crate::walk::Walk;

/// Most of what is held at once.
const KEYSPACES: usize = 3;
const HELD_MAX: usize = 3;
const OPEN_MAX: usize = 3;

/// Operations between two comparisons of everything.
const CHECK_EACH: usize = 12;

/// Operations that a failure prints.
const TOLD: usize = 200;

/// Values of a load from which a dictionary is made.
const JSON: u64 = 700;

/// A snapshot, what it must see, and handles of then.
struct Held {
    snapshot: Snapshot,
    content: Content,
    handles: Vec<Keyspace>,
}

/// A store in which everything happens.
pub struct Together {
    setup: Setup,
    disks: Disks,
    db: Option<Db>,
    content: Content,
    rng: Rng,
    generator: Generator,
    held: Vec<Held>,
    walks: Vec<(Walk, State)>,
    open: Vec<Open>,
    /// Handles of keyspaces that were dropped.
    dropped: Vec<Keyspace>,
    feed: Option<Feed>,
    beside: Option<Db>,
    shelf: Option<Shelf>,
    /// Whether keyspaces get dictionaries.
    has_dictionaries: bool,
    /// The last operations, and their number.
    told: VecDeque<String>,
    done: usize,
}

/// The mix of writes.
fn profile() -> Profile {
    Profile {
        value_lens: vec![0, 1, 60, 250, 300, 1000, 1100, 4000, 9000],
        keys: 12,
        batches: 40,
        ranges: 10,
        ttls: 20,
        merges: 35,
        merges_anywhere: true,
        ..Profile::model()
    }
}

/// Runs `count` operations of `seed` in a store of `setup`.
pub fn all_at_once(setup: &Setup, seed: u64, count: usize) -> Checked {
    let mut together = Together::new(setup, seed)?;
    let done = together.run(count);
    if done.is_err() {
        together.print();
    }
    done
}

/// An assertion of the engine failed.
impl Drop for Together {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print();
        }
    }
}

impl Together {
    /// An empty store.
    pub fn new(setup: &Setup, seed: u64) -> Checked<Self> {
        let mut setup = setup.at(setup.now());
        let follows = seed.is_multiple_of(2);
        if follows {
            setup = keeping(&setup, ALL);
        }
        if seed % 4 == 3 {
            let same = |value: &cleavedb::FilteredValue<'_>| {
                Ok(FilterDecision::Replace(value.value()?.to_vec()))
            };
            setup.options.filter = Some(Filter::new(same));
        }
        let disks = Disks::forgetful(&setup);
        let db = Some(open_all(&disks.storages(), &setup).map_err(failed)?);
        let designs = Setup::every_design();
        let other = Setup {
            clock: setup.clock.clone(),
            options: cleavedb::Options {
                time: setup.clock.clone(),
                ..designs[seed as usize / 2 % designs.len()].options.clone()
            },
            ..designs[seed as usize / 2 % designs.len()].clone()
        };
        let feed = if follows { Some(Feed::new(&other)?) } else { None };
        Ok(Self {
            content: Content::new(setup.now()),
            generator: Generator::new(seed, profile()),
            rng: Rng::new(seed ^ 0x7067),
            setup,
            disks,
            db,
            held: Vec::new(),
            walks: Vec::new(),
            open: Vec::new(),
            dropped: Vec::new(),
            feed,
            beside: None,
            shelf: None,
            has_dictionaries: seed % 16 == 5,
            told: VecDeque::new(),
            done: 0,
        })
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open between operations")
    }

    /// Prints the last operations.
    fn print(&self) {
        self.told.iter().for_each(|operation| eprintln!("  {operation}"));
    }

    fn tell(&mut self, what: impl Into<String>) {
        self.told.push_back(format!("{}: {}", self.done, what.into()));
        if self.told.len() > TOLD {
            self.told.pop_front();
        }
    }

    /// Does `count` operations, and compares everything now and then, and at the end.
    pub fn run(&mut self, count: usize) -> Checked {
        for _ in 0..count {
            self.done += 1;
            self.step().map_err(|e| format!("operation {}: {e}", self.done))?;
            if let (Some(feed), Some(db)) = (&mut self.feed, &self.db) {
                feed.follow(db)?;
            }
            if self.done.is_multiple_of(CHECK_EACH) {
                self.check().map_err(|e| format!("after operation {}: {e}", self.done))?;
            }
        }
        self.tell("the end");
        self.leave_all();
        self.db().flush().and_then(|()| self.db().wait_idle()).map_err(failed)?;
        self.check()?;
        if let Some(feed) = &self.feed {
            feed.check_told(self.db())?;
        }
        self.reopen(false)?;
        let all = [self.db().compact(), self.db().collect(), self.db().wait_idle()];
        all.into_iter().try_for_each(|done| done.map_err(failed))?;
        self.check()
    }

    fn step(&mut self) -> Checked {
        match self.rng.index(100) {
            0..28 => self.batch(),
            28..34 => self.single(),
            34..39 => self.load(),
            39..44 => self.conditional(),
            44..47 => self.create(),
            47..50 => self.drop_one(),
            50..53 => self.begin(),
            53..60 => self.change_transaction(),
            60..62 => self.end_transaction(),
            62..65 => self.hold(),
            65..68 => self.walk(),
            68..72 => self.pass_time(),
            72..90 => self.job(),
            90..92 => self.reopen(true),
            92 => self.reopen(false),
            93..96 => self.catch_up(),
            96 => self.checkpoint(),
            97 => self.back_up(),
            _ => self.jobs_of_range(),
        }
    }

    /// A keyspace that is there.
    fn any(&mut self) -> Checked<Keyspace> {
        let at = self.rng.index(self.content.0.len());
        let name = self.content.0.keys().nth(at).cloned().unwrap_or_default();
        self.db().find_keyspace(&name).map_err(failed)?.ok_or_else(|| format!("no {name}"))
    }

    /// All keyspaces that are there.
    fn handles(&self) -> Checked<Vec<Keyspace>> {
        let mut handles = self.db().keyspaces().map_err(failed)?;
        handles.extend(self.db().find_keyspace(DEFAULT).map_err(failed)?);
        Ok(handles)
    }

    fn create(&mut self) -> Checked {
        let name = format!("keyspace {}", self.rng.index(KEYSPACES));
        let separates = self.setup.options.layout().separates();
        let least = [None, Some(0), Some(100), Some(2000)][self.rng.index(4)];
        let ttl = self.rng.chance(25).then(|| 50 + self.rng.below(300));
        let with_dictionary = self.has_dictionaries && self.rng.chance(60);
        let compression = match self.rng.index(3) {
            _ if with_dictionary => Some(ValueCompression::ZstdDictionary),
            0 => Some(ValueCompression::Zstd),
            1 => Some(ValueCompression::Lz4),
            _ => None,
        };
        self.tell(format!("create {name}, ttl {ttl:?}, {compression:?}, {least:?}"));
        let options = KeyspaceOptions {
            min_separated: least.filter(|_| separates),
            compression,
            ttl: ttl.map(Duration::from_millis),
        };
        let created = self.db().create_keyspace(&name, options);
        if self.content.0.contains_key(&name) {
            return expect(created.map(drop), ErrorKind::AlreadyExists);
        }
        let keyspace = created.map_err(failed)?;
        let mut space = Space { ttl, ..Space::default() };
        space.state.pass_until(self.setup.now());
        self.content.0.insert(name.clone(), space);
        if with_dictionary {
            let puts = (0..JSON).map(|n| Write::put(format!("d{n:04}").as_bytes(), json(n)));
            let puts: Vec<Write> = puts.collect();
            session::load(&keyspace, &puts, self.setup.now()).map_err(failed)?;
            self.content.apply(&named(&name, puts))?;
            keyspace.train_dictionary().map_err(failed)?;
        }
        Ok(())
    }

    fn drop_one(&mut self) -> Checked {
        let name = format!("keyspace {}", self.rng.index(KEYSPACES));
        self.tell(format!("drop {name}"));
        if self.content.0.remove(&name).is_none() {
            return expect(self.db().drop_keyspace(&name), ErrorKind::NoKeyspace);
        }
        let handle = self.db().keyspace(&name).map_err(failed)?;
        self.db().drop_keyspace(&name).map_err(failed)?;
        self.dropped.push(handle);
        for open in &mut self.open {
            open.dropped_since.insert(name.clone());
        }
        Ok(())
    }

    fn begin(&mut self) -> Checked {
        if self.open.len() < OPEN_MAX {
            self.tell("begin a transaction");
            let transaction = self.db().transaction().map_err(failed)?;
            self.open.push(Open::new(transaction, self.handles()?, &self.content));
        }
        Ok(())
    }

    fn change_transaction(&mut self) -> Checked {
        if self.open.is_empty() {
            return self.begin();
        }
        let at = self.rng.index(self.open.len());
        let (key, to) = (self.generator.key(), self.generator.key());
        let write = self.generator.write();
        if self.rng.chance(50) {
            self.tell(format!("transaction {at} may write {write:?}"));
            self.open[at].write(&write, self.setup.now(), &mut self.rng)
        } else {
            self.tell(format!("transaction {at} reads"));
            self.open[at].read(key, to, &mut self.rng)
        }
    }

    fn end_transaction(&mut self) -> Checked {
        if self.open.is_empty() {
            return Ok(());
        }
        let at = self.rng.index(self.open.len());
        let open = self.open.remove(at);
        if self.rng.chance(10) {
            self.tell(format!("transaction {at} is given up"));
            return Ok(());
        }
        self.tell(format!("transaction {at} commits"));
        let writes = open.commit(&self.content, self.setup.now())?;
        self.tell(format!("  it wrote {writes:?}"));
        for (name, write) in &writes {
            self.note_written(name, std::slice::from_ref(write));
            self.content.space(name)?.state.apply(std::slice::from_ref(write));
        }
        Ok(())
    }

    /// Takes a snapshot, or reads and drops one.
    fn hold(&mut self) -> Checked {
        if self.held.len() < HELD_MAX && self.rng.chance(60) {
            self.tell("a snapshot");
            let (snapshot, handles) = (self.db().snapshot(), self.handles()?);
            self.held.push(Held { snapshot, content: self.content.clone(), handles });
        } else if !self.held.is_empty() {
            let at = self.rng.index(self.held.len());
            self.tell(format!("snapshot {at} is dropped"));
            let Held { snapshot, content, handles } = self.held.swap_remove(at);
            return content.check_snapshot(&snapshot, &handles);
        }
        Ok(())
    }

    /// Goes on with a cursor that is kept, or begins one.
    fn walk(&mut self) -> Checked {
        if self.walks.len() < HELD_MAX && self.rng.chance(50) {
            let keyspace = self.any()?;
            self.tell(format!("a cursor of {}", keyspace.name()));
            let state = self.content.space(keyspace.name())?.state.clone();
            self.walks.push((Walk::new(keyspace.cursor(..), self.rng.next_u64()), state));
        }
        let keeps = self.rng.chance(70);
        if let Some((mut walk, state)) = self.walks.pop() {
            walk.go(3, &state.range(None, None))?;
            if keeps {
                self.walks.insert(0, (walk, state));
            }
        }
        Ok(())
    }

    fn pass_time(&mut self) -> Checked {
        let millis = 1 + self.rng.below(150);
        self.tell(format!("{millis} ms pass"));
        self.setup.clock.advance(Duration::from_millis(millis));
        self.content.pass_until(self.setup.now());
        Ok(())
    }

    fn job(&mut self) -> Checked {
        let what = self.rng.index(20);
        let db = self.db.as_ref().expect("it is open");
        let (name, done) = match what {
            0..=5 => ("flush", db.flush()),
            6..=8 => ("collect", db.collect()),
            9..=10 => ("compact", db.compact()),
            11 => ("sync", db.sync()),
            _ => ("step", db.step().map(drop)),
        };
        self.tell(name);
        if what == 0
            && let Some(feed) = &self.feed
        {
            feed.step()?;
        }
        done.map_err(|e| format!("{name}: {e}"))
    }

    /// Compacts or collects a range, or what was dropped.
    fn jobs_of_range(&mut self) -> Checked {
        let keyspace = self.any()?;
        let (a, b) = (self.generator.key(), self.generator.key());
        let (from, to) = if a < b { (a, b) } else { (b, a) };
        if self.rng.chance(50) {
            self.tell(format!("compact a range of {}", keyspace.name()));
            return keyspace.compact_range(&from[..]..&to[..]).map_err(failed);
        }
        let is_all = self.rng.chance(50);
        self.tell(format!("collect a range of {}, or all dropped: {is_all}", keyspace.name()));
        if self.rng.chance(60) {
            self.leave_all();
        }
        let done = match is_all {
            true => self.db().collect_dropped(),
            false => keyspace.collect_range(&from[..]..&to[..]),
        };
        match done {
            Err(e) if e.kind() == ErrorKind::Held => Ok(()),
            Err(_) if self.has_dictionaries => Ok(()),
            done => done.map_err(failed),
        }
    }

    /// Drops everything that is held.
    fn leave_all(&mut self) {
        self.held.clear();
        self.walks.clear();
        self.open.clear();
        self.dropped.clear();
    }

    /// Compares everything that can be read.
    fn check(&mut self) -> Checked {
        self.content.check(self.db())?;
        for Held { snapshot, content, handles } in &self.held {
            content.check_snapshot(snapshot, handles)?;
        }
        for keyspace in &self.dropped {
            expect(keyspace.get("k1").map(drop), ErrorKind::NoKeyspace)?;
            expect(keyspace.put("k1", "value"), ErrorKind::NoKeyspace)?;
        }
        if let Some(feed) = &self.feed {
            feed.check(&self.content)?;
        }
        let report = self.db().verify().map_err(failed)?;
        report.problems.first().map_or(Ok(()), |problem| Err(format!("verify: {problem}")))
    }
}

/// Writes to one keyspace.
fn named(name: &str, writes: Vec<Write>) -> Vec<(String, Write)> {
    writes.into_iter().map(|write| (name.to_owned(), write)).collect()
}

fn expect(result: Result<(), cleavedb::Error>, kind: ErrorKind) -> Checked {
    match result {
        Err(e) if e.kind() == kind => Ok(()),
        Err(e) => Err(format!("expected {kind:?}, got {e}")),
        Ok(()) => Err(format!("expected {kind:?}, and it succeeded")),
    }
}
