//! Background work must end: counts the jobs until none is due.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cleavedb::{Compression, Db, FileClass, Options, Preset, PutOptions};
use cleavedb_storage::FileKind;
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Rng;

use crate::disks::Disks;
use crate::full::{FullStore, limited};
use crate::read::Checked;
use crate::records::{key, value};
use crate::session::open_all;
use crate::setup::Setup;

/// Most collections for 50 small writes and settling: about the number of groups.
const COLLECTIONS_MAX: u64 = 30;

/// Most jobs until none is due.
const JOBS_MAX: usize = 10_000;

/// Runs jobs until none is due.
pub fn settled(db: &Db) -> Checked<()> {
    for _ in 0..JOBS_MAX {
        if !db.step().map_err(|e| e.to_string())? {
            return Ok(());
        }
    }
    Err(format!("{JOBS_MAX} jobs have run, and one is due still"))
}

/// Short values and a cold log with short segments, under tight goals: checks that settling ends
/// soon each time.
pub fn short_segments_settle(seed: u64) -> Checked<()> {
    let mut rng = Rng::new(seed);
    let mut options = Setup::tagged(true).options;
    options.min_separated = Some(0);
    options.space_amplification = 1.05;
    options.tuning.space_floor = [0, 4 << 10, 24 << 10][seed as usize % 3];
    let db = Db::open_in(Arc::new(Sim::new()), options, 7).map_err(|e| e.to_string())?;
    let keys = 100 + rng.index(200);
    for round in 0..40u8 {
        let before = db.metrics().collections;
        for _ in 0..50 {
            let key = (rng.index(keys) as u32).to_be_bytes();
            let len = [1, 10, 30, 400][rng.index(4)];
            let written = match rng.chance(20) {
                true => db.delete(key),
                false => db.put(key, vec![round; len]),
            };
            written.map_err(|e| e.to_string())?;
        }
        settled(&db)?;
        let collections = db.metrics().collections - before;
        if collections > COLLECTIONS_MAX {
            return Err(format!("{collections} collections for 50 short values"));
        }
    }
    Ok(())
}

/// The store on `sim`.
pub(crate) fn opened(sim: &Sim, options: &Options) -> Checked<Db> {
    Db::open_in(Arc::new(sim.clone()), options.clone(), 7).map_err(|e| format!("open failed: {e}"))
}

/// Compressed values in tables that are shorter than a block: checks that jobs come to an end, and
/// that none wins nothing.
pub fn short_compressed_tables_settle(seed: u64) -> Checked<()> {
    let preset = Preset::ALL[seed as usize % Preset::ALL.len()];
    let mut options = Setup::tiny(preset, true).options;
    if options.layout().separates() {
        options.min_separated = Some(1 << 20);
    }
    options.compression = Compression::Zstd;
    let blocks = seed as usize / Preset::ALL.len() % 5;
    options.tuning.block_bytes = (options.tuning.table_bytes as usize) << blocks;
    let db = opened(&Sim::new(), &options)?;
    for i in 0..60 {
        db.put(key(i), [7; 3000]).map_err(|e| e.to_string())?;
    }
    db.compact().map_err(|e| format!("{preset}, {} bytes: {e}", options.tuning.block_bytes))?;
    settled(&db)?;
    match db.metrics().futile_jobs {
        0 => Ok(()),
        count => {
            Err(format!("{preset}, {} bytes: {count} futile jobs", options.tuning.block_bytes))
        }
    }
}

/// Writes the values of `round` to `records`.
fn write(db: &Db, records: Range<u32>, round: u32) -> Checked<()> {
    for i in records {
        db.put(key(i), value(i, round)).map_err(|e| format!("record {i}: {e}"))?;
    }
    Ok(())
}

/// Flips a bit in every few bytes of the files of `kind`, except in their headers.
pub(crate) fn damage(sim: &Sim, kind: FileKind) -> Sim {
    let mut image = sim.image();
    for (name, len) in image.list() {
        for at in (100..len.saturating_sub(2000)).step_by(997).filter(|_| name.kind() == kind) {
            image.flip_bit(&name, at * 8);
        }
    }
    Sim::from_image(image)
}

/// A store with damaged blocks in its tables: checks that everything else works, that no job
/// repeats without end, and that the damage is reported.
pub fn damaged_blocks_stop_nothing(seed: u64) -> Checked<()> {
    let preset = Preset::ALL[seed as usize % Preset::ALL.len()];
    let options = Setup::tiny(preset, true).options;
    let sim = Sim::new();
    let db = opened(&sim, &options)?;
    write(&db, 0..300, 0)?;
    db.compact().and_then(|()| db.close()).map_err(|e| e.to_string())?;
    let db = opened(&damage(&sim, FileKind::Table), &options)?;
    for round in 1..6 {
        write(&db, 0..300, round)?;
        // Each damaged place fails once, and is skipped then.
        let failed = (0..JOBS_MAX).find(|_| matches!(db.step(), Ok(false)));
        failed.ok_or_else(|| format!("{preset}: {JOBS_MAX} jobs ran or failed"))?;
    }
    let metrics = db.metrics();
    if metrics.damaged.is_empty() || metrics.background_error.is_none() {
        return Err(format!("{preset}: no damage is reported"));
    }
    for i in 0..300 {
        match db.get(key(i)) {
            Ok(found) if found.as_deref() != Some(&value(i, 5)) => {
                return Err(format!("{preset}: record {i} is wrong"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A store with damaged tables in level 1 whose keys are rewritten again and again: checks that
/// level 0, which cannot be compacted, stays about as long as the live data.
pub fn damage_fills_no_level0(seed: u64) -> Checked<()> {
    let preset = Preset::ALL[seed as usize % Preset::ALL.len()];
    let options = Setup::tiny(preset, true).options;
    let sim = Sim::new();
    let db = opened(&sim, &options)?;
    write(&db, 0..300, 0)?;
    db.compact().and_then(|()| db.close()).map_err(|e| e.to_string())?;
    let db = opened(&damage(&sim, FileKind::Table), &options)?;
    let (mut first, mut last) = (0, 0);
    for round in 1..40 {
        write(&db, 0..300, round)?;
        let failed = (0..JOBS_MAX).find(|_| matches!(db.step(), Ok(false)));
        failed.ok_or_else(|| format!("{preset}: {JOBS_MAX} jobs ran or failed"))?;
        let levels = db.metrics().levels;
        last = levels.iter().find(|level| level.level == 0).map_or(0, |level| level.bytes);
        if round <= 8 {
            first = last.max(first);
        }
    }
    match last <= 2 * first {
        true => Ok(()),
        false => Err(format!("{preset}: level 0 has grown from {first} to {last} bytes")),
    }
}

/// A store with damaged values, except rewritten ones: checks that writes go on, although the
/// garbage cannot be collected.
pub fn damaged_values_stop_no_writer(seed: u64) -> Checked<()> {
    let preset = [Preset::WiscKey, Preset::HashKv, Preset::KtStore][seed as usize % 3];
    let options = Setup::tiny(preset, true).options;
    let sim = Sim::new();
    let db = opened(&sim, &options)?;
    write(&db, 0..400, 0)?;
    db.close().map_err(|e| e.to_string())?;
    let kind = if preset == Preset::WiscKey { FileKind::Log } else { FileKind::Group };
    let db = opened(&damage(&sim, kind), &options)?;
    for round in 1..5 {
        // Values that are written once keep whole files from being dropped.
        for i in (0..400).step_by(4) {
            write(&db, i..i + 3, round).map_err(|e| format!("{preset}: {e}"))?;
        }
    }
    if db.metrics().damaged.is_empty() {
        return Err(format!("{preset}: no damage is reported"));
    }
    Ok(())
}

/// A store near its space limit, with damaged tables: checks that writers that search for space do
/// not get errors of the damage that jobs meet, but at most that there is no space.
pub fn damage_refuses_no_writer_that_searches(seed: u64) -> Checked<()> {
    let setup = Setup::tiny(Preset::ALL[seed as usize % Preset::ALL.len()], true);
    let sim = Sim::new();
    let store = FullStore::on(sim.clone(), limited(&setup))?;
    let count = store.fill(0.., 0)? * 3 / 4;
    store.delete(0..count / 3)?;
    store.db.close().map_err(|e| e.to_string())?;
    let store = FullStore::on(damage(&sim, FileKind::Table), limited(&setup))?;
    for round in 1..4 {
        store.fill(0..count, round).map_err(|e| format!("{setup}: {e}"))?;
    }
    match store.db.metrics().damaged.is_empty() {
        true => Err(format!("{setup}: no damage is reported")),
        false => Ok(()),
    }
}

/// A store that was closed while its last log file was longer than the tolerated garbage: checks
/// that it accepts writes.
pub fn a_long_last_log_stops_no_writer(seed: u64) -> Checked<()> {
    let preset = Preset::ALL[seed as usize % Preset::ALL.len()];
    let mut options = Setup::tiny(preset, true).options;
    (options.tuning.space_floor, options.tuning.log_file_bytes) = (16 << 10, 256 << 10);
    let sim = Sim::new();
    let db = opened(&sim, &options)?;
    db.put(b"long", vec![7; 200 << 10]).map_err(|e| e.to_string())?;
    db.close().map_err(|e| e.to_string())?;
    let db = opened(&sim, &options)?;
    write(&db, 0..300, 0).map_err(|e| format!("{preset}: {e}"))
}

/// A store on two disks, one of which has no room for tables below level 0: checks that collections
/// go on.
pub fn collections_go_on_without_compactions(_: u64) -> Checked<()> {
    let setup = Setup::tiny(Preset::WiscKey, true).on_two_disks([FileClass::Levels]);
    let disks = Disks::forgetful(&setup);
    let db = open_all(&disks.storages(), &setup).map_err(|e| e.to_string())?;
    // The first write stamps each volume.
    write(&db, 0..1, 0)?;
    disks.sims()[1].set_capacity(1);
    write(&db, 0..200, 0)?;
    for round in 1..8 {
        // Values that are written once keep whole files from being dropped.
        for i in (0..200).step_by(4) {
            write(&db, i..i + 3, round)?;
        }
        db.flush().map_err(|e| e.to_string())?;
        (0..100).take_while(|_| matches!(db.step(), Ok(true))).for_each(drop);
    }
    let metrics = db.metrics();
    let fails = metrics.failures.iter().any(|failure| failure.job == "compaction");
    match (fails, metrics.collections) {
        (true, 1..) => Ok(()),
        (fails, count) => Err(format!("{count} collections; compactions fail: {fails}")),
    }
}

/// Most dead entries that a search for the first key of a queue may skip.
const DEAD_MAX: u64 = 1000;

/// A queue that was emptied from the front: counts the dead entries that a search for the first key
/// skips, and the bytes of tables that are left, after a settle and without an explicit compaction.
pub fn a_queue_is_popped(seed: u64) -> Checked<()> {
    let designs = Setup::every_design();
    let setup = &designs[seed as usize % designs.len()];
    let db = opened(&Sim::new(), &setup.options)?;
    for i in 0..5000 {
        db.put(key(i), b"item").map_err(|e| e.to_string())?;
    }
    for i in 0..4990 {
        let first = db.range(..).next();
        let first = first.ok_or("the queue is empty")?.map_err(|e| e.to_string())?;
        if first.key != key(i) {
            return Err(format!("{setup}: {:?} instead of item {i}", first.key));
        }
        db.delete(&first.key).map_err(|e| e.to_string())?;
        if i % 50 == 0 {
            db.step().map_err(|e| e.to_string())?;
        }
    }
    db.wait_idle().map_err(|e| e.to_string())?;
    let before = db.metrics().dead_read;
    let left = db.range(..).keys_only().take(1).count();
    let metrics = db.metrics();
    let dead = metrics.dead_read - before;
    let entries: u64 = metrics.levels.iter().map(|level| level.entries).sum();
    if left != 1 || dead > DEAD_MAX || entries > DEAD_MAX {
        return Err(format!("{setup}: {dead} dead entries on the way to {left}; {entries} in all"));
    }
    Ok(())
}

/// A queue is emptied by a consumer that knows its keys, and never searches for the first one: its
/// deletes are all in memory.
pub fn a_queue_is_emptied_by_key(seed: u64) -> Checked<()> {
    let designs = Setup::every_design();
    let setup = &designs[seed as usize % designs.len()];
    let mut options = setup.options.clone();
    (options.tuning.memtable_bytes, options.tuning.memtable_log_bytes) = (Some(2 << 20), 2 << 20);
    let db = opened(&Sim::new(), &options)?;
    write(&db, 0..2000, 0)?;
    db.flush().map_err(|e| e.to_string())?;
    for i in 0..1990 {
        db.delete(key(i)).map_err(|e| e.to_string())?;
    }
    db.wait_idle().map_err(|e| e.to_string())?;
    let left = db.range(..).keys_only().take(1).count();
    match db.metrics().dead_read {
        dead if left == 1 && dead <= DEAD_MAX => Ok(()),
        dead => Err(format!("{setup}: {dead} dead entries on the way to {left}")),
    }
}

/// Searches step over few dead entries where values have expired in front of others: in memory, and
/// in tables of which they are nearly all, or a part. A search may step over them until jobs have
/// met them.
pub fn what_has_expired_is_not_stepped_over(seed: u64) -> Checked<()> {
    let failed = |e: cleavedb::Error| e.to_string();
    let designs = Setup::every_design();
    let setup = &designs[seed as usize % designs.len()];
    let mut options = setup.options.clone();
    (options.tuning.memtable_bytes, options.tuning.memtable_log_bytes) = (Some(2 << 20), 2 << 20);
    (options.tuning.table_bytes, options.tuning.level0_bytes, options.tuning.level1_bytes) =
        (2 << 20, Some(4 << 20), Some(8 << 20));
    options.expired_within = Duration::from_secs(24 * 60 * 60);
    for (flushed, staying) in [(false, 10), (true, 10), (true, 6000)] {
        let db = opened(&Sim::new(), &options)?;
        for i in 0..3000 {
            db.put_with(key(i), b"session", PutOptions::new().ttl(Duration::from_secs(60)))
                .map_err(failed)?;
        }
        // One that expires much later must not hide that the others have.
        db.put_with(key(3000), b"token", PutOptions::new().ttl(Duration::from_secs(1 << 30)))
            .map_err(failed)?;
        for i in 3001..3001 + staying {
            db.put(key(i), b"session").map_err(failed)?;
        }
        if flushed {
            db.flush().map_err(failed)?;
        }
        db.wait_idle().map_err(failed)?;
        setup.clock.advance(Duration::from_secs(60));
        let search = || -> Checked<u64> {
            let before = db.metrics().dead_read;
            match db.first_key_value().map_err(failed)? {
                Some(first) if first.key == key(3000) => Ok(db.metrics().dead_read - before),
                first => Err(format!("{setup}: {first:?} is the first")),
            }
        };
        for _ in 0..20 {
            search()?;
            db.step().map_err(failed)?;
        }
        db.wait_idle().map_err(failed)?;
        let dead = search()?;
        if dead > DEAD_MAX {
            return Err(format!("{setup}, flushed {flushed}, {staying} stay: {dead} dead entries"));
        }
    }
    Ok(())
}
