//! Fills the hot store at an open, from the key blocks of its segments.
//!
//! The newest record of a key counts, and none if a stub is at least as young: see
//! [`crate::jobs::flush`]. Of two records with one sequence number the one in the younger segment
//! counts, to which an evacuation copied it. No value is read, and the index is not asked.

use std::collections::HashMap;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{Record, RecordKind};
use cleavedb_base::{EncodedKey, Error, Result, SeqNo, ValuePointer};
use cleavedb_hot::segment::{HotKey, HotSegmentBuilder};
use cleavedb_hot::store::{HotChange, HotPut, HotReason};
use cleavedb_storage::log::LogReader;
use cleavedb_values::GroupId;
use cleavedb_values::groups::{Extent, ExtentHandle, key_block};

use crate::engine::Engine;
use crate::manifest::LiveFiles;

/// The youngest mention of a key so far: its sequence number, and its record if it is no stub.
type Newest = (SeqNo, Option<HotPut>);

/// Fills the hot store of `engine`, if its layout has one, with the records of `live`.
pub(crate) fn load(engine: &Engine, live: &LiveFiles) -> Result<()> {
    let Some(store) = &engine.hot else { return Ok(()) };
    let state = engine.state.load_full();
    let mut newest: HashMap<HotKey, Newest> = HashMap::new();
    let mut change = HotChange::default();
    // How often keys were accessed before the open is not known: at first they are hot enough.
    let limit = store.limit();
    for extent in live.groups.extents_of(GroupId::HOT) {
        let handle = state.segments.extent(extent.place)?;
        let mut builder = HotSegmentBuilder::new(extent.place);
        let segment = change.segments.len();
        for_each_record(extent, handle, |record, pointer| {
            let encoded_key = EncodedKey::new(record.header.keyspace, record.key);
            let (key, seq) = (store.key(encoded_key.as_bytes()), record.header.seq);
            let put = match record.header.kind {
                RecordKind::Delete | RecordKind::Tag => None,
                RecordKind::Separated if builder.holds(pointer) => {
                    builder.add(key, pointer);
                    Some(HotPut { key, segment, pointer, heat: limit, reason: HotReason::Found })
                }
                _ => {
                    let error = Error::corruption("a record cannot be in a hot segment");
                    return Err(error.with("file", pointer.file).with("offset", pointer.offset));
                }
            };
            let known = newest.get(&key).map(|(known, _)| *known);
            let stays = |known| known > seq || planted(Bug::OlderHotRevived);
            if !known.is_some_and(stays) {
                newest.insert(key, (seq, put));
            }
            Ok(())
        })?;
        change.segments.push(builder.finish());
    }
    change.puts = newest.into_values().filter_map(|(_, put)| put).collect();
    store.publish(&change)?;
    store.retire(&change);
    Ok(())
}

/// Passes the records of a segment to `visit`, without their values: from its key block or, if that
/// is damaged, from the records themselves.
fn for_each_record(
    extent: &Extent,
    handle: &ExtentHandle,
    mut visit: impl FnMut(&Record<'_>, ValuePointer) -> Result<()>,
) -> Result<()> {
    let segment = handle.segment();
    let (begin, end) = (extent.place.offset, extent.place.offset + extent.records_len);
    if let Ok(Some(listing)) = handle.read_key_block() {
        return key_block::visit(&listing, segment.identity(), (extent.place, end), visit);
    }
    let identity = segment.identity();
    let mut reader = LogReader::new(&**segment.file(), None, identity, 0, begin, Some(end))?;
    while let Some((offset, record)) = reader.next_record()? {
        let len = record.header.record_len() as u32;
        visit(&record, ValuePointer { file: extent.place.file, offset, len })?;
    }
    if reader.offset() == end {
        return Ok(());
    }
    let what = "a hot segment is damaged, so that its keys are not known; repair the database to \
                save the others";
    Err(Error::corruption(what).with("file", segment.name()).with("offset", reader.offset()))
}
