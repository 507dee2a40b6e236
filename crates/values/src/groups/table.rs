//! The table of groups (HashKV's segment table): all groups and their extents.
//!
//! It is in memory, part of the manifest, and changed by edits only, as the table of value files
//! is. The live bytes of an extent are exact after any crash (invariant 11): they change in the
//! edit that publishes or drops the entries. Dead bytes of a removed extent are not counted: if the
//! entry of a moved record is dropped later, its pointer names an unknown place and is ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use cleavedb_base::{Error, FileNumber, Result, SeqNo, ValuePointer};

use super::edit::GroupEdit;
use super::extent::{Extent, Location};
use super::sums::Sums;
use crate::layout::{GroupLayout, SurvivorRoute};
use crate::partition::{GroupId, Partition, Token};
use crate::place_map::PlaceMap;

/// Facts about one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The smallest token of the group.
    pub bound: Vec<u8>,
    /// Read point of its last collection; 0 before the first.
    pub collected: SeqNo,
    /// The beginnings of its extents, oldest first.
    pub extents: Vec<Location>,
    /// Sums over its extents that flushes wrote.
    pub flushed: Sums,
    /// Sums over those that collections wrote.
    pub survivors: Sums,
}

/// All groups and their extents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupTable {
    /// None in a database without groups.
    layout: Option<GroupLayout>,
    /// The groups by their bounds.
    bounds: BTreeMap<Vec<u8>, GroupId>,
    /// Shared between copies of the table.
    groups: BTreeMap<GroupId, Arc<Group>>,
    extents: PlaceMap<Extent>,
    /// Sums over all extents.
    sums: Sums,
}

impl Group {
    /// Sums over all of its extents.
    pub fn sums(&self) -> Sums {
        self.flushed.plus(self.survivors)
    }

    /// Bytes of its extents.
    pub fn bytes(&self) -> u64 {
        self.sums().len
    }

    /// The sums to which `extent` belongs.
    fn sums_with(&mut self, extent: &Extent) -> &mut Sums {
        if extent.survivors { &mut self.survivors } else { &mut self.flushed }
    }
}

impl GroupTable {
    /// A table without groups, for a database with this layout; a hot store is there from the
    /// beginning.
    pub fn new(layout: Option<GroupLayout>) -> Self {
        let hot = layout.filter(|layout| layout.hot).map(|_| (GroupId::HOT, Arc::default()));
        Self { layout, groups: hot.into_iter().collect(), ..Self::default() }
    }

    /// A table for a layout of which only the partition matters.
    #[cfg(test)]
    pub(crate) fn of_partition(partition: Partition) -> Self {
        let groups = GroupLayout { partition, survivors: SurvivorRoute::Group, hot: false };
        Self::new(Some(groups))
    }

    /// How values are kept in groups; none in a database without groups.
    pub fn layout(&self) -> Option<&GroupLayout> {
        self.layout.as_ref()
    }

    /// The partition of keys into groups.
    #[inline]
    pub fn partition(&self) -> Partition {
        self.layout.map(|layout| layout.partition).unwrap_or_default()
    }

    /// Whether flushes write a group tombstone for each operation on a key of which a group may
    /// have a record.
    pub fn needs_stubs(&self) -> bool {
        self.layout.is_some_and(|layout| layout.partition == Partition::Hash)
    }

    /// Number of groups that a flush may have to write group tombstones to: those with records.
    pub fn told_of_deaths(&self) -> usize {
        let filled = self.groups.values().filter(|group| !group.extents.is_empty());
        if self.needs_stubs() { filled.count() } else { 0 }
    }

    /// Whether a collection has an entry in its run for each value that it moves.
    pub fn has_all_entries(&self) -> bool {
        self.layout.is_none_or(|layout| layout.has_all_entries())
    }

    /// Whether collections move cold values to a log of their own.
    pub fn has_cold_log(&self) -> bool {
        self.layout.is_some_and(|layout| layout.survivors == SurvivorRoute::Tagged)
    }

    /// The group of a key; none in a store without groups.
    #[inline]
    pub fn group_of(&self, encoded_key: &[u8]) -> Option<GroupId> {
        let token = self.partition().token(encoded_key);
        let upto = (Bound::Unbounded, Bound::Included(&*token));
        self.bounds.range::<[u8], _>(upto).next_back().map(|(_, group)| *group)
    }

    /// The bound of the group that follows `group`, if there is one.
    pub fn end_of(&self, group: GroupId) -> Option<&[u8]> {
        let after = (Bound::Excluded(&*self.groups.get(&group)?.bound), Bound::Unbounded);
        self.bounds.range::<[u8], _>(after).next().map(|(bound, _)| &**bound)
    }

    /// An id that was never used, and neither were those after it.
    pub fn next_id(&self) -> GroupId {
        GroupId(self.groups.last_key_value().map_or(1, |(id, _)| id.0 + 1))
    }

    /// One group.
    pub fn group(&self, group: GroupId) -> Option<&Group> {
        self.groups.get(&group).map(|group| &**group)
    }

    /// All groups, in the order of their bounds.
    pub fn groups(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.bounds.values().map(|id| (*id, &*self.groups[id]))
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// Whether there is a hot store: the group [`GroupId::HOT`], which owns no token.
    pub fn has_hot_store(&self) -> bool {
        self.layout.is_some_and(|layout| layout.hot)
    }

    /// The extents of one group, oldest first.
    pub fn extents_of(&self, group: GroupId) -> impl Iterator<Item = &Extent> {
        let places = self.groups.get(&group).map(|group| &group.extents[..]).unwrap_or_default();
        places.iter().map(|place| self.extents.get(*place).expect("a group knows its extents"))
    }

    /// The extents of the hot store, oldest first: their records belong to no group.
    pub fn extents_apart(&self) -> impl Iterator<Item = &Extent> {
        self.extents_of(GroupId::HOT)
    }

    /// The greatest token of a group's records; none if it has no record, or it is unknown.
    pub fn last_of(&self, group: GroupId) -> Option<Token<'_>> {
        let known = self.extents_of(group).all(|extent| !extent.last.is_empty());
        let last = self.extents_of(group).map(|extent| &*extent.last).max();
        last.filter(|_| known).map(|last| self.partition().token(last))
    }

    /// All extents, by place.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.extents.values()
    }

    /// The extent of a pointer's record, if it still exists.
    pub fn extent_of(&self, pointer: ValuePointer) -> Option<&Extent> {
        let place = Location { file: pointer.file, offset: pointer.offset };
        self.extents.upto(place).filter(|extent| extent.holds(pointer.offset))
    }

    /// Whether an extent begins at `place`.
    pub fn has_extent(&self, place: Location) -> bool {
        self.extents.get(place).is_some()
    }

    /// The extents in one group file, by place.
    pub fn extents_in(&self, file: FileNumber) -> impl Iterator<Item = &Extent> {
        self.extents.in_file(file)
    }

    /// Whether the group file has an extent that is not in `gone`.
    pub fn uses_file(&self, file: FileNumber, gone: &BTreeSet<Location>) -> bool {
        self.extents_in(file).any(|extent| !gone.contains(&extent.place))
    }

    /// Sums over all extents.
    pub fn sums(&self) -> &Sums {
        &self.sums
    }

    /// Bytes of all extents.
    pub fn bytes(&self) -> u64 {
        self.sums.len
    }

    /// Bytes of records that index entries own.
    pub fn live(&self) -> u64 {
        self.sums.live
    }

    /// Applies one change. Fails if it contradicts the table, which must not be used any more then.
    pub fn apply(&mut self, edit: &GroupEdit) -> Result<()> {
        match edit {
            GroupEdit::Begin(group, bound, collected) => self.begin(*group, bound, *collected),
            GroupEdit::Collected(group, collected) => {
                let known = self.groups.get_mut(group).ok_or_else(|| unknown(*group))?;
                Arc::make_mut(known).collected = *collected;
                Ok(())
            }
            GroupEdit::Split { group, bounds, first } => self.split(*group, bounds, *first),
            GroupEdit::Merge { groups, into } => self.merge(*groups, *into),
            GroupEdit::Add(extent) => self.add(extent),
            GroupEdit::LiveRemoved(place, bytes) => self.remove_live(*place, *bytes),
            GroupEdit::Remove(place) => self.remove(*place),
        }
    }

    fn begin(&mut self, group: GroupId, bound: &[u8], collected: SeqNo) -> Result<()> {
        // The first group owns the smallest token, so that every key has a group.
        let tiles = self.bounds.is_empty() == bound.is_empty();
        if !tiles || self.groups.contains_key(&group) || self.bounds.contains_key(bound) {
            let what = "a group begins that is there, or where another one does";
            return Err(Error::corruption(what).with("group", group));
        }
        let lower = (Bound::Unbounded, Bound::Excluded(bound));
        let before = self.bounds.range::<[u8], _>(lower).next_back();
        if before
            .is_some_and(|(_, before)| self.last_of(*before).is_some_and(|last| *last >= *bound))
        {
            let what = "a group begins among the records of another one";
            return Err(Error::corruption(what).with("group", group));
        }
        self.bounds.insert(bound.to_vec(), group);
        let bound = bound.to_vec();
        self.groups.insert(group, Arc::new(Group { bound, collected, ..Group::default() }));
        Ok(())
    }

    fn split(&mut self, group: GroupId, bounds: &[Vec<u8>], first: GroupId) -> Result<()> {
        let old = self.groups.get(&group).ok_or_else(|| unknown(group))?;
        let end = self.end_of(group);
        let within = |bound: &[u8]| *bound > *old.bound && end.is_none_or(|end| bound < end);
        let owns = self.bounds.get(&old.bound) == Some(&group);
        let sound = owns && old.extents.is_empty() && bounds.iter().all(|bound| within(bound));
        if !sound || bounds.is_empty() || first <= group {
            let what = "a group is split that is not empty, or not within its bounds";
            return Err(Error::corruption(what).with("group", group));
        }
        let (lowest, collected) = (old.bound.clone(), old.collected);
        self.bounds.remove(&lowest);
        // Only the place of the group is taken by now: the first part may have the empty bound.
        let begin = |(at, bound): (usize, &Vec<u8>)| (GroupId(first.0 + at as u64), bound.clone());
        for (id, bound) in [&lowest].into_iter().chain(bounds).enumerate().map(begin) {
            if self.groups.contains_key(&id) || self.bounds.contains_key(&bound) {
                let what = "a group splits into one that is there";
                return Err(Error::corruption(what).with("group", id));
            }
            self.bounds.insert(bound.clone(), id);
            self.groups.insert(id, Arc::new(Group { bound, collected, ..Group::default() }));
        }
        self.groups.remove(&group);
        Ok(())
    }

    fn merge(&mut self, [lower, upper]: [GroupId; 2], into: GroupId) -> Result<()> {
        let next = self.end_of(lower).and_then(|bound| self.bounds.get(bound));
        if next != Some(&upper) || lower == GroupId::HOT || into < self.next_id() {
            let what = "two groups are merged that are not neighbours, or into one that is there";
            return Err(Error::corruption(what).with("group", lower).with("next", upper));
        }
        let (lower, upper) = (self.groups.remove(&lower), self.groups.remove(&upper));
        let Some((lower, upper)) = lower.zip(upper) else { return Err(unknown(into)) };
        let [mut merged, upper] = [lower, upper].map(Arc::unwrap_or_clone);
        self.bounds.remove(&upper.bound);
        self.bounds.insert(merged.bound.clone(), into);
        merged.flushed = merged.flushed.plus(upper.flushed);
        merged.survivors = merged.survivors.plus(upper.survivors);
        merged.extents.extend(upper.extents);
        merged.extents.sort_unstable();
        merged.collected = merged.collected.min(upper.collected);
        for place in &merged.extents {
            if let Some(extent) = self.extents.get_mut(*place) {
                extent.group = into;
            }
        }
        self.groups.insert(into, Arc::new(merged));
        Ok(())
    }

    fn add(&mut self, extent: &Extent) -> Result<()> {
        let place = extent.place;
        let partition = self.partition();
        let group = self.groups.get_mut(&extent.group).ok_or_else(|| {
            Error::corruption("an extent belongs to no group").with("group", extent.group)
        })?;
        let last = partition.token(&extent.last);
        let end = (Bound::Excluded(&*group.bound), Bound::Unbounded);
        let end = self.bounds.range::<[u8], _>(end).next().map(|(bound, _)| &**bound);
        let foreign = *last < *group.bound || end.is_some_and(|end| *end <= *last);
        if !extent.last.is_empty() && foreign {
            return Err(at("an extent has records beyond its group", place));
        }
        let (before, after) = (self.extents.upto(place), self.extents.from(place));
        let clear = |a: &Extent, b: &Extent| a.place.offset + a.len() <= b.place.offset;
        let free = before.is_none_or(|other| clear(other, extent))
            && after.is_none_or(|other| clear(extent, other));
        if !free {
            return Err(at("an extent overlaps another", place));
        }
        let group = Arc::make_mut(group);
        group.extents.push(place);
        let added = Sums::of(extent);
        let sums = group.sums_with(extent);
        *sums = sums.plus(added);
        self.sums = self.sums.plus(added);
        self.extents.insert(place, extent.clone());
        Ok(())
    }

    fn remove_live(&mut self, place: Location, bytes: u64) -> Result<()> {
        let Some(extent) = self.extents.get_mut(place) else { return Ok(()) };
        extent.live = extent.live.checked_sub(bytes).ok_or_else(|| {
            at("more bytes died in an extent than lived there", place).with("died", bytes)
        })?;
        let died = Sums { live: bytes, ..Sums::default() };
        self.sums = self.sums.minus(died);
        if let Some(group) = self.groups.get_mut(&extent.group) {
            let sums = Arc::make_mut(group).sums_with(extent);
            *sums = sums.minus(died);
        }
        Ok(())
    }

    fn remove(&mut self, place: Location) -> Result<()> {
        let extent = self.extents.remove(place);
        let extent = extent.ok_or_else(|| at("an unknown extent is removed", place))?;
        let removed = Sums::of(&extent);
        self.sums = self.sums.minus(removed);
        if let Some(group) = self.groups.get_mut(&extent.group) {
            let group = Arc::make_mut(group);
            group.extents.retain(|other| *other != place);
            let sums = group.sums_with(&extent);
            *sums = sums.minus(removed);
        }
        Ok(())
    }

    /// The edits that make this table out of an empty one.
    pub fn export(&self) -> Vec<GroupEdit> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut edits = Vec::new();
        for (id, group) in self.groups() {
            edits.push(GroupEdit::Begin(id, group.bound.clone(), group.collected));
            edits.extend(self.extents_of(id).cloned().map(GroupEdit::Add));
        }
        edits.extend(self.extents_of(GroupId::HOT).cloned().map(GroupEdit::Add));
        edits
    }
}

fn unknown(group: GroupId) -> Error {
    Error::corruption("an edit names a group that is not there").with("group", group)
}

fn at(what: &str, place: Location) -> Error {
    Error::corruption(what).with("file", place.file).with("offset", place.offset)
}

#[cfg(test)]
mod tests {
    use cleavedb_base::codec::Cursor;

    use super::*;

    fn extent(group: GroupId, file: u64, offset: u64) -> Extent {
        Extent {
            records_len: 4000,
            filter_len: 90,
            records: 5,
            stubs: 1,
            tags: 2,
            last: if group == HIGH { *b"mm" } else { *b"kz" }.into(),
            separated: 3900,
            live: 3900,
            ..Extent::empty(group, Location { file: FileNumber(file), offset })
        }
    }

    const LOW: GroupId = GroupId(1);
    const HIGH: GroupId = GroupId(2);

    fn sample() -> (GroupTable, Vec<GroupEdit>) {
        let edits = vec![
            GroupEdit::Begin(LOW, Vec::new(), 0),
            GroupEdit::Begin(HIGH, b"m".to_vec(), 6),
            GroupEdit::Collected(HIGH, 7),
            GroupEdit::Add(extent(HIGH, 5, 4096)),
            GroupEdit::Add(extent(LOW, 5, 8192)),
            GroupEdit::LiveRemoved(Location { file: FileNumber(5), offset: 8192 }, 100),
            GroupEdit::LiveRemoved(Location { file: FileNumber(4), offset: 0 }, 100),
        ];
        let mut table = GroupTable::of_partition(Partition::Range);
        edits.iter().try_for_each(|edit| table.apply(edit)).unwrap();
        (table, edits)
    }

    #[test]
    fn edits_round_trip_and_rebuild_the_table() {
        let (table, edits) = sample();
        let mut bytes = Vec::new();
        let edits = [edits, vec![split(LOW, &[b"b", b"c"], 3), merge(5)]].concat();
        edits.iter().for_each(|edit| edit.encode(&mut bytes));
        let mut cursor = Cursor::new(&bytes, "test");
        for edit in &edits {
            assert_eq!(GroupEdit::decode(&mut cursor).unwrap(), *edit);
        }
        cursor.end().unwrap();
        let mut exported = GroupTable::of_partition(Partition::Range);
        table.export().iter().try_for_each(|edit| exported.apply(edit)).unwrap();
        assert_eq!(exported, table);
        assert_eq!((table.bytes(), table.live()), (2 * 4096, 2 * 3900 - 100));
    }

    #[test]
    fn a_pointer_finds_its_extent_only_among_its_records() {
        let (table, _) = sample();
        let find = |file, offset| {
            let pointer = ValuePointer { file: FileNumber(file), offset, len: 10 };
            table.extent_of(pointer).map(|extent| extent.place.offset)
        };
        assert_eq!(find(5, 4096 + 3999), Some(4096));
        assert_eq!(find(5, 4096 + 4000), None, "the filter holds no records");
        assert_eq!(find(5, 8192), Some(8192));
        assert_eq!((find(5, 0), find(6, 4096)), (None, None));
    }

    fn merge(into: u64) -> GroupEdit {
        GroupEdit::Merge { groups: [LOW, HIGH], into: GroupId(into) }
    }

    #[test]
    fn neighbours_merge_with_their_extents() {
        let (mut table, _) = sample();
        assert!(
            table
                .clone()
                .apply(&GroupEdit::Merge { groups: [HIGH, LOW], into: GroupId(3) })
                .is_err()
        );
        assert!(table.clone().apply(&merge(2)).is_err());
        table.apply(&merge(3)).unwrap();
        let merged = GroupId(3);
        assert_eq!(["", "m"].map(|key| table.group_of(key.as_bytes())), [Some(merged); 2]);
        assert_eq!(table.extents_of(merged).count(), 2);
        assert!(table.extents().all(|extent| extent.group == merged));
        let mut exported = GroupTable::of_partition(Partition::Range);
        table.export().iter().try_for_each(|edit| exported.apply(edit)).unwrap();
        assert_eq!(exported, table);
    }

    /// A look at the groups reads these sums in place of the extents.
    #[test]
    fn a_group_knows_the_sums_over_the_extents_that_are_left() {
        let (mut table, _) = sample();
        let place = |offset| Location { file: FileNumber(5), offset };
        for edit in [
            GroupEdit::Add(Extent { survivors: true, ..extent(LOW, 5, 16384) }),
            merge(3),
            GroupEdit::LiveRemoved(place(16384), 70),
            GroupEdit::Remove(place(8192)),
            GroupEdit::Add(Extent { stubs: 3, ..extent(GroupId(3), 5, 24576) }),
        ] {
            table.apply(&edit).unwrap();
        }
        let sum = |survivors| {
            let some = table.extents().filter(|extent| extent.survivors == survivors);
            some.fold(Sums::default(), |sums, extent| sums.plus(Sums::of(extent)))
        };
        let group = table.group(GroupId(3)).unwrap();
        assert_eq!((group.flushed, group.survivors), (sum(false), sum(true)));
        assert_eq!((group.bytes(), group.survivors.dead()), (3 * 4096, 70));
        assert_eq!((table.bytes(), table.live()), (group.bytes(), 3 * 3900 - 70));
    }

    fn split(group: GroupId, bounds: &[&[u8]], first: u64) -> GroupEdit {
        let bounds = bounds.iter().map(|bound| bound.to_vec()).collect();
        GroupEdit::Split { group, bounds, first: GroupId(first) }
    }

    #[test]
    fn every_key_has_one_group_also_after_splits() {
        let (mut table, _) = sample();
        table.apply(&GroupEdit::Remove(Location { file: FileNumber(5), offset: 8192 })).unwrap();
        table.apply(&split(LOW, &[b"b", b"bb"], 3)).unwrap();
        let groups: Vec<u64> = table.groups().map(|(id, _)| id.0).collect();
        assert_eq!(groups, [3, 4, 5, 2]);
        let of = |key: &str| table.group_of(key.as_bytes()).unwrap().0;
        assert_eq!(["", "a", "b", "ba", "bb", "lz", "m", "z"].map(of), [3, 3, 4, 4, 5, 5, 2, 2]);
        assert_eq!((table.end_of(GroupId(5)), table.end_of(HIGH)), (Some(&b"m"[..]), None));
        assert_eq!(table.next_id(), GroupId(6));
        let mut exported = GroupTable::of_partition(Partition::Range);
        table.export().iter().try_for_each(|edit| exported.apply(edit)).unwrap();
        assert_eq!(exported, table);
    }

    #[test]
    fn contradictions_are_refused() {
        let place = Location { file: FileNumber(5), offset: 8192 };
        for wrong in [
            GroupEdit::Begin(HIGH, b"x".to_vec(), 0),
            GroupEdit::Begin(GroupId(3), b"m".to_vec(), 0),
            GroupEdit::Begin(GroupId(3), b"kz".to_vec(), 0),
            GroupEdit::Collected(GroupId(3), 1),
            GroupEdit::Add(extent(LOW, 5, 4096)),
            GroupEdit::Add(extent(GroupId(3), 9, 4096)),
            GroupEdit::Add(Extent { last: (*b"m").into(), ..extent(LOW, 9, 4096) }),
            GroupEdit::Add(Extent { last: (*b"l").into(), ..extent(HIGH, 9, 4096) }),
            GroupEdit::LiveRemoved(place, 3801),
            GroupEdit::Remove(Location { file: FileNumber(9), offset: 0 }),
            split(LOW, &[b"b"], 3),
        ] {
            assert!(sample().0.apply(&wrong).is_err(), "{wrong:?}");
        }
        for (bounds, first) in [(&[][..], 3), (&[&b"m"[..]], 3), (&[b"b", b"b"], 3), (&[b"b"], 2)] {
            let (mut table, _) = sample();
            table.apply(&GroupEdit::Remove(place)).unwrap();
            assert!(table.apply(&split(LOW, bounds, first)).is_err(), "{bounds:?}");
        }
        let (table, _) = sample();
        assert!(table.uses_file(FileNumber(5), &[place].into()));
        let other = Location { file: FileNumber(5), offset: 4096 };
        assert!(!table.uses_file(FileNumber(5), &[place, other].into()));
    }
}
