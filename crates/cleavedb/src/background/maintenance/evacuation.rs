//! Calls that wait until flushes have evacuated segments of the hot store.

use std::collections::BTreeSet;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_hot::HotStore;

use super::flush_with;
use crate::background::jobs::removal;
use crate::background::jobs::separate::unclean;
use crate::engine::Engine;
use crate::engine::job_state::WantedGone;
use crate::store::limit::{flushed_max, moved_beyond};

/// Evacuations in a row that leave as many keys in the hot store as there were, before it counts as
/// one that cannot be emptied.
const VAIN_MAX: usize = 8;

/// Rids the hot store, if there is one, of the dead records and stubs that it holds now: flushes
/// evacuate its segments, each as many as it has room for. Returns whether nothing is left to do:
/// the disk may have no room.
pub(crate) fn clear_apart(engine: &Engine) -> Result<bool> {
    let Some(store) = &engine.apart.hot else { return Ok(true) };
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

/// Keeps keys from becoming hot until it is dropped.
pub(crate) struct PromotionsPaused<'e>(&'e Engine);

impl<'e> PromotionsPaused<'e> {
    pub(crate) fn new(engine: &'e Engine) -> Self {
        engine.apart.hot.iter().for_each(|store| store.pause(true));
        Self(engine)
    }
}

impl Drop for PromotionsPaused<'_> {
    fn drop(&mut self) {
        self.0.apart.hot.iter().for_each(|store| store.pause(false));
    }
}

/// Whether stores apart are empty, as a bulk load wants them when it is published: they are
/// searched before tables.
pub(crate) fn is_apart_empty(engine: &Engine) -> bool {
    engine.apart.hot.as_ref().is_none_or(|store| store.is_empty() || planted(Bug::LoadLeavesHot))
}

/// Empties stores apart.
pub(crate) fn empty_apart(engine: &Engine) -> Result<()> {
    let Some(store) = &engine.apart.hot else { return Ok(()) };
    let (mut vain, mut before) = (0, usize::MAX);
    while !is_apart_empty(engine) {
        let keys = store.len();
        vain = if keys < before { 0 } else { vain + 1 };
        before = keys;
        if vain == VAIN_MAX {
            let what = "keys stay in the hot store, which a bulk load must empty: a segment of it \
                        may be damaged (`cleave check`)";
            return Err(Error::new(ErrorKind::Held, what));
        }
        evacuate_newest(engine, store)?;
    }
    Ok(())
}

/// Has a flush move values out of the hot segments that have the newest version of a key.
fn evacuate_newest(engine: &Engine, store: &HotStore) -> Result<()> {
    let groups = engine.manifest.lock().live().groups.clone();
    let mut wanted = WantedGone::default();
    store.for_each(|pointer| {
        wanted.extents.extend(groups.extent_of(pointer).map(|extent| extent.place));
    });
    engine.jobs.lock().wanted.add(&wanted);
    let evacuated = clear_apart_once(engine);
    engine.jobs.lock().wanted.remove(&wanted);
    if evacuated? {
        return Ok(());
    }
    let what = "the disk has no room to move values out of the hot store, which a bulk load needs; \
                delete something, or make room on the disk";
    Err(Error::new(ErrorKind::NoSpace, what))
}
