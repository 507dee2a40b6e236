//! The engine on a modelled device: the same answers, in a time that is the same in every run.

use std::sync::Arc;
use std::time::Duration;

use cleavedb::{Db, Durability, Options, Preset};
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
        db.put(&key(i), &[i as u8; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for i in 0..3000 {
        assert_eq!(db.get(&key(i)).unwrap().unwrap(), [i as u8; 100][..]);
    }
    db.close().unwrap();
    let totals = model.totals();
    assert!(totals.bytes_written > 300_000 && totals.reads > 0 && totals.flushes > 0, "{totals:?}");
    assert!(totals.busy <= clock.now() * 2, "{totals:?} in {:?}", clock.now());
    clock.now()
}

#[test]
fn slower_devices_take_longer_and_every_run_takes_the_same_time() {
    for preset in Preset::ALL {
        let [hdd, sata, nvme] = Profile::ALL.map(|profile| time(preset, profile));
        assert!(hdd > 5 * sata && sata > 2 * nvme, "{preset}: {hdd:?}, {sata:?}, {nvme:?}");
        assert_eq!(time(preset, Profile::SATA), sata, "{preset}");
    }
}
