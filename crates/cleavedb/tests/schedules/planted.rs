//! Mistakes that need two threads at once are noticed under some of the drawn schedules.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cleavedb_base::planted::{Bug, plant};
use cleavedb_testkit::caught;

use crate::calls::collectors;
use crate::clients::{clients, lookers};
use crate::{Check, answers, bucket_crashes, buckets, collections, schedules, splits};

/// Seeds after which a mistake counts as missed.
const SEEDS: u64 = 240;

/// Runs `check` with a bug planted, until it fails; then, with the same seed, without.
fn caught(bug: Bug, check: Check) {
    let found = (0..SEEDS).find(|seed| {
        plant(Some(bug));
        let outcome = catch_unwind(AssertUnwindSafe(|| schedules(*seed, check)));
        plant(None);
        outcome.is_err()
    });
    let seed = found.unwrap_or_else(|| panic!("nothing notices {bug:?}"));
    println!("{bug:?} is caught by seed {seed}");
    schedules(seed, check);
}

caught! {
    a_read_that_looks_first_and_takes_the_picture_then: VisibleBeforePicture by lookers;
    a_flush_that_does_not_wait_for_commits: FlushBeforeInserts by clients;
    a_compaction_that_does_not_claim_its_inputs: InputsUnclaimed by answers;
    a_table_that_leaves_before_an_older_one: YoungerLeavesFirst by buckets;
    inputs_that_are_unclaimed_before_a_crash: InputsUnclaimed by bucket_crashes;
    names_that_are_not_synced_beside_compactions: NoDirectorySync by bucket_crashes;
    a_run_that_sinks_past_a_collection: RunsSinkPastACollection by answers;
    a_victim_that_another_job_drops: VictimRemovedByOthers by collections;
    a_group_that_splits_under_a_flush: SplitUnderFlush by splits;
    a_log_file_that_ends_under_a_commit: LogEndsUnderWriters by collectors;
    a_commit_published_out_of_order: PublishedOutOfOrder by clients;
}
