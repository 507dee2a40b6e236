//! Collections of values that run beside that of a range, on real threads: doors hold them until
//! the index of the range was compacted, so that they put entries back.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cleavedb_storage::FileKind;

use crate::disks::Disks;
use crate::gated::{Door, Gated, eventually};
use crate::needles::{ENDS, Needles, no_needle};
use crate::session::open;
use crate::setup::Setup;

/// Time after which something counts as kept waiting: far more than a busy machine takes for it.
const LIMIT: Duration = Duration::from_secs(30);

/// Time that a call gets to go on, if nothing holds it.
const MOMENT: Duration = Duration::from_millis(100);

/// When a collection ends that begins while the index of a range is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// During the compaction.
    During,
    /// After it.
    After,
}

/// A range is collected while another thread collects values, planned on the index as it was
/// before the range was compacted. Returns whether there was such a collection.
///
/// # Panics
/// If something that was deleted or has expired is left, or anything else is not.
pub fn a_collection_beside(setup: &Setup, end: End, seed: u64) -> bool {
    let mut setup = setup.at(setup.now());
    // Only what is asked for is compacted.
    (setup.options.tuning.level0_bytes, setup.options.tuning.level1_bytes) =
        (Some(1 << 20), Some(1 << 20));
    let mut needles = Needles::new(seed);
    let disks = Disks::forgetful(&setup);
    let door = Arc::new(Gated::new(Arc::new(disks.sims()[0].clone())));
    let db = open(door.clone(), &setup).unwrap();
    needles.work(&db, 300);
    needles.delete_most(&db, &setup);
    db.flush().unwrap();
    let kind = match setup.options.layout().groups {
        Some(_) => FileKind::Group,
        None => FileKind::Segment,
    };
    let before = db.metrics().collections;
    let compacting = door.hold(Door::Create, FileKind::Table, 1);
    let met = thread::scope(|scope| {
        let other = scope.spawn(|| {
            let compacting = compacting;
            eventually(LIMIT, || compacting.waiting() == 1);
            if end == End::During {
                db.collect_as_jobs_do().unwrap();
                return db.metrics().collections > before;
            }
            let collecting = door.hold(Door::Create, kind, 1);
            let collector = scope.spawn(|| db.collect_as_jobs_do().unwrap());
            let is_held = || collecting.waiting() == 1;
            eventually(LIMIT, || is_held() || collector.is_finished());
            let met = is_held();
            let compactions = db.metrics().compactions;
            drop(compacting);
            eventually(LIMIT, || db.metrics().compactions > compactions);
            thread::sleep(MOMENT);
            drop(collecting);
            met
        });
        db.default_keyspace().collect_range(ENDS).unwrap();
        other.join().unwrap()
    });
    let other = db.keyspace("other").unwrap();
    other.collect_range(ENDS).unwrap();
    db.keyspace("dropped").unwrap().collect_range(ENDS).unwrap();
    no_needle(&needles, &disks, &format!("{setup}, {end:?}"));
    needles.check(&db);
    met
}
