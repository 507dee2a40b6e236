//! Reads of the hot store: its version of a key, and what is hot while a flush changes that.

use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::sync::thread;
use cleavedb_base::{Error, Result, SeqNo, ValuePointer};
use cleavedb_hot::HotStore;

use super::Heats;
use crate::background::memtables;
use crate::engine::Engine;
use crate::store::state::ReadState;

/// What the hot store has of a key.
pub(super) enum Hot {
    /// Nothing.
    None,
    /// The newest version in a segment: its sequence number and its value.
    Version(SeqNo, Bytes),
    /// A record that the read state does not have: a flush is changing the store.
    Moving,
}

#[inline]
pub(super) fn find_hot(
    engine: &Engine,
    state: &ReadState,
    encoded_key: &[u8],
    heats: Heats,
) -> Result<Hot> {
    match &engine.hot {
        None => Ok(Hot::None),
        Some(store) => find_in_hot(store, state, encoded_key, heats),
    }
}

fn find_in_hot(
    store: &HotStore,
    state: &ReadState,
    encoded_key: &[u8],
    heats: Heats,
) -> Result<Hot> {
    let key = store.key(encoded_key);
    let found = if heats == Heats::Yes { store.read(key) } else { store.find(key) };
    let Some(pointer) = found else { return Ok(Hot::None) };
    if !state.segments.is_there(pointer) {
        return Ok(Hot::Moving);
    }
    let version = state.segments.read_version(None, pointer, encoded_key)?;
    // A record of another key has the same fingerprint, or has taken the place meanwhile.
    Ok(version.map_or(Hot::None, |(seq, value)| Hot::Version(seq, value)))
}

/// Tells the hot store that a key was read whose version lies elsewhere.
#[inline(always)]
pub(super) fn found_cold(engine: &Engine, encoded_key: &[u8], version: (ValuePointer, SeqNo)) {
    if let Some(store) = &engine.hot {
        found_cold_for(engine, store, encoded_key, version);
    }
}

fn found_cold_for(
    engine: &Engine,
    store: &HotStore,
    encoded_key: &[u8],
    version: (ValuePointer, SeqNo),
) {
    store.found_cold(store.key(encoded_key), version);
    if memtables::promotions_want_flush(engine) && store.asks_for_flush() {
        engine.jobs.wake();
    }
}

/// Called when the tables say that a key is hot and the hot store does not have it: lets the change
/// go on that must be under way, or reports the loss.
#[cold]
pub(super) fn check_changes(
    engine: &Engine,
    state: &Arc<ReadState>,
    before: Option<u64>,
) -> Result<()> {
    let now = engine.hot.as_deref().map(HotStore::changes);
    let settled = now == before && now.is_none_or(|changes| changes % 2 == 0);
    if settled && Arc::ptr_eq(state, &engine.state.load()) {
        if let Some(lost) = &engine.jobs.lock().damaged.lost_hot {
            return Err(lost.clone());
        }
        let what = "the index says that a key is hot, and no hot segment has it";
        return Err(Error::corruption(what));
    }
    thread::yield_now();
    Ok(())
}
