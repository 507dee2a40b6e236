//! Entries of one shard: buckets of four, chains of overflow entries, and what fits in neither.
//!
//! As in HoaKV, section 3.3, a key has [`FUNCTIONS`] buckets, which are tried from the last to the
//! first, and an entry that finds no place is chained to the last bucket, newest first. Different
//! from there: a bucket holds four entries, half a cache line; chains are searched last, since
//! most are empty; and if all buckets of a key are full, one entry of them moves to another bucket
//! of its own. Without such moves about one entry in 50 would find no place at a load of 80%, and
//! one in 20 at 95%, while all chains have [`LINK_MAX`] entries together.
//!
//! The hash of a key is cut into independent parts: the number of the shard, the tag, and what
//! selects the buckets. Keys whose hashes are alike fill their buckets and the chains at any size
//! of the table; entries beyond are *spilled* to a list that is searched as a whole, so that no
//! entry is lost whatever the hashes are.
//!
//! A place in the arena of the chains is named by its link, from 1; 0 ends a chain. The link of a
//! bucket's first word begins its chain, whether or not the word holds an entry.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

use crate::entry::PackedEntry;
use crate::slot::Slot;

/// Bits of a hash that select a bucket, its lowest. Above them are the tag and the shard.
const BUCKET_BITS: u32 = 42;

/// Entries of a bucket.
const WAYS: usize = 4;

/// Hash functions (the paper's E).
const FUNCTIONS: usize = 3;

/// Entries of all chains of a table: a link has 8 bits, and 0 is none.
const LINK_MAX: usize = u8::MAX as usize;

/// Greatest share of places that are in use, in percent; above it the table grows.
const MAX_LOAD: usize = 95;

/// Least load, in percent, at which an exhausted arena makes the table grow. Below it the hashes
/// are at fault, and more buckets would not help: the bound is on memory for them.
const MIN_LOAD: usize = 50;

/// Load, in percent, of a table that is made for a known number of entries.
const FIRST_LOAD: usize = 90;

/// A table grows by this part of its buckets, and by at least `GROWTH_MIN` buckets.
const GROWTH: usize = 8;
const GROWTH_MIN: usize = 4;

/// Odd multipliers that turn one part of a hash into the functions (Steele and Vigna,
/// "Computationally easy, spectrally good multipliers", 2022).
const MIX: [u64; 2] = [0xd134_2543_de82_ef95, 0xaf25_1af3_b0f0_25b5];

/// The tag of a key: never 0, which marks an empty word.
pub(crate) fn tag(hash: u64) -> u16 {
    ((hash >> BUCKET_BITS) as u16).max(1)
}

#[derive(Default)]
#[repr(align(32))]
struct HashBucket([AtomicU64; WAYS]);

/// A word of a table.
#[derive(Clone, Copy)]
pub(crate) enum TableWord {
    /// Of a bucket, counted over all buckets.
    Bucket(usize),
    /// Of the arena, by its link.
    Chained(u8),
    /// Of the entries that are spilled.
    Spilled(usize),
}

/// Where a new entry goes.
pub(crate) enum Insertion {
    /// To an empty word of a bucket.
    Free(usize),
    /// To a word of a bucket, whose entry moves to an empty one.
    Moved { from: usize, to: usize },
    /// To the chain of a bucket.
    Chained(usize),
    /// To the spilled entries.
    Spilled,
}

/// The entries of one shard.
///
/// Words change under a shared reference in their heat alone.
pub(crate) struct HotTable {
    buckets: Box<[HashBucket]>,
    arena: Vec<AtomicU64>,
    /// Link of the first unused place of the arena, which holds the link of the next.
    unused: u8,
    spilled: Vec<AtomicU64>,
    len: usize,
}

impl HotTable {
    /// A table without entries. `buckets` is more than 0.
    pub(crate) fn new(buckets: usize) -> Self {
        let buckets = (0..buckets).map(|_| HashBucket::default()).collect();
        Self { buckets, arena: Vec::new(), unused: 0, spilled: Vec::new(), len: 0 }
    }

    /// A table for about `keys` entries, with some room for more.
    pub(crate) fn for_keys(keys: usize) -> Self {
        Self::new((keys * 100).div_ceil(WAYS * FIRST_LOAD).max(GROWTH_MIN))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory, without the table itself.
    pub(crate) fn memory(&self) -> usize {
        let words = self.arena.capacity() + self.spilled.capacity();
        size_of_val(&*self.buckets) + words * size_of::<AtomicU64>()
    }

    /// The entry of `hash` for which `is` holds, of those with its tag.
    pub(crate) fn find(&self, hash: u64, is: impl Fn(PackedEntry) -> bool) -> Option<TableWord> {
        let tag = tag(hash);
        let is = |entry: PackedEntry| entry.tag() == tag && is(entry);
        let buckets = self.buckets_of(hash);
        for bucket in buckets {
            for word in bucket * WAYS..(bucket + 1) * WAYS {
                if is(self.entry(TableWord::Bucket(word))) {
                    return Some(TableWord::Bucket(word));
                }
            }
        }
        let mut link = self.first_link(buckets[0]);
        while link != 0 {
            let entry = self.entry(TableWord::Chained(link));
            if is(entry) {
                return Some(TableWord::Chained(link));
            }
            link = entry.link();
        }
        (0..self.spilled.len()).map(TableWord::Spilled).find(|place| is(self.entry(*place)))
    }

    /// The entry at a place; an empty one if the word has none.
    pub(crate) fn entry(&self, place: TableWord) -> PackedEntry {
        PackedEntry::from_word(self.word(place).load(Ordering::Relaxed))
    }

    /// Changes the heat at a place, unless `change` yields none.
    pub(crate) fn change(
        &self,
        place: TableWord,
        change: impl Fn(PackedEntry) -> Option<PackedEntry>,
    ) {
        let change = |word| change(PackedEntry::from_word(word)).map(PackedEntry::word);
        // An `Err` is the entry that does not change.
        let _ = self.word(place).fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }

    /// All places with an entry.
    pub(crate) fn places(&self) -> impl Iterator<Item = TableWord> {
        let buckets = (0..self.buckets.len() * WAYS).map(TableWord::Bucket);
        let chained = (1..=self.arena.len()).map(|link| TableWord::Chained(link as u8));
        let spilled = (0..self.spilled.len()).map(TableWord::Spilled);
        let all = buckets.chain(chained).chain(spilled);
        all.filter(|place| !self.entry(*place).is_empty())
    }

    /// Where an entry with `hash` goes, and whether the table must grow before that.
    pub(crate) fn plan(&self, hash: u64, hash_of: &dyn Fn(Slot) -> u64) -> Insertion {
        let buckets = self.buckets_of(hash);
        if let Some(word) = self.free_word(buckets) {
            return Insertion::Free(word);
        }
        for from in buckets.into_iter().flat_map(|bucket| bucket * WAYS..(bucket + 1) * WAYS) {
            let others = self.buckets_of(hash_of(self.entry(TableWord::Bucket(from)).slot()));
            if let Some(to) = self.free_word(others) {
                return Insertion::Moved { from, to };
            }
        }
        if self.unused != 0 || self.arena.len() < LINK_MAX {
            Insertion::Chained(buckets[0])
        } else {
            Insertion::Spilled
        }
    }

    /// Whether the table should grow before one more entry, which goes where `plan` says.
    pub(crate) fn must_grow(&self, plan: &Insertion) -> bool {
        let load = match plan {
            Insertion::Spilled => MIN_LOAD,
            _ => MAX_LOAD,
        };
        (self.len + 1) * 100 > self.buckets.len() * WAYS * load
    }

    /// Adds an entry where `plan`, of this table, says.
    pub(crate) fn put(&mut self, plan: Insertion, entry: PackedEntry) {
        self.len += 1;
        match plan {
            Insertion::Free(word) => self.set(TableWord::Bucket(word), entry),
            Insertion::Moved { from, to } => {
                self.set(TableWord::Bucket(to), self.entry(TableWord::Bucket(from)));
                self.set(TableWord::Bucket(from), entry);
            }
            Insertion::Chained(bucket) => {
                let link = self.take_unused();
                let entry = entry.with_link(self.first_link(bucket));
                self.word(TableWord::Chained(link)).store(entry.word(), Ordering::Relaxed);
                self.link_from(TableWord::Bucket(bucket * WAYS), link);
            }
            Insertion::Spilled => self.spilled.push(AtomicU64::new(entry.with_link(0).word())),
        }
    }

    /// Adds an entry; the table grows if it must.
    pub(crate) fn insert(&mut self, hash: u64, entry: PackedEntry, hash_of: &dyn Fn(Slot) -> u64) {
        let mut plan = self.plan(hash, hash_of);
        if self.must_grow(&plan) {
            *self = self.grown(hash_of);
            plan = self.plan(hash, hash_of);
        }
        self.put(plan, entry);
    }

    /// Replaces the entry at a place, which keeps its link.
    pub(crate) fn set(&mut self, place: TableWord, entry: PackedEntry) {
        let link = self.entry(place).link();
        self.word(place).store(entry.with_link(link).word(), Ordering::Relaxed);
    }

    /// Removes the entry at a place, which belongs to a key with `hash`.
    ///
    /// An entry that is chained to a bucket takes the place that becomes free there.
    pub(crate) fn remove(&mut self, hash: u64, place: TableWord) {
        self.len -= 1;
        match place {
            TableWord::Bucket(word) => {
                let first = TableWord::Bucket(word / WAYS * WAYS);
                let link = self.entry(first).link();
                if link == 0 {
                    self.set(place, PackedEntry::EMPTY);
                } else {
                    self.set(place, self.entry(TableWord::Chained(link)));
                    self.unlink(first, link);
                }
            }
            TableWord::Chained(link) => {
                self.unlink(TableWord::Bucket(self.buckets_of(hash)[0] * WAYS), link);
            }
            TableWord::Spilled(at) => {
                self.spilled.swap_remove(at);
            }
        }
    }

    /// A copy with more buckets. `hash_of` yields the hash of an entry's key.
    pub(crate) fn grown(&self, hash_of: &dyn Fn(Slot) -> u64) -> Self {
        let buckets = self.buckets.len();
        let mut grown = Self::new(buckets + (buckets / GROWTH).max(GROWTH_MIN));
        for place in self.places() {
            if planted(Bug::RehashLosesEntries) && !matches!(place, TableWord::Bucket(_)) {
                continue;
            }
            let entry = self.entry(place);
            let plan = grown.plan(hash_of(entry.slot()), hash_of);
            grown.put(plan, entry);
        }
        grown
    }

    /// Takes `link` out of the chain that begins at the word `first`.
    fn unlink(&mut self, first: TableWord, link: u8) {
        let mut before = first;
        while self.entry(before).link() != link {
            before = TableWord::Chained(self.entry(before).link());
        }
        let next = self.entry(TableWord::Chained(link)).link();
        self.link_from(before, if planted(Bug::ChainBroken) { 0 } else { next });
        let unused = PackedEntry::EMPTY.with_link(self.unused);
        self.word(TableWord::Chained(link)).store(unused.word(), Ordering::Relaxed);
        self.unused = link;
    }

    /// A place of the arena for a new entry; there is one.
    fn take_unused(&mut self) -> u8 {
        let link = self.unused;
        if link != 0 {
            self.unused = self.entry(TableWord::Chained(link)).link();
            return link;
        }
        self.arena.push(AtomicU64::new(0));
        self.arena.len() as u8
    }

    fn link_from(&mut self, place: TableWord, link: u8) {
        let entry = self.entry(place).with_link(link);
        self.word(place).store(entry.word(), Ordering::Relaxed);
    }

    fn first_link(&self, bucket: usize) -> u8 {
        self.entry(TableWord::Bucket(bucket * WAYS)).link()
    }

    fn word(&self, place: TableWord) -> &AtomicU64 {
        match place {
            TableWord::Bucket(word) => &self.buckets[word / WAYS].0[word % WAYS],
            TableWord::Chained(link) => &self.arena[usize::from(link) - 1],
            TableWord::Spilled(at) => &self.spilled[at],
        }
    }

    /// An empty word of the first of `buckets` that has one.
    fn free_word(&self, buckets: [usize; FUNCTIONS]) -> Option<usize> {
        let mut words = buckets.into_iter().flat_map(|bucket| bucket * WAYS..(bucket + 1) * WAYS);
        words.find(|word| self.entry(TableWord::Bucket(*word)).is_empty())
    }

    /// The buckets of a key, by the last function first: two slices of one mix of the hash, and one
    /// of another.
    fn buckets_of(&self, hash: u64) -> [usize; FUNCTIONS] {
        let selects = hash << (u64::BITS - BUCKET_BITS) >> (u64::BITS - BUCKET_BITS);
        let first = selects.wrapping_mul(MIX[0]);
        let first = first ^ first >> 32;
        let second = first.wrapping_mul(MIX[1]);
        let count = self.buckets.len() as u64;
        [second >> 32, first >> 32, first & 0xffff_ffff]
            .map(|slice| ((slice * count) >> 32) as usize)
    }
}

#[cfg(test)]
mod tests;
