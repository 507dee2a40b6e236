//! Arguments as what they stand for, and Redis's words for those that do not.

use std::time::Duration;

use super::float;
use crate::exec::{Answer, Halt};
use crate::resp::request::integer;

/// The error of arguments in an order that has no meaning.
pub fn syntax() -> Halt {
    Halt::error("ERR syntax error")
}

/// A number.
pub fn number(text: &[u8]) -> Answer<i64> {
    integer(text).ok_or_else(|| Halt::error("ERR value is not an integer or out of range"))
}

/// A number whose negative is one, too.
pub fn negatable(text: &[u8]) -> Answer<i64> {
    let (number, most) = (number(text)?, i64::MAX);
    let why = || format!("ERR value is out of range, value must between -{most} and {most}");
    if number == i64::MIN { Err(Halt::error(why())) } else { Ok(number) }
}

/// A number of elements.
pub fn count(text: &[u8]) -> Answer<u64> {
    at_least(text, 0, "ERR value is out of range, must be positive").map(i64::cast_unsigned)
}

/// A number that is not below `least`, with an error of its own.
pub fn at_least(text: &[u8], least: i64, error: &'static str) -> Answer<i64> {
    integer(text).filter(|number| *number >= least).ok_or_else(|| Halt::error(error))
}

/// How long a client waits for a key; for ever without a time.
pub fn timeout(text: &[u8]) -> Answer<Option<Duration>> {
    let seconds = float::double(text);
    let seconds =
        seconds.ok_or_else(|| Halt::error("ERR timeout is not a float or out of range"))?;
    let millis = (seconds * 1000.0).ceil();
    match millis {
        // Redis reckons with a number that is too large as with a negative one.
        _ if millis < 0.0 || millis > i64::MAX as f64 => {
            Err(Halt::error("ERR timeout is negative"))
        }
        0.0 => Ok(None),
        _ => Ok(Some(Duration::from_millis(millis as u64))),
    }
}

/// A number of 32 bits, with an error of its own, if it has one.
pub fn small(text: &[u8], error: Option<&'static str>) -> Answer<i32> {
    let number = match error {
        None => number(text)?,
        Some(error) => integer(text).ok_or_else(|| Halt::error(error))?,
    };
    let why = "ERR value is out of range, value must between -2147483648 and 2147483647";
    i32::try_from(number).map_err(|_| Halt::error(error.unwrap_or(why)))
}

/// The begin of an argument as errors show it: no more than `most` bytes, and none behind a zero.
pub fn shown(argument: &[u8], most: usize) -> &[u8] {
    let text = argument.split(|byte| *byte == 0).next().unwrap_or_default();
    &text[..text.len().min(most)]
}

/// An error that shows an argument between two texts, without line breaks at its end.
pub fn showing(before: &str, argument: &[u8], behind: &str) -> Halt {
    showing_all(&[before.as_bytes(), argument, behind.as_bytes()])
}

/// An error of texts and arguments, without line breaks at its end.
pub fn showing_all(parts: &[&[u8]]) -> Halt {
    let text: Vec<u8> = parts.iter().flat_map(|part| shown(part, usize::MAX)).copied().collect();
    let end = text.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
    Halt::error(text[..end].to_vec())
}

/// The error of a subcommand with fewer or more arguments than it takes.
pub fn wrong_subcommand(args: &[&[u8]]) -> Halt {
    let behind = [b"'. Try ", &shown(args[0], 128).to_ascii_uppercase()[..], b" HELP."].concat();
    let before = "ERR unknown subcommand or wrong number of arguments for '";
    showing(before, shown(args[1], 128), &String::from_utf8_lossy(&behind))
}

/// Whether an argument is a word, in whatever case.
pub fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// How an argument says when a value ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Milliseconds in one of its numbers.
    millis: i64,
    /// Whether it counts from now, and not from 1970.
    from_now: bool,
}

impl Unit {
    /// Seconds from now.
    pub const SECONDS: Self = Self { millis: 1000, from_now: true };
    /// Milliseconds from now.
    pub const MILLIS: Self = Self { millis: 1, from_now: true };
    /// Seconds since 1970.
    pub const AT_SECONDS: Self = Self { millis: 1000, from_now: false };
    /// Milliseconds since 1970.
    pub const AT_MILLIS: Self = Self { millis: 1, from_now: false };

    /// The unit that a word of `SET` and `GETEX` stands for.
    pub fn of(word: &[u8]) -> Option<Self> {
        match word {
            _ if is(word, "EX") => Some(Self::SECONDS),
            _ if is(word, "PX") => Some(Self::MILLIS),
            _ if is(word, "EXAT") => Some(Self::AT_SECONDS),
            _ if is(word, "PXAT") => Some(Self::AT_MILLIS),
            _ => None,
        }
    }

    /// The time of a number in this unit, in milliseconds since 1970; none if that is no time.
    pub fn time(self, number: i64, now: u64) -> Option<i64> {
        let millis = number.checked_mul(self.millis)?;
        let from = if self.from_now { now.cast_signed() } else { 0 };
        millis.checked_add(from)
    }

    /// The time when a new value ends, which has to be ahead of 1970 and of now.
    pub fn deadline(self, text: &[u8], now: u64, command: &str) -> Answer<u64> {
        let count = number(text)?;
        let time = Some(count).filter(|count| *count > 0).and_then(|count| self.time(count, now));
        let invalid = || Halt::error(format!("ERR invalid expire time in '{command}' command"));
        time.and_then(|time| u64::try_from(time).ok()).ok_or_else(invalid)
    }
}
