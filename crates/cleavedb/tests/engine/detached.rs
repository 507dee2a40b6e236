//! A disk that loses power alone: it was detached, its file system was shut down, or the store is a
//! snapshot of the device on the same machine. The boot id says that nothing is lost, and what was
//! not synced is.

use std::sync::Arc;

use cleavedb::{Db, Durability, ErrorKind, Options};
use cleavedb_storage::{FileKind, Name, Storage};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::{Image, PowerLoss, SECTOR};
use cleavedb_testkit::Setup;
use cleavedb_testkit::session::{open_read_only, open_secondary};

const WINDOW: FileKind = FileKind::Window;

/// Bytes of the window before its ring.
const HEADER: usize = 4096;

/// One in this number of writes is synced.
const SYNCED_ONE_IN: u32 = 7;

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

fn value(i: u32) -> Vec<u8> {
    vec![i as u8; 900]
}

/// Writes the values of `writes`; returns the moment at which each one that was synced was.
fn write(sim: &Sim, db: &Db, writes: std::ops::Range<u32>) -> Vec<(usize, u32)> {
    let mut synced = Vec::new();
    for i in writes {
        let is_synced = i % SYNCED_ONE_IN == 3;
        let durability = if is_synced { Durability::Sync } else { Durability::Os };
        db.put_with(key(i), value(i), durability).unwrap();
        synced.extend(is_synced.then(|| (sim.history_len(), i)));
    }
    synced
}

/// Fails unless `db` has the first writes, `least` or more; returns their number.
fn has_the_first(db: &Db, least: u32, context: &str) -> u32 {
    let count = db.range(..).count() as u32;
    assert!(count >= least, "{context}: {count} writes are there, and {least} were synced");
    for i in 0..count {
        let found = db.get(key(i)).unwrap();
        assert!(found.is_some_and(|found| *found == value(i)), "{context}: write {i} of {count}");
    }
    count
}

fn open(sim: &Sim, options: &Options) -> Result<Db, cleavedb::Error> {
    Db::open_in(Arc::new(sim.clone()), options.clone(), 7)
}

/// Opens what a disk alone has lost power with; an error names the cause and the way on.
fn recovered(sim: &Sim, options: &Options, refused: &mut u32) -> Db {
    let error = match open(sim, options) {
        Ok(db) => return db,
        Err(error) => error,
    };
    *refused += 1;
    let said = error.to_string();
    assert!(error.kind() == ErrorKind::Corruption && said.contains("detached"), "{said}");
    open(sim, &Options { accept_lost_window: true, ..options.clone() }).unwrap()
}

/// Three losses in a row, each at moments right behind a synced write, and between two of them.
#[test]
fn what_was_synced_survives_a_disk_that_loses_power_alone_again_and_again() {
    let (mut opened, mut refused, mut counted) = (0, 0, 0);
    for setup in Setup::designs() {
        let mut left = (Image::default(), 0);
        for round in 0..3 {
            let (before, writes) = left.clone();
            let sim = Sim::from_image(before);
            let db = open(&sim, &setup.options).unwrap();
            let synced = write(&sim, &db, writes..writes + 30);
            let end = sim.history_len();
            drop(db);
            let mut replay = sim.replay(SECTOR);
            let losses = PowerLoss { states_max: 8, seed: round, ..PowerLoss::default() };
            for (at, (point, last)) in synced.iter().copied().enumerate() {
                let next = synced.get(at + 1).map_or(end, |(point, _)| *point);
                for point in [point, point.midpoint(next)] {
                    replay.advance(point);
                    for image in replay.power_loss(&losses) {
                        let sim = Sim::from_image(image.detached());
                        let context = format!("{setup}, round {round}, {point}");
                        let db = recovered(&sim, &setup.options, &mut refused);
                        let count = has_the_first(&db, last + 1, &context);
                        let lost = db.recovery_report().operations_lost;
                        assert!(count as u64 + lost <= u64::from(writes) + 30, "{context}: {lost}");
                        opened += 1;
                        counted += u32::from(lost > 0);
                        left = (sim.image(), count);
                    }
                }
            }
        }
    }
    println!("{opened} states, {refused} refused, lost operations counted in {counted}");
    assert!(refused * 4 < opened, "{refused} of {opened} were refused");
    assert!(counted > 0);
}

/// A store whose process was killed, with the window as it was behind the first write: nothing that
/// was stored there since has reached the disk. Returns the number of its writes that were synced.
fn with_an_old_window(setup: &Setup) -> (Image, u32) {
    let sim = Sim::new();
    let db = open(&sim, &setup.options).unwrap();
    db.put_with(key(0), value(0), Durability::Os).unwrap();
    let window = sim.image().read(&Name::fixed(WINDOW)).unwrap();
    let synced = write(&sim, &db, 1..20);
    let mut image = sim.image();
    drop(db);
    image.write(Name::fixed(WINDOW), &window);
    (image, synced.last().unwrap().1 + 1)
}

/// The window said that the files of the log end where they did when it reached the disk: an open
/// took synced writes behind that place for a part of the window, and found none.
#[test]
fn a_window_that_is_older_than_the_log_hides_nothing_that_was_synced() {
    for setup in Setup::designs() {
        let (image, synced) = with_an_old_window(&setup);
        let storage =
            |image: &Image| -> [Arc<dyn Storage>; 1] { [Arc::new(Sim::from_image(image.clone()))] };
        let context = setup.to_string();
        has_the_first(&open_secondary(&storage(&image), &setup).unwrap(), synced, &context);
        has_the_first(&open_read_only(&storage(&image), &setup).unwrap(), synced, &context);
        let sim = Sim::from_image(image);
        let db = open(&sim, &setup.options).unwrap();
        has_the_first(&db, synced, &context);
        assert!(db.verify().unwrap().problems.is_empty(), "{context}");
        db.close().unwrap();
        has_the_first(&open(&sim, &setup.options).unwrap(), synced, &context);
    }
}

/// A window of which nothing has reached the disk was refused as damaged.
#[test]
fn a_window_that_never_reached_the_disk_is_done_without_and_reported() {
    for setup in Setup::designs() {
        let (image, synced) = with_an_old_window(&setup);
        let len = image.read(&Name::fixed(WINDOW)).unwrap().len();
        for window in [vec![], vec![0; HEADER], vec![0; len]] {
            let mut image = image.clone();
            image.write(Name::fixed(WINDOW), &window);
            let db = open(&Sim::from_image(image), &setup.options).unwrap();
            assert!(db.recovery_report().window_lost, "{setup}: the report does not say so");
            has_the_first(&db, synced, &setup.to_string());
        }
    }
}
