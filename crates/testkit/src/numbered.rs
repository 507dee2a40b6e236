//! Writes by their numbers: what is said to survive a loss of power does.

use cleavedb::{Durability, Error, WriteBatch};
use cleavedb_storage_sim::sim::PowerLoss;

use crate::disks::Disks;
use crate::read::Checked;
use crate::records::{key, value};
use crate::session::open_all;
use crate::setup::Setup;

/// Batches that are written, and how many of them are not synced at a time.
const BATCHES: u32 = 24;
const UNSYNCED: usize = 3;

/// Writes batches by their numbers, syncs up to that of an earlier one now and then, and has the
/// power fail at each moment that `durable_seq` has grown. Fails if a batch is lost then that it
/// covers.
pub fn what_is_synced_to_survives(setup: &Setup) -> Checked {
    let failed = |e: Error| e.to_string();
    let disks = Disks::new(setup);
    let db = open_all(&disks.storages(), setup).map_err(failed)?;
    let (mut seqs, mut moments) = (Vec::new(), Vec::new());
    for i in 0..BATCHES {
        let mut batch = WriteBatch::new();
        batch
            .put(key(i), value(i, 0))
            .and_then(|batch| batch.put(key(i), value(i, 1)))
            .map_err(failed)?;
        let durability = if i % 2 == 0 { Durability::Buffered } else { Durability::Os };
        seqs.push(db.write_numbered(&batch, durability).map_err(failed)?);
        if let Some(before) = seqs.len().checked_sub(UNSYNCED).filter(|at| at % UNSYNCED == 0) {
            db.sync_to(seqs[before]).map_err(failed)?;
            if db.durable_seq() < seqs[before] {
                return Err(format!("{} of {} is durable", db.durable_seq(), seqs[before]));
            }
        }
        let covered = seqs.iter().filter(|seq| **seq <= db.durable_seq()).count();
        moments.push((disks.time(), covered as u32));
    }
    moments.dedup_by_key(|(_, covered)| *covered);
    let mut replay = disks.replay();
    for (time, covered) in moments {
        replay.advance(time);
        for images in replay.power_loss(&PowerLoss { states_max: 4, ..PowerLoss::default() }) {
            let left = Disks::from_images(&images, setup);
            let db = open_all(&left.storages(), setup).map_err(failed)?;
            for i in 0..covered {
                if db.get(key(i)).map_err(failed)?.is_none_or(|found| found != value(i, 1)) {
                    return Err(format!("batch {i} of {covered} that were durable is lost"));
                }
            }
        }
    }
    Ok(())
}
