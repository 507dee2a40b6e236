//! Visible keys of snapshots, compared with a map of the newest versions.

use std::collections::BTreeMap;

use cleavedb_base::EntryKind;
use cleavedb_base::limits::SEQ_MAX;
use proptest::prelude::{any, proptest};

use super::VisibleIter;
use crate::entry::EntryIter;
use crate::merge::MergeIter;
use crate::testing::{Item, VecIter, items};

/// The time of all reads; expiries lie around it.
const NOW: u64 = 1 << 15;

type Model = BTreeMap<Vec<u8>, Item>;

fn model(list: &[Item], snapshot: u64, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Model {
    let mut model = Model::new();
    for item in list.iter().rev().filter(|item| item.seq <= snapshot) {
        model.insert(item.key.clone(), item.clone());
    }
    model.retain(|key, item| {
        item.kind != EntryKind::Delete
            && item.kind.split(&item.value).unwrap().is_there(|| NOW)
            && lower.is_none_or(|lower| lower <= &key[..])
            && upper.is_none_or(|upper| &key[..] < upper)
    });
    model
}

fn check(iter: &VisibleIter, expected: Option<&Item>) {
    assert_eq!(iter.valid(), expected.is_some());
    if let Some(item) = expected {
        let kind = item.kind.without_expiry();
        assert_eq!((iter.key(), iter.seq(), iter.kind()), (&item.key[..], item.seq, kind));
        let expected = item.kind.split(&item.value).unwrap();
        assert_eq!((iter.until(), iter.value()), (expected.until, expected.value));
        assert_eq!(iter.keep_value(), expected.value);
    }
}

proptest! {
    #[test]
    fn a_snapshot_sees_the_newest_version_of_each_key(
        list in items(150),
        sources in 1usize..5,
        cut in any::<u8>(),
        bounds in any::<[u16; 2]>(),
        steps in proptest::collection::vec(any::<(u8, u16)>(), 1..80),
    ) {
        let snapshot = if cut == 0 { SEQ_MAX } else { u64::from(cut) << 16 };
        // Every other bound is left open.
        let key = |pick: u16| &list[usize::from(pick) % list.len()].key;
        let bound = |pick: u16| pick.is_multiple_of(2).then(|| key(pick / 2).clone());
        let (lower, upper) = (bound(bounds[0]), bound(bounds[1]));
        let model = model(&list, snapshot, lower.as_deref(), upper.as_deref());
        let part = |n: usize| -> Box<dyn EntryIter> {
            let part = list.iter().enumerate().filter(|(i, _)| i % sources == n);
            Box::new(VecIter::new(part.map(|(_, item)| item.clone()).collect()))
        };
        let merged = MergeIter::new((0..sources).map(part).collect());
        let mut iter = VisibleIter::new(merged, snapshot, lower, upper).at_time(NOW);

        let keys: Vec<_> = model.values().collect();
        let mut at: Option<usize> = None;
        for (step, pick) in steps {
            let key = key(pick);
            let behind = keys.partition_point(|item| item.key < *key);
            at = match (step % 8, at) {
                (0, _) => { iter.seek_first().unwrap(); Some(0) }
                (1, _) => { iter.seek_last().unwrap(); keys.len().checked_sub(1) }
                (2, _) => { iter.seek(key).unwrap(); Some(behind) }
                (3, _) => { iter.seek_before(key).unwrap(); behind.checked_sub(1) }
                (4 | 5, Some(i)) => { iter.next().unwrap(); Some(i + 1) }
                (_, Some(i)) => { iter.prev().unwrap(); i.checked_sub(1) }
                (_, None) => None,
            };
            at = at.filter(|&i| i < keys.len());
            check(&iter, at.map(|i| keys[i]));
        }
    }
}

#[test]
fn keys_with_many_versions_are_passed_in_both_directions() {
    let mut list = Vec::new();
    for key in ["a", "b", "c", "d"] {
        list.extend((1..200).rev().map(|seq| Item::inline(key, seq * 2, &seq.to_string())));
    }
    for snapshot in [1, 2, 3, 100, 397, 398, SEQ_MAX] {
        let keys: Vec<Item> = model(&list, snapshot, None, None).into_values().collect();
        let merged = MergeIter::new(vec![Box::new(VecIter::new(list.clone()))]);
        let mut iter = VisibleIter::new(merged, snapshot, None, None);
        iter.seek_first().unwrap();
        for item in &keys {
            check(&iter, Some(item));
            iter.next().unwrap();
        }
        check(&iter, None);
        iter.seek_last().unwrap();
        for item in keys.iter().rev() {
            check(&iter, Some(item));
            iter.prev().unwrap();
        }
        check(&iter, None);
    }
}
