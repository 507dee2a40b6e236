//! Failures that were found, understood and reduced: each test says what went wrong.

use std::sync::Arc;

use cleavedb::{Db, Durability, Preset};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::budget::in_turn;
use cleavedb_testkit::{Explorer, Op, Plan, Recording, Setup, Write};

fn put(key: &[u8], len: usize, durability: Durability) -> Op {
    Op::Write(vec![Write::put(key, vec![7; len])], durability)
}

/// Runs `ops` and all crashes during them.
fn survives(setup: &Setup, ops: &[Op]) {
    let plan = Plan { thorough_one_in: 4, depth: 1, images_max: 40, ..Plan::default() };
    let outcome = Recording::first(setup, ops).and_then(|r| Explorer::new(plan).explore(&r));
    if let Err(failure) = outcome {
        panic!("{setup}: {failure}");
    }
}

fn survives_everywhere(ops: &[Op]) {
    let windows = |preset| [true, false].map(|survives| Setup::tiny(preset, survives));
    for setup in in_turn(Preset::ALL.into_iter().flat_map(windows).collect()) {
        survives(&setup, ops);
    }
}

/// A flush that followed a sync put the replay head behind the padding of the sync. If the log file
/// ended there, the next one continued in front of the head, was taken for a stranger and was
/// dropped with everything in it.
#[test]
fn a_log_file_that_ends_in_padding_is_continued_by_the_next() {
    survives_everywhere(&[
        put(b"a", 100, Durability::Os),
        Op::Sync,
        Op::Flush,
        put(b"b", 40_000, Durability::Os),
        put(b"c", 10, Durability::Os),
        Op::Kill,
        put(b"d", 10, Durability::Os),
        Op::Kill,
    ]);
}

/// Headers and marks claimed the padding behind the last synced record to be durable, so a log that
/// was torn right there, by a legal crash, was refused as damaged.
#[test]
fn padding_is_not_a_record_that_was_lost() {
    survives_everywhere(&[
        put(b"a", 100, Durability::Sync),
        put(b"b", 40_000, Durability::Os),
        put(b"c", 40_000, Durability::Os),
        put(b"d", 10, Durability::Os),
    ]);
}

/// A replay that filled several MemTables sealed them all at the end of the log: the flush of the
/// first moved the replay head past the others, and the next crash lost them (invariant 5).
#[test]
fn the_flush_of_one_replayed_memtable_leaves_the_others_in_the_log() {
    for preset in in_turn(Preset::ALL.into()) {
        let mut setup = Setup::tiny(preset, true);
        setup.options.tuning.memtables_max = Some(16);
        setup.options.tuning.memtable_log_bytes = 1 << 20;
        let mut ops: Vec<Op> = Vec::new();
        for i in 0..1500u32 {
            let key = [&i.to_be_bytes()[..], &[b'k'; 200]].concat();
            ops.push(put(&key, 100, Durability::Os));
        }
        ops.extend([Op::Kill, Op::Step(1), Op::Kill, Op::Step(2), Op::Kill, Op::Verify]);
        Recording::first(&setup, &ops).unwrap_or_else(|failure| panic!("{setup}: {failure}"));
    }
}

/// After an open, the run of new pointers that a collection writes was numbered from 1 again, and
/// met an older one at the same place of level 0.
#[test]
fn write_back_runs_of_one_epoch_keep_their_order_over_an_open() {
    let setup = Setup::tiny(Preset::WiscKey, true);
    let mut ops = vec![put(b"a", 1000, Durability::Os), put(b"b", 1000, Durability::Os)];
    ops.extend([put(b"c", 40_000, Durability::Os), put(b"d", 10, Durability::Os), Op::Flush]);
    for _ in 0..3 {
        ops.extend([Op::Collect, Op::Verify, Op::Kill, Op::Verify]);
    }
    survives(&setup, &ops);
}

/// An edit of the manifest stands there twice. A crash that kept the second copy's header only was
/// taken for damage to a synced edit, and the open was refused.
#[test]
fn the_header_of_a_torn_edit_is_not_a_later_edit() {
    let key = |byte: u8| vec![byte; 900];
    let ops: Vec<Op> = (b'a'..b'g')
        .flat_map(|byte| [put(&key(byte), 100, Durability::Os), Op::Flush])
        .chain([Op::Collect])
        .collect();
    for preset in in_turn(vec![Preset::Lsm, Preset::WiscKey]) {
        survives(&Setup::tiny(preset, true), &ops);
    }
}

/// A crash between the edit of a flush and the one that drops dead files left a log file below the
/// replay head. Under `Lsm`, which opens no log for reading, every later collection failed on it.
#[test]
fn dead_files_that_a_crash_left_go_at_the_open() {
    let ops = [
        put(b"a", 40_000, Durability::Os),
        put(b"b", 10, Durability::Os),
        Op::Flush,
        put(b"c", 10, Durability::Os),
    ];
    let plan = Plan { thorough_one_in: 1, depth: 1, images_max: 4, ..Plan::default() };
    for preset in Preset::ALL {
        let outcome = Recording::first(&Setup::tiny(preset, false), &ops)
            .and_then(|recording| Explorer::new(plan.clone()).explore(&recording));
        outcome.unwrap_or_else(|failure| panic!("{preset}: {failure}"));
    }
}

/// A manifest that was cut within its first edit was taken for that of an empty store, whose open
/// then removed every file as an orphan.
#[test]
fn a_manifest_without_an_edit_is_damage() {
    use cleavedb_storage::FileKind;
    use cleavedb_storage_sim::Sim;
    use cleavedb_testkit::{Session, State, session};
    let setup = Setup::tiny(Preset::Lsm, true);
    let sim = Sim::new();
    let mut running = Session::on(&sim, &setup, State::default()).unwrap();
    running.run(&put(b"a", 100, Durability::Os)).unwrap();
    running.leave(true).unwrap();
    let mut image = sim.image();
    let files = image.list();
    let (manifest, _) = files.iter().find(|(name, _)| name.kind() == FileKind::Manifest).unwrap();
    image.truncate(manifest, 20);
    let damaged = Sim::from_image(image);
    let before = damaged.image().list().len();
    let error = session::open(std::sync::Arc::new(damaged.clone()), &setup).err().unwrap();
    assert_eq!(error.kind(), cleavedb::ErrorKind::Corruption);
    assert_eq!(damaged.image().list().len(), before, "a refused open removes nothing");
}

/// A window is short at first and grows when it was filled once; a full disk must not refuse
/// writes for which the window has room.
#[test]
fn a_window_grows_with_its_use_where_there_is_room() {
    use cleavedb_storage::{FileKind, Storage};
    for preset in Preset::ALL {
        let mut options = Setup::tiny(preset, true).options;
        options.tuning.window_bytes = Some(256 << 10);
        let lengths = |room: u64| {
            let sim = Sim::new();
            let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 1).unwrap();
            db.put(b"a", b"b").unwrap();
            let len = || {
                let files = sim.list().unwrap();
                files.iter().find(|(name, _)| name.kind() == FileKind::Window).unwrap().1
            };
            let first = len();
            sim.set_capacity(u64::MAX - 1);
            let used = u64::MAX - 1 - sim.free_space().unwrap();
            sim.set_capacity(used + room);
            for i in 0..70u32 {
                let key = i.to_be_bytes();
                db.put(key, [i as u8; 1000]).unwrap();
                assert_eq!(db.get(key).unwrap().unwrap(), vec![i as u8; 1000]);
            }
            (first, len())
        };
        let with_header = |len: u64| (len << 10) + 4096;
        assert_eq!(lengths(4 << 20), (with_header(64), with_header(256)), "{preset}");
        assert_eq!(lengths(180 << 10), (with_header(64), with_header(64)), "{preset}: no room");
    }
}

/// Collection stops once nothing is left to win, however tight the goal: what no collection can win
/// back (headers of files, the log in use) must not count.
#[test]
fn collection_ends_at_the_tightest_goal() {
    for preset in [Preset::WiscKey, Preset::HashKv, Preset::KtStore] {
        let mut options = Setup::tiny(preset, true).options;
        options.space_amplification = 1.05;
        options.tuning.space_floor = 0;
        let db = Db::open_in(Arc::new(Sim::new()), options, 1).unwrap();
        for i in 0..3_000u32 {
            let key = format!("key{:03}", i * 7919 % 300);
            db.put(key.as_bytes(), vec![i as u8; 40 + i as usize % 300]).unwrap();
        }
        // What stays is about as long as the header of the file that holds it.
        for i in 1..300u32 {
            db.delete(format!("key{i:03}").as_bytes()).unwrap();
        }
        db.flush().unwrap();
        let steps = (0..2_000).take_while(|_| db.step().unwrap()).count();
        assert!(steps < 2_000, "{preset}: collection goes on although nothing changes");
    }
}

/// What was written and not flushed yet is data: metrics once said 0 bytes, and amplification 0.
#[test]
fn metrics_count_what_is_in_memory() {
    for preset in cleavedb::Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let options = cleavedb::Options::preset(preset);
        let db = cleavedb::Db::open(dir.path().join("db"), options).unwrap();
        let empty = db.metrics();
        assert_eq!((empty.unflushed_bytes, empty.memtable_memory), (0, 0), "{preset}");
        for key in 0..1000_u32 {
            let value = [7; 1000];
            db.put_with(key.to_be_bytes(), value, cleavedb::Durability::Os).unwrap();
        }
        let data = 1_004_000..1_100_000;
        let metrics = db.metrics();
        assert!(data.contains(&metrics.data_bytes()), "{preset}: {metrics:?}");
        assert!((0.9..1.2).contains(&metrics.space_amplification()), "{preset}: {metrics:?}");
        assert!(metrics.memtable_memory < 1_200_000, "{preset}: {metrics:?}");
        db.flush().unwrap();
        let metrics = db.metrics();
        assert!(data.contains(&metrics.data_bytes()), "{preset}: {metrics:?}");
        assert_eq!(metrics.unflushed_bytes, 0, "{preset}");
    }
}

/// What syncs pad the log with is no data: 14 KB that were put one by one once counted as 500 KiB.
#[test]
fn metrics_count_no_padding_as_data() {
    for preset in cleavedb::Preset::ALL {
        let sim = cleavedb_storage_sim::Sim::new();
        let options = cleavedb::Options::preset(preset);
        let open =
            || cleavedb::Db::open_in(std::sync::Arc::new(sim.clone()), options.clone(), 7).unwrap();
        let db = open();
        for key in 0..500_u32 {
            db.put(key.to_be_bytes(), b"0123456789").unwrap();
        }
        assert_eq!(db.metrics().data_bytes(), 7000, "{preset}");
        db.close().unwrap();
        let db = open();
        assert_eq!(db.metrics().data_bytes(), 7000, "{preset}: what is replayed counts as well");
        db.put(b"more", b"0123456789").unwrap();
        assert_eq!(db.metrics().data_bytes(), 7014, "{preset}");
    }
}

/// A cursor that began before the first write of a session lost the log file that the session goes
/// on with, once that was collected: the file was read through a second handle from then on.
#[test]
fn a_reader_from_before_the_first_write_keeps_its_log_file() {
    for setup in Setup::designs() {
        let sim = Sim::new();
        let open = || Db::open_in(Arc::new(sim.clone()), setup.options.clone(), 7).unwrap();
        let db = open();
        let values: Vec<_> = (0..4).map(|n| vec![n; 3000]).collect();
        for value in &values {
            db.put([value[0]], value).unwrap();
        }
        db.close().unwrap();
        let db = open();
        let mut cursor = db.cursor(..);
        assert!(cursor.seek_to_first().unwrap(), "{setup}");
        for value in &values {
            db.put([value[0]], vec![9; 3000]).unwrap();
        }
        db.flush().unwrap();
        db.collect().unwrap();
        db.wait_idle().unwrap();
        for value in &values {
            assert_eq!(cursor.value().unwrap().as_deref(), Some(&value[..]), "{setup}");
            cursor.next().unwrap();
        }
    }
}
