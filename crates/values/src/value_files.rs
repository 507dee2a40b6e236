//! The length and live bytes of every value file: exact, and part of the manifest.
//!
//! *Live* bytes of a file are the lengths of the records that index entries in tables own. They
//! grow when a flush or a collection publishes pointers and shrink when a compaction drops them, in
//! the same manifest edit, so the figure is exact after any crash (invariant 11). Garbage whose
//! entries no compaction has dropped yet still counts as live.

use std::collections::BTreeMap;

use cleavedb_base::codec::{Cursor, put_varint};
use cleavedb_base::{Error, FileNumber, Result};
use cleavedb_storage::FileKind;
use cleavedb_storage::log::FileHeader;

/// Facts about one log file or segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueFileMeta {
    /// Log, segment, group file or blob.
    pub kind: FileKind,
    /// Log position of its first byte; 0 for logs that are not sealed and for other files, but for
    /// blobs the hash of their tree key, until a table has a newer version of the key.
    pub base: u64,
    /// Bytes up to the end of its last record, once the file is complete.
    pub len: Option<u64>,
    /// Bytes that were durable when a log file was resumed: replay must not end before.
    pub durable: u64,
    /// Bytes of records that index entries in tables own.
    pub live: u64,
}

/// One change of the table of value files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueFileEdit {
    /// A new file, created and durable in its directory.
    Add(FileNumber, FileKind),
    /// The log position and the final length of a file.
    Seal(FileNumber, u64, u64),
    /// Index entries with pointers to this many bytes were published.
    LiveAdded(FileNumber, u64),
    /// Index entries with pointers to this many bytes were dropped.
    LiveRemoved(FileNumber, u64),
    /// The file is removed.
    Remove(FileNumber),
    /// A sealed log file is resumed: its bytes so far are durable, the following ones are to be
    /// replayed.
    Resume(FileNumber),
    /// A sealed log file is no value file any more, but stays for readers of changes.
    Retain(FileNumber),
    /// A retained log file is removed.
    Release(FileNumber),
}

impl ValueFileEdit {
    /// Appends the encoding: a tag, then varints. See `docs/format.md`, "Manifest".
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Add(number, kind) => {
                out.push(1);
                put_varint(out, number.0);
                out.push(match kind {
                    FileKind::Segment => 1,
                    FileKind::Group => 2,
                    FileKind::Blob => 3,
                    _ => 0,
                });
            }
            Self::Seal(number, base, len) => {
                out.push(2);
                put_all(out, &[number.0, base, len]);
            }
            Self::LiveAdded(number, bytes) => {
                out.push(3);
                put_all(out, &[number.0, bytes]);
            }
            Self::LiveRemoved(number, bytes) => {
                out.push(4);
                put_all(out, &[number.0, bytes]);
            }
            Self::Remove(number) => {
                out.push(5);
                put_varint(out, number.0);
            }
            Self::Resume(number) => {
                out.push(6);
                put_varint(out, number.0);
            }
            Self::Retain(number) => {
                out.push(7);
                put_varint(out, number.0);
            }
            Self::Release(number) => {
                out.push(8);
                put_varint(out, number.0);
            }
        }
    }

    /// Reads one edit.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let tag = cursor.u8()?;
        let number = FileNumber(cursor.varint()?);
        Ok(match tag {
            1 => match cursor.u8()? {
                0 => Self::Add(number, FileKind::Log),
                1 => Self::Add(number, FileKind::Segment),
                2 => Self::Add(number, FileKind::Group),
                3 => Self::Add(number, FileKind::Blob),
                kind => return Err(unknown("file kind", kind)),
            },
            2 => Self::Seal(number, cursor.varint()?, cursor.varint()?),
            3 => Self::LiveAdded(number, cursor.varint()?),
            4 => Self::LiveRemoved(number, cursor.varint()?),
            5 => Self::Remove(number),
            6 => Self::Resume(number),
            7 => Self::Retain(number),
            8 => Self::Release(number),
            tag => return Err(unknown("tag", tag)),
        })
    }
}

fn put_all(out: &mut Vec<u8>, fields: &[u64]) {
    fields.iter().for_each(|field| put_varint(out, *field));
}

#[cold]
fn unknown(what: &str, byte: u8) -> Error {
    Error::corruption(format!("a ledger edit has unknown {what} {byte}"))
}

/// All log files and segments, by number: oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueFiles {
    files: BTreeMap<FileNumber, ValueFileMeta>,
    retained: BTreeMap<FileNumber, RetainedFile>,
}

/// A log file that is kept for readers of changes, and for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetainedFile {
    /// Log position of its first byte.
    pub base: u64,
    /// Bytes up to the end of its last record.
    pub len: u64,
}

impl ValueFiles {
    /// The facts of one file.
    pub fn get(&self, number: FileNumber) -> Option<&ValueFileMeta> {
        self.files.get(&number)
    }

    /// All files, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (FileNumber, &ValueFileMeta)> {
        self.files.iter().map(|(number, facts)| (*number, facts))
    }

    /// Applies one change. Fails, and changes nothing, if it contradicts the table of value files.
    pub fn apply(&mut self, edit: &ValueFileEdit) -> Result<()> {
        match *edit {
            ValueFileEdit::Add(number, kind) => {
                let facts = ValueFileMeta { kind, base: 0, len: None, durable: 0, live: 0 };
                if self.is_retained(number) || self.files.insert(number, facts).is_some() {
                    return Err(Error::corruption("a file is added twice").with("file", number));
                }
            }
            ValueFileEdit::Seal(number, base, len) => {
                let facts = self.known(number)?;
                (facts.base, facts.len, facts.durable) = (base, Some(len), 0);
            }
            ValueFileEdit::Resume(number) => {
                let facts = self.known(number)?;
                let (FileKind::Log, Some(len)) = (facts.kind, facts.len.take()) else {
                    let what = "a file that is not a sealed log is resumed";
                    return Err(Error::corruption(what).with("file", number));
                };
                facts.durable = len;
            }
            ValueFileEdit::LiveAdded(number, bytes) => self.known(number)?.live += bytes,
            ValueFileEdit::LiveRemoved(number, bytes) => {
                // The file may have been removed: a collection moved its records, and the entries
                // that still point there are shadowed by the ones that it wrote.
                if let Some(facts) = self.files.get_mut(&number) {
                    facts.live = facts.live.checked_sub(bytes).ok_or_else(|| {
                        Error::corruption("more bytes died in a file than were live there")
                            .with("file", number)
                            .with("died", bytes)
                            .with("live", facts.live)
                    })?;
                }
            }
            ValueFileEdit::Remove(number) => {
                if self.files.remove(&number).is_none() {
                    return Err(
                        Error::corruption("an unknown file is removed").with("file", number)
                    );
                }
            }
            ValueFileEdit::Retain(number) => {
                let facts = self.known(number)?;
                let (FileKind::Log, base, Some(len)) = (facts.kind, facts.base, facts.len) else {
                    let what = "a file that is not a sealed log is retained";
                    return Err(Error::corruption(what).with("file", number));
                };
                self.files.remove(&number);
                self.retained.insert(number, RetainedFile { base, len });
            }
            ValueFileEdit::Release(number) => {
                if self.retained.remove(&number).is_none() {
                    let what = "a log file that is not retained is released";
                    return Err(Error::corruption(what).with("file", number));
                }
            }
        }
        Ok(())
    }

    /// Log files that are kept for readers of changes, oldest first. No other method counts
    /// them.
    pub fn retained(&self) -> impl DoubleEndedIterator<Item = (FileNumber, RetainedFile)> {
        self.retained.iter().map(|(number, file)| (*number, *file))
    }

    /// A log file by its number, if it is one of them.
    pub fn get_retained(&self, number: FileNumber) -> Option<RetainedFile> {
        self.retained.get(&number).copied()
    }

    /// Whether this log file is one of them.
    pub fn is_retained(&self, number: FileNumber) -> bool {
        self.retained.contains_key(&number)
    }

    /// The kind of a file that must be there: a value file, or a retained log file.
    pub fn kind_of(&self, number: FileNumber) -> Option<FileKind> {
        let retained = || self.is_retained(number).then_some(FileKind::Log);
        self.get(number).map(|facts| facts.kind).or_else(retained)
    }

    /// Forgets the retained log files, as in a copy that does not have them.
    pub fn only_with_values(&mut self) {
        self.retained.clear();
    }

    fn known(&mut self, number: FileNumber) -> Result<&mut ValueFileMeta> {
        self.files
            .get_mut(&number)
            .ok_or_else(|| Error::corruption("an edit names an unknown file").with("file", number))
    }

    /// The edits that make this table of value files out of an empty one.
    pub fn export(&self) -> Vec<ValueFileEdit> {
        let mut edits = Vec::new();
        for (number, facts) in self.iter() {
            edits.push(ValueFileEdit::Add(number, facts.kind));
            if let Some(len) = facts.len {
                edits.push(ValueFileEdit::Seal(number, facts.base, len));
            } else if facts.durable > 0 {
                edits.push(ValueFileEdit::Seal(number, facts.base, facts.durable));
                edits.push(ValueFileEdit::Resume(number));
            }
            if facts.live > 0 {
                edits.push(ValueFileEdit::LiveAdded(number, facts.live));
            }
        }
        for (number, file) in self.retained() {
            edits.push(ValueFileEdit::Add(number, FileKind::Log));
            edits.push(ValueFileEdit::Seal(number, file.base, file.len));
            edits.push(ValueFileEdit::Retain(number));
        }
        edits
    }

    /// Log files, oldest first.
    pub fn logs(&self) -> impl DoubleEndedIterator<Item = (FileNumber, &ValueFileMeta)> {
        self.iter().filter(|(_, meta)| meta.is_log())
    }

    /// Whether this value file is a log file.
    pub fn is_log(&self, number: FileNumber) -> bool {
        self.get(number).is_some_and(ValueFileMeta::is_log)
    }

    /// Segments, oldest first.
    pub fn segments(&self) -> impl Iterator<Item = (FileNumber, &ValueFileMeta)> {
        self.iter().filter(|(_, meta)| meta.kind == FileKind::Segment)
    }

    /// Files of groups, oldest first; the table of groups knows their extents.
    pub fn group_files(&self) -> impl Iterator<Item = (FileNumber, &ValueFileMeta)> {
        self.iter().filter(|(_, meta)| meta.kind == FileKind::Group)
    }

    /// Blobs, oldest first: each is dropped as a whole, and never collected.
    pub fn blobs(&self) -> impl Iterator<Item = (FileNumber, &ValueFileMeta)> {
        self.iter().filter(|(_, meta)| meta.kind == FileKind::Blob)
    }

    /// Blobs that entries in tables own although a newer version of their key hides them, with
    /// their lengths: dead, unless a snapshot sees them.
    pub fn hidden_blobs(&self) -> impl Iterator<Item = (FileNumber, u64)> {
        let hidden = self.blobs().filter(|(_, meta)| meta.is_hidden());
        hidden.filter_map(|(number, meta)| Some((number, meta.len?)))
    }

    /// The edit by which a blob becomes a hidden one; none if it is, or is not there any more.
    pub fn hide(&self, number: FileNumber) -> Option<ValueFileEdit> {
        let meta = self.get(number).filter(|meta| meta.kind == FileKind::Blob)?;
        (!meta.is_hidden()).then_some(ValueFileEdit::Seal(number, 0, meta.len?))
    }

    /// Bytes of all files that are dropped as a whole, as far as they are sealed.
    pub fn whole_bytes(&self) -> u64 {
        self.sealed(FileNumber(u64::MAX)) + self.blob_bytes()
    }

    /// Bytes of blobs.
    pub fn blob_bytes(&self) -> u64 {
        self.blobs().filter_map(|(_, meta)| meta.len).sum()
    }

    /// Files that are dropped as a whole, oldest first: all but group files.
    pub fn whole(&self) -> impl Iterator<Item = (FileNumber, &ValueFileMeta)> {
        self.iter().filter(|(_, meta)| meta.is_whole())
    }

    /// A log file, segment or blob.
    pub fn get_whole(&self, number: FileNumber) -> Option<&ValueFileMeta> {
        self.get(number).filter(|meta| meta.is_whole())
    }

    /// Value files that are sealed and that replay does not need: segments, and log files below
    /// `upto`, the first that replay would still need; with their lengths.
    pub fn collectable(
        &self,
        upto: FileNumber,
    ) -> impl Iterator<Item = (FileNumber, &ValueFileMeta, u64)> {
        let free = move |number, meta: &ValueFileMeta| {
            meta.kind == FileKind::Segment || meta.is_log() && number < upto
        };
        let sealed = self.iter().filter_map(|(number, meta)| Some((number, meta, meta.len?)));
        sealed.filter(move |(number, meta, _)| free(*number, meta))
    }

    /// Bytes of live records in all files.
    pub fn live(&self) -> u64 {
        self.files.values().map(|facts| facts.live).sum()
    }

    /// Bytes of all sealed segments, without their headers.
    pub fn segment_bytes(&self) -> u64 {
        self.segments().filter_map(|(_, meta)| meta.len).map(without_header).sum()
    }

    /// Bytes of all sealed logs and segments, without the headers that every file has: a collection
    /// cannot reclaim them, and a goal that counted them might never be reached. Of group files the
    /// table of groups knows which parts still exist. Of logs those below `upto` count, the first
    /// one that replay still needs: later ones cannot be collected.
    pub fn sealed(&self, upto: FileNumber) -> u64 {
        self.collectable(upto).map(|(_, _, len)| without_header(len)).sum()
    }
}

impl ValueFileMeta {
    fn is_log(&self) -> bool {
        self.kind == FileKind::Log
    }

    /// Whether it is a blob that a newer version of its key hides.
    pub fn is_hidden(&self) -> bool {
        self.kind == FileKind::Blob && self.base == 0 && self.live > 0
    }

    /// Whether the file is dropped as a whole; of group files extents are.
    fn is_whole(&self) -> bool {
        self.kind != FileKind::Group
    }
}

/// Bytes of records in a file of `len` bytes.
fn without_header(len: u64) -> u64 {
    len.saturating_sub(FileHeader::RECORD_LEN as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<ValueFileEdit> {
        vec![
            ValueFileEdit::Add(FileNumber(3), FileKind::Log),
            ValueFileEdit::Seal(FileNumber(3), 4096, 900),
            ValueFileEdit::LiveAdded(FileNumber(3), 800),
            ValueFileEdit::Add(FileNumber(9), FileKind::Segment),
            ValueFileEdit::Resume(FileNumber(3)),
            ValueFileEdit::Add(FileNumber(10), FileKind::Log),
            ValueFileEdit::Seal(FileNumber(10), 8192, 700),
            ValueFileEdit::LiveAdded(FileNumber(10), 600),
            ValueFileEdit::Retain(FileNumber(10)),
        ]
    }

    #[test]
    fn edits_round_trip_and_rebuild_the_ledger() {
        let mut value_files = ValueFiles::default();
        let mut bytes = Vec::new();
        for edit in sample() {
            value_files.apply(&edit).unwrap();
            edit.encode(&mut bytes);
        }
        let mut cursor = Cursor::new(&bytes, "test");
        let mut decoded = ValueFiles::default();
        while !cursor.is_empty() {
            decoded.apply(&ValueFileEdit::decode(&mut cursor).unwrap()).unwrap();
        }
        assert_eq!(decoded, value_files);
        let mut exported = ValueFiles::default();
        value_files.export().iter().try_for_each(|edit| exported.apply(edit)).unwrap();
        assert_eq!(exported, value_files);
    }

    #[test]
    fn contradictions_are_refused() {
        let mut value_files = ValueFiles::default();
        sample().iter().try_for_each(|edit| value_files.apply(edit)).unwrap();
        assert!(value_files.apply(&ValueFileEdit::Add(FileNumber(3), FileKind::Log)).is_err());
        assert!(value_files.apply(&ValueFileEdit::LiveRemoved(FileNumber(3), 801)).is_err());
        assert!(value_files.apply(&ValueFileEdit::Remove(FileNumber(4))).is_err());
        assert!(
            value_files.apply(&ValueFileEdit::Resume(FileNumber(3))).is_err(),
            "it goes on already"
        );
        assert!(value_files.apply(&ValueFileEdit::Resume(FileNumber(9))).is_err(), "it is no log");
        value_files.apply(&ValueFileEdit::LiveRemoved(FileNumber(77), 5)).unwrap();
        // A retained log file is no value file.
        assert!(value_files.apply(&ValueFileEdit::Remove(FileNumber(10))).is_err());
        assert!(value_files.apply(&ValueFileEdit::Add(FileNumber(10), FileKind::Log)).is_err());
        assert!(value_files.apply(&ValueFileEdit::Retain(FileNumber(3))).is_err(), "it goes on");
        assert!(value_files.apply(&ValueFileEdit::Release(FileNumber(3))).is_err());
        value_files.apply(&ValueFileEdit::LiveRemoved(FileNumber(10), 900)).unwrap();
        assert_eq!(value_files.kind_of(FileNumber(10)), Some(FileKind::Log));
        value_files.apply(&ValueFileEdit::Release(FileNumber(10))).unwrap();
        assert_eq!(value_files.kind_of(FileNumber(10)), None);
    }
}
