//! A database that is destroyed, with a crash at every moment of that.

use cleavedb::reports::DestroyReport;
use cleavedb::{Db, ErrorKind, Options};
use cleavedb_storage::{FileKind, Storage};
use cleavedb_storage_sim::sim::PowerLoss;

use crate::churn::Churn;
use crate::disks::{Disks, volume_of};
use crate::read::Checked;
use crate::session::open_all;
use crate::setup::Setup;

fn destroy(disks: &Disks) -> cleavedb::Result<DestroyReport> {
    let storages = disks.storages();
    Db::destroy_beside(storages[0].clone(), |path| volume_of(&storages, path))
}

/// Files of all disks, but for those that only say that a directory is in use.
fn files(disks: &Disks) -> Vec<FileKind> {
    let all = disks.sims().iter().flat_map(|sim| sim.list().unwrap());
    all.map(|(name, _)| name.kind()).filter(|kind| *kind != FileKind::Lock).collect()
}

/// Destroys the store of a process that died. Whatever a crash leaves meanwhile opens as the whole
/// store, or not at all, and can be destroyed. Where a seed is even, all writes were synced.
///
/// # Panics
/// If it is not so.
pub fn destroyed_at_any_crash(setup: &Setup, seed: u64) {
    let (disks, synced) = (Disks::new(setup), seed.is_multiple_of(2));
    let mut churn = Churn::new(seed).over(40);
    let db = open_all(&disks.storages(), setup).unwrap();
    churn.write(&db, 150);
    if synced {
        db.sync().unwrap();
    }
    let disks = disks.kill();
    drop(db);
    let before = disks.time();
    let report = destroy(&disks).unwrap();
    assert!(report.files > 3 && report.foreign.is_empty() && files(&disks).is_empty());
    let mut replay = disks.replay();
    for time in before..=disks.time() {
        replay.advance(time);
        let losses = PowerLoss { states_max: 12, seed: time as u64, ..PowerLoss::default() };
        let losses = replay.power_loss(&losses).into_iter().map(|images| (images, synced));
        for (images, is_whole) in losses.chain([(replay.process_kill(), true)]) {
            let left = Disks::from_images(&images, setup);
            let options = Options { create_if_missing: false, ..setup.options.clone() };
            let only = Setup { options, ..setup.clone() };
            match open_all(&left.storages(), &only) {
                Ok(db) => {
                    if is_whole {
                        churn.check(&db);
                    }
                    db.close().unwrap();
                }
                Err(e) => assert_ne!(e.kind(), ErrorKind::Io, "{setup}: {e}"),
            }
            match destroy(&left) {
                Ok(_) => {}
                Err(e) => assert_eq!(e.kind(), ErrorKind::NotADatabase, "{setup}: {e}"),
            }
            assert!(files(&left).is_empty(), "{setup}, {time}: {:?}", files(&left));
            let db = open_all(&left.storages(), setup).unwrap();
            assert!(db.range(..).next().is_none(), "{setup}: it is a new one");
        }
    }
}

/// As [`destroyed_at_any_crash`], of a store of the default preset.
///
/// # Errors
/// None: what is wrong is a panic.
pub fn destroyed_stores(seed: u64) -> Checked {
    destroyed_at_any_crash(&Setup::every_design()[0], seed);
    Ok(())
}
