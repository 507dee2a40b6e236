//! Calls that wait until flushes have evacuated segments of the hot store.

use std::collections::BTreeSet;

use cleavedb_base::{ErrorKind, FileNumber, Result};
use cleavedb_hot::HotStore;

use super::flush_with;
use crate::background::jobs::removal;
use crate::background::jobs::separate::unclean;
use crate::engine::Engine;
use crate::store::limit::{flushed_max, moved_beyond};

/// Rids the hot store, if there is one, of the dead records and stubs that it holds now: flushes
/// evacuate its segments, each as many as it has room for. Returns whether nothing is left to do:
/// the disk may have no room.
pub(crate) fn clear_apart(engine: &Engine) -> Result<bool> {
    let Some(store) = &engine.hot else { return Ok(true) };
    let groups = engine.manifest.lock().live().groups.clone();
    let files = groups.extents_apart().map(|extent| extent.place.file);
    let Some(upto) = files.max() else { return Ok(true) };
    engine.jobs.lock().leaving.push(upto);
    let evacuated = evacuate_upto(engine, store, upto);
    let callers = &mut engine.jobs.lock().leaving;
    if let Some(own) = callers.iter().position(|of| *of == upto) {
        callers.swap_remove(own);
    }
    evacuated
}

/// Has flushes evacuate hot segments once more, those that callers want gone among them. Returns
/// whether the disk had room for that.
pub(crate) fn clear_apart_once(engine: &Engine) -> Result<bool> {
    let most = flushed_max(moved_beyond(&engine.options));
    if engine.space().room_on_disk() / 2 < most {
        return Ok(false);
    }
    flush_with(engine, |append| append.appender.is_begun()).map(|()| true)
}

fn evacuate_upto(engine: &Engine, store: &HotStore, upto: FileNumber) -> Result<bool> {
    let mut before = BTreeSet::new();
    loop {
        let groups = engine.manifest.lock().live().groups.clone();
        let left_alone = engine.jobs.lock().damaged.extents.clone();
        let left = unclean(store, &groups, &left_alone, upto);
        if left.is_empty() {
            return Ok(true);
        }
        // Half of the room, as for a collection in pieces: indexes and last blocks come on top.
        let most = flushed_max(moved_beyond(&engine.options));
        if left == before || engine.space().room_on_disk() / 2 < most {
            return Ok(false);
        }
        match flush_with(engine, |append| append.appender.is_begun()) {
            Err(e) if e.kind() == ErrorKind::NoSpace => return Ok(false),
            flushed => flushed?,
        }
        if engine.space().is_disk_full() {
            removal::purge(engine);
        }
        before = left;
    }
}
