//! Filters of whole groups, in memory: one look tells whether a group may hold a key.
//!
//! A flush asks for each delete and each inline value whether the group of its key may hold an
//! older record of it, which then needs a group tombstone. Each extent has a filter of its own on
//! the disk, but a group has many extents: asked one after the other, their false answers add up.
//!
//! Invariant: a filter names the extents whose keys it holds, all of them, and it answers for these
//! extents only. Extents are never changed and their places never used again. So whatever flushes,
//! collections, splits and failed jobs do, and in whatever order, no key is missed: for an extent
//! that the group's filter does not name, its own filter is asked. These are the extents from
//! before the open, until their group is collected, those that a flush added beside a collection,
//! and those for which there was no memory.
//!
//! Filters are kept from the first question on: a store of separated values without deletes needs
//! none.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleavedb_base::filter::BloomFilter;
use cleavedb_base::planted::{Bug, planted};

use super::extent::{Extent, Location};
use super::writer::{FILTER_BITS, KeyHashes};
use crate::partition::GroupId;

/// Filter bits per key: 1 absent key in 1,000 passes.
const BITS: u32 = 16;

/// A filter that a collection builds has room for the keys that it found, and for a quarter of
/// their number more: most flushes update keys that are there.
const SPARE_PART: usize = 4;

/// A filter, the number of its keys, and the number for which it has room.
#[derive(Clone, Debug)]
struct Layer {
    filter: BloomFilter,
    keys: usize,
    keys_max: usize,
}

/// The filter of one group.
#[derive(Clone, Debug, Default)]
pub struct GroupFilter {
    /// Each key is in one of them. A collection leaves one; flushes add another when it is full.
    layers: Vec<Layer>,
    /// The extents whose keys it holds.
    extents: Vec<Location>,
    /// Group tombstones, since the last collection, that were probably written for nothing.
    false_stubs: f64,
}

impl GroupFilter {
    /// Whether it holds the keys of the extent at `place`.
    pub fn covers(&self, place: Location) -> bool {
        self.extents.contains(&place)
    }

    /// Whether an extent that it covers may have a record of a key with this hash; `false` is
    /// certain.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.layers.iter().any(|layer| layer.filter.may_contain(hash))
    }

    fn memory(&self) -> usize {
        self.layers.iter().map(|layer| layer.filter.memory()).sum()
    }

    /// How many keys that the group does not hold were probably taken for keys that it holds, if
    /// `denied` others were not, and `uncovered` extents were asked with the filter.
    pub fn false_answers(&self, denied: u64, uncovered: usize) -> f64 {
        let rate = self.false_rate(uncovered);
        if rate < 1.0 { denied as f64 * rate / (1.0 - rate) } else { 0.0 }
    }

    /// The share of absent keys that pass the filter, or that of one of the uncovered extents.
    fn false_rate(&self, uncovered: usize) -> f64 {
        let of_layer = |layer: &Layer| {
            let bits = (layer.filter.memory() * 8) as f64;
            1.0 - BloomFilter::false_rate(bits / layer.keys.max(1) as f64)
        };
        let of_extent = 1.0 - BloomFilter::false_rate(f64::from(FILTER_BITS));
        let denied = self.layers.iter().map(of_layer).product::<f64>();
        1.0 - denied * of_extent.powi(uncovered as i32)
    }

    /// Adds the keys of the extent at `place`, if the filter may grow by `room` bytes for them.
    /// About `spare` keys more will follow.
    fn add(&mut self, place: Location, hashes: &[u64], spare: usize, room: usize) {
        let absent = |hash: &&u64| !self.may_contain(**hash) && !planted(Bug::GroupFilterForgets);
        let new: Vec<u64> = hashes.iter().filter(absent).copied().collect();
        let full = |layer: &Layer| layer.keys + new.len() > layer.keys_max;
        if !new.is_empty() && self.layers.last().is_none_or(full) {
            // Room for as many as there are: a group that only grows has few layers.
            let keys: usize = self.layers.iter().map(|layer| layer.keys).sum();
            let keys_max = new.len() + spare.max(keys);
            let filter = BloomFilter::with_room(keys_max, BITS);
            if filter.memory() > room {
                return;
            }
            self.layers.push(Layer { filter, keys: 0, keys_max });
        }
        if let Some(layer) = self.layers.last_mut() {
            new.iter().for_each(|hash| layer.filter.insert(*hash));
            layer.keys += new.len();
        }
        self.extents.push(place);
    }
}

/// The filters of all groups.
#[derive(Debug)]
pub struct GroupFilters {
    groups: BTreeMap<GroupId, Arc<GroupFilter>>,
    memory: usize,
    memory_max: usize,
    used: bool,
}

impl GroupFilters {
    /// No filters yet; together they will take at most `memory_max` bytes.
    pub fn new(memory_max: usize) -> Self {
        Self { groups: BTreeMap::new(), memory: 0, memory_max, used: false }
    }

    /// The filter of a group, for questions; one that covers nothing if there is none. From now on
    /// filters are kept.
    pub fn of(&mut self, group: GroupId) -> Arc<GroupFilter> {
        self.used = true;
        self.groups.get(&group).cloned().unwrap_or_default()
    }

    /// Whether filters are kept: then flushes and collections must tell the keys of what they
    /// write.
    pub fn are_used(&self) -> bool {
        self.used
    }

    /// Bytes of all filters.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Group tombstones of a group that were probably written for nothing since its last
    /// collection.
    pub fn false_stubs(&self, group: GroupId) -> f64 {
        self.groups.get(&group).map_or(0.0, |filter| filter.false_stubs)
    }

    /// Adds the `keys` of the extents that a flush has written. They need not be published yet: if
    /// they never are, more keys pass than the group holds. `false_stubs` are the group tombstones
    /// among the records that were probably written for nothing.
    pub fn flushed(
        &mut self,
        extents: &[Extent],
        keys: &KeyHashes,
        false_stubs: &[(GroupId, f64)],
    ) {
        for extent in extents {
            self.add(extent, keys, |new| new);
        }
        for (group, count) in false_stubs {
            if let Some(filter) = self.groups.get_mut(group) {
                Arc::make_mut(filter).false_stubs += count;
            }
        }
    }

    /// Replaces the filters of the groups that a collection has collected by those of the `extents`
    /// that it wrote, whose `keys` are the only ones that these have.
    pub fn collected(
        &mut self,
        groups: impl Iterator<Item = GroupId>,
        extents: &[Extent],
        keys: &KeyHashes,
    ) {
        for group in groups {
            let gone = self.groups.remove(&group);
            self.memory -= gone.map_or(0, |filter| filter.memory());
        }
        for extent in extents {
            self.add(extent, keys, |new| new / SPARE_PART);
        }
    }

    /// Adds the keys of an extent to the filter of its group, which gets room for `spare` of their
    /// number more.
    fn add(&mut self, extent: &Extent, keys: &KeyHashes, spare: fn(usize) -> usize) {
        let Some(hashes) = keys.get(&extent.place) else { return };
        let room = self.memory_max.saturating_sub(self.memory);
        let filter = Arc::make_mut(self.groups.entry(extent.group).or_default());
        let before = filter.memory();
        filter.add(extent.place, hashes, spare(hashes.len()), room);
        self.memory += filter.memory() - before;
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;
    use cleavedb_base::checksum::hash64;

    use super::*;

    fn hashes(keys: std::ops::Range<u64>) -> Vec<u64> {
        keys.map(|key| hash64(&key.to_le_bytes(), 0)).collect()
    }

    fn extent(group: u64, file: u64) -> Extent {
        Extent::empty(GroupId(group), Location { file: FileNumber(file), offset: 4096 })
    }

    fn flush(
        filters: &mut GroupFilters,
        group: u64,
        file: u64,
        keys: std::ops::Range<u64>,
    ) -> Location {
        let extent = extent(group, file);
        let keys = [(extent.place, hashes(keys))].into();
        filters.flushed(std::slice::from_ref(&extent), &keys, &[]);
        extent.place
    }

    fn holds(filters: &mut GroupFilters, group: u64, keys: std::ops::Range<u64>) -> usize {
        let filter = filters.of(GroupId(group));
        hashes(keys).into_iter().filter(|hash| filter.may_contain(*hash)).count()
    }

    #[test]
    fn a_filter_holds_every_key_of_the_extents_that_it_names() {
        let mut filters = GroupFilters::new(1 << 20);
        let places: Vec<Location> =
            (0..10).map(|n| flush(&mut filters, 1, n, n * 500..n * 500 + 1000)).collect();
        assert_eq!(holds(&mut filters, 1, 0..5500), 5500);
        let filter = filters.of(GroupId(1));
        assert!(places.iter().all(|place| filter.covers(*place)) && filter.layers.len() <= 4);
        let passed = holds(&mut filters, 1, 10_000..110_000);
        assert!(passed < 500, "{passed} of 100000 absent keys passed");
        assert!((2 * 5500..6 * 5500).contains(&filters.memory()), "{}", filters.memory());
        assert_eq!((holds(&mut filters, 2, 0..1000), filters.of(GroupId(2)).layers.len()), (0, 0));
    }

    /// The keys of an extent that a flush has added while its group was collected are not among the
    /// survivors: the new filter must not answer for it.
    #[test]
    fn the_filter_of_a_collected_group_does_not_name_what_a_flush_added_meanwhile() {
        let mut filters = GroupFilters::new(1 << 20);
        flush(&mut filters, 1, 1, 0..100);
        let beside = flush(&mut filters, 1, 2, 100..200);
        let parts = [extent(5, 3), extent(6, 4)];
        let of = |at: usize, keys| (parts[at].place, hashes(keys));
        let keys = [of(0, 0..40), of(1, 40..80)].into();
        filters.collected([GroupId(1)].into_iter(), &parts, &keys);
        let filter = filters.of(GroupId(1));
        assert!(!filter.covers(beside) && filter.layers.is_empty());
        assert_eq!((holds(&mut filters, 5, 0..40), holds(&mut filters, 6, 40..80)), (40, 40));
        assert!(filters.of(GroupId(5)).covers(parts[0].place));
        // Updates of what is there take no room.
        let memory = filters.memory();
        flush(&mut filters, 5, 6, 0..40);
        assert_eq!(filters.memory(), memory);
        let rest = [GroupId(5), GroupId(6)].into_iter();
        filters.collected(rest, &[], &KeyHashes::new());
        assert_eq!(filters.memory(), 0);
    }

    #[test]
    fn without_memory_a_filter_does_not_answer_for_an_extent() {
        let mut filters = GroupFilters::new(1000);
        let first = flush(&mut filters, 1, 1, 0..100);
        let second = flush(&mut filters, 1, 2, 100..600);
        let filter = filters.of(GroupId(1));
        assert!(filter.covers(first) && !filter.covers(second) && filters.memory() <= 1000);
        assert_eq!(holds(&mut filters, 1, 0..100), 100);
    }

    #[test]
    fn false_answers_add_up_with_the_extents_that_are_asked_alone() {
        let mut filters = GroupFilters::new(1 << 20);
        flush(&mut filters, 1, 1, 0..1000);
        let of = |denied, uncovered| filters.groups[&GroupId(1)].false_answers(denied, uncovered);
        let (alone, with_ten) = (of(1000, 0), of(1000, 10));
        assert!(alone < 2.0 && (50.0..150.0).contains(&with_ten), "{alone} {with_ten}");
        assert_eq!(of(0, 10), 0.0, "deletes of keys that are all there");
        filters.flushed(&[], &KeyHashes::new(), &[(GroupId(1), 1.5)]);
        assert_eq!((filters.false_stubs(GroupId(1)), filters.false_stubs(GroupId(2))), (1.5, 0.0));
    }

    #[cfg(feature = "test-planted-bugs")]
    #[test]
    fn planted_filter_that_forgets_a_key() {
        cleavedb_base::planted::must_notice(Bug::GroupFilterForgets, || {
            let mut filters = GroupFilters::new(1 << 20);
            flush(&mut filters, 1, 1, 0..1000);
            assert_eq!(holds(&mut filters, 1, 0..1000), 1000);
        });
    }
}
