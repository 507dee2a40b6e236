//! Collection: reads victims, finds live records, moves them, and computes the index changes.
//!
//! One algorithm for log files, segments and groups: scan, join, route, relocate. The caller fixed
//! a read point and the live snapshots before; every liveness check is as of these. A record is
//! live if a read of its key at the read point, or at a live snapshot, yields its sequence number
//! *and this very pointer* ([`Liveness`]). For every key with a live record, the run of new
//! pointers repeats all versions that a reader can see and that lie in tables, down to the oldest
//! live record: a reader that finds its version in the run need not look at older tables. A
//! relocation keeps key, sequence number and payload checksum: only the place of the record
//! changes.
//!
//! In a hash group (HashKV, section 3.3) the live records are known without a look-up in the index.
//! Every version of a key that the index holds, from the oldest record of the key in the group on,
//! left a record in the group: its value, or a group tombstone. So the records of a key, and its
//! versions in MemTables, tell which of them a reader can see. A range of keys (KT-Store) is joined
//! with its part of the index instead, and its survivors are written in the order of their keys.

pub mod record;
pub mod survivors;
pub mod output;
mod source;
mod join;
mod route;
mod sinks;

use std::sync::Arc;
use std::time::Instant;

use cleavedb_base::{Error, ErrorKind, Result, ValuePointer};
use cleavedb_storage::mapped::{Arena, MappedVec, mapped_vec};
use cleavedb_storage::segment::is_far;

use crate::groups::sizing::GroupSizes;
use crate::groups::{ExtentHandle, ExtentReader, ExtentWriter, GroupTable, Location};
use crate::partition::GroupId;
use join::join;
use output::{CollectedGroup, CollectionOutput, RunEntry, in_index_order, repoint};
use record::{ScannedRecord, Visible};
use route::{GroupContext, Routed, Target};
use sinks::Sinks;
pub use source::SealedFile;
use source::Source;
use survivors::SurvivorWriter;

/// The liveness check of a key for which collection found `records`, newest first.
pub trait Liveness {
    /// Every visible version of their key as of the read point, newest first. Keys of a victim are
    /// queried in ascending order.
    fn visible(&self, records: &[ScannedRecord<'_>], out: &mut Vec<Visible>) -> Result<()>;

    /// Whether memory holds a version of a key that lies in a group, which means that it was
    /// updated; independent of the read point.
    fn is_in_memory(&self, encoded_key: &[u8]) -> bool;
}

/// Collects files and groups, one after the other: together they cost the syncs, the edit and the
/// run of one.
pub struct Collector<'w, 'a> {
    table: &'w GroupTable,
    sizes: GroupSizes,
    liveness: &'w dyn Liveness,
    sinks: Sinks<'w>,
    cancelled: &'w dyn Fn() -> bool,
    arena: &'a Arena,
    output: CollectionOutput,
    run: MappedVec<RunEntry<'a>>,
}

impl<'w, 'a> Collector<'w, 'a> {
    /// A collector of files, and of groups of `table`, which split by `sizes`. Survivors go to
    /// `segments` and `extents`; keys of the run lie in `arena`. `cancelled` is called now and
    /// then: a collection that is cancelled fails with [`ErrorKind::Closed`].
    pub fn new(
        table: &'w GroupTable,
        sizes: GroupSizes,
        liveness: &'w dyn Liveness,
        segments: SurvivorWriter<'w>,
        extents: ExtentWriter<'w>,
        cancelled: &'w dyn Fn() -> bool,
        arena: &'a Arena,
    ) -> Self {
        let sinks = Sinks { segments, extents };
        Self {
            table,
            sizes,
            liveness,
            sinks,
            cancelled,
            arena,
            output: CollectionOutput::default(),
            run: mapped_vec(),
        }
    }

    /// Collects a file: its survivors go to segments, in the order of their places.
    pub fn collect_file(&mut self, file: SealedFile) -> Result<()> {
        let mut sources: [Box<dyn Source>; 1] = [Box::new(file)];
        let mut found = self.scan(&mut sources)?;
        let begin = Instant::now();
        let run = &mut self.run;
        let survivors = join(&mut found, self.liveness, &|_| false, run, self.cancelled)?;
        self.output.liveness_time += begin.elapsed();
        let mut routed = mapped_vec();
        let to = Target::Segment;
        routed.extend(survivors.iter().map(|it| Routed { record: it.record, entry: it.entry, to }));
        in_order_of_places(&mut routed);
        self.relocate(GroupId(0), &routed, &mut sources)
    }

    /// Collects `extents` of `group`. `others` are all of its other extents: these stay, and if
    /// there are any the group is not divided. They are read too, since liveness follows from all
    /// records of a key.
    pub fn collect_group(
        &mut self,
        group: GroupId,
        extents: &[Arc<ExtentHandle>],
        others: &[Arc<ExtentHandle>],
    ) -> Result<()> {
        let (all, count) = (extents.iter().chain(others).cloned(), extents.len() + others.len());
        let boxed = |handle| Box::new(ExtentReader::new(handle, count)) as Box<dyn Source>;
        let mut sources: Vec<_> = all.map(boxed).collect();
        sources.sort_unstable_by_key(|source| source.place());
        let mut found = self.scan(&mut sources)?;
        let is_left = |record: &ScannedRecord<'_>| {
            let place = place_of(record.pointer);
            !others.is_empty() && !extents.iter().any(|extent| extent.holds(place))
        };
        let begin = Instant::now();
        let (table, sizes) = (self.table, self.sizes);
        let run = &mut self.run;
        let survivors = join(&mut found, self.liveness, &is_left, run, self.cancelled)?;
        self.output.liveness_time += begin.elapsed();
        let home = GroupContext { group, table, sizes };
        let route = home.route(self.liveness);
        let mut routed = mapped_vec();
        routed.extend(survivors.iter().map(|it| Routed {
            record: it.record,
            entry: it.entry,
            to: route(it),
        }));
        if !table.partition().keeps_order() {
            in_order_of_places(&mut routed);
        }
        prefetch_records(&routed, &mut sources)?;
        let bounds = if others.is_empty() { home.bounds(&routed) } else { Vec::new() };
        let mut parts: Vec<MappedVec<Routed<'_, '_>>> = Vec::new();
        parts.resize_with(bounds.len() + 1, mapped_vec);
        for survivor in routed {
            parts[home.part(survivor.record, &bounds)].push(survivor);
        }
        let first = if bounds.is_empty() { group } else { table.next_id() };
        let begin = self.sinks.extents.end_extent()?;
        for (part, survivors) in (first.0..).map(GroupId).zip(parts) {
            self.relocate(part, &survivors, &mut sources)?;
        }
        let written = begin..self.sinks.extents.end_extent()?;
        let gone = extents.iter().map(|extent| extent.place()).collect();
        let collected = CollectedGroup { group, gone, extents: written, bounds, first };
        self.output.groups.push(collected);
        Ok(())
    }

    /// Reads all of `sources`.
    fn scan(&mut self, sources: &mut [Box<dyn Source>]) -> Result<MappedVec<ScannedRecord<'a>>> {
        let mut found = mapped_vec();
        for source in sources {
            check_cancelled(self.cancelled)?;
            self.output.bytes_read += source.scan(&mut |record, pointer| {
                found.push(ScannedRecord::new(record, pointer, self.arena)?);
                match found.len().is_multiple_of(FOUND_CHECKED) {
                    true => check_cancelled(self.cancelled),
                    false => Ok(()),
                }
            })?;
        }
        Ok(found)
    }

    /// Copies survivors, of `group` if they have one, to their targets, and puts the new places
    /// into the run.
    fn relocate(
        &mut self,
        group: GroupId,
        survivors: &[Routed<'_, '_>],
        sources: &mut [Box<dyn Source>],
    ) -> Result<()> {
        for (i, Routed { record, entry, to }) in survivors.iter().enumerate() {
            if i.is_multiple_of(MOVED_CHECKED) {
                check_cancelled(self.cancelled)?;
            }
            let source = source_of(sources, record.pointer)?;
            if source.has_key_block() {
                self.output.bytes_read += u64::from(record.pointer.len);
            }
            let place = if is_far(record.pointer) {
                self.sinks.write_far(&source.far(record.pointer)?, *to, group)?
            } else {
                self.sinks.write(&source.record(record.pointer)?, *to, group)?
            };
            repoint(&mut self.run, *entry, place);
        }
        Ok(())
    }

    /// Ends and syncs the written files. Returns them and the run of new pointers, in index order.
    pub fn finish(self) -> Result<(CollectionOutput, MappedVec<RunEntry<'a>>)> {
        let Self { mut output, mut run, sinks, .. } = self;
        in_index_order(&mut run);
        output.written = sinks.extents.finish()?;
        output.segments = sinks.segments.finish()?;
        Ok((output, run))
    }
}

/// Number of records found, or of keys checked for liveness, between two checks whether the
/// collection is cancelled; and number of records moved between two.
const FOUND_CHECKED: usize = 4096;
const MOVED_CHECKED: usize = 1024;

fn check_cancelled(cancelled: &dyn Fn() -> bool) -> Result<()> {
    if cancelled() {
        return Err(Error::new(ErrorKind::Closed, "the database is closing"));
    }
    Ok(())
}

fn in_order_of_places(survivors: &mut [Routed<'_, '_>]) {
    survivors.sort_unstable_by_key(|survivor| place_of(survivor.record.pointer));
}

/// Announces to the device the survivors of extents of which only the key block was read:
/// neighbouring records are announced together.
fn prefetch_records(survivors: &[Routed<'_, '_>], sources: &mut [Box<dyn Source>]) -> Result<()> {
    if !sources.iter().any(|source| source.has_key_block()) {
        return Ok(());
    }
    let mut pointers = mapped_vec();
    pointers.extend(survivors.iter().map(|survivor| survivor.record.pointer));
    pointers.sort_unstable_by_key(|pointer| place_of(*pointer));
    let end_of = |pointer: &ValuePointer| pointer.offset + u64::from(pointer.len);
    for together in pointers.chunk_by(|a, b| (a.file, end_of(a)) == (b.file, b.offset)) {
        let (first, last) = (together[0], together[together.len() - 1]);
        source_of(sources, first)?.will_need(first.offset..end_of(&last));
    }
    Ok(())
}

fn place_of(pointer: ValuePointer) -> Location {
    Location { file: pointer.file, offset: pointer.offset }
}

/// The source that holds a survivor; they are sorted by place.
fn source_of(
    sources: &mut [Box<dyn Source>],
    survivor: ValuePointer,
) -> Result<&mut Box<dyn Source>> {
    let place = place_of(survivor);
    let after = sources.partition_point(|source| source.place() <= place);
    let source = after.checked_sub(1).map(|at| &mut sources[at]).filter(|it| it.holds(place));
    source.ok_or_else(|| {
        Error::corruption("a live record is in no victim").with("file", survivor.file)
    })
}
