//! Databases in miniature: all that is sized by the data is divided alike, so that a store that is
//! written in a second has the shape of one that takes a minute.

use cleavedb::{GroupOptions, Options};

/// Data of the store that is imitated, in bytes: as large as the ones that the presets are measured
/// with. Deeper trees favour separation more.
pub const IMITATED: u64 = 2 << 30;

/// `options` for a store of `data` bytes that is to have the shape that one of [`IMITATED`] bytes
/// has with `options`. The log window stays as it is: it bridges waits for the device, which do not
/// shrink with the data.
pub fn miniature(options: Options, data: u64) -> Options {
    let part = |bytes: u64| {
        let part = u128::from(bytes) * u128::from(data) / u128::from(IMITATED);
        (part as u64).clamp(64 << 10, bytes.max(64 << 10))
    };
    let part_in_memory = |bytes: usize| part(bytes as u64) as usize;
    let groups = GroupOptions {
        capacity_bytes: part(options.groups.capacity_bytes),
        main_segment_bytes: part(options.groups.main_segment_bytes),
        log_segment_bytes: part(options.groups.log_segment_bytes),
        ..options.groups
    };
    Options {
        memtable_bytes: part_in_memory(options.memtable_bytes),
        memtable_log_bytes: part(options.memtable_log_bytes),
        log_file_bytes: part(options.log_file_bytes),
        segment_bytes: part(options.segment_bytes),
        cache_bytes: part_in_memory(options.cache_bytes),
        table_bytes: part(options.table_bytes),
        level0_bytes: part(options.level0_bytes),
        level1_bytes: part(options.level1_bytes),
        space_floor: part(options.space_floor),
        groups,
        ..options
    }
}

#[cfg(test)]
mod tests {
    use cleavedb::{Options, Preset};

    use super::{IMITATED, miniature};

    #[test]
    fn a_miniature_of_any_size_is_valid() {
        for preset in Preset::ALL {
            for data in [0, 1, 1 << 20, 64 << 20, IMITATED, u64::MAX] {
                miniature(Options::preset(preset), data).validate().unwrap();
            }
        }
    }

    #[test]
    fn sizes_keep_their_proportions() {
        let whole = Options::preset(Preset::HashKv);
        let small = miniature(whole.clone(), IMITATED / 32);
        assert_eq!(small.memtable_bytes * 32, whole.memtable_bytes);
        assert_eq!(small.level1_bytes * 32, whole.level1_bytes);
        assert_eq!(small.groups.main_segment_bytes * 32, whole.groups.main_segment_bytes);
        assert_eq!(small.window_bytes, whole.window_bytes);
        let same = miniature(whole.clone(), IMITATED);
        assert_eq!(format!("{same:?}"), format!("{whole:?}"));
    }
}
