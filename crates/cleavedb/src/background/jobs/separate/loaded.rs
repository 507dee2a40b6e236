//! How a bulk load writes values to their groups, before an edit names them.
//!
//! A flush holds up collections that would change its groups, for as long as it takes. A load may
//! take hours, so it is the other way round: while one is under way groups neither split nor merge,
//! and flushes begin none. The load begins its groups by edits of its own: they hold nothing, so a
//! load that fails leaves nothing but a few bounds.

use std::time::Duration;

use cleavedb_base::record::Header;
use cleavedb_base::{Error, Result, ValuePointer};
use cleavedb_index::Entry;
use cleavedb_values::groups::{Extent, ExtentWriter, sizing};
use cleavedb_values::{GroupEdit, GroupTable, SegmentFactory, SegmentSet};

use super::copy::FlushShard;
pub(crate) use super::copy::split_tree_key;
pub(crate) use super::groups_now;
use super::pending::{PendingRecord, ValueSource};
use super::{InGroups, begun, extents_of};
use crate::engine::Engine;
use crate::store::manifest::Edit;

/// Interval at which a load that waits for the end of a flush looks again.
const LOOK: Duration = Duration::from_millis(10);

/// A writer of the values of a load, to new files of `files`.
pub(crate) fn writer(
    engine: &Engine,
    files: impl SegmentFactory + 'static,
) -> ExtentWriter<'static> {
    extents_of(engine, &groups_now(engine).1, files)
}

/// Writes `records`, which are in the order of keys, by the `writer` of the values of the load;
/// `ended` are its extents in files that have ended. Returns the places of the records.
pub(crate) fn write_loaded<'r>(
    engine: &Engine,
    records: impl Iterator<Item = (Entry<'r>, Header)>,
    ended: &[Extent],
    writer: &mut ExtentWriter<'_>,
) -> Result<Vec<ValuePointer>> {
    let item = |(id, (entry, header)): (u32, (Entry<'r>, Header))| {
        let seq = entry.seq;
        PendingRecord { entry, source: ValueSource::Memory(header), id, seq }
    };
    let items: Vec<_> = (0..).zip(records).map(item).collect();
    if items.is_empty() {
        return Ok(Default::default());
    }
    let table = begin_groups(engine, &items, [ended, writer.extents()])?;
    let InGroups { groups, ordinals, order } = InGroups::of(&items, &table)?;
    let group_of = |at: u32| groups.group(ordinals[at as usize]);
    let (log, buffer) = (&SegmentSet::default(), engine.commit.log.buffer());
    let shard = FlushShard { items: &items, group_of: &group_of, log, buffer };
    let mut places = vec![None; items.len()];
    for (id, place) in shard.write(&order, writer)? {
        places[id as usize] = Some(place);
    }
    // Whether the next records need new groups depends on what these have got.
    writer.end_extent()?;
    places.into_iter().map(|place| place.ok_or_else(lost)).collect()
}

/// Begins the groups that `items` need. Returns all groups, with the `pending` extents.
fn begin_groups(
    engine: &Engine,
    items: &[PendingRecord<'_>],
    pending: [&[Extent]; 2],
) -> Result<GroupTable> {
    let (_, live) = groups_now(engine);
    let table = with_extents(&live, pending)?;
    match begun(engine, &table, items).is_empty() {
        true => Ok(table),
        false => without_flushes(engine, || begin_groups_now(engine, items, pending)),
    }
}

/// `table` with the `pending` extents.
fn with_extents(table: &GroupTable, pending: [&[Extent]; 2]) -> Result<GroupTable> {
    let pending: Vec<GroupEdit> =
        pending.into_iter().flatten().cloned().map(GroupEdit::Add).collect();
    sizing::after(table, &pending)
}

/// Does `work` while no flush is under way, and none begins: what a flush has written belongs to
/// the groups that there were when it began.
pub(crate) fn without_flushes<T>(engine: &Engine, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let _hurry = engine.pacer.hurry_flushes();
    let mut jobs = engine.jobs.lock();
    jobs.set_load_begins_groups(true);
    while jobs.flushing && !engine.jobs.closing() {
        engine.jobs.progress.wait_for(&mut jobs, LOOK);
    }
    drop(jobs);
    let done = engine.check_open().and_then(|()| work());
    engine.jobs.lock().set_load_begins_groups(false);
    // The flush that was held up is due.
    engine.jobs.wake();
    done
}

fn begin_groups_now(
    engine: &Engine,
    items: &[PendingRecord<'_>],
    pending: [&[Extent]; 2],
) -> Result<GroupTable> {
    let mut manifest = engine.manifest.lock();
    let table = with_extents(&manifest.live().groups, pending)?;
    let begins = begun(engine, &table, items);
    let table = sizing::after(&table, &begins)?;
    if !begins.is_empty() {
        engine.commit_edit(&mut manifest, &Edit { groups: begins, ..Edit::default() })?;
        let groups = manifest.live().groups.clone();
        engine.state.swap(|state| {
            let segments = SegmentSet::clone(&state.segments);
            state.with_groups(segments, groups.clone())
        });
    }
    Ok(table)
}

fn lost() -> Error {
    Error::corruption("a bulk load has lost the place of a record that it wrote")
}
