//! Lifetimes: which values of a MemTable expire, and when.

use cleavedb_base::Expiry;
use cleavedb_base::key::split_encoded_key;
use cleavedb_base::record::RecordKind;
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_index::{Entry, MemTable};

/// Entries, or hash buckets, of a MemTable that are looked at to estimate how many have expired.
const SAMPLED: usize = 1000;

/// Until when the values of a MemTable are there.
pub(crate) struct Lifetimes {
    /// When the first and the last of its values expire, of those that do.
    first: AtomicU64,
    last: AtomicU64,
    /// The keyspaces of values that expire: a bit stands for every 64th.
    keyspaces: AtomicU64,
}

impl Default for Lifetimes {
    fn default() -> Self {
        let [last, keyspaces] = Default::default();
        Self { first: AtomicU64::new(u64::MAX), last, keyspaces }
    }
}

impl Lifetimes {
    /// The bit of the keyspace of a tree key with a record of this kind, if its value expires.
    #[inline]
    pub(crate) fn announced(kind: RecordKind, encoded_key: &[u8]) -> u64 {
        if kind.expires() { keyspace_bit(encoded_key) } else { 0 }
    }

    /// Notes the `keyspaces` of values that expire and are about to be put here, under the append
    /// lock: a merge that commits behind them sees them (decision 0058).
    #[inline]
    pub(crate) fn announce(&self, keyspaces: u64) {
        if keyspaces != 0 {
            self.keyspaces.fetch_or(keyspaces, Ordering::Relaxed);
        }
    }

    /// Counts a value of a tree key that is there until then.
    #[inline]
    pub(crate) fn add(&self, encoded_key: &[u8], until: Expiry) {
        if !until.is_never() {
            self.announce(keyspace_bit(encoded_key));
            self.first.fetch_min(until.millis(), Ordering::Relaxed);
            self.last.fetch_max(until.millis(), Ordering::Relaxed);
        }
    }

    /// Values of `table`, the MemTable, that have expired by `now`, estimated from a sample.
    pub(super) fn over(&self, table: &MemTable, now: u64) -> u64 {
        if self.first.load(Ordering::Relaxed) > now {
            return 0;
        }
        let is_over = |entry: &Entry<'_>| {
            let value = entry.kind.split(entry.value);
            value.is_ok_and(|value| !value.is_there(|| now))
        };
        let mut expired = 0;
        let each = table.sample(SAMPLED, |entry| expired += u64::from(is_over(entry)));
        expired * each
    }

    /// Whether there are values that expire, and all of them have by `now`, or the first had by
    /// `long_ago`.
    pub(crate) fn are_over(&self, now: u64, long_ago: u64) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        last > 0 && (last <= now || self.first.load(Ordering::Relaxed) <= long_ago)
    }

    /// Whether a value of a tree key may expire, or have expired, since others of its keyspace do.
    #[inline]
    pub(crate) fn may_end(&self, encoded_key: &[u8]) -> bool {
        self.keyspaces.load(Ordering::Relaxed) & keyspace_bit(encoded_key) != 0
    }
}

/// The bit of the keyspace of a tree key among 64.
fn keyspace_bit(encoded_key: &[u8]) -> u64 {
    split_encoded_key(encoded_key).map_or(0, |(id, _)| 1 << (id.0 % 64))
}
