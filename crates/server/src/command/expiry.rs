//! Commands of the time that keys have.

use super::args::{Unit, is, number, showing};
use crate::exec::{Answer, Halt, View, event};
use crate::model::record::KeyRecord;
use crate::resp::reply::Reply;

/// When `EXPIRE` and its like change the end.
#[derive(Clone, Copy, Debug, Default)]
struct When {
    none: bool,
    some: bool,
    later: bool,
    earlier: bool,
}

impl When {
    fn of(words: &[&[u8]]) -> Answer<Self> {
        let mut when = Self::default();
        for word in words {
            match word {
                _ if is(word, "NX") => when.none = true,
                _ if is(word, "XX") => when.some = true,
                _ if is(word, "GT") => when.later = true,
                _ if is(word, "LT") => when.earlier = true,
                _ => {
                    return Err(showing("ERR Unsupported option ", word, ""));
                }
            }
        }
        if when.none && (when.some || when.later || when.earlier) {
            let why = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(Halt::error(why));
        }
        if when.later && when.earlier {
            return Err(Halt::error("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(when)
    }

    /// Whether an end is changed to another one, which may be in the past. No end is the latest.
    fn allows(self, old: Option<u64>, new: i64) -> bool {
        let is_later = old.is_some_and(|old| i128::from(new) > i128::from(old));
        let is_earlier = old.is_none_or(|old| i128::from(new) < i128::from(old));
        !(self.none && old.is_some()
            || self.some && old.is_none()
            || self.later && !is_later
            || self.earlier && !is_earlier)
    }
}

fn expire_in<'a>(args: &[&'a [u8]], view: &mut View<'a>, unit: Unit, name: &str) -> Answer {
    let when = When::of(&args[3..])?;
    let count = number(args[2])?;
    let invalid = || Halt::error(format!("ERR invalid expire time in '{name}' command"));
    let until = unit.time(count, view.now).ok_or_else(invalid)?;
    let Some(record) = view.record(args[1])? else { return Ok(Reply::Integer(0)) };
    if !when.allows(record.until, until) {
        return Ok(Reply::Integer(0));
    }
    let until = Some(until.max(0).cast_unsigned());
    let is_over = until.is_some_and(|until| until <= view.now);
    view.rewrite(view.database, args[1], KeyRecord { until, ..record });
    view.tell(event::GENERIC, if is_over { "del" } else { "expire" }, args[1]);
    Ok(Reply::Integer(1))
}

/// `EXPIRE key seconds [NX | XX | GT | LT]`
pub fn expire<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    expire_in(args, view, Unit::SECONDS, "expire")
}

/// `PEXPIRE key milliseconds [NX | XX | GT | LT]`
pub fn pexpire<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    expire_in(args, view, Unit::MILLIS, "pexpire")
}

/// `EXPIREAT key seconds [NX | XX | GT | LT]`
pub fn expireat<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    expire_in(args, view, Unit::AT_SECONDS, "expireat")
}

/// `PEXPIREAT key milliseconds [NX | XX | GT | LT]`
pub fn pexpireat<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    expire_in(args, view, Unit::AT_MILLIS, "pexpireat")
}

/// `PERSIST key`
pub fn persist<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let record = view.record(args[1])?.filter(|record| record.until.is_some());
    let Some(record) = record else { return Ok(Reply::Integer(0)) };
    view.rewrite(view.database, args[1], KeyRecord { until: None, ..record });
    view.tell(event::GENERIC, "persist", args[1]);
    Ok(Reply::Integer(1))
}

/// The end of a key, or -1 without an end and -2 without the key.
fn end(key: &[u8], view: &View<'_>, of: impl Fn(u64) -> u64) -> Answer {
    Ok(Reply::Integer(match view.record(key)? {
        None => -2,
        Some(record) => record.until.map_or(-1, |until| of(until).cast_signed()),
    }))
}

/// `TTL key`
pub fn ttl(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    end(args[1], view, |until| (until - view.now + 500) / 1000)
}

/// `PTTL key`
pub fn pttl(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    end(args[1], view, |until| until - view.now)
}

/// `EXPIRETIME key`
pub fn expiretime(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    end(args[1], view, |until| until.saturating_add(500) / 1000)
}

/// `PEXPIRETIME key`
pub fn pexpiretime(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    end(args[1], view, |until| until)
}
