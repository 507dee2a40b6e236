//! Changes of the table of groups, as the manifest records them.

use cleavedb_base::codec::{Cursor, put_bytes, put_varint};
use cleavedb_base::{Error, Result, SeqNo};

use super::extent::{Extent, Location};
use crate::partition::GroupId;

/// One change of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEdit {
    /// A new group, from this bound up to the next one, with this read point as its last
    /// collection. It takes its tokens from the group before it, which has no records of them.
    Begin(GroupId, Vec<u8>, SeqNo),
    /// A group was collected as of this read point.
    Collected(GroupId, SeqNo),
    /// A group is divided at these bounds; its extents were removed before.
    Split {
        /// The group, which is removed.
        group: GroupId,
        /// The beginnings of its second part, its third, and so on.
        bounds: Vec<Vec<u8>>,
        /// Id of the first part; the others have the following ones.
        first: GroupId,
    },
    /// Two neighbours become one group, which has the extents of both.
    Merge {
        /// The groups, which are removed, in the order of their bounds.
        groups: [GroupId; 2],
        /// Id of the new one.
        into: GroupId,
    },
    /// A group got an extent.
    Add(Extent),
    /// Index entries that own this many bytes of an extent were dropped.
    LiveRemoved(Location, u64),
    /// An extent is removed.
    Remove(Location),
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
            Self::LiveRemoved(place, bytes) => {
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
            Self::Merge { groups: [lower, upper], into } => {
                out.push(7);
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
            4 => Self::LiveRemoved(Location::decode(cursor)?, cursor.varint()?),
            5 => Self::Remove(Location::decode(cursor)?),
            6 => Self::Collected(group(cursor)?, cursor.varint()?),
            7 => Self::Merge { groups: [group(cursor)?, group(cursor)?], into: group(cursor)? },
            tag => {
                let what = format!("a group edit has unknown tag {tag}");
                return Err(Error::corruption(what));
            }
        })
    }
}
