//! Unexposed garbage: values that are dead although no compaction has dropped their entries yet.
//!
//! The table of value files is exact about entries that the index has dropped; entries that newer
//! ones shadow, but that no compaction has merged with them, count as live. With a space goal on
//! that figure a store with updates could double in size unnoticed. So a flush checks in the
//! filters of the tables how many of its keys exist already, and adds as many records to this
//! estimate; compactions and collections that expose garbage subtract from it. It is an estimate
//! and is published as one (invariant 11); it only decides when to collect, never what.
//!
//! A key's record is taken to be as long as the one that replaces it: a store of values of many
//! sizes has keys with small and keys with large ones. An average record would not do where small
//! values stay in the index: collections repeat the entries of separated values only, so that an
//! entry owns more bytes on average than a key.

/// Least number of keys of a flush that are looked up in the filters, if it has as many: enough to
/// estimate their share within a percent.
const ASKED_MIN: usize = 8192;

/// Sampling interval for a flush of `keys`: one key in this many is looked up. A look-up costs a
/// cache miss or more in each place, which is a tenth of a flush if all keys are looked up.
pub fn sampling_interval(keys: usize) -> u64 {
    (keys / ASKED_MIN).max(1) as u64
}

/// Estimate of the records that a flush or a load makes dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overwritten {
    /// Bytes of those that a value replaces, which is taken to be as long: 0 for one that stays in
    /// the index.
    pub bytes: u64,
    /// Number of the others, which a delete makes dead. They are taken to be of average length.
    pub records: u64,
}

impl Overwritten {
    /// Adds as many records as `count`, each replaced by a value of which `len` bytes are
    /// separated, or by none.
    pub fn add(&mut self, len: Option<u64>, count: u64) {
        match len {
            Some(len) => self.bytes += len * count,
            None => self.records += count,
        }
    }
}

/// Estimated bytes of unexposed garbage after a flush, where tables had `entries` entries whose
/// pointers own `owned` bytes.
pub fn after_flush(unexposed: u64, overwritten: Overwritten, owned: u64, entries: u64) -> u64 {
    let others = overwritten.records.saturating_mul(owned) / entries.max(1);
    unexposed.saturating_add(overwritten.bytes).saturating_add(others)
}

/// The estimate after a compaction that dropped the entries of `died` bytes of records.
pub fn after_compaction(unexposed: u64, died: u64) -> u64 {
    unexposed.saturating_sub(died)
}

/// The estimate after a collection of a file with `counted` live bytes, of which `survived` were
/// moved, while `live` bytes were counted in all files. A victim with less unexposed garbage than
/// its share lowers the estimate by the difference, so that files without garbage are not collected
/// again and again.
pub fn after_collection(unexposed: u64, counted: u64, survived: u64, live: u64) -> u64 {
    let found = counted.saturating_sub(survived);
    let share = (u128::from(unexposed) * u128::from(counted) / u128::from(live.max(1))) as u64;
    unexposed.saturating_sub(found.max(share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_flushes_ask_about_every_key() {
        assert_eq!([0, 1, 16_383, 16_384, 819_200].map(sampling_interval), [1, 1, 1, 2, 100]);
    }

    #[test]
    fn updates_add_and_what_exposes_them_takes_away() {
        let overwritten = Overwritten { bytes: 1_000, records: 80 };
        let unexposed = after_flush(0, overwritten, 50_000, 1_000);
        assert_eq!(unexposed, 5_000);
        assert_eq!(after_compaction(unexposed, 2_000), 3_000);
        assert_eq!(after_collection(unexposed, 10_000, 6_000, 50_000), 1_000);
    }

    #[test]
    fn a_wrong_estimate_dies_out_within_one_round_of_collections() {
        let (mut unexposed, files, len) = (1_000_000, 10, 1_000_000);
        for _ in 0..3 * files {
            unexposed = after_collection(unexposed, len, len, files * len);
        }
        assert!(unexposed < 50_000, "{unexposed}");
    }
}
