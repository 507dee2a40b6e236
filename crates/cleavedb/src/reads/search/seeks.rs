//! Reads that count the seeks that tables cost them, where level 0 is kept as in HyperLevelDB.

use cleavedb_base::{Result, SeqNo};
use cleavedb_index::compaction::compacts_on_seeks;
use cleavedb_index::{IndexHit, Version};

use super::SearchKey;
use crate::engine::Engine;

/// Whether level 0 is kept in a way that counts seeks.
pub(super) fn are_counted(engine: &Engine) -> bool {
    compacts_on_seeks(engine.options.level0())
}

/// As [`Version::get`], with seeks charged: wakes the job queue when a table's seek budget is
/// spent. A separate function, so that reads of other databases do not carry its code.
#[inline(never)]
pub(super) fn get(
    engine: &Engine,
    version: &Version,
    key: SearchKey<'_>,
    seq: SeqNo,
) -> Result<Option<IndexHit>> {
    let (found, spent) = version.get_charging(key.encoded, key.hash, seq)?;
    if spent {
        engine.jobs.wake();
    }
    Ok(found)
}
