//! Commands of bits: a string as a row of bits, of which the highest one of each byte comes first.

mod fields;

use super::args::{is, number, syntax};
use super::strings::{STRING_MAX, put};
use crate::exec::{Answer, Halt, View, event};
use crate::resp::reply::Reply;
use crate::resp::request::integer;

pub use self::fields::{bitfield, bitfield_ro};

/// The place of a bit, which lies within the longest string.
fn offset(text: &[u8]) -> Answer<u64> {
    let offset = integer(text).and_then(|offset| u64::try_from(offset).ok());
    let offset = offset.filter(|offset| offset / 8 < STRING_MAX as u64);
    offset.ok_or_else(|| Halt::error("ERR bit offset is not an integer or out of range"))
}

fn bit(bytes: &[u8], at: u64) -> bool {
    bytes.get((at / 8) as usize).is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0)
}

/// `SETBIT key offset value`
pub fn setbit<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let at = offset(args[2])?;
    let is_set = match args[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err(Halt::error("ERR bit is not an integer or out of range")),
    };
    let (bytes, until) = view.string(args[1])?.unwrap_or_default();
    let was_set = bit(&bytes, at);
    let byte = (at / 8) as usize;
    if byte < bytes.len() && was_set == is_set {
        return Ok(Reply::Integer(was_set.into()));
    }
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().max(byte + 1), 0);
    let mask = 0x80 >> (at % 8);
    bytes[byte] = if is_set { bytes[byte] | mask } else { bytes[byte] & !mask };
    put(args[1], bytes, until, "setbit", view);
    Ok(Reply::Integer(was_set.into()))
}

/// `GETBIT key offset`
pub fn getbit(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let at = offset(args[2])?;
    let found = view.string(args[1])?;
    Ok(Reply::Integer(found.is_some_and(|(bytes, _)| bit(&bytes, at)).into()))
}

/// The bits from a start up to an end, which both count from the end if they are negative, in bytes
/// or bits of a string of `len` bytes; none if there is none.
fn bits(start: i64, end: i64, by_bit: bool, len: usize) -> Option<std::ops::RangeInclusive<u64>> {
    let total = len as i64 * if by_bit { 8 } else { 1 };
    let at = |index: i64| if index < 0 { index.saturating_add(total).max(0) } else { index };
    let (start, end) = (at(start), at(end).min(total - 1));
    let (start, end) = if by_bit { (start, end) } else { (start.checked_mul(8)?, end * 8 + 7) };
    (start <= end && total > 0).then(|| start.cast_unsigned()..=end.cast_unsigned())
}

fn by_bit(word: &[u8]) -> Answer<bool> {
    match word {
        _ if is(word, "BIT") => Ok(true),
        _ if is(word, "BYTE") => Ok(false),
        _ => Err(syntax()),
    }
}

/// `BITCOUNT key [start end [BYTE | BIT]]`
pub fn bitcount(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let Some((bytes, _)) = view.string(args[1])? else { return Ok(Reply::Integer(0)) };
    let range = match &args[2..] {
        [] => bits(0, -1, false, bytes.len()),
        [start, end, unit @ ..] if unit.len() <= 1 => {
            let (start, end) = (number(start)?, number(end)?);
            if start < 0 && end < 0 && start > end {
                return Ok(Reply::Integer(0));
            }
            let by_bit = unit.first().map_or(Ok(false), |unit| by_bit(unit))?;
            bits(start, end, by_bit, bytes.len())
        }
        _ => return Err(syntax()),
    };
    let Some(range) = range else { return Ok(Reply::Integer(0)) };
    let (start, end) = (*range.start(), *range.end());
    let whole = &bytes[(start / 8) as usize..=(end / 8) as usize];
    view.take_time(whole.len())?;
    let mut count: u64 = whole.iter().map(|byte| u64::from(byte.count_ones())).sum();
    // Bits of the first and the last byte that lie outside.
    count -= (start / 8 * 8..start)
        .chain(end + 1..end / 8 * 8 + 8)
        .filter(|at| bit(&bytes, *at))
        .count() as u64;
    Ok(Reply::Integer(count.cast_signed()))
}

/// `BITPOS key bit [start [end [BYTE | BIT]]]`: without an end there are zeros behind the string.
pub fn bitpos(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let wanted = match number(args[2])? {
        0 => false,
        1 => true,
        _ => return Err(Halt::error("ERR The bit argument must be 1 or 0.")),
    };
    let Some((bytes, _)) = view.string(args[1])? else {
        return Ok(Reply::Integer(if wanted { -1 } else { 0 }));
    };
    let (start, end, by_bit) = match &args[3..] {
        [] => (0, None, false),
        [start] => (number(start)?, None, false),
        [start, end] => (number(start)?, Some(number(end)?), false),
        [start, end, unit] => {
            let start = number(start)?;
            let by_bit = by_bit(unit)?;
            (start, Some(number(end)?), by_bit)
        }
        _ => return Err(syntax()),
    };
    let total = bytes.len() as i64 * if by_bit { 8 } else { 1 };
    let start = if start < 0 { start.saturating_add(total).max(0) } else { start };
    let Some(range) = bits(start, end.unwrap_or(-1), by_bit, bytes.len()) else {
        return Ok(Reply::Integer(-1));
    };
    view.take_time(((range.end() - range.start()) / 8) as usize)?;
    // Bytes without such a bit are stepped over at once.
    let none = if wanted { 0 } else { 0xff };
    let mut at = *range.start();
    while at <= *range.end() {
        if at % 8 == 0 && bytes[(at / 8) as usize] == none {
            at += 8;
        } else if bit(&bytes, at) == wanted {
            return Ok(Reply::Integer(at.cast_signed()));
        } else {
            at += 1;
        }
    }
    Ok(Reply::Integer(if wanted || end.is_some() { -1 } else { bytes.len() as i64 * 8 }))
}

/// How strings are combined.
#[derive(Clone, Copy)]
enum BitOperation {
    And,
    Or,
    Xor,
    Not,
}

impl BitOperation {
    fn of(word: &[u8]) -> Answer<Self> {
        match word {
            _ if is(word, "AND") => Ok(Self::And),
            _ if is(word, "OR") => Ok(Self::Or),
            _ if is(word, "XOR") => Ok(Self::Xor),
            _ if is(word, "NOT") => Ok(Self::Not),
            _ => Err(syntax()),
        }
    }

    /// Combines a string with another one. The shorter one has zeros behind.
    fn combine(self, bytes: &mut Vec<u8>, other: &[u8]) {
        bytes.resize(bytes.len().max(other.len()), 0);
        let (both, rest) = bytes.split_at_mut(other.len());
        let pairs = both.iter_mut().zip(other);
        match self {
            Self::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                rest.fill(0);
            }
            Self::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Self::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            Self::Not => pairs.for_each(|(byte, other)| *byte = !other),
        }
    }
}

/// `BITOP AND | OR | XOR | NOT destination key [key ...]`
pub fn bitop<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let operation = BitOperation::of(args[1])?;
    let is_not = matches!(operation, BitOperation::Not);
    if is_not && args.len() != 4 {
        return Err(Halt::error("ERR BITOP NOT must be called with a single source key."));
    }
    let (mut result, mut steps) = (Vec::new(), 0);
    for (at, key) in args[3..].iter().enumerate() {
        let (bytes, _) = view.string(key)?.unwrap_or_default();
        steps += bytes.len();
        view.take_time(steps)?;
        match at {
            0 if !is_not => result = bytes.to_vec(),
            _ => operation.combine(&mut result, &bytes),
        }
    }
    let len = result.len();
    if len > 0 {
        put(args[2], result, None, "set", view);
    } else if view.delete(args[2])? {
        view.tell(event::GENERIC, "del", args[2]);
    }
    Ok(Reply::Integer(len as i64))
}
