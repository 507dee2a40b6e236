//! Fronts: where the first keys of keyspaces are, so that a queue finds its first key at once.
//!
//! A queue that takes its first key and deletes it leaves dead entries in front of the next one,
//! which each search would step over until they are merged. So a search that has stepped over some
//! has its keyspace watched: commits note the least key that they write, under the append lock, and
//! the next search remembers its first key as the *front*. Later searches begin there. A commit in
//! front of it moves the front back before it is visible.
//!
//! The front is that of the present: a reader of an earlier moment searches from the start. Values
//! that have expired in front of it leave none, since the clock may be set back (decision 0057).
//! While no keyspace is watched, a commit only loads a flag. A front that no search has used for a
//! while is forgotten.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use cleavedb_base::key::split_encoded_key;
use cleavedb_base::limits::KEYSPACE_PREFIX_LEN;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{KeyspaceId, SeqNo};

use crate::operations::bounds::{Bounds, end_of};
use crate::operations::ops::Ops;

/// Dead entries in front of the first key from which on a keyspace is watched.
pub(crate) const DEAD_MIN: u64 = 16;

/// Writes of a keyspace between two searches after which its front is forgotten.
const UNUSED_MAX: u32 = 1 << 20;

/// The fronts of keyspaces.
#[derive(Default)]
pub(crate) struct Fronts {
    /// Whether there are any. It is set under the append lock.
    any: AtomicBool,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    fronts: BTreeMap<KeyspaceId, Front>,
    /// What was written behind this sequence number is noted.
    noted: SeqNo,
}

/// What is known of the first key of one keyspace.
struct Front {
    /// As of `from` and later, there is no tree key below it. Empty while nothing is known.
    key: Vec<u8>,
    from: SeqNo,
    /// The least tree key that was written behind `since`.
    least: Option<Vec<u8>>,
    since: SeqNo,
    /// Writes of the keyspace since a search used it.
    unused: u32,
}

impl Fronts {
    /// Begins to watch a keyspace, under the append lock, behind the last number in use.
    pub(crate) fn watch(&self, keyspace: KeyspaceId, last_seq: SeqNo) {
        let mut watched = self.watched.lock();
        watched.noted = watched.noted.max(last_seq);
        let since = watched.noted;
        let front = Front { key: Vec::new(), from: 0, least: None, since, unused: 0 };
        watched.fronts.entry(keyspace).or_insert(front);
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
        // The closure has no failure to hand on.
        let _ = ops.each(|op| {
            let key = op.encoded_key.as_bytes();
            if let Some((keyspace, _)) = split_encoded_key(key)
                && let Entry::Occupied(mut front) = watched.fronts.entry(keyspace)
            {
                front.get_mut().unused += 1;
                match front.get().unused {
                    UNUSED_MAX => drop(front.remove()),
                    _ if op.deletes => {}
                    _ => front.get_mut().lower(key),
                }
            }
            Ok(())
        });
        watched.noted = last_seq;
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
        let front = watched.fronts.get_mut(&bounds.keyspace)?;
        front.unused = 0;
        let key = Some(&front.key).filter(|_| front.from <= seq)?.min(&bounds.upper);
        (*key > bounds.lower).then(|| key.clone())
    }

    /// Learns the first key of `bounds` as of `seq`, or that there is none. Returns whether the
    /// keyspace is watched.
    #[inline]
    pub(crate) fn found(&self, bounds: &Bounds, first: Option<&[u8]>, seq: SeqNo) -> bool {
        self.any.load(Ordering::Relaxed) && self.learn(bounds, first, seq)
    }

    fn learn(&self, bounds: &Bounds, first: Option<&[u8]>, seq: SeqNo) -> bool {
        let mut watched = self.watched.lock();
        let noted = watched.noted;
        let Some(front) = watched.fronts.get_mut(&bounds.keyspace) else { return false };
        let from_start = bounds.lower.len() == KEYSPACE_PREFIX_LEN || bounds.lower <= front.key;
        // What was written up to `since` is noted no more: the search must have seen it.
        if !from_start || seq < front.since || seq < front.from {
            return true;
        }
        // Only keys of this keyspace lower its front.
        let (upper, end) = (&bounds.upper, end_of(bounds.keyspace));
        let first = first.unwrap_or(upper).min(&end);
        let first = front.least.as_deref().map_or(first, |least| first.min(least));
        if first != front.key {
            front.key.clear();
            front.key.extend_from_slice(first);
        }
        (front.from, front.since, front.least) = (seq, noted, None);
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
