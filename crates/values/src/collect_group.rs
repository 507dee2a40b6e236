//! Collection of a group (HashKV, section 3.3): all its extents are read, and what lives in them is
//! known without a question to the index.
//!
//! Every version of a key that the index holds, from the oldest record of the key in the group on,
//! left a record in the group: its value, or a stub. So the records of a key, and what is still in
//! MemTables, tell which of them somebody can see. The rest is as for any victim: see
//! [`crate::collect`].

use std::collections::HashMap;
use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{Header, Record};
use cleavedb_base::{Error, GroupId, Result, TreeKey, ValuePointer};

use crate::collect::{Found, Liveness, RunEntry, check_cancelled, join, repoint};
use crate::groups::writer::Written;
use crate::groups::{ExtentHandle, ExtentReader, ExtentWriter, Place};

/// The result of a collection, not yet installed.
#[derive(Debug, Default)]
pub struct CollectedGroup {
    /// Extents of survivors, synced.
    pub written: Written,
    /// The run of new pointers, in index order.
    pub run: Vec<RunEntry>,
    /// Bytes read.
    pub bytes_read: u64,
}

/// Where survivors go: to the group, or, if they are longer than `main_segment` bytes, to its two
/// halves, so that it can split. Extents of the halves are as good for the group as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    /// The group that is collected.
    pub group: GroupId,
    /// Length of a main segment, in bytes.
    pub main_segment: u64,
}

impl Home {
    /// The groups that get survivors. A half that would get none is no gain: one value may be
    /// longer than a main segment.
    fn groups(self, survivors: &[ValuePointer], hashes: &Hashes) -> Vec<GroupId> {
        let bytes: u64 = survivors.iter().map(|survivor| u64::from(survivor.len)).sum();
        if let Some(halves) = self.group.halves().filter(|_| bytes > self.main_segment) {
            let upper = survivors.iter().filter(|old| halves[1].covers(hashes.of(**old))).count();
            if (1..survivors.len()).contains(&upper) {
                return halves.to_vec();
            }
        }
        vec![self.group]
    }
}

/// The hashes of all keys of a victim, by the places of their records.
#[derive(Default)]
struct Hashes(Vec<(Place, u64)>);

impl Hashes {
    /// Adds a record that lies behind all others.
    fn push(&mut self, record: &Record<'_>, pointer: ValuePointer) {
        let tree_key = TreeKey::new(record.header.keyspace, record.key);
        self.0.push((place_of(pointer), hash64(tree_key.as_bytes(), 0)));
    }

    fn of(&self, pointer: ValuePointer) -> u64 {
        let at = self.0.partition_point(|(place, _)| *place < place_of(pointer));
        self.0[at].1
    }
}

fn place_of(pointer: ValuePointer) -> Place {
    Place { file: pointer.file, offset: pointer.offset }
}

/// Collects all of `extents`, which are all extents of a group. The device is told of all of them
/// first, so that it reads them side by side: the paper's threads (section 3.8), without threads.
pub fn collect_group(
    extents: &[Arc<ExtentHandle>],
    records: &dyn Liveness,
    mut writer: ExtentWriter<'_>,
    home: Home,
    cancelled: &dyn Fn() -> bool,
) -> Result<CollectedGroup> {
    extents.iter().for_each(|handle| handle.will_need());
    let mut readers: Vec<_> = extents.iter().cloned().map(ExtentReader::new).collect();
    readers.sort_unstable_by_key(ExtentReader::place);
    let mut collected = CollectedGroup::default();
    let (mut found, mut hashes) = (Vec::new(), Hashes::default());
    for reader in &mut readers {
        check_cancelled(cancelled)?;
        reader.scan(|record, pointer| {
            hashes.push(record, pointer);
            collected.bytes_read += u64::from(pointer.len);
            found.push(Found::new(record, pointer)?);
            Ok(())
        })?;
    }
    let survivors = join(found, records, &mut collected.run, cancelled)?;
    let mut moved = HashMap::with_capacity(survivors.len());
    let groups = home.groups(&survivors, &hashes);
    for group in &groups {
        check_cancelled(cancelled)?;
        let all = groups.len() == 1 || planted(Bug::SplitIntoWrongHalf) && *group == groups[0];
        for old in &survivors {
            if !moved.contains_key(old) && (all || group.covers(hashes.of(*old))) {
                let record = reader_of(&mut readers, *old)?.record(old.offset)?;
                let header = Header { more: false, ..record.header };
                moved.insert(*old, writer.append(*group, &header, record.key, record.value)?);
            }
        }
    }
    collected.written = writer.finish()?;
    repoint(&mut collected.run, &moved)?;
    Ok(collected)
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
