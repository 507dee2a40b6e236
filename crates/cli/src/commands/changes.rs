//! `changes`: prints what was committed, and follows it.

use std::time::Duration;

use cleavedb::{Change, ChangeBatch, ChangeKind, Changes, Db, ErrorKind};
use serde::Serialize;

use crate::args::ChangesArgs;
use crate::console::Console;
use crate::encoding::JsonBytes;
use crate::expiry::Timestamp;
use crate::failure::{Exit, Result};
use crate::global::Global;
use crate::{interrupt, store};

/// How long a command that follows waits before it asks whether it was interrupted.
const WAIT: Duration = Duration::from_millis(200);

/// One change as JSON.
#[derive(Default, Serialize)]
struct ChangeLine<'a> {
    seq: u64,
    /// What a later call goes on from.
    next: u64,
    keyspace: &'a str,
    #[serde(rename = "do")]
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<JsonBytes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<JsonBytes<'a>>,
    /// Length of a blob, whose value is not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    len: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operand: Option<JsonBytes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<JsonBytes<'a>>,
    /// The key behind a range that is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<JsonBytes<'a>>,
    /// The last key of a range that was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<JsonBytes<'a>>,
}

pub(super) fn run(args: &ChangesArgs, global: &Global, console: &Console) -> Result<Exit> {
    interrupt::watch(console)?;
    let db = match args.follow {
        // Beside a process that writes, before it and after it.
        true => store::follow(global)?,
        false => store::open_or_follow(global, console)?,
    };
    let done = print(&db, args, console);
    store::closed(db, done).map(|()| Exit::Done)
}

fn print(db: &Db, args: &ChangesArgs, console: &Console) -> Result<()> {
    if let Some(name) = args.keyspace.as_deref()
        && db.find_keyspace(name)?.is_none()
    {
        console.note(&format!("there is no keyspace {name} now; shown is what was done in one"));
    }
    let from = args.from.or_else(|| db.oldest_change()).unwrap_or(1);
    let mut changes = db.changes(from)?;
    loop {
        print_new(&mut changes, args, console)?;
        console.flush()?;
        if !args.follow {
            return Ok(());
        }
        while !changes.wait(WAIT) {
            interrupt::check()?;
        }
    }
}

/// Prints what is there.
fn print_new(changes: &mut Changes, args: &ChangesArgs, console: &Console) -> Result<()> {
    for batch in changes {
        interrupt::check()?;
        let batch = match batch {
            // The process that writes was faster in many looks.
            Err(e) if args.follow && e.kind() == ErrorKind::Outdated => return Ok(()),
            batch => batch?,
        };
        let wanted = |change: &&Change| match &args.keyspace {
            Some(name) => *change.keyspace == **name,
            None => true,
        };
        for change in batch.changes.iter().filter(wanted) {
            print_one(change, &batch, console)?;
        }
    }
    Ok(())
}

fn print_one(change: &Change, batch: &ChangeBatch, console: &Console) -> Result<()> {
    let bytes = |bytes| Some(console.json_bytes(bytes));
    let (seq, next, keyspace) = (change.seq, batch.next_seq(), &*change.keyspace);
    let row = ChangeLine { seq, next, keyspace, ..ChangeLine::default() };
    let row = match &change.kind {
        ChangeKind::Put { key, value, expires } => {
            let expires = Timestamp::of(*expires);
            ChangeLine { what: "put", key: bytes(key), value: bytes(value), expires, ..row }
        }
        ChangeKind::PutBlob { key, len, expires } => {
            let (len, expires) = (Some(*len), Timestamp::of(*expires));
            ChangeLine { what: "put-blob", key: bytes(key), len, expires, ..row }
        }
        ChangeKind::Delete { key } => ChangeLine { what: "delete", key: bytes(key), ..row },
        ChangeKind::DeleteRange { from, upto } => {
            let to = upto.as_ref().and_then(|upto| bytes(upto));
            ChangeLine { what: "delete-range", from: bytes(from), to, ..row }
        }
        ChangeKind::Merge { key, operand } => {
            let (operator, operand) = (Some(operand.operator()), bytes(operand.bytes()));
            ChangeLine { what: "merge", key: bytes(key), operator, operand, ..row }
        }
        ChangeKind::KeyspaceCreated => ChangeLine { what: "create-keyspace", ..row },
        ChangeKind::KeyspaceDropped => ChangeLine { what: "drop-keyspace", ..row },
        ChangeKind::Loaded { first, last } => {
            ChangeLine { what: "loaded", from: bytes(first), last: bytes(last), ..row }
        }
        _ => ChangeLine { what: "unknown", ..row },
    };
    if console.json() {
        return console.json_line(&row);
    }
    let mut line = format!("{seq}\t{keyspace}\t{}", row.what);
    let shown = |bytes: Option<JsonBytes<'_>>| bytes.map(|bytes| console.shown(bytes.bytes));
    let operator = row.operator.map(str::to_owned);
    let expires = row.expires.map(|Timestamp(at)| humantime::format_rfc3339_millis(at).to_string());
    let [key, operand, value] = [row.key, row.operand, row.value].map(shown);
    let [from, to, last] = [row.from, row.to, row.last].map(shown);
    let len = row.len.map(|len| len.to_string());
    for field in [key, operator, operand, value, len, expires, from, to, last].into_iter().flatten()
    {
        line.push('\t');
        line.push_str(&field);
    }
    console.line(line)
}
