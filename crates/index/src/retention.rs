//! Which versions of a key are still visible to a reader.
//!
//! Live snapshots divide the sequence numbers into stripes; of each key, only the newest version in
//! each stripe is visible. Flushes, compactions and collections apply this one rule.

use cleavedb_base::SeqNo;

/// Decides for one key after another; versions of a key come newest first.
pub struct Retention<'a> {
    /// Live snapshots, ascending.
    snapshots: &'a [SeqNo],
    /// Stripe of the last version of the current key that was kept.
    kept: Option<usize>,
}

impl<'a> Retention<'a> {
    /// A rule for these live snapshots, in ascending order.
    pub fn new(snapshots: &'a [SeqNo]) -> Self {
        debug_assert!(snapshots.is_sorted());
        Self { snapshots, kept: None }
    }

    /// Whether there is a snapshot.
    pub fn has_snapshots(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// The next version belongs to another key.
    #[inline]
    pub fn begin_key(&mut self) {
        self.kept = None;
    }

    /// Whether a reader can see this version of the current key.
    #[inline]
    pub fn keep(&mut self, seq: SeqNo) -> bool {
        let stripe = self.snapshots.partition_point(|snapshot| *snapshot < seq);
        if self.kept == Some(stripe) {
            return false;
        }
        self.kept = Some(stripe);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_each_stripe_is_kept() {
        let mut retention = Retention::new(&[10, 20]);
        let kept: Vec<SeqNo> =
            [25, 21, 20, 15, 11, 10, 3].into_iter().filter(|seq| retention.keep(*seq)).collect();
        assert_eq!(kept, [25, 20, 10]);
        retention.begin_key();
        assert!(retention.keep(4) && !retention.keep(3));
    }
}
