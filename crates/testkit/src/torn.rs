//! A batch that a crash has torn, and the log that goes on behind it.

use std::sync::Arc;

use cleavedb::{Durability, Error};
use cleavedb_storage::sim::Image;
use cleavedb_storage::{FileKind, Sim};

use crate::op::Write;
use crate::read::Checked;
use crate::session::{commit, open};
use crate::setup::Setup;

/// Cuts a log at every sector, which tears its last batch, writes to what is recovered, and kills
/// that; fails if a part of the batch came back, or if anything else is gone.
pub fn a_torn_batch_stays_away(setup: &Setup) -> Checked {
    let failed = |e: Error| e.to_string();
    let disk = |image| {
        let sim = Sim::from_image(image);
        sim.set_window_survives(setup.window_survives);
        sim
    };
    let first = disk(Image::default());
    let db = open(Arc::new(first.clone()), setup).map_err(failed)?;
    db.put(b"before", &[1; 700]).map_err(failed)?;
    let batch = [Write::put(b"torn", vec![2; 90]), Write::put(b"torn too", vec![3; 2000])];
    commit(&db, &batch, Durability::Os).map_err(failed)?;
    let image = first.image();
    let log = image.list().into_iter().find(|(name, _)| name.kind() == FileKind::Log);
    let (log, len) = log.ok_or("there is no log")?;
    for cut in (512..len).step_by(512) {
        let mut torn = image.clone();
        torn.truncate(&log, cut);
        let sim = disk(torn);
        let db = open(Arc::new(sim.clone()), setup).map_err(failed)?;
        let there = db.get(b"before").map_err(failed)?.is_some();
        db.put(b"after", &[4; 700]).map_err(failed)?;
        let killed = disk(sim.image());
        let db = open(Arc::new(killed), setup).map_err(|e| format!("cut at {cut}: {e}"))?;
        let expected: [(&[u8], bool); 3] = [(b"before", there), (b"torn", false), (b"after", true)];
        for (key, expected) in expected {
            if db.get(key).map_err(failed)?.is_some() != expected {
                return Err(format!("cut at {cut}: not as expected: {}", key.escape_ascii()));
            }
        }
        if let Some(problem) = db.verify().map_err(failed)?.problems.first() {
            return Err(format!("cut at {cut}: {problem}"));
        }
    }
    Ok(())
}
