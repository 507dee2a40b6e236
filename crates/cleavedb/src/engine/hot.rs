//! What the engine asks its hot store, if it has one. To its callers that is a store *apart*: one
//! with an index of its own, of which tables have at most a marker.

use std::sync::Arc;

use cleavedb_base::{Location, ValuePointer};
use cleavedb_hot::HotStore;
use cleavedb_hot::segment::{RECORD_MIN, record_max};

use super::Engine;
use crate::store::limit::PROMOTED;

/// The stores apart.
pub(crate) struct Apart {
    /// Where the layout has a hot store.
    pub(crate) hot: Option<Arc<HotStore>>,
}

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

    /// Whether a record of this length may be in a store apart.
    pub(crate) fn fits_apart(&self, len: u64) -> bool {
        let most = record_max(self.options.tuning.groups.hot_segment_bytes);
        (u64::from(RECORD_MIN)..=most.min(self.options.hot_bytes)).contains(&len)
    }

    /// Whether a flush moves a record of this length to a store apart if its key is read often.
    pub(crate) fn is_promoted(&self, len: u64) -> bool {
        self.fits_apart(len) && len <= self.options.hot_bytes / PROMOTED
    }

    /// Whether a flush should begin for keys that were read often, to move them to a store apart:
    /// not while level 0 has as many runs as a compaction takes, lest there be many short ones.
    pub(crate) fn promotions_want_flush(&self) -> bool {
        let is_behind = || {
            let runs_max = self.space().compaction_options().l0_runs_max;
            self.state.load().version.runs().len() >= runs_max
        };
        self.apart.hot.as_ref().is_some_and(|store| store.wants_flush()) && !is_behind()
    }
}
