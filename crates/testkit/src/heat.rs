//! What heats keys, and what a full hot store does about it (HoaKV, algorithm 1 and section 3.2).

use std::ops::Range;

use cleavedb::{Db, Options};
use cleavedb_storage_sim::Sim;

use crate::endless::{opened, settled};
use crate::read::Checked;
use crate::setup::Setup;

/// A store whose HeatLimit follows its room, with MemTables for thousands of keys.
fn options(hot_bytes: u64) -> Options {
    let mut options = Setup::hot(true).options;
    options.hot_bytes = hot_bytes;
    options.tuning.groups.heat_limit = None;
    (options.tuning.memtable_bytes, options.tuning.window_bytes) = (Some(4 << 20), Some(4 << 20));
    (options.tuning.memtable_log_bytes, options.tuning.log_file_bytes) = (4 << 20, 4 << 20);
    options
}

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

/// Writes each of these keys, with a value of this length, and flushes them.
fn flushed(db: &Db, keys: Range<u32>, len: usize, salt: u8) -> Checked<()> {
    let put = |i: u32| db.put(key(i), vec![salt ^ i as u8; len]);
    keys.into_iter().try_for_each(put).and_then(|()| db.flush()).map_err(|e| e.to_string())
}

/// As [`flushed`], and until no job is due.
fn written(db: &Db, keys: Range<u32>, len: usize, salt: u8) -> Checked<()> {
    flushed(db, keys, len, salt)?;
    settled(db)
}

fn checked(db: &Db, keys: Range<u32>, len: usize, salt: u8) -> Checked<()> {
    for i in keys {
        let found = db.get(key(i)).map_err(|e| e.to_string())?;
        if found.as_deref() != Some(&vec![salt ^ i as u8; len][..]) {
            return Err(format!("record {i} is wrong: {found:?}"));
        }
    }
    Ok(())
}

fn hot_keys(db: &Db) -> u64 {
    db.metrics().hot.map_or(0, |hot| hot.stats.keys)
}

/// Checks that a load makes no key hot, although HeatLimit is one, and that updates do,
/// whose older values count as garbage; of values that are separated, and of others.
pub fn a_load_heats_nothing(len: usize) -> Checked<()> {
    let mut options = options(1 << 20);
    options.tuning.groups.heat_limit = Some(1);
    let db = opened(&Sim::new(), &options)?;
    for load in 0..3 {
        written(&db, load * 2_000..(load + 1) * 2_000, len, 1)?;
        if hot_keys(&db) > 0 {
            return Err(format!("load {load} has made {} keys hot", hot_keys(&db)));
        }
    }
    flushed(&db, 0..1_500, len, 2)?;
    if hot_keys(&db) < 1_000 {
        return Err(format!("updates of 1,500 keys have made {} hot", hot_keys(&db)));
    }
    let (metrics, separated) = (db.metrics(), if len < 200 { 0 } else { len as u64 });
    if metrics.hidden_bytes < 1_000 * separated {
        return Err(format!("{} bytes count as garbage", metrics.hidden_bytes));
    }
    settled(&db)?;
    checked(&db, 0..1_500, len, 2)?;
    checked(&db, 1_500..6_000, len, 1)
}

/// Checks that a hot store which knows no accesses yet, as after each open, takes no key for hot
/// that a short session writes once or twice.
pub fn a_short_session_heats_nothing() -> Checked<()> {
    let (sim, options) = (Sim::new(), options(1 << 20));
    for salt in 0..4 {
        let db = opened(&sim, &options)?;
        written(&db, 0..2_000, 400, salt)?;
        if hot_keys(&db) > 0 {
            return Err(format!("session {salt} has made {} keys hot", hot_keys(&db)));
        }
        db.close().map_err(|e| e.to_string())?;
    }
    checked(&opened(&sim, &options)?, 0..2_000, 400, 3)
}

/// Short values of hot keys lie in hot segments, and are back in the index, whole, once other keys
/// are hotter.
pub fn short_values_come_and_go() -> Checked<()> {
    const LEN: usize = 150;
    let mut options = options(64 << 10);
    options.tuning.groups.heat_limit = Some(3);
    let db = opened(&Sim::new(), &options)?;
    written(&db, 0..3_000, LEN, 1)?;
    for round in 0..8u8 {
        let first = 300 * u32::from(round);
        // All at once: a flush halves the heat in a store as small as this one.
        let puts = (0..3).flat_map(|salt| (first..first + 300).map(move |i| (i, salt)));
        let put = |(i, salt): (u32, u8)| db.put(key(i), vec![salt ^ i as u8; LEN]);
        puts.into_iter().try_for_each(put).map_err(|e| e.to_string())?;
        written(&db, first..first + 300, LEN, 3)?;
        checked(&db, first..first + 300, LEN, 3)?;
    }
    let metrics = db.metrics();
    let stats = metrics.hot.ok_or("no hot store")?.stats;
    if stats.keys < 100 || stats.demoted < 300 {
        return Err(format!("few keys came or went: {stats:?}"));
    }
    checked(&db, 0..2_400, LEN, 3)?;
    checked(&db, 2_400..3_000, LEN, 1)?;
    db.default_keyspace().collect_range(..).map_err(|e| e.to_string())?;
    checked(&db, 0..2_400, LEN, 3)
}

/// A hot store that is far longer than its capacity, which an open has made smaller: checks that
/// reads alone make it short enough, and go on to move keys to it.
pub fn reads_go_on_to_promote() -> Checked<()> {
    const LEN: usize = 400;
    let sim = Sim::new();
    let told = |e: cleavedb::Error| e.to_string();
    let of_room = |hot_bytes| {
        let mut options = options(hot_bytes);
        // All keys are hot enough, so that nothing but the room decides.
        options.tuning.groups.heat_limit = Some(1);
        options
    };
    let db = opened(&sim, &of_room(1 << 20))?;
    written(&db, 0..8_000, LEN, 1)?;
    (2..5).try_for_each(|salt| written(&db, 0..1_500, LEN, salt))?;
    let long = db.metrics().hot.map_or(0, |hot| hot.bytes);
    if long < 768 << 10 {
        return Err(format!("the store has {long} bytes"));
    }
    db.close().map_err(told)?;
    let db = opened(&sim, &of_room(256 << 10))?;
    written(&db, 7_990..8_000, LEN, 1)?;
    for _ in 0..30 {
        checked(&db, 2_000..8_000, LEN, 1)?;
        settled(&db)?;
    }
    let hot = db.metrics().hot.ok_or("no hot store")?;
    if hot.stats.promoted == 0 || hot.bytes > 512 << 10 {
        return Err(format!("the store is frozen: {hot:?}"));
    }
    Ok(())
}
