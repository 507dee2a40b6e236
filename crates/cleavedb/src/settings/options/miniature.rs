//! Scaled-down databases: all sizes that depend on the data are divided alike, so that a store that
//! is written in a second, or that is to stay small, has the shape of one that takes a minute.

use cleavedb_base::limits::BLOCK;

use super::Options;
use crate::settings::group_options::GroupOptions;
use crate::settings::tuning::Tuning;

/// Least size of any part, of a table, whose size papers vary, of a cut of the reserved space, and
/// of a hot store, in bytes.
const LEAST: u64 = 64 << 10;
const LEAST_TABLE: u64 = 16 << 10;
const LEAST_LOG_SEGMENT: u64 = 4 << 10;
const LEAST_HOT_STORE: u64 = 4 << 10;

/// Power of two of the divisor at which everything has its least size.
const LEAST_PART: u32 = 16;

impl Options {
    /// The options for a store with one of `parts` of the data and the same shape. A log window
    /// of default length is scaled with the MemTables if it holds all the log that they cover, and
    /// is unchanged if it bridges waits for the device, which do not shrink with the data.
    #[must_use]
    pub fn miniature(self, parts: u64) -> Self {
        let divided = |bytes: u64, least: u64| (bytes / parts.max(1)).max(least.min(bytes));
        let part = |bytes: u64| divided(bytes, LEAST);
        let part_in_memory = |bytes: usize| part(bytes as u64) as usize;
        let groups = self.changed_groups(|layout, usual| GroupOptions {
            capacity_bytes: part(usual.capacity_bytes),
            main_segment_bytes: part(usual.main_segment_bytes),
            log_segment_bytes: match layout.shares_segments() {
                true => divided(usual.log_segment_bytes, LEAST_LOG_SEGMENT),
                false => usual.log_segment_bytes,
            },
            ..usual
        });
        let hot_bytes = match self.layout().has_hot_store() {
            true => divided(self.hot_bytes, LEAST_HOT_STORE),
            false => self.hot_bytes,
        };
        let tuning = Tuning {
            memtable_bytes: Some(part_in_memory(self.memtable())),
            memtable_log_bytes: part(self.tuning.memtable_log_bytes),
            log_file_bytes: part(self.tuning.log_file_bytes),
            segment_bytes: part(self.tuning.segment_bytes),
            cache_bytes: Some(part_in_memory(self.cache())),
            table_bytes: divided(self.tuning.table_bytes, LEAST_TABLE),
            level0_bytes: self.tuning.level0_bytes.map(part),
            level1_bytes: self.tuning.level1_bytes.map(part),
            space_floor: part(self.tuning.space_floor),
            groups,
            ..self.tuning
        };
        let record_cache_bytes = part_in_memory(self.record_cache_bytes);
        Self { record_cache_bytes, hot_bytes, tuning, ..self }
    }

    /// The options, smaller and smaller, down to the least sizes, until they are found to `fit` a
    /// disk. Memory for caches stays, since it takes none of it.
    pub(crate) fn made_to_fit(self, fit: impl Fn(&Self) -> bool) -> Self {
        if fit(&self) {
            return self;
        }
        let smaller = |power: u32| {
            let window = self.window() >> power;
            let window = window.max((LEAST as usize).min(self.window())).next_multiple_of(BLOCK);
            let small = self.clone().miniature(1 << power);
            let cache_bytes = self.tuning.cache_bytes;
            let tuning = Tuning { window_bytes: Some(window), cache_bytes, ..small.tuning };
            Self { record_cache_bytes: self.record_cache_bytes, tuning, ..small }
        };
        let mut sizes = (1..LEAST_PART).map(smaller);
        sizes.find(fit).unwrap_or_else(|| smaller(LEAST_PART))
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_index::Contents;

    use crate::settings::options::{Options, Preset};
    use crate::settings::tuning::Tuning;

    #[test]
    fn a_limit_makes_a_database_as_small_as_it_must_be() {
        for preset in Preset::ALL {
            let limited = |limit| {
                Options { space_limit: Some(limit), ..Options::preset(preset) }.within_memory()
            };
            let wide = limited(1 << 40);
            assert_eq!(format!("{:?}", wide.clone().within_limit()), format!("{wide:?}"));
            for limit in [12 << 20, 100 << 20, 1 << 30] {
                let small = limited(limit).within_limit();
                small.validate().unwrap();
                assert!(small.space_limit_min() <= limit, "{preset} in {limit}: {small:?}");
            }
            let (small, large) = (limited(100 << 20).within_limit(), limited(1 << 30));
            assert!(small.memtable() < large.within_limit().memtable(), "{preset}");
        }
    }

    #[test]
    fn a_miniature_of_any_size_is_valid() {
        for preset in Preset::ALL {
            for parts in [0, 1, 7, 1 << 20, u64::MAX] {
                Options::preset(preset).miniature(parts).validate().unwrap();
            }
        }
    }

    #[test]
    fn sizes_keep_their_proportions() {
        let whole = Options::preset(Preset::HashKv);
        let small = whole.clone().miniature(32);
        assert_eq!(small.memtable() * 32, whole.memtable());
        let full = Contents { entry_bytes: None, bytes: u64::MAX };
        let level1 = |options: &Options| options.level_bytes(full).1;
        assert_eq!(level1(&small) * 32, level1(&whole));
        assert_eq!(
            small.tuning.groups.main_segment_bytes * 32,
            whole.tuning.groups.main_segment_bytes
        );
        let wisckey = Options::preset(Preset::WiscKey);
        assert_eq!(wisckey.clone().miniature(32).window(), wisckey.window());
        let same = whole.clone().miniature(1);
        let (memtable_bytes, cache_bytes) = (Some(whole.memtable()), Some(whole.cache()));
        let whole =
            Options { tuning: Tuning { memtable_bytes, cache_bytes, ..whole.tuning }, ..whole };
        assert_eq!(format!("{same:?}"), format!("{whole:?}"));
    }
}
