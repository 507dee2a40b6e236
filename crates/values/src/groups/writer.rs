//! Writes extents of many groups one after another into few files.
//!
//! A flush and a collection append to groups in the same way: group after group, each with one
//! extent, which ends with the filter of its keys if its group is collected without the index, and
//! with a key block if its records are long. A file ends only at the end of an extent, so an extent
//! lies in one file.

use std::collections::BTreeMap;

use cleavedb_base::checksum::hash64;
use cleavedb_base::filter::BloomFilter;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{Header, RecordKind};
use cleavedb_base::{EncodedKey, Error, FileNumber, KeyspaceId, Result, ValuePointer};
use cleavedb_storage::Name;
use cleavedb_storage::segment::{FarRecord, SegmentWriter};

use super::extent::{Extent, Location};
use super::key_block::ListingBuilder;
use super::table::GroupTable;
use crate::factory::SegmentFactory;
use crate::partition::GroupId;

/// Longest last key that an extent stores, in bytes, to keep the manifest short.
const LAST_MAX: usize = 256;

/// Filter bits per key of an extent: 1 absent key in 100 passes. A flush asks them only where the
/// filter of the whole group does not answer for the extent.
pub(super) const FILTER_BITS: u32 = 10;

/// The written files; everything is synced.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Extents, in the order of their places within each file.
    pub extents: Vec<Extent>,
    /// Files and their lengths.
    pub files: Vec<(FileNumber, u64)>,
    /// The hashes of the keys of extents, if the writer keeps them.
    pub keys: KeyHashes,
}

/// The hashes of the keys of extents.
pub type KeyHashes = BTreeMap<Location, Vec<u64>>;

impl Written {
    /// Adds what another writer has written.
    pub fn add(&mut self, other: Self) {
        self.extents.extend(other.extents);
        self.files.extend(other.files);
        self.keys.extend(other.keys);
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, len)| len).sum()
    }
}

/// Writes extents front to back.
pub struct ExtentWriter<'a> {
    factory: Box<dyn SegmentFactory + 'a>,
    database_id: u64,
    file_len: u64,
    survivors: bool,
    filters: bool,
    keeps_keys: bool,
    /// Whether records come in the order of their keys.
    in_order: bool,
    listing: ListingBuilder,
    file: Option<(Name, SegmentWriter)>,
    open: Option<(Extent, Vec<u64>)>,
    /// Most bytes of the records of an extent, unless it has only one.
    records_max: u64,
    /// Tree key of the record before, where groups are ranges of keys.
    last: Vec<u8>,
    written: Written,
}

impl<'a> ExtentWriter<'a> {
    /// A writer of extents of a flush, with filters; files end at `file_len` bytes.
    pub fn new(factory: impl SegmentFactory + 'a, database_id: u64, file_len: u64) -> Self {
        Self {
            factory: Box::new(factory),
            database_id,
            file_len,
            survivors: false,
            filters: true,
            keeps_keys: false,
            in_order: false,
            listing: ListingBuilder::new(u64::MAX),
            file: None,
            open: None,
            records_max: u64::MAX,
            last: Vec::new(),
            written: Written::default(),
        }
    }

    /// The writer for survivors of a collection.
    #[must_use]
    pub fn of_survivors(self) -> Self {
        Self { survivors: true, ..self }
    }

    /// The writer for groups of a table with this layout. Filters are for groups that get group
    /// stubs: a flush checks whether they may hold a key. Where groups keep the order of keys,
    /// so do their records, and an extent stores its greatest key.
    #[must_use]
    pub fn of_groups(self, table: &GroupTable) -> Self {
        Self { filters: table.needs_stubs(), in_order: table.partition().keeps_order(), ..self }
    }

    /// The writer with a key block behind extents whose records have `least` bytes on average, or
    /// more.
    #[must_use]
    pub fn key_blocks_from(self, least: u64) -> Self {
        Self { listing: ListingBuilder::new(least), ..self }
    }

    /// The writer that returns the hashes of the keys in filters, if `keeps`.
    #[must_use]
    pub fn keeping_keys(self, keeps: bool) -> Self {
        Self { keeps_keys: keeps, ..self }
    }

    /// The writer for the hot store (HoaKV, section 3.3): extents with up to `len` bytes of
    /// records, each with a key block, from which an open reads what they hold, and without
    /// filters.
    #[must_use]
    pub fn of_hot_store(self, len: u64) -> Self {
        let listing = ListingBuilder::new(0);
        Self { filters: false, records_max: len, listing, survivors: true, ..self }
    }

    /// The extents that have ended.
    pub fn extents(&self) -> &[Extent] {
        &self.written.extents
    }

    /// Bytes of all files, that of the open one included.
    pub fn bytes(&self) -> u64 {
        self.written.bytes() + self.file.as_ref().map_or(0, |(_, file)| file.len())
    }

    /// Whether the open extent has as many bytes as it may.
    fn is_full(&self, len: usize) -> bool {
        let (Some((extent, _)), Some((_, file))) = (&self.open, &self.file) else { return false };
        file.len() + len as u64 - extent.place.offset > self.records_max
    }

    /// Whether a record of `len` bytes is appended to `group` without a call of the storage.
    pub fn has_room(&self, group: GroupId, len: usize) -> bool {
        let (Some((extent, _)), Some((_, file))) = (&self.open, &self.file) else { return false };
        extent.group == group && file.has_room(len) && !self.is_full(len)
    }

    /// Appends a record to `group`, whose records come one after another.
    pub fn append(
        &mut self,
        group: GroupId,
        header: &Header,
        key: &[u8],
        value: &[u8],
    ) -> Result<ValuePointer> {
        self.add(group, header, key, value, |file| file.append(header, key, value))
    }

    /// As [`ExtentWriter::append`], for a separated value in pieces.
    pub fn append_far(&mut self, group: GroupId, record: &FarRecord<'_>) -> Result<ValuePointer> {
        let header = Header { more: false, ..record.header };
        self.add(group, &header, &record.key, &record.front, |file| file.append_far(record))
    }

    /// Appends, by `append`, a record of `key` and `value` to `group`; a separated value is not
    /// used here.
    #[inline]
    fn add(
        &mut self,
        group: GroupId,
        header: &Header,
        key: &[u8],
        value: &[u8],
        append: impl FnOnce(&mut SegmentWriter) -> Result<ValuePointer>,
    ) -> Result<ValuePointer> {
        let other = self.open.as_ref().is_some_and(|(extent, _)| extent.group != group);
        if other || self.is_full(header.record_len()) {
            self.end_extent()?;
        }
        if self.open.is_none() {
            self.open = Some((self.begin(group)?, Vec::new()));
        }
        let (Some((extent, hashes)), Some((_, file))) = (&mut self.open, &mut self.file) else {
            return Err(Error::corruption("an extent has no file"));
        };
        // Copied before the record: reading it back would wait for the copy to be stored.
        let encoded_key = EncodedKey::new(header.keyspace, key);
        let encoded_key = encoded_key.as_bytes();
        let pointer = append(file)?;
        self.listing.add(header, key, value, file.identity(), pointer.offset);
        extent.records += 1;
        match header.kind {
            kind if kind.is_separated() => extent.separated += u64::from(pointer.len),
            RecordKind::Tag => extent.tags += 1,
            _ => extent.stubs += 1,
        }
        if self.filters {
            let unexposed = header.kind == RecordKind::Tag && planted(Bug::TagNotInFilter);
            hashes.extend((!unexposed).then(|| hash64(encoded_key, 0)));
        }
        if self.in_order && (extent.records == 1 || !planted(Bug::FirstKeyAsLast)) {
            debug_assert!(extent.records == 1 || *self.last <= *encoded_key);
            self.last.clear();
            self.last.extend_from_slice(encoded_key);
        }
        Ok(pointer)
    }

    fn begin(&mut self, group: GroupId) -> Result<Extent> {
        let full = self.file.as_ref().is_some_and(|(_, file)| file.len() >= self.file_len);
        if full {
            self.end_file()?;
        }
        let (name, file) = match &mut self.file {
            Some(open) => open,
            none => none.insert(self.factory.begin(self.database_id)?),
        };
        file.align()?;
        let place = Location { file: name.number(), offset: file.len() };
        Ok(Extent { survivors: self.survivors, ..Extent::empty(group, place) })
    }

    /// Ends the open extent, if there is one; returns the number of extents.
    pub fn end_extent(&mut self) -> Result<usize> {
        let ended = self.written.extents.len();
        let Some((mut extent, hashes)) = self.open.take() else { return Ok(ended) };
        let Some((_, file)) = &mut self.file else { return Ok(ended) };
        extent.records_len = file.len() - extent.place.offset;
        if self.filters {
            let mut filter = Vec::new();
            BloomFilter::build(&hashes, FILTER_BITS).encode(&mut filter);
            let header = Header::new(RecordKind::Filter, KeyspaceId(0), 0, &[], &filter);
            extent.filter_len = u64::from(file.append(&header, &[], &filter)?.len);
            if self.keeps_keys {
                self.written.keys.insert(extent.place, hashes);
            }
        }
        if let Some(listing) = self.listing.finish(file.len()) {
            let header = Header::new(RecordKind::KeyBlock, KeyspaceId(0), 0, &[], &listing);
            extent.key_block_len = u64::from(file.append(&header, &[], &listing)?.len);
        }
        if self.last.len() <= LAST_MAX {
            extent.last = self.last.as_slice().into();
        }
        extent.live = extent.separated;
        file.align()?;
        self.written.extents.push(extent);
        Ok(ended + 1)
    }

    fn end_file(&mut self) -> Result<()> {
        if let Some((name, file)) = self.file.take() {
            self.written.files.push((name.number(), file.finish()?));
        }
        Ok(())
    }

    /// Finishes and syncs everything.
    pub fn finish(mut self) -> Result<Written> {
        self.end_extent()?;
        self.end_file()?;
        Ok(self.written)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cleavedb_storage::{Access, File, FileKind, Mode, Storage};
    use cleavedb_storage_sim::Sim;

    use super::*;

    struct OneFile(Sim);

    impl SegmentFactory for OneFile {
        fn create(&self) -> Result<(Name, Arc<dyn File>)> {
            let name = Name::numbered(FileKind::Group, FileNumber(1));
            let file = self.0.open(&name, Mode::CreateNew, Access::Random);
            Ok((name, file.map_err(|e| Error::io("create", e))?))
        }
    }

    #[test]
    fn a_hot_segment_ends_before_it_is_too_long() {
        let records_of = |len| {
            let files = OneFile(Sim::new());
            let mut writer = ExtentWriter::new(&files, 7, 1 << 30).of_hot_store(len);
            for seq in 1..=5 {
                let (key, value) = ([b'k', seq as u8], [1; 1000]);
                let header = Header::new(RecordKind::Separated, KeyspaceId(0), seq, &key, &value);
                writer.append(GroupId::HOT, &header, &key, &value).unwrap();
            }
            let extents = writer.finish().unwrap().extents;
            assert!(extents.iter().all(|extent| extent.records_len <= len));
            extents.iter().map(|extent| extent.records).collect::<Vec<_>>()
        };
        assert_eq!((records_of(2500), records_of(1 << 30)), (vec![2, 2, 1], vec![5]));
    }
}
