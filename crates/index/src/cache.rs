//! BlockCache: the memory that all tables share, under one budget.
//!
//! The budget covers two kinds of memory: cached blocks, which are evicted, and *pinned* bytes
//! (filters and indexes of open tables), which have a bound of their own (`open_tables`). Pinned
//! bytes reduce the capacity for blocks.
//!
//! Invariants: blocks and pinned bytes together stay within the budget as long as the pinned bytes
//! leave `BLOCKS_MIN` to blocks; a block up to the capacity of a shard is never refused; eviction
//! depends on the calls alone, not on a random seed (design, invariant 14).

use std::hash::BuildHasherDefault;

use cleavedb_base::FileNumber;
use cleavedb_base::look_ups::LookUps;
use cleavedb_base::number_hasher::NumberHasher;
use cleavedb_base::sync::Mutex;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::block::Block;

/// Least initial capacity of a shard, in bytes. A shard refuses larger blocks.
const SHARD_BYTES_MIN: u64 = 16 << 20;

/// Capacity that remains for blocks however much is pinned, in bytes.
const BLOCKS_MIN: u64 = 1 << 20;

/// Most shards: with more, threads no longer wait mainly for their locks.
const SHARDS_MAX: u64 = 64;

/// The cache's own overhead per block, in bytes: key, hash table, list links, handle.
const OVERHEAD: u64 = 160;

type Key = (FileNumber, u64);

#[derive(Clone)]
struct BlockBytes;

impl Weighter<Key, Block> for BlockBytes {
    fn weight(&self, _: &Key, block: &Block) -> u64 {
        block.memory() as u64 + OVERHEAD
    }
}

type Blocks = Cache<Key, Block, BlockBytes, BuildHasherDefault<NumberHasher>>;

/// Counters and memory of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Look-ups that found their block.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Memory of cached blocks, in bytes.
    pub block_bytes: u64,
    /// Memory of filters and indexes of open tables, in bytes.
    pub pinned_bytes: u64,
}

/// Most bytes that are read ahead of a scan, by default.
pub const READ_AHEAD: usize = 512 << 10;

/// Cache of blocks, shared by all tables of a database.
pub struct BlockCache {
    blocks: Blocks,
    budget: u64,
    read_ahead: usize,
    pinned: Mutex<u64>,
    pinned_max: u64,
    look_ups: LookUps,
}

impl BlockCache {
    /// A cache that holds `budget` bytes in all, at least 1 MiB.
    pub fn new(budget: u64) -> Self {
        let budget = budget.max(BLOCKS_MIN);
        // The greatest power of two that leaves every shard its least capacity.
        let shards = 1 << (budget / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX).ilog2();
        let options = OptionsBuilder::new()
            .shards(shards)
            .weight_capacity(budget)
            .estimated_items_capacity((budget / 4096) as usize)
            .build()
            .expect("capacity and number of items are set");
        let hasher = BuildHasherDefault::default();
        let blocks = Blocks::with_options(options, BlockBytes, hasher, DefaultLifecycle::default());
        let (pinned, look_ups) = (Mutex::new(0), LookUps::default());
        let pinned_max = u64::MAX;
        Self { blocks, budget, read_ahead: READ_AHEAD, pinned, pinned_max, look_ups }
    }

    /// The same, with at most `read_ahead` bytes of a table read ahead of a scan that fills the
    /// cache; with 0 each block is read when it is needed.
    #[must_use]
    pub fn reading_ahead(self, read_ahead: usize) -> Self {
        Self { read_ahead, ..self }
    }

    /// The same, with at most `pinned_max` bytes of filters and indexes, or those of one table if
    /// that is more: beyond that, tables that were not read lately are closed. Without this call
    /// there is no bound.
    #[must_use]
    pub fn pinning(self, pinned_max: u64) -> Self {
        Self { pinned_max, ..self }
    }

    /// Most bytes of filters and indexes of open tables.
    pub(crate) fn pinned_max(&self) -> u64 {
        self.pinned_max
    }

    /// Most bytes of a table that are read ahead.
    #[inline]
    pub(crate) fn read_ahead(&self) -> usize {
        self.read_ahead
    }

    /// The block at `offset` of table `file`.
    #[inline]
    pub(crate) fn get(&self, file: FileNumber, offset: u64) -> Option<Block> {
        let found = self.blocks.get(&(file, offset));
        self.look_ups.count(offset >> 12, found.is_some());
        found
    }

    /// Whether the block at `offset` of table `file` is cached; not counted as a look-up.
    pub(crate) fn holds(&self, file: FileNumber, offset: u64) -> bool {
        self.blocks.contains_key(&(file, offset))
    }

    /// Caches the block at `offset` of table `file`, which must not share its memory.
    pub(crate) fn insert(&self, file: FileNumber, offset: u64, block: Block) {
        self.blocks.insert((file, offset), block);
    }

    /// Counts `bytes` as pinned, until [`BlockCache::unpin`].
    pub(crate) fn pin(&self, bytes: u64) {
        self.change_pinned(|pinned| pinned + bytes);
    }

    /// Releases `bytes` of pinned memory.
    pub(crate) fn unpin(&self, bytes: u64) {
        self.change_pinned(|pinned| pinned.saturating_sub(bytes));
    }

    fn change_pinned(&self, change: impl FnOnce(u64) -> u64) {
        // The lock covers both steps, so that the later of two changes sets the capacity.
        let mut pinned = self.pinned.lock();
        *pinned = change(*pinned);
        self.blocks.set_capacity(self.budget.saturating_sub(*pinned).max(BLOCKS_MIN));
    }

    /// Counters and memory of the cache now.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.look_ups.hits(),
            misses: self.look_ups.misses(),
            block_bytes: self.blocks.weight(),
            pinned_bytes: *self.pinned.lock(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use cleavedb_base::EntryKind;

    use crate::block::BlockBuilder;
    use crate::entry::Entry;

    fn block(len: usize) -> Block {
        let mut builder = BlockBuilder::new(16);
        let (kind, value) = (EntryKind::Inline, &vec![7; len][..]);
        builder.add(&Entry { key: b"key", seq: 1, kind, repeat: false, value });
        Block::parse(Bytes::copy_from_slice(builder.finish(0))).unwrap()
    }

    #[test]
    fn blocks_and_pinned_bytes_share_one_budget() {
        let cache = BlockCache::new(64 << 20);
        for i in 0..20_000 {
            cache.insert(FileNumber(1), i * 4096, block(4096));
        }
        assert!(cache.stats().block_bytes > 60 << 20);
        cache.pin(32 << 20);
        let stats = cache.stats();
        assert!(stats.block_bytes + stats.pinned_bytes <= 64 << 20, "{stats:?}");
        cache.unpin(32 << 20);
        for i in 0..20_000 {
            cache.insert(FileNumber(1), i * 4096, block(4096));
        }
        assert!(cache.stats().block_bytes > 60 << 20, "the capacity comes back");
    }

    #[test]
    fn large_blocks_are_admitted_and_look_ups_counted() {
        let cache = BlockCache::new(256 << 20);
        cache.insert(FileNumber(3), 0, block(12 << 20));
        assert!(cache.get(FileNumber(3), 0).is_some());
        assert!(cache.get(FileNumber(3), 1).is_none() && cache.get(FileNumber(4), 0).is_none());
        let stats = cache.stats();
        assert_eq!((stats.hits, stats.misses), (1, 2));
    }
}
