//! A shard of the hot index under every schedule of a writer beside a reader, and of two writers: a
//! reader finds what is there throughout, and no change is lost.

use std::sync::Arc;

use cleavedb_base::sync::checker::model::Builder;
use cleavedb_base::sync::checker::thread;

use crate::entry::PackedEntry;
use crate::shard::Shard;
use crate::slot::Slot;
use crate::table::{HotTable, Insertion, tag};

/// A hash that selects the first bucket by all functions, in tables of all sizes.
const FIRST: u64 = 1 << 42;

/// Preemptions in one execution: nearly every known race needs two.
const PREEMPTIONS: usize = 3;

/// Accesses to atomics in one execution: each word that a search looks at is one.
const BRANCHES: usize = 10_000;

fn explore(check: fn()) {
    let mut builder = Builder::new();
    builder.max_branches = BRANCHES;
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(check);
}

fn slot(record: u16) -> Slot {
    Slot { segment: 1, record }
}

/// Inserts records with the hash [`FIRST`].
fn insert(shard: &Shard, records: impl IntoIterator<Item = u16>) {
    records.into_iter().for_each(|record| shard.insert(FIRST, slot(record), 1, &|_| FIRST));
}

/// A shard with `count` entries of one hash: four in a bucket, the others in its chain.
fn shard(buckets: usize, count: u16) -> Arc<Shard> {
    let shard = Shard::new(HotTable::new(buckets));
    insert(&shard, 0..count);
    Arc::new(shard)
}

fn beside(shard: &Arc<Shard>, work: impl FnOnce(&Shard) + 'static) -> thread::JoinHandle<()> {
    let shard = shard.clone();
    thread::spawn(move || work(&shard))
}

#[track_caller]
fn has(shard: &Shard, records: impl IntoIterator<Item = u16>) {
    for record in records {
        let found = shard.find(FIRST, |found| found == slot(record));
        assert_eq!(found, Some(slot(record)));
    }
}

/// The eighth entry of eight places is above the greatest load.
fn a_look_up_beside_growth() {
    let shard = shard(2, 7);
    let before = shard.memory();
    let writer = beside(&shard, |shard| insert(shard, [7]));
    assert_eq!(shard.touch(FIRST, |found| found == slot(0)), Some(slot(0)));
    has(&shard, [5, 6]);
    writer.join().unwrap();
    assert!(shard.memory() > before, "the shard did not grow");
    has(&shard, 0..8);
    // The access may have been counted in the table that is gone.
    assert!(matches!(shard.heat(FIRST, slot(0)), Some(1 | 2)));
}

fn a_look_up_beside_a_delete_in_its_chain() {
    let shard = shard(3, 7);
    let writer = beside(&shard, |shard| assert!(shard.remove(FIRST, slot(5))));
    assert_eq!(shard.touch(FIRST, |found| found == slot(4)), Some(slot(4)));
    has(&shard, [6]);
    writer.join().unwrap();
    has(&shard, [0, 1, 2, 3, 4, 6]);
    assert!(shard.find(FIRST, |found| found == slot(5)).is_none());
    assert_eq!((shard.heat(FIRST, slot(4)), shard.len()), (Some(2), 6));
}

/// The last chained entry goes to the bucket.
fn a_look_up_beside_a_delete_in_its_bucket() {
    let shard = shard(2, 5);
    let writer = beside(&shard, |shard| assert!(shard.remove(FIRST, slot(1))));
    assert_eq!(shard.touch(FIRST, |found| found == slot(4)), Some(slot(4)));
    writer.join().unwrap();
    has(&shard, [0, 2, 3, 4]);
    assert_eq!((shard.heat(FIRST, slot(4)), shard.len()), (Some(2), 4));
}

fn an_access_beside_a_move() {
    let shard = shard(1, 1);
    let writer = beside(&shard, |shard| assert!(shard.move_to(FIRST, slot(0), slot(9))));
    let found = shard.touch(FIRST, |found| [slot(0), slot(9)].contains(&found));
    assert!(found.is_some());
    writer.join().unwrap();
    assert_eq!((shard.heat(FIRST, slot(0)), shard.heat(FIRST, slot(9))), (None, Some(2)));
}

fn a_halving_beside_an_access_and_growth() {
    let shard = shard(1, 3);
    let halving = beside(&shard, Shard::halve);
    shard.touch(FIRST, |found| found == slot(0));
    insert(&shard, [3]);
    halving.join().unwrap();
    has(&shard, 0..4);
    let heats = [0, 1, 2].map(|record| shard.heat(FIRST, slot(record)).unwrap());
    assert_eq!(heats[1..], [0, 0], "a halving is lost");
    assert_eq!(heats[0], 1, "an access is lost");
}

/// A table in which entry 9 moves to another bucket for a fourth one of [`FIRST`], and its hash.
fn movable() -> (HotTable, u64) {
    let with = |hash: u64| {
        let mut table = HotTable::new(2);
        for (record, hash) in [(9, hash), (0, FIRST), (1, FIRST), (2, FIRST)] {
            let plan = table.plan(hash, &|_| hash);
            table.put(plan, PackedEntry::new(tag(hash), slot(record), 1));
        }
        (table, hash)
    };
    let moves = |(table, hash): &(HotTable, u64)| {
        let of = |at: Slot| if at == slot(9) { *hash } else { FIRST };
        matches!(table.plan(FIRST, &of), Insertion::Moved { .. })
    };
    (1..100).map(with).find(moves).expect("a few hashes have two buckets")
}

fn a_look_up_of_an_entry_that_moves_to_another_bucket() {
    let (table, hash) = movable();
    let shard = Arc::new(Shard::new(table));
    let of = move |at: Slot| if at == slot(9) { hash } else { FIRST };
    let writer = beside(&shard, move |shard| shard.insert(FIRST, slot(3), 1, &of));
    assert_eq!(shard.touch(hash, |found| found == slot(9)), Some(slot(9)));
    writer.join().unwrap();
    has(&shard, 0..4);
    assert_eq!(shard.heat(hash, slot(9)), Some(2));
}

/// Both grow the shard, the second one perhaps the first one's.
fn two_inserts() {
    let shard = shard(1, 3);
    let writer = beside(&shard, |shard| insert(shard, [3]));
    insert(&shard, [4]);
    has(&shard, [0, 4]);
    writer.join().unwrap();
    has(&shard, 0..5);
    assert_eq!(shard.len(), 5);
}

#[test]
fn entries_are_found_while_a_shard_grows() {
    explore(a_look_up_beside_growth);
}

#[test]
fn entries_are_found_while_others_are_removed() {
    explore(a_look_up_beside_a_delete_in_its_chain);
    explore(a_look_up_beside_a_delete_in_its_bucket);
}

#[test]
fn entries_are_found_while_they_move() {
    explore(an_access_beside_a_move);
    explore(a_look_up_of_an_entry_that_moves_to_another_bucket);
}

#[test]
fn no_insert_and_no_halving_is_lost() {
    explore(two_inserts);
    explore(a_halving_beside_an_access_and_growth);
}

#[cfg(feature = "test-planted-bugs")]
mod planted {
    use cleavedb_base::planted::{Bug, must_notice};

    #[test]
    fn a_chain_that_breaks_under_a_reader() {
        must_notice(Bug::ChainBroken, || {
            super::explore(super::a_look_up_beside_a_delete_in_its_chain);
        });
    }

    #[test]
    fn a_growth_that_loses_entries_under_a_reader() {
        must_notice(Bug::RehashLosesEntries, || super::explore(super::a_look_up_beside_growth));
    }
}
