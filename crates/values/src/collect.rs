//! Collection: read victims, find what lives, move it, and say how the index must change.
//!
//! One algorithm (design, section 2). The caller fixed a read point and the live snapshots before;
//! everything here is asked and decided as of then. A record lives if what answers for its key at
//! the read point, or at a live snapshot, yields its key and sequence number *and this very
//! pointer*. That is the index, except for hash groups: all extents of a group are victims at once,
//! and the records themselves answer ([`Liveness`]). For every key
//! of which a record lives, the run of new pointers repeats all versions that anybody can see and
//! that lie in tables, so that the run alone answers for its keys. A relocation keeps key, sequence
//! number and payload checksum: it changes where a record lies, never what it is.

use std::collections::HashMap;
use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{Header, Record, RecordKind};
use cleavedb_base::{EntryKind, Error, FileNumber, Result, SeqNo, TreeKey, ValuePointer};
use cleavedb_storage::log::LogReader;
use cleavedb_storage::segment::Segment;

use crate::factory::SegmentFactory;
use crate::survivors::{NewSegment, SurvivorWriter};

/// A version of a key that the present or a live snapshot can see as of the read point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible {
    /// Its sequence number.
    pub seq: SeqNo,
    /// Tombstone, inline value or pointer.
    pub kind: EntryKind,
    /// Inline value or encoded pointer.
    pub value: Vec<u8>,
    /// Whether it lies in a table; versions in memory are younger than any run and need no repeat.
    pub in_table: bool,
}

/// What collection asks about a key of which it found `records`, newest first.
pub trait Liveness {
    /// Every visible version of their key as of the read point, newest first. Keys are asked for in
    /// ascending order.
    fn visible(&self, records: &[Found], out: &mut Vec<Visible>) -> Result<()>;

    /// Whether memory holds a version of a key that lies in a group, so that it was updated; the
    /// read point does not matter.
    fn is_in_memory(&self, tree_key: &[u8]) -> bool;
}

/// A sealed file to be collected.
pub struct Victim {
    /// The file.
    pub segment: Arc<Segment>,
    /// Log position of its first byte.
    pub base: u64,
    /// Its length up to the end of the last record.
    pub len: u64,
}

/// One entry of the run of new pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEntry {
    /// Tree key.
    pub key: Vec<u8>,
    /// The version it repeats or moves.
    pub seq: SeqNo,
    /// Tombstone, inline value or pointer.
    pub kind: EntryKind,
    /// Whether the entry only repeats what an older table owns.
    pub repeat: bool,
    /// Inline value or encoded pointer.
    pub value: Vec<u8>,
}

/// The result of a collection, not yet installed.
#[derive(Debug, Default)]
pub struct Collected {
    /// Segments of survivors, synced.
    pub segments: Vec<NewSegment>,
    /// The run of new pointers, in index order.
    pub run: Vec<RunEntry>,
    /// Bytes of the victims.
    pub bytes_read: u64,
    /// Bytes of survivors.
    pub bytes_moved: u64,
}

/// A record found in a victim.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its tree key.
    pub key: Vec<u8>,
    /// Its sequence number.
    pub seq: SeqNo,
    /// Where it lies.
    pub pointer: ValuePointer,
    /// What it is: a value, a stub or a tag.
    pub kind: RecordKind,
    /// The value of a stub.
    pub inline: Vec<u8>,
}

impl Found {
    /// The record at `pointer`.
    pub(crate) fn new(record: &Record<'_>, pointer: ValuePointer) -> Result<Self> {
        let kind = record.header.kind;
        let inline = match kind {
            RecordKind::Inline => record.value.to_vec(),
            RecordKind::Delete | RecordKind::Separated | RecordKind::Tag => Vec::new(),
            _ => return Err(Error::corruption("a record of the store lies among values")),
        };
        let key = TreeKey::new(record.header.keyspace, record.key).as_bytes().to_vec();
        Ok(Self { key, seq: record.header.seq, pointer, kind, inline })
    }

    /// Whether it only ends the life of others.
    pub fn is_stub(&self) -> bool {
        matches!(self.kind, RecordKind::Delete | RecordKind::Inline)
    }

    /// Whether its value lies in the cold log.
    pub fn is_tag(&self) -> bool {
        self.kind == RecordKind::Tag
    }

    /// The version that the index should hold of it, in a table. Of a tag only the index knows.
    pub fn as_visible(&self) -> Option<Visible> {
        let (kind, value) = match self.kind {
            RecordKind::Separated => {
                let mut encoded = [0; ValuePointer::ENCODED_LEN_MAX];
                let len = self.pointer.encode(&mut encoded);
                (EntryKind::Pointer, encoded[..len].to_vec())
            }
            RecordKind::Inline => (EntryKind::Inline, self.inline.clone()),
            RecordKind::Delete => (EntryKind::Delete, Vec::new()),
            _ => return None,
        };
        Some(Visible { seq: self.seq, kind, value, in_table: true })
    }
}

/// A record that lives on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Survivor<'a> {
    /// The record.
    pub record: &'a Found,
    /// Whether no other record of its key was found.
    pub alone: bool,
}

/// Collects `victims`; new segments are cut at `segment_len` bytes. `cancelled` is asked now and
/// then.
pub fn collect(
    victims: &[Victim],
    index: &dyn Liveness,
    factory: &dyn SegmentFactory,
    database_id: u64,
    segment_len: u64,
    cancelled: &dyn Fn() -> bool,
) -> Result<Collected> {
    let mut collected = Collected::default();
    let mut found = Vec::new();
    for victim in victims {
        scan(victim, &mut found, cancelled)?;
        collected.bytes_read += victim.len;
    }
    let mut survivors: Vec<ValuePointer> = join(&mut found, index, &mut collected.run, cancelled)?
        .into_iter()
        .map(|survivor| survivor.record.pointer)
        .collect();
    drop(found);
    survivors.sort_unstable_by_key(|survivor| (survivor.file, survivor.offset));
    let mut writer = SurvivorWriter::new(factory, database_id, segment_len);
    let moved = relocate(victims, &survivors, &mut writer, cancelled)?;
    collected.segments = writer.finish()?;
    collected.bytes_moved = collected.segments.iter().map(|new| new.live).sum();
    repoint(&mut collected.run, &moved)?;
    Ok(collected)
}

/// Puts the new places of moved records into the run.
pub(crate) fn repoint(
    run: &mut [RunEntry],
    moved: &HashMap<ValuePointer, ValuePointer>,
) -> Result<()> {
    let mut encoded = [0; ValuePointer::ENCODED_LEN_MAX];
    for entry in run.iter_mut().filter(|e| e.kind == EntryKind::Pointer && !e.repeat) {
        let old = ValuePointer::decode(&entry.value)?;
        let len = moved[&old].encode(&mut encoded);
        entry.value.clear();
        entry.value.extend_from_slice(&encoded[..len]);
    }
    Ok(())
}

/// Records that are moved between two looks at whether to go on.
pub(crate) const CHECK_EVERY: usize = 1024;

pub(crate) fn check_cancelled(cancelled: &dyn Fn() -> bool) -> Result<()> {
    if cancelled() {
        return Err(Error::new(cleavedb_base::ErrorKind::Closed, "the database is closing"));
    }
    Ok(())
}

/// Reads one victim front to back, verifying every record.
fn scan(victim: &Victim, found: &mut Vec<Found>, cancelled: &dyn Fn() -> bool) -> Result<()> {
    let Victim { segment, base, len } = victim;
    let fail = |e: Error| e.with("file", segment.name());
    let identity = segment.identity();
    let mut reader = LogReader::new(&**segment.file(), None, identity, *base, 0, Some(*len))?;
    reader.header().map_err(fail)?;
    while let Some((offset, record)) = reader.next_record().map_err(fail)? {
        if record.header.kind != RecordKind::Separated {
            continue;
        }
        let pointer =
            ValuePointer { file: segment.number(), offset, len: record.header.record_len() as u32 };
        found.push(Found::new(&record, pointer)?);
        if found.len().is_multiple_of(4096) {
            check_cancelled(cancelled)?;
        }
    }
    if reader.offset() < *len {
        let what =
            "a value file has a damaged record; it is not collected, so that nothing is lost";
        return Err(fail(Error::corruption(what)).with("offset", reader.offset()));
    }
    Ok(())
}

/// Asks about every key found, in order; appends to the run and returns the survivors, in the order
/// of their keys. A stub survives as long as a record that it hides does. A tag survives as long as
/// nothing is known that is newer; it hides nothing, and needs no entry in the run.
pub(crate) fn join<'a>(
    found: &'a mut [Found],
    index: &dyn Liveness,
    run: &mut Vec<RunEntry>,
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<Survivor<'a>>> {
    found.sort_unstable_by(|a, b| a.key.cmp(&b.key).then(b.seq.cmp(&a.seq)));
    let found: &'a [Found] = found;
    let mut survivors = Vec::new();
    let mut visible = Vec::new();
    let mut pointer = [0; ValuePointer::ENCODED_LEN_MAX];
    for (i, records) in found.chunk_by(|a, b| a.key == b.key).enumerate() {
        if i.is_multiple_of(4096) {
            check_cancelled(cancelled)?;
        }
        let Some((last, newer)) = records.split_last() else { continue };
        if newer.iter().any(Found::is_tag) {
            let error = Error::corruption("a tag lies above an older record of its key");
            return Err(error.with("file", last.pointer.file));
        }
        let survives = |record| Survivor { record, alone: newer.is_empty() };
        visible.clear();
        index.visible(records, &mut visible)?;
        if visible.is_empty() && last.is_tag() {
            survivors.push(survives(last));
        }
        let mut lives = |version: &Visible| {
            records.iter().find(|record| {
                let len = record.pointer.encode(&mut pointer);
                version.kind == EntryKind::Pointer
                    && record.seq == version.seq
                    && pointer[..len] == version.value
            })
        };
        let living: Vec<Option<&'a Found>> = visible.iter().map(&mut lives).collect();
        let Some(oldest) = living.iter().rposition(Option::is_some) else { continue };
        survivors.extend(living.iter().copied().flatten().map(survives));
        let hides = |stub: &&Found| {
            stub.is_stub() && visible[..oldest].iter().any(|version| version.seq == stub.seq)
        };
        if !planted(Bug::StubDroppedEarly) {
            survivors.extend(records.iter().filter(hides).map(survives));
        }
        for (version, living) in visible.drain(..).zip(living) {
            let forgotten = planted(Bug::RunWithoutTombstones) && version.kind == EntryKind::Delete
                || planted(Bug::RunWithoutRepeats) && living.is_none();
            if version.in_table && !forgotten {
                run.push(RunEntry {
                    key: records[0].key.clone(),
                    seq: version.seq,
                    kind: version.kind,
                    repeat: living.is_none() && !planted(Bug::RunOwnsRepeats),
                    value: version.value,
                });
            }
        }
    }
    Ok(survivors)
}

/// Copies survivors, in the order of their old places, to new segments; returns the new places.
fn relocate(
    victims: &[Victim],
    survivors: &[ValuePointer],
    writer: &mut SurvivorWriter<'_>,
    cancelled: &dyn Fn() -> bool,
) -> Result<HashMap<ValuePointer, ValuePointer>> {
    let mut moved = HashMap::with_capacity(survivors.len());
    let mut bytes = Vec::new();
    for (i, old) in survivors.iter().enumerate() {
        if i.is_multiple_of(CHECK_EVERY) {
            check_cancelled(cancelled)?;
        }
        let segment = source(victims, old.file)?;
        bytes.resize(old.len as usize, 0);
        segment.read(old.offset, &mut bytes)?;
        let record = Record::parse(&bytes, segment.identity(), old.offset)
            .map_err(|e| e.with("file", segment.name()))?;
        let header = Header { more: false, ..record.header };
        moved.insert(*old, writer.append(&header, record.key, record.value)?);
    }
    Ok(moved)
}

fn source(victims: &[Victim], number: FileNumber) -> Result<&Segment> {
    let victim = victims.iter().find(|victim| victim.segment.number() == number);
    let segment = victim.map(|victim| &*victim.segment);
    segment.ok_or_else(|| Error::corruption("a survivor lies in no victim").with("file", number))
}
