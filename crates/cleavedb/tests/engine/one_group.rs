//! A group that holds everything.

use std::sync::Arc;

use cleavedb::{Db, Preset};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::Setup;
use cleavedb_testkit::records::{key, value};

/// All values are in one group, which is longer than the space that the disk has left.
#[test]
fn a_group_longer_than_the_free_space_is_collected_in_pieces() {
    const CAPACITY: u64 = 4 << 20;
    const RECORDS: u32 = 2_200;
    for preset in [Preset::KtStore, Preset::HoaKv] {
        let sim = Sim::new();
        let mut options = Setup::tiny(preset, true).options;
        options.tuning.groups.main_segment_bytes = 1 << 30;
        (options.tuning.space_floor, options.space_amplification) = (0, 1.2);
        let db = Db::open_in(Arc::new(sim.clone()), options, 7).unwrap();
        // Where a small disk is known, an open makes groups shorter.
        sim.set_capacity(CAPACITY);
        // Keys beyond the last one would begin groups of their own.
        db.put(key(RECORDS), value(RECORDS, 0)).unwrap();
        for round in 0..4 {
            for i in (0..RECORDS).map(|at| at * 147 % RECORDS) {
                db.put(key(i), value(i, round)).unwrap();
                while db.step().unwrap() {}
            }
        }
        let metrics = db.metrics();
        let group = metrics.value_bytes;
        assert_eq!(metrics.groups, 1, "{preset}");
        assert!(group > CAPACITY / 2, "{preset}: {group} bytes");
        (0..RECORDS).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, 3)));
        assert!(db.verify().unwrap().problems.is_empty());
    }
}
