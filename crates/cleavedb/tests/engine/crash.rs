//! After a crash at any recorded operation, in any legal state of the disk, the oracle holds.
//!
//! Each test is a shard: a preset, a kind of log window, workloads from consecutive seeds, until it
//! has seen its number of distinct states.

use cleavedb::tuning::Level0;
use cleavedb::{Durability, FileClass, Filter, FilterDecision, FilteredValue, Preset};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Rng;
use cleavedb_testkit::budget::{first_seed, of};
use cleavedb_testkit::hot::churned;
use cleavedb_testkit::records::{key, value};
use cleavedb_testkit::session::a_part_leaves_level0;
use cleavedb_testkit::{
    Explorer, Generator, Op, Plan, Profile, Recording, Session, Setup, State, Write,
};

/// Distinct states that each of the large shards visits, others a part of it.
fn states() -> u64 {
    of(1_000, 10_000, 300_000)
}

/// Operations of one workload.
const OPS: usize = 40;

/// Visits workloads until a `part` of the states was seen.
pub(crate) fn visit(setup: &Setup, plan: Plan, part: u64) {
    let start = std::time::Instant::now();
    // Small shards exist for what is special in their workloads or setups, which differs more from
    // one workload to the next than from point to point.
    let few = if part > 4 { Some(of(8, 20, 40)) } else { of(Some(40), Some(120), None) };
    let (points, profile) = (plan.points.or(few), plan.profile.clone());
    let mut seed = first_seed();
    let mut explorer = Explorer::new(Plan { seed, points, ..plan });
    while explorer.totals.distinct() < states() / part {
        explorer.reseed(seed);
        let ops = Generator::new(seed, profile.clone()).take(OPS);
        let outcome = Recording::first(setup, &ops).and_then(|r| explorer.explore(&r));
        outcome.unwrap_or_else(|failure| panic!("{setup}, seed {seed}: {failure}"));
        seed += 1;
    }
    println!("{setup}: up to seed {seed}, {:?}, {:?}", explorer.totals, start.elapsed());
}

/// How many groups split and how many merge in a workload.
fn regroups(setup: &Setup, ops: &[Op]) -> [u64; 2] {
    let mut session = Session::on(&Sim::new(), setup, State::default()).unwrap();
    ops.iter().for_each(|op| session.run(op).unwrap());
    let metrics = session.db().metrics();
    [metrics.splits, metrics.merges]
}

#[test]
fn lsm_survives_every_crash() {
    let setup = Setup::tiny(Preset::Lsm, true);
    visit(&setup, Plan::default(), 1);
}

#[test]
fn lsm_without_a_lasting_window_survives_every_crash() {
    let setup = Setup::tiny(Preset::Lsm, false);
    visit(&setup, Plan::default(), 1);
}

#[test]
fn ohdb_survives_every_crash() {
    let setup = Setup::tiny(Preset::Ohdb, true);
    visit(&setup, Plan::default(), 1);
}

#[test]
fn ohdb_without_a_lasting_window_survives_every_crash() {
    let setup = Setup::tiny(Preset::Ohdb, false);
    visit(&setup, Plan::default(), 1);
}

/// What a session leaves is what the next one goes on with, crash after crash.
#[test]
fn short_sessions_of_batches_survive_every_crash() {
    let profile = Profile::sessions();
    let plan = Plan { profile, deeper_one_in: 60, deeper_points: 10, ..Plan::default() };
    for preset in Preset::ALL {
        for window in [true, false] {
            visit(&Setup::tiny(preset, window), plan.clone(), 48);
        }
    }
}

#[test]
fn deleted_ranges_survive_every_crash() {
    let profile = Profile { ranges: 25, ..Profile::crash() };
    let plan = Plan { profile, ..Plan::default() };
    for setup in &Setup::designs() {
        visit(setup, plan.clone(), 48);
    }
}

#[test]
fn expired_values_stay_away_after_every_crash() {
    let profile = Profile { ttls: 50, ..Profile::crash() };
    let plan = Plan { profile, ..Plan::default() };
    for setup in &Setup::designs() {
        visit(setup, plan.clone(), 48);
    }
}

#[test]
fn merges_survive_every_crash() {
    let profile = Profile { merges: 60, ..Profile::crash() };
    let plan = Plan { profile, ..Plan::default() };
    for setup in &Setup::designs() {
        visit(setup, plan.clone(), 48);
    }
}

#[test]
fn blobs_survive_every_crash() {
    let value_lens = vec![100, 300, 1500, 20_000, 70_000];
    let profile = Profile { ranges: 5, ttls: 10, batches: 5, value_lens, ..Profile::crash() };
    let plan = Plan { profile, ..Plan::default() };
    for setup in Setup::designs().into_iter().map(Setup::with_blobs) {
        visit(&setup, plan.clone(), 96);
    }
}

#[test]
fn values_that_a_filter_replaces_survive_every_crash() {
    let same = |value: &FilteredValue<'_>| Ok(FilterDecision::Replace(value.value()?.to_vec()));
    for mut setup in Setup::designs() {
        setup.options.filter = Some(Filter::new(same));
        visit(&setup, Plan::default(), 96);
    }
}

#[test]
fn bulk_loads_survive_every_crash() {
    let profile = Profile { ranges: 5, loads: 25, ..Profile::crash() };
    let plan = Plan { profile, ..Plan::default() };
    for setup in &Setup::designs() {
        visit(setup, plan.clone(), 96);
    }
}

#[test]
fn long_values_beside_an_index_survive_every_crash() {
    for (preset, window) in [(Preset::Lsm, true), (Preset::Lsm, false), (Preset::Ohdb, true)] {
        visit(&Setup::long_values(preset, window), Plan::default(), 24);
    }
}

/// Level 0 falls into buckets under the other presets, too; with it the run of a collection is cut.
/// A sixteenth of the states for each: what is not level 0 is that of the large shards.
#[test]
fn partitions_under_every_preset_survive_every_crash() {
    for setup in Setup::partitioned() {
        parts_leave(&setup);
        visit(&setup, Plan::default(), 16);
    }
}

/// Level 0 may be kept in another way at each open (decision 0012): what one way wrote, and a crash
/// left, the next one reads and goes on with, and the first one after it.
#[test]
fn level_0_kept_in_another_way_after_each_crash() {
    let kinds = [Level0::Whole, Level0::Partitions(3)];
    for base in [Setup::tiny(Preset::Ohdb, true), Setup::tiny(Preset::WiscKey, false)] {
        for order in [[0, 1], [1, 0]] {
            let kept = order.map(|kind| base.clone().with_small_level0(kinds[kind]));
            let parted =
                |s: &&Setup| matches!(s.options.tuning.level0, Some(Level0::Partitions(_)));
            kept.iter().filter(parted).for_each(parts_leave);
            let [setup, second] = kept;
            let recover_with = vec![second, setup.clone()];
            // Some points of many workloads: how level 0 stands differs from one to the next.
            let points = Some(40);
            let plan = Plan { recover_with, points, deeper_ops: 12, ..Plan::default() };
            visit(&setup, plan, 64);
        }
    }
}

/// Without parts of level 0 that leave it, a test of how it is kept would test little.
fn parts_leave(setup: &Setup) {
    let leaves = |seed: &u64| {
        let ops = Generator::new(*seed, Profile::crash()).take(OPS);
        a_part_leaves_level0(setup, &ops).unwrap()
    };
    assert!(
        (0..16).any(|seed| leaves(&seed)),
        "{setup}: level 0 is left as a whole, or not at all"
    );
}

#[test]
fn wisckey_survives_every_crash() {
    let setup = Setup::tiny(Preset::WiscKey, true);
    visit(&setup, Plan::default(), 1);
}

#[test]
fn wisckey_without_a_lasting_window_survives_every_crash() {
    let setup = Setup::tiny(Preset::WiscKey, false);
    visit(&setup, Plan::default(), 1);
}

#[test]
fn hashkv_survives_every_crash() {
    let setup = Setup::tiny(Preset::HashKv, true);
    visit(&setup, Plan::default(), 1);
}

#[test]
fn hashkv_without_a_lasting_window_survives_every_crash() {
    let setup = Setup::tiny(Preset::HashKv, false);
    visit(&setup, Plan::default(), 1);
}

#[test]
fn hashkv_with_tagging_survives_every_crash() {
    let setup = Setup::tagged(true);
    visit(&setup, Plan::default(), 8);
}

#[test]
fn hashkv_with_tagging_without_a_lasting_window_survives_every_crash() {
    let setup = Setup::tagged(false);
    visit(&setup, Plan::default(), 16);
}

/// A hot store that is evacuated all the time, and one that follows its room.
#[test]
fn hot_stores_survive_every_crash() {
    for setup in [Setup::hot(true), Setup::hot(false), Setup::tiny(Preset::HoaKv, true)] {
        visit(&setup, Plan::default(), 5);
    }
}

/// A collection that a caller asks for frees the hot store in several flushes.
#[test]
fn a_collection_of_the_hot_store_survives_every_crash() {
    for setup in [Setup::hot(false), Setup::crowded_hot_store()] {
        let points = of(Some(100), None, None);
        let mut explorer = Explorer::new(Plan { points, ..Plan::default() });
        let mut ops = churned(&mut Rng::new(1), false);
        ops.push(Op::Collect);
        let explored = Recording::first(&setup, &ops).and_then(|r| explorer.explore(&r));
        explored.unwrap_or_else(|failure| panic!("{setup}: {failure}"));
        println!("{setup}: {:?}", explorer.totals);
        assert!(explorer.totals.distinct() > of(200, 1000, 1000), "{setup}: {:?}", explorer.totals);
    }
}

#[test]
fn ktstore_survives_every_crash() {
    let setup = Setup::tiny(Preset::KtStore, true);
    visit(&setup, Plan::default(), 1);
}

#[test]
fn ktstore_without_a_lasting_window_survives_every_crash() {
    let setup = Setup::tiny(Preset::KtStore, false);
    visit(&setup, Plan::default(), 1);
}

/// Most of the log is in no file when the store dies: flushes have made it needless before.
#[test]
fn logs_in_their_windows_survive_every_crash() {
    for preset in [Preset::HashKv, Preset::KtStore] {
        let setup = Setup::log_in_window(preset);
        let profile = Profile { synced: 3, ..Profile::crash() };
        let plan = Plan { profile: profile.clone(), ..Plan::default() };
        visit(&setup, plan, 4);
    }
}

/// Collections of groups come by themselves, while newer versions are in memory; groups split.
#[test]
fn groups_that_are_collected_again_and_again_survive_every_crash() {
    collect_and_split(Setup::tiny(Preset::HashKv, true));
}

/// Ranges split as they fill, and become one again once most of their keys are deleted.
#[test]
fn ranges_that_split_and_merge_survive_every_crash() {
    let mut setup = Setup::tiny(Preset::KtStore, true);
    (setup.options.tuning.groups.main_segment_bytes, setup.options.tuning.groups.capacity_bytes) =
        (4 << 10, 4 << 10);
    let write = |write| Op::Write(vec![write], Durability::Sync);
    let put = |i| write(Write::put(&key(i), value(i, 1)));
    let delete = |i| write(Write::delete(&key(i)));
    let regroup = || [Op::Flush, Op::Collect, Op::Step(8)];
    // A flush cuts what it adds behind all others; what comes in between fills a range.
    let (even, odd) = ((0..12).step_by(3), (0..12).filter(|i| i % 3 > 0));
    let fill = even.map(put).chain(regroup()).chain(odd.map(put)).chain(regroup());
    let ops: Vec<Op> = fill.chain((0..10).map(delete)).chain(regroup()).collect();
    let [splits, merges] = regroups(&setup, &ops);
    assert!(splits > 0 && merges > 0, "{splits} splits, {merges} merges");
    let recording = Recording::first(&setup, &ops).unwrap();
    Explorer::new(Plan::default()).explore(&recording).unwrap();
}

/// Collections and splits with ranges of keys.
#[test]
fn ranges_that_are_collected_again_and_again_survive_every_crash() {
    collect_and_split(Setup::tiny(Preset::KtStore, true));
}

/// Collections and splits with a cold log: tags go to the parts of a group, and the cold log is
/// collected.
#[test]
fn tags_that_are_collected_again_and_again_survive_every_crash() {
    collect_and_split(Setup::tagged(true));
}

fn collect_and_split(mut setup: Setup) {
    (setup.options.space_amplification, setup.options.tuning.space_floor) = (1.05, 16 << 10);
    (setup.options.tuning.groups.main_segment_bytes, setup.options.tuning.groups.capacity_bytes) =
        (4 << 10, 4 << 10);
    let workload = |seed| Generator::new(seed, Profile::crash()).take(OPS);
    let counts = [0, 1, 2, 3].map(|seed| regroups(&setup, &workload(seed)));
    assert!(counts.iter().any(|[splits, _]| *splits > 0), "the first workloads split no group");
    visit(&setup, Plan::default(), 4);
}

/// Two disks lose different amounts.
#[test]
fn two_disks_survive_every_crash() {
    for setup in Setup::two_disks() {
        visit(&setup, Plan::default(), 8);
    }
}

/// A placement is of new files only: the next open may have another one.
#[test]
fn two_disks_under_another_placement_survive_every_crash() {
    let setup = Setup::tiny(Preset::Ohdb, true).on_two_disks([FileClass::Levels]);
    let other = Setup::tiny(Preset::Ohdb, true).on_two_disks([FileClass::Log, FileClass::Level0]);
    let plan = Plan { recover_with: vec![other, setup.clone()], ..Plan::default() };
    visit(&setup, plan, 16);
}

/// Writes that only memory promised may go, but what stays is a prefix (invariant 10).
#[test]
fn buffered_writes_survive_as_a_prefix() {
    for (preset, window_survives) in [
        (Preset::Lsm, false),
        (Preset::WiscKey, true),
        (Preset::HashKv, true),
        (Preset::KtStore, false),
        (Preset::Ohdb, false),
    ] {
        let setup = Setup::tiny(preset, window_survives);
        let profile = Profile { buffered: 60, synced: 5, kills: false, ..Profile::crash() };
        let plan = Plan { profile, ..Plan::default() };
        visit(&setup, plan, 16);
    }
}

/// "Options changed between a crash and the replay: the record's kind decides".
#[test]
fn a_replay_under_other_options_obeys_the_records() {
    let setup = Setup::tiny(Preset::WiscKey, true);
    let mut other = setup.clone();
    other.options.min_separated = Some(1000);
    other.options.tuning.memtable_bytes = Some(256 << 10);
    other.options.tuning.log_file_bytes = 64 << 10;
    let plan = Plan { recover_with: vec![other], depth: 1, ..Plan::default() };
    visit(&setup, plan, 16);
}

/// As above where groups keep the values: a key moves between index and group with the options.
#[test]
fn groups_under_other_options_obey_the_records() {
    let presets = [Preset::HashKv, Preset::KtStore].map(|preset| Setup::tiny(preset, true));
    for setup in presets.into_iter().chain([Setup::tagged(true)]) {
        let mut other = setup.clone();
        other.options.min_separated = Some(1000);
        other.options.tuning.groups.main_segment_bytes = 64 << 10;
        let plan = Plan { recover_with: vec![other, setup.clone()], ..Plan::default() };
        visit(&setup, plan, 16);
    }
}

/// Keys so long that one edit of the manifest fills several sectors, and many tables.
#[test]
fn long_keys_make_long_edits() {
    let setup = Setup::tiny(Preset::WiscKey, true);
    let profile = Profile { odd_keys: true, keys: 4, ..Profile::crash() };
    let plan = Plan { profile, images_max: 24, ..Plan::default() };
    visit(&setup, plan, 16);
}
