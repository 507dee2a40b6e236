//! Followers: what a database tells of its changes, applied to a model, is its content.

use std::sync::Arc;

use cleavedb::{ChangeBatch, ChangeKind, Db, Error, ErrorKind, Preset, WriteBatch};
use cleavedb_storage_sim::sim::{DirectoryOrder, PowerLoss};

use crate::disks::Disks;
use crate::generator::{Generator, Profile};
use crate::merges;
use crate::op::Op;
use crate::read::{Checked, everything};
use crate::session::{Session, open_all};
use crate::setup::{Setup, millis};
use crate::state::State;

/// Operations of a run.
const OPS: usize = 80;

/// Bytes of log that is as good as all.
pub(crate) const ALL: u64 = 1 << 40;

pub(crate) fn failed(error: Error) -> String {
    error.to_string()
}

/// A reader of changes that keeps the content.
pub struct Follower {
    /// What it has been told, all together.
    pub state: State,
    /// The sequence number that it goes on from.
    pub next: u64,
    /// Every batch that it was told.
    pub batches: Vec<ChangeBatch>,
}

impl Follower {
    /// One that knows nothing, from sequence number `next` on.
    pub fn new(next: u64) -> Self {
        Self { state: State::default(), next, batches: Vec::new() }
    }

    /// Reads what is new, and applies it as of the time `now`.
    pub fn follow(&mut self, db: &Db, now: u64) -> Checked {
        let changes = db.changes(self.next).map_err(failed)?;
        self.apply(db, changes, now)
    }

    /// Applies what `changes` of `db` tell as of the time `now`.
    pub fn apply(
        &mut self,
        db: &Db,
        changes: impl Iterator<Item = Result<ChangeBatch, Error>>,
        now: u64,
    ) -> Checked {
        for batch in changes {
            let batch = batch.map_err(failed)?;
            self.take(db, &batch)?;
            self.batches.push(batch);
        }
        self.state.pass_until(now);
        Ok(())
    }

    fn take(&mut self, db: &Db, batch: &ChangeBatch) -> Checked {
        if batch.first < self.next || batch.last < batch.first {
            return Err(format!("a batch begins at {}, after {}", batch.first, self.next));
        }
        self.next = batch.next_seq();
        for change in &batch.changes {
            match &change.kind {
                ChangeKind::Put { key, value, expires } => {
                    let value = Some((value[..].into(), millis(*expires)));
                    self.state.set_living(key, value);
                }
                ChangeKind::PutBlob { key, len, .. } => self.read(db, key, *len)?,
                ChangeKind::Delete { key } => self.state.set(key, None),
                ChangeKind::DeleteRange { from, upto: Some(upto) } => {
                    self.state.delete_range(from, upto);
                }
                ChangeKind::Merge { key, operand } => {
                    let value = merges::apply(self.state.get(key), operand);
                    self.state.set(key, Some(&value.into()));
                }
                ChangeKind::Loaded { first, last } => self.scan(db, first, last)?,
                other => return Err(format!("{other:?} was not asked for")),
            }
        }
        Ok(())
    }

    /// Reads the value of a key that got a blob of `len` bytes: that one, or a later one.
    fn read(&mut self, db: &Db, key: &[u8], len: u64) -> Checked {
        if len == 0 {
            return Err("a blob has no length".to_owned());
        }
        let found = db.default_keyspace().get_with_expiry(key).map_err(failed)?;
        self.state.set(key, None);
        if let Some((value, expires)) = found {
            self.state.set_living(key, Some((value[..].into(), millis(expires))));
        }
        Ok(())
    }

    /// Reads a range that was loaded: what is not found there is gone.
    fn scan(&mut self, db: &Db, first: &[u8], last: &[u8]) -> Checked {
        self.state.delete_range(first, &[last, b"\0"].concat());
        let mut cursor = db.cursor(first.to_vec()..=last.to_vec());
        while cursor.next().map_err(failed)? {
            let (item, expiry) = (cursor.item().map_err(failed)?, millis(cursor.expiry()));
            if let Some(item) = item {
                let value: Arc<[u8]> = item.value[..].into();
                self.state.set_living(&item.key, Some((value, expiry)));
            }
        }
        Ok(())
    }
}

/// The setup with this many bytes of the log kept.
pub fn keeping(setup: &Setup, bytes: u64) -> Setup {
    let mut own = setup.at(setup.now());
    own.name = format!("{setup}, changes kept");
    own.options.change_retention_bytes = Some(bytes);
    own
}

/// The mix of operations that `seed` stands for.
pub(crate) fn profile(seed: u64) -> Profile {
    let (ranges, loads) = (10 * (seed % 2), if seed % 5 == 4 { 8 } else { 0 });
    let (ttls, merges) =
        (if seed.is_multiple_of(3) { 25 } else { 0 }, if seed % 4 < 2 { 40 } else { 0 });
    Profile { reads: false, ranges, ttls, merges, loads, ..Profile::model() }
}

/// After every operation of a sequence, what was told is the content. At the end a reader from the
/// first batch is told the same, one from any other batch on the rest, and another database that
/// applies all has the same content.
pub fn changes_are_the_content(setup: &Setup, seed: u64) -> Checked {
    let setup = &keeping(setup, ALL);
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    let mut follower = Follower::new(1);
    for (at, op) in Generator::new(seed, profile(seed)).take(OPS).iter().enumerate() {
        session.run(op)?;
        let told = follower.follow(session.db(), setup.now());
        told.map_err(|e| format!("after operation {at}, {op:?}: {e}"))?;
        if follower.state != *session.model() {
            let last = follower.batches.last();
            return Err(format!(
                "after operation {at}, {op:?}: another content was told: {last:?}"
            ));
        }
    }
    session.verify()?;
    let db = session.db();
    if db.oldest_change() != Some(1) {
        return Err(format!("changes from {:?} on are kept, not all", db.oldest_change()));
    }
    rest_from_any(db, &follower.batches)?;
    // What was loaded can only be read as it is now, and merges would change it once more.
    if profile(seed).loads == 0 {
        replica(&follower, setup.now(), seed)?;
    }
    session.run(&Op::Reopen)?;
    rest_from_any(session.db(), &follower.batches)
}

/// A reader from any batch on is told exactly the rest.
pub(crate) fn rest_from_any(db: &Db, batches: &[ChangeBatch]) -> Checked {
    for (at, batch) in batches.iter().enumerate() {
        for from in [batch.first, batch.last] {
            let rest: Result<Vec<_>, Error> = db.changes(from).map_err(failed)?.collect();
            if rest.map_err(failed)? != batches[at..] {
                return Err(format!("from {from} on others are told than before"));
            }
        }
    }
    Ok(())
}

/// Another database, of another preset, gets all changes by its public interface.
fn replica(follower: &Follower, now: u64, seed: u64) -> Checked {
    let designs = Setup::every_design();
    let setup = designs[(seed as usize + 1) % designs.len()].at(now);
    let disks = Disks::forgetful(&setup);
    let copy = open_all(&disks.storages(), &setup).map_err(failed)?;
    for batch in &follower.batches {
        apply(&copy, batch).map_err(failed)?;
    }
    if everything(copy.default_keyspace())? != follower.state {
        return Err("a replica has another content".to_owned());
    }
    copy.close().map(drop).map_err(failed)
}

/// Applies a batch to a replica.
fn apply(copy: &Db, batch: &ChangeBatch) -> Result<(), Error> {
    let mut writes = WriteBatch::new();
    for change in &batch.changes {
        match &change.kind {
            ChangeKind::Put { key, value, expires } => {
                writes.put_until(key, value, *expires)?;
            }
            ChangeKind::Delete { key } => _ = writes.delete(key)?,
            ChangeKind::DeleteRange { from, upto: Some(upto) } => {
                writes.delete_range(&from[..]..&upto[..])?;
            }
            ChangeKind::Merge { key, operand } => _ = writes.merge(key, operand)?,
            _ => {}
        }
    }
    copy.write(&writes)
}

/// With little log kept, a reader that keeps up is told everything, and one that does not is told
/// so; and no more log is kept than was asked for, with a file that is not full.
pub fn little_is_kept(setup: &Setup, seed: u64) -> Checked {
    let keep = 20 << 10;
    let setup = &keeping(setup, keep);
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    let mut follower = Follower::new(1);
    for op in Generator::new(seed, Profile { loads: 0, ..profile(seed) }).take(2 * OPS) {
        session.run(&op)?;
        // Between two looks no more is written than is kept.
        follower.follow(session.db(), setup.now())?;
        if follower.state != *session.model() {
            return Err(format!("after {op:?}: another content was told"));
        }
    }
    session.run(&Op::Flush)?;
    session.wait_idle()?;
    let db = session.db();
    let oldest = db.oldest_change().unwrap_or_default();
    if oldest == 1 {
        return Err("all changes are kept".to_owned());
    }
    let refused = db.changes(oldest - 1).err().map(|e| e.kind());
    if refused != Some(ErrorKind::NotRetained) {
        return Err(format!("changes that are not kept give {refused:?}"));
    }
    // A batch makes a file longer than others, and it lies in one file.
    let longest = setup.options.tuning.log_file_bytes + ((8 * 42) << 10);
    let kept = db.metrics().retained_log_bytes;
    if kept > keep + longest {
        return Err(format!("{kept} bytes of log are kept, instead of {keep}"));
    }
    session.verify()
}

/// A moment at which a reader had been told batches up to this sequence number.
struct Told {
    time: usize,
    last: u64,
}

/// After any crash, all that is told is what is there; and what was told as durable, or before a
/// kill, is there.
pub fn changes_survive_crashes(setup: &Setup, seed: u64) -> Checked {
    let setup = &keeping(setup, ALL);
    let profile = Profile { ranges: 10, kills: seed.is_multiple_of(2), ..Profile::crash() };
    let ops = Generator::new(seed, profile).take(20);
    let disks = Disks::new(setup);
    let mut session = Session::on(&disks, setup, State::default())?;
    let (mut any, mut durable) = (Vec::new(), Vec::new());
    for op in &ops {
        session.run(op)?;
        for (told, durable_only) in [(&mut any, false), (&mut durable, true)] {
            let changes = session.db().changes(1).map_err(failed)?;
            let changes = if durable_only { changes.durable_only() } else { changes };
            let last = changes.last().transpose().map_err(failed)?.map_or(0, |it| it.last);
            told.push(Told { time: disks.time(), last });
        }
    }
    session.leave(false)?;
    let last_before = |told: &[Told], point: usize| {
        told.iter().filter(|told| told.time <= point).map(|told| told.last).max().unwrap_or(0)
    };
    let mut replay = disks.replay();
    let (stride, last) = (1 + disks.time() / 120, disks.time());
    for point in (seed as usize % stride..=last).step_by(stride) {
        replay.advance(point);
        let least = last_before(&any, point);
        told_after(setup, &replay.process_kill(), least)
            .map_err(|e| format!("killed at {point}: {e}"))?;
        let order = [DirectoryOrder::Prefix, DirectoryOrder::Subset][point % 2];
        let options = PowerLoss { directory: order, states_max: 6, seed };
        let least = last_before(&durable, point);
        for images in replay.power_loss(&options) {
            told_after(setup, &images, least)
                .map_err(|e| format!("without power at {point}: {e}"))?;
        }
    }
    Ok(())
}

/// Opens what a crash has left: all that is told, from the first change on, is the content, and has
/// the batches up to `least`; so it is when more was written, and after another open.
fn told_after(setup: &Setup, images: &crate::disks::Images, least: u64) -> Checked {
    let disks = Disks::from_images(images, setup);
    disks.stop_recording();
    let mut follower = Follower::new(1);
    for round in 0..3u8 {
        let db = open_all(&disks.storages(), setup).map_err(|e| format!("open failed: {e}"))?;
        let mut all = Follower::new(1);
        all.follow(&db, setup.now()).map_err(|e| format!("open {round}: {e}"))?;
        if all.state != everything(db.default_keyspace())? {
            return Err(format!("open {round}: another content was told"));
        }
        if all.batches.last().map_or(0, |batch| batch.last) < least {
            return Err(format!("batches up to {least} were told, and are gone"));
        }
        if !all.batches.starts_with(&follower.batches) {
            return Err(format!("open {round}: other batches are told than before"));
        }
        // A reader that goes on is told the same as one that begins.
        if round > 0 {
            follower.follow(&db, setup.now())?;
            if follower.batches != all.batches {
                return Err(format!("open {round}: a reader that goes on is told others"));
            }
        } else {
            follower = all;
        }
        for key in 0..3u8 {
            db.put([b'n', round, key], vec![key; 900]).map_err(failed)?;
        }
        follower.follow(&db, setup.now())?;
        match round {
            0 => db.flush().map_err(failed)?,
            _ => _ = db.close().map_err(failed)?,
        }
    }
    Ok(())
}

/// Changes that are kept from some session on, of a log whose window held what no file has: none
/// of them is read from a file that has a hole.
pub fn kept_from_some_day_on(preset: Preset) -> Checked {
    let setup = Setup::log_in_window(preset);
    let disks = Disks::forgetful(&setup);
    let db = open_all(&disks.storages(), &setup).map_err(failed)?;
    for key in 0..40u8 {
        db.put([key], vec![key; 900]).map_err(failed)?;
    }
    db.flush().map_err(failed)?;
    db.put("young", "not flushed").map_err(failed)?;
    db.close().map_err(failed)?;
    let setup = keeping(&setup, ALL);
    let db = open_all(&disks.storages(), &setup).map_err(failed)?;
    let mut follower = Follower::new(db.oldest_change().ok_or("no changes are kept")?);
    db.put("first", "1").map_err(failed)?;
    follower.follow(&db, 0)?;
    db.flush().map_err(failed)?;
    db.put("second", "2").map_err(failed)?;
    db.close().map_err(failed)?;
    let db = open_all(&disks.storages(), &setup).map_err(failed)?;
    let mut again = Follower::new(db.oldest_change().ok_or("no changes are kept")?);
    again.follow(&db, 0)?;
    match (follower.batches.len(), again.batches.len()) {
        (1, 2) => Ok(()),
        told => Err(format!("{told:?} batches were told")),
    }
}

/// What was deleted stays in the log that is kept for changes, which a collection of the range
/// says; once they are given up, it is in no file.
pub fn changes_hold_what_was_deleted(setup: &Setup, seed: u64) -> Checked {
    let setup = keeping(setup, ALL);
    let disks = Disks::forgetful(&setup);
    let db = open_all(&disks.storages(), &setup).map_err(failed)?;
    let needle = format!("needle {seed} in a value that is as long as it must be").into_bytes();
    for key in 0..30u8 {
        db.put([key], needle.repeat(1 + usize::from(key) * 3)).map_err(failed)?;
    }
    db.delete_range([0]..[30]).map_err(failed)?;
    let refused = db.default_keyspace().collect_range(..).err().map(|e| e.kind());
    if refused != Some(ErrorKind::Held) {
        return Err(format!("a collection of what changes hold gave {refused:?}"));
    }
    db.drop_changes(u64::MAX).map_err(failed)?;
    db.default_keyspace().collect_range(..).map_err(failed)?;
    let found = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    for image in disks.images() {
        for (name, _) in image.list() {
            if found(&image.read(&name).unwrap_or_default()) {
                return Err(format!("what was deleted is in {name}"));
            }
        }
    }
    db.put("key", "value").map_err(failed)?;
    let oldest = db.oldest_change().ok_or("no changes are kept")?;
    let told = db.changes(oldest).map_err(failed)?.count();
    if told == 1 { Ok(()) } else { Err(format!("{told} batches are kept")) }
}
