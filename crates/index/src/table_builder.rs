//! TableBuilder: writes sorted entries as one table, front to back.
//!
//! Bytes are written through one buffer of about 1 MiB, so a table costs one write call per MiB,
//! and memory for the buffer, the index and the hashes of the keys. A table is complete once
//! [`TableBuilder::finish`] returned: its data is synced then (the caller makes its name durable by
//! `sync_dir`). A builder that is dropped before leaves a file that no edit names.

use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::limits::{BLOCK, SEQ_MAX};
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::FileIdentity;
use cleavedb_base::{EntryKind, Error, ErrorKind, FileNumber, Result, SeqNo};
use cleavedb_storage::aligned::AlignedBuf;
use cleavedb_storage::api::write_all_at;
use cleavedb_storage::mapped::{MappedVec, mapped_vec};
use cleavedb_storage::{File, FileKind, Name};

use crate::block::{BlockBuilder, RESTART_INTERVAL};
use crate::entry::Entry;
use crate::expiry_sample::ExpirySample;
use crate::table_format::{
    BLOCK_TARGET_MAX, BlockHandle, Compression, Footer, Sealer, TRAILER_LEN, TableMeta,
    TableOptions,
};
use cleavedb_base::filter::BloomFilter;

/// Length at which the write buffer is written, in bytes.
const WRITE_BYTES: usize = 1 << 20;

/// Most bytes of an entry beyond its key and value, including a restart.
const ENTRY_HEAD_MAX: usize = 28;

/// Divisor of a block's length that gives the most padding. Entries of up to a few hundred bytes
/// leave less unused, half of their own length on average.
const PADDING_SHARE: usize = 16;

/// Writes one table.
pub struct TableBuilder {
    file: Arc<dyn File>,
    identity: FileIdentity,
    bits_per_key: u32,
    block_bytes: usize,
    sealer: Sealer,
    block: BlockBuilder,
    index: BlockBuilder,
    /// The finished data block that is not in the index yet: its separator needs the next key.
    unindexed: Option<BlockHandle>,
    hashes: MappedVec<u64>,
    last_key: Vec<u8>,
    last_seq: SeqNo,
    buffer: AlignedBuf,
    /// Bytes written, in front of the buffer.
    written: u64,
    meta: TableMeta,
    expiries: ExpirySample,
}

impl TableBuilder {
    /// A builder for the new, empty `file` with `number` and `identity`.
    pub fn new(
        file: Arc<dyn File>,
        identity: FileIdentity,
        number: FileNumber,
        options: &TableOptions,
    ) -> Result<Self> {
        Ok(Self {
            file,
            identity,
            bits_per_key: options.bits_per_key,
            block_bytes: options.block_bytes.min(BLOCK_TARGET_MAX),
            sealer: Sealer::new(options.compression)?,
            block: BlockBuilder::new(RESTART_INTERVAL),
            index: BlockBuilder::new(RESTART_INTERVAL),
            unindexed: None,
            hashes: mapped_vec(),
            last_key: Vec::new(),
            last_seq: 0,
            buffer: AlignedBuf::with_capacity(WRITE_BYTES + options.block_bytes),
            written: 0,
            meta: TableMeta::empty(number),
            expiries: ExpirySample::default(),
        })
    }

    /// The builder for a table of which range tombstones up to `seq` cover nothing
    /// ([`TableMeta::uncovered_upto`]).
    #[must_use]
    pub fn with_uncovered_upto(mut self, seq: SeqNo) -> Self {
        self.meta.uncovered_upto = seq;
        self
    }

    /// Adds an entry, which must follow the one before in index order.
    pub fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        if let Some(padding) = self.padding_before(&entry) {
            self.finish_block(padding)?;
        }
        let first = self.meta.entries == 0;
        let new_key = first || self.last_key != entry.key;
        let follows =
            if new_key { self.last_key.as_slice() <= entry.key } else { entry.seq < self.last_seq };
        if !follows || entry.seq > SEQ_MAX {
            let message = "entries of a table must be added in index order";
            return Err(Error::new(ErrorKind::InvalidArgument, message)
                .with("table", self.meta.number)
                .with("seq", entry.seq));
        }
        if let Some(handle) = self.unindexed.take() {
            self.index_block(handle, Some(entry.key), new_key);
        }
        if new_key {
            self.hashes.push(hash64(entry.key, 0));
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key);
        }
        self.last_seq = entry.seq;
        self.meta.count(&entry, new_key, &mut self.expiries)?;
        self.block.add(&entry);
        if self.block.len() >= self.block_bytes { self.finish_block(0) } else { Ok(()) }
    }

    /// Zeros with which the block should end before `entry`, so that it ends with a page: a block
    /// across two pages costs twice the memory in the page cache, and often twice the reads. None
    /// while the entry may fit, where the padding would be too long, and where the length of a
    /// stored block is not known before (compression).
    fn padding_before(&self, entry: &Entry<'_>) -> Option<usize> {
        let pages = self.block_bytes.is_multiple_of(BLOCK) && self.sealer.stores_as_is();
        if !pages || self.block.is_empty() {
            return None;
        }
        let end = self.offset() + (self.block.len() + TRAILER_LEN) as u64;
        let page_end = end.next_multiple_of(BLOCK as u64);
        let padding = (page_end - end) as usize;
        let full = (page_end - self.offset()) as usize + BLOCK / 2 > self.block_bytes;
        let fits = entry.key.len() + entry.value.len() + ENTRY_HEAD_MAX <= padding;
        (full && !fits && padding <= self.block_bytes / PADDING_SHARE).then_some(padding)
    }

    /// Whether no entry was added.
    pub fn is_empty(&self) -> bool {
        self.meta.entries == 0
    }

    /// Estimated length of the table if it were finished now, in bytes, never far above it: the
    /// open block counts only if its stored length is known. A table that ends by this measure
    /// must not count as small by its stored length.
    pub fn estimated_size(&self) -> u64 {
        let filter = self.hashes.len() as u64 * u64::from(self.bits_per_key) / 8;
        let known = self.sealer.stores_as_is() || planted(Bug::PacksWithoutGain);
        let block = if known { self.block.len() as u64 } else { 0 };
        self.offset() + block + self.index.len() as u64 + filter
    }

    fn offset(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn finish_block(&mut self, padding: usize) -> Result<()> {
        let offset = self.offset();
        let bytes = self.block.finish(padding);
        let handle = self.sealer.seal(bytes, self.identity, offset, &mut self.buffer)?;
        self.block.clear();
        self.unindexed = Some(handle);
        if self.buffer.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    /// Adds a data block to the index, with a separator at or behind the block's last entry and in
    /// front of `next_key`, the key of the next block's first entry.
    fn index_block(&mut self, handle: BlockHandle, next_key: Option<&[u8]>, new_key: bool) {
        let separator = match next_key {
            Some(next) if new_key => short_separator(&self.last_key, next),
            _ => &self.last_key,
        };
        // Versions of a key may continue in the next block: then the separator is the exact entry.
        let seq = if new_key { 0 } else { self.last_seq };
        let mut value = Vec::with_capacity(16);
        handle.encode(&mut value);
        let kind = EntryKind::Inline;
        self.index.add(&Entry { key: separator, seq, kind, repeat: false, value: &value });
    }

    /// Writes the buffer as far as direct access allows: whole blocks.
    fn write(&mut self) -> Result<()> {
        let len = self.buffer.len() / self.file.alignment() * self.file.alignment();
        write_all_at(&*self.file, &self.buffer[..len], self.written)
            .map_err(|e| self.io("write a table", e))?;
        self.written += len as u64;
        self.buffer.consume(len);
        Ok(())
    }

    /// Writes the whole buffer, padded, and cuts the padding off.
    fn write_end(&mut self) -> Result<()> {
        let end = self.offset();
        self.buffer.pad_to(self.file.alignment());
        self.write()?;
        if self.written > end {
            self.file.truncate(end).map_err(|e| self.io("end a table", e))?;
        }
        self.written = end;
        Ok(())
    }

    fn io(&self, doing: &str, cause: std::io::Error) -> Error {
        let name = Name::numbered(FileKind::Table, self.meta.number);
        Error::io(doing, cause).with("file", name).with("offset", self.written)
    }

    /// Completes and syncs the table. A table holds at least one entry.
    pub fn finish(mut self) -> Result<TableMeta> {
        if self.is_empty() {
            let error = Error::new(ErrorKind::InvalidArgument, "a table holds at least one entry");
            return Err(error.with("table", self.meta.number));
        }
        if !self.block.is_empty() {
            self.finish_block(0)?;
        }
        if let Some(handle) = self.unindexed.take() {
            self.index_block(handle, None, true);
        }
        self.meta.largest = std::mem::take(&mut self.last_key).into();
        self.meta.set_expiries(std::mem::take(&mut self.expiries));
        let footer = self.add_meta_blocks()?;
        self.buffer.extend_from_slice(&footer.encode(self.identity, self.offset()));
        self.write_end()?;
        let name = Name::numbered(FileKind::Table, self.meta.number);
        self.file.sync().map_err(|e| Error::sync_failed("a table", e).with("file", name))?;
        self.meta.size = self.written;
        Ok(self.meta)
    }

    /// Adds filter, index and properties. They are read once and kept in memory: never compressed.
    fn add_meta_blocks(&mut self) -> Result<Footer> {
        let mut sealer = Sealer::new(Compression::None)?;
        let mut bytes = Vec::new();
        BloomFilter::build(&self.hashes, self.bits_per_key).encode(&mut bytes);
        let filter = sealer.seal(&bytes, self.identity, self.offset(), &mut self.buffer)?;
        let (identity, offset) = (self.identity, self.offset());
        let index = sealer.seal(self.index.finish(0), identity, offset, &mut self.buffer)?;
        bytes.clear();
        self.meta.encode_properties(&mut bytes);
        let properties = sealer.seal(&bytes, self.identity, self.offset(), &mut self.buffer)?;
        Ok(Footer { filter, index, properties })
    }
}

/// A short key at or behind `last` and in front of `next`, which is behind `last`.
fn short_separator<'a>(last: &'a [u8], next: &'a [u8]) -> &'a [u8] {
    let shared = crate::block::common_prefix(last, next);
    // `next` cut behind the first byte that differs is behind `last`, and in front of `next` unless
    // it is `next`.
    if shared + 1 < next.len().min(last.len()) { &next[..=shared] } else { last }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_short_and_lie_between() {
        let cases: [(&[u8], &[u8], &[u8]); 5] = [
            (b"abcdef", b"abxyz", b"abx"),
            (b"abc", b"abcd", b"abc"),
            (b"abc", b"abd", b"abc"),
            (b"a", b"b", b"a"),
            (b"abcd", b"b\0", b"b"),
        ];
        for (last, next, expected) in cases {
            let separator = short_separator(last, next);
            assert_eq!(separator, expected);
            assert!(last <= separator && separator < next);
        }
    }
}
