//! Opening: lock, manifest, replay, and a fresh start.
//!
//! Recovery reads everything before it writes anything, then writes new files only, and takes
//! effect by one step: the new `current` names a manifest that holds the valid length of every log
//! file (invariant 8). A crash before that step leaves what was; the same recovery runs again. The
//! one exception appends, never overwrites: what only the window held of the last log file is
//! written behind that file's end, where the drain would have put it.

use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::BLOCK;
use cleavedb_base::record::FileIdentity;
use cleavedb_base::{Error, ErrorKind, FileNumber, Result, SeqNo, TreeKey};
use cleavedb_index::{BlockCache, TableStore};
use cleavedb_storage::api::write_all_at;
use cleavedb_storage::log::LogReader;
use cleavedb_storage::{Access, FileKind, Mode, Name, Reaper, Storage, Window};
use cleavedb_values::{FileFacts, LedgerEdit};

use crate::commit::{Place, insert_record};
use crate::manifest::{Current, LiveFiles, Manifest};
use crate::options::{Options, Preset};
use crate::rooms::SEQS_RESERVED;
use crate::state::MemSlot;

/// What an open found out, for the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Operations that were replayed from the log.
    pub operations: u64,
    /// Bytes behind the last whole batch that were given up: writes that were never acknowledged as
    /// durable, or bit rot in the very last one, which looks the same.
    pub bytes_cut: u64,
    /// Files of unfinished jobs that were removed.
    pub orphans_removed: u64,
}

/// What recovery hands to the engine.
pub(crate) struct Recovered {
    pub(crate) manifest: Manifest,
    pub(crate) database_id: u64,
    pub(crate) tables: Arc<TableStore>,
    pub(crate) reaper: Arc<Reaper>,
    /// What was replayed, sealed.
    pub(crate) memtable: Option<Arc<MemSlot>>,
    /// Log position at which the new log begins.
    pub(crate) position: u64,
    pub(crate) next_seq: SeqNo,
    pub(crate) window: Window,
    pub(crate) report: RecoveryReport,
}

/// Recovers, or creates, the database in `storage`, whose lock the caller holds.
pub(crate) fn recover(
    storage: &Arc<dyn Storage>,
    options: &Options,
    new_id: impl FnOnce() -> u64,
) -> Result<Recovered> {
    let current = Current::read(&**storage)?;
    if let Some(current) = &current
        && current.preset != options.preset
    {
        let message = format!(
            "the database was created with preset {}, it cannot be opened with {}",
            current.preset, options.preset
        );
        return Err(Error::new(ErrorKind::PresetMismatch, message));
    }
    if current.is_none() {
        check_empty(&**storage, options)?;
    }
    let database_id = current.as_ref().map_or_else(new_id, |current| current.database_id);
    let cache = Arc::new(BlockCache::new(options.cache_bytes as u64));
    let reaper = Arc::new(Reaper::default());
    let tables = Arc::new(TableStore::new(storage.clone(), database_id, cache, reaper.clone()));
    let live = match &current {
        Some(current) => Manifest::load(&**storage, current, &tables)?,
        None => LiveFiles::empty(&tables),
    };
    let window = storage
        .open_window(&Name::fixed(FileKind::Window), options.window_bytes)
        .map_err(|e| Error::io("open the log window", e))?;
    let mut replay = Replay::new(&**storage, options, database_id, &live, &window);
    replay.run()?;
    let Replayed { memtable, edits, position, next_seq, mut report } = replay.finish();
    let next_file = highest_number(&**storage)?.max(live.next_file);
    let mut live = live;
    live.seq_limit = next_seq + SEQS_RESERVED;
    edits.iter().try_for_each(|edit| live.ledger.apply(edit))?;
    let manifest = Manifest::begin(storage.clone(), database_id, options.preset, live, next_file)?;
    report.orphans_removed = remove_orphans(&**storage, &manifest)?;
    Ok(Recovered {
        manifest,
        database_id,
        tables,
        reaper,
        memtable,
        position,
        next_seq,
        window,
        report,
    })
}

/// A new database is created in an empty directory only. What a creation that did not finish leaves
/// (never a table, a segment or a log) counts as empty.
fn check_empty(storage: &dyn Storage, options: &Options) -> Result<()> {
    let failed = |e| Error::io("list the directory", e);
    let data = |kind| matches!(kind, FileKind::Table | FileKind::Segment | FileKind::Log);
    let files = storage.list().map_err(failed)?;
    if let Some((name, _)) = files.iter().find(|(name, _)| data(name.kind())) {
        let message = "the directory holds data but no file `current`; restore it from a backup";
        return Err(Error::new(ErrorKind::NotADatabase, message).with("found", name));
    }
    if let Some(name) = storage.foreign().map_err(failed)?.first() {
        let message = "the directory holds files that are not CleaveDB's; choose an empty one";
        return Err(Error::new(ErrorKind::NotADatabase, message).with("found", name));
    }
    if !options.create_if_missing {
        let message = "there is no database in the directory, and none may be created";
        return Err(Error::new(ErrorKind::NotADatabase, message));
    }
    Ok(())
}

/// A number above that of every file in the directory, also of those that no manifest names.
fn highest_number(storage: &dyn Storage) -> Result<u64> {
    let files = storage.list().map_err(|e| Error::io("list the directory", e))?;
    Ok(files.iter().map(|(name, _)| name.number().0 + 1).max().unwrap_or(1))
}

/// Removes every file that the manifest does not name.
fn remove_orphans(storage: &dyn Storage, manifest: &Manifest) -> Result<u64> {
    let live = manifest.live();
    let mut removed = 0;
    for (name, _) in storage.list().map_err(|e| Error::io("list the directory", e))? {
        let number = name.number();
        let named = match name.kind() {
            FileKind::Current | FileKind::Window | FileKind::Lock => true,
            FileKind::CurrentNew => false,
            FileKind::Manifest => name == manifest.name(),
            FileKind::Log | FileKind::Segment => {
                live.ledger.get(number).is_some_and(|facts| facts.kind == name.kind())
            }
            FileKind::Table => live.version.tables().any(|(_, table)| table.number() == number),
        };
        if !named {
            storage
                .remove(&name)
                .map_err(|e| Error::io("remove an orphan", e).with("file", name))?;
            removed += 1;
        }
    }
    if removed > 0 {
        storage.sync_dir().map_err(|e| Error::sync_failed("the directory", e))?;
    }
    Ok(removed)
}

/// Replays the log from the head to its end.
struct Replay<'a> {
    storage: &'a dyn Storage,
    options: &'a Options,
    database_id: u64,
    live: &'a LiveFiles,
    window: &'a Window,
    /// What was replayed, in one MemTable: it is flushed by one edit, with the step of the replay
    /// head, so no record is ever flushed twice. It holds no more than the MemTables that the crash
    /// took.
    slot: Option<MemSlot>,
    edits: Vec<LedgerEdit>,
    /// Log position behind the last valid record so far.
    position: u64,
    max_seq: SeqNo,
    report: RecoveryReport,
}

struct Replayed {
    memtable: Option<Arc<MemSlot>>,
    edits: Vec<LedgerEdit>,
    position: u64,
    next_seq: SeqNo,
    report: RecoveryReport,
}

/// How one log file ended.
enum End {
    /// As it should, at this log position; the next file continues there.
    Whole(u64),
    /// With a tear, at this log position: nothing behind it counts.
    Torn(u64),
    /// The file was created ahead and never begun.
    Unused,
}

impl<'a> Replay<'a> {
    fn new(
        storage: &'a dyn Storage,
        options: &'a Options,
        database_id: u64,
        live: &'a LiveFiles,
        window: &'a Window,
    ) -> Self {
        Self {
            storage,
            options,
            database_id,
            live,
            window,
            slot: None,
            edits: Vec::new(),
            position: live.head.map_or(0, |head| head.position),
            max_seq: 0,
            report: RecoveryReport::default(),
        }
    }

    fn run(&mut self) -> Result<()> {
        let head = self.live.head_file();
        let logs: Vec<(FileNumber, FileFacts)> = self
            .live
            .ledger
            .iter()
            .filter(|(number, facts)| facts.kind == FileKind::Log && *number >= head)
            .map(|(number, facts)| (number, facts.clone()))
            .collect();
        let mut torn_at = None;
        for (number, facts) in logs {
            if let Some(stop) = torn_at {
                self.give_up(number, stop)?;
                continue;
            }
            match self.replay_file(number, &facts)? {
                End::Whole(position) => self.position = position,
                End::Torn(position) => {
                    self.position = position;
                    torn_at = Some(position);
                }
                End::Unused => self.edits.push(LedgerEdit::Remove(number)),
            }
        }
        Ok(())
    }

    fn fail(&self, error: Error, number: FileNumber) -> Error {
        error.with("file", Name::numbered(FileKind::Log, number))
    }

    /// A file behind a tear: dropped, unless it proves that what was torn had been durable.
    fn give_up(&mut self, number: FileNumber, stop: u64) -> Result<()> {
        let file = self.open(number)?;
        let identity = FileIdentity::new(self.database_id, number);
        let len = file.len().map_err(|e| Error::io("get the length of a log file", e))?;
        let mut reader = LogReader::new(&*file, None, identity, 0, 0, None)?;
        if let Some(header) = reader.header()?
            && header.durable > stop
        {
            return Err(self.fail(lost(stop), number));
        }
        self.report.bytes_cut += len;
        self.edits.push(LedgerEdit::Remove(number));
        Ok(())
    }

    fn open(&self, number: FileNumber) -> Result<Arc<dyn cleavedb_storage::File>> {
        let name = Name::numbered(FileKind::Log, number);
        self.storage
            .open(&name, Mode::Read, Access::Sequential)
            .map_err(|e| Error::io("open a log file", e).with("file", name))
    }

    fn replay_file(&mut self, number: FileNumber, facts: &FileFacts) -> Result<End> {
        let file = self.open(number)?;
        let identity = FileIdentity::new(self.database_id, number);
        let head = self.live.head.filter(|head| head.file == number);
        let base = match (head, facts.len) {
            (Some(head), _) => head.base,
            (None, Some(_)) => facts.base,
            (None, None) => match self.find_base(&*file, identity)? {
                Some(base) => base,
                None => return Ok(End::Unused),
            },
        };
        let window = facts.len.is_none().then_some(self.window);
        let mut reader = LogReader::new(&*file, window, identity, base, 0, facts.len)?;
        let start = match head {
            Some(head) => head.position - base,
            None => match reader.header()? {
                Some(header) => {
                    // Only a file that continues where the last one ended is part of the log.
                    if facts.len.is_none() && header.previous_end != self.position {
                        return self.disjoint(number, &header);
                    }
                    reader.offset()
                }
                None if facts.len.is_some() => return Err(self.fail(lost(base), number)),
                None => return Ok(End::Unused),
            },
        };
        let mut reader = LogReader::new(&*file, window, identity, base, start, facts.len)?;
        let end = self.replay_records(&mut reader, number, start)?;
        if let Some(len) = facts.len {
            return if end == len {
                Ok(End::Whole(base + end))
            } else {
                Err(self.fail(lost(base + end), number))
            };
        }
        if let Some(at) = reader.proof_of_loss()? {
            return Err(self.fail(lost(base + end), number).with("proof", at));
        }
        self.keep_window_tail(&mut reader, number, end)?;
        self.report.bytes_cut +=
            reader.file_len().saturating_sub(end.next_multiple_of(BLOCK as u64));
        self.edits.push(LedgerEdit::Seal(number, base, end));
        Ok(End::Whole(base + end))
    }

    /// A log file that does not continue the one before: that one was torn.
    fn disjoint(
        &mut self,
        number: FileNumber,
        header: &cleavedb_storage::log::FileHeader,
    ) -> Result<End> {
        if header.durable > self.position {
            return Err(self.fail(lost(self.position), number));
        }
        self.edits.push(LedgerEdit::Remove(number));
        Ok(End::Torn(self.position))
    }

    /// The log position of a file's first byte, from its header, which may be in the window only.
    fn find_base(
        &self,
        file: &dyn cleavedb_storage::File,
        identity: FileIdentity,
    ) -> Result<Option<u64>> {
        let mut reader = LogReader::new(file, None, identity, 0, 0, None)?;
        if let Some(header) = reader.header()? {
            return Ok(Some(header.base));
        }
        // Then the file is empty, and the window holds it from its first byte; it begins at the
        // next block behind what was read so far.
        let base = self.position.next_multiple_of(BLOCK as u64);
        let mut reader = LogReader::new(file, Some(self.window), identity, base, 0, None)?;
        Ok(reader.header()?.filter(|header| header.base == base).map(|header| header.base))
    }

    /// Replays records from `start`; returns the offset behind the last whole batch.
    fn replay_records(
        &mut self,
        reader: &mut LogReader<'_>,
        number: FileNumber,
        start: u64,
    ) -> Result<u64> {
        let mut end = start;
        let mut batch = Vec::new();
        while let Some((offset, record)) = reader.next().map_err(|e| self.fail(e, number))? {
            let header = record.header;
            if header.kind.is_operation() {
                batch.push((offset, header, record.key.to_vec(), record.value.to_vec()));
            }
            if header.kind.is_operation() && header.more {
                continue;
            }
            end = reader.offset();
            self.report.operations += batch.len() as u64;
            for (offset, header, key, value) in batch.drain(..) {
                let tree_key = TreeKey::new(header.keyspace, &key);
                let entry = (tree_key.as_bytes(), hash64(tree_key.as_bytes(), 0));
                let place = Place { file: number, offset };
                self.max_seq = self.max_seq.max(header.seq);
                insert_record(self.slot(), entry, header.seq, &header, &value, place);
            }
        }
        Ok(end)
    }

    /// The slot that replayed operations go to.
    fn slot(&mut self) -> &MemSlot {
        let (memory, start) = (self.options.memtable_bytes, self.position);
        self.slot.get_or_insert_with(|| MemSlot::new(memory, start))
    }

    /// Appends to the log file what only the window holds of it, and makes it durable.
    fn keep_window_tail(
        &self,
        reader: &mut LogReader<'_>,
        number: FileNumber,
        end: u64,
    ) -> Result<()> {
        let file_len = reader.file_len();
        let name = Name::numbered(FileKind::Log, number);
        let writer = self
            .storage
            .open(&name, Mode::ReadWrite, Access::Random)
            .map_err(|e| Error::io("open a log file", e).with("file", name))?;
        if end > file_len {
            let tail = reader.read(file_len, (end - file_len) as usize)?;
            write_all_at(&*writer, &tail, file_len)
                .map_err(|e| Error::io("complete a log file", e).with("file", name))?;
        }
        // What was read may be in the page cache only: the new manifest vouches for it.
        writer.sync().map_err(|e| Error::sync_failed("a log file", e).with("file", name))
    }

    fn finish(self) -> Replayed {
        // The new log begins at the next block: there the replayed MemTable ends.
        let end = self.position.next_multiple_of(BLOCK as u64);
        let last_seq = self.max_seq;
        if let Some(slot) = &self.slot {
            slot.seal(end, last_seq);
        }
        Replayed {
            memtable: self.slot.map(Arc::new),
            edits: self.edits,
            position: self.position,
            next_seq: self.live.seq_limit.max(last_seq + 1),
            report: self.report,
        }
    }
}

fn lost(position: u64) -> Error {
    Error::corruption(
        "the log is damaged where it had been durable; restore the database from a backup",
    )
    .with("log_position", position)
}

/// The preset of the database in `storage`, if there is one.
pub(crate) fn stored_preset(storage: &dyn Storage) -> Result<Option<Preset>> {
    Ok(Current::read(storage)?.map(|current| current.preset))
}
