//! The values in groups: written by flushes, collected when the reserved space is used up.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::codec::Cursor;
use cleavedb_base::key::split_encoded_key;
use cleavedb_base::record::{Header, RecordKind};
use cleavedb_base::{EncodedKey, Error, FileNumber, KeyspaceId, Result, SeqNo, ValuePointer};
use cleavedb_storage::mapped::Arena;
use cleavedb_values::collect::Collector;
use cleavedb_values::collect::Liveness;
use cleavedb_values::collect::output::CollectionOutput;
use cleavedb_values::collect::record::{Content, ScannedRecord, Visible};
use cleavedb_values::collect::survivors::SurvivorWriter;
use cleavedb_values::groups::sizing::{self, GroupSizes, Slice};
use cleavedb_values::groups::victim::{GroupCandidate, SegmentSizes, VictimPolicy};
use cleavedb_values::groups::writer::Written;
use cleavedb_values::groups::{Extent, ExtentHandle, ExtentWriter, GroupCursor, Location};
use cleavedb_values::{GroupEdit, GroupLayout, GroupTable, Partition, SegmentSet, SurvivorRoute};

use super::Sizes;
use super::cache::Item;
use super::files::{DATABASE_ID, Files};

/// Keys, write numbers and new places of values that a collection has moved.
pub type Moved = Vec<(Vec<u8>, SeqNo, ValuePointer)>;

/// Name of the file that holds the table of groups while the store is closed.
const TABLE: &str = "groups";

/// How values are grouped: as HashKV does.
const HASHKV: GroupLayout =
    GroupLayout { partition: Partition::Hash, survivors: SurvivorRoute::Group, hot: false };

/// A record to be written to its group.
struct Leaving<'a> {
    /// Number of its item.
    at: usize,
    header: Header,
    encoded_key: &'a [u8],
}

/// All groups, and the open files of their extents.
pub struct Values {
    directory: PathBuf,
    files: Files,
    sizes: Sizes,
    table: GroupTable,
    segments: SegmentSet,
    newest: SeqNo,
    flushed: u64,
    read: u64,
    moved: u64,
}

impl Values {
    /// The values in `directory`, as they were closed, or none.
    pub fn open(directory: &Path, sizes: Sizes) -> Result<Self> {
        let files = Files::open(directory)?;
        let mut values = Self {
            directory: directory.to_owned(),
            files,
            sizes,
            table: GroupTable::new(Some(HASHKV)),
            segments: SegmentSet::default(),
            newest: 0,
            flushed: 0,
            read: 0,
            moved: 0,
        };
        let edits = match fs::read(directory.join(TABLE)) {
            Ok(bytes) => decode(&bytes)?,
            Err(_) if values.files.are_there()? => {
                return Err(Error::corruption("the store was not closed: its values are lost"));
            }
            Err(_) => vec![GroupEdit::Begin(values.table.next_id(), Vec::new(), 0)],
        };
        // From here on it is wrong, until the next close.
        let _ = fs::remove_file(directory.join(TABLE));
        edits.iter().try_for_each(|edit| values.table.apply(edit))?;
        let extents: Vec<Extent> = values.table.extents().cloned().collect();
        let files: BTreeSet<FileNumber> = extents.iter().map(|extent| extent.place.file).collect();
        let files = files.into_iter().map(|file| (file, 0)).collect();
        values.segments = values.with(&Written { extents, files, ..Written::default() })?;
        Ok(values)
    }

    /// What reads values.
    pub fn segments(&self) -> &SegmentSet {
        &self.segments
    }

    /// Counters of bytes since the store was opened.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        [
            ("flush_written", self.flushed),
            ("collection_read", self.read),
            ("collection_written", self.moved),
        ]
        .into_iter()
    }

    /// Writes `items`, in the order of their keys, to their groups; returns where the value of each
    /// lies, or none for those that are not separated. These leave a group tombstone if their group
    /// may have a record of the key.
    pub fn write(&mut self, items: &[Item]) -> Result<Vec<Option<ValuePointer>>> {
        let keys: Vec<EncodedKey> =
            items.iter().map(|item| EncodedKey::new(KeyspaceId(0), &item.key)).collect();
        let mut records: Vec<Leaving<'_>> = Vec::new();
        for (at, (item, key)) in items.iter().zip(&keys).enumerate() {
            let encoded_key = key.as_bytes();
            let header = self.header(item, encoded_key)?;
            records.extend(header.map(|header| Leaving { at, header, encoded_key }));
        }
        let slice =
            Slice::new(&records, |record| (record.encoded_key, record.header.record_len() as u64));
        let begins = sizing::begun_by_flush(self.group_sizes(), &self.table, &slice);
        let table = sizing::after(&self.table, &begins)?;
        let mut locator = GroupCursor::new(&table);
        let ranked = records.iter().map(|record| {
            let ordinal = locator.ordinal(record.encoded_key);
            ordinal
                .map(|ordinal| (ordinal, record))
                .ok_or_else(|| Error::corruption("no group covers a key"))
        });
        let mut ranked = ranked.collect::<Result<Vec<_>>>()?;
        ranked.sort_by_key(|(ordinal, _)| *ordinal);
        let mut writer = ExtentWriter::new(&self.files, DATABASE_ID, self.sizes.main_segment);
        let mut pointers = vec![None; items.len()];
        for (ordinal, Leaving { at, header, .. }) in ranked {
            let Item { key, value, .. } = &items[*at];
            let value = value.as_deref().unwrap_or_default();
            let pointer = writer.append(locator.group(ordinal), header, key, value)?;
            pointers[*at] = Some(pointer).filter(|_| header.kind == RecordKind::Separated);
        }
        let written = writer.finish()?;
        self.table = table;
        self.add(&written)?;
        self.flushed += written.bytes();
        self.newest = items.iter().map(|item| item.seq).fold(self.newest, SeqNo::max);
        Ok(pointers)
    }

    /// The header of the record that a write leaves in its group, if it leaves one.
    fn header(&self, item: &Item, encoded_key: &[u8]) -> Result<Option<Header>> {
        let Item { key, seq, value } = item;
        let (kind, value) = match value.as_deref() {
            None => (RecordKind::Delete, &[][..]),
            Some(value) if (value.len() as u64) < self.sizes.threshold => {
                (RecordKind::Inline, value)
            }
            Some(value) => (RecordKind::Separated, value),
        };
        let leaves = kind == RecordKind::Separated || self.may_contain(encoded_key)?;
        Ok(leaves.then(|| Header::new(kind, KeyspaceId(0), *seq, key, value)))
    }

    fn may_contain(&self, encoded_key: &[u8]) -> Result<bool> {
        let hash = hash64(encoded_key, 0);
        let group = self.table.group_of(encoded_key);
        let mut extents = group.into_iter().flat_map(|group| self.table.extents_of(group));
        extents.try_fold(false, |found, extent| {
            Ok(found || self.segments.extent(extent.place)?.may_contain(hash)?)
        })
    }

    fn group_sizes(&self) -> GroupSizes {
        GroupSizes {
            group_bytes: self.sizes.main_segment,
            capacity: self.sizes.capacity,
            one_at_first: false,
        }
    }

    /// Whether the reserved space is used up.
    pub fn is_due(&self) -> bool {
        let Sizes { main_segment: main, log_segment: log, reserved, .. } = self.sizes;
        let segments = SegmentSizes { main, log, reserved };
        let shared = self.table.partition().sizing().shared_segments(&segments, &self.table);
        shared.is_some_and(|(used, all)| used >= all)
    }

    /// Collects the groups that were written most; returns what has moved, for the index, or none
    /// if no group is worth it. The old places can be read until [`Values::reclaim`].
    pub fn collect(&mut self) -> Result<Option<Moved>> {
        let candidates = GroupCandidate::all(&self.table, self.newest, 0, &|_| 0.0);
        let chosen = VictimPolicy::Greedy.choose(candidates, 0, self.sizes.main_segment);
        if chosen.is_empty() {
            return Ok(None);
        }
        let extents = ExtentWriter::new(&self.files, DATABASE_ID, self.sizes.main_segment);
        let (table, sizes, arena) = (&self.table, self.group_sizes(), Arena::new());
        // No value leaves its group here.
        let segments = SurvivorWriter::new(&self.files, DATABASE_ID, self.sizes.main_segment);
        let goes_on = || false;
        let extents = extents.of_survivors();
        let mut collector =
            Collector::new(table, sizes, &Newest, segments, extents, &goes_on, &arena);
        for group in chosen {
            let extents = self.table.extents_of(group);
            let open = extents.map(|extent| self.segments.extent(extent.place).cloned());
            let open = open.collect::<Result<Vec<_>>>()?;
            open.iter().for_each(|extent| extent.will_need());
            collector.collect_group(group, &open, &[])?;
        }
        let (collected, run) = collector.finish()?;
        let moved = run.iter().filter_map(|entry| match &entry.content {
            Content::Pointer(pointer) => {
                let (_, key) = split_encoded_key(entry.key)?;
                Some((key.to_vec(), entry.seq, pointer.value))
            }
            _ => None,
        });
        let moved = moved.collect();
        self.read += collected.bytes_read;
        self.moved += collected.written.bytes();
        self.install(&collected)?;
        Ok(Some(moved))
    }

    /// Swaps the extents that were collected for those of their survivors.
    fn install(&mut self, collected: &CollectionOutput) -> Result<()> {
        let gone: Vec<Location> = collected.gone().collect();
        let files = collected.written.files.clone();
        let mut written = Written { files, ..Written::default() };
        gone.iter().try_for_each(|place| self.table.apply(&GroupEdit::Remove(*place)))?;
        for own in &collected.groups {
            let extents = if own.splits() {
                let (extents, split) = own.divided(&collected.written, self.table.next_id());
                self.table.apply(&split)?;
                extents
            } else {
                self.table.apply(&GroupEdit::Collected(own.group, self.newest))?;
                own.undivided(&collected.written)
            };
            written.extents.extend(extents);
        }
        for place in &gone {
            self.segments.extent(*place)?.mark_obsolete();
        }
        self.add(&written)?;
        let unused = |file: &FileNumber| self.table.extents_in(*file).next().is_none();
        let emptied: BTreeSet<FileNumber> =
            gone.iter().map(|place| place.file).filter(unused).collect();
        let emptied: Vec<FileNumber> = emptied.into_iter().collect();
        emptied
            .iter()
            .filter_map(|file| self.segments.get(*file))
            .for_each(|it| it.mark_obsolete());
        self.segments = self.segments.with_extents(&[], &gone).with(&[], &emptied);
        Ok(())
    }

    /// Gives back to the disk what collections have left.
    pub fn reclaim(&self) {
        self.files.reclaim();
    }

    fn add(&mut self, written: &Written) -> Result<()> {
        let mut added = written.extents.iter().cloned().map(GroupEdit::Add);
        added.try_for_each(|edit| self.table.apply(&edit))?;
        self.segments = self.with(written)?;
        Ok(())
    }

    /// The open segments, and what was written.
    fn with(&self, written: &Written) -> Result<SegmentSet> {
        let opened = written.files.iter().map(|(number, _)| self.files.segment(*number));
        let segments = self.segments.with(&opened.collect::<Result<Vec<_>>>()?, &[]);
        let handle = |extent: &Extent| -> Result<Arc<ExtentHandle>> {
            let segment = segments.get(extent.place.file).cloned();
            let segment = segment.ok_or_else(|| Error::corruption("an extent has no file"))?;
            Ok(Arc::new(ExtentHandle::new(extent, segment, self.files.obsolete_files().clone())))
        };
        let handles = written.extents.iter().map(handle).collect::<Result<Vec<_>>>()?;
        Ok(segments.with_extents(&handles, &[]))
    }

    /// Leaves the table of groups for the next open.
    pub fn close(self) -> Result<()> {
        let mut bytes = Vec::new();
        self.table.export().iter().for_each(|edit| edit.encode(&mut bytes));
        let path = self.directory.join(TABLE);
        fs::write(path, bytes).map_err(|e| Error::io("write the table of groups", e))
    }
}

fn decode(bytes: &[u8]) -> Result<Vec<GroupEdit>> {
    let mut cursor = Cursor::new(bytes, "table of groups");
    let mut edits = Vec::new();
    while !cursor.is_empty() {
        edits.push(GroupEdit::decode(&mut cursor)?);
    }
    Ok(edits)
}

/// Without snapshots, and with an empty write cache, readers see only the newest record of a key.
struct Newest;

impl Liveness for Newest {
    fn visible(&self, records: &[ScannedRecord<'_>], out: &mut Vec<Visible>) -> Result<()> {
        out.extend(records.first().and_then(ScannedRecord::as_visible));
        Ok(())
    }

    fn is_in_memory(&self, _: &[u8]) -> bool {
        false
    }
}
