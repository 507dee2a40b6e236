//! One change of the set of live files: all changes of a flush, a compaction or a collection,
//! atomically (invariant 4).

use cleavedb_base::codec::{Cursor, put_varint};
use cleavedb_base::{Error, FileNumber, Result, SeqNo};
use cleavedb_index::VersionEdit;
use cleavedb_values::{GroupEdit, ValueFileEdit, ValueLayout};

use super::changes::ChangesEdit;
use crate::control::totals::Totals;

/// Where replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplayHead {
    /// Log file that holds the position.
    pub(crate) file: FileNumber,
    /// Log position of that file's first byte.
    pub(crate) base: u64,
    /// Every operation below is in a table, and every log byte below is durable.
    pub(crate) position: u64,
}

/// A period of writes to the database, from the first write after an open to the close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// Number of the window that holds the end of the log, if it outlives the process.
    pub(crate) window: Option<FileNumber>,
    /// The boot of the machine in which the session began, see [`Storage::boot_id`].
    ///
    /// [`Storage::boot_id`]: cleavedb_storage::Storage::boot_id
    pub(crate) boot_id: u64,
    /// Sequence numbers up to this one were in use before.
    pub(crate) last_seq: SeqNo,
}

/// A set of changes that becomes durable as one record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edit {
    /// How values are kept, in the first edit of a manifest.
    pub(crate) layout: Option<ValueLayout>,
    pub(crate) index: VersionEdit,
    pub(crate) value_files: Vec<ValueFileEdit>,
    pub(crate) groups: Vec<GroupEdit>,
    pub(crate) head: Option<ReplayHead>,
    /// File numbers below are reserved.
    pub(crate) next_file: Option<u64>,
    /// Sequence numbers below are reserved.
    pub(crate) seq_limit: Option<SeqNo>,
    /// Epoch of the youngest flush.
    pub(crate) epoch: Option<u64>,
    /// Estimated bytes of unexposed garbage.
    pub(crate) unexposed: Option<u64>,
    /// The shortest separated length plus one; 0 if the preset decides.
    pub(crate) min_separated: Option<u64>,
    /// Most bytes of all files; 0 if only the disk limits them.
    pub(crate) space_limit: Option<u64>,
    /// A session begins, or, with `None`, ends: then the log is durable up to its end, which is in
    /// the table of value files, and there is no window.
    pub(crate) session: Option<Option<Session>>,
    /// Every operation up to this sequence number is in a table.
    pub(crate) flushed: Option<SeqNo>,
    /// The directory of the database, see [`Storage::directory_id`].
    ///
    /// [`Storage::directory_id`]: cleavedb_storage::Storage::directory_id
    pub(crate) directory_id: Option<u64>,
    /// Counters of the database up to the flush or the close that this edit records.
    pub(crate) totals: Option<Totals>,
    pub(crate) changes: ChangesEdit,
}

const INDEX: u8 = 1;
const LEDGER: u8 = 2;
const HEAD: u8 = 3;
const NEXT_FILE: u8 = 4;
const SEQ_LIMIT: u8 = 5;
const EPOCH: u8 = 6;
const HIDDEN: u8 = 7;
const GROUPS: u8 = 8;
const SEPARATION: u8 = 9;
const BEGUN: u8 = 10;
const CLOSED: u8 = 11;
const FLUSHED: u8 = 12;
const DIRECTORY: u8 = 13;
const TOTALS: u8 = 14;
const LAYOUT: u8 = 15;
const SPACE_LIMIT: u8 = 16;

impl Edit {
    /// The encoding: tagged fields. See `docs/format.md`, "Manifest".
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(layout) = &self.layout {
            out.push(LAYOUT);
            layout.encode(&mut out);
        }
        if !self.index.is_empty() {
            out.push(INDEX);
            self.index.encode(&mut out);
        }
        for edit in &self.value_files {
            out.push(LEDGER);
            edit.encode(&mut out);
        }
        for edit in &self.groups {
            out.push(GROUPS);
            edit.encode(&mut out);
        }
        if let Some(head) = self.head {
            out.push(HEAD);
            for field in [head.file.0, head.base, head.position] {
                put_varint(&mut out, field);
            }
        }
        for (tag, field) in [
            (NEXT_FILE, self.next_file),
            (SEQ_LIMIT, self.seq_limit),
            (EPOCH, self.epoch),
            (HIDDEN, self.unexposed),
            (SEPARATION, self.min_separated),
            (SPACE_LIMIT, self.space_limit),
            (FLUSHED, self.flushed),
            (DIRECTORY, self.directory_id),
        ] {
            if let Some(field) = field {
                out.push(tag);
                put_varint(&mut out, field);
            }
        }
        match self.session {
            Some(Some(Session { window, boot_id, last_seq })) => {
                out.push(BEGUN);
                // No file has the number 0.
                for field in [window.map_or(0, |number| number.0), boot_id, last_seq] {
                    put_varint(&mut out, field);
                }
            }
            Some(None) => out.push(CLOSED),
            None => {}
        }
        if let Some(totals) = self.totals {
            out.push(TOTALS);
            totals.encode(&mut out);
        }
        self.changes.encode(&mut out);
        out
    }

    /// Reads an edit.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, "manifest edit");
        let mut edit = Self::default();
        while !cursor.is_empty() {
            match cursor.u8()? {
                LAYOUT if edit.layout.is_some() => {
                    return Err(Error::corruption("a manifest edit has two layouts"));
                }
                LAYOUT => edit.layout = Some(ValueLayout::decode(&mut cursor)?),
                INDEX => edit.index = VersionEdit::decode(&mut cursor)?,
                GROUPS => edit.groups.push(GroupEdit::decode(&mut cursor)?),
                LEDGER => edit.value_files.push(ValueFileEdit::decode(&mut cursor)?),
                HEAD => {
                    edit.head = Some(ReplayHead {
                        file: FileNumber(cursor.varint()?),
                        base: cursor.varint()?,
                        position: cursor.varint()?,
                    });
                }
                NEXT_FILE => edit.next_file = Some(cursor.varint()?),
                SEQ_LIMIT => edit.seq_limit = Some(cursor.varint()?),
                EPOCH => edit.epoch = Some(cursor.varint()?),
                HIDDEN => edit.unexposed = Some(cursor.varint()?),
                SPACE_LIMIT => edit.space_limit = Some(cursor.varint()?),
                SEPARATION => edit.min_separated = Some(cursor.varint()?),
                FLUSHED => edit.flushed = Some(cursor.varint()?),
                DIRECTORY => edit.directory_id = Some(cursor.varint()?),
                BEGUN => {
                    let window = Some(FileNumber(cursor.varint()?)).filter(|it| it.0 != 0);
                    let (boot_id, last_seq) = (cursor.varint()?, cursor.varint()?);
                    edit.session = Some(Some(Session { window, boot_id, last_seq }));
                }
                TOTALS => edit.totals = Some(Totals::decode(&mut cursor)?),
                CLOSED => edit.session = Some(None),
                tag if edit.changes.decode(tag, &mut cursor)? => {}
                tag => {
                    let what = format!("a manifest edit has unknown field {tag}");
                    return Err(Error::corruption(what));
                }
            }
        }
        Ok(edit)
    }
}
