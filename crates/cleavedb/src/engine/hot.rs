//! What the engine asks its hot store, if it has one. To its callers that is a store *apart*: one
//! with an index of its own, of which tables have at most a marker.

use std::sync::Arc;

use cleavedb_base::{Location, ValuePointer};
use cleavedb_hot::HotStore;

use super::Engine;

/// The stores apart.
pub(crate) struct Apart {
    /// Where the layout has a hot store.
    pub(crate) hot: Option<Arc<HotStore>>,
}

/// Bytes of keys and values that a MemTable may have to be flushed for promotions at any time: the
/// promoted records are about as many.
const SMALL: u64 = 4 << 20;

impl Engine {
    /// Whether there is a store apart.
    pub(crate) fn has_apart(&self) -> bool {
        self.apart.hot.is_some()
    }

    /// The place of the newest version of a tree key, if it is in a store apart.
    pub(crate) fn find_apart(&self, encoded_key: &[u8]) -> Option<ValuePointer> {
        let store = self.apart.hot.as_ref()?;
        store.find(store.key(encoded_key))
    }

    /// The places of all newest versions in stores apart.
    pub(crate) fn newest_apart(&self) -> Vec<ValuePointer> {
        let mut places = Vec::new();
        self.apart.hot.iter().for_each(|store| store.for_each(|place| places.push(place)));
        places
    }

    /// Whether a store apart lacks what an open could not read.
    pub(crate) fn is_apart_incomplete(&self) -> bool {
        self.apart.hot.as_ref().is_some_and(|store| store.is_incomplete())
    }

    /// Segments of stores apart that the last flush was to evacuate.
    pub(crate) fn take_emptied_apart(&self) -> Vec<Location> {
        self.apart.hot.as_deref().map(HotStore::take_evacuated).unwrap_or_default()
    }

    /// Whether a flush should begin for keys that were read often, to move them to a store apart.
    pub(crate) fn promotions_want_flush(&self) -> bool {
        let is_small = || {
            let state = self.state.load();
            let before = state.memtables.first().map(|slot| slot.written_before);
            before.is_some_and(|before| self.counters.user_bytes.get() <= before + SMALL)
        };
        self.apart.hot.as_ref().is_some_and(|store| store.wants_flush(is_small))
    }
}
