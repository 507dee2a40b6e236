//! Coalesced reads: records that will be read soon and lie close together, a *stretch* of their
//! file, are read by one contiguous read (KT-Store, section 3.3, "Range-Query Procedure").
//!
//! The paper reads each table once, from the smallest requested offset to the greatest. Here a gap
//! is read along only if it is shorter than what a disk transfers in the time of a seek, and only
//! while a stretch has no more unrequested bytes than requested ones. A stretch is announced to the
//! device at once and read in chunks when they are needed.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use cleavedb_base::ValuePointer;
use cleavedb_storage::pages::PagePool;
use cleavedb_storage::segment::{Segment, is_far};

/// Longest gap that is read along, in bytes: what a hard disk transfers (128 MB/s) in the time of a
/// seek (8 ms).
const GAP_MAX: u64 = 1 << 20;

/// Most bytes of a chunk from which nothing is kept.
pub const POOLED_LEN: u64 = 16 << 20;

/// Part of a file that holds requested records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CoalescedRead {
    /// Offset of the first requested byte.
    begin: u64,
    /// Offset behind the last requested byte.
    end: u64,
    /// Requested bytes in it.
    wanted: u64,
}

impl CoalescedRead {
    fn of(pointer: ValuePointer) -> Self {
        let (begin, wanted) = (pointer.offset, u64::from(pointer.len));
        Self { begin, end: begin + wanted, wanted }
    }

    /// The stretch extended by a record behind it, if one read of both is cheaper than two.
    fn with(self, pointer: ValuePointer) -> Option<Self> {
        let wanted = self.wanted + u64::from(pointer.len);
        let gap = pointer.offset.checked_sub(self.end)?;
        let end = pointer.offset + u64::from(pointer.len);
        let wasted = (end - self.begin).checked_sub(wanted)?;
        (gap <= GAP_MAX && wasted <= wanted).then_some(Self { begin: self.begin, end, wanted })
    }
}

/// Divides the requested records of one file, sorted by offset, into stretches.
fn stretches(wanted: &[ValuePointer]) -> Vec<(CoalescedRead, &[ValuePointer])> {
    let mut found = Vec::new();
    let mut rest = wanted;
    while let Some(first) = rest.first() {
        let mut stretch = CoalescedRead::of(*first);
        let mut count = 1;
        while let Some(longer) = rest.get(count).and_then(|next| stretch.with(*next)) {
            (stretch, count) = (longer, count + 1);
        }
        found.push((stretch, &rest[..count]));
        rest = &rest[count..];
    }
    found
}

/// Divides the records of a stretch into those of one read each, of at most `most` bytes.
fn divided(mut rest: &[ValuePointer], most: u64) -> impl Iterator<Item = &[ValuePointer]> {
    std::iter::from_fn(move || {
        let begin = rest.first()?.offset;
        let fits = |next: &&ValuePointer| {
            !is_far(**next) && next.offset + u64::from(next.len) - begin <= most
        };
        let count = rest.iter().take_while(fits).count().max(1);
        rest.split_off(..count)
    })
}

/// Neighbouring records of a stretch, read together when the first one is needed.
pub struct Chunk {
    segment: Arc<Segment>,
    begin: u64,
    len: usize,
    pool: Arc<PagePool>,
    /// None if the read failed: then each record is read by itself.
    bytes: OnceLock<Option<Bytes>>,
}

impl Chunk {
    /// The whole chunk, which is read at the first call.
    fn all(&self) -> Option<&Bytes> {
        let bytes = self.bytes.get_or_init(|| {
            let mut bytes = self.pool.take(self.len);
            let read = self.segment.read(self.begin, &mut bytes);
            read.ok().map(|()| Bytes::from_owner(bytes))
        });
        bytes.as_ref()
    }

    /// The bytes of a record in it, to be kept.
    pub(crate) fn record(&self, pointer: ValuePointer) -> Option<Bytes> {
        Some(self.all()?.slice(self.place(pointer)?))
    }

    /// The bytes of a record in it, to be copied out.
    pub fn bytes_of(&self, pointer: ValuePointer) -> Option<&[u8]> {
        Some(&self.all()?[self.place(pointer)?])
    }

    /// The bytes of a record, if they were read already.
    pub fn known(&self, pointer: ValuePointer) -> Option<&[u8]> {
        Some(&self.bytes.get()?.as_ref()?[self.place(pointer)?])
    }

    /// Range of a record in the chunk.
    fn place(&self, pointer: ValuePointer) -> Option<Range<usize>> {
        let begin = pointer.offset.checked_sub(self.begin)? as usize;
        let end = begin + pointer.len as usize;
        (end <= self.len).then_some(begin..end)
    }
}

/// Announces the requested records of `segment`, sorted by offset, to the device, and divides them
/// into chunks, each of which fits a piece of `pool`; returns the chunk of each record. A record
/// that stands alone has none: it is read without read-ahead.
pub(crate) fn prefetch_records(
    segment: &Arc<Segment>,
    wanted: &[ValuePointer],
    pool: &Arc<PagePool>,
) -> Vec<Option<Arc<Chunk>>> {
    let chunk_len = pool.piece_len() as u64;
    let mut found = Vec::with_capacity(wanted.len());
    for (stretch, records) in stretches(wanted) {
        // The kernel truncates long advice.
        for begin in (stretch.begin..stretch.end).step_by(chunk_len as usize) {
            let len = chunk_len.min(stretch.end - begin);
            segment.will_need(begin, len as usize);
        }
        for records in divided(records, chunk_len) {
            let (first, last) = (records[0], records[records.len() - 1]);
            let chunk = Chunk {
                segment: segment.clone(),
                begin: first.offset,
                len: (last.offset - first.offset) as usize + last.len as usize,
                pool: pool.clone(),
                bytes: OnceLock::new(),
            };
            let chunk = (records.len() > 1).then(|| Arc::new(chunk));
            found.extend(std::iter::repeat_n(chunk, records.len()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;

    fn pointer(offset: u64, len: u32) -> ValuePointer {
        ValuePointer { file: FileNumber(1), offset, len }
    }

    fn ends(wanted: &[ValuePointer]) -> Vec<(u64, u64)> {
        stretches(wanted).iter().map(|(stretch, _)| (stretch.begin, stretch.end)).collect()
    }

    #[test]
    fn a_gap_is_read_along_if_no_more_is_wasted_than_wanted() {
        let near = [pointer(0, 100), pointer(300, 100), pointer(400, 100)];
        assert_eq!(ends(&near), [(0, 500)]);
        assert_eq!(ends(&[pointer(0, 100), pointer(301, 100)]), [(0, 100), (301, 401)]);
        assert!(stretches(&[]).is_empty());
    }

    #[test]
    fn no_gap_is_longer_than_a_seek() {
        let len = 4 << 20;
        let far = u64::from(len) + GAP_MAX + 1;
        assert_eq!(stretches(&[pointer(0, len), pointer(far - 1, len)]).len(), 1);
        assert_eq!(stretches(&[pointer(0, len), pointer(far, len)]).len(), 2);
    }

    #[test]
    fn a_read_is_no_longer_than_its_buffer() {
        let of = [(0, 60), (60, 40), (100, 30), (130, 200), (330, 1), (331, 99)];
        let of = of.map(|(offset, len)| pointer(offset, len));
        let counts: Vec<usize> = divided(&of, 100).map(<[_]>::len).collect();
        assert_eq!(counts, [2, 1, 1, 2], "a record that is longer than a buffer stands alone");
    }

    #[test]
    fn every_record_is_in_one_stretch_and_waste_is_bounded() {
        let offsets = (0..500u64).map(|i| i * i * 7);
        let wanted: Vec<ValuePointer> = offsets.map(|offset| pointer(offset, 600)).collect();
        let wanted: Vec<ValuePointer> = wanted[86..].to_vec();
        let found = stretches(&wanted);
        assert!(found.len() > 1);
        let records: Vec<ValuePointer> =
            found.iter().flat_map(|(_, r)| r.iter().copied()).collect();
        assert_eq!(records, wanted);
        for (stretch, _) in found {
            assert!(stretch.end - stretch.begin <= 2 * stretch.wanted);
        }
    }
}
