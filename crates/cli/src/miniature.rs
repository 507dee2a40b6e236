//! Scaled-down databases: all sizes that depend on the data are divided alike, so that a store that
//! is written in a second has the shape of one that takes a minute.

use cleavedb::{GroupOptions, Options};

/// Least size of any part, of a table, whose size papers vary, of a cut of the reserved space, and
/// of a hot store, in bytes.
const LEAST: u64 = 64 << 10;
const LEAST_TABLE: u64 = 16 << 10;
const LEAST_LOG_SEGMENT: u64 = 4 << 10;
const LEAST_HOT_STORE: u64 = 4 << 10;

/// Power of two of the divisor at which everything has its least size, and the unit of window
/// lengths, in bytes.
const LEAST_PART: u32 = 16;
const BLOCK: usize = 4096;

/// `options` for a store with one of `parts` of the data and the same shape. A log window of
/// default length is scaled with the MemTables if it holds all the log that they cover, and is
/// unchanged if it bridges waits for the device, which do not shrink with the data.
pub fn miniature(options: Options, parts: u64) -> Options {
    let part = |bytes: u64| (bytes / parts.max(1)).max(LEAST);
    let part_in_memory = |bytes: usize| part(bytes as u64) as usize;
    let log_segment_bytes = match options.layout.groups {
        Some(groups) if groups.shares_segments() => {
            (options.groups.log_segment_bytes / parts.max(1)).max(LEAST_LOG_SEGMENT)
        }
        _ => options.groups.log_segment_bytes,
    };
    let smaller = |groups: &GroupOptions| GroupOptions {
        capacity_bytes: part(groups.capacity_bytes),
        main_segment_bytes: part(groups.main_segment_bytes),
        log_segment_bytes,
        hot_bytes: match options.layout.groups {
            Some(layout) if layout.hot => (groups.hot_bytes / parts.max(1)).max(LEAST_HOT_STORE),
            _ => groups.hot_bytes,
        },
        ..groups.clone()
    };
    let groups = match options.layout.groups {
        Some(_) => smaller(&options.groups),
        None => options.groups.clone(),
    };
    Options {
        memtable_bytes: Some(part_in_memory(options.memtable())),
        memtable_log_bytes: part(options.memtable_log_bytes),
        log_file_bytes: part(options.log_file_bytes),
        segment_bytes: part(options.segment_bytes),
        cache_bytes: Some(part_in_memory(options.cache())),
        record_cache_bytes: match options.record_cache_bytes {
            0 => 0,
            bytes => part_in_memory(bytes),
        },
        table_bytes: (options.table_bytes / parts.max(1)).max(LEAST_TABLE),
        level0_bytes: part(options.level0_bytes),
        level1_bytes: part(options.level1_bytes),
        space_floor: part(options.space_floor),
        groups,
        ..options
    }
}

/// `options` for a database with a space limit of `limit` bytes: sizes are reduced, down to the
/// least, until it can work within it. Memory for caches stays, since it takes no disk space.
pub fn within(options: Options, limit: u64) -> Options {
    let smaller = |parts: usize| {
        let bytes = (options.window() / parts).max(LEAST as usize);
        let window = (parts > 1).then(|| bytes.next_multiple_of(BLOCK));
        let window_bytes = window.or(options.window_bytes);
        let Options { cache_bytes, record_cache_bytes, .. } = options;
        let small = miniature(options.clone(), parts as u64);
        let space_limit = Some(limit);
        Options { space_limit, window_bytes, cache_bytes, record_cache_bytes, ..small }
    };
    let sizes = (0..=LEAST_PART).map(|power| smaller(1 << power));
    let fits = |options: &Options| options.space_limit_min() <= limit;
    sizes.clone().find(fits).unwrap_or_else(|| smaller(1 << LEAST_PART))
}

#[cfg(test)]
mod tests {
    use cleavedb::{Options, Preset};

    use super::{miniature, within};

    #[test]
    fn a_limit_makes_a_database_as_small_as_it_must_be() {
        for preset in Preset::ALL {
            let usual = Options::preset(preset);
            let wide = within(usual.clone(), 1 << 40);
            let memtable_bytes = Some(usual.memtable());
            let expected = Options { space_limit: Some(1 << 40), memtable_bytes, ..usual };
            assert_eq!(format!("{wide:?}"), format!("{expected:?}"));
            for limit in [12 << 20, 100 << 20, 1 << 30] {
                let small = within(Options::preset(preset), limit);
                small.validate().unwrap();
                assert!(small.space_limit_min() <= limit, "{preset} in {limit}: {small:?}");
            }
        }
    }

    #[test]
    fn a_miniature_of_any_size_is_valid() {
        for preset in Preset::ALL {
            for parts in [0, 1, 7, 1 << 20, u64::MAX] {
                miniature(Options::preset(preset), parts).validate().unwrap();
            }
        }
    }

    #[test]
    fn sizes_keep_their_proportions() {
        let whole = Options::preset(Preset::HashKv);
        let small = miniature(whole.clone(), 32);
        assert_eq!(small.memtable() * 32, whole.memtable());
        assert_eq!(small.level1_bytes * 32, whole.level1_bytes);
        assert_eq!(small.groups.main_segment_bytes * 32, whole.groups.main_segment_bytes);
        let wisckey = Options::preset(Preset::WiscKey);
        assert_eq!(miniature(wisckey.clone(), 32).window(), wisckey.window());
        let same = miniature(whole.clone(), 1);
        let (memtable_bytes, cache_bytes) = (Some(whole.memtable()), Some(whole.cache()));
        let whole = Options { memtable_bytes, cache_bytes, ..whole };
        assert_eq!(format!("{same:?}"), format!("{whole:?}"));
    }
}
