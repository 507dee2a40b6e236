//! ExpirySample: when the values of a table expire, from a sample of bounded length.

use cleavedb_base::Expiry;

/// Most expiries in a sample, a power of two: then every second of them is left out.
const MOST: usize = 512;

/// The expiries of the entries of one table.
pub(crate) struct ExpirySample {
    /// The first of all.
    first: Expiry,
    /// Number of expiries that were added.
    added: u64,
    /// One in this number is in the sample, the first one included.
    interval: u64,
    sample: Vec<Expiry>,
}

impl Default for ExpirySample {
    fn default() -> Self {
        Self { first: Expiry::NEVER, added: 0, interval: 1, sample: Vec::new() }
    }
}

impl ExpirySample {
    /// Adds the expiry of the next entry.
    pub(crate) fn add(&mut self, expiry: Expiry) {
        self.first = self.first.min(expiry);
        if self.added.is_multiple_of(self.interval) {
            if self.sample.len() == MOST {
                let mut at = 0;
                self.sample.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.interval *= 2;
            }
            self.sample.push(expiry);
        }
        self.added += 1;
    }

    /// The first expiry, and the one by which half of `entries` entries have expired, by the
    /// sample: never, if fewer expire.
    pub(crate) fn first_and_half(mut self, entries: u64) -> (Expiry, Expiry) {
        let half = entries.div_ceil(2);
        if self.added < half || self.sample.is_empty() {
            return (self.first, Expiry::NEVER);
        }
        self.sample.sort_unstable();
        let at = (half - 1) / self.interval;
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(self.sample.len() - 1);
        (self.first, self.sample[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_and_half(expiries: impl IntoIterator<Item = u64>, entries: u64) -> (u64, u64) {
        let mut sample = ExpirySample::default();
        expiries.into_iter().for_each(|millis| sample.add(Expiry::at(millis)));
        assert!(sample.sample.len() <= MOST);
        let (first, half) = sample.first_and_half(entries);
        (first.millis(), half.millis())
    }

    #[test]
    fn few_expiries_are_all_in_the_sample() {
        assert_eq!(first_and_half([], 4), (u64::MAX, u64::MAX));
        assert_eq!(first_and_half([9, 3, 7, 5], 4), (3, 5), "two of four have expired");
        assert_eq!(first_and_half([9, 3, 7, 5], 5), (3, 7));
        assert_eq!(first_and_half([9, 3, 7, 5], 8), (3, 9));
        assert_eq!(first_and_half([9, 3, 7, 5], 9), (3, u64::MAX), "fewer than half expire");
    }

    #[test]
    fn of_many_the_half_is_close() {
        for entries in [1000_u64, 10_000, 100_000] {
            // A multiplier without a common factor: every number once, in another order.
            let shuffled = (0..entries).map(|at| at * 7919 % entries);
            let (first, half) = first_and_half(shuffled, entries);
            assert_eq!(first, 0);
            assert!(half.abs_diff(entries / 2) <= entries / 10, "{half} of {entries}");
        }
    }
}
