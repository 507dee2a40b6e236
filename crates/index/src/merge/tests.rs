//! Merges compared with sorted lists.

use proptest::prelude::{any, proptest};

use super::MergeIter;
use crate::entry::EntryIter;
use crate::testing::{Item, VecIter, backwards, check_walk, forwards, items, sort};

fn merge_of(sources: &[Vec<Item>]) -> MergeIter {
    let boxed = |items: &Vec<Item>| Box::new(VecIter::new(items.clone())) as Box<dyn EntryIter>;
    MergeIter::new(sources.iter().map(boxed).collect())
}

/// Distributes `list` over sources: each item to those whose bit is set in its mask.
fn deal(list: &[Item], masks: &[u8], count: usize) -> Vec<Vec<Item>> {
    let mut sources = vec![Vec::new(); count];
    for (item, mask) in list.iter().zip(masks.iter().cycle()) {
        let mask = usize::from(*mask) % (1 << count);
        for (i, source) in sources.iter_mut().enumerate() {
            if mask == 0 && i == 0 || mask >> i & 1 == 1 {
                // The value tells the source of an entry.
                let value = format!("from {i}").into_bytes();
                source.push(Item { value, ..item.clone() });
            }
        }
    }
    sources
}

proptest! {
    #[test]
    fn a_merge_is_the_sorted_union_youngest_first(
        list in items(100),
        masks in proptest::collection::vec(any::<u8>(), 1..30),
        count in 1usize..7,
        steps in proptest::collection::vec(any::<(u8, u16)>(), 0..100),
    ) {
        let sources = deal(&list, &masks, count);
        // A stable sort of the sources, youngest first, keeps equal entries in that order.
        let mut union = sources.concat();
        sort(&mut union);
        assert_eq!(forwards(&mut merge_of(&sources)), union);
        assert_eq!(backwards(&mut merge_of(&sources)), union);
        check_walk(&mut merge_of(&sources), &union, &steps);
    }
}

#[test]
fn a_merge_of_nothing_is_empty() {
    for sources in [vec![], vec![vec![]], vec![vec![], vec![], vec![]]] {
        let mut merged = merge_of(&sources);
        assert!(!merged.valid());
        assert!(forwards(&mut merged).is_empty() && backwards(&mut merged).is_empty());
    }
}
