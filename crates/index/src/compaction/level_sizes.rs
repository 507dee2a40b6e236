//! Sizes of levels that follow from what is in them.
//!
//! Levels of values are rewritten less often the larger level 0 is; levels of pointers are short,
//! and reads, scans and the garbage that only compactions find want few runs in level 0. So both
//! follow from the mean length of an entry. Levels 0 and 1 repeat keys of the levels below, so in a
//! small index both are a part of it (decision 0067).

use crate::version::Contents;

/// Mean length up to which entries are taken for pointers, and from which on for values, in bytes.
const POINTER: u64 = 48;
const VALUE: u64 = 112;

/// Tables that level 0 holds of pointers, and of values.
const TABLES: (u64, u64) = (2, 16);

/// Number of tables in level 1, if level 0 has not more.
const LEVEL1_TABLES: u64 = 8;

/// Divisor of an index for levels 0 and 1.
const PART: u64 = 8;

/// Least part of its usual size that level 0 has, as a divisor: writers are stopped at four times
/// its size, which a level 0 that was larger before the index shrank should not exceed.
const LEAST: u64 = 4;

/// Sizes of level 0 and of level 1, in bytes, of an index with these contents, where tables end at
/// `table_bytes`: 64 and 256 MiB for pointers, 512 MiB each for values, in proportion between, but
/// at most an eighth of the index; level 0 at least 64 MiB, and a quarter of its usual size.
pub fn level_bytes_for(contents: Contents, table_bytes: u64) -> (u64, u64) {
    let beyond = contents.entry_bytes.unwrap_or_default().clamp(POINTER, VALUE) - POINTER;
    let more = table_bytes.saturating_mul((TABLES.1 - TABLES.0) * beyond) / (VALUE - POINTER);
    let least = table_bytes.saturating_mul(TABLES.0);
    let usual = least.saturating_add(more);
    let part = contents.bytes / PART;
    let level0 = usual.min(part).max(usual / LEAST).max(least);
    (level0, level0.max(part.min(table_bytes.saturating_mul(LEVEL1_TABLES))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(entry_bytes: Option<u64>, bytes: u64) -> (u64, u64) {
        let contents = Contents { entry_bytes, bytes };
        let (level0, level1) = level_bytes_for(contents, 32 << 20);
        (level0 >> 20, level1 >> 20)
    }

    #[test]
    fn levels_grow_with_the_length_of_entries() {
        let sizes = |entry_bytes| sizes(entry_bytes, u64::MAX);
        assert_eq!((sizes(None), sizes(Some(40))), ((64, 256), (64, 256)));
        assert_eq!((sizes(Some(80)), sizes(Some(112))), ((288, 288), (512, 512)));
        assert_eq!(sizes(Some(u64::MAX)), (512, 512));
        let contents = Contents { entry_bytes: Some(80), bytes: u64::MAX };
        assert_eq!(level_bytes_for(contents, u64::MAX).1, u64::MAX);
    }

    #[test]
    fn upper_levels_are_a_part_of_a_small_index() {
        let values = |mib: u64| sizes(Some(280), mib << 20);
        assert_eq!((values(0), values(1024)), ((128, 128), (128, 128)));
        assert_eq!((values(2048), values(4096)), ((256, 256), (512, 512)));
        assert_eq!((sizes(None, 0), sizes(Some(80), 0)), ((64, 64), (72, 72)));
        assert_eq!((sizes(Some(40), 1 << 30), sizes(Some(40), 4 << 30)), ((64, 128), (64, 256)));
    }
}
