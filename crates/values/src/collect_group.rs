//! Collection of a group: all its extents are read, and its survivors become one extent.
//!
//! In a hash group (HashKV, section 3.3) what lives is known without a question to the index. Every
//! version of a key that the index holds, from the oldest record of the key in the group on, left a
//! record in the group: its value, or a stub. So the records of a key, and what is still in
//! MemTables, tell which of them somebody can see. A range of keys (KT-Store) is joined with its
//! part of the index instead, and its survivors are written in the order of their keys. The rest is
//! as for any victim: see [`crate::collect`].

use std::collections::HashMap;
use std::sync::Arc;

use cleavedb_base::partition::{cut, middle_of_hashes};
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::Header;
use cleavedb_base::{Error, GroupId, Partitioner, Result, ValuePointer};

use crate::collect::{Found, Liveness, RunEntry, check_cancelled, join, repoint};
use crate::groups::writer::Written;
use crate::groups::{ExtentHandle, ExtentReader, ExtentWriter, GroupEdit, GroupTable, Place};

/// The result of a collection, not yet installed.
#[derive(Debug)]
pub struct CollectedGroup {
    /// The group.
    pub group: GroupId,
    /// Its extents that were collected, and go.
    pub gone: Vec<Place>,
    /// Extents of survivors, synced.
    pub written: Written,
    /// Where the group is to be divided; if at all, extents of survivors name its parts, which are
    /// numbered from `first` on.
    bounds: Vec<Vec<u8>>,
    first: GroupId,
    /// The run of new pointers, in index order.
    pub run: Vec<RunEntry>,
    /// Bytes read.
    pub bytes_read: u64,
}

impl CollectedGroup {
    /// Whether the group is to split.
    pub fn splits(&self) -> bool {
        !self.bounds.is_empty()
    }

    /// What was written, and the split of the group into parts with ids from `first` on.
    pub fn divided(&self, first: GroupId) -> (Written, GroupEdit) {
        let mut written = self.written.clone();
        for extent in &mut written.extents {
            extent.group = GroupId(extent.group.0 - self.first.0 + first.0);
        }
        (written, GroupEdit::Split { group: self.group, bounds: self.bounds.clone(), first })
    }

    /// What was written, if the group stays whole.
    pub fn undivided(&self) -> Written {
        let mut written = self.written.clone();
        written.extents.iter_mut().for_each(|extent| extent.group = self.group);
        written
    }
}

/// Where survivors go: to the group, or, if they are longer than `main_segment` bytes, to the parts
/// of the group, so that it can split. Extents of the parts are as good for the group as a whole.
#[derive(Clone, Copy)]
pub struct Home<'a> {
    /// The group that is collected.
    pub group: GroupId,
    /// The groups.
    pub table: &'a GroupTable,
    /// Length of a main segment, in bytes.
    pub main_segment: u64,
}

impl Home<'_> {
    /// Where the group is divided: hashes in the middle, keys where the parts become even. A half
    /// that would get no survivors is no gain: one value may be longer than a main segment.
    fn bounds(self, survivors: &[&Found]) -> Vec<Vec<u8>> {
        let len = |survivor: &&Found| u64::from(survivor.pointer.len);
        let bytes: u64 = survivors.iter().map(len).sum();
        let Some(group) = self.table.group(self.group).filter(|_| bytes > self.main_segment) else {
            return Vec::new();
        };
        match self.table.partitioner() {
            Partitioner::Hash => {
                let middle = middle_of_hashes(&group.bound, self.table.end_of(self.group));
                let gains = |middle: &Vec<u8>| {
                    let upper = |survivor: &&&Found| self.part(survivor, &[&**middle]) == 1;
                    (1..survivors.len()).contains(&survivors.iter().filter(upper).count())
                };
                middle.into_iter().filter(gains).collect()
            }
            Partitioner::Key => {
                let records = survivors.iter().map(|survivor| (&*survivor.key, len(survivor)));
                cut(records, bytes.div_ceil(self.main_segment))
            }
            Partitioner::Levels(_) => Vec::new(),
        }
    }

    /// Which part of the group a record belongs to, counted from 0.
    fn part<B: AsRef<[u8]>>(self, record: &Found, bounds: &[B]) -> usize {
        if bounds.is_empty() {
            return 0;
        }
        let token = self.table.partitioner().token(&record.key);
        bounds.partition_point(|bound| *bound.as_ref() <= *token)
    }
}

/// Collects all of `extents`, which are all extents of a group. The device is told of all of them
/// first, so that it reads them side by side: HashKV's threads (section 3.8), without threads.
pub fn collect_group(
    extents: &[Arc<ExtentHandle>],
    liveness: &dyn Liveness,
    mut writer: ExtentWriter<'_>,
    home: Home<'_>,
    cancelled: &dyn Fn() -> bool,
) -> Result<CollectedGroup> {
    extents.iter().for_each(|handle| handle.will_need());
    let mut readers: Vec<_> = extents.iter().cloned().map(ExtentReader::new).collect();
    readers.sort_unstable_by_key(ExtentReader::place);
    let mut found = Vec::new();
    for reader in &mut readers {
        check_cancelled(cancelled)?;
        reader.scan(|record, pointer| {
            found.push(Found::new(record, pointer)?);
            Ok(())
        })?;
    }
    let bytes_read = found.iter().map(|record| u64::from(record.pointer.len)).sum();
    let mut run = Vec::new();
    let mut survivors = join(&mut found, liveness, &mut run, cancelled)?;
    if !home.table.partitioner().keeps_order() {
        survivors.sort_unstable_by_key(|survivor| place_of(survivor.pointer));
    }
    let bounds = home.bounds(&survivors);
    let mut parts: Vec<Vec<ValuePointer>> = vec![Vec::new(); bounds.len() + 1];
    for survivor in survivors {
        let part = home.part(survivor, &bounds);
        parts[if planted(Bug::SplitIntoWrongHalf) { 0 } else { part }].push(survivor.pointer);
    }
    let first = if bounds.is_empty() { home.group } else { home.table.next_id() };
    let mut moved = HashMap::new();
    for (group, survivors) in (first.0..).map(GroupId).zip(parts) {
        check_cancelled(cancelled)?;
        for old in survivors {
            let record = reader_of(&mut readers, old)?.record(old.offset)?;
            let header = Header { more: false, ..record.header };
            moved.insert(old, writer.append(group, &header, record.key, record.value)?);
        }
    }
    repoint(&mut run, &moved)?;
    Ok(CollectedGroup {
        group: home.group,
        gone: extents.iter().map(|extent| extent.place()).collect(),
        written: writer.finish()?,
        bounds,
        first,
        run,
        bytes_read,
    })
}

fn place_of(pointer: ValuePointer) -> Place {
    Place { file: pointer.file, offset: pointer.offset }
}

/// The reader of the extent that holds a survivor; they are sorted by place.
fn reader_of(readers: &mut [ExtentReader], survivor: ValuePointer) -> Result<&mut ExtentReader> {
    let place = place_of(survivor);
    let after = readers.partition_point(|reader| reader.place() <= place);
    let reader = after.checked_sub(1).map(|at| &mut readers[at]).filter(|r| r.holds(place));
    reader.ok_or_else(|| {
        Error::corruption("a survivor lies in no victim").with("file", survivor.file)
    })
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;
    use crate::groups::Extent;

    fn extent(group: u64, offset: u64) -> Extent {
        let place = Place { file: FileNumber(9), offset };
        Extent {
            group: GroupId(group),
            place,
            records_len: 100,
            filter_len: 0,
            records: 1,
            stubs: 0,
            separated: 100,
            survivors: true,
            live: 100,
        }
    }

    /// Other groups may have begun since the collection did.
    #[test]
    fn parts_get_their_ids_when_they_are_installed() {
        let extents = vec![extent(7, 4096), extent(8, 8192)];
        let collected = CollectedGroup {
            group: GroupId(3),
            gone: Vec::new(),
            written: Written { extents, files: Vec::new() },
            bounds: vec![b"m".to_vec()],
            first: GroupId(7),
            run: Vec::new(),
            bytes_read: 0,
        };
        let ids = |written: Written| -> Vec<u64> {
            written.extents.iter().map(|extent| extent.group.0).collect()
        };
        let (divided, split) = collected.divided(GroupId(12));
        let bounds = vec![b"m".to_vec()];
        assert_eq!(split, GroupEdit::Split { group: GroupId(3), bounds, first: GroupId(12) });
        assert_eq!((ids(divided), ids(collected.undivided())), (vec![12, 13], vec![3, 3]));
    }
}
