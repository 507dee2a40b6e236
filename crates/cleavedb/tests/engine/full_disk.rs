//! Stores on disks without a free byte, under every design.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use cleavedb::Preset;
use cleavedb_testkit::Setup;
use cleavedb_testkit::brim::{
    a_full_disk_is_asked_seldom, closed_when_full, deleted_in_a_reflink_copy,
    freed_where_others_fill_the_disk, freed_without_a_free_byte, refused_when_full,
};
use cleavedb_testkit::budget::in_turn;

fn all_designs(killed: bool, ranges: bool) {
    for setup in Setup::designs() {
        let freed = freed_without_a_free_byte(&setup, killed, ranges);
        freed.unwrap_or_else(|e| panic!("{setup}: {e}"));
    }
}

#[test]
fn a_closed_store_without_a_free_byte_gives_back_what_is_deleted() {
    all_designs(false, false);
}

#[test]
fn a_killed_store_without_a_free_byte_gives_back_what_is_deleted() {
    all_designs(true, false);
}

#[test]
fn a_store_without_a_free_byte_gives_back_deleted_ranges() {
    all_designs(false, true);
}

/// The reserve of the copy had the blocks of the original: it was cut, and nothing became free.
#[test]
fn a_reflink_copy_makes_a_reserve_of_its_own_and_deletes_from_it() {
    for setup in Setup::designs() {
        for full_at_first in [false, true] {
            deleted_in_a_reflink_copy(&setup, full_at_first)
                .unwrap_or_else(|e| panic!("{setup}, full at first: {full_at_first}: {e}"));
        }
    }
}

/// A write began a MemTable and a log file, and was then refused: the close dropped the log file
/// before, since nothing pointed into the last one.
#[test]
fn a_close_behind_a_refused_write_keeps_the_log_that_tables_point_to() {
    for setup in Setup::designs() {
        let mut setup = setup.clone();
        setup.options.tuning.memtable_log_bytes = setup.options.tuning.log_file_bytes;
        for capacity in (0..40).map(|i| (700 << 10) + i * (3 << 10)) {
            closed_when_full(&setup, capacity)
                .unwrap_or_else(|e| panic!("{setup}, {capacity} bytes: {e}"));
        }
    }
}

/// On a full disk, each delete asked for a step of the log and for the whole reserve, which costs
/// as much as if there were room: deletes crawled, and so did the close.
#[test]
fn a_full_disk_is_asked_seldom_for_what_it_has_not() {
    for setup in Setup::designs() {
        a_full_disk_is_asked_seldom(&setup).unwrap_or_else(|e| panic!("{setup}: {e}"));
    }
}

/// A writer waited for a compaction that had no room, and was told that nothing was due: that it is
/// a bug.
#[test]
fn a_write_that_waits_without_room_is_told_of_the_full_disk() {
    for setup in Setup::designs() {
        for records in (100..1_000).step_by(60) {
            refused_when_full(&setup, records).unwrap_or_else(|e| panic!("{setup}: {e}"));
        }
    }
}

/// Time after which a phase of a check counts as one that never ends.
const LIMIT: Duration = Duration::from_secs(120);

/// Log files of a small store were as long as those of a large one, and longer than its reserve:
/// where each of them was mostly alive, none could be collected.
#[test]
fn a_small_store_gives_back_what_is_deleted_where_others_fill_the_disk() {
    for records in [(6_000, 1_000), (40_000, 100), (600, 16 << 10)] {
        for preset in in_turn(Preset::ALL.into()) {
            let (begins, phases) = channel();
            // In a thread of its own: a call that never ends fails here, and says where it waits.
            let check =
                thread::spawn(move || freed_where_others_fill_the_disk(preset, records, &begins));
            let mut last = None;
            loop {
                match phases.recv_timeout(LIMIT) {
                    Ok(phase) => last = Some(phase),
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => {
                        let phase = last.map(|(phase, db)| (phase, db.map(|db| db.metrics())));
                        panic!("{preset}, {records:?}: waits for ever in {phase:?}");
                    }
                }
            }
            let done = check.join().unwrap();
            done.unwrap_or_else(|e| panic!("{preset}, (records, bytes of each) {records:?}: {e}"));
        }
    }
}
