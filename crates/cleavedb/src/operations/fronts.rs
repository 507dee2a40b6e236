//! Fronts: where the first and the last keys of ranges are, so that a queue finds its next key at
//! once.
//!
//! A queue that takes its first key and deletes it leaves dead entries in front of the next one,
//! which each search would step over until they are merged; one that takes its last key does so at
//! the other end. So where a search has stepped over some, its begin is watched: commits note the
//! nearest key that they write behind it, under the append lock, and the next search remembers what
//! it finds as the *front*. Later searches that begin there, or in between, go on from it. A commit
//! in front of it moves the front back before it is visible. A queue may be a keyspace or a part of
//! one, such as a prefix; a front never reaches the begin of another one.
//!
//! Places are bounds between keys. A search forward begins at the lower bound of its range and
//! passes greater ones; a search backward begins at the upper bound and passes lesser ones.
//! *Behind* and *in front* are meant in its direction.
//!
//! The front is that of the present: a reader of an earlier moment searches from the start. Values
//! that have expired in front of it leave none, since the clock may be set back (decision 0057).
//! While nothing is watched, a commit only loads a flag for each direction. A front that no search
//! has used for a while is forgotten.

use std::cmp::Ordering;

use cleavedb_base::key::split_encoded_key;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering::Relaxed};
use cleavedb_base::{KeyspaceId, SeqNo};

use crate::operations::bounds::Bounds;
use crate::operations::direction::Direction;
use crate::operations::ops::Ops;

/// Dead entries in front of the first key from which on the begin of a range is watched.
pub(crate) const DEAD_MIN: u64 = 16;

/// Writes behind a front between two searches after which it is forgotten.
const UNUSED_MAX: u32 = 1 << 20;

/// Most fronts of a direction.
const FRONTS_MAX: usize = 64;

/// The fronts of ranges.
pub(crate) struct Fronts {
    forward: FrontsOneWay,
    backward: FrontsOneWay,
}

/// The fronts of searches in one direction.
struct FrontsOneWay {
    to: Direction,
    /// Whether there are any. It is set under the append lock.
    any: AtomicBool,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    /// By keyspace, then in the order in which searches meet their begins.
    fronts: Vec<Front>,
    /// What was written behind this sequence number is noted.
    noted: SeqNo,
}

/// What is known of the first key behind a begin.
struct Front {
    keyspace: KeyspaceId,
    /// Where its searches begin.
    begin: Vec<u8>,
    /// As of `from` and later, there is no tree key from the begin up to here. It is the begin
    /// while nothing is known, and at most the begin of the next front.
    place: Vec<u8>,
    from: SeqNo,
    /// The nearest place that was written behind `since`, up to the next begin.
    nearest: Option<Vec<u8>>,
    since: SeqNo,
    /// Writes up to the next begin since a search used it.
    unused: u32,
}

impl Front {
    /// Notes a place that is written.
    fn note(&mut self, place: &[u8], to: Direction) {
        if to.meets(place, &self.place) {
            self.place.clear();
            self.place.extend_from_slice(place);
        }
        if self.nearest.as_deref().is_none_or(|nearest| to.meets(place, nearest)) {
            self.nearest = Some(place.to_vec());
        }
    }
}

impl Watched {
    /// The number of fronts whose begin is met up to a place, in its keyspace or an earlier one.
    fn upto(&self, keyspace: KeyspaceId, place: &[u8], to: Direction) -> usize {
        self.fronts.partition_point(|front| match front.keyspace.cmp(&keyspace) {
            Ordering::Equal => to.order(&front.begin, place).is_le(),
            order => order.is_lt(),
        })
    }

    /// The last front of a keyspace whose begin is met up to a place.
    fn front_of(&self, keyspace: KeyspaceId, place: &[u8], to: Direction) -> Option<usize> {
        let at = self.upto(keyspace, place, to).checked_sub(1)?;
        (self.fronts[at].keyspace == keyspace).then_some(at)
    }

    /// Forgets a front; the one before it is responsible for what lies behind.
    fn drop_front(&mut self, at: usize) {
        let gone = self.fronts.remove(at);
        if let Some(before) = at.checked_sub(1).map(|at| &mut self.fronts[at])
            && before.keyspace == gone.keyspace
        {
            // What was written there before is not noted for it.
            before.since = self.noted;
        }
    }

    /// As [`Fronts::watch`], in one direction.
    fn watch(&mut self, keyspace: KeyspaceId, begin: &[u8], to: Direction) {
        let is_begin = |front: &Front| front.begin == begin;
        let before = self.front_of(keyspace, begin, to);
        if before.is_some_and(|at| is_begin(&self.fronts[at])) {
            return;
        }
        if let Some(before) = before.map(|at| &mut self.fronts[at])
            && to.meets(begin, &before.place)
        {
            before.place = begin.to_vec();
        }
        if self.fronts.len() == FRONTS_MAX
            && let Some(most) = (0..FRONTS_MAX).max_by_key(|at| self.fronts[*at].unused)
        {
            self.drop_front(most);
        }
        let at = self.upto(keyspace, begin, to);
        let (begin, place) = (begin.to_vec(), begin.to_vec());
        let front =
            Front { keyspace, begin, place, from: 0, nearest: None, since: self.noted, unused: 0 };
        self.fronts.insert(at, front);
    }

    /// As [`Fronts::narrowed`], of one end.
    fn place(&mut self, bounds: &Bounds, seq: SeqNo, to: Direction) -> Option<Vec<u8>> {
        let (begin, end) = to.ends(bounds);
        let at = self.front_of(bounds.keyspace, begin, to)?;
        let mut place = begin.to_vec();
        // A front that has reached the next one goes on with it.
        for front in &mut self.fronts[at..] {
            let is_reached = front.keyspace == bounds.keyspace && !to.meets(&place, &front.begin);
            if !is_reached || front.from > seq || to.meets(&front.place, &place) {
                break;
            }
            front.unused = 0;
            place.clone_from(&front.place);
        }
        to.meets(begin, &place).then(|| to.first_of(&place, end).to_vec())
    }

    /// As [`Fronts::found`], in one direction.
    fn learn(&mut self, bounds: &Bounds, found: Option<&[u8]>, seq: SeqNo, to: Direction) -> bool {
        let (begin, end) = to.ends(bounds);
        let Some(at) = self.front_of(bounds.keyspace, begin, to) else { return false };
        if to.meets(&self.fronts[at].place, begin) {
            return false;
        }
        let mut place = end.to_vec();
        if let Some(key) = found {
            to.place_of(key, &mut place);
        }
        let found = place;
        let of_keyspace = |front: &Front| front.keyspace == bounds.keyspace;
        let mut behind = self.fronts[at..].iter_mut().take_while(|it| of_keyspace(it)).peekable();
        let mut is_first = true;
        while let Some(front) = behind.next() {
            if !std::mem::take(&mut is_first) && !to.meets(&front.begin, &found) {
                break;
            }
            // What was written up to `since` is noted no more: the search must have seen it.
            if seq < front.since || seq < front.from {
                continue;
            }
            let next = behind.peek().map_or(&*found, |next| to.first_of(&found, &next.begin));
            let place = front.nearest.as_deref().map_or(next, |at| to.first_of(next, at));
            if place != front.place {
                front.place.clear();
                front.place.extend_from_slice(place);
            }
            (front.from, front.since, front.nearest) = (seq, self.noted, None);
        }
        true
    }
}

impl FrontsOneWay {
    fn of(to: Direction) -> Self {
        Self { to, any: AtomicBool::new(false), watched: Mutex::new(Watched::default()) }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        !self.any.load(Relaxed)
    }

    #[cold]
    fn note(&self, last_seq: SeqNo, ops: Ops<'_>) {
        let (mut watched, to, mut place) = (self.watched.lock(), self.to, Vec::new());
        watched.noted = last_seq;
        // The closure has no failure to hand on.
        let _ = ops.each(|op| {
            let Some((keyspace, _)) = split_encoded_key(op.encoded_key.as_bytes()) else {
                return Ok(());
            };
            to.place_of(op.encoded_key.as_bytes(), &mut place);
            if let Some(at) = watched.front_of(keyspace, &place, to) {
                let front = &mut watched.fronts[at];
                front.unused += 1;
                match front.unused {
                    UNUSED_MAX => watched.drop_front(at),
                    _ if op.deletes => {}
                    _ => front.note(&place, to),
                }
            }
            Ok(())
        });
        self.any.store(!watched.fronts.is_empty(), Relaxed);
    }

    #[inline]
    fn place(&self, bounds: &Bounds, seq: SeqNo) -> Option<Vec<u8>> {
        if self.is_empty() {
            return None;
        }
        self.watched.lock().place(bounds, seq, self.to)
    }
}

impl Default for Fronts {
    fn default() -> Self {
        Self {
            forward: FrontsOneWay::of(Direction::Forward),
            backward: FrontsOneWay::of(Direction::Backward),
        }
    }
}

impl Fronts {
    fn side(&self, to: Direction) -> &FrontsOneWay {
        match to {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    /// Begins to watch where searches of `bounds` begin, under the append lock, behind the last
    /// number in use.
    pub(crate) fn watch(&self, bounds: &Bounds, to: Direction, last_seq: SeqNo) {
        let side = self.side(to);
        let mut watched = side.watched.lock();
        watched.noted = watched.noted.max(last_seq);
        watched.watch(bounds.keyspace, to.ends(bounds).0, to);
        // Relaxed: writers read it under the append lock, and a search needs no front.
        side.any.store(true, Relaxed);
    }

    /// Notes the keys of a commit up to number `last_seq`, under the append lock, before it is
    /// visible.
    #[inline]
    pub(crate) fn note(&self, last_seq: SeqNo, ops: Ops<'_>) {
        for side in [&self.forward, &self.backward] {
            if !side.is_empty() && !planted(Bug::FrontOverlooksWrites) {
                side.note(last_seq, ops);
            }
        }
    }

    /// Forgets all fronts, under the append lock: keys become visible that no commit has noted.
    pub(crate) fn forget(&self) {
        for side in [&self.forward, &self.backward] {
            side.watched.lock().fronts.clear();
            side.any.store(false, Relaxed);
        }
    }

    /// The lower and the upper end of `bounds` without what is known to have no key as of `seq`,
    /// each if that is known.
    #[inline]
    pub(crate) fn narrowed(&self, bounds: &Bounds, seq: SeqNo) -> [Option<Vec<u8>>; 2] {
        let ends = [self.forward.place(bounds, seq), self.backward.place(bounds, seq)];
        // Of what has no key at all each end is the other one's.
        match ends {
            [Some(lower), Some(upper)] if lower > upper => [Some(upper.clone()), Some(upper)],
            ends => ends,
        }
    }

    /// Learns the first key of `bounds` in a direction as of `seq`, or that there is none. Returns
    /// whether a front is kept of it.
    #[inline]
    pub(crate) fn found(
        &self,
        bounds: &Bounds,
        to: Direction,
        key: Option<&[u8]>,
        seq: SeqNo,
    ) -> bool {
        let side = self.side(to);
        !side.is_empty() && side.watched.lock().learn(bounds, key, seq, to)
    }
}
