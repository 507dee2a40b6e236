//! The output of a collection of groups, to be installed.
//!
//! Groups are split when the collection is installed, and other groups may have been created
//! meanwhile; so parts have provisional ids until then.

use std::ops::Range;
use std::time::Duration;

use cleavedb_base::{SeqNo, ValuePointer};

use super::record::Content;
use super::survivors::NewSegment;
use crate::groups::writer::Written;
use crate::groups::{Extent, GroupEdit, Location};
use crate::partition::GroupId;

/// One entry of the run of new pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEntry<'a> {
    /// Tree key.
    pub key: &'a [u8],
    /// Sequence number of the version that it repeats or moves.
    pub seq: SeqNo,
    /// Whether the entry only repeats an entry of an older table, which owns the record.
    pub repeat: bool,
    /// The content of the version; for one that moves, the pointer to its new place.
    pub content: Content,
}

/// The result of a collection for one group, not yet installed.
#[derive(Debug)]
pub struct CollectedGroup {
    /// The group.
    pub group: GroupId,
    /// The extents of the group that were collected and will be removed.
    pub gone: Vec<Location>,
    /// The extents of survivors, as a range of the written ones.
    pub(super) extents: Range<usize>,
    /// Bounds at which the group is to be divided. If there are any, extents of survivors belong to
    /// its parts, which are numbered from `first` on.
    pub(super) bounds: Vec<Vec<u8>>,
    pub(super) first: GroupId,
}

impl CollectedGroup {
    /// Whether the group is to split.
    pub fn splits(&self) -> bool {
        !self.bounds.is_empty()
    }

    /// The number of its parts.
    pub fn parts(&self) -> u64 {
        self.bounds.len() as u64 + 1
    }

    /// The extents of the group among those that were `written`, and its split into parts with ids
    /// from `first` on.
    pub fn divided(&self, written: &Written, first: GroupId) -> (Vec<Extent>, GroupEdit) {
        let mut extents = written.extents[self.extents.clone()].to_vec();
        for extent in &mut extents {
            extent.group = GroupId(extent.group.0 - self.first.0 + first.0);
        }
        (extents, GroupEdit::Split { group: self.group, bounds: self.bounds.clone(), first })
    }

    /// The extents of the group among those that were `written`, if it is not split.
    pub fn undivided(&self, written: &Written) -> Vec<Extent> {
        let mut extents = written.extents[self.extents.clone()].to_vec();
        extents.iter_mut().for_each(|extent| extent.group = self.group);
        extents
    }
}

/// The output of a collection besides the run of new pointers, not yet installed.
#[derive(Debug, Default)]
pub struct CollectionOutput {
    /// The result for each collected group.
    pub groups: Vec<CollectedGroup>,
    /// Extents of survivors, synced.
    pub written: Written,
    /// Segments of survivors, synced: those of a file, and values that left their group.
    pub segments: Vec<NewSegment>,
    /// Bytes read.
    pub bytes_read: u64,
    /// Time spent on liveness checks.
    pub liveness_time: Duration,
}

impl CollectionOutput {
    /// The output of `self` and that of `other`, which collected other files or groups.
    #[must_use]
    pub fn joined(mut self, other: Self) -> Self {
        let before = self.written.extents.len();
        self.groups.extend(other.groups.into_iter().map(|group| CollectedGroup {
            extents: before + group.extents.start..before + group.extents.end,
            ..group
        }));
        self.written.add(other.written);
        self.segments.extend(other.segments);
        self.bytes_read += other.bytes_read;
        self.liveness_time += other.liveness_time;
        self
    }

    /// Whether a group is to split.
    pub fn splits(&self) -> bool {
        self.groups.iter().any(CollectedGroup::splits)
    }

    /// The extents that were collected and will be removed.
    pub fn gone(&self) -> impl Iterator<Item = Location> {
        self.groups.iter().flat_map(|group| group.gone.iter().copied())
    }
}

/// Sets the new place of a survivor in its entry of the run, if it has one.
pub(super) fn repoint(run: &mut [RunEntry<'_>], entry: Option<usize>, place: ValuePointer) {
    if let Some(at) = entry {
        run[at].content = match run[at].content {
            Content::Pointer(old) => Content::Pointer(old.map(|_| place)),
            _ => Content::pointer(place),
        };
    }
}

/// Sorts a run of new pointers. The part of each file and group is in order already, but keys of
/// hash groups alternate.
pub fn in_index_order(run: &mut [RunEntry<'_>]) {
    run.sort_by(|a, b| a.key.cmp(b.key).then(b.seq.cmp(&a.seq)));
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;

    /// Other groups may have been created since the collection began.
    #[test]
    fn parts_get_their_ids_when_they_are_installed() {
        let extent =
            |group, offset| Extent::empty(GroupId(group), Location { file: FileNumber(9), offset });
        let extents = vec![extent(9, 0), extent(7, 4096), extent(8, 8192)];
        let written = Written { extents, ..Written::default() };
        let collected = CollectedGroup {
            group: GroupId(3),
            gone: Vec::new(),
            extents: 1..3,
            bounds: vec![b"m".to_vec()],
            first: GroupId(7),
        };
        let ids = |extents: Vec<Extent>| -> Vec<u64> {
            extents.iter().map(|extent| extent.group.0).collect()
        };
        let (divided, split) = collected.divided(&written, GroupId(12));
        let bounds = vec![b"m".to_vec()];
        assert_eq!(split, GroupEdit::Split { group: GroupId(3), bounds, first: GroupId(12) });
        assert_eq!((ids(divided), ids(collected.undivided(&written))), (vec![12, 13], vec![3, 3]));
    }
}
