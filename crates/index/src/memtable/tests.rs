//! The MemTable compared with an ordered map, with one and with several writers.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleavedb_base::EntryKind;
use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::SEQ_MAX;

use super::MemTable;

fn put(table: &MemTable, key: &[u8], seq: u64, value: &[u8]) {
    table.insert(key, hash64(key, 0), seq, EntryKind::Inline, value);
}

fn get(table: &MemTable, key: &[u8], snapshot: u64) -> Option<(u64, Vec<u8>)> {
    table.get(key, hash64(key, 0), snapshot).map(|hit| (hit.seq, hit.value.to_vec()))
}

/// All entries in index order, through the iterators.
fn walk(table: &Arc<MemTable>) -> Vec<(Vec<u8>, u64)> {
    let mut all = Vec::new();
    for mut iter in table.iters() {
        iter.seek_first().unwrap();
        while iter.valid() {
            all.push((iter.entry().key.to_vec(), iter.entry().seq));
            iter.next().unwrap();
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    all
}

#[test]
fn a_look_up_finds_the_newest_version_at_or_below_the_snapshot() {
    let table = MemTable::new(1 << 16);
    for seq in [1, 5, 9] {
        put(&table, b"k", seq, &[seq as u8]);
    }
    assert_eq!(get(&table, b"k", 0), None);
    assert_eq!(get(&table, b"k", 4), Some((1, vec![1])));
    assert_eq!(get(&table, b"k", 5), Some((5, vec![5])));
    assert_eq!(get(&table, b"k", SEQ_MAX), Some((9, vec![9])));
    assert_eq!(get(&table, b"other", SEQ_MAX), None);
}

#[test]
fn versions_inserted_out_of_order_are_still_found_in_order() {
    let table = MemTable::new(1 << 16);
    for seq in [5, 9, 1, 7] {
        put(&table, b"k", seq, &[seq as u8]);
    }
    assert_eq!(get(&table, b"k", SEQ_MAX), Some((9, vec![9])));
    assert_eq!(get(&table, b"k", 8), Some((7, vec![7])));
    let versions = table.versions(b"k", hash64(b"k", 0), 8);
    assert_eq!(versions.map(|hit| hit.seq).collect::<Vec<_>>(), [7, 5, 1]);
}

#[test]
fn iterators_see_everything_whenever_they_are_asked_for() {
    let table = Arc::new(MemTable::new(1 << 12));
    let mut model = BTreeMap::new();
    for seq in 1..2_000u64 {
        let key = format!("key{:04}", seq * 7919 % 500);
        put(&table, key.as_bytes(), seq, b"v");
        model.insert((key.into_bytes(), SEQ_MAX - seq), ());
        if seq % 97 == 0 || seq < 10 {
            let expected: Vec<_> = model.keys().map(|(k, s)| (k.clone(), SEQ_MAX - s)).collect();
            assert_eq!(walk(&table), expected, "after {seq} inserts");
            assert!(table.iters().len() < 12, "runs merge as they grow");
        }
    }
    let mut flushed = Vec::new();
    table
        .for_each_sorted(|e| {
            flushed.push((e.key.to_vec(), e.seq));
            Ok::<(), ()>(())
        })
        .unwrap();
    assert_eq!(flushed, walk(&table));
}

#[test]
fn seeks_land_where_the_order_says() {
    let table = Arc::new(MemTable::new(1 << 12));
    for (key, seq) in [("b", 2), ("b", 6), ("d", 4)] {
        put(&table, key.as_bytes(), seq, b"");
    }
    let mut iter = table.iters().remove(0);
    let mut at = |key: &str, seq, before: bool| {
        let key = key.as_bytes();
        if before {
            iter.seek_before(key, seq).unwrap()
        } else {
            iter.seek(key, seq).unwrap()
        }
        iter.valid().then(|| (iter.entry().key.to_vec(), iter.entry().seq))
    };
    assert_eq!(at("b", SEQ_MAX, false), Some((b"b".to_vec(), 6)));
    assert_eq!(at("b", 5, false), Some((b"b".to_vec(), 2)));
    assert_eq!(at("c", SEQ_MAX, false), Some((b"d".to_vec(), 4)));
    assert_eq!(at("e", SEQ_MAX, false), None);
    assert_eq!(at("b", SEQ_MAX, true), None);
    assert_eq!(at("d", SEQ_MAX, true), Some((b"b".to_vec(), 2)));
}

#[test]
fn writers_and_readers_at_once_lose_nothing() {
    let table = Arc::new(MemTable::new(1 << 14));
    let (threads, per_thread) = (4u64, 5_000u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let table = &table;
            scope.spawn(move || {
                for i in 0..per_thread {
                    let seq = i * threads + thread + 1;
                    put(table, format!("k{:03}", i % 200).as_bytes(), seq, &seq.to_le_bytes());
                    if i % 512 == 0 {
                        table.iters();
                    }
                }
            });
        }
    });
    assert_eq!(walk(&table).len() as u64, threads * per_thread);
    for i in 0..200u64 {
        let key = format!("k{i:03}");
        let last = (per_thread - 200 + i) * threads + threads;
        let newest = get(&table, key.as_bytes(), SEQ_MAX).unwrap();
        assert_eq!(newest, (last, last.to_le_bytes().to_vec()));
    }
}

/// Few entries are counted one by one, however large the table; of many a part stands for all.
#[test]
fn a_sample_stands_for_all() {
    for (count, most) in [(0, 100), (1, 100), (100, 100), (20_000, 1000)] {
        let table = MemTable::new(16 << 20);
        for number in 0..count {
            let key = format!("key{number:06}").into_bytes();
            table.insert(&key, hash64(&key, 0), number + 1, EntryKind::Inline, b"value");
        }
        let (mut seen, mut lower) = (0u64, 0u64);
        let each = table.sample(most, |entry| {
            seen += 1;
            lower += u64::from(entry.key < &b"key005000"[..]);
        });
        if count <= most as u64 {
            assert_eq!((seen, each), (count, 1));
        } else {
            let near = |found: u64, truth: u64| found * 4 > truth * 3 && found * 3 < truth * 4;
            assert!(near(seen * each, count) && near(lower * each, 5000), "{seen} of {each}");
        }
    }
}
