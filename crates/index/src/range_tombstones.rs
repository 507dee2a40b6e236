//! Range tombstones: deletes of whole ranges of keys, which every job applies to what it writes.
//!
//! A range tombstone deletes every version, older than itself, of every tree key in its range. The
//! index has no entries for them: the open database holds all of them in memory, as one immutable
//! set, and jobs look up which of them cover a key.
//!
//! The set consists of *tiers*. A tier is cut into fragments: the ranges between neighbouring ends
//! of its tombstones, sorted, each with the tombstones that cover it. Tombstones that are added
//! make a new tier, which is merged with the last ones as long as these are not several times as
//! long: there are few tiers to look into, and a tombstone is copied a few times for each. Where
//! tombstones overlap, a fragment lists only those that can matter: not one that a newer one
//! outdoes for every reader and every job. So the lists stay short if the same keys are deleted
//! again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cleavedb_base::SeqNo;

/// How many times longer a tier is than the next one.
const RATIO: usize = 6;

/// A delete of a range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// Names it; no other one has the same.
    pub id: u64,
    /// First tree key of the range.
    pub begin: Box<[u8]>,
    /// Tree key behind the range. If it is not greater than `begin`, nothing is deleted.
    pub end: Box<[u8]>,
    /// Versions with smaller sequence numbers are deleted.
    pub seq: SeqNo,
    /// Whether tables are rewritten for it, even if only a part of them is deleted.
    pub eager: bool,
}

/// The sequence numbers of the tombstones that cover one fragment, ascending.
#[derive(Clone, Debug, Default)]
struct Cover {
    all: Box<[SeqNo]>,
    /// Of these, the eager ones.
    eager: Box<[SeqNo]>,
}

/// Some tombstones, and the fragments that they are cut into.
#[derive(Debug)]
struct Tier {
    tombstones: Vec<Arc<RangeTombstone>>,
    /// Where fragments begin, ascending. Each ends where the next begins; the last has no cover.
    begins: Vec<Box<[u8]>>,
    /// What all beginnings begin with, and of each the next eight bytes, as a number: a search
    /// mostly needs these alone.
    common: Box<[u8]>,
    heads: Vec<u64>,
    /// The cover of each fragment.
    covers: Vec<Cover>,
    /// The newest tombstone; 0 if there is none.
    newest: SeqNo,
    /// The newest eager tombstone; 0 if there is none.
    newest_eager: SeqNo,
}

/// How many tombstones with each sequence number cover the current fragment.
#[derive(Default)]
struct Active(BTreeMap<SeqNo, usize>);

impl Active {
    fn change(&mut self, seq: SeqNo, begins: bool) {
        let count = self.0.entry(seq).or_default();
        *count = if begins { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            self.0.remove(&seq);
        }
    }

    fn list(&self) -> Box<[SeqNo]> {
        self.0.keys().copied().collect()
    }
}

/// Of `seqs`, which ascend, those that matter: the newest one up to `settled`, and all behind it.
fn that_matter(seqs: Box<[SeqNo]>, settled: SeqNo) -> Box<[SeqNo]> {
    match seqs.partition_point(|seq| *seq <= settled) {
        0 | 1 => seqs,
        outdone => seqs[outdone - 1..].into(),
    }
}

impl Tier {
    /// The fragments of `tombstones`, of which those up to `settled` are seen by all.
    fn new(tombstones: Vec<Arc<RangeTombstone>>, settled: SeqNo) -> Self {
        let mut ends: Vec<(&[u8], bool, &RangeTombstone)> = Vec::new();
        for tombstone in tombstones.iter().filter(|it| it.begin < it.end) {
            ends.push((&tombstone.begin, true, tombstone));
            ends.push((&tombstone.end, false, tombstone));
        }
        // Of the same key ends come first, though the order does not matter.
        ends.sort_unstable_by_key(|(key, begins, _)| (*key, *begins));
        let (mut begins, mut covers) = (Vec::new(), Vec::new());
        let (mut all, mut eager) = (Active::default(), Active::default());
        for of_key in ends.chunk_by(|a, b| a.0 == b.0) {
            for (_, begin, tombstone) in of_key {
                all.change(tombstone.seq, *begin);
                if tombstone.eager {
                    eager.change(tombstone.seq, *begin);
                }
            }
            begins.push(of_key[0].0.into());
            let (all, eager) = (all.list(), eager.list());
            let (all, eager) = (that_matter(all, settled), that_matter(eager, settled));
            covers.push(Cover { all, eager });
        }
        let newest = |only: fn(&RangeTombstone) -> bool| {
            let those = tombstones.iter().filter(|it| only(it));
            those.map(|it| it.seq).max().unwrap_or_default()
        };
        let (newest, newest_eager) = (newest(|_| true), newest(|it| it.eager));
        let common: Box<[u8]> = common(&begins).into();
        let heads = begins.iter().map(|begin| head(begin, &common)).collect();
        Self { newest, newest_eager, begins, common, heads, covers, tombstones }
    }

    /// The number of the fragment that holds `key`; none if the first begins behind it.
    fn fragment(&self, key: &[u8]) -> Option<usize> {
        if !key.starts_with(&self.common) {
            return if *key < *self.common { None } else { self.begins.len().checked_sub(1) };
        }
        let head = head(key, &self.common);
        let less = self.heads.partition_point(|other| *other < head);
        let same = self.heads[less..].partition_point(|other| *other == head);
        let same = &self.begins[less..less + same];
        (less + same.partition_point(|begin| &**begin <= key)).checked_sub(1)
    }

    /// The covers of the fragments that hold keys from `smallest` through `largest`.
    fn within(&self, smallest: &[u8], largest: &[u8]) -> &[Cover] {
        let end = self.begins.partition_point(|begin| &**begin <= largest);
        &self.covers[self.fragment(smallest).unwrap_or_default().min(end)..end]
    }

    /// The tombstones that cover `key`.
    fn cover(&self, key: &[u8]) -> &[SeqNo] {
        self.fragment(key).map_or(&[], |at| &self.covers[at].all)
    }
}

/// What all `keys`, which ascend, begin with.
fn common(keys: &[Box<[u8]>]) -> &[u8] {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return &[] };
    let same = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    &first[..same]
}

/// The eight bytes of `key` behind `common`, as a number in the order of keys.
fn head(key: &[u8], common: &[u8]) -> u64 {
    let rest = &key[common.len().min(key.len())..];
    let mut head = [0; 8];
    let len = rest.len().min(8);
    head[..len].copy_from_slice(&rest[..len]);
    u64::from_be_bytes(head)
}

/// Whether one of `seqs`, which ascend, is greater than `after` and at most `upto`.
fn has_between(seqs: &[SeqNo], after: SeqNo, upto: SeqNo) -> bool {
    seqs.get(seqs.partition_point(|seq| *seq <= after)).is_some_and(|seq| *seq <= upto)
}

/// Whether a tombstone not newer than `upto` covers the version `seq` of `key`.
fn covers(tiers: &[Arc<Tier>], key: &[u8], seq: SeqNo, upto: SeqNo) -> bool {
    tiers.iter().any(|tier| tier.newest > seq && has_between(tier.cover(key), seq, upto))
}

/// An immutable set of range tombstones, cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct DeletedRanges {
    /// The longest first.
    tiers: Arc<[Arc<Tier>]>,
    /// The greatest number up to which tombstones may have been left out where a newer one, up to
    /// that number too, outdoes them.
    settled: SeqNo,
    /// The greatest number of a tombstone that has left the set.
    forgotten_upto: SeqNo,
}

impl DeletedRanges {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tiers.is_empty()
    }

    /// A number up to which most of them are, if they are many.
    pub fn most_upto(&self) -> SeqNo {
        self.tiers.first().map_or(0, |tier| tier.newest)
    }

    /// The greatest sequence number of a tombstone that was forgotten; 0 if none was.
    #[inline]
    pub fn forgotten_upto(&self) -> SeqNo {
        self.forgotten_upto
    }

    /// The set, after tombstones up to `forgotten_upto` were forgotten.
    #[must_use]
    pub fn with_forgotten(&self, forgotten_upto: SeqNo) -> Self {
        Self { forgotten_upto, ..self.clone() }
    }

    /// Number of them.
    pub fn len(&self) -> usize {
        self.tiers.iter().map(|tier| tier.tombstones.len()).sum()
    }

    /// Whether one of them, not newer than `upto`, covers the version `seq` of `key`.
    #[inline]
    pub fn covers(&self, key: &[u8], seq: SeqNo, upto: SeqNo) -> bool {
        !self.tiers.is_empty() && covers(&self.tiers, key, seq, upto)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &RangeTombstone> {
        self.tiers.iter().flat_map(|tier| &tier.tombstones).map(|tombstone| &**tombstone)
    }

    /// The set with `added` as well. All tombstones up to `settled` are durable, and every reader
    /// from now on sees them.
    #[must_use]
    pub fn with(&self, added: impl IntoIterator<Item = RangeTombstone>, settled: SeqNo) -> Self {
        let settled = settled.max(self.settled);
        let mut last: Vec<Arc<RangeTombstone>> = added.into_iter().map(Arc::new).collect();
        if last.is_empty() {
            return self.clone();
        }
        let mut tiers = self.tiers.to_vec();
        while let Some(tier) = tiers.pop_if(|tier| tier.tombstones.len() < RATIO * last.len()) {
            last.extend_from_slice(&tier.tombstones);
        }
        tiers.push(Arc::new(Tier::new(last, settled)));
        Self { tiers: tiers.into(), settled, ..*self }
    }

    /// The set without those that `ids` name, which are forgotten.
    #[must_use]
    pub fn without(&self, ids: &BTreeSet<u64>) -> Self {
        let stays = |tombstone: &&Arc<RangeTombstone>| !ids.contains(&tombstone.id);
        let leaving = self.iter().filter(|it| ids.contains(&it.id)).map(|it| it.seq);
        let forgotten_upto = leaving.max().unwrap_or_default().max(self.forgotten_upto);
        let tiers = self.tiers.iter().filter_map(|tier| {
            if tier.tombstones.iter().all(|tombstone| stays(&tombstone)) {
                return Some(tier.clone());
            }
            let rest: Vec<_> = tier.tombstones.iter().filter(stays).cloned().collect();
            (!rest.is_empty()).then(|| Arc::new(Tier::new(rest, self.settled)))
        });
        Self { tiers: tiers.collect(), forgotten_upto, ..*self }
    }

    /// Tombstones up to sequence number `upto`, for look-ups, and all others that are settled: some
    /// of them may stand for older ones.
    pub fn fragments(&self, upto: SeqNo) -> Fragments {
        Fragments { tiers: self.tiers.clone(), upto: upto.max(self.settled) }
    }
}

/// The range tombstones of a set up to a sequence number, for look-ups by keys.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    tiers: Arc<[Arc<Tier>]>,
    upto: SeqNo,
}

impl Fragments {
    /// Whether no key is covered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tiers.is_empty()
    }

    /// The sequence number up to which it has all tombstones.
    pub fn upto(&self) -> SeqNo {
        self.upto
    }

    /// Replaces `out` by the sequence numbers of the tombstones that cover `key`, ascending.
    pub fn covering(&self, key: &[u8], out: &mut Vec<SeqNo>) {
        out.clear();
        for tier in &*self.tiers {
            out.extend(tier.cover(key).iter().take_while(|seq| **seq <= self.upto));
        }
        out.sort_unstable();
    }

    /// Whether a tombstone covers the version `seq` of `key`.
    pub fn covers(&self, key: &[u8], seq: SeqNo) -> bool {
        covers(&self.tiers, key, seq, self.upto)
    }

    /// Whether every key from `smallest` through `largest`, without a gap, is covered by a
    /// tombstone newer than `max_seq` that is not newer than `seen_by_all`: then no reader sees
    /// anything of a table with this range, whose newest entry is `max_seq`.
    pub fn hides_all(
        &self,
        smallest: &[u8],
        largest: &[u8],
        max_seq: SeqNo,
        seen_by_all: SeqNo,
    ) -> bool {
        let upto = seen_by_all.min(self.upto);
        let mut at = smallest;
        while at <= largest {
            let Some(end) = self.hidden_until(at, max_seq, upto) else { return false };
            at = end;
        }
        true
    }

    /// The end of a fragment that has `at` and hides what is up to `max_seq`; none if it is not
    /// hidden.
    fn hidden_until(&self, at: &[u8], max_seq: SeqNo, upto: SeqNo) -> Option<&[u8]> {
        let ends = self.tiers.iter().filter_map(|tier| {
            let fragment = tier.fragment(at)?;
            let hides = has_between(&tier.covers[fragment].all, max_seq, upto);
            // A fragment with a cover is not the last one.
            tier.begins.get(fragment + 1).filter(|_| hides)
        });
        ends.max().map(|end| &**end)
    }

    /// The parts of the keys from `lower` to `upper`, excluded, in which versions up to `max_seq`
    /// are not hidden, `count_max` at most: the last of as many is too long, if there are more.
    pub fn gaps<'a>(
        &'a self,
        lower: &'a [u8],
        upper: &'a [u8],
        max_seq: SeqNo,
        count_max: usize,
    ) -> Vec<(&'a [u8], &'a [u8])> {
        let (mut gaps, mut at) = (Vec::new(), lower);
        while at < upper {
            if let Some(end) = self.hidden_until(at, max_seq, self.upto) {
                at = end;
                continue;
            }
            let hides = |cover: &Cover| has_between(&cover.all, max_seq, self.upto);
            let begins = self.tiers.iter().filter_map(|tier| {
                let next = tier.fragment(at).map_or(0, |fragment| fragment + 1);
                let behind = (next..tier.begins.len()).find(|next| hides(&tier.covers[*next]));
                behind.map(|next| &*tier.begins[next])
            });
            let end = begins.min().filter(|_| gaps.len() + 1 < count_max);
            let end = end.map_or(upper, |end| end.min(upper));
            gaps.push((at, end));
            at = end;
        }
        gaps
    }

    /// Whether a tombstone newer than `after`, and not newer than `upto`, covers a key from
    /// `smallest` through `largest`.
    pub fn overlaps(&self, smallest: &[u8], largest: &[u8], after: SeqNo, upto: SeqNo) -> bool {
        let upto = upto.min(self.upto);
        let covers = |cover: &Cover| has_between(&cover.all, after, upto);
        self.tiers.iter().any(|tier| tier.within(smallest, largest).iter().any(covers))
    }

    /// As [`Fragments::overlaps`], but of eager tombstones only.
    pub fn overlaps_eager(
        &self,
        smallest: &[u8],
        largest: &[u8],
        after: SeqNo,
        upto: SeqNo,
    ) -> bool {
        let upto = upto.min(self.upto);
        let covers = |cover: &Cover| has_between(&cover.eager, after, upto);
        let mut tiers = self.tiers.iter().filter(|tier| tier.newest_eager > after);
        tiers.any(|tier| tier.within(smallest, largest).iter().any(covers))
    }
}

#[cfg(test)]
mod tests;
