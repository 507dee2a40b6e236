//! Reads the records of the system keyspace at an open: the catalog, dictionaries, and range
//! deletes.
//!
//! A database that has none pays nothing: no table reaches into that keyspace then, and replay says
//! whether it met such a record.

use std::sync::Arc;

use cleavedb_base::limits::KEYSPACE_PREFIX_LEN;
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::{EntryKind, Error, ErrorKind, KeyspaceId, Result};
use cleavedb_index::{MergeIter, ReadMode, VisibleIter};

use crate::engine::Engine;
use crate::engine::range_deletes;
use crate::operations::bounds::Bounds;
use crate::operations::catalog::{self, DICTIONARIES, FORGOTTEN, NAMES, RANGES};
use crate::writes::dictionaries;

/// Fills the catalog of a database that is being opened; `earlier` is an earlier state of it.
pub(crate) fn load(engine: &Engine, earlier: Option<&Engine>) -> Result<()> {
    load_records(engine)?;
    if let Some(earlier) = earlier {
        engine.catalog.take_over(&earlier.catalog, engine.commit.visible());
    }
    Ok(())
}

fn load_records(engine: &Engine) -> Result<()> {
    let Bounds { lower, upper, .. } = Bounds::of(KeyspaceId::SYSTEM, &..);
    let state = engine.state.load();
    let mut sources = state.version.iters(Some(&lower), Some(&upper), ReadMode::Cached);
    for slot in state.memtables.iter().filter(|slot| slot.has_system.load(Ordering::Relaxed)) {
        sources.extend(slot.table.iters());
    }
    if sources.is_empty() {
        return Ok(());
    }
    let merged = MergeIter::new(sources);
    let mut records = VisibleIter::new(merged, engine.commit.visible(), Some(lower), Some(upper));
    let mut named = engine.catalog.named();
    let (mut deleted, mut stored) = (Vec::new(), Vec::new());
    records.seek_first()?;
    while records.valid() {
        let key = records.key().get(KEYSPACE_PREFIX_LEN..).unwrap_or_default();
        if records.kind() != EntryKind::Inline {
            return Err(Error::corruption("a record of the system keyspace is no plain value"));
        }
        match key.first() {
            Some(&NAMES) => {
                let (name, id, options) = catalog::decode(key, records.value())?;
                let entry = engine.catalog.entry(id, &name, options);
                named.insert(Arc::new(entry.since(records.seq())));
            }
            Some(&DICTIONARIES) => {
                let (keyspace, dictionary) = dictionaries::decode(key, records.value())?;
                stored.push((keyspace, dictionary, records.seq()));
            }
            Some(&RANGES) => {
                deleted.push(range_deletes::decode(key, records.value(), records.seq())?);
            }
            Some(&FORGOTTEN) => {
                range_deletes::found_forgotten(engine, records.value())?;
            }
            kind => {
                let what = "the system keyspace has a record that this release does not know";
                let kind = format!("{kind:?}");
                return Err(Error::new(ErrorKind::NewerFormat, what).with("kind", kind));
            }
        }
        records.next()?;
    }
    drop(named);
    range_deletes::found(engine, deleted);
    dictionaries::found(&engine.catalog, stored);
    Ok(())
}
