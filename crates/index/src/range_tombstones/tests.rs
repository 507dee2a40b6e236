//! Range tombstones against a plain list of them.

use std::collections::BTreeSet;

use cleavedb_base::SeqNo;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

use super::{DeletedRanges, Fragments, RATIO, RangeTombstone};

fn tombstone(id: u64, begin: &[u8], end: &[u8], seq: SeqNo) -> RangeTombstone {
    RangeTombstone { id, begin: begin.into(), end: end.into(), seq, eager: id.is_multiple_of(3) }
}

/// A key with one or two bytes, of few different ones.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0..12u8).prop_map(|a| vec![a]),
        (0..12u8, 0..3u8).prop_map(|(a, b)| vec![a, b]),
        Just(Vec::new()),
    ]
}

/// Begin, end and sequence number of a tombstone.
type Drawn = (Vec<u8>, Vec<u8>, SeqNo);

/// Batches of tombstones to add; after each of them some leave.
fn changes() -> impl Strategy<Value = Vec<(Vec<Drawn>, u64)>> {
    let one = (key(), key(), 1..30u64);
    proptest::collection::vec((proptest::collection::vec(one, 0..5), any::<u64>()), 0..12)
}

/// Every key that a range may end at, and keys beside them.
fn keys() -> Vec<Vec<u8>> {
    let two = (0..13u8).flat_map(|a| (0..4u8).map(move |b| vec![a, b]));
    let mut keys: Vec<_> = two.chain((0..13u8).map(|a| vec![a])).chain([vec![]]).collect();
    keys.sort();
    keys
}

fn covers(tombstone: &RangeTombstone, key: &[u8]) -> bool {
    &*tombstone.begin <= key && key < &*tombstone.end
}

/// Compares the parts of a range that are not hidden with a list of all tombstones.
fn check_gaps(
    fragments: &Fragments,
    list: &[RangeTombstone],
    (low, high): (&[u8], &[u8]),
    after: SeqNo,
) {
    let is_hidden = |key: &[u8]| list.iter().any(|it| it.seq > after && covers(it, key));
    let gaps = fragments.gaps(low, high, after, usize::MAX);
    let one = fragments.gaps(low, high, after, 1);
    for key in keys().iter().filter(|key| *low <= ***key && ***key < *high) {
        let count = |gaps: &[(&[u8], &[u8])]| {
            gaps.iter().filter(|(from, to)| *from <= &**key && &**key < *to).count()
        };
        assert_eq!(count(&gaps), usize::from(!is_hidden(key)), "{key:?} of {gaps:?}");
        assert!(is_hidden(key) || count(&one) == 1);
    }
}

proptest! {
    #[test]
    fn look_ups_agree_with_a_list(
        changes in changes(),
        upto in 0..32u64,
        settled in prop_oneof![Just(0), 1..20u64],
        (after, seen) in (0..30u64, 0..32u64),
        (low, high) in (key(), key()),
    ) {
        let (mut set, mut list) = (DeletedRanges::default(), Vec::new());
        let mut id = 0;
        for (added, leaving) in changes {
            let added: Vec<RangeTombstone> = added
                .into_iter()
                .map(|(begin, end, seq)| {
                    id += 1;
                    tombstone(id, &begin, &end, seq)
                })
                .collect();
            let before = set.clone();
            set = set.with(added.clone(), settled);
            assert_eq!(before.iter().count(), list.len(), "the old set is as it was");
            list.extend(added);
            let ids: BTreeSet<u64> = (0..64).filter(|bit| leaving >> bit & 1 == 1).collect();
            if leaving % 4 == 0 {
                set = set.without(&ids);
                list.retain(|tombstone| !ids.contains(&tombstone.id));
            }
        }
        assert_eq!(set.is_empty(), list.is_empty());
        let mut members: Vec<u64> = set.iter().map(|tombstone| tombstone.id).collect();
        members.sort_unstable();
        assert_eq!(members, list.iter().map(|tombstone| tombstone.id).collect::<Vec<_>>());
        let fragments = set.fragments(upto);
        let upto = if id > 0 { upto.max(settled) } else { upto };
        assert_eq!(fragments.upto(), upto);
        list.retain(|tombstone| tombstone.seq <= upto);
        let mut covering = vec![99];
        for key in keys() {
            fragments.covering(&key, &mut covering);
            let mut expected: Vec<SeqNo> =
                list.iter().filter(|it| covers(it, &key)).map(|it| it.seq).collect();
            expected.sort_unstable();
            expected.dedup();
            covering.dedup();
            // The newest settled one stands for all before it.
            let stands = expected.iter().rposition(|seq| *seq <= settled).unwrap_or(0);
            assert!(covering.ends_with(&expected[stands..]), "{covering:?} of {expected:?}");
            assert!(covering.iter().all(|seq| expected.contains(seq)));
            let covered = expected.iter().any(|seq| *seq > after);
            assert_eq!(fragments.covers(&key, after), covered);
            assert_eq!(set.covers(&key, after, upto), covered);
        }
        let (low, high) = if low <= high { (low, high) } else { (high, low) };
        let within = |key: &&Vec<u8>| low <= **key && **key <= high;
        let seen = seen.max(settled);
        let (all, upto) = (keys(), upto.min(seen));
        let between = |it: &&RangeTombstone| (after + 1..=upto).contains(&it.seq);
        let is_hidden = |key: &Vec<u8>| list.iter().filter(between).any(|it| covers(it, key));
        let hidden = all.iter().filter(within).all(is_hidden);
        assert_eq!(fragments.hides_all(&low, &high, after, seen), hidden);
        check_gaps(&fragments, &list, (&low, &high), after);
        let any = all.iter().filter(within).any(is_hidden);
        assert_eq!(fragments.overlaps(&low, &high, after, seen), any);
        let eager = |key: &Vec<u8>| {
            list.iter().filter(between).any(|it| it.eager && covers(it, key))
        };
        let eager = all.iter().filter(within).any(eager);
        assert_eq!(fragments.overlaps_eager(&low, &high, after, seen), eager);
    }
}

/// A set that grows by one at a time has few tiers, each much longer than the next: adding one
/// copies a few.
#[test]
fn tiers_are_few() {
    let mut set = DeletedRanges::default();
    for id in 0..5_000u64 {
        let (begin, end) = (id.to_be_bytes(), (id + 1).to_be_bytes());
        set = set.with([tombstone(id, &begin, &end, id + 1)], 0);
        let lens: Vec<usize> = set.tiers.iter().map(|tier| tier.tombstones.len()).collect();
        assert!(
            lens.len() <= 6 && lens.windows(2).all(|pair| pair[0] >= RATIO * pair[1]),
            "{lens:?}"
        );
    }
    let fragments = set.fragments(4_000);
    let hides = |last: u64| fragments.hides_all(&0u64.to_be_bytes(), &last.to_be_bytes(), 0, 5_000);
    assert!(hides(3_999) && !hides(4_000));
}

/// Deletes of everything up to a key that moves on, as a log of events makes them, must not make
/// each fragment list all of them.
#[test]
fn settled_tombstones_make_short_lists() {
    let mut set = DeletedRanges::default();
    for id in 1..2_000u64 {
        let end = id.to_be_bytes();
        set = set.with([tombstone(id, &[], &end, id)], id.saturating_sub(5));
    }
    let listed: usize = set.tiers.iter().flat_map(|tier| &tier.covers).map(|it| it.all.len()).sum();
    assert!(listed < 30_000, "{listed} sequence numbers are listed");
    assert!(set.covers(&7u64.to_be_bytes(), 1_900, 2_000));
    assert!(!set.covers(&1_999u64.to_be_bytes(), 0, 2_000));
}
