//! Databases that share the memory of their caches: each finds what it wrote itself.

use cleavedb::{Db, Durability, Resources};

use crate::disks::Disks;
use crate::read::Checked;
use crate::session;
use crate::setup::Setup;

/// Memory of the caches, in bytes: of blocks, filters and indexes, and of records.
const CACHE: usize = 4 << 20;
const RECORDS: usize = 256 << 10;

/// Databases, keys of each, and times that they are written.
const DATABASES: usize = 3;
const KEYS: usize = 150;
const ROUNDS: usize = 3;

/// The value of a key: the same keys have others in each database.
fn value(database: usize, round: usize, key: usize) -> String {
    format!("{key} in {database}, round {round}; ").repeat(20)
}

/// Databases of this setup with the same keys in files of the same names have other values, which
/// gets find, also in the caches, and stay within the memory that they share.
pub fn databases_share_caches(setup: &Setup) -> Checked<()> {
    let resources = Resources::new(CACHE, RECORDS);
    let mut setup = setup.clone();
    (setup.options.tuning.cache_bytes, setup.options.record_cache_bytes) = (None, 0);
    setup.options.resources = Some(resources.clone());
    let disks: Vec<Disks> = (0..DATABASES).map(|_| Disks::new(&setup)).collect();
    let open = |disks: &Disks| session::open_all(&disks.storages(), &setup);
    let failed = |e: cleavedb::Error| e.to_string();
    let dbs: Result<Vec<Db>, _> = disks.iter().map(open).collect();
    let mut dbs = dbs.map_err(failed)?;
    for round in 0..ROUNDS {
        for (database, db) in dbs.iter().enumerate() {
            for key in 0..KEYS {
                let value = value(database, round, key);
                db.put_with(key.to_be_bytes(), value, Durability::Os).map_err(failed)?;
            }
            db.flush().map_err(failed)?;
        }
        // The second time from the caches.
        for _ in 0..2 {
            check(&dbs, round)?;
        }
        if resources.used() > (CACHE + RECORDS) as u64 {
            return Err(format!("{} bytes of caches", resources.used()));
        }
        // One closes and comes back, the others go on.
        let gone = dbs.remove(0);
        gone.close().map_err(failed)?;
        dbs.insert(0, open(&disks[0]).map_err(failed)?);
        check(&dbs, round)?;
        dbs[1].compact().map_err(failed)?;
    }
    let hits: u64 = dbs.iter().map(|db| db.metrics().cache_hits).sum();
    if hits == 0 { Err("no block was found in the cache".to_owned()) } else { Ok(()) }
}

fn check(dbs: &[Db], round: usize) -> Checked<()> {
    for key in 0..KEYS {
        for (database, db) in dbs.iter().enumerate() {
            let found = db.get(key.to_be_bytes()).map_err(|e| e.to_string())?;
            if found.as_deref() != Some(value(database, round, key).as_bytes()) {
                return Err(format!("{key} in {database}: {found:?}"));
            }
        }
    }
    Ok(())
}
