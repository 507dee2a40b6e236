//! Writes survivors to new segments, one after another.

use cleavedb_base::record::Header;
use cleavedb_base::{Result, ValuePointer};
use cleavedb_storage::Name;
use cleavedb_storage::segment::{FarRecord, SegmentWriter};

use crate::factory::SegmentFactory;

/// A segment that collection wrote.
#[derive(Clone, Debug)]
pub struct NewSegment {
    /// The name of the segment.
    pub name: Name,
    /// The length of the segment up to the last record, in bytes.
    pub len: u64,
    /// Bytes of records in it.
    pub live: u64,
}

/// Appends to segments, which end at a given length.
pub struct SurvivorWriter<'a> {
    factory: Box<dyn SegmentFactory + 'a>,
    database_id: u64,
    segment_len: u64,
    open: Option<(Name, SegmentWriter)>,
    live: u64,
    written: Vec<NewSegment>,
}

impl<'a> SurvivorWriter<'a> {
    /// A writer of segments of at most `segment_len` bytes, or of one longer record.
    pub fn new(factory: impl SegmentFactory + 'a, database_id: u64, segment_len: u64) -> Self {
        let (factory, written) = (Box::new(factory), Vec::new());
        Self { factory, database_id, segment_len, open: None, live: 0, written }
    }

    /// Ends segments at this length from now on, in bytes.
    pub fn cut_at(&mut self, segment_len: u64) {
        self.segment_len = segment_len;
    }

    /// Bytes of all segments, that of the open one included.
    pub fn bytes(&self) -> u64 {
        let ended: u64 = self.written.iter().map(|segment| segment.len).sum();
        ended + self.open.as_ref().map_or(0, |(_, open)| open.len())
    }

    /// Appends a record with its payload checksum unchanged, and returns its place.
    pub fn append(&mut self, header: &Header, key: &[u8], value: &[u8]) -> Result<ValuePointer> {
        self.writer_of(header)?.append(header, key, value)
    }

    /// As [`SurvivorWriter::append`], in pieces.
    pub fn append_far(&mut self, record: &FarRecord<'_>) -> Result<ValuePointer> {
        self.writer_of(&record.header)?.append_far(record)
    }

    /// The writer for the record of `header`, whose bytes are counted as live there.
    fn writer_of(&mut self, header: &Header) -> Result<&mut SegmentWriter> {
        let len = header.record_len() as u64;
        let too_long = |writer: &SegmentWriter| writer.len() + len > self.segment_len;
        if self.open.as_ref().is_some_and(|(_, open)| !open.is_empty() && too_long(open)) {
            self.end()?;
        }
        let (_, writer) = match &mut self.open {
            Some(open) => open,
            none => none.insert(self.factory.begin(self.database_id)?),
        };
        self.live += len;
        Ok(writer)
    }

    fn end(&mut self) -> Result<()> {
        if let Some((name, writer)) = self.open.take() {
            let len = writer.finish()?;
            let live = std::mem::take(&mut self.live);
            self.written.push(NewSegment { name, len, live });
        }
        Ok(())
    }

    /// Finishes and syncs all segments.
    pub fn finish(mut self) -> Result<Vec<NewSegment>> {
        self.end()?;
        Ok(self.written)
    }
}
