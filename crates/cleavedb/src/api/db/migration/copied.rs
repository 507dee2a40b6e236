//! What a migration brings to the copy: keyspaces with their options, and every key that is not
//! there yet.
//!
//! Keys come in order, and are loaded in bulk. A load is finished again and again, so that a call
//! that goes on after a kill finds most of what was copied; it asks the copy for each key, since a
//! blob is there before the load that its neighbours are in.

use cleavedb_base::{ErrorKind, Result};

use super::MigrateReport;
use crate::api::db::keyspace::check_separates;
use crate::api::db::{BulkLoad, Db, Keyspace};
use crate::control::progress::Progress;
use crate::reads::cursor::Cursor;
use crate::settings::keyspace_options::KeyspaceOptions;
use crate::settings::put_options::PutOptions;

/// A load is finished when it is as long as this many MemTables.
const LOAD_MEMTABLES: u64 = 4;

/// Copies what `copy` does not have of `source`.
pub(super) fn copy_missing(
    source: &Db,
    copy: &Db,
    progress: &Progress,
    report: &mut MigrateReport,
) -> Result<()> {
    progress.begin(source.metrics().data_bytes());
    let separates = check_separates(copy.engine()).is_ok();
    let least = source.engine().manifest.lock().live().saved_separation();
    if separates && least.is_some() {
        copy.default.store_min_separated(least)?;
    }
    copy_keys(&source.default, &copy.default, progress, report)?;
    for keyspace in source.keyspaces()? {
        let stored = keyspace.stored_options()?;
        let min_separated = stored.min_separated.filter(|_| separates);
        let options = KeyspaceOptions { min_separated, ..stored };
        let target = match copy.find_keyspace(keyspace.name())? {
            Some(target) => target,
            None => copy.create_keyspace(keyspace.name(), options)?,
        };
        copy_keys(&keyspace, &target, progress, report)?;
    }
    Ok(())
}

fn copy_keys(
    source: &Keyspace,
    target: &Keyspace,
    progress: &Progress,
    report: &mut MigrateReport,
) -> Result<()> {
    let mut there = target.cursor(..);
    there.seek_to_first()?;
    let (mut copier, mut from) = (KeyCopier { target, load: None, loaded: 0 }, source.cursor(..));
    let copied = loop {
        match copier.copy_next(source, &mut from, &mut there, report) {
            Ok(Some(bytes)) => {
                if let Err(stopped) = progress.add(bytes) {
                    break Err(stopped);
                }
            }
            Ok(None) => break Ok(()),
            Err(e) => break Err(e),
        }
    };
    // What was loaded before an error, or before the caller stopped it, counts.
    let finished = copier.finish_load();
    copied.and(finished)
}

/// Copies the keys of a keyspace.
struct KeyCopier<'a> {
    target: &'a Keyspace,
    load: Option<BulkLoad>,
    /// Bytes of keys and values in the load.
    loaded: u64,
}

impl KeyCopier<'_> {
    /// Copies the next key of `from`, unless `there` has it; returns its bytes, or `None` behind
    /// the last key.
    fn copy_next(
        &mut self,
        source: &Keyspace,
        from: &mut Cursor,
        there: &mut Cursor,
        report: &mut MigrateReport,
    ) -> Result<Option<u64>> {
        if !from.next()? {
            return Ok(None);
        }
        let key = from.key().unwrap_or_default().to_vec();
        while there.key().is_some_and(|other| other < &key[..]) {
            there.next()?;
        }
        if there.key() == Some(&key) {
            report.found += 1;
            return Ok(Some(key.len() as u64));
        }
        let value_len = self.copy_value(source, &key, from)?;
        report.copied += 1;
        Ok(Some(key.len() as u64 + value_len))
    }

    /// Copies the value of `key`, on which `from` is; returns the length of the value.
    fn copy_value(&mut self, source: &Keyspace, key: &[u8], from: &mut Cursor) -> Result<u64> {
        let reader = match from.reader() {
            // Operands that cannot be applied, perhaps only by this open.
            Err(e) if e.kind() == ErrorKind::Merge => {
                let unmerged = source.unmerged(key)?;
                self.target.put_unmerged(key, &unmerged)?;
                return Ok(unmerged.operands.iter().map(|operand| operand.len() as u64).sum());
            }
            reader => reader?,
        };
        let Some(reader) = reader else { return Ok(0) };
        let expires = reader.expires();
        match reader.whole() {
            Ok(value) => self.load(|load| load.put_until(key, &value, expires), key, value.len()),
            Err(blob) => self.target.put_reader_with(key, blob, PutOptions::new().until(expires)),
        }
    }

    /// Adds a key to the load by `put`, and finishes the load if it is long; returns the length of
    /// the value, which is `value_len`.
    fn load(
        &mut self,
        put: impl FnOnce(&mut BulkLoad) -> Result<()>,
        key: &[u8],
        value_len: usize,
    ) -> Result<u64> {
        let load = match &mut self.load {
            Some(load) => load,
            None => self.load.insert(self.target.bulk_load()?),
        };
        if let Err(e) = put(load) {
            self.load = None;
            return Err(e);
        }
        self.loaded += (key.len() + value_len) as u64;
        let memtable = self.target.inner.engine.options.memtable() as u64;
        if self.loaded >= LOAD_MEMTABLES * memtable {
            self.finish_load()?;
        }
        Ok(value_len as u64)
    }

    fn finish_load(&mut self) -> Result<()> {
        self.loaded = 0;
        self.load.take().map_or(Ok(()), |load| load.finish().map(drop))
    }
}
