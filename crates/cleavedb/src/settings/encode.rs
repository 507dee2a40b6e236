//! Keys made of several parts, in the order of the parts: integers, strings, bytes, tuples.
//!
//! The database orders keys by their bytes. This is the encoding of FoundationDB's tuple layer,
//! under which the bytes order as the parts do: numbers by their value, negative ones first;
//! strings and bytes as themselves; a shorter tuple before those that begin with it. Parts of
//! different types order by type, so a part should have one type in all keys.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
//! use cleavedb::encode;
//!
//! for (user, day) in [("ann", 7), ("ann", -3), ("ann", 12), ("annabel", 1)] {
//!     db.put(encode::key(&(user, day)), "visit")?;
//! }
//! let mut days = Vec::new();
//! for item in db.range(encode::within(&("ann",))) {
//!     let (_, day): (String, i64) = encode::parts(&item?.key)?;
//!     days.push(day);
//! }
//! assert_eq!(days, [-3, 7, 12]);
//! # Ok::<(), cleavedb::Error>(())
//! ```

use std::ops::Range;

use cleavedb_base::{Error, ErrorKind, Result};
pub use foundationdb_tuple::{TuplePack, TupleUnpack};

/// The key of `parts`: a tuple of integers, floating-point numbers, strings, byte strings
/// (`foundationdb_tuple::Bytes`), options, and tuples of these.
pub fn key(parts: &impl TuplePack) -> Vec<u8> {
    foundationdb_tuple::pack(parts)
}

/// The parts of a key. Fails with [`ErrorKind::InvalidArgument`] if it has others.
pub fn parts<'k, T: TupleUnpack<'k>>(key: &'k [u8]) -> Result<T> {
    foundationdb_tuple::unpack(key).map_err(|e| {
        let message = format!("the key does not consist of the parts asked for: {e}");
        Error::new(ErrorKind::InvalidArgument, message).with("key", key.escape_ascii())
    })
}

/// The keys whose parts begin with `parts`, that of `parts` alone included: for
/// [`crate::Keyspace::range`] and cursors.
pub fn within(parts: &impl TuplePack) -> Range<Vec<u8>> {
    let from = key(parts);
    // No part begins with this byte.
    let to = [&from[..], &[0xff]].concat();
    from..to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_their_parts_do() {
        let numbers = [i64::MIN, -70_000, -256, -255, -1, 0, 1, 255, 256, 70_000, i64::MAX];
        let strings = ["", "\0", "\0\u{ff}", "a", "a\0", "a\0b", "ab", "b"];
        let keys: Vec<Vec<u8>> = strings
            .iter()
            .flat_map(|text| numbers.iter().map(move |number| key(&(*text, *number))))
            .collect();
        assert!(keys.is_sorted() && keys.windows(2).all(|two| two[0] != two[1]));
        for (at, key) in keys.iter().enumerate() {
            let found: (String, i64) = parts(key).unwrap();
            let expected = (strings[at / numbers.len()], numbers[at % numbers.len()]);
            assert_eq!((&found.0[..], found.1), expected);
        }
    }

    #[test]
    fn a_range_has_the_keys_that_begin_with_its_parts_and_no_others() {
        let all = within(&("a",));
        for inside in [key(&("a",)), key(&("a", 0)), key(&("a", "z", -9)), key(&("a", i64::MAX))] {
            assert!(all.contains(&inside));
        }
        for outside in [key(&("",)), key(&("a\0",)), key(&("a\0b", 1)), key(&("ab",)), key(&("b",))]
        {
            assert!(!all.contains(&outside));
        }
    }

    #[test]
    fn other_keys_are_refused() {
        let error = parts::<(String, i64)>(&key(&("a", "b"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(parts::<(i64,)>(b"\xff\xff").is_err() && parts::<(i64,)>(b"").is_err());
    }
}
