//! The MemTable under every schedule of a few threads: no insert is lost, chains are in order, and
//! a reader that finds an entry sees all of it written.
//!
//! Readers wait for the entry that they look for. loom compares only the last access to an atomic
//! with the next, so a writer's own load would hide an earlier read from it.

use std::sync::Arc;

use cleavedb_base::EntryKind;
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::sync::checker::model::Builder;
use cleavedb_base::sync::checker::thread;

use super::MemTable;
use super::arena::NodeArena;

/// One bucket for all keys.
const HASH: u64 = 7;

/// Preemptions in one execution: nearly every known race needs two.
const PREEMPTIONS: usize = 3;

fn explore(check: fn()) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(check);
}

/// A table whose arena has a chunk.
fn table() -> Arc<MemTable> {
    let table = Arc::new(MemTable::new(0));
    put(&table, b"first", 1);
    table
}

fn put(table: &MemTable, key: &[u8], seq: u64) {
    table.insert(key, HASH, seq, EntryKind::Inline, &[seq as u8]);
}

fn writer(table: &Arc<MemTable>, key: &'static [u8], seq: u64) -> thread::JoinHandle<()> {
    let table = table.clone();
    thread::spawn(move || put(&table, key, seq))
}

/// The newest version of `key`, whose value names it.
fn newest(table: &MemTable, key: &[u8]) -> Option<u64> {
    let hit = table.get(key, HASH, SEQ_MAX)?;
    assert_eq!(hit.value, [hit.seq as u8]);
    Some(hit.seq)
}

/// The newest version of `key` once there is one.
fn wait_for(table: &MemTable, key: &[u8]) -> u64 {
    loop {
        if let Some(seq) = newest(table, key) {
            return seq;
        }
        thread::yield_now();
    }
}

fn inserts_into_one_chain() {
    let table = table();
    let writers = [writer(&table, b"key", 2), writer(&table, b"key", 3)];
    let first = wait_for(&table, b"key");
    assert!(newest(&table, b"key") >= Some(first), "a look-up went back in time");
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let versions = table.versions(b"key", HASH, SEQ_MAX);
    assert_eq!(versions.map(|hit| hit.seq).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(newest(&table, b"first"), Some(1));
}

fn a_scan_beside_an_insert() {
    let table = table();
    let writer = writer(&table, b"key", 2);
    wait_for(&table, b"key");
    let count = |table: &Arc<MemTable>| {
        let mut count = 0;
        for mut run in table.iters() {
            run.seek_first().unwrap();
            while run.valid() {
                assert_eq!(run.entry().value, [run.entry().seq as u8]);
                count += 1;
                run.next().unwrap();
            }
        }
        count
    };
    assert_eq!(count(&table), 2, "a scan misses what a look-up found");
    writer.join().unwrap();
}

fn chunks_side_by_side() {
    let arena = Arc::new(NodeArena::new(0, None));
    let threads = [(); 2].map(|()| {
        let arena = arena.clone();
        // Two of them do not fit one chunk.
        thread::spawn(move || [arena.alloc(2048) as usize, arena.alloc(2048) as usize])
    });
    let mut starts: Vec<usize> =
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    starts.push(arena.alloc(2048) as usize);
    starts.sort_unstable();
    assert!(starts.windows(2).all(|pair| pair[0] + 2048 <= pair[1]), "pieces overlap");
}

#[test]
fn no_insert_is_lost_and_chains_are_in_order() {
    explore(inserts_into_one_chain);
}

#[test]
fn a_scan_finds_what_a_look_up_found() {
    explore(a_scan_beside_an_insert);
}

#[test]
fn the_arena_hands_out_every_byte_once() {
    explore(chunks_side_by_side);
}

#[cfg(feature = "test-planted-bugs")]
mod planted {
    use cleavedb_base::planted::{Bug, must_notice};

    #[test]
    fn an_entry_that_is_linked_without_order() {
        must_notice(Bug::LinkedUnordered, || super::explore(super::inserts_into_one_chain));
        must_notice(Bug::LinkedUnordered, || super::explore(super::a_scan_beside_an_insert));
    }

    #[test]
    fn an_entry_that_is_linked_without_exchange() {
        must_notice(Bug::LinkedWithoutExchange, || super::explore(super::inserts_into_one_chain));
    }
}
