//! The MemTable: a hash table that is sorted only when a scan or a flush needs the order.
//!
//! A skip list pays for order on every insert, a dozen cache misses each; most entries are looked
//! up by key or not read before the flush sorts them all. Here an insert is one
//! bucket and one append:
//!
//! * every entry is a node in an arena, in two lists: the chain of its hash bucket, and the list of
//!   all nodes, newest first;
//! * a chain is sorted by sequence number, greatest first, so the first node of a key at or below a
//!   snapshot is the answer, also when several writers insert at once;
//! * [`MemTable::iters`] sorts the entries added since the last call into a *run* and merges runs
//!   of similar size, as a binary counter does: a scan after every insert costs as much as with a
//!   skip list.
//!
//! Readers take no lock for look-ups. Nodes are written before a release store links them and are
//! never changed or freed while the table lives.

mod buckets;
mod arena;
mod sorted;

use std::sync::Arc;
use std::{iter, ptr};

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::atomic::{AtomicPtr, Ordering};
use cleavedb_base::sync::{Mutex, Plain};
use cleavedb_base::{EntryKind, SeqNo};
use cleavedb_storage::pages::{ALIGN, PagePool};
use cleavedb_storage::prefetch::prefetch;

use crate::entry::{Entry, EntryIter};
use arena::NodeArena;
use buckets::Buckets;
use sorted::{NodeRef, RunIter, SortedRuns, nodes};

/// Bytes of memory per hash bucket that the table is designed for: about the size of an entry with
/// a short key and a pointer, so chains stay about one node long.
const BYTES_PER_BUCKET: usize = 128;

/// Number of entries that a flush prefetches ahead. Sorted entries are scattered in the arena:
/// without this, cache misses take a third of a flush's time.
const PREFETCH_AHEAD: usize = 16;

/// Fixed part of an entry in the arena; key and value bytes follow it.
pub(in crate::memtable) struct Node {
    /// Next node of the hash chain.
    next: AtomicPtr<Node>,
    /// Next older node of the list of all nodes.
    older: AtomicPtr<Node>,
    /// The bytes behind the links: the rest of the node, key and value.
    rest: Plain,
    seq_kind: u64,
    hash: u32,
    key_len: u32,
    value_len: u32,
}

const NODE_LEN: usize = size_of::<Node>();

/// Memory that an entry takes, in bytes, with a tree key and a value of these lengths, once it was
/// sorted.
pub const fn entry_memory(key_len: usize, value_len: usize) -> usize {
    (NODE_LEN + key_len + value_len).next_multiple_of(ALIGN) + size_of::<NodeRef>()
}

const _: () = assert!(align_of::<Node>() <= ALIGN, "the arena aligns nodes");

/// Ordering of links: a reader that finds a node sees all of it written.
#[inline(always)]
fn publishing() -> Ordering {
    if planted(Bug::LinkedUnordered) { Ordering::Relaxed } else { Ordering::Release }
}

/// Result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemHit<'a> {
    /// Sequence number of the version.
    pub seq: SeqNo,
    /// Tombstone, inline value or pointer.
    pub kind: EntryKind,
    /// Inline value or encoded pointer.
    pub value: &'a [u8],
}

/// Fields that every insert writes, on a cache line of their own: on the line of fields that
/// inserts only read they would cost concurrent writers another miss each.
#[repr(align(64))]
struct Tail {
    /// The node linked last.
    newest: AtomicPtr<Node>,
}

/// The youngest entries of the index, in memory.
pub struct MemTable {
    buckets: Buckets,
    arena: NodeArena,
    tail: Tail,
    sorted: Mutex<SortedRuns>,
}

impl MemTable {
    /// An empty table designed for about `budget` bytes of memory; beyond that it works with longer
    /// chains.
    pub fn new(budget: usize) -> Self {
        Self::sized_for(budget, budget, None)
    }

    /// Pool of memory that MemTables of this budget reuse: returning it to the system and clearing
    /// it for the next table takes a twentieth of a load's processor time.
    pub fn pool(budget: usize) -> Arc<PagePool> {
        PagePool::new(arena::chunk_len(budget))
    }

    /// A MemTable for the case that no more than `expected` bytes of memory will be taken before it
    /// is full for another reason, with memory of `pool`. Where entries point to long values a
    /// table for the whole budget is mostly empty: each insert would then miss the cache.
    pub fn sized_for(budget: usize, expected: usize, pool: Option<Arc<PagePool>>) -> Self {
        let entries = expected.min(budget) / BYTES_PER_BUCKET;
        let buckets = entries.next_power_of_two().clamp(64, 1 << 24);
        Self {
            buckets: Buckets::new(buckets, pool.as_ref()),
            arena: NodeArena::new(budget, pool),
            tail: Tail { newest: AtomicPtr::new(ptr::null_mut()) },
            sorted: Mutex::new(SortedRuns::default()),
        }
    }

    /// Memory taken from the system for entries and buckets, in bytes.
    pub fn memory(&self) -> usize {
        self.buckets.memory() + self.arena.allocated()
    }

    /// Memory of entries, in bytes; memory allocated ahead for further ones does not count.
    pub fn used(&self) -> usize {
        self.arena.used()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.tail.newest.load(Ordering::Acquire).is_null()
    }

    /// Estimated number of entries that fit the memory that it takes. Entries are not counted:
    /// concurrent writers would contend for the cache line of a counter.
    pub fn capacity(&self) -> usize {
        self.memory() / BYTES_PER_BUCKET
    }

    /// Prefetches the memory that an insert or a look-up of this hash needs first.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch::<AtomicPtr<Node>>(self.buckets.of(hash));
    }

    /// Inserts one version. `hash` is `hash64(key, 0)`; `value` is the parts of the inline value or
    /// encoded pointer. Several threads may insert at once; (`key`, `seq`) pairs are unique.
    pub fn insert(&self, key: &[u8], hash: u64, seq: SeqNo, kind: EntryKind, value: &[u8]) {
        let bucket = self.buckets.of(hash);
        // The head's sequence number is needed below; it is fetched while the node is written.
        prefetch(bucket.load(Ordering::Relaxed));
        let node = self.arena.alloc(NODE_LEN + key.len() + value.len()).cast::<Node>();
        // SAFETY: the arena returns fresh memory of this length, aligned to 8, that no other thread
        // can access before it is linked below.
        unsafe {
            node.write(Node {
                next: AtomicPtr::new(ptr::null_mut()),
                older: AtomicPtr::new(ptr::null_mut()),
                rest: Plain::default(),
                seq_kind: seq << 8 | kind as u64,
                hash: (hash >> 32) as u32,
                key_len: key.len() as u32,
                value_len: value.len() as u32,
            });
            let bytes = node.cast::<u8>().add(NODE_LEN);
            ptr::copy_nonoverlapping(key.as_ptr(), bytes, key.len());
            ptr::copy_nonoverlapping(value.as_ptr(), bytes.add(key.len()), value.len());
            (*node).rest.written();
        }
        self.link_newest(node);
        self.link_chain(bucket, node);
    }

    fn link_newest(&self, node: *mut Node) {
        let mut head = self.tail.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: `node` is initialised and not shared yet through this list.
            unsafe { (*node).older.store(head, Ordering::Relaxed) };
            match self.tail.newest.compare_exchange_weak(
                head,
                node,
                publishing(),
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Links `node` into a chain behind all nodes of greater sequence number.
    fn link_chain(&self, bucket: &AtomicPtr<Node>, node: *mut Node) {
        // SAFETY: linked nodes are initialised and live as long as the table.
        let seq_of = |n: *mut Node| unsafe { NodeRef::new(n).seq_kind() };
        let seq = seq_of(node);
        let mut link = bucket;
        let mut next = link.load(Ordering::Acquire);
        loop {
            while !next.is_null() && seq_of(next) > seq {
                // SAFETY: as in `seq_of`.
                link = unsafe { &(*next).next };
                next = link.load(Ordering::Acquire);
            }
            // SAFETY: `node` is initialised; no reader can reach its `next` before the exchange
            // below.
            unsafe { (*node).next.store(next, Ordering::Relaxed) };
            if planted(Bug::LinkedWithoutExchange) {
                return link.store(node, Ordering::Release);
            }
            match link.compare_exchange_weak(next, node, publishing(), Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => next = now,
            }
        }
    }

    /// The newest version of `key` at or below `snapshot`. `hash` is `hash64(key, 0)`.
    #[inline]
    pub fn get(&self, key: &[u8], hash: u64, snapshot: SeqNo) -> Option<MemHit<'_>> {
        self.versions(key, hash, snapshot).next()
    }

    /// The versions of `key` at or below `snapshot`, newest first. `hash` is `hash64(key, 0)`.
    #[inline]
    pub fn versions<'t>(
        &'t self,
        key: &[u8],
        hash: u64,
        snapshot: SeqNo,
    ) -> impl Iterator<Item = MemHit<'t>> {
        let mut at = self.buckets.of(hash).load(Ordering::Acquire);
        let tag = (hash >> 32) as u32;
        iter::from_fn(move || {
            while !at.is_null() {
                // SAFETY: linked nodes are initialised and live as long as the table.
                let node = unsafe { NodeRef::new(at) };
                at = node.next_in_chain();
                if node.hash() == tag && node.seq() <= snapshot && node.key() == key {
                    return Some(MemHit {
                        seq: node.seq(),
                        kind: node.kind(),
                        value: node.value(),
                    });
                }
            }
            None
        })
    }

    /// Calls `visit` with all entries, in no order, if there are `most` or fewer; else with those
    /// of every n-th hash bucket, of `most` buckets or fewer. Returns n, 1 for all: each entry
    /// stands for as many. Hashes spread any range of keys evenly.
    pub fn sample(&self, most: usize, mut visit: impl FnMut(&Entry<'_>)) -> u64 {
        let newest = self.tail.newest.load(Ordering::Acquire);
        let first: Vec<NodeRef> = nodes(newest, ptr::null()).take(most.saturating_add(1)).collect();
        if first.len() <= most {
            first.iter().for_each(|node| visit(&node.entry()));
            return 1;
        }
        let step = self.buckets.count().div_ceil(most.max(1));
        for bucket in (0..self.buckets.count()).step_by(step) {
            let mut at = self.buckets.of(bucket as u64).load(Ordering::Acquire);
            while !at.is_null() {
                // SAFETY: linked nodes are initialised and live as long as the table.
                let node = unsafe { NodeRef::new(at) };
                visit(&node.entry());
                at = node.next_in_chain();
            }
        }
        step as u64
    }

    /// Iterators over disjoint sets of entries that together hold every entry inserted before this
    /// call.
    pub fn iters(self: &Arc<Self>) -> Vec<Box<dyn EntryIter>> {
        let runs = self.sorted.lock().refresh(self.tail.newest.load(Ordering::Acquire));
        runs.into_iter().map(|run| Box::new(RunIter::new(self.clone(), run)) as _).collect()
    }

    /// Sorts all inserted entries, so that the next ordered read need not.
    pub fn sort(&self) {
        self.sorted.lock().refresh_to_one(self.tail.newest.load(Ordering::Acquire));
    }

    /// Every entry in index order, for a flush: there may be no more inserts.
    pub fn for_each_sorted<'a, E>(
        &'a self,
        mut visit: impl FnMut(Entry<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let run = self.sorted.lock().refresh_to_one(self.tail.newest.load(Ordering::Acquire));
        run.iter().enumerate().try_for_each(|(i, node)| {
            if let Some(later) = run.get(i + PREFETCH_AHEAD) {
                later.prefetch();
            }
            visit(node.entry())
        })
    }
}

#[cfg(all(test, feature = "test-loom"))]
mod loom_tests;
#[cfg(test)]
mod tests;
