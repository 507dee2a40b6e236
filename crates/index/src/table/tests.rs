//! Tables compared with lists of entries, and tables with damaged bytes.

use std::sync::Arc;

use proptest::prelude::{Just, ProptestConfig, any, prop_oneof, proptest};

use cleavedb_base::ErrorKind;
use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::{BLOCK, SEQ_MAX};

use super::{ReadMode, Table};
use crate::entry::EntryIter;
use crate::table_format::{Compression, TableOptions};
use crate::testing::{
    Item, backwards, check_walk, forwards, items, open, probes, small_blocks, table_bytes,
};

fn compressions() -> impl proptest::strategy::Strategy<Value = Compression> {
    prop_oneof![Just(Compression::None), Just(Compression::Lz4), Just(Compression::Zstd)]
}

fn get(table: &Table, key: &[u8], seq: u64) -> cleavedb_base::Result<Option<u64>> {
    Ok(table.get(key, hash64(key, 0), seq)?.map(|found| found.seq))
}

/// Compares the answers of all queries on a table with the entries that it was made of.
fn check(table: &Arc<Table>, list: &[Item]) {
    for mode in [ReadMode::Cached, ReadMode::Ahead, ReadMode::Last] {
        assert_eq!(forwards(&mut table.iter(mode)), list);
        assert_eq!(backwards(&mut table.iter(mode)), list);
    }
    for (key, seq) in probes(list) {
        let expected: Vec<_> = list.iter().filter(|i| i.key == key && i.seq <= seq).collect();
        let first = expected.first().map(|item| item.seq);
        assert_eq!(get(table, &key, seq).unwrap(), first);
        let mut versions = Vec::new();
        table.versions(&key, hash64(&key, 0), seq, &mut versions).unwrap();
        assert_eq!(versions.len(), expected.len());
        for (version, item) in versions.iter().zip(expected) {
            assert_eq!((version.seq, &version.value[..]), (item.seq, &item.value[..]));
        }
    }
    table.verify().unwrap();
}

/// A look-up reads one page, at the cost of little padding.
#[test]
fn blocks_of_small_entries_end_with_pages() {
    let value = "v".repeat(100);
    let list: Vec<Item> =
        (0..1500).map(|at| Item::inline(&format!("key{at:08}"), 1 + at, &value)).collect();
    for pages in [1, 2] {
        let options = TableOptions { block_bytes: pages * BLOCK, ..TableOptions::default() };
        let table = open(table_bytes(&list, &options)).unwrap();
        check(&table, &list);
        let count = table.index.len();
        for at in 0..count - 1 {
            let end = table.index.handle(at).end();
            assert_eq!(end, ((at + 1) * pages * BLOCK) as u64, "block {at} of {count}");
        }
        assert!(table.meta().size < table.meta().raw_bytes * 21 / 20);
    }
}

/// Where a page holds few entries, padding would be too long.
#[test]
fn blocks_of_large_entries_follow_one_another() {
    let value = "v".repeat(1000);
    let list: Vec<Item> =
        (0..100).map(|at| Item::inline(&format!("key{at:08}"), 1 + at, &value)).collect();
    let table = open(table_bytes(&list, &TableOptions::default())).unwrap();
    check(&table, &list);
    assert!(table.meta().size < table.meta().raw_bytes * 102 / 100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_table_gives_back_what_was_added(
        list in items(200),
        compression in compressions(),
        block_bytes in 50usize..2000,
        steps in proptest::collection::vec(any::<(u8, u16)>(), 0..60),
    ) {
        let options = TableOptions { block_bytes, compression, ..TableOptions::default() };
        let table = open(table_bytes(&list, &options)).unwrap();
        check(&table, &list);
        check_walk(&mut table.iter(ReadMode::Cached), &list, &steps);
        check_walk(&mut table.iter(ReadMode::Ahead), &list, &steps);
        let meta = table.meta();
        assert_eq!(meta.entries, list.len() as u64);
        assert_eq!((&*meta.smallest, &*meta.largest),
            (&list[0].key[..], &list[list.len() - 1].key[..]));
    }
}

fn sample() -> Vec<Item> {
    let mut list = Vec::new();
    for i in 0..30u64 {
        let key = format!("key{i:03}");
        list.push(Item::inline(&key, 1000 + i, "a value of some bytes"));
        list.push(Item::pointer(&key, 500 + i, i * 100));
        list.push(Item::delete(&key, i));
    }
    list
}

/// Damaged tables may only fail, or answer as the intact one.
fn check_damaged(bytes: Vec<u8>, list: &[Item]) -> bool {
    let Ok(table) = open(bytes) else { return true };
    let mut failed = table.verify().is_err();
    for item in list {
        match get(&table, &item.key, item.seq) {
            Ok(seq) => assert_eq!(seq, Some(item.seq), "a wrong answer"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                assert!(error.fact("file").is_some() && error.fact("offset").is_some());
                failed = true;
            }
        }
    }
    let mut iter = table.iter(ReadMode::Cached);
    let mut moved = iter.seek_first();
    let mut seen = Vec::new();
    while moved.is_ok() && iter.valid() {
        seen.push(Item::of(iter.entry()));
        moved = iter.next();
    }
    match moved {
        Ok(()) => assert_eq!(seen, list),
        Err(_) => {
            assert!(!iter.valid() && iter.next().is_err() && iter.seek(b"", 0).is_err());
            failed = true;
        }
    }
    failed
}

#[test]
fn every_flipped_byte_of_a_table_is_noticed() {
    for compression in [Compression::None, Compression::Lz4] {
        let list = sample();
        let bytes = table_bytes(&list, &small_blocks(compression));
        for i in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[i] ^= flip;
                assert!(check_damaged(damaged, &list), "byte {i} of {}", bytes.len());
            }
        }
    }
}

#[test]
fn every_truncation_of_a_table_is_noticed() {
    let list = sample();
    let bytes = table_bytes(&list, &small_blocks(Compression::None));
    for len in 0..bytes.len() {
        assert!(open(bytes[..len].to_vec()).is_err(), "length {len}");
    }
    assert!(open([&bytes[..], b"more"].concat()).is_err());
}

#[test]
fn versions_of_one_key_may_span_many_blocks() {
    let list: Vec<Item> = (0..500).rev().map(|seq| Item::inline("key", seq, "value")).collect();
    let table = open(table_bytes(&list, &small_blocks(Compression::None))).unwrap();
    for seq in 0..500 {
        assert_eq!(get(&table, b"key", seq).unwrap(), Some(seq));
    }
    assert_eq!(get(&table, b"key", SEQ_MAX).unwrap(), Some(499));
    assert_eq!(table.meta().shadowed, 499);
    table.verify().unwrap();
}

#[test]
fn a_value_larger_than_the_write_buffer_is_stored() {
    let large = "x".repeat(3 << 20);
    let list = vec![Item::inline("a", 1, "small"), Item::inline("b", 2, &large)];
    let table = open(table_bytes(&list, &TableOptions::default())).unwrap();
    check(&table, &list);
}
