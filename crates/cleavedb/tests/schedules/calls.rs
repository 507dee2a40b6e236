//! Calls that end log files, beside writers.

use std::sync::Arc;

use cleavedb::{Db, Error, Preset};
use cleavedb_base::sync::checker::thread;
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::Setup;
use cleavedb_testkit::session::open;

use crate::with_threads;

/// Collections, each beside a put.
const COLLECTIONS: u32 = 12;

fn opened(setup: &Setup) -> Result<Db, String> {
    let sim = Sim::new();
    sim.stop_recording();
    open(Arc::new(sim), setup).map_err(|e| text(&e))
}

fn text(error: &Error) -> String {
    error.to_string()
}

fn put(db: &Db, number: u32) -> Result<(), String> {
    let value = vec![number as u8; [20, 900, 3000][number as usize % 3]];
    db.put(&number.to_be_bytes(), &value).map_err(|e| text(&e))
}

/// A log file ends, and is collected, while a record is written to it.
pub fn collectors(seed: u64) -> Result<(), String> {
    let db = opened(&with_threads(Setup::tiny(Preset::WiscKey, true), 1))?;
    for number in 0..COLLECTIONS {
        // A file that no table points into goes on.
        put(&db, 2 * number)?;
        db.flush().map_err(|e| text(&e))?;
        let writer = {
            let db = db.clone();
            thread::spawn(move || put(&db, 2 * number + 1))
        };
        db.collect().map_err(|e| text(&e))?;
        writer.join().map_err(|_| "the writer panicked")??;
    }
    db.collect().map_err(|e| text(&e))?;
    for number in 0..2 * COLLECTIONS {
        let found = db.get(&number.to_be_bytes()).map_err(|e| text(&e))?;
        if found.is_none_or(|value| value[0] != number as u8) {
            return Err(format!("seed {seed}: record {number} is lost"));
        }
    }
    Ok(())
}
