//! The life of a store: what an open, a first write, a close and a copy do to the directory.
//!
//! What takes time is counted (syncs, files, bytes), never timed.

use std::sync::Arc;

use cleavedb::{Background, Db, Durability, ErrorKind, Options, Preset, Tuning};
use cleavedb_storage::{FileKind, Name, Storage};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::{Event, Image};
use cleavedb_testkit::Setup;
use cleavedb_testkit::budget::in_turn;
use cleavedb_testkit::copies::a_copy_stays_apart;
use cleavedb_testkit::torn::a_torn_batch_stays_away;

/// Most bytes of a store that holds little, open or closed.
const SMALL: u64 = 256 << 10;

fn open(sim: &Sim, options: &Options) -> Db {
    Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap()
}

fn is_sync(event: &Event) -> bool {
    matches!(event, Event::Sync { .. } | Event::SyncDir)
}

/// Syncs that `work` made.
fn syncs(sim: &Sim, work: impl FnOnce()) -> usize {
    let before = sim.history_len();
    work();
    sim.history()[before..].iter().filter(|event| is_sync(event)).count()
}

/// Bytes that all files take on the disk.
fn space(sim: &Sim) -> u64 {
    sim.set_capacity(1 << 50);
    (1 << 50) - sim.free_space().unwrap()
}

/// The options that users get, with the two durabilities that matter.
fn defaults() -> impl Iterator<Item = Options> {
    let both = [Durability::Sync, Durability::Os];
    let of = move |preset| both.map(|durability| Options { durability, ..Options::preset(preset) });
    Preset::ALL.into_iter().flat_map(of)
}

/// A database that was closed, with one record.
fn with_a_record(options: &Options) -> Sim {
    let sim = Sim::new();
    let db = open(&sim, options);
    db.put(b"key", b"value").unwrap();
    db.close().unwrap();
    sim
}

#[test]
fn reads_and_snapshots_begin_no_session() {
    for options in defaults() {
        let sim = with_a_record(&options);
        let before = sim.history_len();
        let db = open(&sim, &options);
        assert_eq!(db.get(b"key").unwrap().unwrap(), "value");
        assert_eq!(db.range(..).count(), 1);
        db.snapshot().get(b"key").unwrap();
        assert_eq!(sim.history_len(), before, "{:?}", &sim.history()[before..]);
    }
}

/// A range over many deletes that a close had left to replay began a MemTable, and panicked since
/// there was no log yet.
#[test]
fn a_range_over_many_deletes_begins_no_session() {
    for options in defaults() {
        let sim = Sim::new();
        let db = open(&sim, &options);
        for key in 0..2000_u32 {
            db.put_with(key.to_be_bytes(), b"value", Durability::Os).unwrap();
        }
        for key in 0..1990_u32 {
            db.delete_with(key.to_be_bytes(), Durability::Os).unwrap();
        }
        db.close().unwrap();
        let before = sim.history_len();
        let db = open(&sim, &options);
        assert_eq!(db.range(..).count(), 10);
        assert_eq!(db.range(..).keys_only().rev().count(), 10);
        assert_eq!(sim.history_len(), before, "{:?}", &sim.history()[before..]);
        db.put(b"key", b"value").unwrap();
        assert_eq!(db.range(..).count(), 11);
        db.close().unwrap();
        assert_eq!(open(&sim, &options).range(..).count(), 11);
    }
}

#[test]
fn an_open_and_a_close_without_a_write_change_nothing() {
    for options in defaults() {
        let sim = with_a_record(&options);
        let before = sim.history_len();
        for _ in 0..3 {
            let db = open(&sim, &options);
            assert_eq!(db.get(b"key").unwrap().unwrap(), "value");
            assert!(db.verify().unwrap().problems.is_empty());
            db.sync().unwrap();
            db.close().unwrap();
        }
        assert_eq!(sim.history_len(), before, "{:?}", &sim.history()[before..]);
    }
}

#[test]
fn a_small_store_takes_few_syncs_and_few_bytes() {
    for options in defaults() {
        let sim = Sim::new();
        let mut db = None;
        let made = syncs(&sim, || db = Some(open(&sim, &options)));
        assert!(made <= 6, "{made} syncs to create");
        let db = db.unwrap();
        db.put(b"key", b"value").unwrap();
        assert!(space(&sim) <= SMALL, "{} bytes, open", space(&sim));
        let closed = syncs(&sim, || _ = db.close().unwrap());
        assert!(closed <= 3, "{closed} syncs to close");
        assert!(space(&sim) <= SMALL, "{} bytes, closed", space(&sim));
    }
}

#[test]
fn many_short_sessions_leave_few_files() {
    for preset in in_turn(Preset::ALL.into()) {
        let options = Options { background: Background::Manual, ..Options::preset(preset) };
        let sim = Sim::new();
        for i in 0..900u32 {
            let db = open(&sim, &options);
            db.put(i.to_be_bytes(), [i as u8; 100]).unwrap();
            db.close().unwrap();
        }
        let files = sim.list().unwrap();
        assert!(files.len() <= 20, "{} files: {files:?}", files.len());
        let db = open(&sim, &options);
        assert_eq!(db.range(..).count(), 900);
        let number = |(name, _): &(Name, u64)| name.number().0;
        let highest = files.iter().map(number).max().unwrap();
        assert!(highest < 3_000, "numbers are not wasted: {highest}");
    }
}

/// No session lasted long enough for what was due: 900 left 220 files of groups, or 51 tables. When
/// closes did what is short, a job too long for a session often had the same tables: 36 were left,
/// and 43 after 1,100.
#[test]
fn sessions_shorter_than_their_jobs_leave_few_files() {
    for preset in in_turn(Preset::ALL.into()) {
        let options = Options { background: Background::Threads(1), ..Options::preset(preset) };
        let sim = Sim::new();
        sim.stop_recording();
        for i in 0..900u32 {
            let db = open(&sim, &options);
            let key = i.wrapping_mul(0x9e37_79b1).to_be_bytes();
            db.put(key, vec![i as u8; 64 << 10]).unwrap();
            db.close().unwrap();
        }
        let files = sim.list().unwrap();
        println!("{preset}: {} files", files.len());
        // Up to 16 short files of groups, which are packed in two halves, and the index; else
        // tables of an eighth of what the store had when they were written, and a few short ones.
        let groups = options.layout().groups.is_some();
        let most = if groups { 36 } else { 30 };
        assert!(files.len() <= most, "{preset}: {} files: {files:?}", files.len());
        let db = open(&sim, &options);
        assert_eq!(db.range(..).keys_only().count(), 900);
        assert!(db.verify().unwrap().problems.is_empty());
    }
}

/// Sizes between those of tests and those of users: a close flushes 64 KiB, and files should have a
/// MiB.
fn mid_sized(preset: Preset) -> Options {
    let tiny = Setup::tiny(preset, true).options;
    let (memtable_bytes, cache_bytes) = (Some(512 << 10), Some(1 << 20));
    let (log_file_bytes, segment_bytes) = (1 << 20, 1 << 20);
    let mut options = Options {
        tuning: Tuning {
            memtable_bytes,
            cache_bytes,
            log_file_bytes,
            segment_bytes,
            ..tiny.tuning
        },
        ..tiny
    };
    (options.tuning.memtable_log_bytes, options.tuning.block_bytes) = (256 << 10, 4 << 10);
    (options.tuning.table_bytes, options.tuning.level0_bytes, options.tuning.level1_bytes) =
        (1 << 20, Some(1 << 20), Some(4 << 20));
    options.tuning.space_floor = 8 << 20;
    if options.layout().groups.is_some() {
        (options.tuning.groups.capacity_bytes, options.tuning.groups.main_segment_bytes) =
            (8 << 20, 1 << 20);
    }
    options
}

/// Each session left a table, and where values lie in groups a file of these, for good: nothing but
/// a call for a compaction or a collection made them fewer.
#[test]
fn what_short_sessions_leave_is_packed_in_the_background() {
    const SESSIONS: u32 = 200;
    for preset in in_turn(Preset::ALL.into()) {
        for (len, in_order) in [(12_000, true), (40_000, false), (100_000, true)] {
            let options = mid_sized(preset);
            let sim = Sim::new();
            sim.stop_recording();
            for i in 0..SESSIONS {
                let key = if in_order { i } else { i.wrapping_mul(0x9e37_79b1) };
                let db = open(&sim, &options);
                db.put(key.to_be_bytes(), vec![i as u8; len]).unwrap();
                db.close().unwrap();
            }
            let db = open(&sim, &options);
            db.wait_idle().unwrap();
            let files = sim.list().unwrap();
            // Where level 0 is in partitions, short tables that share no keys stay apart.
            let parted = preset == Preset::Cleave;
            let most = if parted { 40 } else { 30 } + 6 * ((SESSIONS as usize * len) >> 20);
            let count = files.len();
            assert!(count <= most, "{preset}, {len}: {count} files, not {most}: {files:?}");
            assert_eq!(db.range(..).keys_only().count(), SESSIONS as usize);
            assert!(db.verify().unwrap().problems.is_empty());
        }
    }
}

#[test]
fn a_killed_session_is_resumed_without_a_file_for_each() {
    for preset in Preset::ALL {
        let mut sim = Sim::new();
        let (durability, background) = (Durability::Os, Background::Manual);
        let options = Options { durability, background, ..Options::preset(preset) };
        for i in 0..100u32 {
            let db = open(&sim, &options);
            assert_eq!(db.range(..).keys_only().count(), i as usize);
            db.put(i.to_be_bytes(), [i as u8; 100]).unwrap();
            sim = sim.kill();
            drop(db);
        }
        let files = sim.list().unwrap();
        assert!(files.len() <= 20, "{preset}: {} files: {files:?}", files.len());
    }
}

/// The last log file was sealed by the open and counted as garbage that may not be collected:
/// writers waited for ever.
#[test]
fn a_store_that_was_closed_behind_a_long_value_is_written_again() {
    for mut setup in Setup::designs() {
        setup.options.tuning.space_floor = 8 << 10;
        let sim = Sim::new();
        let db = open(&sim, &setup.options);
        db.put(b"long", [7; 120_000]).unwrap();
        db.close().unwrap();
        for _ in 0..3 {
            let db = open(&sim, &setup.options);
            for i in 0..40u32 {
                db.put(i.to_be_bytes(), [1; 700]).unwrap();
            }
            db.close().unwrap();
        }
        let db = open(&sim, &setup.options);
        assert_eq!(db.get(b"long").unwrap().unwrap(), vec![7; 120_000]);
    }
}

#[test]
fn what_was_deleted_leaves_little_behind() {
    for setup in Setup::designs() {
        let options = Options { durability: Durability::Os, ..setup.options.clone() };
        let sim = Sim::new();
        let db = open(&sim, &options);
        for i in 0..2_000u32 {
            db.put(i.to_be_bytes(), [1; 700]).unwrap();
        }
        for i in 0..2_000u32 {
            db.delete(i.to_be_bytes()).unwrap();
        }
        db.compact().unwrap();
        db.collect().unwrap();
        db.close().unwrap();
        let files = sim.list().unwrap();
        assert!(space(&sim) <= SMALL, "{setup}: {} bytes in {files:?}", space(&sim));
    }
}

/// Deletes from a store with the sizes that users get, and more than memory holds.
#[test]
fn what_was_deleted_leaves_little_of_a_large_store() {
    for preset in in_turn(Preset::ALL.into()) {
        let background = Background::Manual;
        let options = Options { background, ..Options::preset(preset) };
        let sim = Sim::new();
        sim.stop_recording();
        let db = open(&sim, &options);
        for i in 0..50_000u32 {
            db.put(i.to_be_bytes(), [i as u8; 1024]).unwrap();
        }
        for i in 0..50_000u32 {
            db.delete(i.to_be_bytes()).unwrap();
        }
        db.compact().unwrap();
        db.collect().unwrap();
        db.close().unwrap();
        let files = sim.list().unwrap();
        assert!(space(&sim) <= SMALL, "{preset}: {} bytes in {files:?}", space(&sim));
    }
}

/// The manifest stayed as long as it was with a state of many extents, and the reserve with it.
#[test]
fn a_manifest_is_as_short_as_what_is_left() {
    for preset in in_turn(Preset::ALL.into()) {
        let options = Setup::tiny(preset, false).options;
        let sim = Sim::new();
        sim.stop_recording();
        let db = open(&sim, &options);
        let manifest = |sim: &Sim| {
            let files = sim.list().unwrap();
            files.iter().find(|(name, _)| name.kind() == FileKind::Manifest).unwrap().1
        };
        // The manifest grows, and is replaced, again and again.
        let mut before = 0;
        for i in 0..8_000u32 {
            db.put(i.to_be_bytes(), [1; 700]).unwrap();
            before = before.max(manifest(&sim));
        }
        for i in 0..8_000u32 {
            db.delete(i.to_be_bytes()).unwrap();
        }
        db.compact().unwrap();
        db.collect().unwrap();
        db.close().unwrap();
        let after = manifest(&sim);
        assert!(after <= before.min(64 << 10), "{preset}: {after} bytes, {before} before");
        assert!(space(&sim) <= SMALL, "{preset}: {} bytes", space(&sim));
    }
}

/// A store whose process was killed after 50 writes, of which the window alone has some.
fn killed(setup: &Setup) -> Image {
    let sim = Sim::new();
    let db = open(&sim, &setup.options);
    for i in 0..50u32 {
        db.put_with(i.to_be_bytes(), [i as u8; 300], Durability::Os).unwrap();
    }
    let killed = sim.kill();
    drop(db);
    killed.image()
}

const WINDOW: FileKind = FileKind::Window;

#[test]
fn a_window_that_is_missing_or_foreign_is_an_error_with_a_way_on() {
    for setup in Setup::designs() {
        let image = killed(&setup);
        let mut other = Sim::new();
        let db = Db::open_in(Arc::new(other.clone()), setup.options.clone(), 8).unwrap();
        db.put(b"other", b"database").unwrap();
        other = other.kill();
        drop(db);
        let foreign = other.image().read(&Name::fixed(WINDOW)).unwrap();
        let damage: [&dyn Fn(&mut Image); 3] = [
            &|image| _ = image.remove(&Name::fixed(WINDOW)),
            &|image| image.write(Name::fixed(WINDOW), &foreign),
            &|image| image.flip_bit(&Name::fixed(WINDOW), 3),
        ];
        for damage in damage {
            let mut image = image.clone();
            damage(&mut image);
            let sim = Sim::from_image(image.clone());
            let opened = Db::open_in(Arc::new(sim.clone()), setup.options.clone(), 7);
            let error = opened.err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{setup}: {error}");
            assert!(error.to_string().contains("accept_lost_window"), "{error}");
            assert_eq!(sim.image().hash(), image.hash(), "a refused open changes nothing");
            let options = Options { accept_lost_window: true, ..setup.options.clone() };
            let db = open(&sim, &options);
            assert!(db.recovery_report().window_lost, "{setup}: the report does not say so");
            db.put(b"more", b"is written").unwrap();
        }
    }
}

/// Bytes of the window that are damaged after the death of the process took writes with them,
/// without a warning.
#[test]
fn operations_that_are_lost_with_the_window_are_counted() {
    for setup in Setup::designs() {
        let image = killed(&setup);
        let whole = open(&Sim::from_image(image.clone()), &setup.options);
        assert_eq!(whole.recovery_report().operations_lost, 0);
        assert_eq!(whole.range(..).keys_only().count(), 50, "{setup}");
        let len = image.read(&Name::fixed(WINDOW)).unwrap().len();
        let (mut lost, mut noticed) = (0, 0);
        for at in (4096..len).step_by(997) {
            let mut image = image.clone();
            image.flip_bit(&Name::fixed(WINDOW), at as u64 * 8);
            let sim = Sim::from_image(image);
            let db = match Db::open_in(Arc::new(sim), setup.options.clone(), 7) {
                Ok(db) => db,
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Corruption, "{setup}: {e}");
                    noticed += 1;
                    continue;
                }
            };
            let there = db.range(..).keys_only().count() as u64;
            assert_eq!(db.recovery_report().operations_lost, 50 - there, "{setup} at {at}");
            lost += u64::from(there < 50);
        }
        assert!(lost + noticed > 0, "{setup}: no flip met a record");
    }
}

/// A byte behind the end of the log file hid all that the window held from there on.
#[test]
fn a_byte_that_is_appended_to_the_log_takes_nothing_with_it() {
    for setup in Setup::designs() {
        let mut image = killed(&setup);
        let is_log = |(name, _): &&(Name, u64)| name.kind() == FileKind::Log;
        let (log, len) = *image.list().iter().rfind(is_log).unwrap();
        let mut bytes = image.read(&log).unwrap();
        bytes.resize(len as usize + 1, 0xff);
        image.write(log, &bytes);
        let sim = Sim::from_image(image);
        sim.set_write_once(false);
        let db = open(&sim, &setup.options);
        assert_eq!(db.range(..).keys_only().count(), 50, "{setup}");
    }
}

/// A copy and its original go on, and no file of one passes for a file of the other.
#[test]
fn a_copy_has_an_identity_of_its_own_from_its_first_write_on() {
    for setup in Setup::designs() {
        for closed in [true, false] {
            let outcome = a_copy_stays_apart(&setup, closed);
            outcome.unwrap_or_else(|failure| panic!("{setup}, closed: {closed}: {failure}"));
        }
    }
}

#[test]
fn a_log_goes_on_only_where_nothing_is_left_behind_its_end() {
    for setup in Preset::ALL.map(|preset| Setup::tiny(preset, false)) {
        a_torn_batch_stays_away(&setup).unwrap_or_else(|failure| panic!("{setup}: {failure}"));
    }
}

/// What a database has done was forgotten by every close.
#[test]
fn totals_survive_a_close_and_what_a_crash_takes_is_not_in_them() {
    for options in defaults() {
        let sim = Sim::new();
        for session in 1..=3 {
            let db = open(&sim, &options);
            db.put([session], [session; 1000]).unwrap();
            let totals = db.metrics().totals;
            assert_eq!(totals.user_bytes, 1001 * u64::from(session), "{options:?}");
            db.clone().close().unwrap();
            assert_eq!(db.metrics().totals.user_bytes, totals.user_bytes, "and not twice");
        }
        let db = open(&sim, &options);
        let closed = db.metrics().totals;
        assert_eq!((closed.writes, db.metrics().writes), (3, 0));
        assert!(closed.written() > 3003 && closed.write_amplification() > 1.0, "{closed:?}");
        db.put(b"lost", b"count").unwrap();
        let crashed = sim.kill();
        drop(db);
        let after = open(&crashed, &options).metrics().totals;
        assert_eq!((after.writes, after.log_written), (closed.writes, closed.log_written));
    }
}
