//! A session: runs the engine and the model side by side and compares every answer.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use cleavedb::{Db, Durability, Error, Keyspace, Snapshot, WriteBatch};
use cleavedb_base::checksum::hash64;
use cleavedb_storage::Storage;

use crate::blobs;
use crate::disks::{Disks, volume_of};
use crate::op::{Op, Scan, Write, short};
use crate::read::{Checked, collect, compare, compare_value, everything};
use crate::setup::Setup;
use crate::state::State;
use crate::walk::Walk;

/// Most background jobs of one operation: more means an endless loop.
const STEPS_MAX: usize = 10_000;

/// Searches and runs of steps of a cursor at once.
const RUNS: usize = 6;

/// The id of every database in tests.
pub const DATABASE_ID: u64 = 0xc1ea_7e0d;

/// An engine under test, and its expected content.
pub struct Session {
    storages: Vec<Arc<dyn Storage>>,
    /// The disks, if they are simulated: then the process can be killed.
    disks: Option<Disks>,
    setup: Setup,
    db: Option<Db>,
    model: State,
    snapshots: Vec<(Snapshot, State)>,
    /// A cursor that is kept over several operations, and what it sees.
    walk: Option<(Walk, State)>,
    /// Hash of all answers so far: equal for equal operations, whatever the options.
    answers: u64,
}

/// Opens an engine in one directory.
pub fn open(storage: Arc<dyn Storage>, setup: &Setup) -> Result<Db, Error> {
    open_all(&[storage], setup)
}

/// Opens an engine in its own directory, which comes first, and volumes.
pub fn open_all(storages: &[Arc<dyn Storage>], setup: &Setup) -> Result<Db, Error> {
    let volume = |path: &Path, _| volume_of(storages, path);
    Db::open_beside(storages[0].clone(), volume, setup.options.clone(), DATABASE_ID)
}

/// Opens an engine for reading only, in its own directory, which comes first, and volumes.
pub fn open_read_only(storages: &[Arc<dyn Storage>], setup: &Setup) -> Result<Db, Error> {
    let volume = |path: &Path| volume_of(storages, path);
    Db::open_read_only_beside(storages[0].clone(), volume, setup.options.clone())
}

/// Opens a secondary beside an engine, in its own directory, which comes first, and volumes.
pub fn open_secondary(storages: &[Arc<dyn Storage>], setup: &Setup) -> Result<Db, Error> {
    let volume = |path: &Path| volume_of(storages, path);
    Db::open_secondary_beside(storages[0].clone(), volume, setup.options.clone())
}

/// Commits a batch; a single write uses the plain call, and some puts come from a reader.
pub fn commit(db: &Db, writes: &[Write], durability: Durability) -> Result<(), Error> {
    if let [write] = writes
        && let Some(done) = commit_one(db.default_keyspace(), write, durability)
    {
        return done;
    }
    let mut batch = WriteBatch::new();
    for write in writes {
        let key = &write.key[..];
        if let Some(operand) = &write.operand {
            batch.merge(key, operand)?;
            continue;
        }
        match (&write.value, &write.upto) {
            (Some(value), _) => match write.ttl {
                Some(ttl) => batch.put_with_ttl(key, value, Duration::from_millis(ttl))?,
                None => batch.put(key, value)?,
            },
            (None, Some(upto)) => batch.delete_range(key..&upto[..])?,
            (None, None) => batch.delete(key)?,
        };
    }
    db.write_with(&batch, durability)
}

/// Commits one write by the plain call; none has a time to live and a durability of its own.
pub fn commit_one(
    keyspace: &Keyspace,
    write: &Write,
    durability: Durability,
) -> Option<Result<(), Error>> {
    let stored = blobs::put(keyspace, write, durability);
    if stored.is_some() || write.ttl.is_some() {
        return stored;
    }
    let key = &write.key[..];
    if let Some(operand) = &write.operand {
        return Some(keyspace.merge_with(key, operand, durability));
    }
    Some(match (&write.value, &write.upto) {
        (Some(value), _) => keyspace.put_with(key, value, durability),
        (None, Some(upto)) => keyspace.delete_range_with(key..&upto[..], durability),
        (None, None) => keyspace.delete_with(key, durability),
    })
}

/// Loads `puts` in bulk, at the time `now`.
pub fn load(keyspace: &Keyspace, puts: &[Write], now: u64) -> Result<(), Error> {
    let mut load = keyspace.bulk_load()?;
    for Write { key, value, ttl, .. } in puts {
        let value = value.as_deref().unwrap_or_default();
        match ttl {
            Some(ttl) => {
                let time = Duration::from_millis(now + ttl);
                load.put_until(key, value, Some(UNIX_EPOCH + time))?;
            }
            None => load.put(key, value)?,
        }
    }
    load.finish().map(drop)
}

/// Whether, while `ops` run, tables move from level 0 to deeper levels while others stay: with
/// level 0 in partitions that is a bucket that leaves by itself.
pub fn a_part_leaves_level0(setup: &Setup, ops: &[Op]) -> Checked<bool> {
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    let told = |session: &Session| {
        let metrics = session.db().metrics();
        // Levels without tables are not reported.
        let (first, deeper): (Vec<_>, Vec<_>) =
            metrics.levels.iter().partition(|level| level.level == 0);
        let entries: u64 = first.iter().map(|level| level.entries).sum();
        let bytes: u64 = deeper.iter().map(|level| level.bytes).sum();
        (metrics.flushes, entries, bytes)
    };
    let mut left = false;
    for op in ops {
        let (flushes, first, deeper) = told(&session);
        session.run(op)?;
        let (flushes_now, first_now, deeper_now) = told(&session);
        let stays = 0 < first_now && first_now < first;
        left |= flushes == flushes_now && stays && deeper != deeper_now;
    }
    Ok(left)
}

impl Session {
    /// Opens the store in `storages`, which hold `model`: its own directory, and volumes.
    pub fn open(storages: Vec<Arc<dyn Storage>>, setup: &Setup, model: State) -> Checked<Self> {
        let db = open_all(&storages, setup).map_err(|e| format!("open failed: {e}"))?;
        let (setup, snapshots, mut model) = (setup.clone(), Vec::new(), model);
        model.pass_until(setup.now());
        let (db, disks) = (Some(db), None);
        Ok(Self { storages, disks, setup, db, model, snapshots, walk: None, answers: 0 })
    }

    /// Opens the store on simulated disks, which hold `model`.
    pub fn on(disks: impl Into<Disks>, setup: &Setup, model: State) -> Checked<Self> {
        let disks = disks.into();
        let session = Self::open(disks.storages(), setup, model)?;
        Ok(Self { disks: Some(disks), ..session })
    }

    /// The engine.
    ///
    /// # Panics
    /// After a failed reopen.
    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("the last open succeeded")
    }

    /// The directories of the engine, its own first.
    pub fn storages(&self) -> &[Arc<dyn Storage>] {
        &self.storages
    }

    /// The expected content.
    pub fn model(&self) -> &State {
        &self.model
    }

    /// Tells the model of a load that a caller has made.
    pub fn loaded(&mut self, puts: &[Write]) {
        self.model.apply(puts);
    }

    /// Hash of all answers.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// Runs one operation and compares its answer.
    pub fn run(&mut self, op: &Op) -> Checked {
        self.run_inner(op).map_err(|failure| format!("{op:?}: {failure}"))
    }

    fn run_inner(&mut self, op: &Op) -> Checked {
        let failed = |e: Error| e.to_string();
        match op {
            Op::Write(writes, durability) => {
                commit(self.db(), writes, *durability).map_err(failed)?;
                self.model.apply(writes);
                Ok(())
            }
            Op::Load(puts) => {
                load(self.db().default_keyspace(), puts, self.setup.now()).map_err(failed)?;
                self.model.apply(puts);
                Ok(())
            }
            Op::Snapshot => {
                self.snapshots.push((self.db().snapshot(), self.model.clone()));
                Ok(())
            }
            Op::DropSnapshot(at) => {
                if !self.snapshots.is_empty() {
                    self.snapshots.remove(at % self.snapshots.len());
                }
                Ok(())
            }
            Op::Flush => self.db().flush().map_err(failed),
            Op::Step(count) => {
                for _ in 0..*count {
                    self.db().step().map_err(failed)?;
                }
                Ok(())
            }
            Op::Compact => self.db().compact().map_err(failed),
            Op::Collect => self.db().collect().map_err(failed),
            Op::Sync => self.db().sync().map_err(failed),
            Op::Wait(millis) => {
                self.setup.clock.advance(Duration::from_millis(*millis));
                self.model.pass_until(self.setup.now());
                Ok(())
            }
            Op::Verify => self.verify(),
            Op::Reopen => self.reopen(true),
            Op::Kill => self.reopen(false),
            read => self.read(read),
        }
    }

    fn read(&mut self, op: &Op) -> Checked {
        match op {
            Op::Get(key) => {
                let got = self.db().get(key).map_err(|e| e.to_string())?;
                let there = self.db().contains_key(key).map_err(|e| e.to_string())?;
                if there != self.model.get(key).is_some() {
                    return Err(format!("contains_key of {} gave {there}", short(key)));
                }
                compare_value("get", key, got.as_ref(), self.model.get(key))
            }
            Op::MultiGet(keys) => {
                for (key, got) in keys.iter().zip(self.db().multi_get(keys)) {
                    let got = got.map_err(|e| e.to_string())?;
                    compare_value("multi_get", key, got.as_ref(), self.model.get(key))?;
                }
                Ok(())
            }
            Op::Range(from, to, scan) => {
                let (from, to) = (from.as_deref(), to.as_deref());
                let got = collect(self.db().range((from, to)), *scan)?;
                self.answered(&got);
                let expected = self.model.range(from, to);
                compare("range", &got, &expected)?;
                Walk::new(self.db().cursor((from, to)), self.answers).go(RUNS, &expected)
            }
            Op::Prefix(prefix, scan) => {
                let got = collect(self.db().prefix(prefix), *scan)?;
                self.answered(&got);
                let with_prefix = self.model.iter().filter(|(key, _)| key.starts_with(prefix));
                compare("prefix", &got, &with_prefix.collect::<Vec<_>>())
            }
            Op::ReadSnapshot(at, key) if !self.snapshots.is_empty() => {
                let (snapshot, frozen) = &self.snapshots[at % self.snapshots.len()];
                let got = snapshot.get(key).map_err(|e| e.to_string())?;
                compare_value("get at a snapshot", key, got.as_ref(), frozen.get(key))?;
                let got = collect(snapshot.range(..), Scan::Both(*at as u64 * 0x1357))?;
                compare("range at a snapshot", &got, &frozen.range(None, None))?;
                // Every other time the cursor is kept, so that jobs run while it is held.
                let (mut walk, frozen) = match self.walk.take() {
                    Some(kept) => kept,
                    None => (Walk::new(snapshot.cursor(..), *at as u64), frozen.clone()),
                };
                walk.go(RUNS, &frozen.range(None, None))?;
                self.walk = at.is_multiple_of(2).then_some((walk, frozen));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn answered(&mut self, items: &[cleavedb::Item]) {
        for item in items {
            self.answers = hash64(&item.key, hash64(&item.value, self.answers));
        }
    }

    /// Runs the store's own check, and compares the number of keys.
    pub fn verify(&self) -> Checked {
        let report = self.db().verify().map_err(|e| e.to_string())?;
        if let Some(problem) = report.problems.first() {
            return Err(format!("verify found {} problems: {problem}", report.problems.len()));
        }
        if report.keys as usize != self.model.len() {
            return Err(format!("verify found {} keys of {}", report.keys, self.model.len()));
        }
        Ok(())
    }

    /// Closes (or kills) and reopens; the content must be the same.
    fn reopen(&mut self, clean: bool) -> Checked {
        self.leave(clean)?;
        let opened = open_all(&self.storages, &self.setup);
        self.db = Some(opened.map_err(|e| format!("open failed: {e}"))?);
        self.compare_all()
    }

    /// Ends the process, by a close or by a kill.
    pub fn leave(&mut self, clean: bool) -> Checked {
        (self.snapshots, self.walk) = (Vec::new(), None);
        let Some(db) = self.db.take() else { return Ok(()) };
        if clean {
            return db.close().map(drop).map_err(|e| format!("close failed: {e}"));
        }
        let disks = self.disks.as_ref().ok_or("only a process on simulated disks can be killed")?;
        // The old handle belongs to a dead process: its drop must change nothing.
        let disks = disks.kill();
        drop(db);
        self.storages = disks.storages();
        self.disks = Some(disks);
        Ok(())
    }

    /// Compares the whole content, in one direction.
    pub fn compare_all(&self) -> Checked {
        let got = everything(self.db().default_keyspace())?;
        if got == self.model {
            return Ok(());
        }
        let lost = self.model.iter().find(|(key, value)| got.get(key) != Some(value));
        let extra = got.iter().find(|(key, _)| self.model.get(key).is_none());
        let key = lost.or(extra).map_or_else(String::new, |(key, _)| short(key));
        Err(format!("the content differs from the model at {key}"))
    }

    /// Runs background jobs until none is due.
    pub fn wait_idle(&self) -> Checked {
        for _ in 0..STEPS_MAX {
            if !self.db().step().map_err(|e| e.to_string())? {
                return Ok(());
            }
        }
        Err(format!("{STEPS_MAX} background jobs ran and there is still one due"))
    }
}
