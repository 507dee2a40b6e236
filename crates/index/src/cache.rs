//! BlockCache: the memory that all tables share, under one budget.
//!
//! The budget covers two kinds of memory: cached blocks, which are evicted, and *pinned* bytes
//! (filters and indexes of open tables), which have a bound of their own (`open_tables`). Pinned
//! bytes reduce the capacity for blocks.
//!
//! Several databases may share the memory. Each has a number then, which stands in the keys of its
//! blocks above the offsets.
//!
//! Invariants: blocks and pinned bytes together stay within the budget as long as the pinned bytes
//! leave `BLOCKS_MIN` to blocks; a block up to the capacity of a shard is never refused; eviction
//! depends on the calls alone, not on a random seed.

use std::collections::BTreeMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Weak};

use cleavedb_base::FileNumber;
use cleavedb_base::look_ups::LookUps;
use cleavedb_base::number_hasher::NumberHasher;
use cleavedb_base::planted::{Bug, planted};
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

/// Bits of an offset in a table; a longer one is not cached where several databases share memory,
/// since the bits above tell them apart.
const OFFSET_BITS: u32 = 40;

/// Part of shared memory for filters and indexes of open tables, as a fraction.
const PINNED_PART: (u64, u64) = (3, 4);

/// Filters and indexes of the open tables of one database.
pub(crate) trait Pins: Send + Sync {
    /// Closes tables until the others take at most `most` bytes.
    fn shrink_to(&self, most: u64);
}

/// The memory of a cache, or of the caches of several databases that share it.
pub struct BlockMemory {
    blocks: Blocks,
    budget: u64,
    pinned: Mutex<u64>,
    sharing: Mutex<Sharing>,
}

/// Who shares the memory. A cache that has it for itself does not count.
#[derive(Default)]
struct Sharing {
    /// The number that the next cache gets if none is free; the first is 1.
    last: u64,
    /// Numbers of caches that are gone.
    free: Vec<u64>,
    caches: BTreeMap<u64, Option<Weak<dyn Pins>>>,
}

impl BlockMemory {
    /// Memory of `budget` bytes in all, at least 1 MiB.
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
        Self { blocks, budget, pinned: Mutex::new(0), sharing: Mutex::default() }
    }

    /// Memory of cached blocks, filters and indexes, in bytes.
    pub fn used(&self) -> u64 {
        self.blocks.weight() + *self.pinned.lock()
    }

    fn change_pinned(&self, change: impl FnOnce(u64) -> u64) {
        // The lock covers both steps, so that the later of two changes sets the capacity.
        let mut pinned = self.pinned.lock();
        *pinned = change(*pinned);
        self.blocks.set_capacity(self.budget.saturating_sub(*pinned).max(BLOCKS_MIN));
    }
}

/// Cache of blocks, shared by all tables of a database.
pub struct BlockCache {
    memory: Arc<BlockMemory>,
    /// The number of the cache among those that share the memory; 0 if it has it for itself.
    number: u64,
    read_ahead: usize,
    pinned_max: u64,
    tables_max: usize,
    look_ups: LookUps,
}

impl Drop for BlockCache {
    fn drop(&mut self) {
        if self.number == 0 {
            return;
        }
        // The number may be given out again only when none of its blocks is left.
        self.memory.blocks.retain(|(_, place), _| place >> OFFSET_BITS != self.number);
        let mut sharing = self.memory.sharing.lock();
        sharing.caches.remove(&self.number);
        sharing.free.push(self.number);
    }
}

impl BlockCache {
    /// A cache that holds `budget` bytes in all, at least 1 MiB.
    pub fn new(budget: u64) -> Self {
        Self::over(Arc::new(BlockMemory::new(budget)), 0)
    }

    /// A cache in the memory that others have, too: it finds only what it has cached itself.
    pub fn sharing(memory: &Arc<BlockMemory>) -> Self {
        let number = {
            let mut sharing = memory.sharing.lock();
            let number = sharing.free.pop().unwrap_or(sharing.last + 1);
            sharing.last = sharing.last.max(number);
            sharing.caches.insert(number, None);
            number
        };
        Self::over(Arc::clone(memory), number)
    }

    fn over(memory: Arc<BlockMemory>, number: u64) -> Self {
        let look_ups = LookUps::default();
        let (pinned_max, tables_max) = (u64::MAX, usize::MAX);
        Self { memory, number, read_ahead: READ_AHEAD, pinned_max, tables_max, look_ups }
    }

    /// The cache with at most `read_ahead` bytes of a table read ahead of a scan that fills the
    /// cache; with 0 each block is read when it is needed.
    #[must_use]
    pub fn reading_ahead(mut self, read_ahead: usize) -> Self {
        self.read_ahead = read_ahead;
        self
    }

    /// The cache with at most `pinned_max` bytes of filters and indexes, or those of one table if
    /// that is more: beyond that, tables that were not read lately are closed. Without this call
    /// there is no bound.
    #[must_use]
    pub fn pinning(mut self, pinned_max: u64) -> Self {
        self.pinned_max = pinned_max;
        self
    }

    /// The cache with at most `tables_max` open tables, however little memory they take; without
    /// the call there is no bound.
    #[must_use]
    pub fn opening(mut self, tables_max: usize) -> Self {
        self.tables_max = tables_max;
        self
    }

    /// Most open tables of a database.
    pub(crate) fn tables_max(&self) -> usize {
        self.tables_max
    }

    /// Says whose filters and indexes are pinned, so that the caches that share the memory can have
    /// some of them closed.
    pub(crate) fn pins(&self, pins: Weak<dyn Pins>) {
        if let Some(own) = self.memory.sharing.lock().caches.get_mut(&self.number) {
            *own = Some(pins);
        }
    }

    /// Most bytes of filters and indexes of the open tables of a database that has `own` bytes of
    /// them. Where memory is shared, that is an equal part for each, or what the others leave.
    pub(crate) fn pinned_max(&self, own: u64) -> u64 {
        if self.number == 0 {
            return self.pinned_max;
        }
        let (all, part) = self.shared_pins();
        let others = self.memory.pinned.lock().saturating_sub(own);
        part.max(all.saturating_sub(others))
    }

    /// Most bytes of filters and indexes in shared memory, and the part of each database.
    fn shared_pins(&self) -> (u64, u64) {
        let caches = self.memory.sharing.lock().caches.len().max(1) as u64;
        let all = self.memory.budget / PINNED_PART.1 * PINNED_PART.0;
        (all, all / caches)
    }

    /// Where memory is shared and too much of it is pinned, has those close tables that have more
    /// than their part. The caller holds no lock.
    pub(crate) fn shrink_others(&self) {
        if self.number == 0 {
            return;
        }
        let (all, part) = self.shared_pins();
        if *self.memory.pinned.lock() <= all {
            return;
        }
        let others: Vec<Arc<dyn Pins>> = {
            let sharing = self.memory.sharing.lock();
            let others = sharing.caches.iter().filter(|(number, _)| **number != self.number);
            others.filter_map(|(_, pins)| pins.as_ref()?.upgrade()).collect()
        };
        others.iter().for_each(|pins| pins.shrink_to(part));
    }

    /// The key of the block at `offset` of table `file`; `None` if it cannot be cached.
    #[inline]
    fn key(&self, file: FileNumber, offset: u64) -> Option<Key> {
        if self.number == 0 || planted(Bug::CachedWithoutDatabase) {
            return Some((file, offset));
        }
        let fits = offset >> OFFSET_BITS == 0 && self.number < 1 << (64 - OFFSET_BITS);
        fits.then_some((file, self.number << OFFSET_BITS | offset))
    }

    /// Most bytes of a table that are read ahead.
    #[inline]
    pub(crate) fn read_ahead(&self) -> usize {
        self.read_ahead
    }

    /// The block at `offset` of table `file`.
    #[inline]
    pub(crate) fn get(&self, file: FileNumber, offset: u64) -> Option<Block> {
        let found = self.key(file, offset).and_then(|key| self.memory.blocks.get(&key));
        self.look_ups.count(offset >> 12, found.is_some());
        found
    }

    /// Whether the block at `offset` of table `file` is cached; not counted as a look-up.
    pub(crate) fn holds(&self, file: FileNumber, offset: u64) -> bool {
        self.key(file, offset).is_some_and(|key| self.memory.blocks.contains_key(&key))
    }

    /// Caches the block at `offset` of table `file`, which must not share its memory.
    pub(crate) fn insert(&self, file: FileNumber, offset: u64, block: Block) {
        if let Some(key) = self.key(file, offset) {
            self.memory.blocks.insert(key, block);
        }
    }

    /// Counts `bytes` as pinned, until [`BlockCache::unpin`].
    pub(crate) fn pin(&self, bytes: u64) {
        self.memory.change_pinned(|pinned| pinned + bytes);
    }

    /// Releases `bytes` of pinned memory.
    pub(crate) fn unpin(&self, bytes: u64) {
        self.memory.change_pinned(|pinned| pinned.saturating_sub(bytes));
    }

    /// Counters of the cache, and its memory now: all of it, if others share it.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.look_ups.hits(),
            misses: self.look_ups.misses(),
            block_bytes: self.memory.blocks.weight(),
            pinned_bytes: *self.memory.pinned.lock(),
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
    fn caches_that_share_memory_find_their_own_blocks_only() {
        let memory = Arc::new(BlockMemory::new(1 << 20));
        let (one, two) = (BlockCache::sharing(&memory), BlockCache::sharing(&memory));
        one.insert(FileNumber(7), 0, block(100));
        assert!(one.get(FileNumber(7), 0).is_some() && two.get(FileNumber(7), 0).is_none());
        two.insert(FileNumber(7), 4096, block(100));
        two.insert(FileNumber(7), 1 << OFFSET_BITS, block(100));
        assert!(two.get(FileNumber(7), 1 << OFFSET_BITS).is_none(), "an offset that is no offset");
        assert_eq!((one.stats().hits, two.stats().misses), (1, 2));
        let number = one.number;
        drop(one);
        let three = BlockCache::sharing(&memory);
        assert_eq!(three.number, number, "it is given out again");
        assert!(three.get(FileNumber(7), 0).is_none() && two.get(FileNumber(7), 4096).is_some());
        for at in 0..10_000 {
            three.insert(FileNumber(at), 0, block(4096));
        }
        assert!(memory.used() <= 1 << 20);
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
