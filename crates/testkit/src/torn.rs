//! A batch that a crash has torn, and the log that continues behind it.

use std::sync::Arc;

use cleavedb::{Durability, Error};
use cleavedb_storage::FileKind;
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Image;

use crate::op::Write;
use crate::read::Checked;
use crate::session::{commit, open};
use crate::setup::Setup;

/// Cuts a log at every sector, which tears its last batch, and opens it; then writes to it and
/// kills it, or compacts and closes it. Fails if a part of the batch reappears, or if anything else
/// is lost.
pub fn a_torn_batch_stays_away(setup: &Setup) -> Checked {
    let failed = |e: Error| e.to_string();
    let first = disk(setup, Image::default());
    let db = open(Arc::new(first.clone()), setup).map_err(failed)?;
    for byte in [0, 1] {
        db.put(b"before", [byte; 700]).and_then(|()| db.flush()).map_err(failed)?;
    }
    let log = |image: &Image| {
        let log = image.list().into_iter().find(|(name, _)| name.kind() == FileKind::Log);
        log.ok_or("there is no log")
    };
    let (_, synced) = log(&first.image())?;
    let batch = [Write::put(b"torn", vec![2; 90]), Write::put(b"torn too", vec![3; 2000])];
    commit(&db, &batch, Durability::Os).map_err(failed)?;
    let image = first.image();
    let (log, len) = log(&image)?;
    for cut in (synced.next_multiple_of(512)..len).step_by(512) {
        for is_written in [true, false] {
            let mut torn = image.clone();
            torn.truncate(&log, cut);
            goes_on(setup, torn, is_written)
                .map_err(|e| format!("cut at {cut}, written {is_written}: {e}"))?;
        }
    }
    Ok(())
}

fn disk(setup: &Setup, image: Image) -> Sim {
    let sim = Sim::from_image(image);
    sim.set_window_survives(setup.window_survives);
    sim
}

fn goes_on(setup: &Setup, torn: Image, is_written: bool) -> Checked {
    let failed = |e: Error| e.to_string();
    let sim = disk(setup, torn);
    let db = open(Arc::new(sim.clone()), setup).map_err(failed)?;
    if is_written {
        db.put(b"after", [4; 700]).map_err(failed)?;
    } else {
        // The log file is empty and is removed: the torn batch ends the last one that remains.
        db.compact().and_then(|()| db.collect()).and_then(|()| db.close()).map_err(failed)?;
    }
    let db = open(Arc::new(disk(setup, sim.image())), setup).map_err(failed)?;
    let expected: [(&[u8], bool); 3] =
        [(b"before", true), (b"torn", false), (b"after", is_written)];
    for (key, expected) in expected {
        if db.get(key).map_err(failed)?.is_some() != expected {
            return Err(format!("not as expected: {}", key.escape_ascii()));
        }
    }
    match db.verify().map_err(failed)?.problems.first() {
        Some(problem) => Err(problem.to_string()),
        None => Ok(()),
    }
}
