//! Groups at work: they are collected without losing anything, their space comes back, and they
//! split when the data outgrows them.

use std::sync::Arc;

use cleavedb::{Background, Db, Metrics, Preset};
use cleavedb_storage::{Disk, FileKind, Name};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::faulty::{Fault, Faulty, Op as Call, Rule};
use cleavedb_storage_sim::sim::Event;
use cleavedb_testkit::Setup;
use cleavedb_testkit::budget::{in_turn, of};
use cleavedb_testkit::records::{key, value};
use cleavedb_testkit::rounds::{KEYS, check, options, write};

/// The presets that keep values in groups.
const PRESETS: [Preset; 2] = [Preset::HashKv, Preset::KtStore];

/// Bytes of group files, as extents.
fn group_bytes(metrics: &Metrics) -> u64 {
    let files = metrics.value_files.iter().filter(|file| file.name.ends_with(".grp"));
    files.filter_map(|file| file.bytes).sum()
}

#[test]
fn updates_are_collected() {
    for preset in PRESETS {
        let options = options(preset);
        let sim = Sim::new();
        let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
        write(&db, 0..12);
        check(&db, 11);
        let metrics = db.metrics();
        assert!(metrics.collections > 0 && metrics.bytes_punched > 0, "{preset}");
        assert!(metrics.steps.iter().all(|(_, time)| !time.is_zero()), "{:?}", metrics.steps);
        let live = u64::from(KEYS) * 900;
        assert!(group_bytes(&metrics) < 2 * live, "{preset}: {}", group_bytes(&metrics));
        db.close().unwrap();
        check(&Db::open_in(Arc::new(sim), options, 7).unwrap(), 11);
    }
}

/// A flush asked the filters of all extents of a group for each delete and each inline value: their
/// false answers added up to a group tombstone for every tenth absent key.
#[test]
fn deletes_of_absent_keys_rarely_leave_a_group_tombstone() {
    let db = Db::open_in(Arc::new(Sim::new()), options(Preset::HashKv), 7).unwrap();
    write(&db, 0..1);
    assert_eq!(db.metrics().group_filter_memory, 0, "nothing has asked yet");
    db.delete(b"the first question").unwrap();
    // Flushes beside which no collection frees anything, so that groups have many extents.
    (0..12).for_each(|part| {
        (0..KEYS).filter(|i| i % 12 == part).for_each(|i| db.put(key(i), value(i, 2)).unwrap());
        db.flush().unwrap();
    });
    let before = db.metrics();
    assert!((1..before.memory_limit / 32).contains(&before.group_filter_memory));
    (KEYS..KEYS + 4000).for_each(|i| db.delete(key(i)).unwrap());
    (0..40).for_each(|i| db.delete(key(i)).unwrap());
    db.flush().unwrap();
    let left = db.metrics().group_tombstones - before.group_tombstones;
    assert!((40..40 + 4000 / 50).contains(&left), "{left}: 40 keys are there");
    (0..40).for_each(|i| assert!(db.get(key(i)).unwrap().is_none()));
    db.collect().unwrap();
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
fn groups_split_when_the_data_outgrows_them_and_stay_split() {
    for preset in PRESETS {
        let sim = Sim::new();
        let open = || Db::open_in(Arc::new(sim.clone()), options(preset), 7).unwrap();
        let db = open();
        let before = db.metrics().groups;
        write(&db, 0..4);
        let after = db.metrics();
        assert!(after.splits > 0 && after.groups as u64 >= before as u64 + after.splits);
        check(&db, 3);
        db.close().unwrap();
        let db = open();
        assert_eq!(db.metrics().groups, after.groups);
        check(&db, 3);
    }
}

#[test]
fn a_value_longer_than_a_main_segment_does_not_split_its_group() {
    for preset in PRESETS {
        let options = options(preset);
        let long = vec![7; 3 * options.tuning.groups.main_segment_bytes as usize];
        let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
        let before = db.metrics().groups;
        for _ in 0..5 {
            db.put(b"long", &long).unwrap();
            db.collect().unwrap();
        }
        let after = db.metrics();
        assert!(after.collections > 0);
        assert_eq!((after.groups, after.splits), (before, 0));
    }
}

/// Deletes leave ranges small; their neighbours take them in.
#[test]
fn small_ranges_of_keys_merge() {
    let sim = Sim::new();
    let mut options = options(Preset::KtStore);
    (options.tuning.groups.capacity_bytes, options.tuning.groups.main_segment_bytes) =
        (16 << 10, 16 << 10);
    let open = || Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
    let db = open();
    write(&db, 0..4);
    let before = db.metrics().groups;
    (0..KEYS - 3).for_each(|i| db.delete(key(i)).unwrap());
    for _ in 0..3 {
        db.collect().unwrap();
        db.put(b"another", value(1, 1)).unwrap();
    }
    let after = db.metrics();
    assert!(after.merges > 0 && after.groups < before, "{} of {before}", after.groups);
    db.close().unwrap();
    let db = open();
    (KEYS - 3..KEYS).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, 3)));
    assert!(db.verify().unwrap().problems.is_empty());
    assert_eq!(db.range(..).count(), 4);
}

/// Long common prefixes, binary keys that begin with one another, and skew: each gets its groups.
#[test]
fn ranges_fit_keys_of_every_shape() {
    let shapes: [fn(u32) -> Vec<u8>; 3] = [
        |i| format!("{}/{i:05}", "a long way down".repeat(20)).into_bytes(),
        |i| [vec![0xff; 1 + i as usize / 4], vec![0; i as usize % 4]].concat(),
        |i| if i < 390 { [&b"m"[..], &i.to_be_bytes()].concat() } else { i.to_le_bytes().into() },
    ];
    for key in shapes {
        let db = Db::open_in(Arc::new(Sim::new()), options(Preset::KtStore), 7).unwrap();
        let order = (0..KEYS).map(|i| i * 181 % KEYS);
        order.for_each(|i| db.put(key(i), value(i, 1)).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
        db.collect().unwrap();
        assert!(db.metrics().groups > 10, "{} groups of 16 KiB for 340 KiB", db.metrics().groups);
        let mut expected: Vec<_> = (0..KEYS).map(|i| (key(i), value(i, 1))).collect();
        expected.sort();
        let items = db.range(..).map(Result::unwrap);
        assert!(items.map(|item| (item.key.to_vec(), item.value.to_vec())).eq(expected));
        assert!(db.verify().unwrap().problems.is_empty());
    }
}

/// Reads of value files for a range of 100 items, of keys that were written in no order.
fn reads_of_a_range(preset: Preset) -> usize {
    let mut options = options(preset);
    (options.tuning.memtable_bytes, options.tuning.memtable_log_bytes) =
        (Some(256 << 10), 128 << 10);
    let faulty = Arc::new(Faulty::new(Arc::new(Sim::new())));
    let db = Db::open_in(faulty.clone(), options, 7).unwrap();
    (0..KEYS).map(|i| i * 181 % KEYS).for_each(|i| db.put(key(i), value(i, 1)).unwrap());
    db.flush().unwrap();
    let before = faulty.trace().len();
    let items = db.range(&key(150)..).with_limit_hint(100).take(100);
    for (item, i) in items.map(Result::unwrap).zip(150..) {
        assert_eq!((&item.key[..], &item.value[..]), (&key(i)[..], &value(i, 1)[..]));
    }
    let trace = faulty.trace();
    let kinds = [FileKind::Log, FileKind::Group];
    let of_values = |name: &Name| kinds.contains(&name.kind());
    let reads = trace[before..].iter().filter(|call| call.op == Call::ReadAt);
    reads.filter(|call| call.name.as_ref().is_some_and(of_values)).count()
}

/// "Every TrieTable would be read no more than once in one range-query operation."
#[test]
fn a_range_of_neighbours_takes_few_reads() {
    let reads = [Preset::WiscKey, Preset::KtStore].map(reads_of_a_range);
    assert!(reads[1] <= 8 && reads[0] > 4 * reads[1], "{reads:?} reads of four flushes");
}

/// Of the values of a key that are overwritten in memory one reaches its group (HashKV, 3.3).
#[test]
fn updates_of_a_hot_key_are_absorbed_in_memory() {
    for preset in PRESETS {
        let mut options = options(preset);
        (options.tuning.memtable_bytes, options.tuning.memtable_log_bytes) =
            (Some(1 << 20), 1 << 20);
        let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
        (0..500).for_each(|round| db.put(key(1), value(1, round)).unwrap());
        db.put(key(2), value(2, 0)).unwrap();
        db.flush().unwrap();
        let bytes = group_bytes(&db.metrics());
        assert!(bytes <= 2 * 4096, "{bytes} bytes of groups for two values");
        assert_eq!(db.get(key(1)).unwrap().unwrap(), value(1, 499));
    }
}

/// Segments are extents of few files: however many groups a flush writes for, it waits for the
/// device a few times.
#[test]
fn a_flush_syncs_few_files_whatever_the_number_of_groups() {
    for preset in PRESETS {
        let mut options = options(preset);
        (options.tuning.groups.capacity_bytes, options.tuning.groups.main_segment_bytes) =
            (4 << 20, 16 << 10);
        (options.tuning.memtable_bytes, options.tuning.memtable_log_bytes) =
            (Some(1 << 20), 1 << 20);
        let faulty = Arc::new(Faulty::new(Arc::new(Sim::new())));
        let db = Db::open_in(faulty.clone(), options, 7).unwrap();
        write(&db, 0..2);
        assert!(db.metrics().groups >= 16, "{preset}: {} groups", db.metrics().groups);
        (0..KEYS).for_each(|i| db.put(key(i), value(i, 2)).unwrap());
        let before = faulty.trace().len();
        db.flush().unwrap();
        let trace = faulty.trace();
        let syncs = trace[before..].iter().filter(|call| call.op == Call::Sync);
        let files: Vec<_> = syncs.map(|call| call.name.map(|name| name.to_string())).collect();
        assert!((3..=8).contains(&files.len()), "{preset}: {files:?}");
    }
}

/// Sampled after every write. Beyond what stops writers one flush may come, which was under way,
/// and in it each group pads to a block.
#[test]
fn values_in_groups_stay_within_their_space() {
    PRESETS.into_iter().for_each(stays_within_its_space);
}

fn stays_within_its_space(preset: Preset) {
    let mut options = options(preset);
    (options.tuning.groups.capacity_bytes, options.tuning.groups.main_segment_bytes) =
        (256 << 10, 64 << 10);
    let (amplification, floor) = (options.space_amplification, options.tuning.space_floor);
    let log = options.tuning.memtable_log_bytes;
    let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
    write(&db, 0..1);
    for round in 1..8 {
        for i in 0..KEYS {
            db.put(key(i), value(i, round)).unwrap();
            let metrics = db.metrics();
            let live = metrics.live_bytes - metrics.hidden_bytes.min(metrics.live_bytes);
            let allowed = ((live as f64 * amplification) as u64).max(live + floor);
            let (bytes, flush) = (group_bytes(&metrics), log + 4096 * metrics.groups as u64);
            assert!(bytes <= allowed + allowed / 8 + flush, "{bytes} of {allowed} for {live} live");
        }
    }
    check(&db, 7);
}

#[test]
fn a_deleted_store_gives_its_space_back() {
    for preset in PRESETS {
        let db = Db::open_in(Arc::new(Sim::new()), options(preset), 7).unwrap();
        write(&db, 0..2);
        (0..KEYS).for_each(|i| db.delete(key(i)).unwrap());
        db.collect().unwrap();
        assert_eq!(db.range(..).count(), 0);
        let left = group_bytes(&db.metrics());
        assert_eq!(left, 0, "no record lives, so no extent is left");
    }
}

/// With threads, flushes write for groups while they are collected and split.
#[test]
fn threads_collect_and_split_while_others_write() {
    in_turn(PRESETS.into()).into_iter().for_each(threads_collect_and_split);
}

fn threads_collect_and_split(preset: Preset) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(preset);
    options.background = Background::Threads(2);
    let open = || Db::open_in(Arc::new(Disk::open(dir.path(), true).unwrap()), options.clone(), 7);
    let db = open().unwrap();
    let rounds = of(6, 12, 12);
    write(&db, 0..rounds);
    check(&db, rounds - 1);
    assert!(db.metrics().splits > 0 && db.metrics().collections > 0);
    db.close().unwrap();
    check(&open().unwrap(), rounds - 1);
}

/// Keys that ascend all go to the last range. It split again and again, and moved all it had.
#[test]
fn keys_that_ascend_get_new_groups_and_nothing_moves() {
    let sim = Sim::new();
    let options = options(Preset::KtStore);
    let open = || Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
    let db = open();
    for i in 0..KEYS {
        db.put(key(i), value(i, 0)).unwrap();
        if i % 20 == 19 {
            db.flush().unwrap();
            db.wait_idle().unwrap();
        }
    }
    let metrics = db.metrics();
    assert_eq!((metrics.splits, metrics.collections, metrics.collection_written), (0, 0, 0));
    let full = group_bytes(&metrics) / options.tuning.groups.main_segment_bytes;
    assert!(metrics.groups as u64 > full, "{} groups", metrics.groups);
    check(&db, 0);
    db.close().unwrap();
    check(&open(), 0);
}

/// Syncs, the edit and the run are paid once for as many groups as fit a main segment.
#[test]
fn small_groups_are_collected_together() {
    for preset in PRESETS {
        let mut options = options(preset);
        options.tuning.groups.main_segment_bytes = 32 << 10;
        options.tuning.groups.capacity_bytes = 1 << 20;
        let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
        (0..30).for_each(|i| db.put(key(i), value(i, 1)).unwrap());
        db.flush().unwrap();
        let before = db.metrics();
        assert!(before.groups > 1, "{preset}: {}", before.groups);
        db.collect().unwrap();
        assert_eq!(db.metrics().collections - before.collections, 1, "{preset}");
        (0..30).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, 1)));
        assert!(db.verify().unwrap().problems.is_empty());
    }
}

/// A collection that had no room for all its groups would be tried again for ever; one by one each
/// makes room for the next.
#[test]
fn groups_for_which_there_is_no_room_together_are_collected_alone() {
    for preset in PRESETS {
        let mut options = options(preset);
        options.tuning.groups.main_segment_bytes = 32 << 10;
        options.tuning.groups.capacity_bytes = 1 << 20;
        let due = || {
            let faulty = Arc::new(Faulty::new(Arc::new(Sim::new())));
            let db = Db::open_in(faulty.clone(), options.clone(), 7).unwrap();
            (0..30).for_each(|i| db.put(key(i), value(i, 1)).unwrap());
            db.flush().unwrap();
            (faulty, db)
        };
        let (faulty, db) = due();
        let before = faulty.calls();
        db.collect().unwrap();
        let writes_values = |call: &cleavedb_storage_sim::faulty::Call| {
            let group = call.name.as_ref().is_some_and(|name| name.kind() == FileKind::Group);
            call.number >= before && call.op == Call::WriteAt && group
        };
        let write = faulty.trace().into_iter().find(writes_values).unwrap().number;
        let (faulty, db) = due();
        faulty.fail_call(write, Fault::NoSpace);
        // Nothing is lent of the reserve.
        let rule = Rule { op: Some(Call::Truncate), kind: Some(FileKind::Reserve) };
        faulty.fail_matching(rule, Fault::Io);
        db.collect().unwrap();
        let metrics = db.metrics();
        assert_eq!(metrics.collections, metrics.groups as u64, "{preset}");
        assert!(metrics.groups > 1, "{preset}");
        (0..30).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, 1)));
        db.collect().unwrap();
        assert_eq!(db.metrics().collections, metrics.collections + 1, "{preset}: room again");
    }
}

/// Of groups that are collected together the one that is damaged is left alone; the rest go on.
#[test]
fn a_damaged_group_keeps_no_other_from_its_collection() {
    for preset in PRESETS {
        let mut options = options(preset);
        options.tuning.groups.main_segment_bytes = 32 << 10;
        options.tuning.groups.capacity_bytes = 1 << 20;
        let sim = Sim::new();
        let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
        (0..30).for_each(|i| db.put(key(i), value(i, 0)).unwrap());
        db.flush().unwrap();
        db.close().unwrap();
        let mut image = sim.image();
        let of_groups = |(name, _): &(Name, u64)| name.kind() == FileKind::Group;
        let (name, _) = image.list().into_iter().find(of_groups).unwrap();
        // The first block is the header's; a record of the first group follows.
        image.flip_bit(&name, (4096 + 200) * 8);
        let db = Db::open_in(Arc::new(Sim::from_image(image)), options, 7).unwrap();
        assert!(db.collect().is_err(), "{preset}: the damage is told");
        db.collect().unwrap();
        assert_eq!(db.metrics().collections, 1, "{preset}: {} groups", db.metrics().groups);
        let lost = (0..30).filter(|i| db.get(key(*i)).is_err()).count();
        assert_eq!(lost, 1, "{preset}: one value is damaged");
    }
}

/// A flush asks the filters of a group whether a small value must leave a group tombstone there. A
/// filter that was damaged failed the flush, and each one after it, though it only ever saves a
/// group tombstone.
#[test]
fn a_damaged_filter_stops_no_flush() {
    let options = Setup::tiny(Preset::HashKv, true).options;
    let sim = Sim::new();
    let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
    (0..6).for_each(|i| db.put(key(i), value(i, 0)).unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    let image = sim.image();
    let group = image.list().into_iter().find(|(name, _)| name.kind() == FileKind::Group).unwrap();
    let mut noticed = 0;
    for offset in 0..group.1 {
        let mut damaged = image.clone();
        damaged.flip_bit(&group.0, offset * 8);
        let db = Db::open_in(Arc::new(Sim::from_image(damaged)), options.clone(), 7).unwrap();
        (0..6).for_each(|i| db.put(key(i), b"small").unwrap());
        db.flush().unwrap_or_else(|error| panic!("a flip at {offset}: {error}"));
        (0..6).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), "small"));
        noticed += u32::from(!db.verify().unwrap().problems.is_empty());
    }
    assert!(noticed > 0, "no flip met what is checked");
}

/// Where values are long a collection reads which records there are, and what survives.
#[test]
fn of_long_values_the_dead_are_not_read() {
    let read = |preset, key_block_record_bytes| {
        let mut options = options(preset);
        options.tuning.groups.key_block_record_bytes = key_block_record_bytes;
        let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
        for round in 0..12 {
            (0..60).for_each(|i| db.put(key(i), [round + i as u8; 5000]).unwrap());
            db.put(key(60), b"small").unwrap();
        }
        db.collect().unwrap();
        (0..60)
            .for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap()[..], [11 + i as u8; 5000]));
        assert_eq!(db.get(key(60)).unwrap().unwrap(), "small");
        assert_eq!(db.verify().unwrap().problems.len(), 0);
        db.metrics().collection_read
    };
    for preset in PRESETS {
        let (some, all) = (read(preset, 1000), read(preset, u64::MAX));
        assert!(some * 3 < all * 2, "{preset}: {some} of {all}");
    }
}

/// The log is never written to its file, which is still new when a flush has made it needless.
#[test]
fn a_log_file_that_was_not_written_is_the_next_one() {
    for preset in PRESETS {
        let mut options = Setup::log_in_window(preset).options;
        options.tuning.log_file_bytes = 32 << 10;
        let sim = Sim::new();
        let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
        write(&db, 0..3);
        let logs = sim.image().list().into_iter().filter(|(name, _)| name.kind() == FileKind::Log);
        let logs: Vec<_> = logs.map(|(name, _)| name).collect();
        assert!(logs.len() <= 3, "{preset}: {logs:?}");
        let is_reuse =
            |event: &Event| matches!(event, Event::Rename { to, .. } if to.kind() == FileKind::Log);
        let reused = sim.history().iter().filter(|event| is_reuse(event)).count();
        assert!(reused > 5, "{preset}: {reused}");
        db.close().unwrap();
        check(&Db::open_in(Arc::new(sim), options, 7).unwrap(), 2);
    }
}
