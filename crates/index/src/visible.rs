//! VisibleIter: the keys that one snapshot sees, each once, in both directions.
//!
//! The newest version of a key at or below the snapshot counts; a tombstone hides the key, and so
//! does a newer range tombstone, or an expiry that is over at the time of the snapshot. Forwards
//! that version is the first one read, so the merge stays on it and only the key is copied.
//! Backwards versions come oldest first, so the iterator keeps the newest so far and has already
//! passed the key when it stops.

use bytes::{Buf, Bytes};
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::{EntryKind, Expiry, Result, SeqNo};

use crate::entry::{Entry, EntryIter};
use crate::merge::MergeIter;
use crate::range_tombstones::Fragments;

/// Versions of one key that are skipped one by one before the iterator seeks past them.
const STEPS_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Invalid,
    /// The merge is on the version that is yielded.
    Forward,
    /// The merge is in front of the key that is yielded; the version was copied.
    Backward,
}

/// Visible keys of a snapshot within bounds.
pub struct VisibleIter {
    merged: MergeIter,
    snapshot: SeqNo,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    deleted: Fragments,
    /// The time of the snapshot, in milliseconds since 1970.
    time: u64,
    state: State,
    key: Vec<u8>,
    seq: SeqNo,
    kind: EntryKind,
    /// Kept when the iterator moves back.
    value: Vec<u8>,
    /// Entries that were skipped since the last call of [`VisibleIter::take_dead`].
    dead: u64,
    /// Whether it has skipped a value that may have expired.
    met_expired: bool,
}

impl VisibleIter {
    /// The part of `merged` that `snapshot` sees, from `lower` (inclusive) to `upper` (exclusive),
    /// both tree keys. Not valid until it is positioned.
    pub fn new(
        merged: MergeIter,
        snapshot: SeqNo,
        lower: Option<Vec<u8>>,
        upper: Option<Vec<u8>>,
    ) -> Self {
        Self {
            merged,
            snapshot,
            lower,
            upper,
            deleted: Fragments::default(),
            time: 0,
            state: State::Invalid,
            key: Vec::new(),
            seq: 0,
            kind: EntryKind::Delete,
            value: Vec::new(),
            dead: 0,
            met_expired: false,
        }
    }

    /// The iterator without the keys that range tombstones hide.
    #[must_use]
    pub fn without_deleted(self, deleted: Fragments) -> Self {
        Self { deleted, ..self }
    }

    /// The iterator as of this time, in milliseconds since 1970: values that expired up to
    /// then are not there. Without it no value has expired.
    #[must_use]
    pub fn at_time(self, millis: u64) -> Self {
        Self { time: millis, ..self }
    }

    /// Whether a key has no value if this is its newest version.
    #[inline]
    fn is_deleted(deleted: &Fragments, time: u64, entry: &Entry<'_>) -> bool {
        let is_over = || {
            let value = entry.kind.split(entry.value);
            value.is_ok_and(|value| !value.is_seen(|| time))
        };
        entry.kind == EntryKind::Delete
            || !deleted.is_empty() && deleted.covers(entry.key, entry.seq)
            || entry.kind.expires() && is_over()
    }

    /// Entries that were skipped since the last call: tombstones, and versions that the snapshot
    /// does not see or that a newer one hides.
    #[inline]
    pub fn take_dead(&mut self) -> u64 {
        std::mem::take(&mut self.dead)
    }

    /// The number of these entries.
    #[inline]
    pub fn dead(&self) -> u64 {
        self.dead
    }

    /// Whether it has skipped a value that has an expiry: at another time it may be there.
    #[inline]
    pub fn depends_on_time(&self) -> bool {
        self.met_expired
    }

    /// Whether the iterator is on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.state != State::Invalid
    }

    /// The tree key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        debug_assert!(self.valid());
        &self.key
    }

    /// Sequence number of the visible version.
    #[inline]
    pub fn seq(&self) -> SeqNo {
        self.seq
    }

    /// Inline, Pointer or Hot: [`VisibleIter::until`] tells whether the value expires.
    #[inline]
    pub fn kind(&self) -> EntryKind {
        self.kind.without_expiry()
    }

    /// Until when the value is there; one in the hot store stays.
    #[inline]
    pub fn until(&self) -> Expiry {
        self.kind.split(self.stored()).map_or(Expiry::NEVER, |value| value.until)
    }

    /// The inline value or the encoded pointer.
    #[inline]
    pub fn value(&self) -> &[u8] {
        let front = if self.kind.expires() { Expiry::LEN } else { 0 };
        self.stored().get(front..).unwrap_or_default()
    }

    /// The value, behind its expiry if it has one.
    #[inline]
    fn stored(&self) -> &[u8] {
        match self.state {
            State::Forward => self.merged.entry().value,
            State::Invalid | State::Backward => &self.value,
        }
    }

    /// The value, to keep; see [`EntryIter::keep_value`].
    #[inline]
    pub fn keep_value(&self) -> Bytes {
        let mut value = match self.state {
            State::Forward => self.merged.keep_value(),
            State::Invalid | State::Backward => return Bytes::copy_from_slice(self.value()),
        };
        if self.kind.expires() {
            value.advance(Expiry::LEN.min(value.len()));
        }
        value
    }

    /// Moves to the first key.
    pub fn seek_first(&mut self) -> Result<()> {
        self.state = State::Invalid;
        match &self.lower {
            Some(lower) => self.merged.seek(lower, SEQ_MAX)?,
            None => self.merged.seek_first()?,
        }
        self.find_forward()
    }

    /// Moves to the last key.
    pub fn seek_last(&mut self) -> Result<()> {
        self.state = State::Invalid;
        match &self.upper {
            Some(upper) => self.merged.seek_before(upper, SEQ_MAX)?,
            None => self.merged.seek_last()?,
        }
        self.find_backward()
    }

    /// Moves to the first key at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.lower.as_deref().is_some_and(|lower| key < lower) {
            return self.seek_first();
        }
        self.state = State::Invalid;
        self.merged.seek(key, SEQ_MAX)?;
        self.find_forward()
    }

    /// Moves to the last key before `key`.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        if self.upper.as_deref().is_some_and(|upper| upper < key) {
            return self.seek_last();
        }
        self.state = State::Invalid;
        self.merged.seek_before(key, SEQ_MAX)?;
        self.find_backward()
    }

    /// Moves to the next key. After an error, returns it again.
    #[expect(clippy::should_implement_trait, reason = "one of two directions; it lends its key")]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Invalid) {
            State::Invalid => return self.merged.status(),
            State::Forward => self.merged.next()?,
            State::Backward => self.merged.seek(&self.key, self.seq)?,
        }
        self.skip_key()?;
        // The yielded version is not dead.
        self.dead = self.dead.saturating_sub(1);
        self.find_forward()
    }

    /// Moves to the previous key. After an error, returns it again.
    pub fn prev(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Invalid) {
            State::Invalid => return self.merged.status(),
            State::Forward => self.merged.seek_before(&self.key, SEQ_MAX)?,
            State::Backward => {}
        }
        self.find_backward()
    }

    /// Whether the merge is on a version of the key.
    #[inline]
    fn on_key(&self) -> bool {
        self.merged.peek().is_some_and(|entry| entry.key == self.key)
    }

    #[inline]
    fn take_key(&mut self) {
        self.key.clear();
        self.key.extend_from_slice(self.merged.entry().key);
    }

    /// Skips the rest of the key's versions, forwards.
    #[inline]
    fn skip_key(&mut self) -> Result<()> {
        for _ in 0..STEPS_MAX {
            if !self.on_key() {
                return Ok(());
            }
            self.dead += 1;
            self.merged.next()?;
        }
        self.merged.seek(&self.key, 0)?;
        // Several sources may have the same operation.
        while self.on_key() {
            self.merged.next()?;
        }
        Ok(())
    }

    /// Finds the first visible key at or behind the merge's entry.
    fn find_forward(&mut self) -> Result<()> {
        while let Some(entry) = self.merged.peek() {
            if self.upper.as_deref().is_some_and(|upper| upper <= entry.key) {
                break;
            }
            if entry.seq > self.snapshot {
                self.skip_newer()?;
                continue;
            }
            (self.seq, self.kind) = (entry.seq, entry.kind);
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            if !Self::is_deleted(&self.deleted, self.time, &entry) {
                self.state = State::Forward;
                break;
            }
            self.met_expired |= self.kind.expires();
            self.skip_key()?;
        }
        Ok(())
    }

    /// Skips the versions of one key that are newer than the snapshot, forwards.
    fn skip_newer(&mut self) -> Result<()> {
        self.take_key();
        for _ in 0..STEPS_MAX {
            self.dead += 1;
            self.merged.next()?;
            if !self.on_key() || self.merged.entry().seq <= self.snapshot {
                return Ok(());
            }
        }
        self.merged.seek(&self.key, self.snapshot)
    }

    /// Finds the last visible key at or in front of the merge's entry.
    fn find_backward(&mut self) -> Result<()> {
        while self.merged.valid() {
            let key = self.merged.entry().key;
            if self.lower.as_deref().is_some_and(|lower| key < lower) {
                break;
            }
            self.take_key();
            if self.newest_backward()? {
                self.state = State::Backward;
                break;
            }
        }
        Ok(())
    }

    /// Copies the newest visible version of the key and passes the key, backwards; returns whether
    /// there is one that is not a tombstone.
    fn newest_backward(&mut self) -> Result<bool> {
        let mut found = false;
        for _ in 0..STEPS_MAX {
            if !self.on_key() {
                return Ok(found);
            }
            if let Some(visible) = self.copy_version() {
                found = visible;
            }
            self.dead += 1;
            self.merged.prev()?;
        }
        if self.on_key() {
            self.merged.seek(&self.key, self.snapshot)?;
            if self.on_key() {
                found = self.copy_version().unwrap_or(false);
            }
            self.merged.seek_before(&self.key, SEQ_MAX)?;
        }
        Ok(found)
    }

    /// Copies the merge's entry if the snapshot sees it; returns whether it is not a tombstone
    /// then.
    fn copy_version(&mut self) -> Option<bool> {
        let entry = self.merged.entry();
        if entry.seq > self.snapshot {
            return None;
        }
        (self.seq, self.kind) = (entry.seq, entry.kind);
        self.value.clear();
        self.value.extend_from_slice(entry.value);
        let is_deleted = Self::is_deleted(&self.deleted, self.time, &entry);
        self.met_expired |= is_deleted && self.kind.expires();
        Some(!is_deleted)
    }
}

#[cfg(test)]
mod tests;
