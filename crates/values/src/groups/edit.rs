//! Changes of the table of groups, as the manifest records them.

use cleavedb_base::codec::{Cursor, put_bytes, put_varint};
use cleavedb_base::{Error, GroupId, Partitioner, Result, SeqNo};

use super::extent::{Extent, Place};

/// How the index learns where a collection of groups has put survivors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Relocation {
    /// It gets a sorted run of new pointers, in level 0 (HashKV, section 3.3).
    #[default]
    WriteBack,
    /// It does not: who reads a survivor finds it by key, in the map of its group's survivors.
    Soft,
}

impl Relocation {
    /// Appends the encoding: a byte.
    fn encode(self, out: &mut Vec<u8>) {
        out.push(u8::from(self == Self::Soft));
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        match cursor.u8()? {
            0 => Ok(Self::WriteBack),
            1 => Ok(Self::Soft),
            _ => Err(Error::corruption("an edit names a way of relocation that cannot be")),
        }
    }
}

/// One change of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEdit {
    /// How keys become tokens, and how survivors are found; comes before all groups.
    Partition(Partitioner, Relocation),
    /// A new group, from this bound up to the next one, as of its last collection. It takes these
    /// tokens from the group before it, which has no record of them.
    Begin(GroupId, Vec<u8>, SeqNo),
    /// A group was collected as of this read point.
    Collected(GroupId, SeqNo),
    /// A group is divided at these bounds; its extents have gone before.
    Split {
        /// The group, which ceases to be.
        group: GroupId,
        /// Where its second part begins, its third, and so on.
        bounds: Vec<Vec<u8>>,
        /// Id of the first part; the others have the following ones.
        first: GroupId,
    },
    /// Two neighbours become one group, which has the extents of both.
    Merge {
        /// The groups, which cease to be, in the order of their bounds.
        groups: [GroupId; 2],
        /// Id of the new one.
        into: GroupId,
    },
    /// A group got an extent.
    Add(Extent),
    /// Index entries that own this many bytes of an extent were dropped.
    Died(Place, u64),
    /// An extent goes.
    Remove(Place),
}

impl GroupEdit {
    /// Appends the encoding: a tag, then varints and bounds. See `docs/format.md`, "Manifest".
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Begin(group, bound, collected) => {
                out.push(1);
                put_varint(out, group.0);
                put_bytes(out, bound);
                put_varint(out, *collected);
            }
            Self::Split { group, bounds, first } => {
                out.push(2);
                for field in [group.0, first.0, bounds.len() as u64] {
                    put_varint(out, field);
                }
                bounds.iter().for_each(|bound| put_bytes(out, bound));
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
            Self::Collected(group, collected) => {
                out.push(6);
                put_varint(out, group.0);
                put_varint(out, *collected);
            }
            Self::Partition(partitioner, relocation) => {
                out.push(7);
                partitioner.encode(out);
                relocation.encode(out);
            }
            Self::Merge { groups: [lower, upper], into } => {
                out.push(8);
                [lower, upper, into].iter().for_each(|group| put_varint(out, group.0));
            }
        }
    }

    /// Reads one edit.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let group = |cursor: &mut Cursor<'_>| cursor.varint().map(GroupId);
        Ok(match cursor.u8()? {
            1 => Self::Begin(group(cursor)?, cursor.bytes()?.to_vec(), cursor.varint()?),
            2 => {
                let (group, first) = (group(cursor)?, group(cursor)?);
                let count = cursor.varint()?;
                let bounds = (0..count).map(|_| Ok(cursor.bytes()?.to_vec()));
                let bounds = bounds.collect::<Result<_>>()?;
                Self::Split { group, bounds, first }
            }
            3 => Self::Add(Extent::decode(cursor)?),
            4 => Self::Died(Place::decode(cursor)?, cursor.varint()?),
            5 => Self::Remove(Place::decode(cursor)?),
            6 => Self::Collected(group(cursor)?, cursor.varint()?),
            7 => Self::Partition(Partitioner::decode(cursor)?, Relocation::decode(cursor)?),
            8 => Self::Merge { groups: [group(cursor)?, group(cursor)?], into: group(cursor)? },
            tag => {
                let what = format!("a group edit has unknown tag {tag}");
                return Err(Error::corruption(what));
            }
        })
    }
}
