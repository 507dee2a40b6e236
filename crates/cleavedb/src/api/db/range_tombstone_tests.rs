//! Range tombstones in an open database, by every way to keep values: what they cover leaves
//! tables and value files, and nothing else does.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleavedb_base::{EncodedKey, FileNumber, KeyspaceId, SeqNo};
use cleavedb_index::{EntryIter, MergeIter, RangeTombstone, ReadMode};
use cleavedb_storage_sim::Sim;
use cleavedb_values::{GroupId, GroupLayout, SurvivorRoute};

use super::Db;
use crate::engine::Engine;
use crate::engine::range_tombstones::{add_range_tombstones, forget, set_forgotten_upto};
use crate::settings::options::{Background, Durability, Options, Preset};
use crate::settings::tuning::Tuning;

const KEYS: u32 = 300;

/// The keys that are deleted.
const DELETED: std::ops::Range<u32> = 60..240;

fn key(i: u32) -> Vec<u8> {
    format!("key{i:04}").into_bytes()
}

/// Short values stay in tables by most designs, long ones in the log by one; others are separated.
fn value(i: u32, round: u32) -> Vec<u8> {
    let times = match i % 8 {
        0 | 4 => 2,
        1 => 150,
        _ => 60,
    };
    format!("{i} in {round} ").into_bytes().repeat(times)
}

/// Small sizes, so that few writes make every job run.
pub(super) fn small(preset: Preset) -> Options {
    let usual = Options::preset(preset);
    let mut options = Options {
        space_amplification: 1.1,
        background: Background::Manual,
        tuning: Tuning {
            memtable_bytes: Some(64 << 10),
            memtable_log_bytes: 32 << 10,
            log_file_bytes: 32 << 10,
            segment_bytes: 32 << 10,
            window_bytes: Some(64 << 10),
            table_bytes: 4 << 10,
            level0_bytes: Some(8 << 10),
            level1_bytes: Some(16 << 10),
            space_floor: 24 << 10,
            ..usual.tuning
        },
        ..usual
    };
    if let Some(layout) = options.layout().groups {
        let groups = &mut options.tuning.groups;
        (groups.capacity_bytes, groups.main_segment_bytes) = (64 << 10, 16 << 10);
        if layout.shares_segments() {
            groups.log_segment_bytes = 4 << 10;
        }
        if layout.hot {
            options.hot_bytes = 32 << 10;
        }
    }
    options
}

/// `preset` with another layout of groups.
fn changed(preset: Preset, change: impl FnMut(&mut GroupLayout)) -> Options {
    let mut options = small(preset);
    let mut layout = options.layout();
    layout.groups.iter_mut().for_each(change);
    options.layout = Some(layout);
    options
}

/// Every design once.
fn designs() -> Vec<Options> {
    let mut all: Vec<Options> = Preset::ALL.into_iter().map(small).collect();
    all.push(changed(Preset::HashKv, |layout| layout.survivors = SurvivorRoute::Tagged));
    let mut hot = small(Preset::HoaKv);
    hot.tuning.groups.heat_limit = Some(1);
    all.push(hot);
    let mut long = small(Preset::Lsm);
    long.tuning.long_value_bytes = Some(1 << 10);
    all.push(long);
    all
}

fn write(db: &Db, keys: impl IntoIterator<Item = u32>, round: u32) {
    keys.into_iter().for_each(|i| db.put(key(i), value(i, round)).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
}

fn tombstone(id: u64, seq: SeqNo, eager: bool) -> RangeTombstone {
    let bound = |i| EncodedKey::new(KeyspaceId(0), &key(i)).as_bytes().into();
    RangeTombstone { id, begin: bound(DELETED.start), end: bound(DELETED.end), seq, eager }
}

/// Deletes the range; returns the sequence number of the tombstone.
fn delete_range(db: &Db, eager: bool) -> SeqNo {
    db.put("the record of a range tombstone", "").unwrap();
    let engine = db.default.inner.writable().unwrap();
    let seq = engine.commit.visible();
    add_range_tombstones(engine, vec![tombstone(7, seq, eager)]);
    seq
}

/// The deleted keys of which a table has an entry below `seq`.
fn covered(engine: &Engine, seq: SeqNo) -> BTreeSet<Vec<u8>> {
    let deleted = tombstone(0, seq, false);
    let state = engine.state.load_full();
    let mut all = MergeIter::new(state.version.iters(None, None, ReadMode::Ahead));
    all.seek_first().unwrap();
    let mut found = BTreeSet::new();
    while all.valid() {
        let entry = all.entry();
        let within = *deleted.begin <= *entry.key && *entry.key < *deleted.end;
        if within && entry.seq < seq {
            found.insert(entry.key.to_vec());
        }
        all.next().unwrap();
    }
    found
}

/// Fails unless the database has exactly the keys for which `round` names the last write.
fn check(db: &Db, round: impl Fn(u32) -> Option<u32>) {
    for i in 0..KEYS {
        let found = db.get(key(i)).unwrap();
        assert_eq!(found.as_deref(), round(i).map(|round| value(i, round)).as_deref(), "key {i}");
    }
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

/// Bytes of live values in value files, and of dead ones outside of the hot store.
fn value_bytes(engine: &Engine) -> (u64, u64) {
    let manifest = engine.manifest.lock();
    let live = manifest.live();
    let extents = live.groups.extents().filter(|extent| extent.group != GroupId::HOT);
    let dead: u64 = extents.map(|extent| extent.separated - extent.live).sum();
    let in_files = live.value_bytes() - live.groups.bytes();
    (live.owned(), dead + in_files.saturating_sub(live.value_files.live()))
}

fn deletes_a_range(options: &Options, eager: bool) {
    let sim = Sim::new();
    let db = Db::open_in(Arc::new(sim.clone()), options.clone(), 7).unwrap();
    (0..3).for_each(|round| write(&db, 0..KEYS, round));
    let engine = db.default.inner.writable().unwrap();
    let (live, _) = value_bytes(engine);
    let snapshot = db.snapshot();
    // Some are still in memory when the tombstone comes, and some are written again after it.
    (0..KEYS).step_by(14).for_each(|i| db.put(key(i), value(i, 3)).unwrap());
    let seq = delete_range(&db, eager);
    let again = |i: u32| i.is_multiple_of(10);
    write(&db, (0..KEYS).filter(|i| again(*i)), 4);
    db.collect().unwrap();
    db.compact().unwrap();
    assert!(!covered(engine, seq).is_empty(), "the snapshot sees them");
    assert!(
        !engine.state.load().deleted.is_empty()
            && engine.state.load().deleted.forgotten_upto() == 0
    );
    (0..KEYS).for_each(|i| assert_eq!(snapshot.get(key(i)).unwrap().unwrap(), value(i, 2)));
    drop(snapshot);
    write(&db, 0..1, 5);
    if !eager {
        db.compact().unwrap();
    }
    let left = covered(engine, seq);
    let hot = options.layout().has_hot_store();
    assert!(left.is_empty() || hot, "{left:?}");
    // Keys that are written when all that was deleted is gone.
    let late = |part: u32| DELETED.start + part;
    let round = |i: u32| match i {
        0 => Some(5),
        _ if (6..9).any(|part| late(part) == i) => Some(i - DELETED.start),
        _ if again(i) => Some(4),
        _ if DELETED.contains(&i) => None,
        _ => Some(if i.is_multiple_of(14) { 3 } else { 2 }),
    };
    for part in 6..9 {
        db.collect().unwrap();
        db.compact().unwrap();
        write(&db, [KEYS + part, late(part)], part);
    }
    let left = covered(engine, seq);
    assert!(left.is_empty(), "{left:?}");
    let scanned: BTreeSet<_> = db.range(..).map(|item| item.unwrap().key.to_vec()).collect();
    assert!((0..KEYS).all(|i| round(i).is_none() || scanned.contains(&key(i))));
    if !hot {
        let state = engine.state.load();
        assert!(state.deleted.is_empty() && state.deleted.forgotten_upto() == seq);
        assert_eq!(*engine.range_numbers.forgotten.lock(), [7]);
        check(&db, round);
    }
    let (alive, dead) = value_bytes(engine);
    assert!(alive <= live / 2 && dead <= 16 << 10, "{alive} and {dead} of {live}");
    let tags: u64 = engine.state.load().groups.extents().map(|extent| extent.tags).sum();
    let left = (0..KEYS).filter(|i| round(*i).is_some()).count() as u64;
    assert!(hot || tags <= left, "{tags} tags of {left} keys");
    db.close().unwrap();
    if !hot {
        // The tombstone's record and the number were lost with the close; nothing needs them but
        // groups whose records tell what lives.
        let db = Db::open_in(Arc::new(sim), options.clone(), 7).unwrap();
        set_forgotten_upto(db.default.inner.writable().unwrap(), seq);
        db.collect().unwrap();
        check(&db, round);
    }
}

#[test]
fn what_a_drop_deletes_leaves_by_itself_once_no_snapshot_sees_it() {
    designs().iter().for_each(|options| deletes_a_range(options, true));
}

#[test]
fn what_a_user_deletes_leaves_by_a_full_compaction() {
    designs().iter().for_each(|options| deletes_a_range(options, false));
}

/// The keys that are hot.
fn hot_keys(engine: &Engine) -> BTreeSet<u32> {
    let store = engine.apart.hot.as_ref().unwrap();
    let is_hot = |i: &u32| {
        let encoded = EncodedKey::new(KeyspaceId(0), &key(*i));
        store.find(store.key(encoded.as_bytes())).is_some()
    };
    (0..KEYS).filter(is_hot).collect()
}

/// A database with a hot store that takes keys which were accessed as often as `heat_limit`, and is
/// so large that none must leave.
fn hot(heat_limit: u8) -> Db {
    let mut options = small(Preset::HoaKv);
    (options.tuning.groups.heat_limit, options.hot_bytes) = (Some(heat_limit), 512 << 10);
    // Level 0 is never full: what leaves it has another reason.
    (options.tuning.groups.capacity_bytes, options.tuning.level0_bytes) = (1 << 20, Some(1 << 20));
    Db::open_in(Arc::new(Sim::new()), options, 7).unwrap()
}

/// Of a key that was deleted by range the tables have lost the marker. A scan did not find it when
/// it was written again, since updates of a hot key have no entry.
#[test]
fn a_hot_key_that_comes_back_gets_a_marker() {
    let db = hot(1);
    // Keys with long enough values, beside each other.
    let keys = || (0..KEYS).filter(|i| !i.is_multiple_of(4));
    (0..2).for_each(|round| write(&db, keys(), round));
    let engine = db.default.inner.writable().unwrap();
    assert!(keys().eq(hot_keys(engine)));
    let seq = delete_range(&db, true);
    db.flush().unwrap();
    db.compact().unwrap();
    assert!(covered(engine, seq).is_empty());
    write(&db, keys().filter(|i| i.is_multiple_of(3)), 2);
    let scanned: Vec<_> = db.range(..).map(|item| item.unwrap().key.to_vec()).collect();
    let left = |i: &u32| i.is_multiple_of(3) || !DELETED.contains(i);
    let expected =
        keys().filter(left).map(key).chain([b"the record of a range tombstone".to_vec()]);
    assert!(expected.eq(scanned));
    // Evacuations come by, in runs with other keys, too.
    engine.jobs.lock().leaving.push(FileNumber(u64::MAX));
    (3..20).for_each(|round| write(&db, [0, KEYS], round));
    engine.jobs.lock().leaving.clear();
    let back = hot_keys(engine);
    assert!(back.iter().all(left) && back.len() > 50, "{back:?}");
    assert!(covered(engine, seq).is_empty(), "what leaves the hot store is rewritten without");
    assert!(!engine.state.load().deleted.is_empty(), "hot segments are left");
}

/// A promoted value gets a new sequence number, which would be newer than its delete by range.
#[test]
fn what_a_range_tombstone_covers_is_not_promoted() {
    let db = hot(6);
    write(&db, 0..KEYS, 0);
    let engine = db.default.inner.writable().unwrap();
    (0..8).for_each(|_| (0..KEYS).for_each(|i| assert!(db.get(key(i)).unwrap().is_some())));
    delete_range(&db, false);
    db.flush().unwrap();
    let hot = hot_keys(engine);
    assert!(!hot.is_empty() && !hot.iter().any(|i| DELETED.contains(i)), "{hot:?}");
}

/// A loss of power would keep what the compaction dropped, and lose the tombstone.
#[test]
fn a_compaction_applies_what_is_durable() {
    let options = Options { durability: Durability::Os, ..small(Preset::Lsm) };
    let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
    (0..2).for_each(|round| write(&db, 0..KEYS, round));
    let engine = db.default.inner.writable().unwrap();
    let seq = delete_range(&db, true);
    db.wait_idle().unwrap();
    let before = covered(engine, seq).len();
    assert_eq!(before, DELETED.len());
    db.sync().unwrap();
    db.wait_idle().unwrap();
    assert!(covered(engine, seq).is_empty());
    assert!(!engine.state.load().deleted.is_empty(), "its record is in memory only");
    db.flush().unwrap();
    assert!(engine.state.load().deleted.is_empty());
}

/// The run of a collection that began before a tombstone may have what it covers.
#[test]
fn a_tombstone_is_kept_for_a_collection_that_does_not_apply_it() {
    let db = Db::open_in(Arc::new(Sim::new()), small(Preset::WiscKey), 7).unwrap();
    let engine = db.default.inner.writable().unwrap();
    let seq = delete_range(&db, true);
    engine.jobs.lock().collection_applies = Some(seq - 1);
    db.flush().unwrap();
    assert!(!engine.state.load().deleted.is_empty());
    engine.jobs.lock().collection_applies = Some(seq);
    forget(engine);
    assert!(engine.state.load().deleted.is_empty());
    assert_eq!(*engine.range_numbers.forgotten.lock(), [7]);
}
