//! What the enumerator must show, and what it must never show.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use cleavedb_base::FileNumber;
use cleavedb_base::limits::BLOCK;
use cleavedb_storage::api::write_all_at;
use cleavedb_storage::{
    Access, File, FileKind, Mode, Name, RemoveMode, Storage, WINDOW_HEADER_LEN, Window,
    WindowObserver,
};

use super::{DirectoryOrder, Image, PowerLoss, Replay, Rng, SECTOR, Sim};
use crate::log::WINDOW;

fn log(number: u64) -> Name {
    Name::numbered(FileKind::Log, FileNumber(number))
}

fn create(sim: &Sim, name: Name) -> Arc<dyn File> {
    sim.open(&name, Mode::CreateNew, Access::Random).unwrap()
}

/// An empty file with a durable name.
fn durable_file(sim: &Sim, name: Name) -> Arc<dyn File> {
    let file = create(sim, name);
    file.sync().unwrap();
    sim.sync_dir().unwrap();
    file
}

fn at_end(sim: &Sim, unit: usize) -> Replay {
    let mut replay = sim.replay(unit);
    replay.advance(replay.last_point());
    replay
}

fn images(sim: &Sim) -> Vec<Image> {
    at_end(sim, SECTOR).power_loss(&PowerLoss::default()).collect()
}

fn contents(sim: &Sim, name: &Name) -> HashSet<Option<Vec<u8>>> {
    images(sim).iter().map(|image| image.read(name)).collect()
}

#[test]
fn sectors_of_an_unsynced_append_survive_in_any_order() {
    let sim = Sim::new();
    let file = durable_file(&sim, log(1));
    write_all_at(&*file, &[1; 2 * SECTOR], 0).unwrap();
    let found = contents(&sim, &log(1));
    let parts = |a: u8, b: u8| Some([[a; SECTOR], [b; SECTOR]].concat());
    for legal in [Some(vec![]), parts(0, 0), parts(1, 0), parts(0, 1), parts(1, 1)] {
        assert!(found.contains(&legal));
    }
    let lengths: HashSet<usize> = found.iter().flatten().map(Vec::len).collect();
    assert_eq!(lengths, HashSet::from([0, 2 * SECTOR]), "the length was never anything else");
    let noise = found.iter().flatten().filter(|c| c.iter().any(|&b| b > 1)).count();
    assert_eq!(noise, 3, "noise in the first, the second or both sectors");
}

#[test]
fn a_long_append_also_ends_at_pages() {
    let sim = Sim::new();
    let file = durable_file(&sim, log(1));
    write_all_at(&*file, &vec![1; 2 * BLOCK + 100], 0).unwrap();
    let lengths: HashSet<u64> = images(&sim).iter().map(|image| image.list()[0].1).collect();
    let [page, end] = [BLOCK as u64, 2 * BLOCK as u64 + 100];
    assert_eq!(lengths, HashSet::from([0, page, 2 * page, end]));
}

#[test]
fn gaps_show_zeros_noise_and_stale_data() {
    let sim = Sim::new();
    let file = durable_file(&sim, log(1));
    write_all_at(&*file, &[7; SECTOR], 0).unwrap();
    file.sync().unwrap();
    write_all_at(&*file, &[1; SECTOR], SECTOR as u64).unwrap();
    let tails: HashSet<Vec<u8>> = images(&sim)
        .iter()
        .map(|image| image.read(&log(1)).unwrap())
        .inspect(|bytes| assert_eq!(bytes[..SECTOR], [7; SECTOR], "synced data is kept"))
        .map(|bytes| bytes[SECTOR..].to_vec())
        .collect();
    for tail in [vec![], vec![0; SECTOR], vec![1; SECTOR], vec![7; SECTOR]] {
        assert!(tails.contains(&tail));
    }
    assert_eq!(tails.len(), 5, "and noise");
}

#[test]
fn every_version_of_a_rewritten_sector_appears() {
    let sim = Sim::new();
    let file = durable_file(&sim, log(1));
    for byte in 1..=3 {
        write_all_at(&*file, &[byte; 4], 0).unwrap();
    }
    let found = contents(&sim, &log(1));
    assert!((0..=3).all(|byte| found.contains(&Some(vec![byte; 4]))));
}

#[test]
fn smaller_units_tear_a_sector() {
    let sim = Sim::new();
    let file = durable_file(&sim, log(1));
    write_all_at(&*file, &[1; 128], 0).unwrap();
    let torn = Some([[1; 64], [0; 64]].concat());
    assert!(!contents(&sim, &log(1)).contains(&torn));
    let replay = at_end(&sim, 64);
    let mut states = replay.power_loss(&PowerLoss::default());
    assert!(states.any(|image| image.read(&log(1)) == torn));
}

#[test]
fn a_file_without_a_durable_name_may_vanish_with_its_synced_data() {
    let sim = Sim::new();
    let file = create(&sim, log(1));
    write_all_at(&*file, b"data", 0).unwrap();
    file.sync().unwrap();
    assert!(!sim.is_name_durable(&log(1)));
    assert_eq!(contents(&sim, &log(1)), HashSet::from([None, Some(b"data".to_vec())]));
    sim.sync_dir().unwrap();
    assert!(sim.is_name_durable(&log(1)));
    assert_eq!(contents(&sim, &log(1)), HashSet::from([Some(b"data".to_vec())]));
}

#[test]
fn an_unsynced_rename_shows_old_or_new_and_nothing_else() {
    let sim = Sim::new();
    let [current, new] = [FileKind::Current, FileKind::CurrentNew].map(Name::fixed);
    for (name, content) in [(current, b"old"), (new, b"new")] {
        let file = durable_file(&sim, name);
        write_all_at(&*file, content, 0).unwrap();
        file.sync().unwrap();
    }
    sim.rename(&new, &current).unwrap();
    assert!(!sim.is_name_durable(&current));
    let found: HashSet<_> =
        images(&sim).iter().map(|i| (i.read(&current).unwrap(), i.read(&new))).collect();
    let legal = [(b"old".to_vec(), Some(b"new".to_vec())), (b"new".to_vec(), None)];
    assert_eq!(found, HashSet::from(legal));
}

#[test]
fn the_strict_directory_reorders_and_the_ordered_one_does_not() {
    let sim = Sim::new();
    drop((create(&sim, log(1)), create(&sim, log(2))));
    sim.sync_dir().unwrap();
    sim.remove(&log(1), RemoveMode::Immediate).unwrap();
    drop(create(&sim, log(3)));
    let names = |directory| -> HashSet<Vec<u64>> {
        let options = PowerLoss { directory, ..PowerLoss::default() };
        let replay = at_end(&sim, SECTOR);
        let listed = |image: Image| image.list().iter().map(|(n, _)| n.number().0).collect();
        replay.power_loss(&options).map(listed).collect()
    };
    let ordered = HashSet::from([vec![1, 2], vec![2], vec![2, 3]]);
    assert_eq!(names(DirectoryOrder::Prefix), ordered);
    let strict = names(DirectoryOrder::Subset);
    assert!(strict.is_superset(&ordered) && strict.contains(&vec![1, 2, 3]));
    assert_eq!(strict.len(), 4);
}

/// A window of one block, whose file and name are durable, and what sees its stores.
fn window(sim: &Sim) -> Arc<dyn WindowObserver> {
    Window::create(sim, WINDOW, 0, BLOCK, BLOCK).unwrap();
    let file = sim.open(&Name::fixed(FileKind::Window), Mode::ReadWrite, Access::Random).unwrap();
    file.sync().unwrap();
    sim.sync_dir().unwrap();
    let mapping = file.map(WINDOW_HEADER_LEN + BLOCK).unwrap().expect("windows survive");
    mapping.observer.expect("the simulator is told of stores")
}

#[test]
fn sectors_of_a_window_hold_any_version_and_its_length_stays() {
    let sim = Sim::new();
    let name = Name::fixed(FileKind::Window);
    let window = window(&sim);
    window.stored(WINDOW_HEADER_LEN, b"a");
    window.stored(WINDOW_HEADER_LEN + SECTOR, b"b");
    window.stored(WINDOW_HEADER_LEN, b"c");
    let found = contents(&sim, &name);
    let heads: HashSet<(u8, u8)> = found
        .iter()
        .flatten()
        .inspect(|w| assert_eq!(w.len(), 2 * BLOCK))
        .map(|w| (w[BLOCK], w[BLOCK + SECTOR]))
        .collect();
    let legal = [b'\0', b'a', b'c'].into_iter().flat_map(|a| [(a, b'\0'), (a, b'b')]);
    assert_eq!(heads, legal.collect());
    let kept = at_end(&sim, SECTOR).process_kill().read(&name).unwrap();
    assert_eq!((kept[BLOCK], kept[BLOCK + SECTOR]), (b'c', b'b'));
}

#[test]
fn stores_without_a_gap_are_one_operation_that_a_kill_may_cut() {
    let sim = Sim::new();
    let window = window(&sim);
    let before = sim.history_len();
    window.stored(WINDOW_HEADER_LEN, b"abc");
    window.stored(WINDOW_HEADER_LEN + 3, b"def");
    assert_eq!(sim.history_len(), before + 1);
    let mut replay = sim.replay(SECTOR);
    replay.advance(before);
    let cut = replay.process_kill_within(4).unwrap().read(&Name::fixed(FileKind::Window)).unwrap();
    assert_eq!(&cut[BLOCK..BLOCK + 6], b"abcd\0\0");
}

#[test]
fn a_window_on_the_heap_is_no_file() {
    let sim = Sim::new();
    sim.set_window_survives(false);
    Window::create(&sim, WINDOW, 0, BLOCK, BLOCK).unwrap();
    sim.sync_dir().unwrap();
    assert_eq!(at_end(&sim, SECTOR).process_kill().list(), []);
}

#[test]
fn what_a_failed_sync_lost_no_later_sync_brings_back() {
    let sim = Sim::new();
    let file = durable_file(&sim, log(1));
    write_all_at(&*file, &[1; SECTOR], 0).unwrap();
    sim.lose_sync(&log(1));
    file.sync().unwrap();
    assert!(contents(&sim, &log(1)).contains(&Some(vec![])), "lost in spite of the second sync");
    write_all_at(&*file, &[2; SECTOR], SECTOR as u64).unwrap();
    file.sync().unwrap();
    let found = contents(&sim, &log(1));
    let parts = |a: u8| Some([[a; SECTOR], [2; SECTOR]].concat());
    assert_eq!(found, HashSet::from([parts(0), parts(1)]), "only what was written again is safe");
}

#[test]
fn a_process_kill_keeps_all_and_may_cut_the_write_in_flight() {
    let sim = Sim::new();
    let file = create(&sim, log(1));
    let before = sim.history_len();
    write_all_at(&*file, b"abcdef", 0).unwrap();
    let mut replay = sim.replay(SECTOR);
    replay.advance(before);
    assert_eq!(replay.process_kill().read(&log(1)).unwrap(), b"");
    assert_eq!(replay.process_kill_within(2).unwrap().read(&log(1)).unwrap(), b"ab");
    assert!(replay.process_kill_within(6).is_none());
    replay.advance(before + 1);
    assert!(replay.process_kill_within(0).is_none(), "nothing is in flight");
    assert_eq!(replay.process_kill().hash(), sim.image().hash());
}

#[test]
fn large_states_are_sampled_within_the_limit_and_repeatably() {
    let sim = Sim::new();
    let file = durable_file(&sim, log(1));
    write_all_at(&*file, &[1; 8 * BLOCK], 0).unwrap();
    let replay = at_end(&sim, SECTOR);
    let hashes = |options: &PowerLoss| -> Vec<u64> {
        replay.power_loss(options).map(|image| image.hash()).collect()
    };
    let options = PowerLoss { states_max: 100, seed: 5, ..PowerLoss::default() };
    let found = hashes(&options);
    assert!((50..=100).contains(&found.len()), "{}", found.len());
    assert_eq!(found.iter().collect::<HashSet<_>>().len(), found.len(), "all are distinct");
    assert_eq!(found, hashes(&options), "the same seed gives the same states");
    assert_ne!(found, hashes(&PowerLoss { seed: 6, ..options }));
    let whole = sim.image().hash();
    let bare = replay.power_loss(&options).find(|image| image.list() == [(log(1), 0)]);
    assert!(found.contains(&whole) && bare.is_some(), "all and nothing are always visited");
    let unlimited = hashes(&PowerLoss { states_max: usize::MAX, ..options });
    assert!(unlimited.len() > 3 * 64, "{}: all linear families are visited", unlimited.len());
}

/// What a random operation did, as far as promises are concerned.
enum Done {
    Synced(Name),
    Removed(Name),
    Other,
}

/// One random operation on one of four files.
fn step(sim: &Sim, open: &mut BTreeMap<Name, Arc<dyn File>>, rng: &mut Rng) -> Done {
    let name = log(rng.below(4));
    let Some(file) = open.get(&name) else {
        open.insert(name, create(sim, name));
        return Done::Other;
    };
    match rng.below(10) {
        0..5 => {
            let mut bytes = vec![0; 1 + rng.index(700)];
            rng.fill(&mut bytes);
            write_all_at(&**file, &bytes, file.len().unwrap()).unwrap();
            Done::Other
        }
        5 | 6 => {
            file.sync().unwrap();
            Done::Synced(name)
        }
        7 | 8 => {
            sim.sync_dir().unwrap();
            Done::Other
        }
        _ => {
            open.remove(&name);
            sim.remove(&name, RemoveMode::Immediate).unwrap();
            Done::Removed(name)
        }
    }
}

/// Runs 40 random operations; after each: the crash point, and what must survive from there on.
fn run(sim: &Sim, rng: &mut Rng) -> Vec<(usize, BTreeMap<Name, Vec<u8>>)> {
    let mut open = BTreeMap::new();
    let mut synced: BTreeMap<Name, Vec<u8>> = BTreeMap::new();
    let mut promises = vec![(0, BTreeMap::new())];
    for _ in 0..40 {
        match step(sim, &mut open, rng) {
            Done::Synced(name) => _ = synced.insert(name, sim.image().read(&name).unwrap()),
            Done::Removed(name) => _ = synced.remove(&name),
            Done::Other => {}
        }
        let durable = synced.iter().filter(|(name, _)| sim.is_name_durable(name));
        promises.push((sim.history_len(), durable.map(|(n, b)| (*n, b.clone())).collect()));
    }
    promises
}

#[test]
fn synced_data_under_a_durable_name_survives_every_crash() {
    let mut states = 0;
    for seed in 0..40 {
        let sim = Sim::new();
        let promises = run(&sim, &mut Rng::new(seed));
        let mut replay = sim.replay(SECTOR);
        let options = PowerLoss { states_max: 60, seed, ..PowerLoss::default() };
        for (point, promised) in promises {
            replay.advance(point);
            for image in replay.power_loss(&options) {
                states += 1;
                for (name, bytes) in &promised {
                    let found = image.read(name).unwrap_or_default();
                    assert!(found.starts_with(bytes), "{name} lost synced data, seed {seed}");
                }
            }
        }
    }
    assert!(states > 20_000, "{states}");
}

#[test]
fn a_hole_may_reach_the_disk_or_not_until_a_sync() {
    let sim = Sim::new();
    let file = durable_file(&sim, log(1));
    write_all_at(&*file, &[1; 3 * BLOCK], 0).unwrap();
    file.sync().unwrap();
    let whole = Some(vec![1; 3 * BLOCK]);
    let mut holed = vec![1; 3 * BLOCK];
    holed[BLOCK..2 * BLOCK].fill(0);
    sim.set_capacity(3 * BLOCK as u64);
    assert_eq!(sim.free_space().unwrap(), 0);
    file.punch(BLOCK as u64, BLOCK as u64).expect("write-once does not forbid it");
    assert_eq!(sim.free_space().unwrap(), BLOCK as u64);
    assert_eq!(contents(&sim, &log(1)), HashSet::from([whole, Some(holed.clone())]));
    sim.sync_dir().unwrap();
    assert_eq!(contents(&sim, &log(1)), HashSet::from([Some(holed)]));
}

#[test]
fn a_crash_in_recovery_is_a_crash_of_the_next_simulator() {
    let sim = Sim::new();
    let file = durable_file(&sim, log(1));
    write_all_at(&*file, b"first", 0).unwrap();
    file.sync().unwrap();
    let second = Sim::from_image(at_end(&sim, SECTOR).process_kill());
    assert_eq!(second.history_len(), 0);
    let file = second.open(&log(1), Mode::ReadWrite, Access::Random).unwrap();
    write_all_at(&*file, b"second", 5).unwrap();
    let found = contents(&second, &log(1));
    assert!(found.contains(&Some(b"first".to_vec())));
    assert!(found.contains(&Some(b"firstsecond".to_vec())));
}
