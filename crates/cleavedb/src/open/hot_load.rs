//! Fills the hot store at an open, from the key blocks of its segments, youngest first.
//!
//! The newest record of a key counts, and none if a stub is at least as young: see
//! [`crate::background::jobs::flush`]. Of two records with one sequence number the one in the
//! younger segment counts, to which an evacuation copied it. No value is read, and the index is not
//! asked.
//!
//! *Damage.* Where a key block is damaged, the records are read, and what can be read of the key
//! block tells of those that are damaged as well. A record whose key neither of them tells is
//! unknown, and so are all behind it in its segment. A flush takes the newest version of a key as
//! of its end, whether it was written, promoted, or copied by an evacuation, so what a segment
//! has of a key is never older than what segments before it have, stubs that an evacuation copied
//! excepted. Hence an unknown record may be newer than any record in an older segment, but not
//! than one in its own or a younger one. Which keys it hides nothing tells, since updates of hot
//! keys leave no trace elsewhere, and nearly every older segment has a few records that were
//! overwritten. So all records of older segments are left out. The tables answer for their keys:
//! with the newest version where the key is no longer hot, and else with a marker, which readers
//! report as `Corruption`. These segments stay as they are, for a repair, or a restored file.
//! Keys in question that are overwritten get stubs.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{HEADER_LEN, Header, Record, RecordKind};
use cleavedb_base::sync::atomic::{AtomicUsize, Ordering};
use cleavedb_base::sync::side_by_side;
use cleavedb_base::{EncodedKey, Error, ErrorKind, Result, ValuePointer};
use cleavedb_hot::HotStore;
use cleavedb_hot::loading::{FoundBuilder, FoundSegment, HotLoad};
use cleavedb_storage::segment::Segment;
use cleavedb_values::groups::{Extent, ExtentHandle, key_block};

use crate::engine::Engine;
use crate::engine::hot::Apart;
use crate::engine::job_state::Jobs;
use crate::settings::options::{Background, Options};
use crate::store::manifest::LiveFiles;

/// Most threads that read segments and fill the store.
const THREADS_MAX: usize = 8;

/// Segments behind the one being read whose key blocks the device is told to fetch.
const AHEAD: usize = 8;

/// The stores apart. The hot store is still empty, unless `earlier` has one of the same segments.
pub(crate) fn open_apart(
    database_id: u64,
    options: &Options,
    live: &LiveFiles,
    earlier: Option<&Engine>,
) -> Apart {
    let segments = |live: &LiveFiles| -> Vec<_> {
        live.groups.extents_apart().map(|extent| extent.place).collect()
    };
    let is_same = |earlier: &&Engine| segments(earlier.manifest.lock().live()) == segments(live);
    let known = earlier.filter(is_same).and_then(|earlier| earlier.apart.hot.clone());
    let groups = &options.tuning.groups;
    let empty = || Arc::new(HotStore::new(database_id, options.hot_bytes, groups.heat_limit));
    Apart { hot: known.or_else(|| options.layout().has_hot_store().then(empty)) }
}

/// Whether two engines have one hot store.
fn share_hot_store(engine: &Engine, other: &Engine) -> bool {
    engine.apart.hot.as_ref().zip(other.apart.hot.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
}

/// Fills the hot store of `engine`, if its layout has one, with the records of `live`, unless it is
/// that of the `earlier` engine.
pub(crate) fn load_apart(
    engine: &Engine,
    live: &LiveFiles,
    earlier: Option<&Engine>,
) -> Result<()> {
    let Some(store) = &engine.apart.hot else { return Ok(()) };
    if earlier.is_some_and(|earlier| share_hot_store(engine, earlier)) {
        return Ok(());
    }
    let state = engine.state.load_full();
    // Youngest first.
    let mut extents: Vec<&Extent> = live.groups.extents_apart().collect();
    extents.reverse();
    let handles = extents.iter().map(|extent| Ok(&**state.segments.extent(extent.place)?));
    let handles = handles.collect::<Result<Vec<&ExtentHandle>>>()?;
    let threads: Vec<usize> = (0..threads(&engine.options, extents.len())).collect();
    let next = AtomicUsize::new(0);
    let read = side_by_side(&threads, |_| read_some(store, &extents, &handles, &next));
    let mut read: Vec<_> = read.into_iter().flatten().collect();
    read.sort_unstable_by_key(|(at, ..)| *at);
    let mut found = Vec::with_capacity(read.len());
    let mut keys = 0;
    for (at, segment, damage) in read {
        keys += live_records(extents[at], &segment);
        found.push(segment);
        match damage {
            Err(e) if e.kind() == ErrorKind::Corruption => {
                leave_alone(&engine.jobs, store, e, &extents[at..]);
                if !planted(Bug::OlderThanDamagedTrusted) {
                    break;
                }
            }
            damage => damage?,
        }
    }
    // How often keys were accessed before the open is not known: at first they are hot enough.
    let load = HotLoad::new(store, found, keys, store.limit())?;
    side_by_side(&threads, |part| load.fill(part, threads.len()));
    load.finish();
    Ok(())
}

/// Number of threads that read `segments` segments: one where tests step through jobs.
fn threads(options: &Options, segments: usize) -> usize {
    match options.background {
        Background::Manual => 1,
        Background::Threads(_) => {
            let processors = available_parallelism().map_or(1, NonZero::get);
            processors.min(THREADS_MAX).min(segments).max(1)
        }
    }
}

/// About the number of live records in a segment.
fn live_records(extent: &Extent, found: &FoundSegment) -> u64 {
    let live = found.len() as f64 * extent.live as f64 / extent.records_len.max(1) as f64;
    (live as u64).min(found.len() as u64)
}

/// A segment that was read: its position, its records, and whether they are all.
type Read = (usize, FoundSegment, Result<()>);

/// Reads one segment after the other, of those that no other thread has taken.
fn read_some(
    store: &HotStore,
    extents: &[&Extent],
    handles: &[&ExtentHandle],
    next: &AtomicUsize,
) -> Vec<Read> {
    let mut read = Vec::new();
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some((extent, handle)) = extents.get(at).zip(handles.get(at)) else { return read };
        if let Some(later) = handles.get(at + AHEAD) {
            later.will_need();
        }
        let (segment, damage) = read_segment(store, extent, handle);
        read.push((at, segment, damage));
    }
}

/// Reads the records of a segment, up to the first that is damaged.
fn read_segment(
    store: &HotStore,
    extent: &Extent,
    handle: &ExtentHandle,
) -> (FoundSegment, Result<()>) {
    let mut found = FoundBuilder::new(extent.place, extent.records as usize);
    let read = for_each_record(extent, handle, |record, pointer| {
        let encoded_key = EncodedKey::new(record.header.keyspace, record.key);
        let (key, seq) = (store.key(encoded_key.as_bytes()), record.header.seq);
        match record.header.kind {
            RecordKind::Delete | RecordKind::Tag => found.add_stub(key, seq),
            RecordKind::Separated if found.holds(pointer) => found.add(key, pointer, seq),
            _ => {
                let error = Error::corruption("a record cannot be in a hot segment");
                return Err(error.with("file", pointer.file).with("offset", pointer.offset));
            }
        }
        Ok(())
    });
    (found.finish(), read)
}

/// Records that the first of `extents` could not be read to its end, and that the others are older.
fn leave_alone(jobs: &Jobs, store: &HotStore, damage: Error, extents: &[&Extent]) {
    store.set_incomplete();
    let damaged = &mut jobs.lock().damaged;
    damaged.extents.extend(extents.iter().map(|extent| extent.place));
    damaged.last = Some(damage.clone());
    damaged.lost = Some(damage);
}

/// Passes the records of a segment to `visit`, without their values: from its key block or, if that
/// is damaged, from the records themselves.
fn for_each_record(
    extent: &Extent,
    handle: &ExtentHandle,
    visit: impl FnMut(&Record<'_>, ValuePointer) -> Result<()>,
) -> Result<()> {
    let segment = handle.segment();
    if let Ok(Some(listing)) = handle.read_key_block() {
        let end = extent.place.offset + extent.records_len;
        return key_block::visit(&listing, segment.identity(), extent.place, end, visit);
    }
    let (offset, len) = handle.key_block_content();
    let listing = readable(segment, offset, len)?;
    let records = readable(segment, extent.place.offset, extent.records_len)?;
    for_each_of_both(extent, segment, &records, &listing, visit)
}

/// Passes to `visit` the records of a segment whose key block `listing` is damaged, up to one whose
/// key neither a sound record tells, nor two equal copies of it.
fn for_each_of_both(
    extent: &Extent,
    segment: &Arc<Segment>,
    records: &[u8],
    listing: &[u8],
    mut visit: impl FnMut(&Record<'_>, ValuePointer) -> Result<()>,
) -> Result<()> {
    let (mut rest, mut listed, mut offset) = (records, listing, extent.place.offset);
    while !rest.is_empty() {
        let damaged = || {
            let what = "a hot segment is damaged, so that the newest versions of keys in it and in \
                        older ones are not known; repair the database, or write these keys again";
            Error::corruption(what).with("file", segment.name()).with("offset", offset)
        };
        let header = |bytes| Header::decode(bytes, segment.identity(), offset);
        let header = header(rest).or_else(|| header(listed)).ok_or_else(damaged)?;
        let (record, later) = rest.split_at_checked(header.record_len()).ok_or_else(damaged)?;
        let key_end = HEADER_LEN + usize::from(header.key_len);
        let (key, value) = record[HEADER_LEN..].split_at(key_end - HEADER_LEN);
        if !header.covers(key, value) && listed.get(HEADER_LEN..key_end) != Some(key) {
            return Err(damaged());
        }
        let len = record.len() as u32;
        let pointer = ValuePointer { file: extent.place.file, offset, len };
        visit(&Record { header, key, value }, pointer)?;
        let listed_len = key_end + key_block::listed_len(&header);
        (rest, listed) = (later, listed.get(listed_len..).unwrap_or_default());
        offset += u64::from(len);
    }
    Ok(())
}

/// The bytes from `offset` on, with zeros for those behind the end of the file.
fn readable(segment: &Segment, offset: u64, len: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    for (at, block) in (offset..).step_by(BLOCK).zip(bytes.chunks_mut(BLOCK)) {
        match segment.read(at, block) {
            Err(e) if e.kind() == ErrorKind::Corruption => break,
            read => read?,
        }
    }
    Ok(bytes)
}
