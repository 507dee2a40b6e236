//! Hands out what was found, key by key, and reports the rest.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cleavedb_base::key::split_encoded_key;
use cleavedb_base::limits::{KEYSPACE_PREFIX_LEN, SEQ_MAX};
use cleavedb_base::record::Record;
use cleavedb_base::{
    EncodedKey, Error, FileNumber, KeyspaceId, Lasting, Result, SeqNo, ValuePointer,
};
use cleavedb_index::{DeletedRanges, Entry};
use cleavedb_storage::api::read_exact_at;
use cleavedb_storage::log::salvage::{header_in_window, proven_header};
use cleavedb_storage::{File, FileKind, Name};

use super::blobs::lone_end;
use super::known::{Known, Verdict};
use super::operands::MergedKeys;
use super::report::list;
use super::{Salvage, SalvageReport, Saved, Visit, VisitEncoded};
use crate::engine::range_deletes;
use crate::operations::catalog::{self, DEFAULT_NAME, NAMES, RANGES};
use crate::settings::keyspace_options::KeyspaceOptions;

/// What the system keyspace says.
#[derive(Default)]
pub(super) struct System {
    /// The keyspaces.
    pub(super) keyspaces: BTreeMap<KeyspaceId, (String, KeyspaceOptions)>,
    /// The ranges that were deleted.
    deleted: DeletedRanges,
}

/// The name of a keyspace whose own is lost.
fn unnamed_keyspace(id: KeyspaceId) -> String {
    format!("keyspace {}", id.0)
}

impl Salvage {
    /// Calls `visit` with every key that can be saved and its value, in no order, and returns a
    /// report of the rest. A keyspace whose name is lost is called `keyspace` with its number, and
    /// is among the damage.
    /// Stops at the first error of `visit`, and returns it.
    pub fn hand_out(mut self, visit: &mut Visit<'_>) -> Result<SalvageReport> {
        let mut keys = std::mem::take(&mut self.keys);
        let System { keyspaces, deleted } = std::mem::take(&mut self.system);
        let mut unnamed = BTreeSet::new();
        keys.retain(|key, known| {
            known.merges.retain(|seq| !deleted.covers(key, seq, SEQ_MAX));
            let is_deleted = deleted.covers(key, known.newest(), SEQ_MAX);
            if is_deleted {
                (known.entry, known.records) = (None, Vec::new());
            }
            !is_deleted || !known.merges.is_empty()
        });
        self.hand_out_keys(keys, &mut |encoded_key, found| {
            let Some((id, key)) = split_encoded_key(encoded_key) else { return Ok(()) };
            match keyspaces.get(&id) {
                Some((keyspace, _)) => visit(Saved::of(keyspace, key, found)),
                None => {
                    unnamed.insert(id);
                    visit(Saved::of(&unnamed_keyspace(id), key, found))
                }
            }
        })?;
        for id in unnamed {
            let what =
                "the name and the options of a keyspace are lost; it is saved under a number";
            self.report.note(Error::corruption(what).with("keyspace", unnamed_keyspace(id)));
        }
        Ok(self.report)
    }

    /// Reads the records of the system keyspace. Those that are lost, and keyspaces that may have
    /// been dropped, are damage.
    pub(super) fn read_system(&mut self) -> Result<()> {
        let first = EncodedKey::new(KeyspaceId::SYSTEM, b"");
        let records = self.keys.split_off(first.as_bytes());
        let usual = (DEFAULT_NAME.to_owned(), KeyspaceOptions::default());
        let mut keyspaces = BTreeMap::from([(KeyspaceId::DEFAULT, usual)]);
        let (mut ranges, mut damage) = (Vec::new(), Vec::new());
        let seqs: BTreeMap<Vec<u8>, SeqNo> =
            records.iter().map(|(key, known)| (key.clone(), known.newest())).collect();
        let counted = (self.report.keys, self.report.value_bytes);
        let values = self.values.clone();
        self.hand_out_keys(records, &mut |encoded_key, found| {
            let Some((_, key)) = split_encoded_key(encoded_key) else { return Ok(()) };
            let value = found.value;
            let read = match key.first() {
                Some(&NAMES) => catalog::decode(key, value).map(|(name, id, options)| {
                    keyspaces.insert(id, (name, options));
                }),
                Some(&RANGES) => {
                    let seq = seqs.get(encoded_key).copied().unwrap_or_default();
                    range_deletes::decode(key, value, seq).map(|range| ranges.push(range))
                }
                _ => values.note(key, value),
            };
            damage.extend(read.err());
            Ok(())
        })?;
        damage.into_iter().for_each(|error| self.report.note(error));
        let report = &mut self.report;
        (report.keys, report.value_bytes) = counted;
        (report.lost_keys, report.uncertain_keys) = (0, 0);
        for key in std::mem::take(&mut report.lost) {
            report.note(match key.split_first() {
                Some((&NAMES, name)) => {
                    let what = "the options of a keyspace are lost";
                    Error::corruption(what).with("keyspace", name.escape_ascii())
                }
                Some((&RANGES, _)) => Error::corruption(
                    "a deleted range is lost: what was deleted there may be among what is saved",
                ),
                _ => Error::corruption("a dictionary is lost"),
            });
        }
        for key in std::mem::take(&mut report.uncertain) {
            if let Some((&NAMES, name)) = key.split_first() {
                let what = "a keyspace may have been dropped, or have had other options";
                report.note(Error::corruption(what).with("keyspace", name.escape_ascii()));
            }
        }
        self.system = System { keyspaces, deleted: DeletedRanges::default().with(ranges, 0) };
        Ok(())
    }

    fn hand_out_keys(
        &mut self,
        keys: BTreeMap<Vec<u8>, Known>,
        visit: &mut VisitEncoded<'_>,
    ) -> Result<()> {
        let mut in_records: BTreeMap<(FileNumber, u64), (Vec<u8>, usize)> = BTreeMap::new();
        let mut in_tables: BTreeMap<FileNumber, BTreeMap<Vec<u8>, SeqNo>> = BTreeMap::new();
        let mut merged = MergedKeys::new(self.operators.clone());
        for (encoded_key, known) in keys {
            let Some((_, key)) = split_encoded_key(&encoded_key) else { continue };
            let (verdict, newest) =
                (known.verdict(self.trusted, self.values_are_whole), known.newest());
            let entry = known.entry;
            if merged.add(&encoded_key, known.merges, newest) && !self.trusted {
                list(&mut self.report.uncertain, &mut self.report.uncertain_keys, key);
            }
            match verdict {
                Verdict::Gone => {}
                Verdict::Lost => {
                    list(&mut self.report.lost, &mut self.report.lost_keys, key);
                    merged.forget(&encoded_key);
                }
                Verdict::Record(place, uncertain) => {
                    if uncertain {
                        let count = &mut self.report.uncertain_keys;
                        list(&mut self.report.uncertain, count, key);
                    }
                    in_records.insert((place.file, place.offset), (encoded_key, place.len));
                }
                Verdict::Entry(table) => {
                    let seq = entry.map_or(0, |entry| entry.seq);
                    in_tables.entry(table).or_default().insert(encoded_key, seq);
                }
            }
        }
        let mut visit_merged = |key: &[u8], value: Lasting<&[u8]>| merged.visit(key, value, visit);
        self.hand_out_entries(in_tables, &mut visit_merged)?;
        self.hand_out_records(in_records, &mut visit_merged)?;
        self.report.keys += merged.visit_rest(visit)?;
        let report = &mut self.report;
        let (below, unmade) = merged.failed();
        below.iter().for_each(|key| list(&mut report.unmerged, &mut report.unmerged_keys, key));
        unmade.iter().for_each(|key| list(&mut report.lost, &mut report.lost_keys, key));
        Ok(())
    }

    fn hand_out_entries(
        &mut self,
        wanted: BTreeMap<FileNumber, BTreeMap<Vec<u8>, SeqNo>>,
        visit: &mut VisitEncoded<'_>,
    ) -> Result<()> {
        for (table, keys) in wanted {
            let (mut done, mut count, mut bytes, mut lost) = (Ok(()), 0, 0, Vec::new());
            self.read_table(table, &mut |entry| {
                if done.is_ok() && keys.get(entry.key) == Some(&entry.seq) {
                    let found = match self.value_of_entry(entry) {
                        Ok(found) => found,
                        Err(error) => return lost.push((entry.key.to_vec(), error)),
                    };
                    count += 1;
                    bytes += found.value.len() as u64;
                    done = visit(entry.key, Lasting { value: &found.value, until: found.until });
                }
            })?;
            done?;
            for (key, error) in lost {
                self.note_lost(&key, error);
            }
            self.report.keys += count;
            self.report.value_bytes += bytes;
        }
        Ok(())
    }

    fn hand_out_records(
        &mut self,
        wanted: BTreeMap<(FileNumber, u64), (Vec<u8>, usize)>,
        visit: &mut VisitEncoded<'_>,
    ) -> Result<()> {
        let window = self.files.read_window().unwrap_or_default();
        let mut open: Option<(FileNumber, Arc<dyn File>)> = None;
        for ((number, offset), (key, len)) in wanted {
            if open.as_ref().is_none_or(|(opened, _)| *opened != number) {
                open = Some((number, self.open_value_file(number)?));
            }
            let (_, file) = open.as_ref().expect("it was opened above");
            let value = self.read_record(&**file, number, offset, len, &window);
            match value {
                Ok(Lasting { value, until }) => {
                    visit(&key, Lasting { value: &value, until })?;
                    self.report.keys += 1;
                    self.report.value_bytes += value.len() as u64;
                }
                Err(error) => self.note_lost(&key, error),
            }
        }
        Ok(())
    }

    /// Reports that the value of a tree key cannot be read.
    fn note_lost(&mut self, encoded_key: &[u8], error: Error) {
        self.report.note(error);
        let key = encoded_key.get(KEYSPACE_PREFIX_LEN..).unwrap_or_default();
        list(&mut self.report.lost, &mut self.report.lost_keys, key);
    }

    /// The value in an entry of a table, or in the lone file to which that points.
    fn value_of_entry<'v>(&self, entry: &Entry<'v>) -> Result<Lasting<Cow<'v, [u8]>>> {
        let Lasting { value, until } = entry.kind.split(entry.value)?;
        if !entry.kind.is_pointer() {
            return Ok(Lasting { value: Cow::Borrowed(value), until });
        }
        let value = self.read_lone(ValuePointer::decode(value)?, entry.key)?;
        Ok(Lasting { value: Cow::Owned(value), until })
    }

    fn open_value_file(&self, number: FileNumber) -> Result<Arc<dyn File>> {
        let kinds = FileKind::VALUES;
        let mut opened =
            kinds.map(|kind| self.files.open(&Name::numbered(kind, number))).into_iter();
        let file = opened.by_ref().find(Result::is_ok);
        file.unwrap_or_else(|| self.files.open(&Name::numbered(FileKind::Log, number)))
    }

    /// The value of a record that the search has found, from its file or the window.
    fn read_record(
        &self,
        file: &dyn File,
        number: FileNumber,
        offset: u64,
        len: usize,
        window: &[u8],
    ) -> Result<Lasting<Vec<u8>>> {
        let failed = |e| Error::io("read a record", e).with("file", number).with("offset", offset);
        let identity = self.identity(number);
        let mut bytes = vec![0; len];
        let in_file = file.len().map_err(failed)?.saturating_sub(offset).min(len as u64) as usize;
        read_exact_at(file, &mut bytes[..in_file], offset).map_err(failed)?;
        if in_file < len {
            let header = proven_header(file).or_else(|| header_in_window(number, window));
            let begin = header.map_or(0, |header| header.base) + offset + in_file as u64;
            for (byte, position) in bytes[in_file..].iter_mut().zip(begin..) {
                *byte = window[(position % window.len().max(1) as u64) as usize];
            }
        }
        let record = Record::parse(&bytes, identity, offset)?;
        let until = record.header.kind.split(record.value)?.until;
        let key = EncodedKey::new(record.header.keyspace, record.key);
        let place = ValuePointer { file: number, offset, len: len as u32 };
        if let Some(end) = lone_end(&record, place)? {
            return Ok(Lasting { value: self.read_lone(end, key.as_bytes())?, until });
        }
        let whole = self.values.whole(&record.header, record.value);
        let whole = whole.map_err(|e| e.with("file", number).with("offset", offset))?;
        let mut value = whole.unwrap_or_else(|| record.value.to_vec());
        value.drain(..record.header.kind.front_len());
        Ok(Lasting { value, until })
    }
}
