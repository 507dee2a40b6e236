//! TableIndex: finds the block of a table that holds the position of a key.
//!
//! On disk the index is a block with one entry per data block: a separator (a key and sequence
//! number at or behind the last entry of the data block, in front of the first of the next) and the
//! block's handle. It is checked and unpacked once, when the table is opened, so that a look-up is
//! one binary search over a dense array and cannot fail: the array has eight bytes of each
//! separator, behind the prefix that all share, and only separators that are equal there are
//! compared in full.
//!
//! Invariants: separators ascend; data blocks follow one another from offset 0 without a gap.

use cleavedb_base::{Error, Result, SeqNo};

use crate::block::{Block, BlockIter, common_prefix};
use crate::table_format::{BlockHandle, TRAILER_LEN};

/// The index of one table, in memory.
pub(crate) struct TableIndex {
    /// Common prefix of all separators.
    prefix: Vec<u8>,
    /// The eight bytes behind the prefix, as a number with the same order.
    fences: Vec<u64>,
    /// The separators without the prefix, concatenated, and the end of each.
    suffixes: Vec<u8>,
    ends: Vec<u32>,
    seqs: Vec<SeqNo>,
    /// The beginning of each block, and the end of the last.
    offsets: Vec<u64>,
}

/// The first eight bytes of `key`, padded with zeros, as a number with the same order.
#[inline]
fn fence(key: &[u8]) -> u64 {
    if let Some(head) = key.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    head[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(head)
}

impl TableIndex {
    /// Unpacks and checks the index `block` of a table whose data blocks end at `data_end`.
    pub(crate) fn unpack(block: Block, data_end: u64) -> Result<Self> {
        let prefix = separator_prefix(&block)?;
        let mut index = Self {
            fences: Vec::new(),
            suffixes: Vec::new(),
            ends: Vec::new(),
            seqs: Vec::new(),
            offsets: vec![0],
            prefix,
        };
        let mut iter = BlockIter::default();
        iter.reset(block);
        iter.seek_first()?;
        let mut end = 0;
        while iter.valid() {
            let entry = iter.entry();
            let handle = BlockHandle::decode(entry.value, data_end)?;
            let suffix = entry.key.strip_prefix(&index.prefix[..]);
            let suffix = suffix.filter(|suffix| index.follows(suffix, entry.seq));
            let (Some(suffix), true) = (suffix, handle.offset == end) else {
                let error = Error::corruption("index of a table is not in order");
                return Err(error.with("block", handle.offset));
            };
            index.fences.push(fence(suffix));
            index.suffixes.extend_from_slice(suffix);
            index.ends.push(index.suffixes.len() as u32);
            index.seqs.push(entry.seq);
            end = handle.end();
            index.offsets.push(end);
            iter.next()?;
        }
        if end != data_end {
            return Err(Error::corruption("index of a table does not cover all of its data"));
        }
        Ok(index)
    }

    /// Whether a separator may follow the last one.
    fn follows(&self, suffix: &[u8], seq: SeqNo) -> bool {
        self.len().checked_sub(1).is_none_or(|last| self.is_before(last, suffix, seq))
    }

    /// Number of blocks.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.fences.len()
    }

    /// Memory that the index holds, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.prefix.len() + self.suffixes.len() + self.len() * (8 + 4 + 8 + 8)
    }

    /// End of the last block.
    #[inline]
    pub(crate) fn data_end(&self) -> u64 {
        self.offsets[self.len()]
    }

    /// Place of block `i`.
    #[inline]
    pub(crate) fn handle(&self, i: usize) -> BlockHandle {
        let offset = self.offsets[i];
        BlockHandle { offset, len: (self.offsets[i + 1] - offset - TRAILER_LEN as u64) as u32 }
    }

    /// A key at or behind the last of block `i`, at or before the first of the next.
    pub(crate) fn separator(&self, i: usize) -> Vec<u8> {
        [&self.prefix, self.suffix(i)].concat()
    }

    /// Separator `i` without the prefix.
    fn suffix(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.suffixes[start..self.ends[i] as usize]
    }

    /// The block that holds the position of (`key`, `seq`); [`TableIndex::len`] if that is behind
    /// all.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], seq: SeqNo) -> usize {
        let Some(rest) = key.strip_prefix(&self.prefix[..]) else {
            return if key < &self.prefix[..] { 0 } else { self.len() };
        };
        let target = fence(rest);
        let first = self.fences.partition_point(|fence| *fence < target);
        let mut same = self.fences[first..].iter().take_while(|fence| **fence == target).count();
        let mut low = first;
        while same > 0 {
            let half = same / 2;
            if self.is_before(low + half, rest, seq) {
                low += half + 1;
                same -= half + 1;
            } else {
                same = half;
            }
        }
        low
    }

    /// Whether separator `i` is before (`prefix` + `suffix`, `seq`) in index order.
    fn is_before(&self, i: usize, suffix: &[u8], seq: SeqNo) -> bool {
        self.suffix(i).cmp(suffix).then(seq.cmp(&self.seqs[i])).is_lt()
    }
}

/// The common prefix of all separators of an index block: that of the first and the last.
fn separator_prefix(block: &Block) -> Result<Vec<u8>> {
    let mut iter = BlockIter::default();
    iter.reset(block.clone());
    iter.seek_first()?;
    let mut prefix = if iter.valid() { iter.entry().key.to_vec() } else { Vec::new() };
    iter.seek_last()?;
    if iter.valid() {
        prefix.truncate(common_prefix(&prefix, iter.entry().key));
    }
    Ok(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use cleavedb_base::EntryKind;
    use proptest::prelude::proptest;

    use crate::block::BlockBuilder;
    use crate::testing::{Item, items, probes};

    /// An index whose separators are the entries of `list`, of blocks of 100 bytes each.
    fn index_of(list: &[Item]) -> TableIndex {
        let mut builder = BlockBuilder::new(16);
        for (i, item) in list.iter().enumerate() {
            let mut value = Vec::new();
            BlockHandle { offset: i as u64 * 100, len: 95 }.encode(&mut value);
            let kind = EntryKind::Inline;
            builder.add(&Item { value, kind, ..item.clone() }.entry());
        }
        let block = Block::parse(Bytes::copy_from_slice(builder.finish(0))).unwrap();
        assert!(TableIndex::unpack(block.clone(), list.len() as u64 * 100 + 1).is_err());
        TableIndex::unpack(block, list.len() as u64 * 100).unwrap()
    }

    proptest! {
        #[test]
        fn a_key_is_found_in_the_first_block_that_does_not_end_before_it(list in items(100)) {
            let index = index_of(&list);
            for (key, seq) in probes(&list) {
                let expected = list.partition_point(|item| item.entry().order(&key, seq).is_lt());
                assert_eq!(index.find(&key, seq), expected);
            }
            for i in 0..list.len() {
                assert_eq!(index.handle(i), BlockHandle { offset: i as u64 * 100, len: 95 });
            }
        }
    }
}
