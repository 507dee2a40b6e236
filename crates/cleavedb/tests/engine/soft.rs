//! Soft pointers into groups: values are found behind them, and damage to a map stays there.

use std::sync::Arc;

use cleavedb::{Db, ErrorKind, Metrics, Preset};
use cleavedb_storage::FileKind;
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::Setup;
use cleavedb_testkit::records::{key, value};

const KEYS: u32 = 400;

/// The presets that keep values in groups.
const PRESETS: [Preset; 2] = [Preset::HashKv, Preset::KtStore];

/// Every key once, as of `round`, flushed.
fn write(db: &Db, round: u32) {
    (0..KEYS).for_each(|i| db.put(key(i), value(i, round)).unwrap());
    db.flush().unwrap();
}

/// Every way to read finds the values of `round`, and the check finds nothing wrong.
fn check(db: &Db, round: u32) {
    let values = || (0..KEYS).map(|i| value(i, round));
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    assert!(keys.iter().map(|key| db.get(key).unwrap().unwrap()).eq(values()));
    assert!(db.multi_get(&keys).into_iter().map(|found| found.unwrap().unwrap()).eq(values()));
    let (front, back) = (db.range(..), db.range(..).rev());
    assert!(front.map(|item| item.unwrap().value.to_vec()).eq(values()));
    assert!(back.map(|item| item.unwrap().value.to_vec()).eq(values().rev()));
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

/// After a collection nothing in the index says where values lie; compactions mend it by and by.
#[test]
fn values_are_found_behind_soft_pointers_and_compactions_bring_them_up_to_date() {
    for preset in PRESETS {
        let options = Setup::soft(preset, true).options;
        let sim = Sim::new();
        let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
        (0..3).for_each(|round| write(&db, round));
        db.compact().unwrap();
        let (before, snapshot) = (db.metrics(), db.snapshot());
        db.collect().unwrap();
        let after = db.metrics();
        assert!(after.collections > before.collections, "{preset}");
        let tables = |metrics: &Metrics| metrics.levels.iter().map(|level| level.tables).sum();
        let (now, then): (usize, usize) = (tables(&after), tables(&before));
        assert_eq!(now, then, "{preset}: no run");
        check(&db, 2);
        write(&db, 3);
        db.compact().unwrap();
        let old = snapshot.range(..).map(|item| item.unwrap().value.to_vec());
        assert!(old.eq((0..KEYS).map(|i| value(i, 2))));
        drop(snapshot);
        db.collect().unwrap();
        (0..KEYS).step_by(2).for_each(|i| db.put(key(i), value(i, 3)).unwrap());
        db.flush().unwrap();
        db.compact().unwrap();
        // What died behind pointers that were out of date was found all the same.
        let record = |i| 24 + (key(i).len() + value(i, 3).len()) as u64;
        let metrics = db.metrics();
        assert_eq!(metrics.live_bytes, (0..KEYS).map(record).sum::<u64>(), "{preset}");
        assert!(metrics.pointers_refreshed > 0, "{preset}");
        db.close().unwrap();
        check(&Db::open_in(Arc::new(sim), options, 7).unwrap(), 3);
    }
}

/// Behind a soft pointer a compaction looks into the map. One that is damaged must not stop it: all
/// compactions would fail with it, and then writers would.
#[test]
fn a_damaged_map_stops_no_compaction() {
    for preset in PRESETS {
        let options = Setup::soft(preset, true).options;
        let sim = Sim::new();
        let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
        (0..6).for_each(|i| db.put(key(i), value(i, 0)).unwrap());
        db.collect().unwrap();
        db.close().unwrap();
        let image = sim.image();
        let mut files = image.list().into_iter();
        let (name, len) = files.find(|(name, _)| name.kind() == FileKind::Group).unwrap();
        // Pages and fences are the end of the file.
        let mut refused = 0;
        for offset in len - 8192..len {
            let mut damaged = image.clone();
            damaged.flip_bit(&name, offset * 8);
            let db = Db::open_in(Arc::new(Sim::from_image(damaged)), options.clone(), 7).unwrap();
            (0..3).for_each(|i| db.put(key(i), value(i, 1)).unwrap());
            let done = db.flush().and_then(|()| db.compact());
            done.unwrap_or_else(|error| panic!("{preset}, a flip at {offset}: {error}"));
            (0..6).for_each(|i| match db.get(key(i)) {
                Ok(found) => assert_eq!(found.unwrap(), value(i, u32::from(i < 3))),
                Err(error) => {
                    assert_eq!((error.kind(), i < 3), (ErrorKind::Corruption, false));
                    refused += 1;
                }
            });
        }
        assert!(refused > 0, "{preset}: no flip met what is read");
    }
}
