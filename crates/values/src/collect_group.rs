//! Collection of groups: all extents of each are read, and its survivors become one extent.
//!
//! In a hash group (HashKV, section 3.3) what lives is known without a question to the index. Every
//! version of a key that the index holds, from the oldest record of the key in the group on, left a
//! record in the group: its value, or a stub. So the records of a key, and what is still in
//! MemTables, tell which of them somebody can see. A range of keys (KT-Store) is joined with its
//! part of the index instead, and its survivors are written in the order of their keys. The rest is
//! as for any victim: see [`crate::collect`].
//!
//! With tagging (HashKV, section 3.4) a survivor that is *cold* leaves for the cold log, and a
//! *tag* with its key and sequence number takes its place. A tag says that the key was there
//! before: who meets one together with a newer record knows a hot key. It holds no pointer, since
//! a collection of the cold log tells the index alone where values went. Because only a key with a
//! single record is cold, a tag is always the oldest record of its key in its group; so it hides
//! nothing, no run has to repeat it, and nobody has to ask the index where its value lies.
//!
//! With soft pointers (design, section 2) there is no run: each extent of survivors has a map, by
//! which they are found although their entries in the index still say where they lay before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{HEADER_LEN, Header, Record, RecordKind};
use cleavedb_base::{Error, Result, ValuePointer};
use cleavedb_storage::segment::{FarRecord, is_far};

use crate::collect::{CHECK_EVERY, Liveness, RunEntry, Survivor, check_cancelled, join, repoint};
use crate::collected::{CollectedGroup, CollectedGroups, in_index_order};
use crate::found::{Arena, Found};
use crate::groups::sizing::{GroupSizes, Slice};
use crate::groups::{ExtentHandle, ExtentReader, ExtentWriter, GroupTable, Place};
use crate::partition::GroupId;
use crate::survivors::SurvivorWriter;

/// Where survivors go: to the group, or, if they are longer than `main_segment` bytes, to the parts
/// of the group, so that it can split. Extents of the parts are as good for the group as a whole.
#[derive(Clone, Copy)]
pub struct Home<'a> {
    /// The group that is collected.
    pub group: GroupId,
    /// The groups.
    pub table: &'a GroupTable,
    /// How large groups should be.
    pub sizes: GroupSizes,
}

impl Home<'_> {
    /// Where the group is divided.
    fn bounds(self, survivors: &[Stay<'_, '_>]) -> Vec<Vec<u8>> {
        if survivors.iter().map(Stay::len).sum::<u64>() <= self.sizes.group_bytes {
            return Vec::new();
        }
        let records = Slice::new(survivors, |stay| (stay.record.key(), stay.len()));
        self.table.partition().sizing().split(self.sizes, self.table, self.group, &records)
    }

    /// Which part of the group a record belongs to, counted from 0.
    fn part<B: AsRef<[u8]>>(self, record: &Found<'_>, bounds: &[B]) -> usize {
        if bounds.is_empty() {
            return 0;
        }
        let token = self.table.partition().token(record.key());
        bounds.partition_point(|bound| *bound.as_ref() <= *token)
    }
}

/// Tells cold values from hot ones.
struct Judge<'a> {
    liveness: &'a dyn Liveness,
    table: &'a GroupTable,
    /// Whether the group was collected with tagging before: what stayed then was hot.
    tagged: bool,
}

impl<'a> Judge<'a> {
    fn new(liveness: &'a dyn Liveness, home: Home<'a>) -> Self {
        let tagged = home.table.extents_of(home.group).any(|extent| extent.tags > 0);
        Self { liveness, table: home.table, tagged }
    }

    /// A value is cold if it was not updated since its insert: it is the only record of its key
    /// here, memory holds no newer one, and no collection has found it hot.
    fn is_cold(&self, survivor: Survivor<'_, '_>) -> bool {
        let Survivor { record, alone, .. } = survivor;
        let stayed = || {
            let extent = self.table.extent_of(record.pointer);
            self.tagged && extent.is_some_and(|extent| extent.survivors)
        };
        record.kind == RecordKind::Separated
            && (alone || planted(Bug::TagAboveOlder))
            && !stayed()
            && !self.liveness.is_in_memory(record.key())
    }
}

/// A survivor, and what of it stays in the group: the record, or a tag if it is cold.
struct Stay<'f, 'a> {
    record: &'f Found<'a>,
    entry: Option<usize>,
    cold: bool,
}

impl Stay<'_, '_> {
    /// Length of the record that stays, in bytes.
    fn len(&self) -> u64 {
        match self.cold {
            true => (HEADER_LEN + self.record.key().len()) as u64,
            false => u64::from(self.record.pointer.len),
        }
    }
}

/// Where survivors are written.
struct Writers<'a> {
    extents: ExtentWriter<'a>,
    cold: Option<SurvivorWriter<'a>>,
}

impl Writers<'_> {
    /// Writes a survivor; returns the new place of its value.
    fn write(&mut self, group: GroupId, record: &Record<'_>, cold: bool) -> Result<ValuePointer> {
        let header = Header { more: false, ..record.header };
        let Some(log) = self.cold.as_mut().filter(|_| cold) else {
            return self.extents.append(group, &header, record.key, record.value);
        };
        let place = log.append(&header, record.key, record.value)?;
        self.write_tag(group, &header, record.key)?;
        Ok(place)
    }

    /// The same for a far record.
    fn write_far(
        &mut self,
        group: GroupId,
        record: &FarRecord<'_>,
        cold: bool,
    ) -> Result<ValuePointer> {
        let Some(log) = self.cold.as_mut().filter(|_| cold) else {
            return self.extents.append_far(group, record);
        };
        let place = log.append_far(record)?;
        self.write_tag(group, &record.header, &record.key)?;
        Ok(place)
    }

    /// Leaves a tag where the value of a cold record would be.
    fn write_tag(&mut self, group: GroupId, header: &Header, key: &[u8]) -> Result<()> {
        let tag = Header::new(RecordKind::Tag, header.keyspace, header.seq, key, &[]);
        self.extents.append(group, &tag, key, &[]).map(|_| ())
    }
}

/// Collects groups, one after the other: together they cost the syncs, the edit and the run of one.
pub struct GroupCollector<'w, 'a> {
    table: &'w GroupTable,
    sizes: GroupSizes,
    liveness: &'w dyn Liveness,
    writers: Writers<'w>,
    cancelled: &'w dyn Fn() -> bool,
    arena: &'a Arena,
    groups: Vec<CollectedGroup>,
    run: Vec<RunEntry<'a>>,
    bytes_read: u64,
    asking: Duration,
}

impl<'w, 'a> GroupCollector<'w, 'a> {
    /// Will collect groups of `table`, which split as `sizes` says. Survivors go to
    /// `extents`, cold values to `cold`, if it is there, which it is only with a run; keys of the
    /// run lie in `arena`. `cancelled` is asked now and then.
    pub fn new(
        (table, sizes): (&'w GroupTable, GroupSizes),
        liveness: &'w dyn Liveness,
        extents: ExtentWriter<'w>,
        cold: Option<SurvivorWriter<'w>>,
        cancelled: &'w dyn Fn() -> bool,
        arena: &'a Arena,
    ) -> Self {
        let maps = !table.relocation().writes_run() && !planted(Bug::MapForgotten);
        let extents = extents.with_maps(maps);
        let writers = Writers { extents, cold };
        Self {
            table,
            sizes,
            liveness,
            writers,
            cancelled,
            arena,
            groups: Vec::new(),
            run: Vec::new(),
            bytes_read: 0,
            asking: Duration::ZERO,
        }
    }

    /// Collects `extents`, which are extents of `group`; `others` are all that it has besides: they
    /// stay, and so does the group as a whole if there are any. They are read, since the records
    /// of a key are all that tells what lives.
    pub fn collect(
        &mut self,
        group: GroupId,
        extents: &[Arc<ExtentHandle>],
        others: &[Arc<ExtentHandle>],
    ) -> Result<()> {
        let all = extents.iter().chain(others).cloned();
        let mut readers: Vec<_> = all.map(ExtentReader::new).collect();
        readers.sort_unstable_by_key(ExtentReader::place);
        let mut found = self.find(&mut readers)?;
        let is_left = |record: &Found<'_>| {
            let place = place_of(record.pointer);
            !others.is_empty() && !extents.iter().any(|extent| extent.holds(place))
        };
        let begin = Instant::now();
        let (mut no_run, writes_run) = (Vec::new(), self.table.relocation().writes_run());
        let run = if writes_run { &mut self.run } else { &mut no_run };
        let survivors = join(&mut found, self.liveness, &is_left, run, self.cancelled)?;
        self.asking += begin.elapsed();
        let home = Home { group, table: self.table, sizes: self.sizes };
        let judge = self.writers.cold.is_some().then(|| Judge::new(self.liveness, home));
        let is_cold = |survivor: Survivor<'_, '_>| {
            judge.as_ref().is_some_and(|judge| judge.is_cold(survivor))
        };
        let mut stays: Vec<Stay<'_, '_>> = survivors
            .into_iter()
            .map(|it| Stay {
                record: it.record,
                entry: it.entry.filter(|_| writes_run),
                cold: is_cold(it),
            })
            .collect();
        if !self.table.partition().keeps_order() {
            stays.sort_unstable_by_key(|stay| place_of(stay.record.pointer));
        }
        announce(&stays, &mut readers)?;
        let bounds = if others.is_empty() { home.bounds(&stays) } else { Vec::new() };
        let mut parts: Vec<Vec<Stay<'_, '_>>> = Vec::new();
        parts.resize_with(bounds.len() + 1, Vec::new);
        for stay in stays {
            let part = home.part(stay.record, &bounds);
            parts[if planted(Bug::SplitIntoWrongHalf) { 0 } else { part }].push(stay);
        }
        let first = if bounds.is_empty() { group } else { self.table.next_id() };
        let begin = self.writers.extents.end_extent()?;
        for (part, survivors) in (first.0..).map(GroupId).zip(parts) {
            self.write(part, &survivors, &mut readers)?;
        }
        let extents_written = begin..self.writers.extents.end_extent()?;
        let gone = extents.iter().map(|extent| extent.place()).collect();
        let collected = CollectedGroup { group, gone, extents: extents_written, bounds, first };
        self.groups.push(collected);
        Ok(())
    }

    /// Reads all extents.
    fn find(&mut self, readers: &mut [ExtentReader]) -> Result<Vec<Found<'a>>> {
        let mut found = Vec::new();
        for reader in readers {
            check_cancelled(self.cancelled)?;
            self.bytes_read += reader.scan(|record, pointer| {
                found.push(Found::new(record, pointer, self.arena)?);
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Writes the survivors of a part of a group.
    fn write(
        &mut self,
        part: GroupId,
        survivors: &[Stay<'_, '_>],
        readers: &mut [ExtentReader],
    ) -> Result<()> {
        for (i, Stay { record, entry, cold }) in survivors.iter().enumerate() {
            if i.is_multiple_of(CHECK_EVERY) {
                check_cancelled(self.cancelled)?;
            }
            let reader = reader_of(readers, record.pointer)?;
            if reader.is_listed() {
                self.bytes_read += u64::from(record.pointer.len);
            }
            let place = if is_far(record.pointer) {
                self.writers.write_far(part, &reader.far(record.pointer)?, *cold)?
            } else {
                self.writers.write(part, &reader.record(record.pointer)?, *cold)?
            };
            repoint(&mut self.run, *entry, place);
        }
        Ok(())
    }

    /// Ends and syncs what was written.
    pub fn finish(mut self) -> Result<CollectedGroups<'a>> {
        in_index_order(&mut self.run);
        Ok(CollectedGroups {
            groups: self.groups,
            written: self.writers.extents.finish()?,
            cold: self.writers.cold.map_or(Ok(Vec::new()), SurvivorWriter::finish)?,
            run: self.run,
            bytes_read: self.bytes_read,
            asking: self.asking,
        })
    }
}

/// Tells the device which records will be read of extents that were only listed: neighbours
/// together.
fn announce(stays: &[Stay<'_, '_>], readers: &mut [ExtentReader]) -> Result<()> {
    if !readers.iter().any(ExtentReader::is_listed) {
        return Ok(());
    }
    let mut pointers: Vec<ValuePointer> = stays.iter().map(|stay| stay.record.pointer).collect();
    pointers.sort_unstable_by_key(|pointer| place_of(*pointer));
    let end_of = |pointer: &ValuePointer| pointer.offset + u64::from(pointer.len);
    for together in pointers.chunk_by(|a, b| (a.file, end_of(a)) == (b.file, b.offset)) {
        let (first, last) = (together[0], together[together.len() - 1]);
        reader_of(readers, first)?.will_need(first.offset..end_of(&last));
    }
    Ok(())
}

fn place_of(pointer: ValuePointer) -> Place {
    Place { file: pointer.file, offset: pointer.offset }
}

/// The reader of the extent that holds a survivor; they are sorted by place.
fn reader_of(readers: &mut [ExtentReader], survivor: ValuePointer) -> Result<&mut ExtentReader> {
    let place = place_of(survivor);
    let after = readers.partition_point(|reader| reader.place() <= place);
    let reader = after.checked_sub(1).map(|at| &mut readers[at]).filter(|r| r.holds(place));
    reader.ok_or_else(|| {
        Error::corruption("a survivor lies in no victim").with("file", survivor.file)
    })
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;
    use crate::found::Visible;
    use crate::groups::{Extent, GroupEdit};

    fn extent(offset: u64) -> Extent {
        let place = Place { file: FileNumber(9), offset };
        Extent { survivors: true, ..Extent::sample(GroupId(1), place) }
    }

    /// Answers that memory holds every key, or none.
    struct Memory(bool);

    impl Liveness for Memory {
        fn visible(&self, _: &[Found<'_>], _: &mut Vec<Visible>) -> Result<()> {
            Ok(())
        }

        fn is_in_memory(&self, _: &[u8]) -> bool {
            self.0
        }
    }

    /// "We treat the KV pairs that are updated at least once since their last inserts as hot."
    #[test]
    fn a_value_is_cold_if_nothing_is_known_of_an_update() {
        let mut table = GroupTable::default();
        for edit in [
            GroupEdit::Begin(GroupId(1), Vec::new(), 0),
            GroupEdit::Add(Extent { tags: 1, records: 2, ..extent(4096) }),
        ] {
            table.apply(&edit).unwrap();
        }
        let sizes = GroupSizes { group_bytes: 1 << 20, capacity: 1 << 20 };
        let home = |table| Home { group: GroupId(1), table, sizes };
        let cold = |kind, alone, offset, in_memory| {
            let pointer = ValuePointer { file: FileNumber(9), offset, len: 50 };
            let record = Found::sample(&[1; 10], kind, pointer);
            let memory = Memory(in_memory);
            let survivor = Survivor { record: &record, alone, entry: None };
            Judge::new(&memory, home(&table)).is_cold(survivor)
        };
        let flushed = 8192;
        assert!(cold(RecordKind::Separated, true, flushed, false));
        assert!(!cold(RecordKind::Separated, false, flushed, false), "another record of the key");
        assert!(!cold(RecordKind::Separated, true, flushed, true), "a newer version in memory");
        assert!(!cold(RecordKind::Separated, true, 4096, false), "a collection found it hot");
        assert!(!cold(RecordKind::Tag, true, flushed, false), "a tag has no value to leave");
        assert!(!cold(RecordKind::Inline, true, flushed, false), "nor has a stub");
    }

    #[test]
    fn of_a_cold_value_header_and_key_stay() {
        let pointer = ValuePointer { file: FileNumber(9), offset: 4096, len: 1000 };
        let record = Found::sample(&[1; 10], RecordKind::Separated, pointer);
        let len = |cold| Stay { record: &record, entry: None, cold }.len();
        assert_eq!((len(false), len(true)), (1000, 34));
    }
}
