//! Fronts: where the first keys of ranges are, so that a queue finds its first key at once.
//!
//! A queue that takes its first key and deletes it leaves dead entries in front of the next one,
//! which each search would step over until they are merged. So where a search has stepped over
//! some, its begin is watched: commits note the least key that they write behind it, under the
//! append lock, and the next search remembers its first key as the *front*. Later searches that
//! begin there, or in between, go on from it. A commit in front of it moves the front back before
//! it is visible. A queue may be a keyspace or a part of one, such as a prefix; a front never
//! reaches the begin of another one.
//!
//! The front is that of the present: a reader of an earlier moment searches from the start. Values
//! that have expired in front of it leave none, since the clock may be set back (decision 0057).
//! While nothing is watched, a commit only loads a flag. A front that no search has used for a
//! while is forgotten.

use std::collections::BTreeMap;
use std::ops::Bound;

use cleavedb_base::SeqNo;
use cleavedb_base::limits::KEYSPACE_PREFIX_LEN;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};

use crate::operations::bounds::{Bounds, end_of};
use crate::operations::ops::Ops;

/// Dead entries in front of the first key from which on the begin of a range is watched.
pub(crate) const DEAD_MIN: u64 = 16;

/// Writes behind a front between two searches after which it is forgotten.
const UNUSED_MAX: u32 = 1 << 20;

/// Most fronts.
const FRONTS_MAX: usize = 64;

/// The fronts of ranges.
#[derive(Default)]
pub(crate) struct Fronts {
    /// Whether there are any. It is set under the append lock.
    any: AtomicBool,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    /// By the tree key at which their searches begin.
    fronts: BTreeMap<Vec<u8>, Front>,
    /// What was written behind this sequence number is noted.
    noted: SeqNo,
}

/// What is known of the first key behind a begin.
struct Front {
    /// As of `from` and later, there is no tree key from the begin up to it. It is the begin while
    /// nothing is known, and at most the begin of the next front, or the end of the keyspace.
    key: Vec<u8>,
    from: SeqNo,
    /// The least tree key that was written behind `since`, up to the next begin.
    least: Option<Vec<u8>>,
    since: SeqNo,
    /// Writes up to the next begin since a search used it.
    unused: u32,
}

impl Watched {
    /// The last front whose begin is not behind a tree key, and is in its keyspace.
    fn front_of(&mut self, key: &[u8]) -> Option<(&Vec<u8>, &mut Front)> {
        let upto = (Bound::Unbounded, Bound::Included(key));
        let (begin, front) = self.fronts.range_mut::<[u8], _>(upto).next_back()?;
        let is_inside = key.starts_with(begin.get(..KEYSPACE_PREFIX_LEN)?);
        is_inside.then_some((begin, front))
    }

    /// Forgets a front; the one before it is responsible for what lies behind.
    fn drop_front(&mut self, begin: &[u8]) {
        self.fronts.remove(begin);
        let noted = self.noted;
        if let Some((_, before)) = self.front_of(begin) {
            // What was written there before is not noted for it.
            before.since = noted;
        }
    }

    fn unused_most(&self) -> Option<Vec<u8>> {
        let most = self.fronts.iter().max_by_key(|(_, front)| front.unused);
        most.map(|(begin, _)| begin.clone())
    }
}

impl Fronts {
    /// Begins to watch the begin of a range, a tree key, under the append lock, behind the last
    /// number in use.
    pub(crate) fn watch(&self, begin: &[u8], last_seq: SeqNo) {
        let mut watched = self.watched.lock();
        watched.noted = watched.noted.max(last_seq);
        if watched.fronts.contains_key(begin) {
            return;
        }
        if watched.fronts.len() == FRONTS_MAX
            && let Some(unused) = watched.unused_most()
        {
            watched.drop_front(&unused);
        }
        if let Some((_, before)) = watched.front_of(begin)
            && before.key.as_slice() > begin
        {
            before.key = begin.to_vec();
        }
        let key = begin.to_vec();
        let front = Front { key, from: 0, least: None, since: watched.noted, unused: 0 };
        watched.fronts.insert(begin.to_vec(), front);
        // Relaxed: writers read it under the append lock, and a search needs no front.
        self.any.store(true, Ordering::Relaxed);
    }

    /// Notes the keys of a commit up to number `last_seq`, under the append lock, before it is
    /// visible.
    #[inline]
    pub(crate) fn note(&self, last_seq: SeqNo, ops: Ops<'_>) {
        if self.any.load(Ordering::Relaxed) && !planted(Bug::FrontOverlooksWrites) {
            self.note_now(last_seq, ops);
        }
    }

    #[cold]
    fn note_now(&self, last_seq: SeqNo, ops: Ops<'_>) {
        let mut watched = self.watched.lock();
        watched.noted = last_seq;
        // The closure has no failure to hand on.
        let _ = ops.each(|op| {
            let key = op.encoded_key.as_bytes();
            if let Some((begin, front)) = watched.front_of(key) {
                front.unused += 1;
                match front.unused {
                    UNUSED_MAX => {
                        let begin = begin.clone();
                        watched.drop_front(&begin);
                    }
                    _ if op.deletes => {}
                    _ => front.lower(key),
                }
            }
            Ok(())
        });
        self.any.store(!watched.fronts.is_empty(), Ordering::Relaxed);
    }

    /// Forgets all fronts, under the append lock: keys become visible that no commit has noted.
    pub(crate) fn forget(&self) {
        self.watched.lock().fronts.clear();
        self.any.store(false, Ordering::Relaxed);
    }

    /// Where a search for the first key of `bounds` as of `seq` may begin, if that is behind their
    /// lower end.
    #[inline]
    pub(crate) fn begin(&self, bounds: &Bounds, seq: SeqNo) -> Option<Vec<u8>> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut watched = self.watched.lock();
        let (begin, _) = watched.front_of(&bounds.lower)?;
        let (begin, mut key) = (begin.clone(), bounds.lower.clone());
        // A front that has reached the next one goes on with it.
        for (begin, front) in watched.fronts.range_mut(begin..) {
            if *begin > key || front.from > seq || front.key < key {
                break;
            }
            front.unused = 0;
            key.clone_from(&front.key);
        }
        (key > bounds.lower).then(|| key.min(bounds.upper.clone()))
    }

    /// Learns the first key of `bounds` as of `seq`, or that there is none. Returns whether a
    /// front is kept of it.
    #[inline]
    pub(crate) fn found(&self, bounds: &Bounds, first: Option<&[u8]>, seq: SeqNo) -> bool {
        self.any.load(Ordering::Relaxed) && self.learn(bounds, first, seq)
    }

    fn learn(&self, bounds: &Bounds, first: Option<&[u8]>, seq: SeqNo) -> bool {
        let mut watched = self.watched.lock();
        let noted = watched.noted;
        let Some((begin, front)) = watched.front_of(&bounds.lower) else { return false };
        if bounds.lower > front.key {
            return false;
        }
        let begin = begin.clone();
        let end = end_of(bounds.keyspace);
        let first = first.unwrap_or(&bounds.upper).min(&end);
        let mut behind = watched.fronts.range_mut(begin.clone()..).peekable();
        while let Some((at, front)) = behind.next() {
            if *at != begin && at.as_slice() >= first {
                break;
            }
            // What was written up to `since` is noted no more: the search must have seen it.
            if seq < front.since || seq < front.from {
                continue;
            }
            let next = behind.peek().map_or(first, |(begin, _)| first.min(begin));
            let key = front.least.as_deref().map_or(next, |least| next.min(least));
            if key != front.key {
                front.key.clear();
                front.key.extend_from_slice(key);
            }
            (front.from, front.since, front.least) = (seq, noted, None);
        }
        true
    }
}

impl Front {
    /// Notes a tree key that is written.
    fn lower(&mut self, key: &[u8]) {
        if self.key.as_slice() > key {
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        match &mut self.least {
            Some(least) if least.as_slice() <= key => {}
            least => *least = Some(key.to_vec()),
        }
    }
}
