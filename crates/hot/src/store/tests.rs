//! What readers find before, during and after a change of the store.

use cleavedb_base::FileNumber;
use cleavedb_base::record::HEADER_LEN;

use super::*;
use crate::change::HotPut;
use crate::evacuation::{LIMIT_MIN_OF_WRITES, LIMIT_OFF};
use crate::segment::{HotSegmentBuilder, SEGMENT_MAX};

fn place(number: u64) -> Location {
    Location { file: FileNumber(number), offset: 4096 }
}

fn pointer(number: u64, at: u64) -> ValuePointer {
    ValuePointer { file: FileNumber(number), offset: 4096 + 100 * at, len: 100 }
}

/// A change that adds segment `number` with a record of each key.
fn added(store: &HotStore, number: u64, keys: &[&[u8]]) -> HotChange {
    let mut builder = HotSegmentBuilder::new(place(number), SEGMENT_MAX);
    let mut change = HotChange::default();
    for (at, key) in (0..).zip(keys) {
        let (key, pointer) = (store.key(key), pointer(number, at));
        builder.add(key, pointer);
        let reason = HotReason::Admitted;
        change.puts.push(HotPut { key, segment: 0, pointer, heat: 1, reason });
    }
    change.segments.push(builder.finish());
    change
}

fn applied(store: &HotStore, change: &HotChange) {
    store.publish(change).unwrap();
    assert_eq!(store.changes() % 2, 1, "readers can tell that a change is under way");
    store.retire(change);
    assert_eq!(store.changes() % 2, 0);
}

#[test]
fn the_newest_record_of_a_key_is_found_until_it_is_taken_out() {
    let store = HotStore::new(7, 1 << 20, None);
    let find = |key: &[u8]| store.find(store.key(key));
    applied(&store, &added(&store, 1, &[b"a", b"b", b"c"]));
    applied(&store, &added(&store, 2, &[b"b"]));
    assert_eq!((find(b"a"), find(b"b")), (Some(pointer(1, 0)), Some(pointer(2, 0))));
    let (a, c) = (store.key(b"a"), store.key(b"c"));
    let change = HotChange { overwritten: vec![a], demoted: vec![c], ..HotChange::default() };
    store.publish(&change).unwrap();
    assert_eq!((find(b"a"), find(b"c")), (None, Some(pointer(1, 2))));
    store.retire(&change);
    assert_eq!((find(b"c"), find(b"b")), (None, Some(pointer(2, 0))));
    let mut live = Vec::new();
    store.for_each(|pointer| live.push(pointer));
    assert_eq!(live, [pointer(2, 0)]);
    let (one, none) = (BTreeSet::from([place(1)]), BTreeSet::new());
    let remembers = |without| store.remembered(&[c, a, store.key(b"absent")], without);
    assert_eq!(remembers(&none), [true, true, false]);
    assert_eq!(remembers(&one), [false; 3]);
    applied(&store, &HotChange { gone: vec![place(1)], ..HotChange::default() });
    assert!(remembers(&none) == [false; 3] && find(b"b").is_some());
    assert_eq!((store.stats().keys, store.stats().segments), (1, 1));
}

#[test]
fn a_key_that_is_read_often_is_proposed_unless_the_store_is_full() {
    let store = HotStore::new(7, 1 << 20, None);
    let (key, proposed) = (store.key(b"read"), [Box::from(*b"read")]);
    let read = || {
        assert_eq!(store.read(key), None);
        store.found_cold(b"read", 100);
        assert!(!store.wants_flush(), "too few for a flush of their own");
        store.take_promotions()
    };
    (1..LIMIT_MIN_OF_WRITES)
        .for_each(|_| assert_eq!(read(), [], "reads and writes are not counted yet"));
    assert_eq!(read(), proposed);
    let full = Fill { live: 1 << 20, capacity: 1 << 20, all_live: 1 << 20 };
    (0..2).for_each(|_| store.adapt(full));
    assert_eq!((store.limit(), read()), (6, Vec::new()), "five reads are not many");
    assert_eq!(read(), proposed);
    store.set_promotes(false);
    assert_eq!(read(), []);
    store.set_promotes(true);
    assert_eq!(read(), proposed);
}

/// Reads leave a key for the next flush again until they find the copy.
#[test]
fn a_key_that_a_flush_has_moved_does_not_wait_for_another() {
    let store = HotStore::new(7, 1 << 20, Some(1));
    let found = |key: &[u8]| {
        assert_eq!(store.read(store.key(key)), None);
        store.found_cold(key, 100);
    };
    found(b"moved");
    assert_eq!(store.take_promotions().len(), 1);
    found(b"moved");
    found(b"other");
    let mut change = added(&store, 1, &[b"moved"]);
    change.puts.iter_mut().for_each(|put| put.reason = HotReason::Promoted);
    applied(&store, &change);
    assert_eq!(store.take_promotions(), [Box::from(*b"other")]);
}

#[test]
fn heat_is_halved_after_many_accesses() {
    let store = HotStore::new(7, 1 << 10, None);
    applied(&store, &added(&store, 1, &[b"hot"]));
    let (hot, cold) = (store.key(b"hot"), store.key(b"cold"));
    let adapt = || store.adapt(Fill { live: 0, capacity: 1 << 10, all_live: 1 << 20 });
    (0..100).for_each(|_| assert!(store.read(hot).is_some()));
    store.written_cold(&[(cold.hash, 8)], |heat| assert_eq!(heat, 8));
    adapt();
    assert_eq!((store.heat(hot), store.heat(cold)), (101, 8), "too few accesses yet");
    store.written(hot, 148);
    adapt();
    assert_eq!((store.heat(hot), store.heat(cold)), (124, 4));
}

#[test]
fn a_store_whose_keys_are_not_accessed_more_than_others_is_off() {
    let fill = Fill { live: 1 << 19, capacity: 1 << 20, all_live: 1 << 20 };
    let limits = |fixed| {
        let store = HotStore::new(7, 1 << 20, fixed);
        applied(&store, &added(&store, 1, &[b"hot"]));
        let (hot, cold) = (store.key(b"hot"), store.key(b"cold"));
        let read_both = || {
            (0..1 << 15).for_each(|_| _ = (store.read(hot), store.read(cold)));
            store.adapt(fill);
        };
        (0..2).for_each(|_| read_both());
        let off = (store.is_on(), store.limit());
        assert_eq!(store.keeps(hot), store.is_on());
        store.written_cold(&[(cold.hash, 1 << 16)], |_| {});
        store.adapt(fill);
        (off, (store.is_on(), store.limit()))
    };
    assert_eq!(
        limits(None),
        ((false, LIMIT_OFF), (true, LIMIT_MIN_OF_WRITES)),
        "off, and tried again"
    );
    assert_eq!(limits(Some(5)), ((true, 5), (true, 5)), "a fixed limit stays");
}

/// Fills a store of `bytes` bytes with records of 24 bytes of key and 1 KiB of value, in segments
/// of 2 MiB, each with a flush; returns it with the bytes of its records.
fn full(bytes: u64) -> (HotStore, u64) {
    const LEN: u32 = HEADER_LEN as u32 + 24 + 1024;
    let store = HotStore::new(7, bytes, None);
    let mut filled = 0;
    for number in 0..bytes / SEGMENT_MAX {
        let place = Location { file: FileNumber(number / 32), offset: number % 32 * SEGMENT_MAX };
        let (mut change, mut builder) =
            (HotChange::default(), HotSegmentBuilder::new(place, SEGMENT_MAX));
        for at in 0..SEGMENT_MAX / u64::from(LEN) {
            let key = store.key(format!("{number:012}{at:012}").as_bytes());
            let offset = place.offset + at * u64::from(LEN);
            let pointer = ValuePointer { file: place.file, offset, len: LEN };
            builder.add(key, pointer);
            let reason = HotReason::Admitted;
            change.puts.push(HotPut { key, segment: 0, pointer, heat: 1, reason });
            filled += u64::from(LEN);
        }
        change.segments.push(builder.finish());
        applied(&store, &change);
    }
    (store, filled)
}

/// At several sizes, as the shards of the index are nearly empty or nearly full.
#[test]
fn a_full_store_takes_few_bytes_of_memory_for_each_record() {
    for mib in [64, 72, 80, 96, 110] {
        let (store, live) = full(mib << 20);
        let HotStats { index_memory, memory, keys, .. } = store.stats();
        let share = |bytes: u64| bytes as f64 * 100.0 / live as f64;
        let (index, all) = (share(index_memory), share(memory));
        println!("{mib} MiB, {keys} keys: index {index:.2}%, in all {all:.2}% of live bytes");
        assert!(index <= 1.0 && all <= 3.5, "index {index:.2}%, in all {all:.2}%");
        assert!(memory <= HotStore::memory_max(mib << 20), "{memory}");
    }
}

#[test]
fn a_store_that_is_off_is_tried_again_although_there_are_only_reads() {
    let store = HotStore::new(7, 1 << 20, None);
    applied(&store, &added(&store, 1, &[b"hot"]));
    let (hot, cold) = (store.key(b"hot"), store.key(b"cold"));
    let fill = Fill { live: 1 << 19, capacity: 1 << 20, all_live: 1 << 20 };
    for _ in 0..2 {
        (0..1 << 15).for_each(|_| _ = store.read(cold));
        store.adapt(fill);
    }
    assert!(!store.is_on());
    (0..1 << 17).for_each(|_| _ = store.read(hot));
    assert!(store.is_on(), "no flush has said so");
}
