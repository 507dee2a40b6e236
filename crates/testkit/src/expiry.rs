//! Values that expire give as much space back as values that are deleted, without a read; others
//! stay.

use std::sync::Arc;
use std::time::Duration;

use cleavedb::{Db, Durability, PutOptions};
use cleavedb_storage_sim::Sim;

use crate::generator::value;
use crate::read::{Checked, everything};
use crate::session::open;
use crate::setup::Setup;
use crate::state::State;

/// Keys, of which every other one goes.
const KEYS: u32 = 240;

/// Time to live of a value that expires.
const TTL: Duration = Duration::from_secs(1);

fn key(at: u32) -> Vec<u8> {
    format!("{at:05}").into_bytes()
}

/// Compares the space that is left after half of some values have expired with that after they were
/// deleted.
pub fn space_comes_back(setup: &Setup) -> Checked {
    let [expired, deleted] = [false, true].map(|deletes| {
        let setup = setup.at(setup.now());
        bytes_left(&setup, deletes).map_err(|failure| format!("{setup}: {failure}"))
    });
    let (expired, deleted) = (expired?, deleted?);
    if expired > deleted + deleted / 8 {
        return Err(format!(
            "{setup}: {expired} bytes after they expired, {deleted} after deletes"
        ));
    }
    Ok(())
}

fn bytes_left(setup: &Setup, deletes: bool) -> Checked<u64> {
    let failed = |e: cleavedb::Error| e.to_string();
    let db = open(Arc::new(Sim::new()), setup).map_err(failed)?;
    let settle = |db: &Db| -> Checked {
        while db.step().map_err(failed)? {}
        Ok(())
    };
    let mut staying = State::default();
    for at in 0..KEYS {
        let (key, value) = (key(at), value(at.into(), 1500));
        if at % 2 == 0 && !deletes {
            db.put_with(&key, &value, PutOptions::new().ttl(TTL)).map_err(failed)?;
        } else {
            db.put_with(&key, &value, Durability::Os).map_err(failed)?;
        }
        if at % 2 == 1 {
            staying.set(&key, Some(&value.into()));
        }
    }
    db.flush().and_then(|()| db.collect()).map_err(failed)?;
    settle(&db)?;
    let live = db.metrics().live_bytes;
    if deletes {
        let mut gone = (0..KEYS).step_by(2);
        gone.try_for_each(|at| db.delete(key(at))).map_err(failed)?;
        db.flush().and_then(|()| db.compact()).map_err(failed)?;
    } else {
        setup.clock.advance(TTL + setup.options.expired_within);
    }
    settle(&db)?;
    let left = db.metrics().live_bytes;
    if left > live * 5 / 8 {
        return Err(format!("{left} bytes of {live} count as alive"));
    }
    db.collect().map_err(failed)?;
    settle(&db)?;
    if everything(db.default_keyspace())? != staying {
        return Err("not the values that stay are left".to_owned());
    }
    let report = db.verify().map_err(failed)?;
    if let Some(problem) = report.problems.first() {
        return Err(problem.to_string());
    }
    let metrics = db.metrics();
    Ok(metrics.value_bytes + metrics.levels.iter().map(|level| level.bytes).sum::<u64>())
}
