//! Where the elements of collections lie: under the id of their collection, in parts.
//!
//! | key | value |
//! | --- | --- |
//! | id, `00`, field of a hash | the value of the field |
//! | id, `00`, member of a set | nothing |
//! | id, `00`, position in a list | the value |
//! | id, `00`, member of a sorted set | the score: the bits of a double, big-endian |
//! | id, `01`, score, member of a sorted set | nothing; `2d` if the score is -0 |
//! | id, `00`, entry of a stream | fields and values in turn, each behind its length |
//! | id, `01`, group of a stream | last entry; how many were read, consumers, pending entries |
//! | id, `02`, group, consumer | when it was seen, number of pending entries |
//! | id, `03`, group, entry | when and how often it was given, consumer |
//! | id, `04`, group, consumer, entry | nothing |
//!
//! Entries are their ids. The names of a group in front of others, and of a consumer there, stand
//! behind their lengths, which have four bytes.
//!
//! Numbers in keys are big-endian and keep their order: positions with the sign inverted; scores as
//! the bits of a double, of which negative ones are inverted and others get the sign; -0 is 0.

use std::ops::Bound;

/// The elements of a collection.
pub const MEMBERS: u8 = 0;

/// The members of a sorted set in the order of their scores.
pub const SCORES: u8 = 1;

/// The groups that read a stream.
pub const GROUPS: u8 = 1;

/// The consumers of groups.
pub const CONSUMERS: u8 = 2;

/// The entries that groups have given and that are not acknowledged.
pub const PENDING: u8 = 3;

/// Such entries of each consumer.
pub const OWNED: u8 = 4;

/// Number of parts.
pub const PARTS: u8 = 5;

/// Bytes of an element's key in front of its name.
pub const PREFIX_LEN: usize = 9;

/// Between which names of a part.
pub type NameRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Between which keys, or names.
pub type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The bytes in front of the names of a part.
pub fn prefix(id: u64, part: u8) -> [u8; PREFIX_LEN] {
    let mut bytes = [part; PREFIX_LEN];
    bytes[..8].copy_from_slice(&id.to_be_bytes());
    bytes
}

/// The key of an element.
pub fn key(id: u64, part: u8, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(PREFIX_LEN + name.len());
    key.extend_from_slice(&prefix(id, part));
    key.extend_from_slice(name);
    key
}

/// Keys or names as slices.
pub fn slices(bounds: &KeyBounds) -> NameRange<'_> {
    let (from, to) = bounds;
    (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice))
}

/// The first name behind all names that begin so, of which the first byte is not the greatest.
pub fn behind_all(begin: &[u8]) -> Vec<u8> {
    let last = begin.iter().rposition(|byte| *byte < u8::MAX).unwrap_or_default();
    let mut behind = begin[..=last].to_vec();
    behind[last] += 1;
    behind
}

/// The keys of the elements between two names of a part.
pub fn bounds(id: u64, part: u8, names: NameRange<'_>) -> KeyBounds {
    let (from, to) = names;
    let from = match from.map(|name| key(id, part, name)) {
        Bound::Unbounded => Bound::Included(prefix(id, part).to_vec()),
        bound => bound,
    };
    let to = match to.map(|name| key(id, part, name)) {
        Bound::Unbounded => Bound::Excluded(prefix(id, part + 1).to_vec()),
        bound => bound,
    };
    (from, to)
}

/// The id and the part of an element's key, which is none if it is too short.
pub fn place(key: &[u8]) -> Option<(u64, u8)> {
    let (id, rest) = key.split_first_chunk()?;
    Some((u64::from_be_bytes(*id), *rest.first()?))
}

/// The name of a position in a list.
pub fn of_position(position: i64) -> [u8; 8] {
    (position ^ i64::MIN).to_be_bytes()
}

/// The position in a list of a name.
pub fn position(name: &[u8]) -> Option<i64> {
    name.try_into().ok().map(|bytes| i64::from_be_bytes(bytes) ^ i64::MIN)
}

/// The bytes of a score, in the order of numbers; those of -0 are those of 0.
pub fn of_score(score: f64) -> [u8; 8] {
    let bits = if score == 0.0 { 0 } else { score.to_bits().cast_signed() };
    let ordered = if bits < 0 { !bits } else { bits ^ i64::MIN };
    ordered.to_be_bytes()
}

/// The first name behind all names of a score.
pub fn behind_score(score: f64) -> [u8; 8] {
    u64::from_be_bytes(of_score(score)).saturating_add(1).to_be_bytes()
}

/// The value of a member with a score.
pub fn of_member(score: f64) -> [u8; 8] {
    score.to_bits().to_be_bytes()
}

/// The score in the value of a member.
pub fn member_score(value: &[u8]) -> Option<f64> {
    value.try_into().ok().map(|bytes| f64::from_bits(u64::from_be_bytes(bytes)))
}

/// The name of a member among [`SCORES`].
pub fn of_scored(score: f64, member: &[u8]) -> Vec<u8> {
    [&of_score(score)[..], member].concat()
}

/// The score and the member of a name among [`SCORES`].
pub fn scored(name: &[u8]) -> Option<(f64, &[u8])> {
    let (bytes, member) = name.split_first_chunk()?;
    let ordered = i64::from_be_bytes(*bytes);
    let bits = if ordered < 0 { ordered ^ i64::MIN } else { !ordered };
    Some((f64::from_bits(bits.cast_unsigned()), member))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_order() {
        let positions = [i64::MIN, -2, -1, 0, 1, 255, 256, i64::MAX];
        assert!(positions.is_sorted_by_key(|it| of_position(*it)));
        assert!(positions.iter().all(|it| position(&of_position(*it)) == Some(*it)));
        let (inf, tiny) = (f64::INFINITY, f64::MIN_POSITIVE);
        let scores = [-inf, -1e300, -1.5, -1.0, -tiny, 0.0, tiny, 0.1, 1.0, 2.0, 1e300, inf];
        assert!(scores.is_sorted_by_key(|it| of_score(*it)));
        for score in scores {
            let name = of_scored(score, b"a");
            let (read, member) = scored(&name).unwrap();
            assert_eq!((read.to_bits(), member), (score.to_bits(), &b"a"[..]));
            assert!(of_score(score) < behind_score(score));
            assert_eq!(member_score(&of_member(score)).unwrap().to_bits(), score.to_bits());
        }
        assert_eq!(of_score(-0.0), of_score(0.0));
        assert_eq!((position(b"short"), scored(b"short")), (None, None));
        assert_eq!(member_score(b"short"), None);
    }

    #[test]
    fn an_element_lies_under_its_id() {
        assert_eq!(place(&key(7, MEMBERS, b"name")), Some((7, MEMBERS)));
        assert_eq!(place(&prefix(u64::MAX, SCORES)), Some((u64::MAX, SCORES)));
        assert_eq!(place(&[0; 8]), None);
    }
}
