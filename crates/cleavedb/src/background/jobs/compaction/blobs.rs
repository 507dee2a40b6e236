//! Compactions that let hidden blobs go.

use cleavedb_base::Result;
use cleavedb_index::Version;
use cleavedb_index::compaction::Constraints;
use cleavedb_index::compaction::range::RangeStep;

use super::super::Begin;
use super::{compact, room_to_compact};
use crate::engine::Engine;
use crate::engine::read_points::ReadPoints;

/// Compacts the key of a hidden blob, if such blobs take more space than is tolerated, and if it
/// writes at most `most` bytes. Returns whether it did.
pub(super) fn compact_hidden(engine: &Engine, begin: Begin, most: u64) -> Result<bool> {
    let (options, blobs) = (engine.space().compaction_options(), &engine.jobs.lone_files);
    let choose = || {
        let live = engine.manifest.lock().live().clone();
        let seen_by_all = || ReadPoints::of_compaction(engine).seen_by_all();
        blobs.are_due(&live, &engine.options)
            && blobs.choose(&live, &engine.state.load().segments, seen_by_all())
    };
    while choose() {
        let mut is_done = false;
        let pick = |version: &Version, constraints: &Constraints| {
            match blobs.pick(version, &options, constraints) {
                // What is done only to let blobs go is no reason to call the disk full.
                RangeStep::Compact(picked) => {
                    let bytes = picked.bytes_written_max();
                    (bytes <= room_to_compact(engine).min(most)).then_some(picked)
                }
                RangeStep::Waits => None,
                RangeStep::Damaged(_) | RangeStep::Done => {
                    is_done = true;
                    None
                }
            }
        };
        let written = compact(engine, begin, &options, pick)?;
        if let Some(tables) = &written {
            blobs.written(tables);
        }
        if !is_done {
            return Ok(written.is_some());
        }
    }
    Ok(false)
}
