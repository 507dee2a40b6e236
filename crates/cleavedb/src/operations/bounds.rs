//! Ranges of keys, as callers state them and as the index searches them.

use std::borrow::Cow;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use cleavedb_base::limits::KEYSPACE_PREFIX_LEN;
use cleavedb_base::{EncodedKey, Error, ErrorKind, KeyspaceId, Result};

/// Where a range begins or ends.
type End<'a> = Bound<Cow<'a, [u8]>>;

/// A range of keys: any range of the standard library over keys that can be seen as bytes, `..`,
/// and [`Prefix`].
///
/// A pair of options is the range from its first key (inclusive) to its second (exclusive), where
/// `None` is no bound. A range whose end is not behind its beginning is empty. Reads take one whose
/// ends are reversed for empty, too; writes and work on ranges refuse it
/// ([`ErrorKind::InvalidArgument`]), since what was meant is not done.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
/// use cleavedb::Prefix;
///
/// for key in ["a", "b", "ba", "c"] {
///     db.put(key, "value")?;
/// }
/// assert_eq!(db.range(..).count(), 4);
/// assert_eq!(db.range("b"..).count(), 3);
/// assert_eq!(db.range("b".."c").count(), 2);
/// assert_eq!(db.range(..=b"b").count(), 2);
/// assert_eq!(db.range(Prefix("b")).count(), 2);
/// assert_eq!(db.range((Some("b"), None)).count(), 3);
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub trait KeyRange {
    /// The beginning and the end.
    fn ends(&self) -> (End<'_>, End<'_>);
}

fn borrowed<K: AsRef<[u8]>>(key: &K) -> Cow<'_, [u8]> {
    Cow::Borrowed(key.as_ref())
}

fn included<K: AsRef<[u8]>>(key: &K) -> End<'_> {
    Bound::Included(borrowed(key))
}

fn excluded<K: AsRef<[u8]>>(key: &K) -> End<'_> {
    Bound::Excluded(borrowed(key))
}

impl KeyRange for RangeFull {
    fn ends(&self) -> (End<'_>, End<'_>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyRange for Range<K> {
    fn ends(&self) -> (End<'_>, End<'_>) {
        (included(&self.start), excluded(&self.end))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeFrom<K> {
    fn ends(&self) -> (End<'_>, End<'_>) {
        (included(&self.start), Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeTo<K> {
    fn ends(&self) -> (End<'_>, End<'_>) {
        (Bound::Unbounded, excluded(&self.end))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeInclusive<K> {
    fn ends(&self) -> (End<'_>, End<'_>) {
        (included(self.start()), included(self.end()))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeToInclusive<K> {
    fn ends(&self) -> (End<'_>, End<'_>) {
        (Bound::Unbounded, included(&self.end))
    }
}

impl<K: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<K>) {
    fn ends(&self) -> (End<'_>, End<'_>) {
        let (from, to) = self;
        (from.as_ref().map(borrowed), to.as_ref().map(borrowed))
    }
}

impl<K: AsRef<[u8]>> KeyRange for (Option<K>, Option<K>) {
    fn ends(&self) -> (End<'_>, End<'_>) {
        let (from, to) = self;
        let unbounded = || Bound::Unbounded;
        (
            from.as_ref().map_or_else(unbounded, included),
            to.as_ref().map_or_else(unbounded, excluded),
        )
    }
}

/// All keys that begin with these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix<K>(pub K);

impl<K: AsRef<[u8]>> KeyRange for Prefix<K> {
    fn ends(&self) -> (End<'_>, End<'_>) {
        let mut successor = self.0.as_ref().to_vec();
        while let Some(last) = successor.pop() {
            if last < u8::MAX {
                successor.push(last + 1);
                return (included(&self.0), Bound::Excluded(Cow::Owned(successor)));
            }
        }
        (included(&self.0), Bound::Unbounded)
    }
}

/// A range of tree keys: from `lower` (inclusive) to `upper` (exclusive).
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Vec<u8>,
}

impl Bounds {
    /// The tree keys of `range` in a keyspace.
    pub(crate) fn of(keyspace: KeyspaceId, range: &impl KeyRange) -> Self {
        let tree_key = |key: &[u8]| EncodedKey::new(keyspace, key).as_bytes().to_vec();
        let (from, to) = range.ends();
        let lower = match from {
            Bound::Included(key) => tree_key(&key),
            Bound::Excluded(key) => successor(tree_key(&key)),
            Bound::Unbounded => tree_key(&[]),
        };
        let upper = match to {
            Bound::Included(key) => successor(tree_key(&key)),
            Bound::Excluded(key) => tree_key(&key),
            Bound::Unbounded => end_of(keyspace),
        };
        Self { keyspace, lower, upper }
    }

    /// The bounds of a range that is to be changed: fails if its ends are reversed.
    pub(crate) fn to_change(keyspace: KeyspaceId, range: &impl KeyRange) -> Result<Self> {
        use Bound::{Excluded, Included};
        if let (Included(from) | Excluded(from), Included(to) | Excluded(to)) = range.ends()
            && from > to
        {
            let what = "the end of the range lies before its beginning; give the lesser key first";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        Ok(Self::of(keyspace, range))
    }

    /// All tree keys of the keyspaces from `first` to `last`.
    pub(crate) fn of_all(first: KeyspaceId, last: KeyspaceId) -> Self {
        let lower = EncodedKey::new(first, &[]).as_bytes().to_vec();
        Self { keyspace: first, lower, upper: end_of(last) }
    }
}

/// The least key above `key`.
pub(crate) fn successor(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// A key above all tree keys of a keyspace.
pub(crate) fn end_of(keyspace: KeyspaceId) -> Vec<u8> {
    match keyspace.0.checked_add(1) {
        Some(next) => next.to_be_bytes().to_vec(),
        // The last keyspace ends above every possible key.
        None => vec![0xff; KEYSPACE_PREFIX_LEN + (1 << 16)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(range: impl KeyRange, key: &[u8]) -> bool {
        let bounds = Bounds::of(KeyspaceId(7), &range);
        let key = EncodedKey::new(KeyspaceId(7), key).as_bytes().to_vec();
        bounds.lower <= key && key < bounds.upper
    }

    #[test]
    fn bounds_are_inclusive_or_exclusive() {
        let key = |range: (Bound<&str>, Bound<&str>)| {
            ["a", "b", "b\0", "c"].map(|key| contains(range, key.as_bytes()))
        };
        let (in_b, out_b) = (Bound::Included("b"), Bound::Excluded("b"));
        assert_eq!(key((in_b, Bound::Unbounded)), [false, true, true, true]);
        assert_eq!(key((out_b, Bound::Unbounded)), [false, false, true, true]);
        assert_eq!(key((Bound::Unbounded, in_b)), [true, true, false, false]);
        assert_eq!(key((Bound::Unbounded, out_b)), [true, false, false, false]);
        assert_eq!(key((in_b, in_b)), [false, true, false, false]);
        assert_eq!(key((in_b, out_b)), [false; 4]);
    }

    #[test]
    fn a_prefix_of_greatest_bytes_has_no_end_but_that_of_the_keyspace() {
        assert!(
            contains(Prefix(b"\xff\xff"), b"\xff\xff\xff")
                && !contains(Prefix(b"\xff\xff"), b"\xff\xfe")
        );
        assert!(contains(Prefix(b"a\xff"), b"a\xff\xff") && !contains(Prefix(b"a\xff"), b"b"));
        assert!(contains(Prefix(""), b"") && contains(Prefix(""), &[0xff; 1000]));
    }

    #[test]
    fn the_last_keyspace_has_an_end() {
        let bounds = Bounds::of(KeyspaceId(u16::MAX), &..);
        let key = EncodedKey::new(KeyspaceId(u16::MAX), &[0xff; 65_533]);
        assert!(key.as_bytes() < &*bounds.upper);
    }
}
