//! The part of a flush's installation that changes stores apart.
//!
//! The order of steps is that of [`cleavedb_hot::store`]: the edit, what readers must not miss, the
//! read state, what they no longer need.

use std::collections::BTreeSet;

use cleavedb_base::{FileNumber, Location, Result};
use cleavedb_hot::HotStore;
use cleavedb_storage::FileKind;
use cleavedb_values::ValueFileEdit;

use super::HotFlushed;
use crate::engine::Engine;
use crate::engine::value_files;
use crate::store::manifest::{Edit, LiveFiles};

/// What a flush changes in stores apart, if there are any.
pub(crate) struct ApartInstall<'e> {
    engine: &'e Engine,
    change: Option<(&'e HotStore, HotFlushed)>,
    /// Files without a segment after the flush.
    emptied: Vec<(FileNumber, FileKind)>,
}

impl<'e> ApartInstall<'e> {
    /// Adds the changes of `flushed` to `edit`.
    pub(crate) fn new(
        engine: &'e Engine,
        flushed: Option<HotFlushed>,
        live: &LiveFiles,
        edit: &mut Edit,
    ) -> Self {
        let change = engine.apart.hot.as_deref().zip(flushed);
        let mut emptied = Vec::new();
        if let Some((_, flushed)) = &change {
            value_files::publish(&flushed.written, edit);
            edit.groups.extend(flushed.edits.iter().cloned());
            let gone: BTreeSet<Location> = flushed.change.gone.iter().copied().collect();
            emptied = value_files::emptied(live, &gone);
            edit.value_files.extend(emptied.iter().map(|(file, _)| ValueFileEdit::Remove(*file)));
        }
        Self { engine, change, emptied }
    }

    /// Once the edit is durable, and before readers see the run.
    pub(crate) fn publish(&self) -> Result<()> {
        let Some((store, flushed)) = &self.change else { return Ok(()) };
        store.publish(&flushed.change).map_err(|e| self.engine.poison.set(e))?;
        value_files::mark_obsolete(self.engine, &flushed.change.gone, &self.emptied)
    }

    /// Segments that the flush removes.
    pub(crate) fn emptied(&self) -> &[Location] {
        self.change.as_ref().map_or(&[], |(_, flushed)| &flushed.change.gone)
    }

    /// Once readers see the run.
    pub(crate) fn retire(&self, live: &LiveFiles) {
        let Some((store, flushed)) = &self.change else { return };
        store.retire(&flushed.change);
        value_files::retire_segments(self.engine, live, &self.emptied);
        store.adapt(flushed.fill);
    }

    /// Bytes that it wrote.
    pub(crate) fn bytes(&self) -> u64 {
        self.change.as_ref().map_or(0, |(_, flushed)| flushed.written.bytes())
    }
}
