//! Operands: changes of a key that merges have written, combined and applied where jobs meet them.
//!
//! An operand changes what the versions below it say, down to one that is a value or a delete. So
//! it ends no stripe of versions ([`Retention`]), and a reader goes on to older versions. Jobs
//! make chains of operands short: two of one stripe become one, if their operator can do that, and
//! those of the stripe of a short value or of a delete become a value.
//!
//! A *repeat* (see [`Entry::repeat`]) is neither combined nor applied while its original may be in
//! an older place: both would be applied when they meet.

use std::collections::HashMap;
use std::convert::Infallible;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{EntryKind, SeqNo};

use crate::entry::Entry;
use crate::memtable::MemTable;
use crate::retention::Retention;

/// Knows what operands mean. Keys are tree keys, operands [`cleavedb_base::StoredOperand`]s.
pub trait MergeRule: Send + Sync {
    /// One operand that does what `older` and then `newer` do; `None` if they must stay two.
    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>>;
    /// The value that `operand` makes of `value`, which is `None` if there is none; `None` if it
    /// cannot be told, or if it is too long to lie in the index.
    fn apply(&self, key: &[u8], value: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>>;
}

/// The rule of operands that stay as they are.
pub(crate) struct LeaveOperands;

impl MergeRule for LeaveOperands {
    fn combine(&self, _: &[u8], _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn apply(&self, _: &[u8], _: Option<&[u8]>, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// An operand that waits for what lies below it.
pub(crate) struct WaitingOperand {
    pub(crate) seq: SeqNo,
    stripe: usize,
    pub(crate) repeat: bool,
    pub(crate) value: Vec<u8>,
}

/// The operands of one key with no value or delete between them, newest first.
#[derive(Default)]
pub(crate) struct OperandChain(Vec<WaitingOperand>);

impl OperandChain {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the next older operand, which lies in `stripe`. Returns whether it went into the one
    /// before it.
    pub(crate) fn push(&mut self, rule: &dyn MergeRule, entry: &Entry<'_>, stripe: usize) -> bool {
        let last = self.0.last_mut();
        let last = last.filter(|last| {
            (last.stripe == stripe || planted(Bug::OperandsCombinedAcross)) && !last.repeat
        });
        let joins = !entry.repeat || planted(Bug::RepeatCombined);
        if let Some(last) = last.filter(|_| joins)
            && let Some(value) = rule.combine(entry.key, entry.value, &last.value)
        {
            last.value = value;
            return true;
        }
        let value = entry.value.to_vec();
        self.0.push(WaitingOperand { seq: entry.seq, stripe, repeat: entry.repeat, value });
        false
    }

    /// Applies the operands of `stripe`, which lie directly above `value`, or above nothing. They
    /// leave the chain; returns the sequence number of the newest and the value then.
    pub(crate) fn fold(
        &mut self,
        rule: &dyn MergeRule,
        key: &[u8],
        value: Option<&[u8]>,
        stripe: usize,
    ) -> Option<(SeqNo, Vec<u8>)> {
        let above = self.0.iter().rposition(|it| it.stripe != stripe).map_or(0, |at| at + 1);
        let own = &self.0[above..];
        let newest = own.first()?.seq;
        if own.iter().any(|it| it.repeat) {
            return None;
        }
        let (oldest, others) = own.split_last()?;
        let mut made = rule.apply(key, value, &oldest.value)?;
        for operand in others.iter().rev() {
            made = rule.apply(key, Some(&made), &operand.value)?;
        }
        self.0.truncate(above);
        Some((newest, made))
    }

    /// As [`OperandChain::fold`], for the operands of the oldest stripe, above nothing.
    pub(crate) fn fold_last(
        &mut self,
        rule: &dyn MergeRule,
        key: &[u8],
    ) -> Option<(SeqNo, Vec<u8>)> {
        let stripe = self.0.last()?.stripe;
        self.fold(rule, key, None, stripe)
    }

    /// Takes all of them, newest first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = WaitingOperand> + '_ {
        self.0.drain(..)
    }

    /// Operands of one stripe.
    fn of_stripe(&self, stripe: usize) -> impl Iterator<Item = &WaitingOperand> {
        self.0.iter().filter(move |it| it.stripe == stripe)
    }
}

/// Kind and value of an entry.
type FoldedEntry = (EntryKind, Box<[u8]>);

/// What the versions of a MemTable become in which there are operands: those that are combined or
/// applied are changed or left out, others stay.
#[derive(Default)]
pub struct FoldedVersions<'a> {
    /// By tree key and sequence number; none is left out.
    changed: HashMap<(&'a [u8], SeqNo), Option<FoldedEntry>>,
    /// Keys of which more operands are left than a reader should meet.
    long: Vec<&'a [u8]>,
}

/// The versions of one key that are being folded.
#[derive(Default)]
struct KeyVersions<'a> {
    key: &'a [u8],
    chain: OperandChain,
    /// Operands of the chain as they are in the MemTable: their numbers and lengths.
    met: Vec<SeqNo>,
}

/// Most operands of a key that a reader should meet at each read.
pub const OPERANDS_MAX: usize = 8;

impl<'a> FoldedVersions<'a> {
    /// Folds the versions of a table without inserts, as far as `retention` keeps them.
    pub fn of(table: &'a MemTable, retention: &mut Retention<'_>, rule: &dyn MergeRule) -> Self {
        let mut folded = Self::default();
        let mut of_key = KeyVersions::default();
        let mut last_key: Option<&[u8]> = None;
        let Ok(()) = table.for_each_sorted(|entry| {
            let entry = retention.unexpired(entry);
            if last_key.replace(entry.key) != Some(entry.key) {
                folded.end(&mut of_key);
                retention.begin_key(entry.key);
                of_key.key = entry.key;
            }
            if retention.keep(entry.seq, entry.kind) {
                folded.add(&mut of_key, &entry, retention.stripe(entry.seq), rule);
            }
            Ok::<(), Infallible>(())
        });
        folded.end(&mut of_key);
        folded
    }

    fn add(
        &mut self,
        of_key: &mut KeyVersions<'a>,
        entry: &Entry<'a>,
        stripe: usize,
        rule: &dyn MergeRule,
    ) {
        let below = match entry.kind {
            EntryKind::Operand => {
                of_key.met.push(entry.seq);
                of_key.chain.push(rule, entry, stripe);
                return;
            }
            _ if of_key.met.is_empty() => return,
            EntryKind::Delete => Some(None),
            EntryKind::Inline => Some(Some(entry.value)),
            _ => None,
        };
        let first = of_key.chain.of_stripe(stripe).next().map(|it| it.seq);
        if let Some(below) = below
            && let Some((seq, value)) = of_key.chain.fold(rule, entry.key, below, stripe)
        {
            let from = of_key.met.iter().position(|met| Some(*met) == first).unwrap_or_default();
            let gone = of_key.met.drain(from..).chain([entry.seq]);
            self.changed.extend(gone.map(|seq| ((of_key.key, seq), None)));
            self.changed.insert((of_key.key, seq), Some((EntryKind::Inline, value.into())));
        }
        self.end(of_key);
    }

    /// Notes what became of the operands of a chain that were not applied.
    fn end(&mut self, of_key: &mut KeyVersions<'a>) {
        let key = of_key.key;
        let (met, mut left) = (of_key.met.len(), 0);
        let gone = of_key.met.drain(..).map(|seq| ((key, seq), None));
        self.changed.extend(gone);
        for operand in of_key.chain.drain() {
            left += 1;
            let value = operand.value.into();
            self.changed.insert((key, operand.seq), Some((EntryKind::Operand, value)));
        }
        if left > OPERANDS_MAX {
            debug_assert!(left <= met);
            self.long.push(key);
        }
    }

    /// The entry as it is to be written; `None` if it is not: the next version of its key for
    /// `retention`, the one that this was folded with.
    #[inline]
    pub fn kept<'s>(
        &'s self,
        entry: Entry<'s>,
        retention: &mut Retention<'_>,
    ) -> Option<Entry<'s>> {
        if !retention.keep(entry.seq, entry.kind) {
            return None;
        }
        if self.changed.is_empty() { Some(entry) } else { self.changed(entry) }
    }

    #[cold]
    fn changed<'s>(&'s self, entry: Entry<'s>) -> Option<Entry<'s>> {
        match self.changed.get(&(entry.key, entry.seq)) {
            None => Some(entry),
            Some(None) => None,
            Some(Some((kind, value))) => Some(Entry { kind: *kind, value, ..entry }),
        }
    }

    /// Keys of which more operands are left than a reader should meet.
    pub fn long(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.long.iter().copied()
    }
}
