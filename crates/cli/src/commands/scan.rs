//! `scan`: keys and values in order.

use std::ffi::OsString;

use cleavedb::{Item, Range};
use serde::Serialize;

use crate::args::{Global, ScanArgs};
use crate::console::Console;
use crate::encoding::{JsonBytes, from_argument};
use crate::failure::{Exit, Result};
use crate::interrupt;
use crate::store;

#[derive(Serialize)]
struct Row<'a> {
    key: JsonBytes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<JsonBytes<'a>>,
}

pub(super) fn run(args: &ScanArgs, global: &Global, console: &Console) -> Result<Exit> {
    let (from, to) = bounds(args, global.hex)?;
    interrupt::watch()?;
    let db = store::open_existing(global)?;
    let open = if args.keys_only { cleavedb::Db::range_keys } else { cleavedb::Db::range };
    let range = open(&db, from.as_deref(), to.as_deref());
    let done = print(range, args, console);
    // A range keeps the database open, so it had to go first.
    let closed = db.close();
    done?;
    closed?;
    Ok(Exit::Done)
}

fn print(mut range: Range, args: &ScanArgs, console: &Console) -> Result<()> {
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0 {
        interrupt::check()?;
        let item = if args.reverse { range.next_back() } else { range.next() };
        let Some(item) = item else { break };
        print_one(&item?, args, console)?;
        left -= 1;
    }
    console.flush()
}

fn print_one(item: &Item, args: &ScanArgs, console: &Console) -> Result<()> {
    let value = (!args.keys_only).then_some(&item.value);
    if console.json() {
        let value = value.map(|value| console.json_bytes(value));
        return console.json_line(&Row { key: console.json_bytes(&item.key), value });
    }
    if args.raw0 {
        for bytes in [Some(&item.key), value].into_iter().flatten() {
            console.write(bytes)?;
            console.write(b"\0")?;
        }
        return Ok(());
    }
    match value {
        Some(value) => {
            console.line(format_args!("{}\t{}", console.shown(&item.key), console.shown(value)))
        }
        None => console.line(console.shown(&item.key)),
    }
}

type Bound = Option<Vec<u8>>;

/// The keys that `--from`, `--to` and `--prefix` leave together.
fn bounds(args: &ScanArgs, hex: bool) -> Result<(Bound, Bound)> {
    let bytes = |argument: &Option<OsString>| {
        argument.as_deref().map(|argument| from_argument(argument, hex)).transpose()
    };
    let (from, to, prefix) = (bytes(&args.from)?, bytes(&args.to)?, bytes(&args.prefix)?);
    let end = prefix.as_deref().and_then(successor);
    let to = [to, end].into_iter().flatten().min();
    Ok((from.max(prefix), to))
}

/// The least key above all that begin with `prefix`; `None` if there is none.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut successor = prefix[..=last].to_vec();
    successor[last] += 1;
    Some(successor)
}

#[cfg(test)]
mod tests {
    use super::successor;

    #[test]
    fn the_successor_of_a_prefix_is_above_all_its_keys() {
        assert_eq!(successor(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(successor(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(successor(b"\xff\xff"), None);
        assert_eq!(successor(b""), None);
    }
}
