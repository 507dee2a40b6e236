//! `BITFIELD`: numbers of any width within a string.

use super::bit;
use crate::command::args::{is, number, syntax};
use crate::command::strings::{STRING_MAX, put};
use crate::exec::{Answer, Halt, View};
use crate::resp::reply::Reply;
use crate::resp::request::integer;

/// The width of a number, and whether it has a sign.
#[derive(Clone, Copy, Debug)]
struct FieldType {
    is_signed: bool,
    width: u32,
}

impl FieldType {
    fn of(text: &[u8]) -> Answer<Self> {
        let why = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not \
                   supported but i64 is.";
        let (is_signed, most) = match text.first() {
            Some(b'i') => (true, 64),
            Some(b'u') => (false, 63),
            _ => return Err(Halt::error(why)),
        };
        let width = integer(&text[1..]).filter(|width| (1..=most).contains(width));
        let width = width.ok_or_else(|| Halt::error(why))?;
        Ok(Self { is_signed, width: width as u32 })
    }

    /// The place of a field: of a bit, or of one of several such fields behind `#`.
    fn offset(self, text: &[u8]) -> Answer<u64> {
        let (text, step) = match text.strip_prefix(b"#") {
            Some(text) => (text, i64::from(self.width)),
            None => (text, 1),
        };
        let at = integer(text).and_then(|at| at.checked_mul(step));
        let at = at.and_then(|at| u64::try_from(at).ok());
        let at = at.filter(|at| at / 8 < STRING_MAX as u64);
        at.ok_or_else(|| Halt::error("ERR bit offset is not an integer or out of range"))
    }

    fn range(self) -> std::ops::RangeInclusive<i128> {
        match self.is_signed {
            true => -(1 << (self.width - 1))..=(1 << (self.width - 1)) - 1,
            false => 0..=(1 << self.width) - 1,
        }
    }

    /// A number as the lowest bits of another one.
    fn wrapped(self, number: i128) -> i128 {
        let number = number & ((1 << self.width) - 1);
        match self.range().contains(&number) {
            true => number,
            false => number - (1 << self.width),
        }
    }

    fn read(self, bytes: &[u8], at: u64) -> i128 {
        let bits = (at..at + u64::from(self.width)).map(|at| i128::from(bit(bytes, at)));
        self.wrapped(bits.fold(0, |number, bit| number << 1 | bit))
    }

    fn write(self, bytes: &mut [u8], at: u64, number: i128) {
        for place in 0..u64::from(self.width) {
            let (at, shift) = (at + place, u64::from(self.width) - 1 - place);
            let (byte, mask) = (&mut bytes[(at / 8) as usize], 0x80 >> (at % 8));
            *byte = if number >> shift & 1 == 1 { *byte | mask } else { *byte & !mask };
        }
    }
}

/// What happens to a number that has no room.
#[derive(Clone, Copy, Debug)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    /// What a number becomes; none if it is refused.
    fn fit(self, number: i128, within: FieldType) -> Option<i128> {
        let range = within.range();
        match self {
            _ if range.contains(&number) => Some(number),
            Self::Wrap => Some(within.wrapped(number)),
            Self::Saturate => Some(number.clamp(*range.start(), *range.end())),
            Self::Fail => None,
        }
    }
}

enum FieldAction {
    Get,
    Set(i64),
    Add(i64),
}

/// One of the calls of a command.
struct FieldCall {
    action: FieldAction,
    of: FieldType,
    at: u64,
    overflow: Overflow,
}

fn calls(words: &[&[u8]]) -> Answer<Vec<FieldCall>> {
    let (mut calls, mut overflow, mut words) = (Vec::new(), Overflow::Wrap, words);
    while let [word, rest @ ..] = words {
        words = match rest {
            [kind, rest @ ..] if is(word, "OVERFLOW") => {
                overflow = match *kind {
                    kind if is(kind, "WRAP") => Overflow::Wrap,
                    kind if is(kind, "SAT") => Overflow::Saturate,
                    kind if is(kind, "FAIL") => Overflow::Fail,
                    _ => return Err(Halt::error("ERR Invalid OVERFLOW type specified")),
                };
                rest
            }
            [of, at, rest @ ..] if is(word, "GET") => {
                let of = FieldType::of(of)?;
                let at = of.offset(at)?;
                calls.push(FieldCall { action: FieldAction::Get, of, at, overflow });
                rest
            }
            [of, at, value, rest @ ..] if is(word, "SET") || is(word, "INCRBY") => {
                let of = FieldType::of(of)?;
                let at = of.offset(at)?;
                let value = number(value)?;
                let action = match is(word, "SET") {
                    true => FieldAction::Set(value),
                    false => FieldAction::Add(value),
                };
                calls.push(FieldCall { action, of, at, overflow });
                rest
            }
            _ => return Err(syntax()),
        };
    }
    Ok(calls)
}

/// Runs calls on bytes, which have room for all that is written.
fn run(calls: &[FieldCall], bytes: &mut [u8]) -> Reply {
    let replies = calls.iter().map(|FieldCall { action, of, at, overflow }| {
        let old = of.read(bytes, *at);
        let (new, told) = match action {
            FieldAction::Get => return Reply::Integer(old as i64),
            FieldAction::Set(value) => {
                // A number without a sign is taken for its bits.
                let value = match of.is_signed {
                    true => i128::from(*value),
                    false => i128::from(value.cast_unsigned()),
                };
                (overflow.fit(value, *of), Some(old))
            }
            FieldAction::Add(step) => {
                let new = overflow.fit(old + i128::from(*step), *of);
                (new, new)
            }
        };
        match (new, told) {
            (Some(new), Some(told)) => {
                of.write(bytes, *at, new);
                Reply::Integer(told as i64)
            }
            _ => Reply::Nil,
        }
    });
    Reply::Array(replies.collect())
}

/// `BITFIELD key [GET type offset] [OVERFLOW WRAP | SAT | FAIL] [SET type offset value]
/// [INCRBY type offset step] ...`
pub fn bitfield<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let calls = calls(&args[2..])?;
    let (before, until) = view.string(args[1])?.unwrap_or_default();
    let mut bytes = before.to_vec();
    let writes = calls.iter().filter(|call| !matches!(call.action, FieldAction::Get));
    let ends = writes.map(|call| (call.at + u64::from(call.of.width)).div_ceil(8) as usize);
    let Some(end) = ends.max() else { return Ok(run(&calls, &mut bytes)) };
    bytes.resize(bytes.len().max(end), 0);
    let replies = run(&calls, &mut bytes);
    if bytes != before {
        put(args[1], bytes, until, "setbit", view);
    }
    Ok(replies)
}

/// `BITFIELD_RO key [GET type offset] ...`
pub fn bitfield_ro(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let calls = calls(&args[2..])?;
    if calls.iter().any(|call| !matches!(call.action, FieldAction::Get)) {
        return Err(Halt::error("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    let (bytes, _) = view.string(args[1])?.unwrap_or_default();
    Ok(run(&calls, &mut bytes.to_vec()))
}
