//! An open extent for reading; frees its space at the end of its life.
//!
//! Every read state that includes an extent holds its handle. An edit that drops the extent marks
//! the handle; the last read state that drops it queues the range for removal. So a range is not
//! punched while it may be read.

use std::sync::{Arc, OnceLock};

use cleavedb_base::filter::BloomFilter;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{HEADER_LEN, Record, RecordKind};
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{Error, Result};
use cleavedb_storage::segment::Segment;
use cleavedb_storage::{Hole, ObsoleteFiles};

use super::extent::{Extent, Location};

/// A shared extent.
pub struct ExtentHandle {
    segment: Arc<Segment>,
    place: Location,
    records_len: u64,
    filter_len: u64,
    key_block_len: u64,
    len: u64,
    /// Read at the first use.
    filter: OnceLock<BloomFilter>,
    obsolete: AtomicBool,
    obsolete_files: Arc<ObsoleteFiles>,
}

impl ExtentHandle {
    /// A handle of `extent`, which lies in `segment`.
    pub fn new(extent: &Extent, segment: Arc<Segment>, obsolete_files: Arc<ObsoleteFiles>) -> Self {
        Self {
            segment,
            place: extent.place,
            records_len: extent.records_len,
            filter_len: extent.filter_len,
            key_block_len: extent.key_block_len,
            len: extent.len(),
            filter: OnceLock::new(),
            obsolete: AtomicBool::new(false),
            obsolete_files,
        }
    }

    /// The beginning of the extent.
    pub fn place(&self) -> Location {
        self.place
    }

    /// The segment of its file.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Announces that a collection will soon read its key block, if it has one, or else its
    /// records.
    pub fn will_need(&self) {
        match self.key_block_len {
            0 => self.segment.will_need(self.place.offset, self.records_len as usize),
            len => self.segment.will_need(self.listing_at(), len as usize),
        }
    }

    fn listing_at(&self) -> u64 {
        self.place.offset + self.records_len + self.filter_len
    }

    /// Length of the record of its key block, in bytes; 0 for none.
    pub fn key_block_len(&self) -> u64 {
        self.key_block_len
    }

    /// Offset of what its key block holds, and its length, both in bytes: for what can be read of a
    /// damaged one.
    pub fn key_block_content(&self) -> (u64, u64) {
        let header = HEADER_LEN as u64;
        (self.listing_at() + header, self.key_block_len.saturating_sub(header))
    }

    /// Reads and checks its key block, if it has one: see [`super::key_block::visit`].
    pub fn read_key_block(&self) -> Result<Option<Vec<u8>>> {
        if self.key_block_len == 0 {
            return Ok(None);
        }
        let (offset, len) = (self.listing_at(), self.key_block_len);
        self.read_own(RecordKind::KeyBlock, offset, len, |bytes| Ok(bytes.to_vec())).map(Some)
    }

    /// Length of its records, in bytes.
    pub fn records_len(&self) -> u64 {
        self.records_len
    }

    /// Whether the record at `place` belongs to it.
    pub fn holds(&self, place: Location) -> bool {
        let Location { file, offset } = self.place;
        place.file == file && (offset..offset + self.records_len).contains(&place.offset)
    }

    /// Whether it may have a record of a key with this hash; `false` is certain.
    pub fn may_contain(&self, hash: u64) -> Result<bool> {
        if let Some(filter) = self.filter.get() {
            return Ok(filter.may_contain(hash));
        }
        let Some(filter) = self.read_filter()? else { return Ok(true) };
        Ok(self.filter.get_or_init(|| filter).may_contain(hash))
    }

    /// Reads and checks the filter, if there is one.
    pub fn read_filter(&self) -> Result<Option<BloomFilter>> {
        if self.filter_len == 0 {
            return Ok(None);
        }
        let offset = self.place.offset + self.records_len;
        self.read_own(RecordKind::Filter, offset, self.filter_len, BloomFilter::decode).map(Some)
    }

    /// Reads one of the store's own records, of this kind and length.
    fn read_own<T>(
        &self,
        kind: RecordKind,
        offset: u64,
        len: u64,
        decode: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let mut bytes = vec![0; len as usize];
        self.segment.read(offset, &mut bytes)?;
        let fail = |e: Error| e.with("file", self.segment.name());
        let record = Record::parse(&bytes, self.segment.identity(), offset).map_err(fail)?;
        if record.header.kind != kind {
            let what = "a record of an extent is not the one that should be there";
            return Err(fail(Error::corruption(what).with("offset", offset)));
        }
        decode(record.value).map_err(fail)
    }

    /// Marks the extent as dropped by a durable edit: its last reader queues its space.
    pub fn mark_obsolete(&self) {
        if planted(Bug::PunchUnderReaders) {
            self.give_back();
        }
        self.obsolete.store(true, Ordering::Release);
    }

    fn give_back(&self) {
        let (name, offset, len) = (self.segment.name(), self.place.offset, self.len);
        self.obsolete_files.give_back(Hole { name, offset, len });
    }
}

impl Drop for ExtentHandle {
    fn drop(&mut self) {
        // Relaxed: a drop has exclusive access.
        if self.obsolete.load(Ordering::Relaxed) {
            self.give_back();
        }
    }
}
