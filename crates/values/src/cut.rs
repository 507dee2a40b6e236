//! Cuts of key ranges: bounds between keys, as short as tell them apart.
//!
//! A bound is the shortest prefix that tells the keys on its two sides apart. That is the trie of
//! KT-Store (section 3.2) with compressed paths: long common prefixes, binary keys and skew need no
//! special case, and a key that ends at an inner node belongs to the leaf before it.

use std::collections::BTreeMap;

/// The shortest prefix of `key` that is greater than `before`, a smaller key.
pub fn separator<'a>(before: &[u8], key: &'a [u8]) -> &'a [u8] {
    let same = before.iter().zip(key).take_while(|(a, b)| a == b).count();
    &key[..key.len().min(same + 1)]
}

/// Divisor of a part: a cut may be off by this if the bound gets shorter.
const CUT_SLACK: u64 = 4;

/// A bound, and its distance from the ideal, for comparison.
type Candidate<'a> = ((bool, u64, u64), &'a [u8]);

/// The bounds that divide `records`, keys in ascending order and their lengths, into about `parts`
/// parts of similar length: fewer where a key is longer than a part.
pub fn cut<'a>(records: impl Iterator<Item = (&'a [u8], u64)> + Clone, parts: u64) -> Vec<Vec<u8>> {
    let part = records.clone().map(|(_, len)| len).sum::<u64>() / parts.max(1);
    if parts < 2 || part == 0 {
        return Vec::new();
    }
    let mut best: BTreeMap<u64, Candidate<'_>> = BTreeMap::new();
    let mut sum = 0;
    let mut before: Option<&[u8]> = None;
    for (key, len) in records {
        if let Some(before) = before.filter(|before| *before != key) {
            let wanted = ((sum + part / 2) / part).clamp(1, parts - 1);
            let miss = (wanted * part).abs_diff(sum);
            let (far, short) = (miss > part / CUT_SLACK, separator(before, key));
            let len = short.len() as u64;
            let ordinal = if far { (far, miss, len) } else { (far, len, miss) };
            let bound = (ordinal, short);
            best.entry(wanted).and_modify(|known| *known = bound.min(*known)).or_insert(bound);
        }
        (sum, before) = (sum + len, Some(key));
    }
    best.into_values().map(|(_, bound)| bound.to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_evenly(keys: &[&str], parts: u64) -> Vec<String> {
        let bounds = cut(keys.iter().map(|key| (key.as_bytes(), 10)), parts);
        bounds.into_iter().map(|bound| String::from_utf8(bound).unwrap()).collect()
    }

    #[test]
    fn a_cut_is_the_shortest_prefix_near_the_middle() {
        let keys = ["user/0001", "user/0002", "user/0003", "user/1", "user/1001", "user/1002"];
        assert_eq!(cut_evenly(&keys, 2), ["user/1"]);
        assert_eq!(cut_evenly(&["a", "b", "c", "d"], 4), ["b", "c", "d"]);
        // Versions of one key cannot be divided.
        assert!(cut_evenly(&["a", "a", "a"], 2).is_empty());
        assert!(cut_evenly(&[], 2).is_empty() && cut_evenly(&["a", "b"], 1).is_empty());
    }

    #[test]
    fn a_value_longer_than_a_part_stands_alone() {
        let records = [(&b"a"[..], 1), (b"b", 1000), (b"c", 1)];
        let bounds = cut(records.into_iter(), 8);
        assert_eq!(bounds, [b"b", b"c"]);
    }
}
