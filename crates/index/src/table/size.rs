//! About how much of a table lies in a range of keys: whole blocks are counted by their length, and
//! only the blocks at the two ends of the range are read.

use std::ops::AddAssign;

use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::{EntryKind, Result, ValuePointer};
use cleavedb_storage::Reach;

use super::Table;
use crate::block::BlockIter;
use crate::table_format::TableMeta;

/// What tables hold of a range of keys, about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSize {
    /// Entries, tombstones among them.
    pub entries: u64,
    /// Entries that are deletes.
    pub deletes: u64,
    /// Bytes in the files.
    pub bytes: u64,
    /// Bytes of the records that pointers own.
    pub pointer_bytes: u64,
}

impl AddAssign for IndexSize {
    fn add_assign(&mut self, other: Self) {
        self.entries += other.entries;
        self.deletes += other.deletes;
        self.bytes += other.bytes;
        self.pointer_bytes += other.pointer_bytes;
    }
}

impl IndexSize {
    /// All of a table.
    pub fn of(meta: &TableMeta) -> Self {
        let TableMeta { entries, deletes, size: bytes, pointer_bytes, .. } = *meta;
        Self { entries, deletes, bytes, pointer_bytes }
    }

    /// `bytes` of `all`, which are in blocks.
    fn part(self, bytes: u64, all: u64) -> Self {
        let of = |whole: u64| (u128::from(whole) * u128::from(bytes) / u128::from(all)) as u64;
        let (entries, deletes) = (of(self.entries), of(self.deletes));
        Self { entries, deletes, bytes, pointer_bytes: of(self.pointer_bytes) }
    }
}

impl Table {
    /// About what the table holds of the keys from `lower` to `upper`, excluded: exact in the
    /// blocks at the ends, which are read.
    pub(crate) fn size_within(&self, lower: &[u8], upper: &[u8]) -> Result<IndexSize> {
        let find = |key: &[u8]| self.index.find(key, SEQ_MAX);
        let (first, last) = (find(lower), find(upper));
        let mut sum = IndexSize::default();
        if lower >= upper || first == self.index.len() {
            return Ok(sum);
        }
        for edge in [first, last].into_iter().take(if first == last { 1 } else { 2 }) {
            if edge < self.index.len() {
                sum += self.counted(edge, lower, upper)?;
            }
        }
        if first + 1 < last {
            let all = self.index.data_end();
            let bytes = self.index.handle(last - 1).end() - self.index.handle(first).end();
            sum += IndexSize::of(&self.meta).part(bytes, all);
        }
        Ok(sum)
    }

    /// What block `at` holds of the keys from `lower` to `upper`, excluded.
    fn counted(&self, at: usize, lower: &[u8], upper: &[u8]) -> Result<IndexSize> {
        let handle = self.index.handle(at);
        let failed = |e| self.source().fact(e, handle.offset);
        let mut iter = BlockIter::default();
        iter.reset(self.cached_block(Reach::Device, handle)?);
        iter.seek_first().map_err(failed)?;
        let (mut sum, mut all) = (IndexSize::default(), 0);
        while iter.valid() {
            let entry = iter.entry();
            all += 1;
            if lower <= entry.key && entry.key < upper {
                sum.entries += 1;
                sum.deletes += u64::from(entry.kind == EntryKind::Delete);
                if entry.kind.is_pointer() && !entry.repeat {
                    let pointer = ValuePointer::of_entry(entry.kind, entry.value);
                    sum.pointer_bytes += u64::from(pointer.map_err(failed)?.value.len);
                }
            }
            iter.next().map_err(failed)?;
        }
        sum.bytes = handle.stored_len() as u64 * sum.entries / all.max(1);
        Ok(sum)
    }
}
