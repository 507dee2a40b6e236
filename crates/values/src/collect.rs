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

use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{Header, Record, RecordKind};
use cleavedb_base::{Error, FileNumber, Result, SeqNo, ValuePointer};
use cleavedb_storage::log::LogReader;
use cleavedb_storage::segment::{Segment, is_far};

use crate::factory::SegmentFactory;
use crate::found::{Arena, Content, Found, Visible};
use crate::survivors::{NewSegment, SurvivorWriter};

/// What collection asks about a key of which it found `records`, newest first.
pub trait Liveness {
    /// Every visible version of their key as of the read point, newest first. Keys of a victim are
    /// asked for in ascending order.
    fn visible(&self, records: &[Found<'_>], out: &mut Vec<Visible>) -> Result<()>;

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
pub struct RunEntry<'a> {
    /// Tree key.
    pub key: &'a [u8],
    /// The version it repeats or moves.
    pub seq: SeqNo,
    /// Whether the entry only repeats what an older table owns.
    pub repeat: bool,
    /// What the version says; of one that moves, from where it lies now.
    pub content: Content,
}

/// The result of a collection, not yet installed.
#[derive(Debug, Default)]
pub struct Collected<'a> {
    /// Segments of survivors, synced.
    pub segments: Vec<NewSegment>,
    /// The run of new pointers, in index order.
    pub run: Vec<RunEntry<'a>>,
    /// Bytes of the victims.
    pub bytes_read: u64,
    /// Bytes of survivors.
    pub bytes_moved: u64,
    /// Time that it took to find out what lives.
    pub asking: Duration,
}

/// A record that lives on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Survivor<'f, 'a> {
    /// The record.
    pub record: &'f Found<'a>,
    /// Whether no other record of its key was found.
    pub alone: bool,
    /// Its entry in the run, which is to say where it lies; stubs and tags have none.
    pub entry: Option<usize>,
}

/// Collects `victims`; new segments are cut at `segment_len` bytes. `cancelled` is asked now and
/// then. Keys of the run lie in `arena`.
pub fn collect<'a>(
    victims: &[Victim],
    index: &dyn Liveness,
    factory: &dyn SegmentFactory,
    database_id: u64,
    segment_len: u64,
    cancelled: &dyn Fn() -> bool,
    arena: &'a Arena,
) -> Result<Collected<'a>> {
    let mut collected = Collected::default();
    let mut found = Vec::new();
    for victim in victims {
        scan(victim, arena, &mut found, cancelled)?;
        collected.bytes_read += victim.len;
    }
    let begin = Instant::now();
    let run = &mut collected.run;
    let mut survivors: Vec<(ValuePointer, Option<usize>)> =
        join(&mut found, index, &|_| false, run, cancelled)?
            .into_iter()
            .map(|survivor| (survivor.record.pointer, survivor.entry))
            .collect();
    drop(found);
    collected.asking = begin.elapsed();
    survivors.sort_unstable_by_key(|(place, _)| (place.file, place.offset));
    let mut writer = SurvivorWriter::new(factory, database_id, segment_len);
    relocate(victims, &survivors, &mut writer, run, cancelled)?;
    collected.segments = writer.finish()?;
    collected.bytes_moved = collected.segments.iter().map(|new| new.live).sum();
    Ok(collected)
}

/// Puts the new place of a survivor into its entry in the run, if it has one.
pub(crate) fn repoint(run: &mut [RunEntry<'_>], entry: Option<usize>, place: ValuePointer) {
    if let Some(at) = entry {
        run[at].content = Content::Pointer(place);
    }
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
fn scan<'a>(
    victim: &Victim,
    arena: &'a Arena,
    found: &mut Vec<Found<'a>>,
    cancelled: &dyn Fn() -> bool,
) -> Result<()> {
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
        found.push(Found::new(&record, pointer, arena)?);
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
///
/// Records that `stay` where they are, dead or not, are no survivors; but a stub that hides one
/// survives.
pub(crate) fn join<'f, 'a>(
    found: &'f mut [Found<'a>],
    index: &dyn Liveness,
    stays: &dyn Fn(&Found<'a>) -> bool,
    run: &mut Vec<RunEntry<'a>>,
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<Survivor<'f, 'a>>> {
    found.sort_unstable_by(|a, b| a.key().cmp(b.key()).then(b.seq.cmp(&a.seq)));
    let found: &'f [Found<'a>] = found;
    let mut survivors = Vec::new();
    let (mut visible, mut living) = (Vec::new(), Vec::new());
    for (i, records) in found.chunk_by(|a, b| a.key() == b.key()).enumerate() {
        if i.is_multiple_of(4096) {
            check_cancelled(cancelled)?;
        }
        let Some((last, newer)) = records.split_last() else { continue };
        if newer.iter().any(Found::is_tag) {
            let error = Error::corruption("a tag lies above an older record of its key");
            return Err(error.with("file", last.pointer.file));
        }
        if records.iter().all(stays) {
            continue;
        }
        let survives = |record, entry| Survivor { record, alone: newer.is_empty(), entry };
        visible.clear();
        index.visible(records, &mut visible)?;
        if visible.is_empty() && last.is_tag() && !stays(last) {
            survivors.push(survives(last, None));
        }
        let lives = |version: &Visible| {
            let content = |record: &Found<'_>| Content::Pointer(record.pointer);
            let same = |r: &&Found<'_>| r.seq == version.seq && content(r) == version.content;
            records.iter().find(same)
        };
        living.clear();
        living.extend(visible.iter().map(lives));
        let oldest = living.iter().flatten().next_back().map(|record| record.seq);
        let left = records.iter().rev().find(|record| stays(record));
        let oldest_left = left.map(|r| r.seq).filter(|_| !planted(Bug::StubForgetsTheRest));
        let below = oldest.into_iter().chain(oldest_left).min();
        let hides = |stub: &&Found<'a>| {
            stub.is_stub()
                && !stays(stub)
                && below.is_some_and(|below| below < stub.seq)
                && visible.iter().any(|version| version.seq == stub.seq)
        };
        if !planted(Bug::StubDroppedEarly) {
            survivors.extend(records.iter().filter(hides).map(|stub| survives(stub, None)));
        }
        let moves = |living: &Option<&'f Found<'a>>| living.filter(|record| !stays(record));
        if !living.iter().any(|living| moves(living).is_some()) {
            continue;
        }
        for (version, living) in visible.drain(..).zip(&living) {
            let moving = moves(living);
            let deletes = version.content == Content::Delete;
            let forgotten = planted(Bug::RunWithoutTombstones) && deletes
                || planted(Bug::RunWithoutRepeats) && moving.is_none();
            let entry = (version.in_table && !forgotten).then_some(run.len());
            survivors.extend(moving.map(|record| survives(record, entry)));
            run.extend(entry.map(|_| RunEntry {
                key: records[0].key(),
                seq: version.seq,
                repeat: moving.is_none() && !planted(Bug::RunOwnsRepeats),
                content: version.content,
            }));
        }
    }
    Ok(survivors)
}

/// Copies survivors, in the order of their old places, to new segments, and puts the new places
/// into the run.
fn relocate(
    victims: &[Victim],
    survivors: &[(ValuePointer, Option<usize>)],
    writer: &mut SurvivorWriter<'_>,
    run: &mut [RunEntry<'_>],
    cancelled: &dyn Fn() -> bool,
) -> Result<()> {
    let mut bytes = Vec::new();
    for (i, (old, entry)) in survivors.iter().enumerate() {
        if i.is_multiple_of(CHECK_EVERY) {
            check_cancelled(cancelled)?;
        }
        let segment = source(victims, old.file)?;
        if is_far(*old) {
            repoint(run, *entry, writer.append_far(&segment.far(*old)?)?);
            continue;
        }
        bytes.resize(old.len as usize, 0);
        segment.read(old.offset, &mut bytes)?;
        let record = Record::parse(&bytes, segment.identity(), old.offset)
            .map_err(|e| e.with("file", segment.name()))?;
        let header = Header { more: false, ..record.header };
        repoint(run, *entry, writer.append(&header, record.key, record.value)?);
    }
    Ok(())
}

fn source(victims: &[Victim], number: FileNumber) -> Result<&Segment> {
    let victim = victims.iter().find(|victim| victim.segment.number() == number);
    let segment = victim.map(|victim| &*victim.segment);
    segment.ok_or_else(|| Error::corruption("a survivor lies in no victim").with("file", number))
}
