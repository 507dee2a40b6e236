//! Salvage: returns everything readable in a damaged database, and reports the rest.
//!
//! No file is opened for writing and no lock is taken, since that would write too; the database
//! must not be open meanwhile. The database id, which all checksums need, comes from `current` or
//! the header of any value file. Every value file is searched for records, and every table for
//! entries; of each key the newest sequence number wins, including tombstones.
//!
//! If the manifest and all its tables can be read they decide, and older records only provide the
//! values of pointers, since a record may outlive the tombstone of its key. Otherwise such records
//! count, and keys that depend on one alone are *uncertain*: they may have been deleted, or
//! overwritten. Of a hot key the tables only say that it has a value: the newest record counts,
//! and is uncertain if any value file is damaged.
//!
//! Memory holds all keys, with about a hundred bytes for each of their records, and no values.

mod report;
mod saved;
mod operands;
mod known;
mod blobs;
mod hand_out;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use cleavedb_base::record::FileIdentity;
use cleavedb_base::{EncodedKey, Error, FileNumber, KeyspaceId, Lasting, Result, SeqNo};
use cleavedb_index::table::Table;
use cleavedb_index::{BlockCache, Entry};
use cleavedb_storage::log::salvage::{Met, header_in_window, proven_header, salvage};
use cleavedb_storage::{FileKind, Name};
use cleavedb_values::ValueLayout;

use crate::control::debug::debug;
use crate::inspect::unopened::{Unopened, window_behind};
use crate::settings::keyspace_options::KeyspaceOptions;
use crate::settings::merge::MergeOperators;
use crate::settings::options::{LogPolicy, Options, Preset};
use crate::settings::volume::Volume;
use crate::store::manifest::{LiveFiles, Loaded, Manifest};
use crate::writes::dictionaries::StoredValues;

use blobs::FoundLone;
use hand_out::System;
use known::{FoundRecord, Indexed, Known, RecordPlace};
use report::Damage;
pub use report::SalvageReport;
pub use saved::Saved;

/// A damaged database, searched.
pub struct Salvage {
    files: Unopened,
    database_id: u64,
    preset: Option<Preset>,
    operators: MergeOperators,
    /// `None` if the manifest cannot be read.
    live: Option<LiveFiles>,
    cache: Arc<BlockCache>,
    values: StoredValues,
    keys: BTreeMap<Vec<u8>, Known>,
    /// What the system keyspace says.
    system: System,
    /// Whether the manifest and every table that it names were read.
    trusted: bool,
    /// Whether every value file was read without damage.
    values_are_whole: bool,
    report: SalvageReport,
}

debug!(Salvage, |_| {});

/// Called with each key that was saved.
pub type Visit<'a> = dyn FnMut(Saved<'_>) -> Result<()> + 'a;

/// Called with a tree key and its value.
type VisitEncoded<'a> = dyn FnMut(&[u8], Lasting<&[u8]>) -> Result<()> + 'a;

impl Salvage {
    /// Searches the database in the directory `path`, and in its volumes, if `current` names them.
    /// Changes nothing. Fails with [`NotADatabase`](cleavedb_base::ErrorKind::NotADatabase) if no
    /// file there tells the database id.
    pub fn search(path: impl AsRef<Path>) -> Result<Self> {
        let (files, damage) = Unopened::find(path.as_ref())?;
        let mut report = SalvageReport::default();
        if files.current.is_none() && damage.is_empty() {
            report.note(Error::corruption("the file `current` is missing"));
        }
        damage.into_iter().for_each(|error| report.note(error));
        let mut this = Self {
            database_id: files.find_id()?,
            preset: files.current.as_ref().map(|current| current.preset),
            files,
            live: None,
            cache: Arc::new(BlockCache::new(0)),
            values: StoredValues::default(),
            keys: BTreeMap::new(),
            system: System::default(),
            operators: MergeOperators::default(),
            trusted: false,
            values_are_whole: false,
            report,
        };
        this.load_manifest()?;
        let tables_are_whole = this.read_tables()?;
        this.trusted = this.live.is_some() && tables_are_whole;
        this.read_records(tables_are_whole)?;
        this.read_system()?;
        Ok(this)
    }

    /// The keyspaces but the default one, empty ones, too, with their options.
    pub fn keyspaces(&self) -> impl Iterator<Item = (&str, KeyspaceOptions)> {
        let named = self.system.keyspaces.iter().filter(|(id, _)| **id != KeyspaceId::DEFAULT);
        named.map(|(_, (name, options))| (name.as_str(), *options))
    }

    /// The length from which on values leave the index that is stored with the data, as
    /// [`crate::Keyspace::store_min_separated`] stores it for the default keyspace.
    pub fn min_separated(&self) -> Option<usize> {
        self.live.as_ref().and_then(LiveFiles::saved_separation)
    }

    /// The directories besides its own that the database has files in, with what is placed there.
    pub fn volumes(&self) -> &[Volume] {
        self.files.current.as_ref().map_or(&[], |current| &current.volumes)
    }

    /// The salvage with the operators of merges that the database was opened with, if it had others
    /// than the default ones. Keys with operands of one that is not known count as lost.
    #[must_use]
    pub fn with_merge_operators(self, operators: MergeOperators) -> Self {
        Self { operators, ..self }
    }

    fn identity(&self, number: FileNumber) -> FileIdentity {
        FileIdentity::new(self.database_id, number)
    }

    /// Reads the manifest that `current` names, or else the youngest readable one.
    fn load_manifest(&mut self) -> Result<()> {
        let tables = self.files.tables(self.database_id);
        for candidate in self.files.manifests(self.database_id)? {
            match Manifest::load(&**self.files.own(), &candidate, &tables) {
                Ok(Loaded { live, .. }) => {
                    let Some(unnamed) = self.unnamed(&live)? else {
                        self.live = Some(live);
                        return Ok(());
                    };
                    let message = "the manifest does not name a file that is there: it may have \
                                   lost its last edits";
                    self.report.note(Error::corruption(message).with("file", unnamed));
                }
                Err(error) => self.report.note(error),
            }
        }
        let message = "no manifest can be believed: which tables count is a guess, and a deleted \
                       key may come back out of one that did not count any more; a space limit, \
                       a threshold and a retention of changes that were stored are lost";
        self.report.note(Error::corruption(message));
        self.report.stale = true;
        Ok(())
    }

    /// A data file that `live` does not name, if there is one, but for dead log files.
    fn unnamed(&self, live: &LiveFiles) -> Result<Option<Name>> {
        let is_table =
            |name: &Name| live.version.tables().any(|(_, table)| table.number() == name.number());
        let is_value_file =
            |name: &Name| live.value_files.kind_of(name.number()) == Some(name.kind());
        let tables = self.files.names(FileKind::Table)?.into_iter().find(|name| !is_table(name));
        let mut unnamed = tables;
        for kind in FileKind::VALUES {
            let names = self.files.names(kind)?.into_iter();
            let mut names = names.filter(|name| !is_value_file(name) && !is_dead_log(live, name));
            let begun = |name: &Name| {
                let file = self.files.open(name).ok();
                file.is_some_and(|file| proven_header(&*file).is_some())
            };
            unnamed = unnamed.or_else(|| names.find(begun));
        }
        Ok(unnamed)
    }

    /// Reads the entries of all tables that count; returns whether all are there and intact.
    fn read_tables(&mut self) -> Result<bool> {
        let numbers: Vec<FileNumber> = match &self.live {
            Some(live) => live.version.tables().map(|(_, table)| table.number()).collect(),
            None => self.files.names(FileKind::Table)?.iter().map(Name::number).collect(),
        };
        let before = self.report.damages;
        let lone_files = FoundLone::of(&self.files)?;
        for number in numbers {
            let mut keys = std::mem::take(&mut self.keys);
            let read = self.read_table(number, &mut |entry| {
                let known = keys.entry(entry.key.to_vec()).or_default();
                if !entry.kind.hides_older() {
                    known.merges.add_of_table(entry.seq, entry.value);
                } else if known.entry.is_none_or(|newest| newest.seq < entry.seq) {
                    let Entry { seq, kind, .. } = *entry;
                    let leads = kind.is_inline() || lone_files.have(entry);
                    known.entry = Some(Indexed { seq, kind, table: number, leads });
                }
            });
            self.keys = keys;
            match read {
                Ok(damage) => damage.into_iter().for_each(|error| self.report.note(error)),
                Err(error) => self.report.note(error),
            }
        }
        let whole = self.report.damages == before;
        self.report.stale |= !whole;
        Ok(whole)
    }

    fn read_table(
        &self,
        number: FileNumber,
        visit: &mut dyn FnMut(&Entry<'_>),
    ) -> Result<Vec<Error>> {
        let file = self.files.open(&Name::numbered(FileKind::Table, number))?;
        let table = Table::open(file, self.identity(number), number, Arc::clone(&self.cache))?;
        Ok(Arc::new(table).salvage(visit))
    }

    /// Reads the records of all value files, and reports missing files.
    fn read_records(&mut self, tables_are_whole: bool) -> Result<()> {
        let before = self.report.damages;
        let closed = self.live.as_ref().is_some_and(|live| live.session.is_none());
        let window = self.files.read_window().unwrap_or_else(|error| {
            self.report.stale |= !closed;
            (!closed).then(|| self.report.note(error));
            Vec::new()
        });
        // Without a manifest, records newer than all flushes are taken as not flushed.
        let entries = self.keys.values().filter_map(|known| known.entry);
        let newest = entries.map(|entry| entry.seq).max();
        let flushed = newest.filter(|_| tables_are_whole);
        let mut names = BTreeSet::new();
        for kind in FileKind::VALUES {
            names.extend(self.files.names(kind)?);
        }
        let named = self.live.iter().flat_map(|live| live.value_files.iter());
        let missing = named
            .map(|(number, facts)| Name::numbered(facts.kind, number))
            .filter(|name| !names.contains(name));
        for name in missing.collect::<Vec<_>>() {
            let error = Error::corruption("a file that the manifest names is missing");
            self.report.note(error.with("file", name));
            self.report.stale |= self.may_be_young(name);
        }
        let live = self.live.as_ref().filter(|_| self.trusted);
        names.retain(|name| live.is_none_or(|live| !is_dead_log(live, name)));
        for name in names {
            if let Err(error) = self.read_value_file(name, &window, flushed) {
                self.report.note(error);
            }
        }
        self.values_are_whole = self.report.damages == before;
        Ok(())
    }

    /// Whether the file may have operations that are in no table.
    fn may_be_young(&self, name: Name) -> bool {
        let head = self.live.as_ref().and_then(|live| live.head);
        is_log(&name) && head.is_none_or(|head| name.number() >= head.file)
    }

    fn read_value_file(&mut self, name: Name, window: &[u8], flushed: Option<SeqNo>) -> Result<()> {
        let failed = |e| Error::io("read a value file", e).with("file", name);
        let (number, identity) = (name.number(), self.identity(name.number()));
        let (file, is_young) = (self.files.open(&name)?, self.may_be_young(name));
        let len = file.len().map_err(failed)?;
        let head = self.live.as_ref().map(|live| live.head);
        let facts = self.live.as_ref().and_then(|live| live.value_files.get(number));
        let sealed = facts.and_then(|facts| facts.len);
        let header = proven_header(&*file).or_else(|| header_in_window(number, window));
        let of_head = head.flatten().filter(|head| head.file == number).map(|head| head.base);
        let base = header.map(|header| header.base).or(of_head);
        // Bytes cut off by a seal are not part of the log; the window only has unsealed logs.
        let base = base.filter(|_| is_young && sealed.is_none());
        let source = base.map(|base| window_behind(window, base, len, head.flatten()));
        let young = |offset: u64, seq: SeqNo| match head {
            Some(Some(head)) if number == head.file => head.base + offset >= head.position,
            Some(_) => is_young,
            None => is_young && flushed.is_some_and(|flushed| seq > flushed),
        };
        // A flush may have released what lies in front of the replay head.
        let layout = self.live.as_ref().and_then(|live| live.layout);
        let log = layout.map(|layout| LogPolicy::of(&layout));
        let keeps = facts.zip(log).is_none_or(|(facts, log)| log.is_whole(facts.live));
        let released = match head.flatten().filter(|head| head.file == number && !keeps) {
            Some(head) => head.position - head.base,
            None => 0,
        };
        let (keys, trusted, mut rubbish) = (&mut self.keys, self.trusted, None);
        let mut damage = Damage { report: &mut self.report, name, is_young };
        let no_record = "bytes that belong to no record: damage, or a write torn by a crash";
        let scanned = salvage(&*file, source, identity, &mut |offset, met| {
            match met {
                Met::Record(header, key, value) => {
                    if let Some(offset) = rubbish.take() {
                        damage.note(no_record, offset);
                    }
                    if !header.kind.is_of_key() || sealed.is_some_and(|sealed| offset >= sealed) {
                        return ControlFlow::Continue(());
                    }
                    let encoded_key = EncodedKey::new(header.keyspace, key);
                    let known = keys.entry(encoded_key.as_bytes().to_vec()).or_default();
                    let place = RecordPlace { file: number, offset, len: header.record_len() };
                    let young = young(offset, header.seq);
                    let found = FoundRecord { seq: header.seq, kind: header.kind, place, young };
                    known.add(found, value, trusted);
                }
                Met::Damaged(_) => damage.note("a record is damaged", offset),
                // The pages of a key directory hold no records.
                Met::Rubbish(_) if name.kind() == FileKind::Group => {}
                Met::Rubbish(_) if offset < released => {}
                // Behind its end the log's part of the window holds what was there before.
                Met::Rubbish(_) => rubbish = Some(offset),
                Met::Unreadable(error) => {
                    damage.note(&format!("a block cannot be read: {error}"), offset);
                }
            }
            ControlFlow::Continue(())
        });
        if let Some(offset) = rubbish.filter(|offset| *offset < len) {
            damage.note(no_record, offset);
        }
        // A log below the replay head may not have been written to its file.
        let is_whole = sealed.is_none_or(|sealed| len >= sealed);
        if !is_whole && (is_young || !is_log(&name)) {
            damage.note("the file is shorter than the manifest says", len);
        }
        scanned.map_err(failed)
    }

    /// Options for a database like the damaged one: its layout and the tuning of its preset, and
    /// the threshold, the space limit and the retention of changes that it stored. Unknown ones are
    /// guessed.
    pub fn options(&self) -> Options {
        let stored = self.live.as_ref().and_then(|live| live.layout);
        let is_separated = |found: &FoundRecord| found.kind.is_separated();
        let separates = self.keys.values().flat_map(|known| &known.records).any(is_separated);
        let guess = || if separates { ValueLayout::LOG } else { ValueLayout::INLINE };
        let like = || Preset::of_layout(&stored.unwrap_or_else(guess));
        let preset = Some(self.preset.unwrap_or_else(like));
        let mut options = Options { preset, layout: stored, ..Options::default() };
        if let Some(live) = &self.live {
            options.space_limit = Some(live.space_limit).filter(|limit| *limit > 0);
            options = options.keeping_log(live.changes.log.bytes);
        }
        options.min_separated = self.min_separated().filter(|_| options.layout().separates());
        options
    }
}

/// Whether a log file is dead and waits for its removal: they are named in their order, and `live`
/// names a later one.
fn is_dead_log(live: &LiveFiles, name: &Name) -> bool {
    let last = live.value_files.logs().next_back();
    let is_named = live.value_files.kind_of(name.number()).is_some();
    let is_before = last.is_some_and(|(last, _)| name.number() < last);
    is_log(name) && !is_named && is_before
}

fn is_log(name: &Name) -> bool {
    name.kind() == FileKind::Log
}
