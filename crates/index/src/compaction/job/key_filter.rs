//! KeyFilter: which entries of each key a compaction keeps.
//!
//! Versions that a reader can see stay ([`Retention`]). A tombstone that stays is held back until a
//! version below it stays too, or until the key ends: with nothing below it, here or in older
//! places, it hides nothing and is dropped. A value that has expired for every reader becomes a
//! tombstone. Operands wait for what lies below them ([`OperandChain`]).
//!
//! An operation with entries in several places counts once, as its youngest entry. Its older
//! entries are never reported. If the youngest is a repeat and an older one, of the same value, is
//! not, the youngest inherits the ownership of the record; so a repeat is held back until the next
//! entry shows that no older one follows.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{EntryKind, Result, SeqNo};

use super::ValueGcObserver;
use super::output::Output;
use crate::entry::Entry;
use crate::operands::{MergeRule, OperandChain};
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
    /// Kept operands with no other version kept below them yet. The tombstones are newer.
    operands: OperandChain,
    rule: &'a dyn MergeRule,
    held: Held,
    duplicates: u64,
}

impl<'a, S: ValueGcObserver> KeyFilter<'a, S> {
    pub(super) fn new(
        retention: Retention<'a>,
        rule: &'a dyn MergeRule,
        keeper: &'a mut S,
    ) -> Self {
        Self {
            retention,
            operands: OperandChain::default(),
            rule,
            keeper,
            key: Vec::new(),
            last: None,
            tombstones: Vec::new(),
            held: Held::default(),
            duplicates: 0,
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
        let keep = self.retention.keep(entry.seq, entry.kind);
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
        // until it meets the entry that does, or none can be left.
        let expired = self.retention.is_expired(&entry)
            && (!entry.repeat
                || !output.may_be_older(entry.key) && !planted(Bug::LeftOverIsDamage));
        if !keep || expired {
            if entry.kind.is_pointer() && !entry.repeat {
                self.keeper.owner_removed(entry)?;
            }
            if !keep || planted(Bug::ExpiredHidesNothing) {
                return Ok(());
            }
        }
        if !entry.kind.hides_older() {
            self.add_operand(entry, output);
            return Ok(());
        }
        if entry.kind.is_inline()
            && !expired
            && !entry.repeat
            && let Some((kind, value)) = self.filter(&entry)?
        {
            let filtered = Entry { kind, value: &value, ..entry };
            return self.write(filtered, kind == EntryKind::Delete, output);
        }
        self.write(entry, expired || entry.kind == EntryKind::Delete, output)
    }

    /// Writes a version that stays, or holds it back if it `deletes` the key.
    #[inline]
    fn write(&mut self, entry: Entry<'_>, deletes: bool, output: &mut Output<'_>) -> Result<()> {
        if !self.operands.is_empty() && self.end_operands(&entry, deletes, output)? {
            return Ok(());
        }
        if deletes {
            self.tombstones.push((entry.seq, entry.repeat));
            return Ok(());
        }
        if !self.tombstones.is_empty() {
            self.write_tombstones(entry.key, output)?;
        }
        output.add(entry)
    }

    /// What takes the place of a value, if it does not stay.
    #[inline]
    fn filter(&mut self, entry: &Entry<'_>) -> Result<Option<(EntryKind, Vec<u8>)>> {
        if self.retention.has_snapshots() || !self.operands.is_empty() {
            return Ok(None);
        }
        self.keeper.filtered(entry)
    }

    #[cold]
    fn add_operand(&mut self, entry: Entry<'_>, output: &mut Output<'_>) {
        // Nothing is older than this place: the original of a repeat is here, or gone.
        let repeat = entry.repeat && output.may_be_older(entry.key);
        let stripe = self.retention.stripe(entry.seq);
        self.operands.push(self.rule, &Entry { repeat, ..entry }, stripe);
    }

    /// Applies the operands that wait to the version `below` them, or writes them. Returns whether
    /// that is written with them.
    #[cold]
    fn end_operands(
        &mut self,
        below: &Entry<'_>,
        deletes: bool,
        output: &mut Output<'_>,
    ) -> Result<bool> {
        let value = match below.kind {
            _ if deletes => Some(None),
            EntryKind::Inline => Some(Some(below.value)),
            _ => None,
        };
        let stripe = self.retention.stripe(below.seq);
        let (chain, key) = (&mut self.operands, below.key);
        let made = value.and_then(|value| chain.fold(self.rule, key, value, stripe));
        let done = made.is_some();
        self.write_operands(below.key, made, output)?;
        Ok(done)
    }

    /// Writes the operands that wait, and the value that the last ones have become, if they have.
    fn write_operands(
        &mut self,
        key: &[u8],
        made: Option<(SeqNo, Vec<u8>)>,
        output: &mut Output<'_>,
    ) -> Result<()> {
        self.write_tombstones(key, output)?;
        for operand in self.operands.drain() {
            let (seq, repeat, value) = (operand.seq, operand.repeat, &operand.value[..]);
            output.add(Entry { key, seq, kind: EntryKind::Operand, repeat, value })?;
        }
        let Some((seq, value)) = made else { return Ok(()) };
        output.add(Entry { key, seq, kind: EntryKind::Inline, repeat: false, value: &value })
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
        if !self.operands.is_empty() {
            let key = std::mem::take(&mut self.key);
            let is_all = !output.may_be_older(&key);
            let rule = self.rule;
            let made = is_all.then(|| self.operands.fold_last(rule, &key)).flatten();
            self.write_operands(&key, made, output)?;
            self.key = key;
        }
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
