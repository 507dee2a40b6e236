//! The hot index: from the hash of a hot key to the place of its record, with its heat.

use crate::shard::Shard;
use crate::slot::Slot;
use crate::table::HotTable;

/// Bits of a hash that select a shard, its highest.
const SHARD_BITS: u32 = 6;

/// Number of shards.
pub(crate) const SHARDS: usize = 1 << SHARD_BITS;

/// Buckets of a new shard.
const FIRST_BUCKETS: usize = 4;

/// Hot index (HoaKV, section 3.3): all hot keys by their hashes, in memory.
///
/// From some thousand entries on it takes 8.4 to 9.8 bytes an entry, unless entries were removed.
/// There are 64 shards by hash. Readers of a shard share a lock, and wait for a writer only while
/// it stores its change. Writers of a shard take turns.
///
/// The index has no keys: a caller tells by `is` whether a place holds the record of its key. A
/// place occurs once, and callers insert a key once; keys may have the same hash.
///
/// `is` and `hash_of` are called under locks of the shard and must not call the index. The writer
/// of the shard waits for `is`, and later readers for that writer, so `is` should not use a device.
///
/// A shard that is 95% full grows by an eighth. It never shrinks: what is removed leaves room for
/// other entries.
pub struct HotIndex {
    shards: Box<[Shard]>,
}

impl Default for HotIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl HotIndex {
    /// An index without entries.
    pub fn new() -> Self {
        let shard = |_| Shard::new(HotTable::new(FIRST_BUCKETS));
        Self { shards: (0..SHARDS).map(shard).collect() }
    }

    /// The place of a key with this hash, for which `is` holds. Candidates have the same tag, which
    /// one place in 65,535 of other keys has too.
    pub fn find(&self, hash: u64, is: impl Fn(Slot) -> bool) -> Option<Slot> {
        self.shard(hash).find(hash, is)
    }

    /// As [`HotIndex::find`], and adds one access to the entry's heat, up to 255. An access
    /// that is counted while the shard grows may be lost.
    pub fn touch(&self, hash: u64, is: impl Fn(Slot) -> bool) -> Option<Slot> {
        self.shard(hash).touch(hash, is)
    }

    /// Accesses of the entry of this hash and place, as far as they are counted and not halved.
    pub fn heat(&self, hash: u64, slot: Slot) -> Option<u8> {
        self.shard(hash).heat(hash, slot)
    }

    /// Adds an entry. `hash_of` yields the hash of any entry's key: in a full bucket an entry may
    /// have to move, and the shard may have to grow.
    pub fn insert(&self, hash: u64, slot: Slot, heat: u8, hash_of: &dyn Fn(Slot) -> u64) {
        self.shard(hash).insert(hash, slot, heat, hash_of);
    }

    /// Gives an entry another place; it keeps its heat. `false` if there is none.
    pub fn move_to(&self, hash: u64, from: Slot, to: Slot) -> bool {
        self.shard(hash).move_to(hash, from, to)
    }

    /// Removes an entry. `false` if there is none.
    pub fn remove(&self, hash: u64, slot: Slot) -> bool {
        self.shard(hash).remove(hash, slot)
    }

    /// Halves the heat of all entries. Readers do not wait.
    pub fn halve(&self) {
        self.shards.iter().for_each(Shard::halve);
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory, including unused places.
    pub fn memory(&self) -> usize {
        let shards = self.shards.iter().map(Shard::memory).sum::<usize>();
        size_of::<Self>() + size_of_val(&*self.shards) + shards
    }

    /// Gives a shard a table that was filled elsewhere.
    pub(crate) fn set(&self, shard: usize, table: HotTable) {
        self.shards[shard].set(table);
    }

    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[shard_of(hash)]
    }
}

/// The number of the shard of keys with this hash.
#[inline]
pub(crate) fn shard_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SHARD_BITS)) as usize
}

#[cfg(test)]
mod tests;
