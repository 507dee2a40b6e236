//! Ranks of the members of long collections, which are found without a walk over all members: of
//! sorted sets by their scores; of others by their names, so that one can be drawn.
//!
//! The members of a collection in their order are cut into blocks, whose sizes are kept in memory:
//! made by a walk when a rank is asked for, and changed by each commit. They are read and
//! made under the lock of the collection's key.

use lru::LruCache;
use parking_lot::Mutex;

/// Members of a block when it is made.
pub const BLOCK_NEW: u64 = if cfg!(test) { 4 } else { 128 };

/// Members of a block from which on it is cut when it is walked.
pub const BLOCK_MAX: u64 = 2 * BLOCK_NEW;

/// Most bytes of the blocks of all collections.
const BYTES_MAX: usize = 64 << 20;

/// The place of a block among the members of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankSpot {
    /// The first name that the block may have.
    pub from: Vec<u8>,
    /// The first name of the next block, if there is one.
    pub to: Option<Vec<u8>>,
    /// Number of members in front of the block.
    pub before: u64,
    /// Number of members of the block.
    pub count: u64,
}

/// A block: the first name that it may have, and the number of its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RankBlock {
    from: Vec<u8>,
    count: u64,
}

impl RankBlock {
    /// Bytes of memory, with what an allocation costs.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.from.len() + 16
    }
}

/// The blocks of a collection, in their order. The first one begins in front of all names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankBlocks {
    blocks: Vec<RankBlock>,
    members: u64,
    /// Bytes of the blocks.
    bytes: usize,
}

impl Default for RankBlocks {
    fn default() -> Self {
        let first = RankBlock::default();
        Self { bytes: first.bytes(), blocks: vec![first], members: 0 }
    }
}

impl RankBlocks {
    /// Adds a member behind all others.
    pub fn push(&mut self, name: &[u8]) {
        if self.blocks.last().is_none_or(|last| last.count == BLOCK_NEW) {
            let block = RankBlock { from: name.to_vec(), count: 0 };
            self.bytes += block.bytes();
            self.blocks.push(block);
        }
        self.blocks.last_mut().into_iter().for_each(|last| last.count += 1);
        self.members += 1;
    }

    /// Number of members.
    pub fn members(&self) -> u64 {
        self.members
    }

    fn index_of(&self, name: &[u8]) -> usize {
        self.blocks.partition_point(|block| &*block.from <= name).saturating_sub(1)
    }

    fn spot(&self, index: usize) -> RankSpot {
        let RankBlock { from, count } = self.blocks[index].clone();
        let before = self.blocks[..index].iter().map(|block| block.count).sum();
        RankSpot {
            from,
            to: self.blocks.get(index + 1).map(|next| next.from.clone()),
            before,
            count,
        }
    }

    /// The block in which a name lies, or would.
    pub fn of_name(&self, name: &[u8]) -> RankSpot {
        self.spot(self.index_of(name))
    }

    /// The block with the member of a rank, or the last one.
    pub fn of_rank(&self, rank: u64) -> RankSpot {
        let mut before = 0;
        let index = self.blocks.iter().position(|block| {
            before += block.count;
            rank < before
        });
        self.spot(index.unwrap_or(self.blocks.len() - 1))
    }

    /// Counts members that were added under a name, or removed. Says whether that can be.
    pub fn count(&mut self, name: &[u8], change: i64) -> bool {
        let index = self.index_of(name);
        let count = self.blocks[index].count.checked_add_signed(change);
        let Some((count, members)) = count.zip(self.members.checked_add_signed(change)) else {
            return false;
        };
        (self.blocks[index].count, self.members) = (count, members);
        if count == 0 && index > 0 {
            self.bytes -= self.blocks.remove(index).bytes();
        }
        true
    }

    /// Puts the blocks of the members of a block in its place.
    fn cut(&mut self, from: &[u8], parts: Self) {
        let index = self.index_of(from);
        let Self { mut blocks, members, .. } = parts;
        blocks[0].from = from.to_vec();
        self.members = self.members - self.blocks[index].count + members;
        self.blocks.splice(index..=index, blocks);
        self.bytes = self.blocks.iter().map(RankBlock::bytes).sum();
    }
}

/// The blocks of collections, by the ids of these.
pub struct Ranks(Mutex<RankedSets>);

struct RankedSets {
    sets: LruCache<u64, RankBlocks>,
    /// Bytes of all blocks.
    bytes: usize,
}

impl Default for Ranks {
    fn default() -> Self {
        Self(Mutex::new(RankedSets { sets: LruCache::unbounded(), bytes: 0 }))
    }
}

impl RankedSets {
    /// Has `change` change the blocks of a collection; without its answer they are dropped.
    fn change(&mut self, id: u64, change: impl FnOnce(&mut RankBlocks) -> bool) {
        let Some(blocks) = self.sets.peek_mut(&id) else { return };
        let before = blocks.bytes;
        let is_kept = change(blocks);
        self.bytes = self.bytes - before + blocks.bytes;
        if !is_kept {
            self.drop_set(id);
        }
    }

    fn drop_set(&mut self, id: u64) {
        if let Some(blocks) = self.sets.pop(&id) {
            self.bytes -= blocks.bytes;
        }
    }
}

impl Ranks {
    /// What `ask` makes of the blocks of a collection, if they are kept.
    pub fn ask<T>(&self, id: u64, ask: impl FnOnce(&RankBlocks) -> T) -> Option<T> {
        self.0.lock().sets.get(&id).map(ask)
    }

    /// Keeps the blocks of a collection.
    pub fn keep(&self, id: u64, blocks: RankBlocks) {
        let mut all = self.0.lock();
        all.drop_set(id);
        all.bytes += blocks.bytes;
        all.sets.push(id, blocks);
        while all.bytes > BYTES_MAX
            && let Some((_, least)) = all.sets.pop_lru()
        {
            all.bytes -= least.bytes;
        }
    }

    /// Puts the blocks of the members of a block in its place.
    pub fn cut(&self, id: u64, from: &[u8], parts: RankBlocks) {
        self.0.lock().change(id, |blocks| {
            blocks.cut(from, parts);
            true
        });
    }

    /// Counts members that a commit has added under their names, or removed.
    pub fn count<'a>(&self, changes: impl Iterator<Item = (u64, &'a [u8], i64)>) {
        let mut all = self.0.lock();
        for (id, name, change) in changes {
            all.change(id, |blocks| blocks.count(name, change));
        }
    }

    /// Drops the blocks of collections.
    pub fn forget(&self, ids: impl Iterator<Item = u64>) {
        let mut all = self.0.lock();
        ids.for_each(|id| all.drop_set(id));
    }
}
