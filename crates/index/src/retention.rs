//! Which versions of a key are still visible to a reader.
//!
//! Live snapshots divide the sequence numbers into stripes; of each key, only the newest version in
//! each stripe is visible, unless a range tombstone of the same stripe covers it: every reader that
//! could see the version sees the tombstone too. An operand of a merge changes what older versions
//! say, so with it the next older version of the stripe is visible, too. A version whose value has
//! expired for every reader counts as a tombstone: older versions stay hidden. Flushes, compactions
//! and collections apply this one rule.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::{EntryKind, SeqNo};

use crate::entry::Entry;
use crate::range_tombstones::Fragments;

/// Decides for one key after another; versions of a key come newest first.
pub struct Retention<'a> {
    /// Live snapshots, ascending.
    snapshots: &'a [SeqNo],
    deleted: &'a Fragments,
    /// Values that expired up to here, in milliseconds since 1970, are not there for any reader.
    earliest_time: u64,
    /// Sequence numbers of the range tombstones that cover the current key, ascending.
    covering: Vec<SeqNo>,
    /// Stripe of the last version of the current key that was kept.
    kept: Option<usize>,
}

impl<'a> Retention<'a> {
    /// A rule for these live snapshots, in ascending order, these range tombstones, and readers to
    /// which values that expired up to `earliest_time`, in milliseconds since 1970, are not there.
    pub fn new(snapshots: &'a [SeqNo], deleted: &'a Fragments, earliest_time: u64) -> Self {
        debug_assert!(snapshots.is_sorted());
        Self { snapshots, deleted, earliest_time, covering: Vec::new(), kept: None }
    }

    /// Whether there is a snapshot.
    pub fn has_snapshots(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// Whether the value of `entry` has expired for every reader.
    #[inline]
    pub fn is_expired(&self, entry: &Entry<'_>) -> bool {
        let value = entry.kind.split(entry.value);
        value.is_ok_and(|value| !value.is_there(|| self.earliest_time))
    }

    /// The entry as it counts from now on: a tombstone, if its value has expired.
    #[inline]
    pub fn unexpired<'e>(&self, entry: Entry<'e>) -> Entry<'e> {
        if self.is_expired(&entry) {
            Entry { kind: EntryKind::Delete, value: &[], ..entry }
        } else {
            entry
        }
    }

    /// The next version belongs to another key, which is `key`.
    #[inline]
    pub fn begin_key(&mut self, key: &[u8]) {
        self.kept = None;
        if !self.deleted.is_empty() {
            self.deleted.covering(key, &mut self.covering);
        }
    }

    /// The stripe of a version.
    #[inline]
    pub fn stripe(&self, seq: SeqNo) -> usize {
        self.snapshots.partition_point(|snapshot| *snapshot < seq)
    }

    /// Whether a reader can see this version of the current key, which is of this kind.
    #[inline]
    pub fn keep(&mut self, seq: SeqNo, kind: EntryKind) -> bool {
        let stripe = self.stripe(seq);
        if self.kept == Some(stripe) || !self.covering.is_empty() && self.is_covered(seq, stripe) {
            return false;
        }
        if kind.hides_older() || planted(Bug::OperandHidesOlder) {
            self.kept = Some(stripe);
        }
        true
    }

    /// Whether a range tombstone that is newer than `seq` lies in the same `stripe`.
    fn is_covered(&self, seq: SeqNo, stripe: usize) -> bool {
        let next = self.covering.partition_point(|tombstone| *tombstone <= seq);
        let next = self.covering.get(next);
        next.is_some_and(|next| self.snapshots.get(stripe).is_none_or(|end| next <= end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range_tombstones::{DeletedRanges, RangeTombstone};

    /// The versions that stay of a key with these, where tombstones cover it.
    fn kept(snapshots: &[SeqNo], tombstones: &[SeqNo], versions: &[SeqNo]) -> Vec<SeqNo> {
        let range = |seq: &SeqNo| RangeTombstone {
            id: *seq,
            begin: b"b"[..].into(),
            end: b"c"[..].into(),
            seq: *seq,
            eager: false,
        };
        let fragments =
            DeletedRanges::default().with(tombstones.iter().map(range), 0).fragments(99);
        let mut retention = Retention::new(snapshots, &fragments, 0);
        retention.begin_key(b"c");
        assert!(retention.keep(1, EntryKind::Inline), "behind the range");
        retention.begin_key(b"b");
        let keep = |seq: &SeqNo| retention.keep(*seq, EntryKind::Inline);
        versions.iter().copied().filter(keep).collect()
    }

    #[test]
    fn what_operands_change_is_kept_with_them() {
        let (deleted, snapshots) = (Fragments::default(), [10]);
        let mut retention = Retention::new(&snapshots, &deleted, 0);
        retention.begin_key(b"key");
        let mut keep = |seq, kind| retention.keep(seq, kind);
        assert!(keep(14, EntryKind::Operand) && keep(13, EntryKind::Operand));
        assert!(keep(12, EntryKind::Pointer) && !keep(11, EntryKind::Inline));
        assert!(keep(9, EntryKind::Operand) && keep(8, EntryKind::Delete));
        assert!(!keep(7, EntryKind::Operand), "hidden by the delete");
    }

    #[test]
    fn the_newest_version_of_each_stripe_is_kept() {
        assert_eq!(kept(&[10, 20], &[], &[25, 21, 20, 15, 11, 10, 3]), [25, 20, 10]);
        assert_eq!(kept(&[], &[], &[4, 3]), [4]);
    }

    #[test]
    fn a_range_tombstone_drops_what_no_reader_sees_without_it() {
        assert_eq!(kept(&[], &[30], &[31, 29, 3]), [31]);
        assert_eq!(kept(&[], &[30], &[30, 29]), [30], "a tombstone deletes older versions only");
        assert_eq!(kept(&[], &[30], &[29, 3]), []);
        // The snapshot at 20 does not see the tombstone at 30; the one at 40 does.
        assert_eq!(kept(&[20, 40], &[30], &[45, 25, 15, 11]), [45, 15]);
        assert_eq!(kept(&[20], &[15, 20], &[19, 3]), []);
        assert_eq!(kept(&[20], &[7, 21], &[12, 6]), [12]);
    }
}
