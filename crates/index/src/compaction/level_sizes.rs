//! Sizes of levels that follow from what is in them.
//!
//! Levels of values are rewritten less often the larger level 0 is; levels of pointers are short,
//! and reads, scans and the garbage that only compactions find want few runs in level 0. So both
//! follow from the mean length of an entry (decision 0067).

/// Mean length up to which entries are taken for pointers, and from which on for values, in bytes.
const POINTER: u64 = 48;
const VALUE: u64 = 112;

/// Tables that level 0 holds of pointers, and of values.
const TABLES: (u64, u64) = (2, 16);

/// Least number of tables in level 1.
const LEVEL1_TABLES: u64 = 8;

/// Sizes of level 0 and of level 1, in bytes, where entries have this mean length, and tables end
/// at `table_bytes`: 64 and 256 MiB for pointers, 512 MiB each for values, in proportion between.
pub fn level_bytes_for(entry_bytes: Option<u64>, table_bytes: u64) -> (u64, u64) {
    let beyond = entry_bytes.unwrap_or_default().clamp(POINTER, VALUE) - POINTER;
    let more = table_bytes.saturating_mul((TABLES.1 - TABLES.0) * beyond) / (VALUE - POINTER);
    let level0 = table_bytes.saturating_mul(TABLES.0).saturating_add(more);
    (level0, level0.max(table_bytes.saturating_mul(LEVEL1_TABLES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_grow_with_the_length_of_entries() {
        let sizes = |entry_bytes| {
            let (level0, level1) = level_bytes_for(entry_bytes, 32 << 20);
            (level0 >> 20, level1 >> 20)
        };
        assert_eq!((sizes(None), sizes(Some(40))), ((64, 256), (64, 256)));
        assert_eq!((sizes(Some(80)), sizes(Some(112))), ((288, 288), (512, 512)));
        assert_eq!(sizes(Some(u64::MAX)), (512, 512));
        assert_eq!(level_bytes_for(Some(80), u64::MAX).1, u64::MAX);
    }
}
