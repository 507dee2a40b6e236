//! Ids of entries as arguments.

use crate::command::args::shown;
use crate::exec::{Answer, Halt};
use crate::model::stream::StreamId;

/// Bytes of the longest argument that is an id.
const ID_MAX: usize = 127;

fn invalid() -> Halt {
    Halt::error("ERR Invalid stream ID specified as stream command argument")
}

/// A number as C's `strtoull` reads it: behind spaces and a sign, of which a minus counts from the
/// end of 64 bits.
fn unsigned(text: &[u8]) -> Option<u64> {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'\x0b';
    let start = text.iter().position(|byte| !is_space(byte))?;
    let (is_negative, digits) = match &text[start..] {
        // A negative number without spaces or zeros in front is seen as one.
        [b'-', b'1'..=b'9', ..] if start == 0 => return None,
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let number = digits.first().filter(|digit| digit.is_ascii_digit());
    let number = number.and_then(|_| str::from_utf8(digits).ok()?.parse::<u64>().ok())?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// The time and the number of an id, of which the second may be left out or be a star.
fn parts(text: &[u8]) -> Answer<(u64, Option<&[u8]>)> {
    if text.len() > ID_MAX {
        return Err(invalid());
    }
    let text = shown(text, ID_MAX);
    let (ms, seq) = match text.iter().position(|byte| *byte == b'-') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    Ok((unsigned(ms).ok_or_else(invalid)?, seq))
}

/// An id whose number is `missing` if it is left out.
pub(super) fn id(text: &[u8], missing: u64) -> Answer<StreamId> {
    let (ms, seq) = parts(text)?;
    let seq = seq.map_or(Some(missing), unsigned).ok_or_else(invalid)?;
    Ok(StreamId::new(ms, seq))
}

/// An id, or a sign for the least or the greatest one.
pub(super) fn id_or_end(text: &[u8], missing: u64) -> Answer<StreamId> {
    match shown(text, text.len()) {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => id(text, missing),
    }
}

/// The id that an entry gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewId {
    /// The time of the command.
    Now,
    /// The next one of a time.
    Within(u64),
    /// An id that is given.
    Given(StreamId),
}

impl NewId {
    pub(super) fn of(text: &[u8]) -> Answer<Self> {
        match parts(text)? {
            (ms, Some(b"*")) => Ok(Self::Within(ms)),
            _ => id(text, 0).map(Self::Given),
        }
    }
}

/// Ids between two, both included; without an id if the second comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdRange {
    pub(super) from: StreamId,
    pub(super) to: StreamId,
}

impl IdRange {
    pub(super) const ALL: Self = Self { from: StreamId::MIN, to: StreamId::MAX };

    /// All ids behind one; all of the greatest one.
    pub(super) fn behind(id: StreamId) -> Self {
        Self { from: id.next().unwrap_or_default(), ..Self::ALL }
    }

    /// What a command has as two ends: each is left out behind a bracket.
    pub(super) fn of(from: &[u8], to: &[u8]) -> Answer<Self> {
        Ok(Self { from: start(from)?, to: end(to)? })
    }
}

/// The first id of a range.
pub(super) fn start(text: &[u8]) -> Answer<StreamId> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            let none = || Halt::error("ERR invalid start ID for the interval");
            id(rest, 0)?.next().ok_or_else(none)
        }
        _ => id_or_end(text, 0),
    }
}

fn end(text: &[u8]) -> Answer<StreamId> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            let none = || Halt::error("ERR invalid end ID for the interval");
            id(rest, u64::MAX)?.previous().ok_or_else(none)
        }
        _ => id_or_end(text, u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_does() {
        let long = ["1-1", &" ".repeat(125)].concat();
        for (text, expected) in [
            ("1-2", Some((1, 2))),
            ("7", Some((7, 9))),
            (" +7-01", Some((7, 1))),
            ("1--0", Some((1, 0))),
            ("1--05", Some((1, u64::MAX - 4))),
            ("1- -5", Some((1, u64::MAX - 4))),
            ("1-2\0x", Some((1, 2))),
            ("18446744073709551615", Some((u64::MAX, 9))),
            ("18446744073709551616", None),
            ("1--5", None),
            ("1-", None),
            ("-1", None),
            ("1-2-3", None),
            ("1 ", None),
            ("", None),
            ("+", None),
            ("-", None),
            ("x", None),
            (&long, None),
        ] {
            let expected = expected.map(|(ms, seq)| StreamId::new(ms, seq));
            assert_eq!(id(text.as_bytes(), 9).ok(), expected, "{text}");
        }
        assert_eq!(NewId::of(b"5-*").unwrap(), NewId::Within(5));
        assert!(NewId::of(b"*-5").is_err());
    }

    #[test]
    fn ends_of_ranges_are_left_out_behind_a_bracket() {
        let range = |from: &str, to: &str| IdRange::of(from.as_bytes(), to.as_bytes()).ok();
        let of = |from, to| Some(IdRange { from, to });
        let new = StreamId::new;
        assert_eq!(range("-", "+"), Some(IdRange::ALL));
        assert_eq!(range("5", "6"), of(new(5, 0), new(6, u64::MAX)));
        assert_eq!(range("(5", "(6"), of(new(5, 1), new(6, u64::MAX - 1)));
        assert_eq!(range("(5-18446744073709551615", "(6-0"), of(new(6, 0), new(5, u64::MAX)));
        for (from, to) in [("(-", "+"), ("-", "(+"), ("(", "+"), ("-", "(0-0")] {
            assert_eq!(range(from, to), None, "{from} {to}");
        }
        let max = "(18446744073709551615-18446744073709551615";
        assert_eq!(range(max, "+"), None);
    }
}
