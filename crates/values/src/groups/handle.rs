//! An extent open for reading, and its end.
//!
//! Every picture that can reach an extent holds its handle. An edit that drops the extent marks the
//! handle; the last picture to let go of it queues the range for the reaper. So no place is punched
//! that somebody may still read.

use std::sync::{Arc, OnceLock};

use cleavedb_base::filter::Filter;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{Record, RecordKind};
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{Error, Result};
use cleavedb_storage::segment::Segment;
use cleavedb_storage::{Hole, Reaper};

use super::extent::{Extent, Place};

/// A shared extent.
pub struct ExtentHandle {
    segment: Arc<Segment>,
    place: Place,
    records_len: u64,
    filter_len: u64,
    len: u64,
    /// Read when somebody first asks.
    filter: OnceLock<Filter>,
    obsolete: AtomicBool,
    reaper: Arc<Reaper>,
}

impl ExtentHandle {
    /// A handle of `extent`, which lies in `segment`.
    pub fn new(extent: &Extent, segment: Arc<Segment>, reaper: Arc<Reaper>) -> Self {
        Self {
            segment,
            place: extent.place,
            records_len: extent.records_len,
            filter_len: extent.filter_len,
            len: extent.len(),
            filter: OnceLock::new(),
            obsolete: AtomicBool::new(false),
            reaper,
        }
    }

    /// Where it begins.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The file that it lies in.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Says that its records will be read soon.
    pub fn will_need(&self) {
        self.segment.will_need(self.place.offset, self.records_len as usize);
    }

    /// Length of its records, in bytes.
    pub fn records_len(&self) -> u64 {
        self.records_len
    }

    /// Whether one of its records may be of a key with this hash; `false` is certain.
    pub fn may_contain(&self, hash: u64) -> Result<bool> {
        if let Some(filter) = self.filter.get() {
            return Ok(filter.may_contain(hash));
        }
        let Some(filter) = self.read_filter()? else { return Ok(true) };
        Ok(self.filter.get_or_init(|| filter).may_contain(hash))
    }

    /// Reads and checks the filter, if there is one.
    pub fn read_filter(&self) -> Result<Option<Filter>> {
        if self.filter_len == 0 {
            return Ok(None);
        }
        let offset = self.place.offset + self.records_len;
        let mut bytes = vec![0; self.filter_len as usize];
        self.segment.read(offset, &mut bytes)?;
        let fail = |e: Error| e.with("file", self.segment.name());
        let record = Record::parse(&bytes, self.segment.identity(), offset).map_err(fail)?;
        if record.header.kind != RecordKind::Filter {
            let what = "an extent does not end with its filter";
            return Err(fail(Error::corruption(what).with("offset", offset)));
        }
        Filter::decode(record.value).map(Some).map_err(fail)
    }

    /// Marks the extent as dropped by a durable edit: its space goes with its last reader.
    pub fn mark_obsolete(&self) {
        if planted(Bug::PunchUnderReaders) {
            self.give_back();
        }
        self.obsolete.store(true, Ordering::Release);
    }

    fn give_back(&self) {
        let (name, offset, len) = (self.segment.name(), self.place.offset, self.len);
        self.reaper.give_back(Hole { name, offset, len });
    }
}

impl Drop for ExtentHandle {
    fn drop(&mut self) {
        // Relaxed: whoever drops it is alone.
        if self.obsolete.load(Ordering::Relaxed) {
            self.give_back();
        }
    }
}
