//! The engine on a modelled device: the same answers, in a time that is the same in every run.

use std::sync::Arc;
use std::time::Duration;

use cleavedb::{Background, Db, Durability, Options, Preset, Tuning};
use cleavedb_storage::{FileKind, Storage};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::modelled::{Clock, Profile, SimulatedDevice};
use cleavedb_testkit::setup::tiny;

/// Fills a store on `profile`, reads it back cold, and returns when it was done.
fn time(preset: Preset, profile: Profile) -> Duration {
    let (sim, clock) = (Sim::new(), Clock::virtual_time());
    sim.stop_recording();
    let model = Arc::new(SimulatedDevice::new(Arc::new(sim), profile, clock.clone(), 256 << 10));
    let options = Options { durability: Durability::Os, ..tiny(preset) };
    let db = Db::open_in(model.clone(), options, 7).unwrap();
    let key = |i: u32| (i.wrapping_mul(2_654_435_761)).to_be_bytes();
    for i in 0..3000 {
        db.put(key(i), [i as u8; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for i in 0..3000 {
        assert_eq!(db.get(key(i)).unwrap().unwrap(), [i as u8; 100][..]);
    }
    db.close().unwrap();
    let totals = model.totals();
    assert!(totals.bytes_written > 300_000 && totals.reads > 0 && totals.flushes > 0, "{totals:?}");
    assert!(totals.busy <= clock.now() * 2, "{totals:?} in {:?}", clock.now());
    clock.now()
}

/// The length of each group file, in the order of their numbers, of a store on `profile` that was
/// filled by `flushes` flushes of 4 MiB.
fn group_files(profile: Profile, flushes: u32) -> Vec<u64> {
    let sim = Sim::new();
    sim.stop_recording();
    // A quarter of its speed, so that copying takes next to no time of it in any build.
    let clock = Clock::real_time(0.25);
    let model = Arc::new(SimulatedDevice::new(Arc::new(sim.clone()), profile, clock, 1 << 20));
    let background = Background::Threads(1);
    let options = Options::preset(Preset::KtStore);
    let options = Options {
        durability: Durability::Os,
        background,
        tuning: Tuning { segment_bytes: 4 << 20, ..options.tuning },
        ..options
    };
    let db = Db::open_in(model, options, 7).unwrap();
    for i in 0..1024 * flushes {
        db.put(i.wrapping_mul(2_654_435_761).to_be_bytes(), [i as u8; 4096]).unwrap();
        if i % 1024 == 1023 {
            db.flush().unwrap();
        }
    }
    db.close().unwrap();
    let mut files = Storage::list(&sim).unwrap();
    files.retain(|(name, _)| name.kind() == FileKind::Group);
    files.sort_by_key(|(name, _)| name.number());
    files.into_iter().map(|(_, len)| len).collect()
}

#[test]
fn a_flush_to_a_hard_disk_is_one_stream_once_it_is_known_to_be_slow() {
    let lens = group_files(Profile::HDD, 3);
    let long = lens.iter().filter(|len| **len > 4 << 20).count();
    assert_eq!((lens.len(), long), (4 + 2, 2), "{lens:?}");
}

#[test]
fn slower_devices_take_longer_and_every_run_takes_the_same_time() {
    for preset in Preset::ALL {
        let [hdd, sata, nvme] = Profile::ALL.map(|profile| time(preset, profile));
        assert!(hdd > 5 * sata && sata > 2 * nvme, "{preset}: {hdd:?}, {sata:?}, {nvme:?}");
        assert_eq!(time(preset, Profile::SATA), sata, "{preset}");
    }
}
