//! Every planted bug is caught by the checks that the other tests run; without a bug they pass.
//!
//! A test plants one bug for its thread and runs a short form of the crash, model, fault and damage
//! tests until one of them fails. Its seeds are the same whatever the budget: they were chosen for
//! the bug. Run with `--features test-planted-bugs`; a build for users has none of this.

mod damage;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cleavedb::{Durability, Filter, FilterDecision, FilteredValue, Preset};
use cleavedb_base::FileNumber;
use cleavedb_base::planted::{Bug, plant};
use cleavedb_storage::quota::Budget;
use cleavedb_storage::{Access, FileKind, Mode, Name, QuotaStorage, Storage};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::faulty::{Fault, Faulty, Op as Call, Rule};
use cleavedb_storage_sim::sim::{DirectoryOrder, PowerLoss, SECTOR};
use cleavedb_testkit::backups::{
    a_backup_after_a_disk_was_set_back, a_restore_survives_a_loss_of_power,
};
use cleavedb_testkit::brim::{closed_when_full, freed_without_a_free_byte};
use cleavedb_testkit::compressed;
use cleavedb_testkit::copies::{a_checkpoint_has_all, a_copy_stays_apart};
use cleavedb_testkit::destroyed::destroyed_stores;
use cleavedb_testkit::disks::hash_of;
use cleavedb_testkit::drawn::drawn_hot_stores_settle;
use cleavedb_testkit::endless::{
    a_queue_is_popped, collections_go_on_without_compactions, damage_fills_no_level0,
    damaged_blocks_stop_nothing, damaged_values_stop_no_writer, short_compressed_tables_settle,
};
use cleavedb_testkit::follow::{
    changes_are_the_content, changes_hold_what_was_deleted, changes_survive_crashes,
    kept_from_some_day_on,
};
use cleavedb_testkit::followed_changes::{a_loss_is_told, a_torn_window_hides_no_change};
use cleavedb_testkit::fronts::ends_are_found;
use cleavedb_testkit::full::{collected_on_a_full_disk, filled_twice};
use cleavedb_testkit::heat::{
    a_load_heats_nothing, reads_go_on_to_promote, short_values_come_and_go,
};
use cleavedb_testkit::held_collections::{End, a_collection_beside};
use cleavedb_testkit::hot::{long_hot_values, matrix, promotions_follow_reads};
use cleavedb_testkit::hot_damage::damaged_hot_segments;
use cleavedb_testkit::keyspaces::Keyspaces;
use cleavedb_testkit::live_copies::{checks_of_a_changing_store, copies_of_a_changing_store};
use cleavedb_testkit::migrated::drawn_migrations_survive;
use cleavedb_testkit::needles::{an_old_reader_is_named, deletes_leave_too, nothing_is_left};
use cleavedb_testkit::numbered::what_is_synced_to_survives;
use cleavedb_testkit::secondary::{a_torn_window_is_read_again, followed};
use cleavedb_testkit::session::{open, open_all, open_read_only};
use cleavedb_testkit::sharing::databases_share_caches;
use cleavedb_testkit::torn::a_torn_batch_stays_away;
use cleavedb_testkit::transactions::interleaved;
use cleavedb_testkit::{
    Disks, Explorer, Generator, Op, Plan, Profile, Recording, Session, Setup, State, Write, caught,
    expiry, loads, together,
};
use cleavedb_values::victim::CostBenefit;

use damage::{damage, lost_edits};

/// Seeds that a check may use before the bug counts as missed.
const SEEDS: u64 = 60;

/// A check from a seed: the failure that it finds.
type Check = fn(u64) -> Result<(), String>;

/// The design that a seed stands for. The default preset has the layout of `ktstore`: without it
/// bugs that few seeds find are found by the seeds that were found for them.
fn design(seed: u64) -> Setup {
    let mut designs = Setup::every_design();
    designs.retain(|setup| setup.options.preset != Some(Preset::Cleave));
    designs[seed as usize % designs.len()].clone()
}

/// Runs `check` with a bug planted, until it fails or the seeds are used up; then without.
fn caught(bug: Bug, check: Check) {
    let found = (0..SEEDS).find_map(|seed| {
        plant(Some(bug));
        // A panic counts: the engine noticed by itself.
        let outcome = catch_unwind(AssertUnwindSafe(|| check(seed)));
        plant(None);
        let failure = match outcome {
            Ok(Ok(())) => return None,
            Ok(Err(failure)) => failure,
            Err(_) => "a panic".into(),
        };
        Some((seed, failure))
    });
    let (seed, failure) = found.unwrap_or_else(|| panic!("nothing notices {bug:?}"));
    println!("{bug:?} is caught by seed {seed}: {}", failure.lines().next().unwrap_or_default());
    check(seed).unwrap_or_else(|failure| panic!("without {bug:?}: {failure}"));
}

fn crash_of(setup: &Setup, plan: Plan, seed: u64) -> Result<(), String> {
    let ops = Generator::new(seed, plan.profile.clone()).take(30);
    let recording = Recording::first(setup, &ops)?;
    Explorer::new(Plan { seed, ..plan }).explore(&recording)
}

/// Crashes of a small workload, on every preset, two thirds with a lasting window, as in
/// `crash.rs`.
fn crash(seed: u64) -> Result<(), String> {
    let plan = Plan { images_max: 8, deeper_one_in: 300, depth: 2, ..Plan::default() };
    let presets = Preset::ALL.len() as u64;
    let preset = Preset::ALL[(seed % presets) as usize];
    crash_of(&Setup::tiny(preset, !(seed / presets).is_multiple_of(3)), plan, seed)
}

/// Crashes of a store that collects by itself, while newer versions are in memory.
fn crash_while_collecting(seed: u64) -> Result<(), String> {
    let mut setup = Setup::tiny(Preset::WiscKey, true);
    setup.options.tuning.space_floor = 48 << 10;
    setup.options.space_amplification = 1.05;
    let profile = Profile {
        value_lens: vec![1500, 3000],
        synced: 5,
        kills: false,
        collects: false,
        ..Profile::crash()
    };
    let ops = Generator::new(seed, profile.clone()).take(120);
    let recording = Recording::first(&setup, &ops)?;
    let plan = Plan { seed, images_max: 4, depth: 1, profile, ..Plan::default() };
    Explorer::new(plan).explore(&recording)
}

/// Crashes of batches that are torn, and crashes of the sessions that go on with their log.
fn crash_of_batches(seed: u64) -> Result<(), String> {
    let preset = Preset::ALL[seed as usize % Preset::ALL.len()];
    let batch = |key: u8| {
        let batch = [(key, 40), (key + 1, 90), (key + 2, 900)];
        let batch = batch.map(|(key, len)| Write::put(&[key], vec![key; len]));
        Op::Write(batch.to_vec(), Durability::Os)
    };
    let ops = [batch(1), batch(11), Op::Reopen, batch(21)];
    let recording = Recording::first(&Setup::tiny(preset, seed.is_multiple_of(2)), &ops)?;
    let profile = Profile { kills: false, ..Profile::crash() };
    let plan =
        Plan { seed, images_max: 8, deeper_one_in: 10, depth: 2, profile, ..Plan::default() };
    Explorer::new(plan).explore(&recording)
}

/// Crashes of short sessions, most of which go on with the log of the one before.
fn crash_over_sessions(seed: u64) -> Result<(), String> {
    let preset = Preset::ALL[seed as usize % Preset::ALL.len()];
    let put = |key: u8, durability| Op::Write(vec![Write::put(&[key], vec![key; 300])], durability);
    let mut ops = Vec::new();
    for key in 0..4 {
        let durability = if key % 2 == 0 { Durability::Os } else { Durability::Sync };
        ops.extend([put(key, Durability::Os), put(key + 10, durability), Op::Reopen]);
    }
    let recording = Recording::first(&Setup::tiny(preset, seed.is_multiple_of(2)), &ops)?;
    let plan = Plan { seed, images_max: 8, depth: 1, ..Plan::default() };
    Explorer::new(plan).explore(&recording)
}

/// A store whose window grows while it holds the end of the log.
fn growing_window(seed: u64) -> Result<(), String> {
    let preset = [Preset::HashKv, Preset::KtStore][seed as usize % 2];
    let setup = Setup::log_in_window(preset);
    let mut session = Session::on(Disks::forgetful(&setup), &setup, State::default())?;
    for i in 0..60u8 {
        let write = Write::put(&[i], vec![i; 2000]);
        session.run(&Op::Write(vec![write], Durability::Os))?;
        session.run(&Op::Get(vec![i]))?;
        if i == 15 {
            // From here on positions have other places in a longer ring.
            session.run(&Op::Reopen)?;
        }
    }
    session.compare_all()?;
    session.run(&Op::Kill)
}

/// A copy of a store beside its original, as in `sessions.rs`.
fn copy_beside_its_original(seed: u64) -> Result<(), String> {
    a_copy_stays_apart(&design(seed), seed.is_multiple_of(2))
}

/// Transactions that are open at once, as in `transactions.rs`.
fn transactions(seed: u64) -> Result<(), String> {
    interleaved(&design(seed), seed).map(drop)
}

/// Checkpoints, as in `checkpoint.rs`.
fn checkpoint(seed: u64) -> Result<(), String> {
    let setups = Setup::all();
    a_checkpoint_has_all(&setups[seed as usize % setups.len()], seed)
}

/// Backups of a disk that was set back, as in `backup.rs`.
fn backup_of_the_past(seed: u64) -> Result<(), String> {
    a_backup_after_a_disk_was_set_back(&design(seed))
}

/// Restores that a loss of power ends, as in `backup.rs`.
fn restore(seed: u64) -> Result<(), String> {
    a_restore_survives_a_loss_of_power(&design(seed), seed)
}

/// A secondary follows drawn operations under one setup, as in `secondary.rs`.
fn secondaries(seed: u64) -> Result<(), String> {
    let setups = Setup::all();
    followed(&setups[seed as usize % setups.len()], seed)
}

fn secondaries_beside_a_window(seed: u64) -> Result<(), String> {
    a_torn_window_is_read_again(&design(seed))
}

fn copies_beside_a_writer(seed: u64) -> Result<(), String> {
    copies_of_a_changing_store(&design(seed), 17)
}

fn checks_beside_a_writer(seed: u64) -> Result<(), String> {
    checks_of_a_changing_store(&design(seed), 3)
}

/// A store of a process that died is read, as in `read_only.rs`.
fn readers_of_a_killed_store(seed: u64) -> Result<(), String> {
    let setup = &design(seed);
    let disks = Disks::new(setup);
    let failed = |e: cleavedb::Error| e.to_string();
    let db = open_all(&disks.storages(), setup).map_err(failed)?;
    db.put("key", [1_u8; 300]).map_err(failed)?;
    let disks = disks.kill();
    let before = hash_of(&disks.images());
    let reader = open_read_only(&disks.storages(), setup).map_err(failed)?;
    if hash_of(&disks.images()) != before {
        return Err("an open for reading changed the disk".into());
    }
    if reader.get("key").map_err(failed)?.as_deref() != Some(&[1; 300][..]) {
        return Err("a write is lost".into());
    }
    match open_all(&disks.storages(), setup) {
        Ok(_) => Err("a writer was let in beside a reader".into()),
        Err(_) => Ok(()),
    }
}

/// The log that goes on behind a torn batch, as in `sessions.rs`.
fn torn_batch(seed: u64) -> Result<(), String> {
    a_torn_batch_stays_away(&Setup::tiny(Preset::ALL[seed as usize % Preset::ALL.len()], false))
}

/// Writes that are synced by their numbers, as in `at_once.rs`.
fn synced_numbers(seed: u64) -> Result<(), String> {
    what_is_synced_to_survives(&design(seed))
}

/// Stores that are filled up to their space limit, as in `space.rs`.
fn full_store(seed: u64) -> Result<(), String> {
    let setup = &design(seed);
    let (count, again) = filled_twice(setup)?;
    if again > count / 3 { Ok(()) } else { Err(format!("{setup}: {again} of {count} records")) }
}

/// A collection whose disk is full, as in `space.rs`.
fn full_disk(seed: u64) -> Result<(), String> {
    let preset = [Preset::WiscKey, Preset::HashKv, Preset::KtStore][seed as usize % 3];
    collected_on_a_full_disk(&Setup::tiny(preset, true), 16).map(|_| ())
}

/// A file that is to grow beyond a space limit. The engine plans so well that it never asks for it.
fn beyond_the_limit(_: u64) -> Result<(), String> {
    let budget = Arc::new(Budget::new(1000, 0));
    let storage = QuotaStorage::new(Arc::new(Sim::new()), budget).map_err(|e| e.to_string())?;
    let name = Name::numbered(FileKind::Table, FileNumber(1));
    let file = storage.open(&name, Mode::CreateNew, Access::Random).map_err(|e| e.to_string())?;
    match file.write_at(&[0; 1001], 0) {
        Err(e) if e.kind() == std::io::ErrorKind::QuotaExceeded => Ok(()),
        other => Err(format!("1001 bytes of 1000: {other:?}")),
    }
}

/// Crashes of a store that leaves its log unsynced at a flush.
fn crash_of_the_index_alone(seed: u64) -> Result<(), String> {
    let plan = Plan { images_max: 8, depth: 1, ..Plan::default() };
    crash_of(&Setup::tiny(Preset::Lsm, !seed.is_multiple_of(3)), plan, seed)
}

/// Crashes of a store whose index holds all but long values.
fn crash_of_long_values(seed: u64) -> Result<(), String> {
    let plan = Plan { images_max: 8, depth: 1, ..Plan::default() };
    let preset = [Preset::Lsm, Preset::Ohdb][seed as usize % 2];
    crash_of(&Setup::long_values(preset, !seed.is_multiple_of(3)), plan, seed)
}

/// Crashes of a store of groups.
fn crash_of_groups(seed: u64) -> Result<(), String> {
    let plan = Plan { images_max: 8, depth: 1, ..Plan::default() };
    crash_of(&Setup::tiny(Preset::HashKv, true), plan, seed)
}

/// Crashes of a store on two disks.
fn crash_of_two_disks(seed: u64) -> Result<(), String> {
    let plan = Plan { images_max: 8, deeper_one_in: 300, depth: 2, ..Plan::default() };
    let setups = Setup::two_disks();
    crash_of(&setups[seed as usize % setups.len()], plan, seed)
}

/// Crashes of a store of groups with a cold log.
fn crash_of_a_cold_log(seed: u64) -> Result<(), String> {
    let plan = Plan { images_max: 8, depth: 1, ..Plan::default() };
    crash_of(&Setup::tagged(true), plan, seed)
}

/// Crashes of stores whose log is mostly in no file. Few end a file at the place that matters: the
/// seeds begin where one did when this was written.
fn crash_of_the_window(seed: u64) -> Result<(), String> {
    let seed = (seed + 55) % SEEDS;
    let profile = Profile { synced: 3, ..Profile::crash() };
    let plan = Plan { images_max: 8, depth: 1, profile, ..Plan::default() };
    let preset = [Preset::HashKv, Preset::KtStore][seed as usize % 2];
    crash_of(&Setup::log_in_window(preset), plan, seed)
}

/// A range that is read after a flush has made its part of the log needless, and others have
/// written as much as the window holds.
fn range_of_an_old_log(seed: u64) -> Result<(), String> {
    let setup = Setup::log_in_window(Preset::KtStore);
    let db = open(Arc::new(Sim::new()), &setup).map_err(|e| e.to_string())?;
    let put = |i: u32, byte| db.put(format!("{i:02} of {seed}").as_bytes(), [byte; 1000]);
    // The window grows before, and is drained for that.
    (0..100).try_for_each(|i| put(i % 20, 1)).map_err(|e| e.to_string())?;
    let range = db.range(..);
    let again = (0..10).try_for_each(|_| (0..20).try_for_each(|i| put(i, 2)));
    again.and_then(|()| db.flush()).map_err(|e| e.to_string())?;
    let found = range.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    let whole = found.len() == 20 && found.iter().all(|item| item.value[..] == [1; 1000]);
    whole.then_some(()).ok_or_else(|| "a range lost what it saw".to_owned())
}

/// A range that is read while the group of its values is collected, and the space given back.
fn range_during_a_collection(seed: u64) -> Result<(), String> {
    let setup = Setup::tiny(Preset::HashKv, true);
    let db = open(Arc::new(Sim::new()), &setup).map_err(|e| e.to_string())?;
    let keys: Vec<String> = (0..20).map(|i| format!("{i:02} of {seed}")).collect();
    let put = |key: &String, byte| db.put(key.as_bytes(), [byte; 1000]);
    keys.iter().try_for_each(|key| put(key, 1)).map_err(|e| e.to_string())?;
    db.flush().map_err(|e| e.to_string())?;
    let range = db.range(..);
    put(&keys[0], 2).and_then(|()| db.collect()).map_err(|e| e.to_string())?;
    db.wait_idle().map_err(|e| e.to_string())?;
    let found = range.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    let whole = found.len() == keys.len() && found.iter().all(|item| item.value[..] == [1; 1000]);
    whole.then_some(()).ok_or_else(|| "a range lost what it saw".to_owned())
}

/// Crashes after which the store is opened with other options.
fn crash_with_other_options(seed: u64) -> Result<(), String> {
    let other = Setup::tiny(Preset::WiscKey, true);
    let mut setup = other.clone();
    setup.options.min_separated = Some(1000);
    let recover_with = vec![other];
    let plan = Plan { recover_with, depth: 1, thorough_one_in: 4, ..Plan::default() };
    crash_of(&setup, plan, seed)
}

/// Crashes of a store whose level 0 is in partitions, under one of the other presets.
fn crash_in_partitions(seed: u64) -> Result<(), String> {
    let plan = Plan { images_max: 8, deeper_one_in: 300, depth: 2, ..Plan::default() };
    crash_of(&Setup::partitioned()[seed as usize % 4], plan, seed)
}

/// A sequence of operations against the map, as in `model.rs`.
fn model(seed: u64) -> Result<(), String> {
    model_of(&Setup::all(), seed)
}

/// Stores with a hot store and options from a seed. Few of them collect what a snapshot sees while
/// a newer version of the key is in memory: the seeds begin where one did when this was written.
fn drawn_hot_stores(seed: u64) -> Result<(), String> {
    let seed = (seed + 45) % SEEDS;
    (12 * seed..12 * (seed + 1)).try_for_each(drawn_hot_stores_settle)
}

/// A part of the matrix of the hot store.
fn hot_matrix(seed: u64) -> Result<(), String> {
    matrix(seed as usize, SEEDS as usize)
}

fn loads_in_a_hot_store(_: u64) -> Result<(), String> {
    a_load_heats_nothing(300)
}

fn short_hot_values(_: u64) -> Result<(), String> {
    short_values_come_and_go()
}

fn reads_of_a_long_hot_store(_: u64) -> Result<(), String> {
    reads_go_on_to_promote()
}

fn any_damaged_hot_segment(_: u64) -> Result<(), String> {
    damaged_hot_segments()
}

fn hot_values_of_many_bytes(_: u64) -> Result<(), String> {
    long_hot_values()
}

/// The model with values in groups and level 0 in partitions that leave.
fn model_in_partitions(seed: u64) -> Result<(), String> {
    let [_, grouped @ ..] = Setup::partitioned();
    model_of(&grouped, seed)
}

/// The model with a cold log.
fn model_of_a_cold_log(seed: u64) -> Result<(), String> {
    model_of(&[true, false].map(Setup::tagged), seed)
}

/// The model with caches of records.
fn model_with_record_caches(seed: u64) -> Result<(), String> {
    model_of(&Setup::record_caches(), seed)
}

/// Databases that share the memory of their caches.
fn shared_caches(seed: u64) -> Result<(), String> {
    databases_share_caches(&design(seed))
}

/// The model of one design and of operations of `profile`.
fn model_of_profile(profile: Profile, seed: u64) -> Result<(), String> {
    let setup = &design(seed);
    model_of_ops(std::slice::from_ref(setup), &Generator::new(seed, profile).take(150))
}

/// The model where writes delete ranges.
fn model_with_ranges(seed: u64) -> Result<(), String> {
    model_of_profile(Profile { ranges: 25, ..Profile::model() }, seed)
}

/// The model where values expire.
fn model_with_ttls(seed: u64) -> Result<(), String> {
    model_of_profile(Profile { ttls: 50, ..Profile::model() }, seed)
}

/// The model where merges change values.
fn model_with_merges(seed: u64) -> Result<(), String> {
    model_of_profile(Profile { merges: 60, ..Profile::model() }, seed)
}

/// The model with a filter that replaces each value by itself.
fn model_with_filter(seed: u64) -> Result<(), String> {
    let mut setup = design(seed);
    let same = |value: &FilteredValue<'_>| Ok(FilterDecision::Replace(value.value()?.to_vec()));
    setup.options.filter = Some(Filter::new(same));
    model_of_ops(&[setup], &Generator::new(seed, Profile::model()).take(150))
}

/// Queues beside writes in front of them, as in `fronts.rs`.
fn first_keys(seed: u64) -> Result<(), String> {
    ends_are_found(&design(seed), seed)
}

fn compressed_keyspaces(seed: u64) -> Result<(), String> {
    let setups = compressed::setups();
    compressed::dictionaries_stay(&setups[seed as usize % setups.len()], seed)
}

/// Puts from readers among other operations, with jobs.
fn model_with_blobs(seed: u64) -> Result<(), String> {
    let setup = design(seed).with_blobs();
    let profile = Profile { ttls: 10, batches: 5, ..Profile::model() };
    model_of_ops(&[setup], &Generator::new(seed, profile).take(150))
}

fn changes_of_dropped_keyspaces(seed: u64) -> Result<(), String> {
    let setups = compressed::setups();
    compressed::changes_outlive_their_keyspace(&setups[seed as usize % setups.len()], seed)
}

fn space_of_expired_values(seed: u64) -> Result<(), String> {
    expiry::space_comes_back(&design(seed))
}

/// Crashes where writes delete ranges.
fn crash_with_ranges(seed: u64) -> Result<(), String> {
    let profile = Profile { ranges: 25, ..Profile::crash() };
    let plan = Plan { seed, images_max: 8, depth: 1, profile, ..Plan::default() };
    crash_of(&Setup::tiny(Preset::ALL[seed as usize % Preset::ALL.len()], true), plan, seed)
}

fn keyspaces(seed: u64) -> Result<(), String> {
    Keyspaces::new(&design(seed), seed)?.run(120, true)
}

/// Bulk loads among other operations, as in `bulk_load.rs`.
fn model_with_loads(seed: u64) -> Result<(), String> {
    let setup = &design(seed);
    loads::among_operations(setup, seed)?;
    loads::beside_writes(setup, seed)
}

/// Bulk loads into a store with hot keys, which few of the designs have.
fn loads_over_hot_keys(seed: u64) -> Result<(), String> {
    loads::among_operations(&Setup::hot(true), seed)
}

/// Bulk loads whose files are synced late.
fn loads_wait_for_files(seed: u64) -> Result<(), String> {
    loads::waits_for_files(&design(seed))
}

/// Crashes of bulk loads.
fn crash_with_loads(seed: u64) -> Result<(), String> {
    let profile = Profile { loads: 25, ..Profile::crash() };
    let plan = Plan { seed, images_max: 8, depth: 1, profile, ..Plan::default() };
    crash_of(&Setup::tiny(Preset::ALL[seed as usize % Preset::ALL.len()], true), plan, seed)
}

/// Everything at once, from a seed on in which an operand takes up a value above an older one.
fn features_meet(seed: u64) -> Result<(), String> {
    together::all_at_once(&Setup::tiny(Preset::HashKv, false), 2409 + seed, 120)
}

/// Everything at once, from a seed on in which a compaction drops an expired value that a
/// collection has repeated.
fn expiries_meet(seed: u64) -> Result<(), String> {
    together::all_at_once(&Setup::long_values(Preset::Ohdb, false), 9250 + seed, 120)
}

/// The model where slices of partitions merge before.
fn model_in_crowded_partitions(seed: u64) -> Result<(), String> {
    let [_, _, grouped @ ..] = Setup::crowded_partitions();
    model_of(&grouped, seed)
}

fn model_of(setups: &[Setup], seed: u64) -> Result<(), String> {
    model_of_ops(setups, &Generator::new(seed, Profile::model()).take(150))
}

fn model_of_ops(setups: &[Setup], ops: &[Op]) -> Result<(), String> {
    for setup in setups {
        let mut session = Session::on(Disks::forgetful(setup), setup, State::default())?;
        ops.iter().try_for_each(|op| session.run(op))?;
        session.compare_all()?;
        session.verify()?;
        session.leave(true)?;
    }
    Ok(())
}

/// A sync of the log fails once, then the power, as in `fault.rs`.
fn failed_sync(seed: u64) -> Result<(), String> {
    let setup = Setup::tiny(Preset::ALL[seed as usize % Preset::ALL.len()], true);
    let sim = Sim::new();
    let faulty = Arc::new(Faulty::over(&sim));
    let db = open(faulty.clone(), &setup).map_err(|e| e.to_string())?;
    faulty.fail_next(Rule::both(Call::Sync, FileKind::Log), Fault::Io);
    let acknowledged = db.put_with(b"key", [7; 3000], Durability::Sync).is_ok();
    let mut replay = sim.replay(SECTOR);
    replay.advance(replay.last_point());
    let options = PowerLoss { directory: DirectoryOrder::Subset, states_max: 64, seed };
    for image in replay.power_loss(&options) {
        let db = open(Arc::new(Sim::from_image(image)), &setup).map_err(|e| e.to_string())?;
        let found = db.get(b"key").map_err(|e| e.to_string())?;
        if acknowledged && found.is_none() {
            return Err("an acknowledged write is lost".into());
        }
    }
    Ok(())
}

/// Stores on disks without a free byte, as in `full_disk.rs`.
fn no_free_byte(seed: u64) -> Result<(), String> {
    freed_without_a_free_byte(&design(seed / 2), seed.is_multiple_of(2), false)
}

/// Stores that are closed when a write was refused, as in `full_disk.rs`.
fn full_when_closed(seed: u64) -> Result<(), String> {
    let mut setup = Setup::tiny(Preset::WiscKey, true);
    setup.options.tuning.memtable_log_bytes = setup.options.tuning.log_file_bytes;
    closed_when_full(&setup, (700 << 10) + seed * (3 << 10))
}

/// Ranges that are collected, as in `range_collection.rs`.
fn collected_ranges(seed: u64) -> Result<(), String> {
    nothing_is_left(&design(seed), seed);
    Ok(())
}

/// Deletes among living values, as in `range_collection.rs`.
fn collected_deletes(seed: u64) -> Result<(), String> {
    deletes_leave_too(&design(seed), seed);
    Ok(())
}

/// Collections of values beside that of a range, as in `range_collection.rs`.
fn collections_beside(seed: u64) -> Result<(), String> {
    a_collection_beside(&design(seed), End::After, seed);
    Ok(())
}

/// A reader that is older than a delete, as in `range_collection.rs`.
fn old_readers(_: u64) -> Result<(), String> {
    let db = open(Arc::new(Sim::new()), &Setup::every_design()[0]).map_err(|e| e.to_string())?;
    let _snapshot = db.snapshot();
    db.put("key", "value").map_err(|e| e.to_string())?;
    an_old_reader_is_named(&db, "1 snapshots");
    Ok(())
}

/// Readers of changes, as in `changes.rs`.
fn changes(seed: u64) -> Result<(), String> {
    changes_are_the_content(&design(seed), seed)
}

fn changes_after_crashes(seed: u64) -> Result<(), String> {
    changes_survive_crashes(&design(seed), seed)
}

fn changes_behind_a_hole(seed: u64) -> Result<(), String> {
    kept_from_some_day_on([Preset::HashKv, Preset::KtStore][seed as usize % 2])
}

/// Changes that a secondary tells, as in `changes_followed.rs`.
fn changes_beside_a_window(seed: u64) -> Result<(), String> {
    a_torn_window_hides_no_change(&design(seed))
}

fn changes_of_a_lost_session(seed: u64) -> Result<(), String> {
    a_loss_is_told(&Setup::tiny(Preset::KtStore, true), seed as usize).map(drop)
}

fn deleted_changes(seed: u64) -> Result<(), String> {
    changes_hold_what_was_deleted(&design(seed), seed)
}

/// What is worth a collection of a short file.
fn gains(_: u64) -> Result<(), String> {
    match (CostBenefit { reclaimed: 1, rewritten: 98 }).is_worth_it() {
        true => Err("a byte of a short file is".to_owned()),
        false => Ok(()),
    }
}

caught! {
    a_run_above_the_next_flush: RunAboveNextFlush by model;
    a_run_without_tombstones: RunWithoutTombstones by model;
    a_run_without_repeats: RunWithoutRepeats by model;
    a_run_that_owns_what_it_repeats: RunOwnsRepeats by model;
    a_tombstone_dropped_early: TombstoneDroppedEarly by model;
    a_bucket_that_forgets_its_older_runs: BucketForgetsOlderRuns by model;
    a_bucket_over_groups_that_forgets: BucketForgetsOlderRuns by model_in_crowded_partitions;
    a_tombstone_that_a_bucket_drops: TombstoneDroppedEarly by model_in_partitions;
    a_file_that_goes_before_the_edit_in_partitions: UnlinkBeforeEdit by crash_in_partitions;
    the_newest_memtable_first: NewestMemTableFirst by crash;
    a_replay_head_too_far: HeadTooFar by crash;
    a_replay_head_behind_padding: HeadBehindPadding by crash;
    a_long_value_that_is_not_synced: LongValueUnsynced by crash_of_long_values;
    a_long_value_behind_what_is_not_synced: LongBehindUnsynced by crash_of_long_values;
    a_log_behind_a_long_value_that_is_not_synced: LogBehindLongUnsynced by crash_of_long_values;
    level_0_by_sequence_number: Level0BySeq by model;
    a_collection_without_a_sync_of_the_log: CollectionWithoutLogSync by crash_while_collecting;
    a_collection_without_snapshots: CollectionWithoutSnapshots by model;
    a_window_tail_that_is_forgotten: WindowTailForgotten by crash;
    a_window_looked_for_behind_a_short_file: WindowBehindTheFile by crash_of_the_window;
    a_log_passed_by_under_its_readers: NeedlessUnderReaders by range_of_an_old_log;
    lost_edits_that_nobody_notices: FollowersIgnored by lost_edits;
    a_log_that_goes_on_without_an_edit: ResumedWithoutEdit by crash_over_sessions;
    a_close_before_the_sync: ClosedBeforeSync by crash_over_sessions;
    a_window_that_grows_undrained: GrowsUndrained by growing_window;
    a_copy_that_is_not_noticed: CopyUnnoticed by copy_beside_its_original;
    a_replay_past_a_gap: ReplayPastGap by crash;
    a_number_told_without_a_sync: ToldWithoutSync by synced_numbers;
    half_a_batch: HalfBatch by crash;
    a_torn_batch_that_takes_a_mark: TornBatchTakesMark by crash_of_batches;
    a_log_that_goes_on_behind_a_torn_batch: ResumedBehindTorn by torn_batch;
    a_torn_batch_that_passes_for_a_write: TornTakenForLost by torn_batch;
    a_torn_record_that_is_replayed: TornRecordReplayed by crash;
    a_mark_that_is_ignored: MarkIgnored by crash;
    padding_that_is_claimed: PaddingClaimed by crash;
    options_that_decide_a_replay: OptionsDecideReplay by crash_with_other_options;
    sequence_numbers_that_restart: SeqRestarts by model;
    a_checksum_without_place: ChecksumWithoutPlace by damage;
    a_checksum_without_key: ChecksumWithoutKey by damage;
    a_corrupt_value_that_is_absent: CorruptIsAbsent by damage;
    no_sync_of_the_directory: NoDirectorySync by crash;
    a_volume_that_is_not_synced: VolumeNotSynced by crash_of_two_disks;
    a_volume_that_is_stamped_late: VolumeStampedLate by crash_of_two_disks;
    a_file_that_goes_before_the_edit: UnlinkBeforeEdit by crash;
    a_sync_that_forgets_the_head: ForgetsTheHead by crash_of_the_index_alone;
    values_left_in_an_unsynced_log: PointsIntoTheLog by crash_of_groups;
    a_stub_that_is_forgotten: StubForgotten by model;
    a_group_filter_that_forgets: GroupFilterForgets by model;
    a_split_into_the_wrong_half: SplitIntoWrongHalf by model;
    a_range_divided_with_its_records: DividedWithRecords by model;
    a_first_key_taken_for_the_last: FirstKeyAsLast by model;
    a_stub_that_is_dropped_early: StubDroppedEarly by model;
    an_extent_given_back_under_its_readers: PunchUnderReaders by range_during_a_collection;
    a_group_collected_ahead_of_the_log: CollectionWithoutLogSync by crash_of_groups;
    a_tag_above_an_older_record: TagAboveOlder by model_of_a_cold_log;
    a_tag_that_no_filter_knows: TagNotInFilter by model;
    a_cold_log_that_counts_nothing: ColdNotBorn by model;
    a_cold_log_that_is_not_synced: SegmentNotSynced by crash_of_a_cold_log;
    an_extent_given_back_before_the_edit: PunchBeforeEdit by crash_of_groups;
    a_failed_job_that_leaves_its_files: FailedJobLeavesFiles by full_disk;
    a_commit_that_does_not_notice_a_changed_key: ConflictOverlooked by transactions;
    a_commit_that_does_not_notice_a_new_key: PhantomOverlooked by transactions;
    a_commit_that_does_not_notice_a_deleted_range: RangeDeleteOverlooked by transactions;
    a_range_tombstone_that_reads_pass_over: RangeDeleteUnread by model_with_ranges;
    a_range_tombstone_applied_before_it_is_durable: RangeDeleteNotDurable by crash_with_ranges;
    a_range_tombstone_that_is_forgotten_early: TombstoneForgottenEarly by model_with_ranges;
    a_record_that_outlives_its_range_tombstone: ForgottenRecordRevived by model_with_ranges;
    a_load_under_memtables: LoadUnderMemTables by model_with_loads;
    a_load_numbered_too_early: LoadNumberedEarly by model_with_loads;
    a_load_that_leaves_keys_hot: LoadLeavesHot by loads_over_hot_keys;
    a_load_without_group_tombstones: LoadWithoutStubs by model_with_loads;
    groups_divided_under_a_load: DividedUnderLoad by model_with_loads;
    a_load_without_names: LoadUnsynced by crash_with_loads;
    a_load_that_does_not_wait_for_its_files: LoadNotAwaited by loads_wait_for_files;
    a_search_that_begins_behind_a_write: FrontOverlooksWrites by first_keys;
    an_expired_value_that_is_read: ExpiredIsRead by model_with_ttls;
    an_expired_value_that_hides_nothing: ExpiredHidesNothing by model_with_ttls;
    a_filtered_value_whose_entry_stays: FilteredEntryForgotten by model_with_filter;
    a_dictionary_that_is_not_stored: DictionaryNotStored by compressed_keyspaces;
    a_dictionary_with_the_number_of_another: DictionaryNumberReused by compressed_keyspaces;
    a_dictionary_that_outlives_its_keyspace: DictionaryKeptByDrop by compressed_keyspaces;
    a_blob_that_no_edit_names: BlobNotNamed by model_with_blobs;
    a_blob_taken_for_a_value_of_the_log: BlobTakenForValue by model_with_blobs;
    a_blob_that_is_dropped_before_its_flush: BlobReleasedEarly by model_with_blobs;
    a_blob_without_a_group_tombstone: LoneWithoutStub by model_with_blobs;
    a_dictionary_that_changes_lack: ToldDictionaryDropped by changes_of_dropped_keyspaces;
    an_operand_that_hides_older_versions: OperandHidesOlder by model_with_merges;
    a_repeated_operand_that_is_combined: RepeatCombined by model_with_merges;
    operands_combined_across_a_snapshot: OperandsCombinedAcross by model_with_merges;
    an_operand_that_a_hash_group_does_not_know: StubOfMergeForgotten by model_with_merges;
    a_value_taken_up_that_counts_as_deleted: TakenUpIsGone by features_meet;
    a_left_over_of_an_expired_value_taken_for_damage: LeftOverIsDamage by expiries_meet;
    an_expired_value_dropped_under_a_snapshot: ExpiredUnderSnapshot by model_with_ttls;
    a_record_of_an_expired_value_that_is_revived: ExpiredRecordRevived by space_of_expired_values;
    a_keyspace_with_the_id_of_a_dropped_one: KeyspaceIdReused by keyspaces;
    a_checkpoint_without_what_only_the_window_has: CheckpointWithoutDrain by checkpoint;
    a_backup_that_trusts_names: BackupTrustsNames by backup_of_the_past;
    a_copy_without_a_sync: CopyUnsynced by restore;
    a_close_that_forgets_a_log_file: CloseForgetsALog by full_when_closed;
    a_reserve_that_is_not_refilled: ReserveNotRefilled by no_free_byte;
    a_stub_that_forgets_what_is_left: StubForgetsTheRest by no_free_byte;
    a_limit_that_is_ignored: LimitIgnored by beyond_the_limit;
    a_limit_up_to_which_writers_go: NothingKeptForJobs by full_store;
    an_acknowledgement_before_the_sync: AckBeforeSync by crash;
    a_sync_that_is_retried: SyncRetried by failed_sync;
    a_byte_that_is_worth_a_collection: ByteIsWorthIt by gains;
    a_damaged_block_that_is_tried_again: DamagedBlockTriedAgain by damaged_blocks_stop_nothing;
    packing_without_gain: PacksWithoutGain by short_compressed_tables_settle;
    tombstones_that_stay: TombstonesStay by a_queue_is_popped;
    damage_that_fills_level_0: DamageFillsLevel0 by damage_fills_no_level0;
    a_failure_that_ends_the_look: FailureEndsTheLook by collections_go_on_without_compactions;
    a_hot_key_that_the_index_does_not_know: HotWithoutMarker by hot_matrix;
    a_hot_version_dropped_under_a_snapshot: HotNotPinned by hot_matrix;
    a_hot_stub_that_is_forgotten: HotStubForgotten by hot_matrix;
    a_promotion_over_a_newer_version: PromoteOverNewer by promotions_follow_reads;
    a_load_that_heats: LoadHeats by loads_in_a_hot_store;
    a_store_that_is_frozen: PromotionsFrozen by reads_of_a_long_hot_store;
    a_short_value_that_is_lost_with_its_heat: ShortDemotedEmpty by short_hot_values;
    a_marker_below_what_a_collection_writes: MarkerBelowCollected by drawn_hot_stores;
    an_overwritten_value_that_stays_hot: OverwrittenStaysHot by hot_matrix;
    an_older_hot_value_that_is_back: OlderHotRevived by hot_matrix;
    an_older_hot_value_behind_damage: OlderThanDamagedTrusted by any_damaged_hot_segment;
    a_lost_hot_key_without_a_stub: LostHotWithoutStub by any_damaged_hot_segment;
    a_hot_record_of_the_next_segment: RecordOfNextSegment by hot_values_of_many_bytes;
    damaged_garbage_that_counts: GarbageOfNobodyCounts by damaged_values_stop_no_writer;
    a_cached_record_of_any_version: CachedWithoutSeq by model_with_record_caches;
    a_cached_record_of_another_database: CachedWithoutDatabase by shared_caches;
    a_window_that_keeps_what_was_deleted: WindowKept by collected_ranges;
    a_manifest_that_keeps_what_was_deleted: OldEditsKept by collected_ranges;
    dead_marks_that_are_overlooked: DeadMarksOverlooked by collected_deletes;
    dirty_tables_that_stay: DirtyTablesKept by collected_ranges;
    a_reader_of_what_was_deleted: OldReadersOverlooked by old_readers;
    a_collection_beside_that_of_a_range: CollectionOverlooked by collections_beside;
    data_that_goes_before_its_manifest: DataBeforeManifest by destroyed_stores;
    a_copy_without_numbers_of_its_own: MigrationNumbersUnreserved by drawn_migrations_survive;
    a_copy_of_an_older_state: MigrationOfAnotherState by drawn_migrations_survive;
    changes_that_are_dropped: ChangesRemoved by changes;
    changes_without_a_load: LoadNotTold by changes;
    changes_lost_where_their_operations_are_not: ChangesUnsynced by changes_after_crashes;
    changes_told_before_they_are_durable: ChangesAhead by changes_after_crashes;
    changes_read_from_a_hole: ChangesBehindHole by changes_behind_a_hole;
    changes_that_keep_what_was_deleted: ChangesCollected by deleted_changes;
    a_secondary_that_believes_changes_to_end: ShortChangesBelieved by changes_beside_a_window;
    a_secondary_that_tells_on_after_a_loss: ChangesOfLostSession by changes_of_a_lost_session;
    a_reader_without_a_lock: ReaderTakesNoLock by readers_of_a_killed_store;
    a_reader_that_removes_files: ReaderRemovesBelow by readers_of_a_killed_store;
    a_secondary_that_points_into_the_window: WindowPointedTo by secondaries;
    a_secondary_that_believes_a_short_tail: ShortTailBelieved by secondaries_beside_a_window;
    a_secondary_that_keeps_a_flushed_tail: FlushedTailKept by secondaries;
    a_secondary_that_takes_what_is_removed_for_damage: RemovedTakenForDamage by secondaries;
    a_copy_of_what_was_dropped: RemovedFilesCopied by copies_beside_a_writer;
    a_check_that_is_not_made_again: CheckedOnce by checks_beside_a_writer;
}
