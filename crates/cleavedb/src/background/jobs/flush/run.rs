//! The run of a flush: it says where each version is that the flush keeps.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::slice;
use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::{EntryKind, FileNumber, Result, ValuePointer};
use cleavedb_index::{Entry, Version};
use cleavedb_values::unexposed::{self, Overwritten};

use super::super::kept_versions::{FlushPass, KeptVersions};
use super::super::run_writer::RunWriter;
use super::super::separate::{ApartEntry, Destination, SeparatedValues};
use crate::engine::Engine;
use crate::engine::blobs::LoneByKey;
use crate::store::state::MemSlot;

/// Live bytes that the run of a flush adds to value files.
#[derive(Default)]
pub(super) struct LiveAdded {
    /// Bytes of records that the run points to, by file.
    pub(super) bytes: BTreeMap<FileNumber, u64>,
    /// Estimate of the records in older tables that newer ones replace.
    pub(super) overwritten: Overwritten,
    /// Lone files of older tables that it hides.
    pub(super) hidden: Vec<FileNumber>,
}

/// Writes the run of `slot`: the versions that it keeps, with their values where `separated` says.
pub(super) fn write<'e>(
    engine: &'e Engine,
    slot: &MemSlot,
    kept: &KeptVersions<'_>,
    separated: &SeparatedValues,
    writer: &mut RunWriter<&'e Engine>,
) -> Result<LiveAdded> {
    let version = engine.state.load().version.clone();
    let owns = version.tables().any(|(_, table)| table.meta().pointer_bytes > 0);
    if !separated.entries.is_empty() {
        writer.may_be_covered();
    }
    let mut pass = RunPass {
        lone: LoneByKey::of(&engine.manifest.lock().live().value_files),
        owns,
        version,
        interval: unexposed::sampling_interval(slot.table.capacity()),
        apart: separated.entries.iter().peekable(),
        separated,
        writer,
        keys: 0,
        kept: 0,
        is_newest: false,
        added: LiveAdded::default(),
    };
    kept.visit(&mut pass)?;
    pass.write_apart_before(None)?;
    Ok(pass.added)
}

struct RunPass<'a, 'e> {
    separated: &'a SeparatedValues,
    /// Entries of keys apart that are not in the run yet.
    apart: Peekable<slice::Iter<'a, ApartEntry>>,
    writer: &'a mut RunWriter<&'e Engine>,
    lone: LoneByKey,
    version: Arc<Version>,
    /// Whether the tables own records. If not, this flush can make none of them dead.
    owns: bool,
    /// The tables are asked for one key of this number.
    interval: u64,
    /// Keys that have begun, and versions that were kept.
    keys: u64,
    kept: usize,
    /// Whether the next version is the newest one of its key that is kept.
    is_newest: bool,
    added: LiveAdded,
}

impl<'e> FlushPass<'e> for RunPass<'_, '_> {
    #[inline]
    fn begin_key(&mut self, youngest: &Entry<'e>) {
        self.keys += 1;
        self.is_newest = true;
        self.added.hidden.extend(self.lone.hidden_by_entry(youngest));
    }

    #[inline]
    fn keep(&mut self, entry: Entry<'e>) -> Result<()> {
        let destination = self.separated.destination(self.kept);
        self.kept += 1;
        if std::mem::take(&mut self.is_newest) && self.owns && self.is_sampled() {
            self.sample(&entry, destination)?;
        }
        self.write_apart_before(Some(&entry))?;
        let mut room = [0; ValuePointer::ENCODED_LEN_MAX];
        match destination {
            Destination::Apart => return Ok(()),
            Destination::Group(record) => {
                let place = self.separated.place(record)?;
                let (kind, len) = place.encode_moved(entry.kind, entry.value, &mut room)?;
                return self.writer.add(Entry { kind, value: &room[..len], ..entry });
            }
            Destination::Index if entry.kind.is_pointer() => {
                let pointer = ValuePointer::of_entry(entry.kind, entry.value)?.value;
                *self.added.bytes.entry(pointer.file).or_default() += u64::from(pointer.len);
            }
            Destination::Index => {}
        }
        self.writer.add(entry)
    }
}

impl RunPass<'_, '_> {
    fn is_sampled(&self) -> bool {
        self.keys.is_multiple_of(self.interval)
    }

    /// Counts the record that the newest version of a key replaces, if the tables may have one. A
    /// filter that cannot be read makes the estimate worse; the flush goes on.
    #[cold]
    fn sample(&mut self, entry: &Entry<'_>, destination: Destination) -> Result<()> {
        // What lies apart is counted there.
        let replaces = entry.kind.hides_older() && destination != Destination::Apart;
        let may_contain = || self.version.may_contain(entry.key, hash64(entry.key, 0));
        if replaces && may_contain().unwrap_or(false) {
            self.added.overwritten.add(value_len(entry)?, self.interval);
        }
        Ok(())
    }

    /// Writes the entries of keys apart that stand before `entry` in the run; all, if there is no
    /// entry.
    #[inline]
    fn write_apart_before(&mut self, entry: Option<&Entry<'_>>) -> Result<()> {
        let is_before = |apart: &&ApartEntry| entry.is_none_or(|entry| apart.stands_before(entry));
        while let Some(apart) = self.apart.next_if(is_before) {
            let mut room = [0; ValuePointer::ENCODED_LEN_MAX];
            let (kind, value) = apart.content.as_entry(&mut room);
            self.writer.add(Entry {
                key: &apart.key,
                seq: apart.seq,
                kind,
                repeat: false,
                value,
            })?;
        }
        Ok(())
    }
}

/// The bytes of a value that does not lie in the index; a delete has no value.
fn value_len(entry: &Entry<'_>) -> Result<Option<u64>> {
    if !entry.kind.is_pointer() {
        return Ok((entry.kind != EntryKind::Delete).then_some(0));
    }
    let pointer = ValuePointer::of_entry(entry.kind, entry.value)?.value;
    Ok(Some(u64::from(pointer.len)))
}
