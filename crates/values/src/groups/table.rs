//! The table of groups (HashKV's segment table): which groups there are, and their extents.
//!
//! It is in memory, part of the manifest, and changed by edits only, as the ledger is. The live
//! bytes of an extent are exact after any crash (invariant 11): they change in the edit that
//! publishes or drops the entries. An extent that is gone takes its deaths with it: a later death
//! of a record that was moved names an unknown place and counts for nothing.

use std::collections::BTreeMap;

use cleavedb_base::codec::{Cursor, put_varint};
use cleavedb_base::partition::last_place;
use cleavedb_base::{Error, FileNumber, GroupId, Result, SeqNo, ValuePointer};

use super::extent::{Extent, Place};

/// One change of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEdit {
    /// A group as of its last collection, whose read point this is: a new one, or a known one.
    Group(GroupId, SeqNo),
    /// A group becomes its two halves; its extents have gone before.
    Split(GroupId),
    /// A group got an extent.
    Add(Extent),
    /// Index entries that own this many bytes of an extent were dropped.
    Died(Place, u64),
    /// An extent goes.
    Remove(Place),
}

impl GroupEdit {
    /// Appends the encoding: a tag, then varints. See `docs/format.md`, "Manifest".
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Group(group, collected) => {
                out.push(1);
                group.encode(out);
                put_varint(out, *collected);
            }
            Self::Split(group) => {
                out.push(2);
                group.encode(out);
            }
            Self::Add(extent) => {
                out.push(3);
                extent.encode(out);
            }
            Self::Died(place, bytes) => {
                out.push(4);
                place.encode(out);
                put_varint(out, *bytes);
            }
            Self::Remove(place) => {
                out.push(5);
                place.encode(out);
            }
        }
    }

    /// Reads one edit.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(match cursor.u8()? {
            1 => Self::Group(GroupId::decode(cursor)?, cursor.varint()?),
            2 => Self::Split(GroupId::decode(cursor)?),
            3 => Self::Add(Extent::decode(cursor)?),
            4 => Self::Died(Place::decode(cursor)?, cursor.varint()?),
            5 => Self::Remove(Place::decode(cursor)?),
            tag => {
                let what = format!("a group edit has unknown tag {tag}");
                return Err(Error::corruption(what));
            }
        })
    }
}

/// What is known about one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Read point of its last collection; 0 before the first.
    pub collected: SeqNo,
    /// Where its extents begin, oldest first.
    pub extents: Vec<Place>,
}

/// All groups and their extents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupTable {
    groups: BTreeMap<GroupId, Group>,
    extents: BTreeMap<Place, Extent>,
}

impl GroupTable {
    /// The group of a key with this hash; none in a store without groups.
    #[inline]
    pub fn group_of(&self, hash: u64) -> Option<GroupId> {
        let (group, _) = self.groups.range(..=last_place(hash)).next_back()?;
        group.covers(hash).then_some(*group)
    }

    /// One group.
    pub fn group(&self, group: GroupId) -> Option<&Group> {
        self.groups.get(&group)
    }

    /// All groups, in the order of their hashes.
    pub fn groups(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.groups.iter().map(|(id, group)| (*id, group))
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The extents of one group, oldest first.
    pub fn extents_of(&self, group: GroupId) -> impl Iterator<Item = &Extent> {
        let places = self.groups.get(&group).map(|group| &group.extents[..]).unwrap_or_default();
        places.iter().map(|place| &self.extents[place])
    }

    /// All extents, by place.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.extents.values()
    }

    /// The extent that holds the record of a pointer, if it is still there.
    pub fn extent_of(&self, pointer: ValuePointer) -> Option<&Extent> {
        let last = Place { file: pointer.file, offset: pointer.offset };
        let (_, extent) = self.extents.range(..=last).next_back()?;
        (extent.place.file == pointer.file && extent.holds(pointer.offset)).then_some(extent)
    }

    /// The extents in one group file, by place.
    pub fn extents_in(&self, file: FileNumber) -> impl Iterator<Item = &Extent> {
        let places = Place { file, offset: 0 }..=Place { file, offset: u64::MAX };
        self.extents.range(places).map(|(_, extent)| extent)
    }

    /// Whether the group file has an extent besides those in `gone`.
    pub fn uses_file(&self, file: FileNumber, gone: &[Place]) -> bool {
        self.extents_in(file).any(|extent| !gone.contains(&extent.place))
    }

    /// Bytes of all extents.
    pub fn bytes(&self) -> u64 {
        self.extents.values().map(Extent::len).sum()
    }

    /// Bytes of records that index entries own.
    pub fn live(&self) -> u64 {
        self.extents.values().map(|extent| extent.live).sum()
    }

    /// Applies one change. Fails if it contradicts what is known; the table is then of no use.
    pub fn apply(&mut self, edit: &GroupEdit) -> Result<()> {
        match edit {
            GroupEdit::Group(group, collected) => {
                self.groups.entry(*group).or_default().collected = *collected;
                Ok(())
            }
            GroupEdit::Split(group) => self.split(*group),
            GroupEdit::Add(extent) => self.add(extent),
            GroupEdit::Died(place, bytes) => self.bury(*place, *bytes),
            GroupEdit::Remove(place) => self.remove(*place),
        }
    }

    fn split(&mut self, group: GroupId) -> Result<()> {
        let halves = group.halves();
        match (self.groups.remove(&group), halves) {
            (Some(old), Some(halves)) if old.extents.is_empty() => {
                let half = Group { collected: old.collected, extents: Vec::new() };
                self.groups.extend(halves.map(|id| (id, half.clone())));
                Ok(())
            }
            _ => Err(Error::corruption("a group that is unknown or not empty is split")
                .with("group", group)),
        }
    }

    fn add(&mut self, extent: &Extent) -> Result<()> {
        let place = extent.place;
        let group = self.groups.get_mut(&extent.group).ok_or_else(|| {
            Error::corruption("an extent belongs to no group").with("group", extent.group)
        })?;
        let before = self.extents.range(..place).next_back();
        let after = self.extents.range(place..).next();
        let clear = |a: &Extent, b: &Extent| {
            a.place.file != b.place.file || a.place.offset + a.len() <= b.place.offset
        };
        let free = before.is_none_or(|(_, other)| clear(other, extent))
            && after.is_none_or(|(_, other)| clear(extent, other));
        if !free {
            return Err(at("an extent overlaps another", place));
        }
        group.extents.push(place);
        self.extents.insert(place, extent.clone());
        Ok(())
    }

    fn bury(&mut self, place: Place, bytes: u64) -> Result<()> {
        let Some(extent) = self.extents.get_mut(&place) else { return Ok(()) };
        extent.live = extent.live.checked_sub(bytes).ok_or_else(|| {
            at("more bytes died in an extent than lived there", place).with("died", bytes)
        })?;
        Ok(())
    }

    fn remove(&mut self, place: Place) -> Result<()> {
        let extent = self.extents.remove(&place);
        let extent = extent.ok_or_else(|| at("an unknown extent is removed", place))?;
        if let Some(group) = self.groups.get_mut(&extent.group) {
            group.extents.retain(|other| *other != place);
        }
        Ok(())
    }

    /// The edits that make this table out of an empty one.
    pub fn export(&self) -> Vec<GroupEdit> {
        let mut edits = Vec::new();
        for (id, group) in &self.groups {
            edits.push(GroupEdit::Group(*id, group.collected));
            let extents = group.extents.iter().map(|place| self.extents[place].clone());
            edits.extend(extents.map(GroupEdit::Add));
        }
        edits
    }
}

fn at(what: &str, place: Place) -> Error {
    Error::corruption(what).with("file", place.file).with("offset", place.offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(group: GroupId, file: u64, offset: u64) -> Extent {
        Extent {
            group,
            place: Place { file: FileNumber(file), offset },
            records_len: 4000,
            filter_len: 90,
            records: 5,
            stubs: 1,
            separated: 3900,
            survivors: false,
            live: 3900,
        }
    }

    fn sample() -> (GroupTable, Vec<GroupEdit>) {
        let groups: Vec<GroupId> = GroupId::uniform(1).collect();
        let edits = vec![
            GroupEdit::Group(groups[0], 0),
            GroupEdit::Group(groups[1], 7),
            GroupEdit::Add(extent(groups[1], 5, 4096)),
            GroupEdit::Add(extent(groups[0], 5, 8192)),
            GroupEdit::Died(Place { file: FileNumber(5), offset: 8192 }, 100),
            GroupEdit::Died(Place { file: FileNumber(4), offset: 0 }, 100),
        ];
        let mut table = GroupTable::default();
        edits.iter().try_for_each(|edit| table.apply(edit)).unwrap();
        (table, edits)
    }

    #[test]
    fn edits_round_trip_and_rebuild_the_table() {
        let (table, edits) = sample();
        let mut bytes = Vec::new();
        edits.iter().for_each(|edit| edit.encode(&mut bytes));
        let mut cursor = Cursor::new(&bytes, "test");
        for edit in &edits {
            assert_eq!(GroupEdit::decode(&mut cursor).unwrap(), *edit);
        }
        cursor.end().unwrap();
        let mut exported = GroupTable::default();
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

    #[test]
    fn contradictions_are_refused() {
        let groups: Vec<GroupId> = GroupId::uniform(1).collect();
        let place = Place { file: FileNumber(5), offset: 8192 };
        for wrong in [
            GroupEdit::Add(extent(groups[0], 5, 4096)),
            GroupEdit::Add(extent(GroupId::ALL, 9, 4096)),
            GroupEdit::Died(place, 3801),
            GroupEdit::Remove(Place { file: FileNumber(9), offset: 0 }),
            GroupEdit::Split(groups[0]),
        ] {
            assert!(sample().0.apply(&wrong).is_err(), "{wrong:?}");
        }
        let (mut table, _) = sample();
        table.apply(&GroupEdit::Remove(place)).unwrap();
        table.apply(&GroupEdit::Split(groups[0])).unwrap();
        assert_eq!(table.groups().count(), 3);
        assert!(table.uses_file(FileNumber(5), &[]));
        assert!(!table.uses_file(FileNumber(5), &[Place { file: FileNumber(5), offset: 4096 }]));
    }
}
