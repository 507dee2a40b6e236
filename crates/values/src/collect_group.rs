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
use crate::groups::{ExtentHandle, ExtentWriter, Place};

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

/// An extent in memory.
struct Loaded<'a> {
    handle: &'a ExtentHandle,
    bytes: Vec<u8>,
}

impl Loaded<'_> {
    fn holds(&self, place: Place) -> bool {
        let Place { file, offset } = self.handle.place();
        place.file == file && (offset..offset + self.bytes.len() as u64).contains(&place.offset)
    }

    /// The record that begins at `offset` of the file.
    fn record(&self, offset: u64) -> Result<Record<'_>> {
        let segment = self.handle.segment();
        let at = (offset - self.handle.place().offset) as usize;
        Record::parse(&self.bytes[at..], segment.identity(), offset)
            .map_err(|e| e.with("file", segment.name()))
    }

    fn scan(&self, found: &mut Vec<Found>) -> Result<()> {
        let place = self.handle.place();
        let end = place.offset + self.bytes.len() as u64;
        let mut offset = place.offset;
        while offset < end {
            let record = self.record(offset)?;
            let len = record.header.record_len();
            let pointer = ValuePointer { file: place.file, offset, len: len as u32 };
            found.push(Found::new(&record, pointer)?);
            offset += len as u64;
        }
        Ok(())
    }
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
    fn groups(self, survivors: &[ValuePointer], loaded: &[Loaded<'_>]) -> Result<Vec<GroupId>> {
        let bytes: u64 = survivors.iter().map(|survivor| u64::from(survivor.len)).sum();
        if let Some(halves) = self.group.halves().filter(|_| bytes > self.main_segment) {
            let mut upper = 0;
            for survivor in survivors {
                upper += usize::from(halves[1].covers(hash_of(&record_at(loaded, *survivor)?)));
            }
            if (1..survivors.len()).contains(&upper) {
                return Ok(halves.to_vec());
            }
        }
        Ok(vec![self.group])
    }
}

fn hash_of(record: &Record<'_>) -> u64 {
    hash64(TreeKey::new(record.header.keyspace, record.key).as_bytes(), 0)
}

/// Collects all of `extents`, which are all extents of a group.
pub fn collect_group(
    extents: &[Arc<ExtentHandle>],
    records: &dyn Liveness,
    mut writer: ExtentWriter<'_>,
    home: Home,
    cancelled: &dyn Fn() -> bool,
) -> Result<CollectedGroup> {
    let loaded = load(extents)?;
    check_cancelled(cancelled)?;
    let mut collected = CollectedGroup::default();
    let mut found = Vec::new();
    for extent in &loaded {
        extent.scan(&mut found)?;
        collected.bytes_read += extent.bytes.len() as u64;
    }
    let survivors = join(found, records, &mut collected.run, cancelled)?;
    let mut moved = HashMap::with_capacity(survivors.len());
    let groups = home.groups(&survivors, &loaded)?;
    for group in &groups {
        check_cancelled(cancelled)?;
        let all = groups.len() == 1 || planted(Bug::SplitIntoWrongHalf) && *group == groups[0];
        for old in &survivors {
            let record = record_at(&loaded, *old)?;
            if !moved.contains_key(old) && (all || group.covers(hash_of(&record))) {
                let header = Header { more: false, ..record.header };
                moved.insert(*old, writer.append(*group, &header, record.key, record.value)?);
            }
        }
    }
    collected.written = writer.finish()?;
    repoint(&mut collected.run, &moved)?;
    Ok(collected)
}

/// Reads every extent, each in one piece, in the order of their places. The device is told of all
/// of them first, so that it reads them side by side: the paper's threads (section 3.8), without
/// threads.
fn load(extents: &[Arc<ExtentHandle>]) -> Result<Vec<Loaded<'_>>> {
    extents.iter().for_each(|handle| handle.will_need());
    let read = |handle| Ok(Loaded { handle, bytes: handle.read_records()? });
    let mut loaded =
        extents.iter().map(|handle| read(&**handle)).collect::<Result<Vec<Loaded<'_>>>>()?;
    loaded.sort_unstable_by_key(|extent| extent.handle.place());
    Ok(loaded)
}

/// The record of a survivor, in one of the extents that were `loaded`.
fn record_at<'a>(loaded: &'a [Loaded<'_>], survivor: ValuePointer) -> Result<Record<'a>> {
    let place = Place { file: survivor.file, offset: survivor.offset };
    let after = loaded.partition_point(|extent| extent.handle.place() <= place);
    let extent = after.checked_sub(1).map(|at| &loaded[at]).filter(|e| e.holds(place));
    let extent = extent.ok_or_else(|| {
        Error::corruption("a survivor lies in no victim").with("file", survivor.file)
    })?;
    extent.record(survivor.offset)
}
