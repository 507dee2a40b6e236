//! The keys of recent commits, and what a transaction has read: at its commit both are compared.
//!
//! Commits note their keys, under the append lock, only while a transaction is open: without one
//! they load one flag. What no open transaction needs any more is forgotten. Beyond a bound of
//! memory the oldest are kept as ranges, which neighbouring keys share: a transaction that is open
//! for so long conflicts with what lies between them, too. Backward validation: Kung and Robinson,
//! "On optimistic methods for concurrency control", 1981, section 3.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use cleavedb_base::key::KeptKey;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{Error, ErrorKind, Result, SeqNo};

use crate::operations::bounds::successor;
use crate::operations::own_writes;

/// Neighbouring writes that become one range, at least, when memory is short.
const NEIGHBOURS: usize = 8;

/// Memory of a noted write besides its key, in bytes.
const WRITE_BYTES: usize = 32;

/// Writes for which memory is kept while no transaction is open.
const WRITES_KEPT: usize = 256;

/// The keys of recent commits.
pub(crate) struct RecentWrites {
    /// Most bytes of noted keys.
    bytes_max: usize,
    /// Whether a transaction is open.
    watched: AtomicBool,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    /// Sequence numbers behind which writes are needed, and the number of transactions that need
    /// them.
    needed: BTreeMap<SeqNo, usize>,
    /// The writes, by ascending sequence number.
    writes: VecDeque<(SeqNo, WrittenKeys)>,
    bytes: usize,
}

/// What an operation has written.
#[derive(Debug)]
pub(crate) enum WrittenKeys {
    /// A tree key.
    Key(KeptKey),
    /// All tree keys from the first to the second, excluded.
    Range(Box<[u8]>, Box<[u8]>),
}

impl WrittenKeys {
    fn len(&self) -> usize {
        match self {
            Self::Key(key) => key.len(),
            Self::Range(begin, end) => begin.len() + end.len(),
        }
    }

    /// The first key.
    fn begin(&self) -> &[u8] {
        match self {
            Self::Key(key) => key,
            Self::Range(begin, _) => begin,
        }
    }

    /// A key above all of them.
    fn end(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Key(key) => successor(key.to_vec()).into(),
            Self::Range(_, end) => (&**end).into(),
        }
    }
}

impl RecentWrites {
    /// Of which `bytes_max` bytes are kept at most.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, watched: AtomicBool::new(false), noted: Mutex::default() }
    }

    /// Notes writes from now on for a transaction that sees everything up to `seq`, which is the
    /// last number in use. The caller holds the append lock.
    pub(crate) fn watch(&self, seq: SeqNo) {
        *self.noted.lock().needed.entry(seq).or_default() += 1;
        self.watched.store(true, Ordering::Relaxed);
    }

    /// Notes writes from now on, as [`Self::watch`] does, for a transaction that sees everything up
    /// to `seq`, which may not be the last number in use. Returns false, and does nothing, unless
    /// all writes behind it are noted: a transaction is open that sees no more, and was so before
    /// each of them was appended. No other lock is needed, as each of them found the flag set, or
    /// will.
    pub(crate) fn watch_too(&self, seq: SeqNo) -> bool {
        let mut noted = self.noted.lock();
        let are_noted = noted.needed.keys().next().is_some_and(|since| *since <= seq);
        if are_noted {
            *noted.needed.entry(seq).or_default() += 1;
        }
        are_noted
    }

    /// Ends what [`RecentWrites::watch`] began.
    pub(crate) fn unwatch(&self, seq: SeqNo) {
        let mut noted = self.noted.lock();
        if let Some(count) = noted.needed.get_mut(&seq) {
            *count -= 1;
            if *count == 0 {
                noted.needed.remove(&seq);
            }
        }
        if noted.needed.is_empty() {
            self.watched.store(false, Ordering::Relaxed);
            noted.clear();
        }
    }

    /// Notes the writes of a commit, if a transaction is open. The caller holds the append lock,
    /// by which it sees whether one is.
    #[inline]
    pub(crate) fn note(&self, first_seq: SeqNo, writes: impl FnOnce(&mut dyn FnMut(WrittenKeys))) {
        if self.watched.load(Ordering::Relaxed) {
            self.note_now(first_seq, writes);
        }
    }

    #[cold]
    fn note_now(&self, first_seq: SeqNo, writes: impl FnOnce(&mut dyn FnMut(WrittenKeys))) {
        let mut noted = self.noted.lock();
        let Some(needed) = noted.needed.keys().next().copied() else { return };
        while noted.writes.front().is_some_and(|(seq, _)| *seq <= needed) {
            noted.forget_first();
        }
        let mut next = first_seq;
        writes(&mut |written| {
            noted.bytes += written.len() + WRITE_BYTES;
            noted.writes.push_back((next, written));
            next += 1;
            while noted.bytes > self.bytes_max && noted.writes.len() > 1 {
                noted.coarsen();
            }
        });
        own_writes::note((self.address(), first_seq, next - 1));
    }

    /// Names the database to [`own_writes`].
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Fails with [`ErrorKind::Conflict`] if a commit has written what `reads` have read, after
    /// they have; with [`ErrorKind::InvalidArgument`] if the body of the transaction has. The
    /// caller holds the append lock, and is the next to commit.
    pub(crate) fn check(&self, reads: &ReadSet) -> Result<()> {
        let noted = self.noted.lock();
        let later = noted.writes.partition_point(|(seq, _)| *seq <= reads.seq);
        let later = noted.writes.range(later..);
        let mut met = later.filter(|(_, written)| reads.meets(written)).map(|(seq, _)| *seq);
        let Some(first) = met.next() else { return Ok(()) };
        if std::iter::once(first).chain(met).any(|seq| own_writes::has(self.address(), seq)) {
            let what = "the body of a transaction has written, through the database, what the \
                        transaction has read, so each try would conflict; write through the \
                        transaction";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let what = "what the transaction has read was written by another one since; run it again";
        Err(Error::new(ErrorKind::Conflict, what))
    }
}

impl Noted {
    /// Forgets everything, which no transaction needs. Some memory is kept for the next
    /// transactions.
    fn clear(&mut self) {
        self.writes.clear();
        self.writes.shrink_to(WRITES_KEPT);
        self.bytes = 0;
    }

    /// Forgets the oldest write.
    fn forget_first(&mut self) {
        if let Some((_, written)) = self.writes.pop_front() {
            self.bytes -= written.len() + WRITE_BYTES;
        }
    }

    /// Makes ranges of the older half of the writes, each of several neighbours, as of the newest
    /// of that half.
    fn coarsen(&mut self) {
        let half = self.writes.len().div_ceil(2).max(2);
        let mut old: Vec<(SeqNo, WrittenKeys)> = self.writes.drain(..half).collect();
        let newest = old.last().map_or(0, |(seq, _)| *seq);
        old.sort_unstable_by(|(_, a), (_, b)| a.begin().cmp(b.begin()));
        for neighbours in old.chunks(NEIGHBOURS).rev() {
            let ends = neighbours.iter().map(|(_, written)| written.end());
            let (begin, end) = (neighbours[0].1.begin(), ends.max().unwrap_or_default());
            self.writes.push_front((newest, WrittenKeys::Range(begin.into(), (&*end).into())));
        }
        let sizes = self.writes.iter().map(|(_, written)| written.len() + WRITE_BYTES);
        self.bytes = sizes.sum();
    }
}

/// What a transaction has read, as of one moment: tree keys, there or not, and ranges of them.
#[derive(Debug, Default)]
pub(crate) struct ReadSet {
    /// What it has read is as of this sequence number.
    pub(crate) seq: SeqNo,
    keys: BTreeSet<KeptKey>,
    /// Both ends inclusive.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl ReadSet {
    /// Nothing yet, as of `seq`.
    pub(crate) fn new(seq: SeqNo) -> Self {
        Self { seq, ..Self::default() }
    }

    pub(crate) fn add(&mut self, key: &[u8]) {
        if !self.keys.contains(key) {
            self.keys.insert(KeptKey::from_slice(key));
        }
    }

    /// Adds the keys from `from` to `to`, both included. A range that touches the one that was
    /// added before extends it, as the steps of a cursor do.
    pub(crate) fn add_range(&mut self, from: &[u8], to: &[u8]) {
        match self.ranges.last_mut() {
            Some((first, last)) if from <= &last[..] && &first[..] <= to => {
                if from < &first[..] {
                    *first = from.to_vec();
                }
                if to > &last[..] {
                    *last = to.to_vec();
                }
            }
            _ => self.ranges.push((from.to_vec(), to.to_vec())),
        }
    }

    /// Whether any of it was written.
    fn meets(&self, written: &WrittenKeys) -> bool {
        match written {
            WrittenKeys::Key(key) => self.has(key),
            WrittenKeys::Range(begin, end) => self.meets_range(begin, end),
        }
    }

    /// Whether any of it lies between `begin` and `end`, excluded.
    fn meets_range(&self, begin: &[u8], end: &[u8]) -> bool {
        let within = (Bound::Included(begin), Bound::Excluded(end));
        let overlaps = |(first, last): &(Vec<u8>, Vec<u8>)| &first[..] < end && begin <= &last[..];
        begin < end
            && !planted(Bug::RangeDeleteOverlooked)
            && (self.keys.range::<[u8], _>(within).next().is_some()
                || self.ranges.iter().any(overlaps))
    }

    fn has(&self, key: &[u8]) -> bool {
        let within = |(first, last): &(Vec<u8>, Vec<u8>)| &first[..] <= key && key <= &last[..];
        let in_range = || self.ranges.iter().any(within) && !planted(Bug::PhantomOverlooked);
        self.keys.contains(key) && !planted(Bug::ConflictOverlooked) || in_range()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(seq: SeqNo, keys: &[&[u8]], ranges: &[(&[u8], &[u8])]) -> ReadSet {
        let mut reads = ReadSet::new(seq);
        keys.iter().for_each(|key| reads.add(key));
        ranges.iter().for_each(|(from, to)| reads.add_range(from, to));
        reads
    }

    fn key_of(key: &[u8]) -> WrittenKeys {
        WrittenKeys::Key(key.into())
    }

    #[test]
    fn a_delete_of_a_range_that_was_read_is_a_conflict() {
        let recent = noted(&[]);
        let range = WrittenKeys::Range(b"b"[..].into(), b"d"[..].into());
        recent.note(11, |note| note(range));
        let is_fine = |reads: &ReadSet| recent.check(reads).is_ok();
        assert!(is_fine(&reads(10, &[b"a", b"d"], &[(b"a", b"aa"), (b"d", b"e")])));
        assert!(!is_fine(&reads(10, &[b"c"], &[])) && is_fine(&reads(11, &[b"c"], &[])));
        for range in [(&b"a"[..], &b"b"[..]), (b"a", b"z"), (b"bb", b"c"), (b"c", b"e")] {
            assert!(!is_fine(&reads(10, &[], &[range])), "{range:?}");
        }
    }

    fn noted(writes: &[(SeqNo, &[u8])]) -> RecentWrites {
        let recent = RecentWrites::new(1 << 20);
        recent.watch(10);
        writes.iter().for_each(|(seq, key)| recent.note(*seq, |note| note(key_of(key))));
        recent
    }

    #[test]
    fn a_later_write_of_what_was_read_is_a_conflict() {
        let recent = noted(&[(11, b"a"), (12, b"m"), (13, b"z")]);
        let is_fine = |reads: &ReadSet| recent.check(reads).is_ok();
        assert!(is_fine(&reads(10, &[b"b", b"y"], &[(b"b", b"l"), (b"n", b"y")])));
        assert!(!is_fine(&reads(10, &[b"a"], &[])) && is_fine(&reads(11, &[b"a"], &[])));
        for range in [(b"l", b"m"), (b"m", b"m"), (b"m", b"n")] {
            assert!(!is_fine(&reads(11, &[], &[(range.0, range.1)])), "ends are inclusive");
            assert!(is_fine(&reads(12, &[], &[(range.0, range.1)])));
        }
    }

    #[test]
    fn ranges_that_touch_are_one() {
        let reads = reads(1, &[], &[(b"b", b"c"), (b"c", b"d"), (b"a", b"b"), (b"x", b"y")]);
        assert_eq!(reads.ranges.len(), 2);
        assert!(reads.has(b"a") && reads.has(b"d") && !reads.has(b"e") && reads.has(b"x"));
    }

    #[test]
    fn nothing_is_noted_without_need() {
        let recent = noted(&[(11, b"a")]);
        recent.watch(11);
        recent.unwatch(10);
        recent.note(12, |note| note(key_of(b"b")));
        assert_eq!(recent.noted.lock().writes.len(), 1, "the first is not needed any more");
        recent.unwatch(11);
        recent.note(13, |note| note(key_of(b"c")));
        assert!(recent.noted.lock().writes.is_empty());
    }

    #[test]
    fn a_later_transaction_joins_if_what_it_does_not_see_is_noted() {
        let recent = RecentWrites::new(1 << 20);
        assert!(!recent.watch_too(10), "nothing was noted before");
        recent.watch(10);
        recent.note(11, |note| note(key_of(b"a")));
        assert!(!recent.watch_too(9) && recent.watch_too(10) && recent.watch_too(11));
        recent.unwatch(10);
        recent.unwatch(10);
        recent.note(12, |note| note(key_of(b"b")));
        assert!(!recent.watch_too(10), "what is behind it may be forgotten");
        assert!(recent.watch_too(11) && recent.check(&reads(11, &[b"b"], &[])).is_err());
    }

    #[test]
    fn many_writes_are_kept_as_ranges_in_little_memory() {
        let key = |i: u64| format!("k{:08}", i * 7919 % 100_000).into_bytes();
        let recent = RecentWrites::new(64 << 10);
        recent.watch(10);
        (11..100_011).for_each(|seq| recent.note(seq, |note| note(key_of(&key(seq)))));
        assert!(recent.noted.lock().bytes <= 64 << 10);
        let is_fine = |reads: &ReadSet| recent.check(reads).is_ok();
        assert!((11..100_011).all(|seq| !is_fine(&reads(10, &[&key(seq)], &[]))));
        assert!(!is_fine(&reads(100_009, &[&key(100_010)], &[])), "the last is noted exactly");
        assert!(is_fine(&reads(100_009, &[&key(100_009)], &[])));
        assert!(is_fine(&reads(10, &[b"a", b"z"], &[(b"a", b"b"), (b"l", b"z")])));
        assert!(is_fine(&reads(100_010, &[&key(50_000)], &[(b"k", b"l")])));
    }

    #[test]
    fn the_longest_keys_are_kept_within_the_bound() {
        let recent = RecentWrites::new(1 << 20);
        recent.watch(10);
        let long = |i: u64| [&i.to_be_bytes()[..], &[7; 65_000]].concat();
        (11..200).for_each(|seq| recent.note(seq, |note| note(key_of(&long(seq)))));
        assert!(recent.noted.lock().bytes <= 1 << 20);
        assert!((11..200).all(|seq| recent.check(&reads(10, &[&long(seq)], &[])).is_err()));
    }

    #[test]
    fn a_write_of_the_body_itself_is_no_conflict_but_an_error() {
        let recent = noted(&[(11, b"other")]);
        let body = own_writes::Body::begin();
        recent.note(12, |note| note(key_of(b"own")));
        let kind = |reads: &ReadSet| recent.check(reads).unwrap_err().kind();
        assert_eq!(kind(&reads(10, &[b"other"], &[])), ErrorKind::Conflict);
        assert_eq!(kind(&reads(10, &[b"own"], &[])), ErrorKind::InvalidArgument);
        assert_eq!(kind(&reads(10, &[], &[(b"o", b"p")])), ErrorKind::InvalidArgument);
        drop(body);
        assert_eq!(kind(&reads(10, &[b"own"], &[])), ErrorKind::Conflict);
    }
}
