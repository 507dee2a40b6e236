//! Volumes: what lies where, and every way in which a second disk can be the wrong one.
//!
//! A refused open changes nothing: each test that breaks something compares all files before and
//! after, and opens the whole store again once it is mended.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cleavedb::{Background, Db, Durability, Error, ErrorKind, FileClass, Options, Preset, Volume};
use cleavedb_storage::{FileKind, LockMode, Storage};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::faulty::{Fault, Faulty, Op as Call, Rule};
use cleavedb_storage_sim::sim::Image;
use cleavedb_testkit::disks::{hash_of, volume_of, volume_path};
use cleavedb_testkit::session::open_all;
use cleavedb_testkit::{Disks, Setup};

fn setup() -> Setup {
    Setup::tiny(Preset::Ohdb, true).on_two_disks([FileClass::Levels])
}

fn key(i: u32) -> [u8; 4] {
    (i.wrapping_mul(2_654_435_761) % 500).to_be_bytes()
}

/// Writes enough for tables on several levels.
fn fill(db: &Db, range: std::ops::Range<u32>) {
    for i in range {
        db.put(key(i), [i as u8; 300]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
}

/// Disks with a store that was closed.
fn closed(setup: &Setup) -> Disks {
    let disks = Disks::new(setup);
    let db = open_all(&disks.storages(), setup).unwrap();
    fill(&db, 0..400);
    db.close().unwrap();
    disks
}

fn content(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let items = db.range(..).map(|item| item.unwrap());
    items.map(|item| (item.key.to_vec(), item.value.to_vec())).collect()
}

fn tables(image: &Image) -> usize {
    image.list().iter().filter(|(name, _)| name.kind() == FileKind::Table).count()
}

/// The store on `images` is refused, and nothing is changed but the lock file.
fn refused(setup: &Setup, images: &[Image]) -> Error {
    let disks = Disks::from_images(images, setup);
    let error = open_all(&disks.storages(), setup).expect_err("an open must be refused");
    assert_eq!(hash_of(&disks.images()), hash_of(images), "{error}");
    error
}

#[test]
fn tables_lie_where_their_class_is_placed_and_stay_there_when_they_move() {
    let setup = setup();
    let disks = Disks::new(&setup);
    let db = open_all(&disks.storages(), &setup).unwrap();
    // Keys in order: what a flush writes moves down without being rewritten.
    for i in 0..200u32 {
        db.put(i.to_be_bytes(), [i as u8; 300]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert!(db.metrics().compaction_moves > 0, "nothing moved");
    let [own, volume] = &disks.images()[..] else { panic!("two disks") };
    let below = |db: &Db| {
        db.metrics().levels.iter().filter(|l| l.level > 0).map(|l| l.tables).sum::<usize>()
    };
    assert!(tables(own) > 0 && below(&db) > tables(volume), "a moved table left its disk");
    db.compact().unwrap();
    let [own, volume] = &disks.images()[..] else { panic!("two disks") };
    assert_eq!((tables(own), tables(volume)), (0, below(&db)), "rewritten tables are placed");
    let used = db.directories().unwrap();
    assert_eq!(used[1].classes, [FileClass::Levels]);
    assert!(!used[0].classes.contains(&FileClass::Levels) && used[1].bytes > 0);
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
fn every_class_is_placed() {
    for (preset, class) in [
        (Preset::Lsm, FileClass::Log),
        (Preset::Lsm, FileClass::Level0),
        (Preset::Lsm, FileClass::Levels),
        (Preset::WiscKey, FileClass::Segments),
        (Preset::HashKv, FileClass::Groups),
        (Preset::HashKv, FileClass::Survivors),
    ] {
        let setup = Setup::tiny(preset, true).on_two_disks([class]);
        let disks = Disks::new(&setup);
        let db = open_all(&disks.storages(), &setup).unwrap();
        fill(&db, 0..300);
        db.collect().unwrap();
        db.put(b"new", [7; 1000]).unwrap();
        db.flush().unwrap();
        let placed = |image: &Image| {
            image.list().iter().filter(|(name, _)| name.kind() == class.kind()).count()
        };
        assert!(placed(&disks.images()[1]) > 0, "{class} of {preset}");
        let before = content(&db);
        db.close().unwrap();
        let db = open_all(&disks.storages(), &setup).unwrap();
        assert_eq!(content(&db), before);
    }
}

/// A store on real directories below `home`.
fn on_disk(home: &Path, volumes: &[(&str, FileClass)]) -> Result<Db, Error> {
    let volumes = volumes.iter().map(|(name, class)| Volume::new(home.join(name), [*class]));
    let options = Options {
        volumes: volumes.collect(),
        durability: Durability::Os,
        background: Background::Manual,
        ..setup().options
    };
    Db::open(home.join("own"), options)
}

#[test]
fn volumes_that_come_one_by_one_are_no_more_than_there_is_room_for() {
    let home = tempfile::tempdir().unwrap();
    for name in ["1", "2", "3", "4", "5", "6", "7", "8"] {
        on_disk(home.path(), &[(name, FileClass::Levels)]).unwrap().close().unwrap();
    }
    let error = on_disk(home.path(), &[("9", FileClass::Levels)]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidOptions);
    assert!(error.to_string().contains("8 volumes"), "{error}");
    assert!(!home.path().join("9").exists(), "a refused open makes no directory");
    assert_eq!(on_disk(home.path(), &[]).unwrap().directories().unwrap().len(), 1 + 8);
}

#[test]
fn a_database_finds_its_volumes_wherever_they_are_mounted() {
    let home = tempfile::tempdir().unwrap();
    let db = on_disk(home.path(), &[("ssd", FileClass::Levels)]).unwrap();
    fill(&db, 0..400);
    let before = content(&db);
    db.close().unwrap();
    let db = on_disk(home.path(), &[]).unwrap();
    assert_eq!(content(&db), before);
    db.close().unwrap();
    let moved = |from: &str, to: &str| {
        std::fs::rename(home.path().join(from), home.path().join(to)).unwrap();
    };
    moved("ssd", "elsewhere");
    let error = on_disk(home.path(), &[]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::MissingVolume);
    assert!(error.fact("volume").unwrap().ends_with("ssd"), "{error}");
    assert!(!home.path().join("ssd").exists(), "a refused open makes no directory");
    // Asking for what is missing does not make it, and neither does a class that moves away.
    for volumes in [[("ssd", FileClass::Levels)], [("new", FileClass::Levels)]] {
        let error = on_disk(home.path(), &volumes).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::MissingVolume, "{error}");
        assert!(!home.path().join(volumes[0].0).exists());
    }
    for volumes in [&[("elsewhere", FileClass::Levels)][..], &[]] {
        let db = on_disk(home.path(), volumes).unwrap();
        assert_eq!(content(&db), before);
        db.close().unwrap();
    }
    let copy = home.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::write(copy.join("letter"), "x").unwrap();
    let error = on_disk(home.path(), &[("copy", FileClass::Log)]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotADatabase, "a new volume begins empty: {error}");
}

#[test]
fn a_placement_may_change_and_what_is_there_stays_there() {
    let home = tempfile::tempdir().unwrap();
    let db = on_disk(home.path(), &[("ssd", FileClass::Levels)]).unwrap();
    fill(&db, 0..400);
    db.compact().unwrap();
    let before = content(&db);
    db.close().unwrap();
    let db = on_disk(home.path(), &[("own", FileClass::Levels), ("log", FileClass::Log)]).unwrap();
    assert_eq!(content(&db), before);
    let used = db.directories().unwrap();
    let classes: Vec<_> = used.iter().map(|directory| directory.classes.len()).collect();
    assert_eq!(classes, [7, 0, 1], "{used:?}");
    assert!(used[1].files > 1, "what was there stays there");
    fill(&db, 400..800);
    db.compact().unwrap();
    assert!(db.directories().unwrap()[1].bytes < 1000, "what was rewritten went home");
    assert!(db.verify().unwrap().problems.is_empty());
    db.close().unwrap();
    on_disk(home.path(), &[]).unwrap().close().unwrap();
}

#[test]
fn a_volume_that_is_not_mounted_is_missed() {
    let (setup, disks) = (setup(), closed(&setup()));
    let images = disks.images();
    let error = refused(&setup, &[images[0].clone(), Image::default()]);
    assert_eq!(error.kind(), ErrorKind::MissingVolume);
    assert_eq!(error.fact("volume"), Some("/volume/1"));
    assert!(error.message().contains("mount"), "{error}");
    let own = disks.storages()[0].clone();
    let before = hash_of(&disks.images());
    let error = open_all(&[own], &setup).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::MissingVolume, "no directory at all");
    assert_eq!(hash_of(&disks.images()), before);
    let db = open_all(&disks.storages(), &setup).unwrap();
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
fn a_volume_of_another_database_is_refused() {
    let setup = setup();
    let (ours, theirs) = (closed(&setup), Disks::new(&setup));
    let volume = |path: &Path, _| volume_of(&theirs.storages(), path);
    let db = Db::open_beside(theirs.storages()[0].clone(), volume, setup.options.clone(), 99);
    db.unwrap().close().unwrap();
    let error = refused(&setup, &[ours.images()[0].clone(), theirs.images()[1].clone()]);
    assert_eq!(error.kind(), ErrorKind::MissingVolume);
    assert!(error.message().contains("another database"), "{error}");
    // A new database does not take it either, although nothing lies in it yet.
    let before = theirs.images()[1].hash();
    let storages = [Disks::new(&setup).storages().remove(0), theirs.storages().remove(1)];
    let error = open_all(&storages, &setup).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotADatabase, "{error}");
    assert_eq!(theirs.images()[1].hash(), before);
}

#[test]
fn an_older_copy_of_either_directory_is_noticed() {
    let (setup, disks) = (setup(), closed(&setup()));
    let old = disks.images();
    let db = open_all(&disks.storages(), &setup).unwrap();
    fill(&db, 400..500);
    db.close().unwrap();
    let new = disks.images();
    let error = refused(&setup, &[new[0].clone(), old[1].clone()]);
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.message().contains("the volume is older"), "{error}");
    let error = refused(&setup, &[old[0].clone(), new[1].clone()]);
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.message().contains("own directory is older"), "{error}");
    for images in [old, new] {
        open_all(&Disks::from_images(&images, &setup).storages(), &setup).unwrap();
    }
}

#[test]
fn a_volume_is_no_database_and_belongs_to_one_at_a_time() {
    let (setup, disks) = (setup(), closed(&setup()));
    let alone = Setup::tiny(Preset::Ohdb, true);
    let error = open_all(&disks.storages()[1..], &alone).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotADatabase);
    assert!(error.message().contains("a volume of a database"), "{error}");
    let lock = disks.sims()[1].lock(LockMode::Exclusive).unwrap();
    let error = open_all(&disks.storages(), &setup).err().unwrap();
    assert_eq!((error.kind(), error.fact("volume")), (ErrorKind::Locked, Some("/volume/1")));
    drop(lock);
    open_all(&disks.storages(), &setup).unwrap();
}

/// The disks of a closed store, the second one failing.
fn failing(setup: &Setup) -> (Disks, Arc<Faulty>, Vec<Arc<dyn Storage>>) {
    let disks = closed(setup);
    let faulty = Arc::new(Faulty::over(&disks.sims()[1]));
    let mut storages = disks.storages();
    storages[1] = faulty.clone();
    (disks, faulty, storages)
}

/// EROFS.
const READ_ONLY: i32 = 30;

#[test]
fn a_volume_that_cannot_be_written_is_named() {
    let setup = setup();
    for (call, fault, kind) in [
        (Rule::op(Call::Lock), Fault::Errno(READ_ONLY), ErrorKind::ReadOnly),
        (Rule::kind(FileKind::VolumeNew), Fault::Errno(READ_ONLY), ErrorKind::ReadOnly),
        (Rule::kind(FileKind::VolumeNew), Fault::NoSpace, ErrorKind::NoSpace),
    ] {
        let (disks, faulty, storages) = failing(&setup);
        let (volume, before) = (disks.images()[1].hash(), disks.images()[0].list().len());
        faulty.fail_matching(call, fault);
        let error = match open_all(&storages, &setup) {
            Ok(db) => db.put(b"key", b"value").unwrap_err(),
            Err(error) => error,
        };
        assert_eq!((error.kind(), error.fact("volume")), (kind, Some("/volume/1")), "{error}");
        assert_eq!(disks.images()[1].hash(), volume, "{error}");
        let new = disks.images()[0].list().len() - before;
        assert!(new <= 3, "a manifest, a window and a log are new: {error}");
        faulty.heal();
        let db = open_all(&storages, &setup).unwrap();
        assert!(db.verify().unwrap().problems.is_empty());
    }
}

/// A file system that meets an error may be mounted read-only from there on.
#[test]
fn a_disk_that_becomes_read_only_refuses_writes_and_loses_nothing() {
    for background in [Background::Manual, Background::Threads(2)] {
        becomes_read_only(0, background, ["(file=", ""]);
        becomes_read_only(1, background, [".tbl", "/volume/1"]);
    }
}

/// Disk `number` refuses every change; what is said must tell `names`.
fn becomes_read_only(number: usize, background: Background, names: [&str; 2]) {
    let mut setup = setup();
    setup.options.background = background;
    let disks = closed(&setup);
    let faulty = Arc::new(Faulty::over(&disks.sims()[number]));
    let mut storages = disks.storages();
    storages[number] = faulty.clone();
    let db = open_all(&storages, &setup).unwrap();
    db.put(b"first", b"of the session").unwrap();
    let mut expected = content(&db);
    for op in Call::CHANGING {
        faulty.fail_matching(Rule::op(op), Fault::Errno(READ_ONLY));
    }
    let mut errors = Vec::new();
    for i in 0..4000u32 {
        match db.put(key(i), [i as u8; 200]) {
            Ok(()) => _ = expected.insert(key(i).to_vec(), vec![i as u8; 200]),
            Err(error) => errors.push(error),
        }
    }
    assert!(!errors.is_empty(), "a disk that is read-only never stopped a writer");
    errors.extend([db.flush().unwrap_err(), db.collect().unwrap_err()]);
    if number == 0 {
        errors.extend([db.sync().unwrap_err(), db.put(b"more", b"value").unwrap_err()]);
    }
    for error in &errors {
        let said = error.to_string();
        assert!(matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Poisoned), "{said}");
        assert!(names.iter().all(|name| said.contains(name)), "{said}");
        assert!(said.contains("mount the disk for writing"), "{said}");
    }
    assert_eq!(content(&db), expected, "reads go on, and a refused write does not show");
    drop(db);
    open_all(&storages, &setup).expect_err("nothing can be written yet");
    faulty.heal();
    let db = open_all(&storages, &setup).unwrap();
    assert_eq!(content(&db), expected);
    assert!(db.verify().unwrap().problems.is_empty());
    db.put(b"again", b"value").unwrap();
    db.close().unwrap();
}

#[test]
fn a_full_volume_refuses_writes_until_there_is_room_and_loses_nothing() {
    let setup = setup();
    let disks = closed(&setup);
    let sim = &disks.sims()[1];
    let used: u64 = sim.image().list().iter().map(|(_, len)| len).sum();
    let db = open_all(&disks.storages(), &setup).unwrap();
    sim.set_capacity(used + 4096);
    let mut expected = content(&db);
    let mut errors = Vec::new();
    for i in 0..4000u32 {
        match db.put(key(i), [i as u8; 200]) {
            Ok(()) => _ = expected.insert(key(i).to_vec(), vec![i as u8; 200]),
            Err(error) => errors.push(error),
        }
    }
    assert!(!errors.is_empty(), "a full volume never stopped a writer");
    for error in &errors {
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(error.to_string().contains("/volume/1"), "{error}");
    }
    assert_eq!(content(&db), expected, "reads go on, and a refused write does not show");
    sim.set_capacity(u64::MAX);
    db.put(b"again", b"value").unwrap();
    expected.insert(b"again".to_vec(), b"value".to_vec());
    db.compact().unwrap();
    assert_eq!(content(&db), expected);
    assert!(db.verify().unwrap().problems.is_empty());
    db.close().unwrap();
    assert_eq!(content(&open_all(&disks.storages(), &setup).unwrap()), expected);
}

#[test]
fn what_exceeds_the_capacity_of_a_volume_goes_to_the_own_directory() {
    let mut setup = setup();
    setup.options.volumes[0].capacity = Some(20 << 10);
    let disks = closed(&setup);
    let bytes = |sim: &Sim| {
        let files = sim.image().list();
        files.iter().filter(|(name, _)| name.kind() == FileKind::Table).map(|f| f.1).sum::<u64>()
    };
    let [own, volume] = disks.sims() else { panic!("two disks") };
    assert!(bytes(own) > 20 << 10, "{} bytes", bytes(own));
    let exceeded = 2 * setup.options.tuning.table_bytes;
    assert!((1..(20 << 10) + exceeded).contains(&bytes(volume)), "{} bytes", bytes(volume));
    // The limit is remembered.
    setup.options.volumes.clear();
    let volume = |path: &Path, _| volume_of(&disks.storages(), path);
    let first = disks.storages()[0].clone();
    let db = Db::open_beside(first, volume, setup.options, 1).unwrap();
    let used = db.directories().unwrap();
    assert_eq!(used[1].capacity, Some(20 << 10));
    assert_eq!(Path::new(&used[1].path), volume_path(1));
}

#[test]
fn a_command_that_creates_nothing_makes_no_volume() {
    let mut setup = Setup::tiny(Preset::Ohdb, true);
    let disks = closed(&setup);
    setup.options.volumes = vec![Volume::new(volume_path(1), [FileClass::Levels])];
    setup.options.create_if_missing = false;
    let storages = [disks.storages(), Disks::new(&setup).storages()[..1].to_vec()].concat();
    let error = open_all(&storages, &setup).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::MissingVolume, "{error}");
    setup.options.create_if_missing = true;
    open_all(&storages, &setup).unwrap().close().unwrap();
    setup.options.create_if_missing = false;
    open_all(&storages, &setup).unwrap();
}
