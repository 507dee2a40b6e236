//! Checks of damaged stores: reads give the right answer or none, and lost edits are noticed.

use std::sync::Arc;

use cleavedb::{Durability, Preset};
use cleavedb_storage::FileKind;
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Image;
use cleavedb_testkit::session::open;
use cleavedb_testkit::{Generator, Op, Profile, Session, Setup, State, Write};

/// A closed store, some of its bytes damaged or its files exchanged, as in `corruption.rs`.
pub fn damage(seed: u64) -> Result<(), String> {
    let setup = Setup::tiny(Preset::WiscKey, true);
    let sim = Sim::new();
    let mut session = Session::on(&sim, &setup, State::default())?;
    let profile = Profile { kills: false, keys: 30, ..Profile::crash() };
    Generator::new(seed, profile).take(60).iter().try_for_each(|op| session.run(op))?;
    // An unclean end: the log holds what nothing else does.
    session.run(&Op::Sync)?;
    let state = session.model().clone();
    session.leave(false)?;
    let image = sim.image();
    let files: Vec<_> = image.list().into_iter().filter(|f| f.0.kind() == FileKind::Log).collect();
    let read = |image: Image| {
        let Ok(db) = open(Arc::new(Sim::from_image(image)), &setup) else { return Ok(()) };
        if db.recovery_report().bytes_cut > 0 {
            return Ok(());
        }
        for item in db.range(..).flatten() {
            if state.get(&item.key) != Some(&item.value[..]) {
                return Err("a scan gave a wrong value".to_owned());
            }
        }
        for (key, value) in state.iter() {
            if db.get(key).is_ok_and(|found| found.as_deref() != Some(value)) {
                return Err("a get gave a wrong value".to_owned());
            }
        }
        Ok(())
    };
    for (name, len) in &files {
        for offset in (seed % 7..*len).step_by(7) {
            let mut damaged = image.clone();
            damaged.flip_bit(name, offset * 8 + offset % 8);
            read(damaged).map_err(|e| format!("{e}: byte {offset} of {name} ({len})"))?;
        }
    }
    // A clean end: all that lives is behind pointers.
    let sim = Sim::from_image(image);
    Session::on(&sim, &setup, state.clone())?.leave(true)?;
    let image = sim.image();
    let files = image.list().into_iter().map(|(name, _)| name);
    let files: Vec<_> = files.filter(|name| name.kind() == FileKind::Log).collect();
    for (i, name) in files.iter().enumerate() {
        for other in &files[..i] {
            let mut damaged = image.clone();
            damaged.swap(name, other);
            read(damaged).map_err(|e| format!("{e}: {name} and {other} exchanged"))?;
        }
    }
    Ok(())
}

/// A closed store whose log is in no file but for its end, and a manifest that lost edits.
pub fn lost_edits(seed: u64) -> Result<(), String> {
    let setup =
        Setup::log_in_window(if seed.is_multiple_of(2) { Preset::HashKv } else { Preset::KtStore });
    let sim = Sim::new();
    let mut session = Session::on(&sim, &setup, State::default())?;
    for i in 0..60u8 {
        session.run(&Op::Write(vec![Write::put(&[i], vec![i; 900])], Durability::Os))?;
        if i % 20 == 19 {
            session.run(&Op::Flush)?;
        }
    }
    let keys = session.model().len();
    session.leave(true)?;
    let image = sim.image();
    for (name, len) in image.list() {
        for at in (0..len).step_by(31).filter(|_| name.kind() == FileKind::Manifest) {
            let mut damaged = image.clone();
            damaged.truncate(&name, at);
            let Ok(db) = open(Arc::new(Sim::from_image(damaged)), &setup) else { continue };
            let found = db.range(..).collect::<Result<Vec<_>, _>>();
            if found.is_ok_and(|items| items.len() != keys) {
                return Err(format!("keys are missing in silence: {name} cut at {at}"));
            }
        }
    }
    Ok(())
}
