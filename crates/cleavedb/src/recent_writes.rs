//! The keys of recent commits, and what a transaction has read: at its commit both are compared.
//!
//! Commits note their keys, under the append lock, only while a transaction is open: without one
//! they load one flag. What no open transaction needs any more is forgotten; beyond a bound of
//! memory also what one needs, which then conflicts. Backward validation: Kung and Robinson, "On
//! optimistic methods for concurrency control", 1981, section 3.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use cleavedb_base::key::KeptKey;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{Error, ErrorKind, Result, SeqNo};

/// Most bytes of noted keys.
const BYTES_MAX: usize = 16 << 20;

/// Memory of a noted write besides its key, in bytes.
const WRITE_BYTES: usize = 32;

/// Writes for which memory is kept while no transaction is open.
const WRITES_KEPT: usize = 256;

/// The keys of recent commits.
#[derive(Default)]
pub(crate) struct RecentWrites {
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
    writes: VecDeque<(SeqNo, Written)>,
    bytes: usize,
    /// The last write that was forgotten although it was needed.
    forgotten: SeqNo,
}

/// What an operation has written.
#[derive(Debug)]
pub(crate) enum Written {
    /// A tree key.
    Key(KeptKey),
    /// All tree keys from the first to the second, excluded.
    Range(Box<[u8]>, Box<[u8]>),
}

impl Written {
    fn len(&self) -> usize {
        match self {
            Self::Key(key) => key.len(),
            Self::Range(begin, end) => begin.len() + end.len(),
        }
    }
}

impl RecentWrites {
    /// Notes writes from now on for a transaction that sees everything up to `seq`, which is the
    /// last number in use. The caller holds the append lock.
    pub(crate) fn watch(&self, seq: SeqNo) {
        *self.noted.lock().needed.entry(seq).or_default() += 1;
        self.watched.store(true, Ordering::Relaxed);
    }

    /// The same for a transaction that sees everything up to `seq`, which may not be the last
    /// number in use. Returns false, and does nothing, unless all writes behind it are noted: a
    /// transaction is open that sees no more, and was so before each of them was appended. No other
    /// lock is needed, as each of them found the flag set, or will.
    pub(crate) fn watch_too(&self, seq: SeqNo) -> bool {
        let mut noted = self.noted.lock();
        let since = noted.needed.keys().next().map(|first| noted.forgotten.max(*first));
        let are_noted = since.is_some_and(|since| since <= seq);
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
    pub(crate) fn note(&self, first_seq: SeqNo, writes: impl Iterator<Item = Written>) {
        if self.watched.load(Ordering::Relaxed) {
            self.note_now(first_seq, writes);
        }
    }

    #[cold]
    fn note_now(&self, first_seq: SeqNo, writes: impl Iterator<Item = Written>) {
        let mut noted = self.noted.lock();
        let Some(needed) = noted.needed.keys().next().copied() else { return };
        while noted.writes.front().is_some_and(|(seq, _)| *seq <= needed) {
            noted.forget_first();
        }
        for (seq, written) in (first_seq..).zip(writes) {
            noted.bytes += written.len() + WRITE_BYTES;
            noted.writes.push_back((seq, written));
        }
        while noted.bytes > BYTES_MAX {
            noted.forgotten = noted.forget_first();
        }
    }

    /// Fails with [`ErrorKind::Conflict`] if a commit has written what `reads` have read, after
    /// they have. The caller holds the append lock, and is the next to commit.
    pub(crate) fn check(&self, reads: &ReadSet) -> Result<()> {
        let noted = self.noted.lock();
        if reads.seq < noted.forgotten {
            let what = "too many writes were made since the transaction began to know whether it \
                        conflicts; run it again";
            return Err(Error::new(ErrorKind::Conflict, what));
        }
        let later = noted.writes.partition_point(|(seq, _)| *seq <= reads.seq);
        match noted.writes.range(later..).find(|(_, written)| reads.meets(written)) {
            None => Ok(()),
            Some(_) => {
                let what = "what the transaction has read was written by another one since; run \
                            it again";
                Err(Error::new(ErrorKind::Conflict, what))
            }
        }
    }
}

impl Noted {
    /// Forgets everything, which no transaction needs. Some memory is kept for the next
    /// transactions.
    fn clear(&mut self) {
        self.writes.clear();
        self.writes.shrink_to(WRITES_KEPT);
        (self.bytes, self.forgotten) = (0, 0);
    }

    /// Forgets the oldest write; returns its sequence number.
    fn forget_first(&mut self) -> SeqNo {
        let Some((seq, written)) = self.writes.pop_front() else { return 0 };
        self.bytes -= written.len() + WRITE_BYTES;
        seq
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
    fn meets(&self, written: &Written) -> bool {
        match written {
            Written::Key(key) => self.has(key),
            Written::Range(begin, end) => self.meets_range(begin, end),
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

    fn key_of(key: &[u8]) -> Written {
        Written::Key(key.into())
    }

    #[test]
    fn a_delete_of_a_range_that_was_read_is_a_conflict() {
        let recent = noted(&[]);
        let range = Written::Range(b"b"[..].into(), b"d"[..].into());
        recent.note(11, std::iter::once(range));
        let is_fine = |reads: &ReadSet| recent.check(reads).is_ok();
        assert!(is_fine(&reads(10, &[b"a", b"d"], &[(b"a", b"aa"), (b"d", b"e")])));
        assert!(!is_fine(&reads(10, &[b"c"], &[])) && is_fine(&reads(11, &[b"c"], &[])));
        for range in [(&b"a"[..], &b"b"[..]), (b"a", b"z"), (b"bb", b"c"), (b"c", b"e")] {
            assert!(!is_fine(&reads(10, &[], &[range])), "{range:?}");
        }
    }

    fn noted(writes: &[(SeqNo, &[u8])]) -> RecentWrites {
        let recent = RecentWrites::default();
        recent.watch(10);
        writes.iter().for_each(|(seq, key)| recent.note(*seq, std::iter::once(key_of(key))));
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
        recent.note(12, std::iter::once(key_of(b"b")));
        assert_eq!(recent.noted.lock().writes.len(), 1, "the first is not needed any more");
        recent.unwatch(11);
        recent.note(13, std::iter::once(key_of(b"c")));
        assert!(recent.noted.lock().writes.is_empty());
    }

    #[test]
    fn a_later_transaction_joins_if_what_it_does_not_see_is_noted() {
        let recent = RecentWrites::default();
        assert!(!recent.watch_too(10), "nothing was noted before");
        recent.watch(10);
        recent.note(11, std::iter::once(key_of(b"a")));
        assert!(!recent.watch_too(9) && recent.watch_too(10) && recent.watch_too(11));
        recent.unwatch(10);
        recent.unwatch(10);
        recent.note(12, std::iter::once(key_of(b"b")));
        assert!(!recent.watch_too(10), "what is behind it may be forgotten");
        assert!(recent.watch_too(11) && recent.check(&reads(11, &[b"b"], &[])).is_err());
    }

    #[test]
    fn what_was_forgotten_is_a_conflict() {
        let recent = noted(&[]);
        let long = vec![b'k'; BYTES_MAX / 4];
        (11..16).for_each(|seq| recent.note(seq, std::iter::once(key_of(&long))));
        assert_eq!(recent.check(&reads(10, &[], &[])).unwrap_err().kind(), ErrorKind::Conflict);
        recent.check(&reads(15, &[b"a"], &[])).unwrap();
    }
}
