//! Work that must come to an end: how many jobs it takes until none is due.

use std::sync::Arc;

use cleavedb::{Db, Separation};
use cleavedb_storage::Sim;
use cleavedb_storage::sim::Rng;

use crate::read::Checked;
use crate::setup::Setup;

/// Collections that settling may take after 50 small writes: three rounds of all groups and files.
const COLLECTIONS_MAX: u64 = 150;

/// Jobs that may run before none is due.
const JOBS_MAX: usize = 10_000;

/// Runs jobs until none is due.
pub fn settled(db: &Db) -> Checked<()> {
    for _ in 0..JOBS_MAX {
        if !db.step().map_err(|e| e.to_string())? {
            return Ok(());
        }
    }
    Err(format!("{JOBS_MAX} jobs have run, and one is due still"))
}

/// Short values with a cold log, whose segments are short, too, under tight goals: whether settling
/// is soon done each time.
pub fn short_segments_settle(seed: u64) -> Checked<()> {
    let mut rng = Rng::new(seed);
    let mut options = Setup::tagged(true).options;
    options.separation = Separation::AtLeast(0);
    options.space_amplification = 1.05;
    options.space_floor = [0, 4 << 10, 24 << 10][seed as usize % 3];
    let db = Db::open_in(Arc::new(Sim::new()), options, 7).map_err(|e| e.to_string())?;
    let keys = 100 + rng.index(200);
    for round in 0..40u8 {
        let before = db.metrics().collections;
        for _ in 0..50 {
            let key = (rng.index(keys) as u32).to_be_bytes();
            let len = [1, 10, 30, 400][rng.index(4)];
            let written = match rng.chance(20) {
                true => db.delete(&key),
                false => db.put(&key, &vec![round; len]),
            };
            written.map_err(|e| e.to_string())?;
        }
        settled(&db)?;
        let collections = db.metrics().collections - before;
        if collections > COLLECTIONS_MAX {
            return Err(format!("{collections} collections for 50 short values"));
        }
    }
    Ok(())
}
