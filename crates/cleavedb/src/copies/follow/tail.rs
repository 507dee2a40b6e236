//! The end of a log that another process writes, read into a MemTable.
//!
//! Reading goes on where it ended before, as long as the replay head and the session stay. What is
//! read is a prefix of the commit order: records are contiguous, and each is verified at its place.
//! Why it ended is not asked, as a replay does: the caller knows up to where there must be more.
//!
//! A value that lies in the window alone is kept in the MemTable, since the writer overwrites the
//! window. Other values are pointed to.

use std::sync::Arc;

use cleavedb_base::limits::BLOCK;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::FileIdentity;
use cleavedb_base::{Error, ErrorKind, FileNumber, KeyspaceId, Result, SeqNo};
use cleavedb_storage::log::{Batches, FileHeader, LogReader, LoggedOp, Values};
use cleavedb_storage::{Access, File, FileKind, LeftWindow, Mode, Name, Storage};
use cleavedb_values::ValueFileMeta;

use crate::open::replay::insert_logged;
use crate::store::manifest::{LiveFiles, ReplayHead, Session};
use crate::store::retained_log::LogPart;
use crate::store::state::MemSlot;
use crate::writes::dictionaries::StoredValues;

/// What the log is read from.
pub(super) struct LogSource<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) database_id: u64,
    pub(super) live: &'a LiveFiles,
    pub(super) window: Option<&'a LeftWindow>,
}

impl LogSource<'_> {
    fn open(&self, number: FileNumber) -> Result<Arc<dyn File>> {
        let name = Name::numbered(FileKind::Log, number);
        let opened = self.storage.open(&name, Mode::Read, Access::Sequential);
        opened.map_err(|e| Error::unopened("open a log file", e).with("file", name))
    }

    /// A reader of `file` from `at` on, to its end if that is known; only a file without a known
    /// end may lie in the window.
    fn reader<'r>(
        &'r self,
        file: &'r dyn File,
        at: LogPlace,
        sealed: Option<u64>,
        with_window: bool,
    ) -> Result<LogReader<'r>> {
        let window = self.window.filter(|_| sealed.is_none() && with_window);
        let identity = FileIdentity::new(self.database_id, at.file);
        LogReader::new(file, window, identity, at.base, at.offset, sealed)
    }
}

/// Where the next record of the log is looked for.
#[derive(Clone, Copy)]
struct LogPlace {
    file: FileNumber,
    /// Log position of the file's first byte.
    base: u64,
    offset: u64,
}

/// The log since the replay head, as far as it was read.
pub(super) struct LogTail {
    /// The operations of the log.
    pub(super) slot: Arc<MemSlot>,
    head: Option<ReplayHead>,
    session: Option<Session>,
    at: Option<LogPlace>,
    /// Log position behind the last record.
    pub(super) position: u64,
    /// Where the next file may begin: behind `position` if a file without records lies between.
    reached: u64,
    /// Greatest sequence number of its operations; 0 without one.
    pub(super) last_seq: SeqNo,
    /// Whether records of the system keyspace were read that no view knows.
    pub(super) has_news_of_system: bool,
    values: StoredValues,
    /// The files that were read, each as far as it was.
    pub(super) files: Vec<LogPart>,
    /// Operations that were read.
    pub(super) operations: u64,
    /// Bytes of log that were read.
    pub(super) bytes: u64,
}

impl LogTail {
    /// The tail of a log that was not read yet; its MemTable has about `memory` bytes.
    pub(super) fn new(live: &LiveFiles, memory: usize) -> Self {
        let position = live.head.map_or(0, |head| head.position);
        let of_head = |head: ReplayHead| {
            let offset = head.position - head.base;
            LogPlace { file: head.file, base: head.base, offset }
        };
        Self {
            slot: Arc::new(MemSlot::new(memory, position)),
            head: live.head,
            session: live.session,
            at: live.head.map(of_head),
            position,
            reached: position,
            last_seq: 0,
            has_news_of_system: false,
            values: StoredValues::default(),
            files: Vec::new(),
            operations: 0,
            bytes: 0,
        }
    }

    /// Whether what was read is the beginning of the log of `live`.
    pub(super) fn goes_on(&self, live: &LiveFiles) -> bool {
        let same_head = self.head == live.head || planted(Bug::FlushedTailKept);
        same_head && self.session == live.session
    }

    /// Reads what can be read.
    pub(super) fn advance(&mut self, from: &LogSource<'_>) -> Result<()> {
        // The file may be gone: a close removes it if nothing in it is needed.
        let known = self.at.and_then(|at| Some((at, from.live.value_files.get(at.file)?)));
        if let Some((at, facts)) = known {
            self.read_file(from, at, facts)?;
        }
        let read = self.at.map_or(FileNumber(0), |at| at.file);
        for (number, facts) in from.live.value_files.logs().filter(|log| log.0 > read) {
            if let Some(base) = self.continued_by(from, number, facts)? {
                let at = LogPlace { file: number, base, offset: FileHeader::RECORD_LEN as u64 };
                self.come_to(at, facts);
                self.read_file(from, at, facts)?;
            }
        }
        Ok(())
    }

    /// The log position at which file `number` begins, if the log goes on in it.
    fn continued_by(
        &self,
        from: &LogSource<'_>,
        number: FileNumber,
        facts: &ValueFileMeta,
    ) -> Result<Option<u64>> {
        let file = from.open(number)?;
        let begin = |base| LogPlace { file: number, base, offset: 0 };
        let in_file = from.reader(&*file, begin(0), facts.len, false)?.header()?;
        let base = self.reached.next_multiple_of(BLOCK as u64);
        let header = match in_file {
            None => from.reader(&*file, begin(base), facts.len, true)?.header()?,
            found => found,
        };
        let joins = |header: &FileHeader| {
            let follows = [self.position, self.reached].contains(&header.previous_end);
            follows || facts.len.is_some()
        };
        Ok(header.filter(joins).map(|header| header.base))
    }

    /// Reads the records of a file from `at` on.
    fn read_file(
        &mut self,
        from: &LogSource<'_>,
        at: LogPlace,
        facts: &ValueFileMeta,
    ) -> Result<()> {
        let file = from.open(at.file)?;
        let mut reader = from.reader(&*file, at, facts.len, true)?;
        let mut batches = Batches::new(&mut reader, Values::InWindow);
        let mut batch = Vec::new();
        let mut at = at;
        loop {
            let more = batches.next(&mut batch)?;
            self.bytes += batches.end() - at.offset;
            at.offset = batches.end();
            if more {
                batch.drain(..).try_for_each(|op| self.insert(op, at.file, from.live))?;
            }
            if at.offset > FileHeader::RECORD_LEN as u64 {
                self.position = at.base + at.offset;
            }
            self.come_to(at, facts);
            if !more {
                break;
            }
        }
        let least = facts.len.unwrap_or(facts.durable);
        if at.offset < least {
            let what = "a log file ends before what is known of it";
            let name = Name::numbered(FileKind::Log, at.file);
            return Err(Error::corruption(what).with("file", name).with("offset", at.offset));
        }
        Ok(())
    }

    /// The file of `at` was read up to there.
    fn come_to(&mut self, at: LogPlace, facts: &ValueFileMeta) {
        let end = at.base + at.offset;
        (self.at, self.reached) = (Some(at), end);
        if self.files.last().is_none_or(|last| last.number != at.file) {
            let (number, base, is_open) = (at.file, at.base, facts.len.is_none());
            self.files.push(LogPart { number, base, end: None, is_open, first_seq: None });
        }
        let last = self.files.last_mut().expect("there is a last file");
        last.end = Some(end);
    }

    fn insert(&mut self, mut op: LoggedOp, file: FileNumber, live: &LiveFiles) -> Result<()> {
        if op.header.keyspace == KeyspaceId::SYSTEM && op.header.kind.is_inline() {
            self.values.note(&op.key, &op.value)?;
        }
        if op.whole {
            op.value = self.whole(&op, live)?.unwrap_or(op.value);
            op.header.kind = op.header.kind.as_inline();
        }
        insert_logged(&self.slot, &op, file);
        self.last_seq = self.last_seq.max(op.header.seq);
        self.has_news_of_system |= op.header.keyspace == KeyspaceId::SYSTEM;
        self.operations += 1;
        Ok(())
    }

    /// The value of an operation; `None` if that is what is stored. What it needs for that is in
    /// the tail before it, or in tables.
    fn whole(&self, op: &LoggedOp, live: &LiveFiles) -> Result<Option<Vec<u8>>> {
        self.values.whole(&op.header, &op.value).or_else(|_| {
            self.values.note_all(&live.version)?;
            self.values.whole(&op.header, &op.value)
        })
    }

    /// The greatest sequence number in tables and the tail.
    pub(super) fn last_known(&self, live: &LiveFiles) -> SeqNo {
        match live.session {
            Some(session) => self.last_seq.max(live.flushed).max(session.last_seq),
            None => live.seq_limit - 1,
        }
    }
}

/// The error of a look at files that the writer changes meanwhile.
pub(super) fn incomplete(what: &'static str) -> Error {
    Error::new(ErrorKind::Outdated, what)
}
