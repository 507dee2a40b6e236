//! What a manifest has of changes: the part of the log that is kept for their readers, and the bulk
//! loads that they are told of.

use cleavedb_base::codec::{Cursor, put_bytes, put_varint};
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{FileNumber, Result, SeqNo};
use cleavedb_values::{ValueFileEdit, ValueFiles};

use crate::settings::options::Options;

/// The part of the log that is kept for readers of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeLog {
    /// Bytes of the log to keep; 0 if it is kept for no reader.
    pub(crate) bytes: u64,
    /// Every batch from this sequence number on is there; 0 before the first session with it.
    pub(crate) first_seq: SeqNo,
    /// The log files from this number on are whole and hold these batches.
    pub(crate) first_file: FileNumber,
}

/// A bulk load, whose pairs are not in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadedRange {
    /// The sequence number of all its pairs.
    pub(crate) seq: SeqNo,
    /// The first tree key of the range and the last one.
    pub(crate) first: Vec<u8>,
    pub(crate) last: Vec<u8>,
}

/// What an edit says of changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangesEdit {
    /// The part of the log that is kept from now on.
    pub(crate) log: Option<ChangeLog>,
    /// Bulk loads that readers of changes are told of.
    pub(crate) loads: Vec<LoadedRange>,
}

/// The changes that are kept.
#[derive(Clone, Default)]
pub(crate) struct KeptChanges {
    pub(crate) log: ChangeLog,
    /// Bulk loads among them, oldest first.
    pub(crate) loads: Vec<LoadedRange>,
}

const CHANGE_LOG: u8 = 17;
const LOADED: u8 = 18;

impl ChangesEdit {
    /// Bytes of the log to keep from now on, if the edit says so.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.log.map(|log| log.bytes)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        if let Some(ChangeLog { bytes, first_seq, first_file }) = self.log {
            out.push(CHANGE_LOG);
            for field in [bytes, first_seq, first_file.0] {
                put_varint(out, field);
            }
        }
        for LoadedRange { seq, first, last } in &self.loads {
            out.push(LOADED);
            put_varint(out, *seq);
            put_bytes(out, first);
            put_bytes(out, last);
        }
    }

    /// Reads the field `tag`; returns whether it is one of these.
    pub(super) fn decode(&mut self, tag: u8, cursor: &mut Cursor<'_>) -> Result<bool> {
        match tag {
            CHANGE_LOG => {
                let (bytes, first_seq) = (cursor.varint()?, cursor.varint()?);
                let first_file = FileNumber(cursor.varint()?);
                self.log = Some(ChangeLog { bytes, first_seq, first_file });
            }
            LOADED => {
                let (seq, first) = (cursor.varint()?, cursor.bytes()?.to_vec());
                self.loads.push(LoadedRange { seq, first, last: cursor.bytes()?.to_vec() });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl KeptChanges {
    /// None yet, in a database that will keep this number of bytes of its log.
    pub(crate) fn none_yet(bytes: u64) -> Self {
        Self { log: ChangeLog { bytes, ..ChangeLog::default() }, loads: Vec::new() }
    }

    /// The edit that begins a session with these options, whose log begins in file `log` with
    /// `first_seq`.
    pub(crate) fn at_session(
        &self,
        options: &Options,
        first_seq: SeqNo,
        log: FileNumber,
    ) -> ChangesEdit {
        let said = match options.log_kept() {
            0 => ChangeLog::default(),
            bytes if self.are_kept() => ChangeLog { bytes, ..self.log },
            bytes => ChangeLog { bytes, first_seq, first_file: log },
        };
        ChangesEdit { log: (said != self.log).then_some(said), loads: Vec::new() }
    }

    pub(super) fn apply(&mut self, edit: &ChangesEdit) {
        self.loads.extend(edit.loads.iter().cloned());
        if let Some(log) = edit.log {
            self.log = log;
            self.loads.retain(|load| log.bytes > 0 && load.seq >= log.first_seq);
        }
    }

    pub(super) fn export(&self) -> ChangesEdit {
        let log = (self.log != ChangeLog::default()).then_some(self.log);
        ChangesEdit { log, loads: self.loads.clone() }
    }

    /// Whether there may be some.
    pub(crate) fn are_kept(&self) -> bool {
        self.log.first_seq > 0
    }

    /// The edit by which a value file that is not needed any more leaves: a log file with changes
    /// that are kept stays as such.
    pub(crate) fn drop_edit(&self, files: &ValueFiles, number: FileNumber) -> ValueFileEdit {
        let has_kept = self.log.bytes > 0 && number >= self.log.first_file;
        match files.is_log(number) && has_kept && !planted(Bug::ChangesRemoved) {
            true => ValueFileEdit::Retain(number),
            false => ValueFileEdit::Remove(number),
        }
    }
}
