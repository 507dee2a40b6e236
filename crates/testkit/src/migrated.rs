//! A database whose preset is changed: what it holds stays, whatever stops the change.

use std::path::Path;
use std::sync::Arc;

use cleavedb::reports::MigrateReport;
use cleavedb::{Db, Error, ErrorKind, Options, Progress};
use cleavedb_storage::Storage;
use cleavedb_storage_sim::sim::{Image, PowerLoss};
use cleavedb_storage_sim::{Faulty, Sim};

use crate::churn::Churn;
use crate::disks::Disks;
use crate::generator::{Generator, Profile};
use crate::op::Op;
use crate::read::Checked;
use crate::session::{DATABASE_ID, Session, open};
use crate::setup::Setup;
use crate::state::State;

/// Operations before the change, and after it.
const OPS: usize = 60;

/// Crash points that are visited while the copy is made; behind that each one is.
const POINTS: usize = 60;

/// Makes the database in the first of `storages` one of `to`; the second one is the directory of
/// the copy.
///
/// # Errors
/// As `Db::migrate`.
pub fn migrate(storages: &[Arc<dyn Storage>], to: &Setup) -> cleavedb::Result<MigrateReport> {
    let copy = |_: &Path, _| Ok(storages[1].clone());
    let options = to.options.clone();
    Db::migrate_beside(storages[0].clone(), copy, options, &Progress::default())
}

/// The directory of a database and that of its copy, with this content.
pub fn directories(images: &[Image], setup: &Setup) -> Disks {
    let disks = Disks::from_images(images, setup);
    disks.sims()[1].set_directory_id(77);
    disks
}

/// Both directories, empty.
pub fn empty(setup: &Setup) -> Disks {
    directories(&[Image::default(), Image::default()], setup)
}

/// Opens what is in the directory of the database: one of the first setup, or of the second.
///
/// # Errors
/// As `Db::open`.
pub fn open_either(own: &Sim, setups: [&Setup; 2]) -> cleavedb::Result<Db> {
    let [first, second] = setups.map(|setup| {
        let options = Options { create_if_missing: false, ..setup.options.clone() };
        move || Db::open_in(Arc::new(own.clone()), options, DATABASE_ID)
    });
    match first() {
        Err(e) if e.kind() == ErrorKind::LayoutMismatch => second(),
        opened => opened,
    }
}

/// `to` with the clock of `from`, whose values expire.
pub fn by_the_clock_of(from: &Setup, to: &Setup) -> Setup {
    let options = Options { time: from.clock.clone(), ..to.options.clone() };
    Setup { options, clock: from.clock.clone(), ..to.clone() }
}

/// Changes the preset of a database with operations in every place, that was closed or killed, and
/// compares it with the model; goes on with it.
pub fn a_migration_has_all(from: &Setup, to: &Setup, seed: u64) -> Checked {
    let to = &by_the_clock_of(from, to);
    let disks = empty(from);
    disks.stop_recording();
    let profile = Profile { merges: 10, loads: 5, ttls: 20, ranges: 10, ..Profile::model() };
    let ops = Generator::new(seed, profile).take(2 * OPS);
    let mut session = Session::on(&disks, from, State::default())?;
    ops[..OPS].iter().try_for_each(|op| session.run(op))?;
    session.leave(seed.is_multiple_of(2))?;
    let (storages, mut model) = (session.storages().to_vec(), session.model().clone());
    let report = migrate(&storages, to).map_err(|e| format!("migration: {e}"))?;
    model.pass_until(from.now());
    if from.options.layout() != to.options.layout() && report.copied != model.len() as u64 {
        return Err(format!("{report:?}, but there are {} keys", model.len()));
    }
    let left = storages[1].list().map_err(|e| e.to_string())?;
    if let Some((name, _)) = left.first() {
        return Err(format!("the copy is left: {name}"));
    }
    let mut session = Session::open(storages, to, model)?;
    session.compare_all()?;
    session.verify()?;
    let goes_on = |op: &&Op| !matches!(op, Op::Kill);
    ops[OPS..].iter().filter(goes_on).try_for_each(|op| session.run(op))?;
    session.run(&Op::Reopen)
}

/// A database that was closed, with its content, and the time then.
fn closed(from: &Setup, seed: u64) -> (Disks, Churn) {
    let (disks, mut churn) = (empty(from), Churn::new(seed).over(40));
    let db = open(disks.storages()[0].clone(), from).unwrap();
    churn.write(&db, 150);
    db.close().unwrap();
    (disks, churn)
}

/// Changes the preset of a store. Whatever a crash leaves meanwhile opens as the whole store, of
/// one preset or the other, and can be migrated, also after a write.
///
/// # Panics
/// If it is not so.
pub fn migrated_at_any_crash(from: &Setup, to: &Setup, seed: u64) {
    let (disks, churn) = closed(from, seed);
    let before = disks.time();
    migrate(&disks.storages(), to).unwrap();
    let (mut replay, own) = (disks.replay(), &disks.sims()[0]);
    let every = ((disks.time() - before) / POINTS).max(1);
    for time in before..=disks.time() {
        let exchanges = time > 0 && own.point_at(time) != own.point_at(time - 1);
        if !exchanges && !time.is_multiple_of(every) {
            continue;
        }
        replay.advance(time);
        let losses = PowerLoss { states_max: 6, seed: time as u64, ..PowerLoss::default() };
        let mut left = replay.power_loss(&losses);
        left.push(replay.process_kill());
        for (at, images) in left.into_iter().enumerate() {
            goes_on(&images, [from, to], churn.clone(), at % 2 == 0);
        }
    }
}

/// Opens what a crash left, writes if asked to, and migrates again.
#[track_caller]
fn goes_on(images: &[Image], [from, to]: [&Setup; 2], mut churn: Churn, writes: bool) {
    let left = directories(images, from);
    let opened = |setups| {
        let opened = open_either(&left.sims()[0], setups);
        opened.unwrap_or_else(|e| panic!("{from} to {to}: {e}"))
    };
    let db = opened([from, to]);
    churn.check(&db);
    if writes {
        churn.write(&db, 5);
    }
    db.close().unwrap();
    migrate(&left.storages(), to).unwrap_or_else(|e| panic!("{from} to {to}: {e}"));
    let db = opened([to; 2]);
    churn.check(&db);
    db.close().unwrap();
}

/// As [`migrated_at_any_crash`] between two presets that a seed draws.
pub fn drawn_migrations_survive(seed: u64) -> Checked {
    let designs = Setup::every_design();
    let [from, to] = [seed, seed / 2 + 3].map(|at| &designs[at as usize % designs.len()]);
    if from.options.layout() != to.options.layout() {
        migrated_at_any_crash(from, to, seed);
    }
    Ok(())
}

/// Changes the preset again and again, and fails the calls on both disks from the first, the second
/// or a later one on, by the plan. Returns the most keys that a second call has found copied.
///
/// # Errors
/// The first thing that is wrong.
pub fn migrated_despite_faults(
    [from, to]: [&Setup; 2],
    seed: u64,
    plan: impl Fn(&Faulty, u64),
) -> Checked<u64> {
    let failed = |e: Error| e.to_string();
    let (disks, churn) = closed(from, seed);
    let (images, mut found) = (disks.images(), 0);
    for call in 0.. {
        let disks = directories(&images, from);
        disks.stop_recording();
        let [own, copy] = [0, 1].map(|at: usize| disks.storages()[at].clone());
        let faulty = Faulty::new(own);
        plan(&faulty, call);
        let copy: Arc<dyn Storage> = Arc::new(faulty.beside(copy));
        let faulty = Arc::new(faulty);
        let migrated = migrate(&[faulty.clone(), copy], to);
        if faulty.calls() <= call {
            migrated.map_err(failed)?;
            break;
        }
        let own = &disks.sims()[0];
        let db = open_either(own, [from, to]).map_err(|e| format!("call {call}: {e}"))?;
        churn.check(&db);
        db.close().map_err(failed)?;
        let report = migrate(&disks.storages(), to);
        found = found.max(report.map_err(|e| format!("after call {call}: {e}"))?.found);
        let db = open_either(own, [to; 2]).map_err(failed)?;
        churn.check(&db);
        db.close().map_err(failed)?;
    }
    Ok(found)
}
