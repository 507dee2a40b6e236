//! KeyFilter: which entries of each key a compaction keeps.
//!
//! Versions that a reader can see stay ([`Retention`]). A tombstone that stays is held back until a
//! version below it stays too, or until the key ends: with nothing below it, here or in older
//! places, it hides nothing and is dropped. A value that has expired for every reader becomes a
//! tombstone.
//!
//! An operation with entries in several places counts once, as its youngest entry. Its older
//! entries are never reported. If the youngest is a repeat and an older one, of the same value, is
//! not, the youngest inherits the ownership of the record; so a repeat is held back until the next
//! entry shows that no older one follows.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{EntryKind, EntryRoom, Result, SeqNo, ValuePointer};

use super::ValueGcObserver;
use super::output::Output;
use crate::entry::Entry;
use crate::retention::Retention;

/// A repeat whose older entries may still follow.
#[derive(Default)]
struct Held {
    active: bool,
    keep: bool,
    seq: SeqNo,
    kind: Option<EntryKind>,
    repeat: bool,
    value: Vec<u8>,
}

/// Filters the entries of one key after another.
pub(super) struct KeyFilter<'a, S> {
    retention: Retention<'a>,
    keeper: &'a mut S,
    key: Vec<u8>,
    /// Sequence number of the key's last operation; none before its first.
    last: Option<SeqNo>,
    /// Kept tombstones with nothing kept below them yet, newest first; each with whether it is a
    /// repeat.
    tombstones: Vec<(SeqNo, bool)>,
    held: Held,
    duplicates: u64,
    room: EntryRoom,
}

impl<'a, S: ValueGcObserver> KeyFilter<'a, S> {
    pub(super) fn new(retention: Retention<'a>, keeper: &'a mut S) -> Self {
        Self {
            retention,
            keeper,
            key: Vec::new(),
            last: None,
            tombstones: Vec::new(),
            held: Held::default(),
            duplicates: 0,
            room: [0; ValuePointer::ENCODED_LEN_MAX],
        }
    }

    /// Older entries of operations that were already seen.
    pub(super) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Takes the next entry in index order; of several entries of one operation, the youngest
    /// first.
    #[inline]
    pub(super) fn add(&mut self, entry: Entry<'_>, output: &mut Output<'_>) -> Result<()> {
        if self.last.is_none() || self.key != entry.key {
            self.end_key(output)?;
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            self.retention.begin_key(entry.key);
            output.begin_key(entry.key)?;
        } else if self.last == Some(entry.seq) {
            self.duplicates += 1;
            let held = &mut self.held;
            let same = held.active && held.kind == Some(entry.kind) && held.value == entry.value;
            held.repeat &= !same || entry.repeat;
            return Ok(());
        }
        self.settle(output)?;
        self.last = Some(entry.seq);
        let keep = self.retention.keep(entry.seq);
        if entry.repeat {
            self.hold(entry, keep);
            return Ok(());
        }
        self.decide(entry, keep, output)
    }

    fn hold(&mut self, entry: Entry<'_>, keep: bool) {
        let held = &mut self.held;
        (held.active, held.keep, held.seq) = (true, keep, entry.seq);
        (held.kind, held.repeat) = (Some(entry.kind), entry.repeat);
        held.value.clear();
        held.value.extend_from_slice(entry.value);
    }

    /// Decides on the entry that was held back, if one was.
    #[inline]
    fn settle(&mut self, output: &mut Output<'_>) -> Result<()> {
        if !std::mem::take(&mut self.held.active) {
            return Ok(());
        }
        let Held { keep, seq, kind, repeat, .. } = self.held;
        let Some(kind) = kind else { return Ok(()) };
        let (key, value) = (std::mem::take(&mut self.key), std::mem::take(&mut self.held.value));
        let result =
            self.decide(Entry { key: &key, seq, kind, repeat, value: &value }, keep, output);
        (self.key, self.held.value) = (key, value);
        result
    }

    #[inline]
    fn decide(&mut self, entry: Entry<'_>, keep: bool, output: &mut Output<'_>) -> Result<()> {
        // A value that has expired leaves a tombstone. A repeat does not own its record, and stays
        // until it meets the entry that does.
        let expired = !entry.repeat && self.retention.is_expired(&entry);
        if !keep || expired {
            if entry.kind.is_pointer() && !entry.repeat {
                self.keeper.dropped(entry)?;
            }
            if !keep || planted(Bug::ExpiredHidesNothing) {
                return Ok(());
            }
        }
        if expired || entry.kind == EntryKind::Delete {
            self.tombstones.push((entry.seq, entry.repeat));
            return Ok(());
        }
        if !self.tombstones.is_empty() {
            self.write_tombstones(entry.key, output)?;
        }
        if entry.kind.is_pointer()
            && let Some(value) = self.keeper.refreshed(&entry, &mut self.room)?
        {
            return output.add(Entry { value, ..entry });
        }
        output.add(entry)
    }

    fn write_tombstones(&mut self, key: &[u8], output: &mut Output<'_>) -> Result<()> {
        for (seq, repeat) in self.tombstones.drain(..) {
            output.add(Entry { key, seq, kind: EntryKind::Delete, repeat, value: &[] })?;
        }
        Ok(())
    }

    /// Decides on the entries of the current key that were held back.
    #[inline]
    pub(super) fn end_key(&mut self, output: &mut Output<'_>) -> Result<()> {
        self.settle(output)?;
        if !self.tombstones.is_empty() {
            if output.may_be_older(&self.key) {
                let key = std::mem::take(&mut self.key);
                self.write_tombstones(&key, output)?;
                self.key = key;
            }
            self.tombstones.clear();
        }
        self.last = None;
        Ok(())
    }
}
