//! Dumps a log file or segment, record by record, and shows where a reader's records end, and why.
//!
//! The file is searched as a salvage does it, so records behind the end are shown, too. Whether a
//! record counts is decided as in recovery (`docs/format.md`, "Log file").

use std::ops::ControlFlow;

use cleavedb_base::Error;
use cleavedb_base::record::{FileIdentity, Header, RecordKind};
use cleavedb_storage::File;
use cleavedb_storage::log::salvage::{Met, WindowBytes, salvage};
use cleavedb_storage::log::{FileHeader, SyncMarker};

use super::line::{Facts, Out};
use super::records;

/// A log file or segment, and the facts about it from other files.
pub(super) struct DumpedLog<'a> {
    pub(super) file: &'a dyn File,
    pub(super) identity: FileIdentity,
    /// Length of the file.
    pub(super) len: u64,
    /// Log position of its first byte; `None` in segments, and if no file has it.
    pub(super) base: Option<u64>,
    /// Whether records follow one another without a gap up to the end, as in segments.
    pub(super) is_segment: bool,
    /// The valid length in the manifest.
    pub(super) sealed: Option<u64>,
    /// Offset below which the file is not needed, so that there may be holes.
    pub(super) needless: u64,
    /// The window that may hold the end of the file.
    pub(super) window: Option<WindowBytes<'a>>,
    /// The header of the next log file, if there is one.
    pub(super) next: Option<FileHeader>,
}

/// Dumps the file.
pub(super) fn dump(mut log: DumpedLog<'_>, out: &mut Out<'_>) -> ControlFlow<()> {
    let (file, window, identity) = (log.file, log.window.take(), log.identity);
    let mut walk = LogWalk { log, out, at: 0, state: LogState::Whole, batch: None, proof: None };
    let mut done = ControlFlow::Continue(());
    let scanned = salvage(file, window, identity, &mut |offset, met| {
        done = walk.meet(offset, met);
        done
    });
    done?;
    match scanned {
        Ok(()) => walk.finish(),
        Err(e) => walk.out.damage(Error::io("get the length of a file", e)),
    }
}

/// Whether a reader reads the records at this point.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LogState {
    /// All records so far count.
    Whole,
    /// The next record counts, too. The bytes before it are damaged, which was reported.
    Damaged,
    /// The records from here on are behind the end, and do not count.
    Behind,
}

struct LogWalk<'a, 'o, 'v> {
    log: DumpedLog<'a>,
    out: &'o mut Out<'v>,
    /// Offset behind the last record that counts.
    at: u64,
    state: LogState,
    /// Offset and number of operations so far of a batch that is not complete.
    batch: Option<(u64, u64)>,
    /// Offset of a mark behind the end, and the log position up to which it proves the log durable.
    proof: Option<(u64, u64)>,
}

impl LogWalk<'_, '_, '_> {
    fn meet(&mut self, offset: u64, met: Met<'_>) -> ControlFlow<()> {
        match met {
            Met::Record(header, key, value) => self.record(offset, &header, key, value),
            Met::Damaged(header) => self.damaged(offset, &header),
            Met::Rubbish(len) => self.rubbish(offset, len),
            Met::Unreadable(error) => {
                let error = Error::io("read a block", error).with("offset", offset);
                self.out.damage(error)
            }
        }
    }

    fn record(
        &mut self,
        offset: u64,
        header: &Header,
        key: &[u8],
        value: &[u8],
    ) -> ControlFlow<()> {
        let mark = (header.kind == RecordKind::SyncMarker)
            .then(|| SyncMarker::decode(value).ok())
            .flatten();
        let joins = mark.is_some_and(|mark| self.joins(offset, mark));
        if offset != self.at && !joins {
            self.gap(offset)?;
        }
        let counts = self.counts(offset);
        let mut facts = Facts::new();
        if !counts {
            facts.push(("counts", "no, it lies behind the end".into()));
        }
        if let Some(base) = self.log.base {
            facts.push(("position", base.saturating_add(offset).into()));
        }
        if offset >= self.log.len {
            facts.push(("lies_in", "the window".into()));
        }
        match (header.kind, mark) {
            (RecordKind::FileHeader, _) => {
                let found = records::file_header(value, self.out)?;
                if let Some(header) = found.filter(|_| offset == 0 && !self.log.is_segment) {
                    self.log.base = Some(header.base);
                }
            }
            (_, Some(mark)) => {
                facts.push(("previous_end", mark.previous_end.into()));
                facts.push(("durable", mark.durable.into()));
                self.out.line(offset, header.kind.name(), facts)?;
                self.remember(offset, mark);
            }
            _ => records::operation(offset, header, key, value, facts, self.out)?,
        }
        if counts {
            self.at = offset + header.record_len() as u64;
            self.state = LogState::Whole;
            if header.kind.is_operation() {
                let (begin, operations) = self.batch.unwrap_or((offset, 0));
                self.batch = header.more.then_some((begin, operations + 1));
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether a mark continues the log where the records before it end.
    fn joins(&self, offset: u64, mark: SyncMarker) -> bool {
        let near = (self.at..=records::block_end(self.at)).contains(&offset);
        let follows = |base: u64| mark.previous_end == base.saturating_add(self.at);
        near && self.log.base.is_none_or(follows)
    }

    /// Whether a reader reads a record at `offset`.
    fn counts(&self, offset: u64) -> bool {
        self.state != LogState::Behind && self.log.sealed.is_none_or(|end| offset < end)
    }

    /// Stores a mark behind the end, if it proves that records were lost.
    fn remember(&mut self, offset: u64, mark: SyncMarker) {
        let end = self.log.base.map(|base| base.saturating_add(self.at));
        let behind = self.state == LogState::Behind && self.log.sealed.is_none();
        if behind && end.is_some_and(|end| mark.durable > end) {
            self.proof = self.proof.or(Some((offset, mark.durable)));
        }
    }

    /// Whether records must follow one another up to a known end, so that any gap is damage.
    fn is_strict(&self) -> bool {
        self.log.is_segment || self.log.sealed.is_some()
    }

    /// Handles a gap before `offset`: either the records continue there, or they have ended before
    /// it.
    fn gap(&mut self, offset: u64) -> ControlFlow<()> {
        if !self.counts(offset) {
            return ControlFlow::Continue(());
        }
        let len = offset - self.at;
        if offset <= self.log.needless {
            let why = "below the replay head: flushes have made it needless";
            let facts = vec![("length", len.into()), ("why", why.into())];
            return self.out.line(self.at, "hole", facts);
        }
        if !self.is_strict() {
            return self.end();
        }
        match self.state {
            LogState::Damaged => ControlFlow::Continue(()),
            _ => self.out.damage_at(self.at, "bytes belong to no record, and others follow"),
        }
    }

    /// Reports the end of the reader's records: the next bytes are not part of them.
    fn end(&mut self) -> ControlFlow<()> {
        self.state = LogState::Behind;
        let mut facts = Facts::new();
        if let Some(base) = self.log.base {
            facts.push(("position", base.saturating_add(self.at).into()));
        }
        facts.push(("why", "what follows is not the next record, nor a mark that joins".into()));
        self.out.line(self.at, "end of the records", facts)
    }

    /// Handles bytes that are no whole record; returns whether they are damage.
    fn broken(&mut self, offset: u64) -> ControlFlow<(), bool> {
        if !self.counts(offset) || offset < self.log.needless {
            return ControlFlow::Continue(false);
        }
        if self.is_strict() {
            self.state = LogState::Damaged;
            return ControlFlow::Continue(true);
        }
        self.end()?;
        ControlFlow::Continue(false)
    }

    fn damaged(&mut self, offset: u64, header: &Header) -> ControlFlow<()> {
        let is_damage = self.broken(offset)?;
        records::damaged(offset, header, self.out)?;
        if !is_damage {
            return ControlFlow::Continue(());
        }
        if offset == self.at {
            self.at += header.record_len() as u64;
        }
        self.out.damage_at(offset, "key or value of a record do not match their checksum")
    }

    fn rubbish(&mut self, offset: u64, len: u64) -> ControlFlow<()> {
        // Behind the end of the log, its part of the window has older bytes.
        if offset >= self.log.len {
            return ControlFlow::Continue(());
        }
        if self.broken(offset)? {
            return self.out.damage_at(offset, "bytes belong to no record");
        }
        self.out.line(offset, "no record", vec![("length", len.into())])
    }

    /// Reports the end of the file, and why it is there.
    fn finish(self) -> ControlFlow<()> {
        let Self { log, out, at, state, batch, proof } = self;
        if let Some((begin, operations)) = batch {
            let why = "the batch has no end: its operations do not count";
            let facts = vec![("operations", operations.into()), ("why", why.into())];
            out.line(begin, "incomplete batch", facts)?;
        }
        let position = log.base.map(|base| base.saturating_add(at));
        let found = match log.loss(at, position, proof) {
            Some(error) => return out.damage(error),
            None => log.why(at, position, state),
        };
        let mut facts: Facts<'_> = vec![("why", found.into())];
        facts.extend(position.map(|position| ("position", position.into())));
        out.line(at, "end", facts)
    }
}

impl DumpedLog<'_> {
    /// The header of the next log file, if it does not continue at `position`, where this file
    /// ends.
    fn contradicted_by(&self, position: Option<u64>) -> Option<FileHeader> {
        self.next.filter(|next| position != Some(next.previous_end))
    }

    /// The error if there is a proof that records behind the end at offset `at` were lost. `proof`
    /// is a mark behind the end: its offset, and the log position that was durable.
    fn loss(&self, at: u64, position: Option<u64>, proof: Option<(u64, u64)>) -> Option<Error> {
        // Below the replay head records may be missing, and the file may end early.
        if at < self.needless {
            return None;
        }
        let lost = |what| Error::corruption(what).with("offset", at);
        if let Some(sealed) = self.sealed {
            let what = "the records do not end where the manifest says: some were lost";
            return (sealed != at).then(|| lost(what).with("valid_length", sealed));
        }
        if let Some((mark, durable)) = proof {
            let what = "the records end before what a mark behind says was durable: some were lost";
            return Some(lost(what).with("mark", mark).with("durable", durable));
        }
        let next = self
            .contradicted_by(position)
            .filter(|next| next.durable > position.unwrap_or(u64::MAX))?;
        let what = "the next log file says that more was durable: records were lost";
        Some(lost(what).with("next", next.number).with("durable", next.durable))
    }

    /// Why the records end at offset `at`, if none were lost.
    fn why(&self, at: u64, position: Option<u64>, state: LogState) -> &'static str {
        match (self.sealed, state) {
            _ if at < self.needless => "below the replay head: nothing of the file is needed here",
            (Some(_), _) => "the valid length that the manifest has",
            (None, _) if at == 0 => "the file was never used",
            (None, _) if self.contradicted_by(position).is_some() => {
                "torn: the next log file was begun without what is missing here"
            }
            (None, LogState::Behind) => "torn: nothing says that what follows was durable",
            (None, _) => "nothing follows",
        }
    }
}
