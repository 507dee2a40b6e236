//! `scan`: lists keys and values in order.

use cleavedb::{Item, Keyspace, Range};
use serde::Serialize;

use crate::args::{ScanArgs, Within};
use crate::bounds::bounds;
use crate::console::Console;
use crate::encoding::JsonBytes;
use crate::failure::{Exit, Failure, Result};
use crate::global::Global;
use crate::interrupt;
use crate::store;

#[derive(Serialize)]
struct Row<'a> {
    key: JsonBytes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<JsonBytes<'a>>,
}

pub(super) fn run(
    args: &ScanArgs,
    within: &Within,
    global: &Global,
    console: &Console,
) -> Result<Exit> {
    check_form(args, console)?;
    interrupt::watch(console)?;
    let db = store::open_to_read(global, console)?;
    let found = store::find_keyspace(&db, within);
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
    let range = keyspace.range((from, to));
    print(if args.keys_only { range.keys_only() } else { range }, args, console)
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
