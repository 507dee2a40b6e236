//! Compaction of a range that a caller requests.

use std::collections::BTreeSet;

use cleavedb_base::{Error, ErrorKind, Result, SeqNo};
use cleavedb_index::Version;
use cleavedb_index::compaction::Constraints;
use cleavedb_index::compaction::range::{RangeGoal, RangeStep, pick_range};

use crate::background::jobs::{Begin, compaction};
use crate::background::scheduler;
use crate::control::failures::JobKind;
use crate::engine::Engine;
use crate::operations::bounds::Bounds;

/// Looks in a row that find no job, before a caller gets the error that it is stalled.
const LOOKS: usize = 100;

/// Brings what tables have of a range up to sequence number `upto` to one level, without what no
/// reader sees.
pub(crate) fn compact_range(engine: &Engine, bounds: &Bounds, upto: SeqNo) -> Result<()> {
    let _hurry = engine.pacer.hurry_flushes();
    let options = engine.space().compaction_options();
    let (mut clean, mut looks) = (BTreeSet::new(), 0);
    loop {
        let goal = RangeGoal { lower: &bounds.lower, upper: &bounds.upper, upto, clean: &clean };
        let mut stopped = Ok(RangeStep::Done);
        let step = |version: &Version, constraints: &Constraints| match pick_range(
            version,
            &options,
            constraints,
            &goal,
        ) {
            RangeStep::Compact(compaction) => {
                stopped = Err(compaction::no_room());
                Some(compaction)
            }
            other => {
                stopped = Ok(other);
                None
            }
        };
        if let Some(written) = compaction::compact(engine, Begin::Open, &options, step)? {
            (clean, looks) = (clean.into_iter().chain(written).collect(), 0);
            continue;
        }
        match stopped? {
            RangeStep::Damaged(table) => {
                let jobs = engine.jobs.lock();
                let what = "a table of the range is damaged, and is not compacted";
                let error = jobs.damaged.last.clone();
                return Err(error.unwrap_or_else(|| Error::corruption(what).with("table", table)));
            }
            RangeStep::Waits => wait_for_jobs(engine, &mut looks)?,
            RangeStep::Compact(_) | RangeStep::Done => return Ok(()),
        }
    }
}

/// Lets jobs that are in the way go on: waits for those of other threads, or runs one. Fails if
/// there was none for many looks, which `looks` counts.
pub(crate) fn wait_for_jobs(engine: &Engine, looks: &mut usize) -> Result<()> {
    engine.check_open()?;
    let left_alone = engine.jobs.lock().left_alone();
    let ran = scheduler::waits_for_others(engine)
        || match scheduler::run_one(engine, &JobKind::ALL) {
            // What is damaged is left alone from now on, and other jobs go on.
            Err(_) if engine.jobs.lock().left_alone() > left_alone => true,
            ran => ran?,
        };
    *looks = if ran { 0 } else { *looks + 1 };
    if *looks < LOOKS {
        return Ok(());
    }
    if let Some(limit) = &engine.limit {
        return Err(engine.space().exhausted(limit));
    }
    let what = "a request for a range of keys waits for a job that does not come; this is a bug, \
                please report it with the metrics";
    Err(Error::new(ErrorKind::Stalled, what))
}
