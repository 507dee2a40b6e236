//! Keyspaces against a model of several maps: operations drawn from a seed, with snapshots, kills
//! and crashes.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleavedb::{
    Db, Durability, Error, ErrorKind, Keyspace, KeyspaceOptions, Snapshot, ValueCompression,
    WriteBatch,
};
use cleavedb_storage_sim::sim::{PowerLoss, Rng};

use crate::disks::{Disks, Images};
use crate::op::{Scan, Write};
use crate::read::{Checked, collect, compare, compare_value};
use crate::session::open_all;
use crate::setup::Setup;
use crate::state::State;

/// The content of a database: a map for each keyspace, by name.
type Model = BTreeMap<String, State>;

/// The keyspace that is always there.
const DEFAULT: &str = "default";

/// Most keyspaces beside it; keys of each; snapshots held.
const KEYSPACES: usize = 5;
const KEYS: usize = 40;
const SNAPSHOTS_MAX: usize = 3;

fn failed(e: Error) -> String {
    e.to_string()
}

/// A snapshot, what it must see, and handles of then.
struct Held {
    snapshot: Snapshot,
    model: Model,
    handles: Vec<Keyspace>,
}

/// The content after an operation.
struct Moment {
    /// Times on the disks, before and after.
    begun: usize,
    ended: usize,
    /// Whether it survives a loss of power.
    durable: bool,
    model: Model,
}

/// A database with keyspaces, its model, and what came before.
pub struct Keyspaces {
    disks: Disks,
    db: Option<Db>,
    setup: Setup,
    rng: Rng,
    model: Model,
    held: Vec<Held>,
    /// Handles of keyspaces that were dropped.
    dropped: Vec<Keyspace>,
    past: Vec<Moment>,
    /// Keyspaces that were dropped so far.
    drops: usize,
}

impl Keyspaces {
    /// A new database.
    pub fn new(setup: &Setup, seed: u64) -> Checked<Self> {
        let disks = Disks::new(setup);
        let db = Some(open_all(&disks.storages(), setup).map_err(failed)?);
        let model = Model::from([(DEFAULT.to_owned(), State::default())]);
        let ended = disks.time();
        let first = Moment { begun: 0, ended, durable: true, model: model.clone() };
        Ok(Self {
            disks,
            db,
            setup: setup.clone(),
            rng: Rng::new(seed),
            model,
            held: Vec::new(),
            dropped: Vec::new(),
            past: vec![first],
            drops: 0,
        })
    }

    /// The database.
    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open between operations")
    }

    /// Number of keyspaces that were dropped so far.
    pub fn drops(&self) -> usize {
        self.drops
    }

    /// Does `count` operations, and compares the database with the model after each tenth.
    pub fn run(&mut self, count: usize, kills: bool) -> Checked {
        for done in 0..count {
            let begun = self.disks.time();
            let what = self.rng.index(if kills { 24 } else { 22 });
            let durable = self.step(what).map_err(|e| format!("operation {done}: {e}"))?;
            let ended = self.disks.time();
            self.past.push(Moment { begun, ended, durable, model: self.model.clone() });
            if done % 10 == 9 {
                self.check().map_err(|e| format!("after operation {done}: {e}"))?;
            }
        }
        self.check()
    }

    /// Does one operation; returns whether everything so far survives a loss of power.
    fn step(&mut self, what: usize) -> Checked<bool> {
        match what {
            0..=1 => self.create().map(|()| false),
            2 => self.drop_one(),
            3..=9 => self.batch(),
            10..=12 => self.transaction().map(|()| false),
            13..=14 => self.put_one(),
            15 => {
                let (snapshot, handles) =
                    (self.db().snapshot(), self.db().keyspaces().map_err(failed)?);
                let held = Held { snapshot, model: self.model.clone(), handles };
                self.held.push(held);
                if self.held.len() > SNAPSHOTS_MAX {
                    let at = self.rng.index(self.held.len());
                    self.held.swap_remove(at);
                }
                Ok(false)
            }
            16 => self.db().flush().map_err(failed).map(|()| true),
            17 => self.db().compact().map_err(failed).map(|()| true),
            18 => self.db().collect().map_err(failed).map(|()| true),
            19..=20 => self.db().step().map_err(failed).map(|_| false),
            21 => self.db().sync().map_err(failed).map(|()| true),
            _ => self.reopen(what == 22).map(|()| false),
        }
    }

    /// Closes the database, or kills its process, and opens it again.
    fn reopen(&mut self, kills: bool) -> Checked {
        self.held.clear();
        self.dropped.clear();
        let db = self.db.take().expect("it is open");
        if kills {
            self.disks = self.disks.kill();
            // The handle belongs to a process that is gone: its disks refuse everything.
            drop(db);
            // Crash states are those of one process.
            self.past.clear();
        } else {
            db.close().map_err(failed)?;
        }
        self.db = Some(open_all(&self.disks.storages(), &self.setup).map_err(failed)?);
        self.check()
    }

    fn create(&mut self) -> Checked {
        let name = format!("keyspace {}", self.rng.index(KEYSPACES));
        let separates = self.setup.options.layout().separates();
        let least = [None, Some(0), Some(100), Some(5000)][self.rng.index(4)];
        let options = KeyspaceOptions {
            min_separated: least.filter(|_| separates),
            compression: [None, Some(ValueCompression::Zstd)][self.rng.index(2)],
            ..KeyspaceOptions::default()
        };
        let created = self.db().create_keyspace(&name, options);
        match self.model.contains_key(&name) {
            true => expect(created.map(drop), ErrorKind::AlreadyExists)?,
            false => drop(created.map_err(failed)?),
        }
        self.model.entry(name).or_default();
        Ok(())
    }

    fn drop_one(&mut self) -> Checked<bool> {
        let name = format!("keyspace {}", self.rng.index(KEYSPACES));
        if self.model.remove(&name).is_none() {
            expect(self.db().drop_keyspace(&name), ErrorKind::NoKeyspace)?;
            return Ok(false);
        }
        let handle = self.db().keyspace(&name).map_err(failed)?;
        self.db().drop_keyspace(&name).map_err(failed)?;
        self.dropped.push(handle);
        self.drops += 1;
        Ok(false)
    }

    /// A keyspace that is there.
    fn any(&mut self) -> Checked<Keyspace> {
        let at = self.rng.index(self.model.len());
        let name = self.model.keys().nth(at).cloned().unwrap_or_default();
        self.db().find_keyspace(&name).map_err(failed)?.ok_or_else(|| format!("no {name}"))
    }

    /// A key, and a value or none.
    fn drawn(&mut self) -> (Vec<u8>, Option<Arc<[u8]>>) {
        let key = format!("key{:02}", self.rng.index(KEYS)).into_bytes();
        let (len, byte) = (self.rng.index(900), self.rng.index(250) as u8);
        let put = self.rng.index(5) > 0;
        (key, put.then(|| vec![byte; len].into()))
    }

    fn set(&mut self, keyspace: &Keyspace, (key, value): (Vec<u8>, Option<Arc<[u8]>>)) {
        if let Some(state) = self.model.get_mut(keyspace.name()) {
            state.set(&key, value.as_ref());
        }
    }

    fn durability(&mut self) -> Durability {
        if self.rng.index(6) == 0 { Durability::Sync } else { Durability::Os }
    }

    fn batch(&mut self) -> Checked<bool> {
        let (mut batch, mut writes) = (WriteBatch::new(), Vec::new());
        for _ in 0..1 + self.rng.index(8) {
            let (keyspace, (key, value)) = (self.any()?, self.drawn());
            let is_default = keyspace.name() == DEFAULT;
            if self.rng.index(8) == 0 {
                let (other, _) = self.drawn();
                let (from, to) = if key < other { (key, other) } else { (other, key) };
                match is_default {
                    true => batch.delete_range(&from[..]..&to[..]).map(drop),
                    false => batch.keyspace(&keyspace).delete_range(&from[..]..&to[..]).map(drop),
                }
                .map_err(failed)?;
                writes.push((keyspace, Write::delete_range(&from, &to)));
                continue;
            }
            match (&value, is_default) {
                (Some(value), true) => batch.put(&key, value).map(drop),
                (None, true) => batch.delete(&key).map(drop),
                (Some(value), false) => batch.keyspace(&keyspace).put(&key, value).map(drop),
                (None, false) => batch.keyspace(&keyspace).delete(&key).map(drop),
            }
            .map_err(failed)?;
            writes.push((keyspace, Write { key, value, ..Write::default() }));
        }
        let durability = self.durability();
        self.db().write_with(&batch, durability).map_err(failed)?;
        for (keyspace, write) in writes {
            if let Some(state) = self.model.get_mut(keyspace.name()) {
                state.apply(&[write]);
            }
        }
        Ok(durability == Durability::Sync)
    }

    fn put_one(&mut self) -> Checked<bool> {
        let (keyspace, (key, value), durability) = (self.any()?, self.drawn(), self.durability());
        match &value {
            Some(value) => keyspace.put_with(&key, value, durability),
            None => keyspace.delete_with(&key, durability),
        }
        .map_err(failed)?;
        self.set(&keyspace, (key, value));
        Ok(durability == Durability::Sync)
    }

    /// Moves values between keyspaces.
    fn transaction(&mut self) -> Checked {
        let moves: Vec<_> = (0..1 + self.rng.index(3))
            .map(|_| Ok((self.any()?, self.any()?, self.drawn().0)))
            .collect::<Checked<_>>()?;
        let mut transaction = self.db().transaction().map_err(failed)?;
        for (from, to, key) in &moves {
            let value = transaction.keyspace(from).get(key).map_err(failed)?;
            let expected = self.model[from.name()].get(key);
            compare_value("a read of a transaction", key, value.as_ref(), expected)?;
            if let Some(value) = value {
                let mut of_target = transaction.keyspace(to);
                of_target.put(key, &value).map_err(failed)?;
                let seen = collect(of_target.range(&key[..]..=&key[..]), Scan::Forward)?;
                compare("a transaction's own write", &seen, &[(key, &value)])?;
                if from.name() != to.name() {
                    transaction.keyspace(from).delete(key).map_err(failed)?;
                }
                self.set(to, (key.clone(), Some(value[..].into())));
                if from.name() != to.name() {
                    self.set(from, (key.clone(), None));
                }
            }
        }
        transaction.commit().map_err(failed)
    }

    /// Compares everything that can be read with the model.
    pub fn check(&self) -> Checked {
        check_content(self.db(), &self.model)?;
        for Held { snapshot, model, handles } in &self.held {
            compare_all("a snapshot", snapshot.range(..), snapshot.range(..), &model[DEFAULT])?;
            for keyspace in handles {
                let (seen, expected) = (snapshot.keyspace(keyspace), &model[keyspace.name()]);
                let what = format!("a snapshot of {}", keyspace.name());
                compare_all(&what, seen.range(..), seen.range(..), expected)?;
                for (key, value) in expected.iter() {
                    let got = seen.get(key).map_err(failed)?;
                    compare_value(&what, key, got.as_ref(), Some(value))?;
                }
            }
        }
        let now = self.db().keyspaces().map_err(failed)?;
        for Held { snapshot, model, .. } in &self.held {
            for later in now.iter().filter(|keyspace| !model.contains_key(keyspace.name())) {
                let seen = snapshot.keyspace(later).range(..).next();
                if seen.is_some() {
                    return Err(format!("a snapshot sees {}, created later", later.name()));
                }
            }
        }
        for keyspace in &self.dropped {
            expect(keyspace.get("key01").map(drop), ErrorKind::NoKeyspace)?;
            expect(keyspace.put("key01", "value"), ErrorKind::NoKeyspace)?;
            expect(
                keyspace.range(..).next().map_or(Ok(()), |it| it.map(drop)),
                ErrorKind::NoKeyspace,
            )?;
            let now = self.db().snapshot().keyspace(keyspace);
            expect(now.contains_key("key01").map(drop), ErrorKind::NoKeyspace)?;
        }
        let report = self.db().verify().map_err(failed)?;
        report.problems.first().map_or(Ok(()), |problem| Err(format!("verify: {problem}")))
    }

    /// Opens what crashes at `points` moments would have left, and finds the content of a moment
    /// in each. Returns the number of states.
    pub fn check_crashes(&mut self, points: usize) -> Checked<usize> {
        let (mut replay, mut states) = (self.disks.replay(), 0);
        let end = self.disks.time();
        let mut at: Vec<usize> = (0..points).map(|_| self.rng.index(end + 1)).collect();
        at.sort_unstable();
        for point in at {
            replay.advance(point);
            let begun = self.past.iter().rposition(|moment| moment.begun <= point).unwrap_or(0);
            let last = |durable: bool| {
                let ended = |m: &Moment| m.ended <= point && (!durable || m.durable);
                self.past.iter().rposition(ended).unwrap_or(0)
            };
            let options = PowerLoss { states_max: 3, seed: point as u64, ..PowerLoss::default() };
            let killed = [(replay.process_kill(), last(false))].into_iter();
            let dark = replay.power_loss(&options).into_iter().map(|images| (images, last(true)));
            for (images, least) in killed.chain(dark) {
                self.survives(&images, &self.past[least..=begun])
                    .map_err(|e| format!("crash at {point} of {end}: {e}"))?;
                states += 1;
            }
        }
        Ok(states)
    }

    /// Opens `images`, which must have the content of one of `moments`, and goes on with it.
    fn survives(&self, images: &Images, moments: &[Moment]) -> Checked {
        let disks = Disks::from_images(images, &self.setup);
        disks.stop_recording();
        let db = open_all(&disks.storages(), &self.setup).map_err(failed)?;
        let mut why = String::new();
        for moment in moments.iter().rev() {
            match check_content(&db, &moment.model) {
                Ok(()) => {
                    let all = [db.flush(), db.compact(), db.collect(), db.wait_idle()];
                    all.into_iter().try_for_each(|done| done.map_err(failed))?;
                    check_content(&db, &moment.model).map_err(|e| format!("after jobs: {e}"))?;
                    let report = db.verify().map_err(failed)?;
                    let problem = report.problems.first().map(|problem| problem.to_string());
                    return problem.map_or(Ok(()), |problem| Err(format!("verify: {problem}")));
                }
                Err(e) => why = e,
            }
        }
        Err(format!("the content is that of none of {} moments; the first: {why}", moments.len()))
    }
}

fn expect(result: Result<(), Error>, kind: ErrorKind) -> Checked {
    match result {
        Err(e) if e.kind() == kind => Ok(()),
        Err(e) => Err(format!("expected {kind:?}, got {e}")),
        Ok(()) => Err(format!("expected {kind:?}, and it succeeded")),
    }
}

/// Compares a range, forwards and backwards, with a map.
fn compare_all(
    what: &str,
    forward: cleavedb::Range,
    backward: cleavedb::Range,
    expected: &State,
) -> Checked {
    let expected = expected.range(None, None);
    compare(what, &collect(forward, Scan::Forward)?, &expected)?;
    compare(what, &collect(backward, Scan::Backward)?, &expected)
}

/// Compares names and content of all keyspaces with a model.
fn check_content(db: &Db, model: &Model) -> Checked {
    let mut handles = db.keyspaces().map_err(failed)?;
    let names: Vec<&str> = handles.iter().map(|keyspace| keyspace.name()).collect();
    let known: Vec<&str> = model.keys().map(|name| &**name).filter(|n| *n != DEFAULT).collect();
    if names != known {
        return Err(format!("the keyspaces are {names:?}, expected {known:?}"));
    }
    handles.extend(db.find_keyspace(DEFAULT).map_err(failed)?);
    for keyspace in &handles {
        let (name, expected) = (keyspace.name(), &model[keyspace.name()]);
        compare_all(name, keyspace.range(..), keyspace.range(..), expected)?;
        for key in (0..KEYS).map(|i| format!("key{i:02}")) {
            let got = keyspace.get(&key).map_err(failed)?;
            compare_value(name, key.as_bytes(), got.as_ref(), expected.get(key.as_bytes()))?;
        }
    }
    Ok(())
}
