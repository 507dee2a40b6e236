//! Table: one open sorted file of the index.
//!
//! Filter and index stay in memory while the table is open, so a look-up costs at most one block:
//! the filter says whether the key may be there, the index which block holds it. Blocks come from
//! the shared [`BlockCache`], or, for readers of a whole table, through a private window that
//! bypasses the cache.
//!
//! Invariant: bytes are used only after their checksum, lengths and place were checked. Every error
//! names the file and the offset of the block.

use std::sync::Arc;

use bytes::Bytes;
use cleavedb_base::codec::Cursor;
use cleavedb_base::record::FileIdentity;
use cleavedb_base::{Error, FileNumber, Result, SeqNo};
use cleavedb_storage::api::read_exact_within;
use cleavedb_storage::{File, FileKind, Name, Reach};

use self::block_reader::BlockReader;
use crate::block::{Block, BlockIter};
use crate::cache::BlockCache;
use crate::entry::{Entry, EntryIter, IndexHit};
use crate::table_format::{BlockHandle, FOOTER_LEN, Footer, TableMeta, unseal};
use crate::table_index::TableIndex;
use cleavedb_base::filter::BloomFilter;

mod verify;
mod salvage;
mod parts;
mod size;
mod block_reader;

pub use parts::TableParts;
pub use size::IndexSize;

/// How an iterator fetches its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// From the cache; misses fill it. Misses in a row are read ahead, in growing windows.
    Cached,
    /// As above, but never from the device: a block that is elsewhere fails the step with
    /// `ErrorKind::WouldWait`.
    Resident,
    /// In large windows past the cache: for collections and checks, which read each block once.
    Ahead,
    /// As above, for the last reader of the table, a compaction: the kernel may evict its pages.
    /// Otherwise all inputs pass through the page cache, and evict pages of other readers and of
    /// the young log, which then reaches the device needlessly (decision 0011).
    Last,
}

impl ReadMode {
    /// The mode of a read for a caller, which goes as far as `reach` for a block.
    pub fn of_caller(reach: Reach) -> Self {
        if reach == Reach::Memory { Self::Resident } else { Self::Cached }
    }

    /// Whether blocks are kept in the cache.
    pub(crate) fn is_cached(self) -> bool {
        matches!(self, Self::Cached | Self::Resident)
    }

    /// How far a reader goes for a block.
    pub(crate) fn reach(self) -> Reach {
        if self == Self::Resident { Reach::Memory } else { Reach::Device }
    }
}

/// An open table.
pub struct Table {
    file: Arc<dyn File>,
    name: Name,
    identity: FileIdentity,
    cache: Arc<BlockCache>,
    filter: BloomFilter,
    index: TableIndex,
    meta: TableMeta,
}

impl Table {
    /// Opens table `number` in `file` and pins its filter and index.
    pub fn open(
        file: Arc<dyn File>,
        identity: FileIdentity,
        number: FileNumber,
        cache: Arc<BlockCache>,
    ) -> Result<Self> {
        let name = Name::numbered(FileKind::Table, number);
        let source = StoredBlocks::new(&*file, name, identity);
        let (footer, size) = source.footer()?;
        let (filter, index) = (source.filter(&footer)?, source.index(&footer)?);
        let meta = source.properties(&footer, size)?;
        let table = Self { file, name, identity, cache, filter, index, meta };
        table.cache.pin(table.pinned());
        Ok(table)
    }

    /// Memory of its filter and its index, in bytes.
    pub(crate) fn pinned(&self) -> u64 {
        (self.filter.memory() + self.index.memory()) as u64
    }

    /// The metadata of the table, from its own properties.
    pub fn meta(&self) -> &TableMeta {
        &self.meta
    }

    fn source(&self) -> StoredBlocks<'_> {
        StoredBlocks::new(&*self.file, self.name, self.identity)
    }

    /// Whether the filter lets a key of this hash pass.
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filter.may_contain(hash)
    }

    /// The newest entry of `key` at or below `snapshot`; `hash` is `hash64(key, 0)`.
    #[inline]
    pub fn get(&self, key: &[u8], hash: u64, snapshot: SeqNo) -> Result<Option<IndexHit>> {
        self.get_within(Reach::Device, key, hash, snapshot)
    }

    /// As [`Table::get`], from within `reach`; fails with `ErrorKind::WouldWait` where that does
    /// not do.
    #[inline]
    pub(crate) fn get_within(
        &self,
        reach: Reach,
        key: &[u8],
        hash: u64,
        snapshot: SeqNo,
    ) -> Result<Option<IndexHit>> {
        if !self.filter.may_contain(hash) {
            return Ok(None);
        }
        let at = self.index.find(key, snapshot);
        if at == self.index.len() {
            return Ok(None);
        }
        let handle = self.index.handle(at);
        let block = self.cached_block(reach, handle)?;
        block.get(key, snapshot).map_err(|e| self.source().fact(e, handle.offset))
    }

    /// Prefetches the block that holds the position of (`key`, `seq`), unless it is cached; does
    /// not wait.
    pub(crate) fn expect(&self, key: &[u8], seq: SeqNo) {
        let at = self.index.find(key, seq);
        if at == self.index.len() {
            return;
        }
        let handle = self.index.handle(at);
        if !self.cache.holds(self.meta.number, handle.offset) {
            self.file.will_need(handle.offset, handle.stored_len());
        }
    }

    /// Appends all entries of `key` at or below `snapshot` to `out`, newest first.
    pub fn versions(
        self: &Arc<Self>,
        key: &[u8],
        hash: u64,
        snapshot: SeqNo,
        out: &mut Vec<IndexHit>,
    ) -> Result<()> {
        if !self.filter.may_contain(hash) {
            return Ok(());
        }
        let mut iter = self.iter(ReadMode::Cached);
        iter.seek(key, snapshot)?;
        while iter.valid() && iter.entry().key == key {
            let Entry { seq, kind, repeat, value, .. } = iter.entry();
            out.push(IndexHit { seq, kind, repeat, value: Bytes::copy_from_slice(value) });
            iter.next()?;
        }
        Ok(())
    }

    #[inline]
    fn cached_block(&self, reach: Reach, handle: BlockHandle) -> Result<Block> {
        match self.cache.get(self.meta.number, handle.offset) {
            Some(block) => Ok(block),
            None => self.load_block(reach, handle),
        }
    }

    #[cold]
    fn load_block(&self, reach: Reach, handle: BlockHandle) -> Result<Block> {
        let block = StoredBlocks { reach, ..self.source() }.block(handle)?;
        self.cache.insert(self.meta.number, handle.offset, block.clone());
        Ok(block)
    }

    /// Whether the middle of the table is in memory: an estimate of whether most of it is.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.file.is_in_memory(self.index.data_end() / 2)
    }

    /// A key behind about half of the blocks.
    pub(crate) fn middle_key(&self) -> Vec<u8> {
        self.index.separator(self.index.len().saturating_sub(1) / 2)
    }

    /// An iterator over all entries, not positioned yet.
    pub fn iter(self: &Arc<Self>, mode: ReadMode) -> TableIter {
        TableIter {
            table: Arc::clone(self),
            at: 0,
            data: BlockIter::default(),
            reader: BlockReader::new(mode),
            error: None,
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.cache.unpin(self.pinned());
    }
}

/// Reads and checks stored blocks of one file.
struct StoredBlocks<'a> {
    file: &'a dyn File,
    name: Name,
    identity: FileIdentity,
    reach: Reach,
}

impl<'a> StoredBlocks<'a> {
    fn new(file: &'a dyn File, name: Name, identity: FileIdentity) -> Self {
        Self { file, name, identity, reach: Reach::Device }
    }

    #[cold]
    fn fact(&self, error: Error, offset: u64) -> Error {
        error.with("file", self.name).with("offset", offset)
    }

    #[cold]
    fn io(&self, doing: &str, cause: std::io::Error, offset: u64) -> Error {
        if cause.kind() == std::io::ErrorKind::UnexpectedEof {
            return self.fact(Error::corruption("table ends inside a block"), offset);
        }
        self.fact(self.reach.failed(doing, cause), offset)
    }

    /// The footer, and the length of the file.
    fn footer(&self) -> Result<(Footer, u64)> {
        let size = self.file.len().map_err(|e| self.io("measure a table", e, 0))?;
        let at = size.checked_sub(FOOTER_LEN as u64).ok_or_else(|| {
            Error::corruption("table is shorter than its footer").with("file", self.name)
        })?;
        let footer = Footer::decode(&self.read(at, FOOTER_LEN)?, self.identity, at);
        Ok((footer.map_err(|e| self.fact(e, at))?, size))
    }

    fn filter(&self, footer: &Footer) -> Result<BloomFilter> {
        let Footer { filter, .. } = *footer;
        BloomFilter::decode(&self.stored_block(filter)?).map_err(|e| self.fact(e, filter.offset))
    }

    fn index(&self, footer: &Footer) -> Result<TableIndex> {
        let Footer { filter, index, .. } = *footer;
        TableIndex::unpack(self.block(index)?, filter.offset)
            .map_err(|e| self.fact(e, index.offset))
    }

    fn properties(&self, footer: &Footer, size: u64) -> Result<TableMeta> {
        let Footer { properties, .. } = *footer;
        let bytes = self.stored_block(properties)?;
        let mut cursor = Cursor::new(&bytes, "table properties");
        TableMeta::decode_properties(self.name.number(), size, &mut cursor)
            .and_then(|meta| cursor.end().map(|()| meta))
            .map_err(|e| self.fact(e, properties.offset))
    }

    fn read(&self, offset: u64, len: usize) -> Result<Bytes> {
        let mut bytes = vec![0; len];
        read_exact_within(self.reach, self.file, &mut bytes, offset)
            .map_err(|e| self.io("read a table", e, offset))?;
        Ok(bytes.into())
    }

    fn stored_block(&self, handle: BlockHandle) -> Result<Bytes> {
        self.open_block(self.read(handle.offset, handle.stored_len())?, handle)
    }

    fn open_block(&self, stored: Bytes, handle: BlockHandle) -> Result<Bytes> {
        unseal(stored, self.identity, handle.offset).map_err(|e| self.fact(e, handle.offset))
    }

    fn parse(&self, block: Bytes, handle: BlockHandle) -> Result<Block> {
        Block::parse(block).map_err(|e| self.fact(e, handle.offset))
    }

    fn block(&self, handle: BlockHandle) -> Result<Block> {
        self.parse(self.stored_block(handle)?, handle)
    }
}

/// Iterates over one table, in both directions.
pub struct TableIter {
    table: Arc<Table>,
    /// Index of the current block, which `data` iterates over.
    at: usize,
    data: BlockIter,
    reader: BlockReader,
    /// The first error; the iterator stays invalid and repeats it.
    error: Option<Error>,
}

impl TableIter {
    /// Moves to block `at`; false if there is no such block.
    fn enter(&mut self, at: usize) -> Result<bool> {
        self.data.invalidate();
        if at >= self.table.index.len() {
            return Ok(false);
        }
        let block = self.reader.fetch(&self.table, self.table.index.handle(at))?;
        self.data.reset(block);
        self.at = at;
        Ok(true)
    }

    /// The error that stopped the walk, if one did.
    #[inline]
    fn status(&self) -> Result<()> {
        self.error.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Runs one movement, unless an earlier one failed; keeps the error if this one fails.
    fn run(&mut self, movement: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.status()?;
        movement(self).map_err(|error| self.fail(error))
    }

    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        // Errors of the block decoder have neither file nor offset.
        let error = match error.fact("file") {
            Some(_) => error,
            None => self.table.source().fact(error, self.table.index.handle(self.at).offset),
        };
        self.data.invalidate();
        self.error = Some(error.clone());
        error
    }

    fn first_of(&mut self, at: usize) -> Result<()> {
        if self.enter(at)? { self.data.seek_first() } else { Ok(()) }
    }

    fn last_of(&mut self, at: usize) -> Result<()> {
        if self.enter(at)? { self.data.seek_last() } else { Ok(()) }
    }

    fn last_before(&mut self, at: usize) -> Result<()> {
        match at.checked_sub(1) {
            Some(before) => self.last_of(before),
            None => Ok(()),
        }
    }

    fn seek_inner(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let at = self.table.index.find(key, seq);
        if self.enter(at)? {
            self.data.seek(key, seq)?;
            // A separator may lie behind the last entry of its block.
            if !self.data.valid() {
                self.first_of(at + 1)?;
            }
        }
        Ok(())
    }
}

impl EntryIter for TableIter {
    #[inline]
    fn valid(&self) -> bool {
        self.data.valid()
    }

    #[inline]
    fn entry(&self) -> Entry<'_> {
        self.data.entry()
    }

    fn keep_value(&self) -> Bytes {
        match self.reader.mode.is_cached() {
            true => self.data.keep_value(),
            // A slice would keep the whole window.
            false => Bytes::copy_from_slice(self.entry().value),
        }
    }

    fn seek_first(&mut self) -> Result<()> {
        self.run(|iter| iter.first_of(0))
    }

    fn seek_last(&mut self) -> Result<()> {
        self.run(|iter| iter.last_before(iter.table.index.len()))
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.run(|iter| iter.seek_inner(key, seq))
    }

    fn expect_seek(&mut self, key: &[u8], seq: SeqNo) {
        if self.reader.mode == ReadMode::Cached {
            self.table.expect(key, seq);
        }
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.run(|iter| {
            iter.seek_inner(key, seq)?;
            if !iter.data.valid() {
                return iter.last_before(iter.table.index.len());
            }
            iter.data.prev()?;
            if iter.data.valid() { Ok(()) } else { iter.last_before(iter.at) }
        })
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.status()?;
        match self.data.next() {
            Ok(()) if self.data.valid() => Ok(()),
            Ok(()) => self.run(|iter| iter.first_of(iter.at + 1)),
            Err(error) => Err(self.fail(error)),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.status()?;
        match self.data.prev() {
            Ok(()) if self.data.valid() => Ok(()),
            Ok(()) => self.run(|iter| iter.last_before(iter.at)),
            Err(error) => Err(self.fail(error)),
        }
    }
}

#[cfg(test)]
mod tests;
