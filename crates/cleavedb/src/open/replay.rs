//! Replay: reads the log from its head to its end, and decides whether the end is a loss.
//!
//! The log is a chain: every file's header says where the one before it ended. Replay stops at the
//! first gap, so a prefix of the commit order survives. A gap is a torn write unless something
//! behind it proves that the missing part had been durable; then it is damage, and the database is
//! not opened (invariant 8).

use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::BLOCK;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{FileIdentity, RecordKind};
use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::{EncodedKey, Error, FileNumber, KeyspaceId, Result, SeqNo};
use cleavedb_storage::api::{read_exact_at, write_all_at};
use cleavedb_storage::log::{Batches, FileHeader, LogReader, LoggedOp, Values};
use cleavedb_storage::{Access, File, FileKind, LeftWindow, Mode, Name, Storage, Watermark};
use cleavedb_values::{ValueFileEdit, ValueFileMeta};

use crate::operations::commit::{RecordLocation, insert_record};
use crate::settings::options::Options;
use crate::store::manifest::LiveFiles;
use crate::store::state::MemSlot;

/// The findings of an open, for the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Operations that were replayed from the log.
    pub operations: u64,
    /// Bytes behind the last complete batch that were discarded: writes that were never
    /// acknowledged as durable, or bit rot in the very last one, which looks the same.
    pub bytes_cut: u64,
    /// Files of unfinished jobs that were removed.
    pub orphans_removed: u64,
    /// Operations that were acknowledged, not synced, and are lost, while earlier ones are intact:
    /// they were damaged in the log window since, or never reached a disk that lost power without
    /// the machine. Of those, at least this number, as far as the window tells.
    pub operations_lost: u64,
    /// Whether the log window was missing, damaged or foreign, and the open went on without it
    /// ([`Options::accept_lost_window`]), or nothing of it ever reached a disk that lost power
    /// without the machine: the number of writes that were not synced and are lost is unknown.
    pub window_lost: bool,
    /// Damaged copies of edits in the manifest: each edit is stored twice, and the other copy was
    /// used. The next manifest has both again.
    pub copies_healed: u64,
}

/// Replays the log.
pub(crate) struct Replay<'a> {
    storage: &'a dyn Storage,
    options: &'a Options,
    database_id: u64,
    live: &'a LiveFiles,
    /// The window that the process left, if it was in a session.
    window: Option<&'a LeftWindow>,
    /// The replayed operations, in one MemTable: one edit flushes them and moves the replay head,
    /// so no record is ever flushed twice. It holds no more than the MemTables that were lost in
    /// the crash.
    slot: Option<MemSlot>,
    edits: Vec<ValueFileEdit>,
    /// Log position behind the last valid record so far.
    pub(crate) position: u64,
    /// Where the next file may begin: behind `position` if an empty file, which is removed, lies
    /// between.
    reached: u64,
    max_seq: SeqNo,
    /// What is to be completed once it is decided that this replay counts.
    ends: Vec<LogEnd>,
    pub(crate) report: RecoveryReport,
}

/// The result of replay.
pub(crate) struct Replayed {
    /// The operations.
    pub(crate) memtable: Option<MemSlot>,
    /// Changes of the log files in the table of value files.
    pub(crate) edits: Vec<ValueFileEdit>,
    /// End of the log.
    pub(crate) position: u64,
    /// Greatest sequence number of an operation, in tables or the log.
    pub(crate) last_seq: SeqNo,
    pub(crate) next_seq: SeqNo,
    pub(crate) report: RecoveryReport,
}

/// How one log file ended.
enum End {
    /// In order, at this log position; the next file continues there.
    Whole(u64),
    /// Without operations up to this log position, so it is removed. The next file continues here,
    /// or at the end of the file before this one.
    Empty(u64),
    /// The file does not continue the log: the one before it was torn, and nothing from here on is
    /// valid.
    Torn,
}

/// The end of a log file of which the window may hold a part.
struct LogEnd {
    log: ReplayedFile,
    base: u64,
    /// Offset from which on it was replayed.
    start: u64,
    /// Offset behind its last whole batch.
    end: u64,
}

/// A log file as replay opens it.
#[derive(Clone)]
struct ReplayedFile {
    number: FileNumber,
    identity: FileIdentity,
    file: Arc<dyn File>,
    len: u64,
    /// The final length of the file, if an earlier open or a flush has recorded it.
    sealed: Option<u64>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(
        storage: &'a dyn Storage,
        options: &'a Options,
        database_id: u64,
        live: &'a LiveFiles,
        window: Option<&'a LeftWindow>,
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
            reached: live.head.map_or(0, |head| head.position),
            max_seq: 0,
            ends: Vec::new(),
            report: RecoveryReport::default(),
        }
    }

    /// Replays every log file from the head on, and writes nothing; `window_lost` says that the
    /// window of the last session is gone. Fails if operations are gone that had been durable.
    pub(crate) fn run(&mut self, window_lost: bool) -> Result<()> {
        self.replay_logs()?;
        self.report.window_lost = window_lost;
        if let (Some(_), Some(window)) = (self.live.session, self.window) {
            let known = self.last_known();
            if window.mark(Watermark::Durable).is_some_and(|durable| durable > known) {
                return Err(lost(self.position));
            }
            let visible = window.mark(Watermark::Visible);
            // What a sector held that was never written is no number that was given out.
            let visible = visible.filter(|visible| *visible < self.live.seq_limit);
            self.report.operations_lost = visible.unwrap_or_default().saturating_sub(known);
        }
        if self.live.session.is_none() {
            // A close left them in the log on purpose.
            self.report.operations = 0;
        }
        Ok(())
    }

    /// The greatest sequence number in tables and in what was replayed.
    fn last_known(&self) -> SeqNo {
        match self.live.session {
            Some(session) => self.max_seq.max(self.live.flushed).max(session.last_seq),
            None => self.live.seq_limit.saturating_sub(1),
        }
    }

    fn replay_logs(&mut self) -> Result<()> {
        let live = self.live;
        let head = live.head_file();
        let logs = live.value_files.logs().filter(|(number, _)| *number >= head);
        let mut torn = false;
        for (number, facts) in logs {
            let log = self.open(number, facts)?;
            let end = if torn { End::Torn } else { self.replay_file(&log, facts)? };
            let reached = match end {
                End::Whole(position) | End::Empty(position) => position,
                End::Torn => 0,
            };
            if facts.durable > 0 && reached < facts.base + facts.durable {
                return Err(self.fail(lost(self.position.max(reached)), &log));
            }
            match end {
                End::Whole(position) => {
                    self.position = position;
                    self.reached = position;
                }
                End::Empty(reached) => {
                    self.reached = reached;
                    self.edits.push(ValueFileEdit::Remove(number));
                }
                End::Torn => {
                    torn = true;
                    self.give_up(&log)?;
                }
            }
        }
        Ok(())
    }

    fn open(&self, number: FileNumber, facts: &ValueFileMeta) -> Result<ReplayedFile> {
        let name = Name::numbered(FileKind::Log, number);
        let failed = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::NotFound => {
                let what =
                    "a log file that the manifest names is missing; restore it from a backup";
                Error::corruption(what).with("file", name)
            }
            _ => Error::io("open a log file", e).with("file", name),
        };
        let file = self.storage.open(&name, Mode::Read, Access::Sequential).map_err(failed)?;
        let len = file.len().map_err(failed)?;
        let identity = FileIdentity::new(self.database_id, number);
        Ok(ReplayedFile { number, identity, file, len, sealed: facts.len })
    }

    fn fail(&self, error: Error, log: &ReplayedFile) -> Error {
        error.with("file", Name::numbered(FileKind::Log, log.number))
    }

    fn reader<'r>(
        &self,
        log: &'r ReplayedFile,
        with_window: bool,
        base: u64,
        offset: u64,
    ) -> Result<LogReader<'r>>
    where
        'a: 'r,
    {
        let window = self.window.filter(|_| with_window);
        LogReader::new(&*log.file, window, log.identity, base, offset, log.sealed)
    }

    /// Drops a file behind a tear, unless it proves that the torn part had been durable.
    fn give_up(&mut self, log: &ReplayedFile) -> Result<()> {
        let mut reader = self.reader(log, false, 0, 0)?;
        let header = reader.header().map_err(|e| self.fail(e, log))?;
        let claimed = header.is_some_and(|header| header.durable > self.reached);
        if claimed || reader.proof_of_loss(self.reached)?.is_some() {
            return Err(self.fail(lost(self.position), log));
        }
        self.report.bytes_cut += log.len;
        self.edits.push(ValueFileEdit::Remove(log.number));
        Ok(())
    }

    fn replay_file(&mut self, log: &ReplayedFile, facts: &ValueFileMeta) -> Result<End> {
        let head = self.live.head.filter(|head| head.file == log.number);
        if let Some(head) = head {
            let start = head.position - head.base;
            // A file with content has its header, and a sync covers both: a loss of power took the
            // header, and what the window may have behind it is not known to be durable.
            let is_begun = log.sealed.is_none() && log.len > 0;
            let header = || self.reader(log, true, head.base, 0)?.header();
            if is_begun
                && start <= FileHeader::RECORD_LEN as u64
                && header().map_err(|e| self.fail(e, log))?.is_none()
            {
                return Ok(End::Torn);
            }
            return self.replay_from(log, head.base, start);
        }
        let Some(header) = self.find_header(log)? else {
            if log.sealed.is_some() {
                return Err(self.fail(lost(facts.base), log));
            }
            // A file that was created ahead is empty; any other was begun, and is torn.
            return Ok(if log.len == 0 { End::Empty(self.reached) } else { End::Torn });
        };
        // Only a file that continues where the last one ended is part of the log. A sealed file is,
        // according to the manifest.
        let joins = [self.position, self.reached].contains(&header.previous_end);
        if log.sealed.is_none() && !joins && !planted(Bug::ReplayPastGap) {
            return Ok(End::Torn);
        }
        self.replay_from(log, header.base, FileHeader::RECORD_LEN as u64)
    }

    /// The header of a file, which may be only in the window.
    fn find_header(&self, log: &ReplayedFile) -> Result<Option<FileHeader>> {
        let found = self.reader(log, false, 0, 0)?.header().map_err(|e| self.fail(e, log))?;
        if found.is_some() || log.sealed.is_some() {
            return Ok(found);
        }
        // The process died before or during the write of the file's first bytes: the window holds
        // them all. The file begins at the next block behind the position read so far.
        let base = self.reached.next_multiple_of(BLOCK as u64);
        let found = self.reader(log, true, base, 0)?.header();
        Ok(found.map_err(|e| self.fail(e, log))?.filter(|header| header.base == base))
    }

    /// Replays a file from offset `start` on.
    fn replay_from(&mut self, log: &ReplayedFile, base: u64, start: u64) -> Result<End> {
        let mut reader = self.reader(log, log.sealed.is_none(), base, start)?;
        let before = self.report.operations;
        let end = self.replay_records(&mut reader, log)?;
        if log.sealed.is_some_and(|len| len != end) {
            return Err(self.fail(lost(base + end), log));
        }
        if log.sealed.is_some() {
            return Ok(End::Whole(base + end));
        }
        if let Some(at) = reader.proof_of_loss(base + end)? {
            return Err(self.fail(lost(base + end), log).with("proof", at));
        }
        self.report.bytes_cut += reader.rest()?;
        let from_the_start = start <= FileHeader::RECORD_LEN as u64;
        if from_the_start && self.report.operations == before {
            return Ok(End::Empty(base + end));
        }
        self.ends.push(LogEnd { log: log.clone(), base, start, end });
        self.edits.push(ValueFileEdit::Seal(log.number, base, end));
        Ok(End::Whole(base + end))
    }

    /// Replays records; returns the offset behind the last complete batch.
    fn replay_records(&mut self, reader: &mut LogReader<'_>, log: &ReplayedFile) -> Result<u64> {
        let mut batches = Batches::new(reader, Values::None);
        let mut batch = Vec::new();
        while batches.next(&mut batch).map_err(|e| self.fail(e, log))? {
            self.report.operations += batch.len() as u64;
            for mut op in batch.drain(..) {
                if planted(Bug::OptionsDecideReplay)
                    && op.header.kind == RecordKind::Inline
                    && self.options.separates(op.header.value_len as usize)
                {
                    op.header.kind = RecordKind::Separated;
                }
                self.max_seq = self.max_seq.max(op.header.seq);
                if op.header.kind.is_separated() {
                    self.slot().has_long_in(log.number);
                }
                insert_logged(self.slot(), &op, log.number);
            }
        }
        Ok(batches.end())
    }

    /// The slot for replayed operations.
    fn slot(&mut self) -> &mut MemSlot {
        let (memory, start) = (self.options.memtable(), self.position);
        self.slot.get_or_insert_with(|| MemSlot::new(memory, start))
    }

    /// Appends to a log file the part that only the window holds, and makes it durable.
    fn keep_window_tail(&self, LogEnd { log, base, start, end }: &LogEnd) -> Result<()> {
        let mut reader = self.reader(log, true, *base, *start)?;
        // A later reader of the file from its start needs its header. Else the file may have a hole
        // below, since a flush released that part.
        let needed = if *start <= FileHeader::RECORD_LEN as u64 { 0 } else { *start };
        let (from, end) = (reader.file_len().max(needed), *end);
        let name = Name::numbered(FileKind::Log, log.number);
        if log.file.is_copied().map_err(|e| Error::io("look at a log file", e))? {
            let what = "a log file to be completed after a crash has another name, in a copy of \
                        the directory; copy the file in the place of the link, and open again";
            return Err(Error::corruption(what).with("file", name));
        }
        let writer = self
            .storage
            .open(&name, Mode::ReadWrite, Access::Random)
            .map_err(|e| Error::io("open a log file", e).with("file", name))?;
        if end > from && !planted(Bug::WindowTailForgotten) {
            let mut tail = &*reader.read(from, (end - from) as usize)?;
            // The drain may have written a part of it, and died before it stored its mark.
            let there = log.len.saturating_sub(from).min(tail.len() as u64) as usize;
            let mut written = vec![0; there];
            read_exact_at(&*writer, &mut written, from)
                .map_err(|e| Error::io("read a log file", e).with("file", name))?;
            let same = written.iter().zip(tail).take_while(|(a, b)| a == b).count();
            tail = &tail[same..];
            write_all_at(&*writer, tail, from + same as u64)
                .map_err(|e| Error::io("complete a log file", e).with("file", name))?;
        }
        // Frees the space reserved ahead: nothing is appended to this file any more.
        let len = end.max(log.len);
        writer.truncate(len).map_err(|e| Error::io("cut a log file", e).with("file", name))?;
        // The bytes may be in the page cache only: the new manifest relies on them.
        writer.sync().map_err(|e| Error::sync_failed("a log file", e).with("file", name))
    }

    /// Ends the replay: completes the log files.
    pub(crate) fn finish(self) -> Result<Replayed> {
        self.ends.iter().try_for_each(|end| self.keep_window_tail(end))?;
        let last_seq = self.last_known();
        Ok(Replayed {
            memtable: self.slot,
            edits: self.edits,
            position: self.position,
            last_seq,
            next_seq: match planted(Bug::SeqRestarts) {
                true => self.max_seq + 1,
                false => self.live.seq_limit.max(last_seq + 1),
            },
            report: self.report,
        })
    }
}

/// Inserts the index entry of an operation that was read from log file `file`.
pub(crate) fn insert_logged(slot: &MemSlot, op: &LoggedOp, file: FileNumber) {
    let header = op.header;
    let encoded_key = EncodedKey::new(header.keyspace, &op.key);
    let encoded_key = encoded_key.as_bytes();
    let hash = hash64(encoded_key, 0);
    let place = RecordLocation { file, offset: op.offset };
    if header.keyspace == KeyspaceId::SYSTEM {
        slot.has_system.store(true, Ordering::Relaxed);
    }
    let bytes = op.key.len() as u64 + u64::from(header.value_len);
    slot.replayed.fetch_add(bytes, Ordering::Relaxed);
    insert_record(slot, encoded_key, hash, header.seq, &header, &op.value, place);
}

fn lost(position: u64) -> Error {
    Error::corruption(
        "the log is damaged where it had been durable; restore the database from a backup, or \
         salvage what can be read (`cleave repair`)",
    )
    .with("log_position", position)
}
