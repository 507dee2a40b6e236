//! Source: the input of a collection, a sealed file or an extent of a group.
//!
//! A scan reads it once to find its records; then the survivors are read once more to copy them.

use std::ops::Range;
use std::sync::Arc;

use cleavedb_base::record::Record;
use cleavedb_base::{Error, Result, ValuePointer};
use cleavedb_storage::log::LogReader;
use cleavedb_storage::segment::{FarRecord, Segment};

use crate::groups::{ExtentReader, Location};

/// Called with every record that a scan meets, and its place.
pub(super) type Visit<'v> = &'v mut dyn FnMut(&Record<'_>, ValuePointer) -> Result<()>;

/// Records in one piece of a value file.
pub(super) trait Source {
    /// The beginning of the extent.
    fn place(&self) -> Location;

    /// Whether `place` lies in it.
    fn holds(&self, place: Location) -> bool;

    /// Hands every record of a value to `visit`, front to back, verified. Returns the bytes read.
    fn scan(&mut self, visit: Visit<'_>) -> Result<u64>;

    /// Whether the scan has left out values: then survivors are not read before they are copied.
    fn has_key_block(&self) -> bool;

    /// Announces that these bytes will be read soon, if the scan has left them out.
    fn will_need(&self, range: Range<u64>);

    /// The record of a survivor, verified.
    fn record(&mut self, survivor: ValuePointer) -> Result<Record<'_>>;

    /// The record of a survivor, to be copied in pieces.
    fn far(&self, survivor: ValuePointer) -> Result<FarRecord<'_>>;
}

impl Source for ExtentReader {
    fn place(&self) -> Location {
        Self::place(self)
    }

    fn holds(&self, place: Location) -> bool {
        Self::holds(self, place)
    }

    fn scan(&mut self, visit: Visit<'_>) -> Result<u64> {
        Self::scan(self, visit)
    }

    fn has_key_block(&self) -> bool {
        Self::has_key_block(self)
    }

    fn will_need(&self, range: Range<u64>) {
        Self::will_need(self, range);
    }

    fn record(&mut self, survivor: ValuePointer) -> Result<Record<'_>> {
        Self::record(self, survivor)
    }

    fn far(&self, survivor: ValuePointer) -> Result<FarRecord<'_>> {
        Self::far(self, survivor)
    }
}

/// A log file or a segment that is not written any more.
pub struct SealedFile {
    segment: Arc<Segment>,
    base: u64,
    len: u64,
    bytes: Vec<u8>,
}

impl SealedFile {
    /// The file of `segment`, whose first byte has the position `base` in the log, and which has
    /// `len` bytes up to the end of the last record.
    pub fn new(segment: Arc<Segment>, base: u64, len: u64) -> Self {
        Self { segment, base, len, bytes: Vec::new() }
    }
}

impl Source for SealedFile {
    fn place(&self) -> Location {
        Location { file: self.segment.number(), offset: 0 }
    }

    fn holds(&self, place: Location) -> bool {
        place.file == self.segment.number() && place.offset < self.len
    }

    fn scan(&mut self, visit: Visit<'_>) -> Result<u64> {
        let segment = &*self.segment;
        let fail = |e: Error| e.with("file", segment.name());
        let (file, identity) = (segment.number(), segment.identity());
        let mut reader =
            LogReader::new(&**segment.file(), None, identity, self.base, 0, Some(self.len))?;
        reader.header().map_err(fail)?;
        while let Some((offset, record)) = reader.next_record().map_err(fail)? {
            if record.header.kind.is_separated() {
                let len = record.header.record_len() as u32;
                visit(&record, ValuePointer { file, offset, len })?;
            }
        }
        if reader.offset() < self.len {
            let what =
                "a value file has a damaged record; it is not collected, so that nothing is lost";
            return Err(fail(Error::corruption(what)).with("offset", reader.offset()));
        }
        Ok(self.len)
    }

    fn has_key_block(&self) -> bool {
        false
    }

    fn will_need(&self, _: Range<u64>) {}

    fn record(&mut self, survivor: ValuePointer) -> Result<Record<'_>> {
        self.bytes.resize(survivor.len as usize, 0);
        self.segment.read(survivor.offset, &mut self.bytes)?;
        Record::parse(&self.bytes, self.segment.identity(), survivor.offset)
            .map_err(|e| e.with("file", self.segment.name()))
    }

    fn far(&self, survivor: ValuePointer) -> Result<FarRecord<'_>> {
        self.segment.far(survivor)
    }
}
