//! Bulk loads, in all that a test can put around them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cleavedb::{Background, Db, Durability, Error};
use cleavedb_storage::FileKind;
use cleavedb_storage_sim::Sim;

use crate::disks::Disks;
use crate::gated::{Door, Gated, eventually};
use crate::generator::{Generator, Profile, value};
use crate::op::{Op, Write};
use crate::read::Checked;
use crate::session::{self, Session};
use crate::setup::Setup;
use crate::state::State;

/// Operations of a run.
const OPS: usize = 90;

/// Time in which a thread surely gets to where it is expected, and time in which a mistake shows.
const LIMIT: Duration = Duration::from_secs(60);
const WAIT: Duration = Duration::from_millis(50);

/// A mix of operations in which one of ten is a load.
pub fn profile(base: Profile) -> Profile {
    Profile { loads: 10, ..base }
}

/// Runs operations, range deletes, values that expire and loads among them, and compares every
/// answer.
pub fn among_operations(setup: &Setup, seed: u64) -> Checked {
    let profile =
        Profile { ranges: 8, ttls: 10, merges: 40 * (seed % 2), ..profile(Profile::model()) };
    let setup = &setup.at(setup.now());
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    for (at, op) in Generator::new(seed, profile).take(OPS).iter().enumerate() {
        session.run(op)?;
        if at.is_multiple_of(30) {
            session.verify().map_err(|failure| format!("after {op:?}: {failure}"))?;
        }
    }
    session.wait_idle()?;
    session.verify()?;
    session.compare_all()
}

/// Writes, and runs jobs, while a load is under way: what is committed before its end is older.
pub fn beside_writes(setup: &Setup, seed: u64) -> Checked {
    let failed = |e: Error| e.to_string();
    let setup = &setup.at(setup.now());
    let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
    let profile = Profile { kills: false, endings: 0, ..Profile::model() };
    let mut generator = Generator::new(seed, profile);
    let ends = |op: &Op| matches!(op, Op::Reopen | Op::Kill);
    let mut run = |session: &mut Session, count| -> Checked {
        let ops = generator.take(count);
        ops.iter().filter(|op| !ends(op)).try_for_each(|op| session.run(op))
    };
    run(&mut session, OPS / 3)?;
    let db: Db = session.db().clone();
    let mut load = db.default_keyspace().bulk_load().map_err(failed)?;
    let lens = [0, 40, 700, 3000, 9000];
    let mut puts = Vec::new();
    for at in 0..60u64 {
        let key = format!("k{:02}", at * 7 % 10 + at * 10).into_bytes();
        let put = Write::put(&key, value(seed << 8 | at, lens[at as usize % 5]));
        puts.push(put);
    }
    puts.sort_by(|a, b| a.key.cmp(&b.key));
    for (at, put) in puts.iter().enumerate() {
        load.put(&put.key, put.value.as_deref().unwrap_or_default()).map_err(failed)?;
        if at.is_multiple_of(4) {
            run(&mut session, 3)?;
        }
        if at.is_multiple_of(9) {
            // Some of the keys are written meanwhile.
            let own = puts[at * 5 % puts.len()].key.clone();
            let write = Write::put(&own, value(seed << 9 | at as u64, 300));
            session.run(&Op::Write(vec![write], Durability::Os))?;
        }
    }
    session.verify()?;
    load.finish().map_err(|e| format!("finish: {e}"))?;
    drop(db);
    session.loaded(&puts);
    session.compare_all()?;
    run(&mut session, OPS / 3)?;
    session.wait_idle()?;
    session.verify()?;
    session.run(&Op::Kill)?;
    session.verify()
}

/// A load whose files of each kind, in turn, take long to be synced: it is published afterwards.
pub fn waits_for_files(setup: &Setup) -> Checked {
    let failed = |e: Error| e.to_string();
    let mut setup = setup.clone();
    setup.options.background = Background::Threads(1);
    for kind in [FileKind::Table, FileKind::Segment, FileKind::Group] {
        let door = Arc::new(Gated::new(Arc::new(Sim::new())));
        let db = session::open(door.clone(), &setup).map_err(failed)?;
        let mut load = db.default_keyspace().bulk_load().map_err(failed)?;
        (0..50u8).try_for_each(|key| load.put([key], [key; 700])).map_err(failed)?;
        let ends = AtomicBool::new(false);
        let published = || ends.load(Ordering::Acquire) || matches!(db.get([7]), Ok(Some(_)));
        let (waits, ended) = thread::scope(|scope| {
            let held = door.hold(Door::Sync, kind, 1);
            let observer = scope.spawn(|| {
                let held = held;
                // A layout has values of one kind, or none.
                eventually(LIMIT, || door.waiting() > 0 || ends.load(Ordering::Acquire));
                let waits = door.waiting() > 0;
                let ended = waits && eventually(WAIT, published);
                drop(held);
                (waits, ended)
            });
            let finished = load.finish();
            ends.store(true, Ordering::Release);
            finished.map_err(failed)?;
            observer.join().map_err(|_| "the observer panicked".to_owned())
        })?;
        if ended {
            return Err(format!("a load is published before a file is synced: {kind:?}"));
        }
        let value = db.get([7]).map_err(failed)?;
        if value.is_none_or(|value| *value != [7; 700]) || (kind == FileKind::Table && !waits) {
            return Err(format!("{kind:?}: a value is wrong, or no file was synced"));
        }
        db.close().map_err(failed)?;
    }
    Ok(())
}
