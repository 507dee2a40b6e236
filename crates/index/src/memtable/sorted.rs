//! Order on demand: runs of node references, sorted when a scan or a flush asks for them.

use std::cmp::Ordering as Order;
use std::sync::Arc;

use cleavedb_base::sync::atomic::Ordering;
use cleavedb_base::{EntryKind, Result, SeqNo};

use cleavedb_storage::mapped::{Mapped, MappedVec, mapped_vec};
use cleavedb_storage::prefetch::prefetch;

use super::{MemTable, NODE_LEN, Node};
use crate::entry::{Entry, EntryIter};

/// A reference to a linked node; valid as long as its MemTable lives.
#[derive(Clone, Copy)]
pub(super) struct NodeRef(*const Node);

// SAFETY: nodes are immutable once linked, except for their atomic links.
unsafe impl Send for NodeRef {}
// SAFETY: as above.
unsafe impl Sync for NodeRef {}

impl NodeRef {
    /// # Safety
    /// `node` is a linked node of a MemTable that outlives every use of the reference.
    pub(super) unsafe fn new(node: *const Node) -> Self {
        Self(node)
    }

    #[inline]
    fn node(&self) -> &Node {
        // SAFETY: the contract of `new`.
        let node = unsafe { &*self.0 };
        node.rest.read();
        node
    }

    #[inline]
    pub(super) fn seq_kind(&self) -> u64 {
        self.node().seq_kind
    }

    /// Prefetches the node's memory, including its key.
    #[inline]
    pub(super) fn prefetch(&self) {
        for line in 0..2 {
            prefetch(self.0.cast::<u8>().wrapping_add(64 * line));
        }
    }

    #[inline]
    pub(super) fn hash(&self) -> u32 {
        self.node().hash
    }

    #[inline]
    pub(super) fn seq(&self) -> SeqNo {
        self.seq_kind() >> 8
    }

    pub(super) fn kind(&self) -> EntryKind {
        EntryKind::from_byte(self.seq_kind() as u8).expect("insert stored a kind")
    }

    #[inline]
    pub(super) fn key<'a>(&self) -> &'a [u8] {
        // SAFETY: `insert` wrote the key behind the node; the contract of `new` keeps it alive.
        unsafe {
            std::slice::from_raw_parts(
                self.0.cast::<u8>().add(NODE_LEN),
                self.node().key_len as usize,
            )
        }
    }

    #[inline]
    pub(super) fn value<'a>(&self) -> &'a [u8] {
        let node = self.node();
        // SAFETY: as in `key`; the value lies behind the key.
        unsafe {
            std::slice::from_raw_parts(
                self.0.cast::<u8>().add(NODE_LEN + node.key_len as usize),
                node.value_len as usize,
            )
        }
    }

    #[inline]
    pub(super) fn next_in_chain(&self) -> *mut Node {
        self.node().next.load(Ordering::Acquire)
    }

    pub(super) fn entry<'a>(&self) -> Entry<'a> {
        let (seq, kind) = (self.seq(), self.kind());
        Entry { key: self.key(), seq, kind, repeat: false, value: self.value() }
    }

    #[inline]
    fn compare(&self, key: &[u8], seq: SeqNo) -> Order {
        self.key().cmp(key).then(seq.cmp(&self.seq()))
    }
}

/// The nodes of a MemTable from `newest` on, newest first, up to the node `end`, excluded, or all.
pub(super) fn nodes(newest: *const Node, end: *const Node) -> impl Iterator<Item = NodeRef> {
    let node = move |at: *const Node| {
        // SAFETY: the list holds linked nodes of the MemTable that the caller reads.
        (at != end).then(|| unsafe { NodeRef::new(at) })
    };
    std::iter::successors(node(newest), move |last| node(last.node().older.load(Ordering::Acquire)))
}

/// One sorted run.
pub(super) type SortedRun = Arc<MappedVec<NodeRef>>;

/// The sorted runs of a MemTable, largest first, each at least twice as long as the next.
#[derive(Default)]
pub(super) struct SortedRuns {
    runs: Vec<SortedRun>,
    /// Newest node in the runs; null before the first call.
    upto: Option<NodeRef>,
}

impl SortedRuns {
    /// Adds the nodes linked up to `newest`, sorted, and returns all runs.
    pub(super) fn refresh(&mut self, newest: *const Node) -> Vec<SortedRun> {
        let fresh = self.collect_fresh(newest);
        if !fresh.is_empty() {
            self.runs.push(Arc::new(sort(fresh)));
        }
        while let [.., a, b] = &self.runs[..]
            && a.len() < 2 * b.len()
        {
            self.merge_last_two();
        }
        self.runs.clone()
    }

    /// As [`SortedRuns::refresh`], with everything in one run.
    pub(super) fn refresh_to_one(&mut self, newest: *const Node) -> SortedRun {
        self.refresh(newest);
        while self.runs.len() > 1 {
            self.merge_last_two();
        }
        self.runs.first().cloned().unwrap_or_else(|| Arc::new(mapped_vec()))
    }

    fn collect_fresh(&mut self, newest: *const Node) -> MappedVec<NodeRef> {
        let known = self.upto.map_or(std::ptr::null(), |node| node.0);
        let mut fresh = mapped_vec();
        fresh.extend(nodes(newest, known));
        if let Some(first) = fresh.first() {
            self.upto = Some(*first);
        }
        fresh
    }

    fn merge_last_two(&mut self) {
        if let (Some(b), Some(a)) = (self.runs.pop(), self.runs.pop()) {
            self.runs.push(Arc::new(merge(&a, &b)));
        }
    }
}

/// Sorts nodes into index order. Comparing eight key bytes at a time, taken behind the prefix that
/// all keys share, saves most of the cache misses of comparing the keys themselves.
fn sort(mut nodes: MappedVec<NodeRef>) -> MappedVec<NodeRef> {
    let shared = shared_prefix(&nodes);
    let mut tagged: MappedVec<(u64, NodeRef)> = mapped_vec();
    tagged.extend(nodes.iter().map(|node| (key_word(node.key(), shared), *node)));
    tagged.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.compare(b.1.key(), b.1.seq())));
    nodes.clear();
    nodes.extend(tagged.iter().map(|(_, node)| *node));
    nodes
}

fn shared_prefix(nodes: &[NodeRef]) -> usize {
    let Some(first) = nodes.first() else { return 0 };
    let mut prefix = first.key();
    for node in nodes {
        let common = prefix.iter().zip(node.key()).take_while(|(a, b)| a == b).count();
        prefix = &prefix[..common];
    }
    prefix.len()
}

/// Eight bytes of `key` from `skip` on, as a number with the same order; missing bytes count as 0,
/// which leaves a tie for the full comparison.
fn key_word(key: &[u8], skip: usize) -> u64 {
    let rest = &key[skip..];
    let mut word = [0; 8];
    let len = rest.len().min(8);
    word[..len].copy_from_slice(&rest[..len]);
    u64::from_be_bytes(word)
}

fn merge(a: &[NodeRef], b: &[NodeRef]) -> MappedVec<NodeRef> {
    let mut out = MappedVec::with_capacity_in(a.len() + b.len(), Mapped);
    let (mut a, mut b) = (a, b);
    while let ([x, rest_a @ ..], [y, rest_b @ ..]) = (a, b) {
        if x.compare(y.key(), y.seq()) == Order::Less {
            out.push(*x);
            a = rest_a;
        } else {
            out.push(*y);
            b = rest_b;
        }
    }
    out.extend_from_slice(a);
    out.extend_from_slice(b);
    out
}

/// Walks one sorted run; keeps its MemTable alive.
pub(super) struct RunIter {
    _table: Arc<MemTable>,
    run: SortedRun,
    /// Index of the current node; `run.len()` when not valid.
    at: usize,
}

impl RunIter {
    pub(super) fn new(table: Arc<MemTable>, run: SortedRun) -> Self {
        let at = run.len();
        Self { _table: table, run, at }
    }

    fn lower_bound(&self, key: &[u8], seq: SeqNo) -> usize {
        self.run.partition_point(|node| node.compare(key, seq) == Order::Less)
    }

    /// Moves to the node before index `end`, or becomes invalid.
    fn stand_before(&mut self, end: usize) {
        self.at = end.checked_sub(1).unwrap_or(self.run.len());
    }
}

impl EntryIter for RunIter {
    fn valid(&self) -> bool {
        self.at < self.run.len()
    }

    fn entry(&self) -> Entry<'_> {
        self.run[self.at].entry()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.stand_before(self.run.len());
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.at = self.lower_bound(key, seq);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.stand_before(self.lower_bound(key, seq));
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        assert!(self.valid(), "next on an iterator that is not valid");
        self.at += 1;
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        assert!(self.valid(), "prev on an iterator that is not valid");
        self.stand_before(self.at);
        Ok(())
    }
}
