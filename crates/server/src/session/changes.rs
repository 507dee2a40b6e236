//! `CLEAVE.CHANGES`: which keys were changed, for caches and copies of other programs.

use std::collections::HashSet;

use cleavedb::{ChangeKind, ErrorKind};

use crate::command::args::{at_least, is, number, syntax};
use crate::exec::{Answer, Halt, Store, failed, key_place, placed};
use crate::resp::reply::Reply;

/// Keys that a reply has about, unless the client says how many.
const KEYS: i64 = 1000;

/// `CLEAVE.CHANGES from | $ [COUNT keys]`: the number from which on to ask next, and the keys that
/// commits have changed since `from`, each once, as databases and names. A database without a name
/// has lost all keys, has those of another one, or has lost some of which the store does not tell
/// the names. Nothing is told from `$` on: it gives the number to begin with.
pub(super) fn changes(store: &Store, args: &[&[u8]]) -> Answer {
    let db = store.db();
    let most = match &args[2..] {
        [] => KEYS,
        [word, count] if is(word, "COUNT") => at_least(count, 1, "ERR COUNT must be positive")?,
        _ => return Err(syntax()),
    };
    let from = match args[1] {
        b"$" => db.snapshot().seq() + 1,
        text => number(text)?.max(1).cast_unsigned(),
    };
    let (mut next, mut seen, mut found) = (from, HashSet::new(), Vec::new());
    // Changes of before a swap may be told of the wrong database, and behind them that it has
    // changed as a whole.
    let mut places = store.places();
    for batch in db.changes(from).map_err(not_kept)? {
        let batch = batch.map_err(not_kept)?;
        next = batch.next_seq();
        for change in batch.changes {
            let place = key_place(&change.keyspace);
            let (database, key) = match (place, change.kind) {
                (_, ChangeKind::KeyspaceCreated) => continue,
                (None, ChangeKind::Put { key, value, .. }) => match placed(&key, &value) {
                    Some((database, place)) if database < places.len() => {
                        places[database] = place;
                        (Some(database), None)
                    }
                    _ => continue,
                },
                (None, _) => continue,
                (Some(place), kind) => {
                    let key = match kind {
                        ChangeKind::Put { key, .. } | ChangeKind::Delete { key } => Some(key),
                        _ => None,
                    };
                    (places.iter().position(|it| *it == place), key)
                }
            };
            let Some(database) = database else { continue };
            if seen.insert((database, key.clone())) {
                let key = key.map_or(Reply::Nil, Reply::Bulk);
                found.push(Reply::Array(vec![Reply::Integer(database as i64), key]));
            }
        }
        if found.len() as i64 >= most {
            break;
        }
    }
    Ok(Reply::Array(vec![Reply::Integer(next.cast_signed()), Reply::Array(found)]))
}

/// What a client is told that asks for changes which are not kept.
fn not_kept(error: cleavedb::Error) -> Halt {
    match error.kind() {
        ErrorKind::NotRetained => Halt::error(
            "ERR the changes from there on are not kept: read all keys, and go on from the number \
             that CLEAVE.CHANGES $ tells before; --with change_retention_bytes=64MiB keeps them",
        ),
        _ => failed(error),
    }
}
