//! Collection of a group (HashKV, section 3.3): all its extents are read, and what lives in them is
//! known without a question to the index.
//!
//! Every version of a key that the index holds, from the oldest record of the key in the group on,
//! left a record in the group: its value, or a stub. So the records of a key, and what is still in
//! MemTables, tell which of them somebody can see. The rest is as for any victim: see
//! [`crate::collect`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cleavedb_base::checksum::hash64;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{Header, Record};
use cleavedb_base::{Error, GroupId, Result, ValuePointer};
use parking_lot::Mutex;

use crate::collect::{Found, Liveness, RunEntry, check_cancelled, join, repoint};
use crate::groups::writer::Written;
use crate::groups::{ExtentHandle, ExtentWriter};

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
    fn group_of(self, hash: u64, survivors: u64) -> GroupId {
        let halves = self.group.halves().filter(|_| survivors > self.main_segment);
        let upper = halves.map(|halves| halves[1].covers(hash));
        match (halves, upper) {
            (Some([lower, _]), Some(false)) => lower,
            (Some([lower, _]), _) if planted(Bug::SplitIntoWrongHalf) => lower,
            (Some([_, upper]), _) => upper,
            (None, _) => self.group,
        }
    }
}

/// Collects all of `extents`, which are all extents of a group; `readers` threads read.
pub fn collect_group(
    extents: &[Arc<ExtentHandle>],
    records: &dyn Liveness,
    mut writer: ExtentWriter<'_>,
    home: Home,
    readers: usize,
    cancelled: &dyn Fn() -> bool,
) -> Result<CollectedGroup> {
    let loaded = load(extents, readers)?;
    check_cancelled(cancelled)?;
    let mut collected = CollectedGroup::default();
    let mut found = Vec::new();
    for extent in &loaded {
        extent.scan(&mut found)?;
        collected.bytes_read += extent.bytes.len() as u64;
    }
    let hashes: HashMap<ValuePointer, u64> =
        found.iter().map(|record| (record.pointer, hash64(&record.key, 0))).collect();
    let mut survivors = join(found, records, &mut collected.run, cancelled)?;
    let bytes = survivors.iter().map(|survivor| u64::from(survivor.len)).sum();
    let group_of = |survivor: &ValuePointer| home.group_of(hashes[survivor], bytes);
    survivors.sort_by_key(group_of);
    let mut moved = HashMap::with_capacity(survivors.len());
    for old in survivors {
        let holds = |extent: &&Loaded<'_>| {
            let place = extent.handle.place();
            let range = place.offset..place.offset + extent.bytes.len() as u64;
            place.file == old.file && range.contains(&old.offset)
        };
        let extent = loaded.iter().find(holds).ok_or_else(|| {
            Error::corruption("a survivor lies in no victim").with("file", old.file)
        })?;
        let record = extent.record(old.offset)?;
        let header = Header { more: false, ..record.header };
        moved.insert(old, writer.append(group_of(&old), &header, record.key, record.value)?);
    }
    collected.written = writer.finish()?;
    repoint(&mut collected.run, &moved)?;
    Ok(collected)
}

/// Reads every extent, each in one piece, several side by side.
fn load(extents: &[Arc<ExtentHandle>], readers: usize) -> Result<Vec<Loaded<'_>>> {
    let read = |handle: &Arc<ExtentHandle>| handle.read_records();
    let loaded = if readers < 2 || extents.len() < 2 {
        extents.iter().map(read).collect::<Result<Vec<_>>>()?
    } else {
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<Option<Result<Vec<u8>>>>> =
            Mutex::new(extents.iter().map(|_| None).collect());
        let work = || {
            while let Some((at, handle)) = {
                let at = next.fetch_add(1, Ordering::Relaxed);
                extents.get(at).map(|handle| (at, handle))
            } {
                let result = read(handle);
                results.lock()[at] = Some(result);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..readers.min(extents.len()) {
                // A thread that cannot be started is not needed: this one reads too.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        results.into_inner().into_iter().flatten().collect::<Result<Vec<_>>>()?
    };
    let pairs = extents.iter().zip(loaded);
    Ok(pairs.map(|(handle, bytes)| Loaded { handle, bytes }).collect())
}
