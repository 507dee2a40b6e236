//! `scan`: lists keys and values in order.

use cleavedb::{Cursor, Keyspace};
use cleavedb_units as units;
use serde::Serialize;

use crate::args::{ScanArgs, Within};
use crate::bounds::bounds;
use crate::console::Console;
use crate::encoding::JsonBytes;
use crate::expiry::Timestamp;
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::interrupt;
use crate::store;

#[derive(Serialize)]
struct Row<'a> {
    key: JsonBytes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<JsonBytes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Timestamp>,
}

pub(super) fn run(
    args: &ScanArgs,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    check_form(args, console)?;
    interrupt::watch(console)?;
    let db = store::open_or_follow(global, console)?;
    let found = store::find_one_keyspace(&db, within, console);
    let done = found.and_then(|keyspace| list(&keyspace, args, console));
    store::closed(db, done)?;
    Ok(Exit::Done)
}

/// Fails if two forms of output are requested at once.
fn check_form(args: &ScanArgs, console: &Console) -> Result<()> {
    if args.raw0 && (console.json() || console.hex()) {
        let what = "--raw0 prints raw bytes: it cannot be used with --json or --hex, see --help";
        return Err(Failure::Usage(what.to_owned()));
    }
    Ok(())
}

/// Lists the keys of the arguments.
pub(super) fn list(keyspace: &Keyspace, args: &ScanArgs, console: &Console) -> Result<()> {
    check_form(args, console)?;
    let (from, to) = bounds(&args.bounds, console.hex())?;
    print(keyspace.cursor((from, to)), args, console)
}

fn print(mut cursor: Cursor, args: &ScanArgs, console: &Console) -> Result<()> {
    let (mut left, mut left_out) = (args.limit.unwrap_or(u64::MAX), 0);
    while left > 0 {
        interrupt::check()?;
        if !(if args.reverse { cursor.prev() } else { cursor.next() })? {
            break;
        }
        let value = if args.keys_only { Ok(None) } else { cursor.value() };
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                console.left_out(error, &mut left_out)?;
                continue;
            }
        };
        let expires = Timestamp::of(cursor.expiry());
        let key = cursor.key().unwrap_or_default();
        print_one(key, value.as_deref(), expires, args, console)?;
        left -= 1;
    }
    console.flush()?;
    if left_out > 0 { Err(Failure::LeftOut(left_out)) } else { Ok(()) }
}

fn print_one(
    key: &[u8],
    value: Option<&[u8]>,
    expires: Option<Timestamp>,
    args: &ScanArgs,
    console: &Console,
) -> Result<()> {
    if console.json() {
        let value = value.map(|value| console.json_bytes(value));
        return console.json_line(&Row { key: console.json_bytes(key), value, expires });
    }
    if args.raw0 {
        for bytes in [Some(key), value].into_iter().flatten() {
            console.write(bytes)?;
            console.write(b"\0")?;
        }
        return Ok(());
    }
    match value {
        Some(value) => {
            let value = match console.on_terminal() {
                true => shortened(value, |bytes| console.shown(bytes)),
                false => console.shown(value),
            };
            console.line(format_args!("{}\t{value}", console.shown(key)))
        }
        None => console.line(console.shown(key)),
    }
}

/// Most bytes of a value that are shown to a reader at a terminal.
const SHOWN_MAX: usize = 160;

/// A value as `shown`, or its begin and its length if it is long.
fn shortened(value: &[u8], shown: impl Fn(&[u8]) -> String) -> String {
    if value.len() <= SHOWN_MAX {
        return shown(value);
    }
    // Not within a character.
    let is_begin = |at: &usize| value[*at] & 0xc0 != 0x80;
    let end = (SHOWN_MAX - 3..=SHOWN_MAX).rev().find(is_begin).unwrap_or(SHOWN_MAX);
    format!("{}... ({} in all)", shown(&value[..end]), units::bytes(value.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::shortened;
    use crate::encoding::escape;

    #[test]
    fn a_long_value_is_shortened_between_characters() {
        assert_eq!(shortened(&[b'x'; 160], escape), "x".repeat(160));
        let long = shortened(&[b'x'; 1 << 20], escape);
        assert_eq!(long, "x".repeat(160) + "... (1.00 MiB in all)");
        for front in ["", "a", "ab"] {
            let text = front.to_owned() + &"\u{4e16}".repeat(100);
            let shown = shortened(text.as_bytes(), escape);
            assert!(!shown.contains("\\x") && shown.starts_with(front), "{shown}");
        }
        assert!(shortened(&[0x80; 200], escape).starts_with("\\x80"));
    }
}
