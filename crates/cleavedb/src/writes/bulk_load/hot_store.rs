//! What a bulk load wants of the hot store, which is searched before tables: that it is empty when
//! the load is published.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_hot::HotStore;

use crate::background::maintenance;
use crate::engine::Engine;
use crate::engine::job_state::WantedGone;

/// Evacuations in a row that leave as many keys in the hot store as there were, before it counts as
/// one that cannot be emptied.
const VAIN_MAX: usize = 8;

/// Keeps keys from becoming hot until it is dropped.
pub(super) struct Paused<'e>(&'e Engine);

impl<'e> Paused<'e> {
    pub(super) fn new(engine: &'e Engine) -> Self {
        engine.hot.iter().for_each(|store| store.pause(true));
        Self(engine)
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.hot.iter().for_each(|store| store.pause(false));
    }
}

/// Whether no key is hot.
pub(super) fn is_clear(engine: &Engine) -> bool {
    engine.hot.as_ref().is_none_or(|store| store.is_empty() || planted(Bug::LoadLeavesHot))
}

/// Empties the hot store.
pub(super) fn clear(engine: &Engine) -> Result<()> {
    let Some(store) = &engine.hot else { return Ok(()) };
    let (mut vain, mut before) = (0, usize::MAX);
    while !is_clear(engine) {
        let keys = store.len();
        vain = if keys < before { 0 } else { vain + 1 };
        before = keys;
        if vain == VAIN_MAX {
            let what = "keys stay in the hot store, which a bulk load must empty: a segment of it \
                        may be damaged (`cleave check`)";
            return Err(Error::new(ErrorKind::Held, what));
        }
        evacuate(engine, store)?;
    }
    Ok(())
}

/// Has a flush move values out of the hot segments that have the newest version of a key.
fn evacuate(engine: &Engine, store: &HotStore) -> Result<()> {
    let groups = engine.manifest.lock().live().groups.clone();
    let mut wanted = WantedGone::default();
    store.for_each(|pointer| {
        wanted.extents.extend(groups.extent_of(pointer).map(|extent| extent.place));
    });
    engine.jobs.lock().wanted.add(&wanted);
    let evacuated = maintenance::clear_apart_once(engine);
    engine.jobs.lock().wanted.remove(&wanted);
    if evacuated? {
        return Ok(());
    }
    let what = "the disk has no room to move values out of the hot store, which a bulk load needs; \
                delete something, or make room on the disk";
    Err(Error::new(ErrorKind::NoSpace, what))
}
