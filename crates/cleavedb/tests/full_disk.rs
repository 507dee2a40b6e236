//! Stores on disks without a free byte, under every design.

use cleavedb_testkit::Setup;
use cleavedb_testkit::brim::freed_without_a_free_byte;

fn all_designs(killed: bool) {
    for setup in Setup::designs() {
        freed_without_a_free_byte(&setup, killed).unwrap_or_else(|e| panic!("{setup}: {e}"));
    }
}

#[test]
fn a_closed_store_without_a_free_byte_gives_back_what_is_deleted() {
    all_designs(false);
}

#[test]
fn a_killed_store_without_a_free_byte_gives_back_what_is_deleted() {
    all_designs(true);
}
