//! What cannot be drawn: replies that do not come, clients that end others, passwords, the table.

use std::collections::BTreeSet;

use crate::Both;
use crate::wire::{Pair, Value};

/// Sends lines to both and ends both connections; all replies, and those of Redis.
fn told(pair: &mut Pair, lines: &[&str]) -> [Vec<String>; 2] {
    let bytes = [&lines.join("\r\n"), "\r\nQUIT\r\n"].concat().into_bytes();
    [&mut pair.ours, &mut pair.theirs].map(|client| {
        client.send(&bytes, &[]);
        let replies = std::iter::from_fn(|| client.receive());
        replies.map(|reply| reply.shown()).collect()
    })
}

/// Sends lines to both on a new connection; the replies are equal.
pub fn assert_alike(both: &Both, lines: &[&str]) -> Vec<String> {
    let [ours, theirs] = told(&mut both.pair(), lines);
    assert_eq!(ours, theirs, "{lines:?}");
    ours
}

#[test]
fn replies_are_left_out_alike() {
    let Some(both) = Both::start(None) else { return };
    let replies = assert_alike(
        &both,
        &[
            "CLIENT REPLY SKIP",
            "PING skipped",
            "PING seen",
            "CLIENT REPLY SKIP",
            "CLIENT REPLY SKIP",
            "SET a skipped",
            "GET a",
            "CLIENT REPLY OFF",
            "GET a",
            "CLIENT REPLY SKIP",
            "CLIENT REPLY other",
            "MULTI",
            "SET a b",
            "EXEC",
            "CLIENT REPLY ON",
            "CLIENT REPLY other",
            "GET a",
        ],
    );
    let last = ["$4 \"seen\"", "$7 \"skipped\"", "+OK", "-ERR syntax error", "$1 \"b\"", "+OK"];
    assert_eq!(replies, last);
    // Written without a look at what was there, and with others: no reply, too.
    assert_alike(&both, &["CLIENT REPLY OFF", "SET a 1", "SET b 2", "CLIENT REPLY ON", "MGET a b"]);
}

/// The bytes of each server's own number of a client.
fn ids(pair: &mut Pair) -> [Vec<u8>; 2] {
    pair.call(&[b"CLIENT", b"ID"]).map(|id| id.integer().unwrap().to_string().into())
}

#[test]
fn clients_end_others_alike() {
    let Some(both) = Both::start(None) else { return };
    let [mut one, mut other] = [both.pair(), both.pair()];
    one.call(&[b"CLIENT", b"SETNAME", b"one"]);
    let [ours, theirs] = ids(&mut one);
    for (client, id) in [(&mut other.ours, &ours), (&mut other.theirs, &theirs)] {
        let listed = client.call(&[b"CLIENT", b"LIST", b"ID", id, b"12345"]);
        let listed = String::from_utf8(listed.bulk().unwrap().to_vec()).unwrap();
        let words: Vec<_> = listed.trim_end().split(' ').collect();
        assert!(words.contains(&"name=one") && words.contains(&"db=0"), "{listed}");
        assert_eq!(words[0], format!("id={}", String::from_utf8_lossy(id)));
        assert_eq!(client.call(&[b"CLIENT", b"KILL", b"ID", id]).shown(), ":1");
        assert_eq!(client.call(&[b"CLIENT", b"KILL", b"ID", id]).shown(), ":0");
    }
    assert!(one.ours.receive().is_none() && one.theirs.receive().is_none());
    for wrong in [
        "CLIENT KILL",
        "CLIENT KILL 127.0.0.1:1",
        "CLIENT KILL ID",
        "CLIENT KILL ID 0",
        "CLIENT KILL ID x",
        "CLIENT KILL TYPE x",
        "CLIENT KILL TYPE pubsub SKIPME no",
        "CLIENT KILL USER other",
        "CLIENT KILL USER default ADDR 127.0.0.1:1",
        "CLIENT KILL SKIPME maybe",
        "CLIENT LIST TYPE x",
        "CLIENT LIST ID x",
        "CLIENT LIST ID",
        "CLIENT LIST TYPE pubsub",
        "CLIENT UNBLOCK 1 x",
        "CLIENT UNBLOCK 1 ERROR x",
    ] {
        assert_alike(&both, &[wrong]);
    }
    // A client that ends itself has the reply.
    let replies = other.call(&[b"CLIENT", b"KILL", b"TYPE", b"normal", b"SKIPME", b"no"]);
    assert!(replies.iter().all(|reply| reply.integer().is_some_and(|killed| killed > 0)));
    assert!(other.ours.receive().is_none() && other.theirs.receive().is_none());
}

#[test]
fn strangers_are_refused_alike() {
    let Some(both) = Both::start(Some("secret")) else { return };
    let long = format!("AUTH {}", "x".repeat(20_000));
    for lines in [
        &["GET a", "NOTHING", "GET", "MULTI", "EXEC", "CLIENT ID", "CLIENT"][..],
        &["HELLO", "HELLO 3", "HELLO 4", "HELLO 3 AUTH default wrong", "PING"],
        &["HELLO 3 AUTH default secret SETNAME a", "CLIENT GETNAME", "GET a"],
        &[
            "AUTH wrong",
            "AUTH default wrong",
            "AUTH other secret",
            "AUTH a b c",
            "AUTH secret",
            "GET a",
        ],
        &["AUTH secret", "RESET", "GET a"],
        &["*11", "GET a"],
        &["*2", "$4", "AUTH", "$16385"],
        &[&long],
    ] {
        let [ours, theirs] = told(&mut both.pair(), lines);
        let without_id = |replies: &[String]| -> Vec<_> {
            replies.iter().map(|it| it.split("\"id\", :").next().unwrap().to_owned()).collect()
        };
        assert_eq!(without_id(&ours), without_id(&theirs), "{lines:?}");
    }
}

/// The items of a set, or of the array that it is in the old protocol.
fn set(value: &Value) -> BTreeSet<String> {
    value.items().unwrap().iter().map(Value::shown).collect()
}

#[test]
fn the_table_is_that_of_redis() {
    let Some(both) = Both::start(None) else { return };
    let mut pair = both.pair();
    let listed = pair.ours.call(&[b"COMMAND", b"LIST"]);
    let known: BTreeSet<_> = [
        "write",
        "readonly",
        "denyoom",
        "admin",
        "noscript",
        "loading",
        "stale",
        "skip_monitor",
        "fast",
        "no_auth",
        "no_multi",
        "movablekeys",
    ]
    .map(|name| format!("+{name}"))
    .into();
    let mut different = Vec::new();
    let names = crate::bulks(&listed).into_iter();
    for name in names.filter(|name| !crate::is_own(str::from_utf8(name).unwrap())) {
        let [ours, theirs] = pair.call(&[b"COMMAND", b"INFO", &name]);
        let [ours, theirs] = [&ours, &theirs].map(|it| it.items().unwrap()[0].items().unwrap());
        let [tips, tips_too] = [&ours[7], &theirs[7]].map(set);
        let [mut ours, mut theirs] = [ours, theirs].map(|fields| fields[..7].to_vec());
        let [flags, of_redis] = [ours.remove(2), theirs.remove(2)].map(|flags| set(&flags));
        let of_redis = &of_redis & &known;
        let [categories, theirs_too] = [ours.pop(), theirs.pop()].map(|it| set(&it.unwrap()));
        let are_equal = categories == theirs_too && tips == tips_too;
        if !are_equal || ours != theirs || flags != of_redis {
            different.push(format!(
                "{ours:?} {flags:?} {tips:?} for {theirs:?} {of_redis:?} {tips_too:?}"
            ));
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn what_becomes_of_keys_is_told_alike() {
    let Some(both) = Both::start(None) else { return };
    let mut pair = both.pair();
    let listed = pair.ours.call(&[b"COMMAND", b"LIST"]);
    let names = crate::bulks(&listed).into_iter();
    let (mut told, mut different) = (0, Vec::new());
    for name in names.filter(|name| !crate::is_own(str::from_utf8(name).unwrap())) {
        for rest in [
            "k",
            "k 1",
            "k 1 2",
            "k l 2 m",
            "1 k l",
            "k 2 l m n",
            "k 1 l 2",
            "k GET u8 0",
            "k v GET",
            "k GET u8 0 SET u8 0 1",
            "k BY x STORE d",
            "k 1 2 3 m STOREDIST d",
            "GROUP g c STREAMS k l 1 2",
            "STREAMS k l 1 2",
            "0 k 1",
        ] {
            let begin = [&b"COMMAND"[..], b"GETKEYSANDFLAGS"].into_iter();
            let words = name.split(|byte| *byte == b'|').chain(rest.split(' ').map(str::as_bytes));
            let [ours, theirs] = pair.call(&begin.chain(words).collect::<Vec<_>>());
            let shown = |value: &Value| match value.is_error() {
                true => "an error".to_owned(),
                false => value.shown(),
            };
            let what = format!("{} {rest}", name.escape_ascii());
            // Redis looks for some words from a place on, and at no key where one alone is given.
            let differs = what.starts_with("georadius") || what == "pfmerge k";
            if shown(&ours) != shown(&theirs) && !differs {
                different.push(format!("{what}: {} for {}", ours.shown(), theirs.shown()));
            }
            told += usize::from(!ours.is_error());
        }
    }
    assert!(different.is_empty(), "{different:#?}");
    assert!(told > 500, "{told}");
}

/// Scripts about options, with an empty line between two.
const OPTIONS: &str = r#"
CONFIG GET maxclients
CONFIG SET maxclients 77
CONFIG GET MaxClients

CONFIG SET timeout 5 tcp-keepalive 60
CONFIG GET timeout
CONFIG GET tcp-keepalive

CONFIG SET TIMEOUT 0
CONFIG SET timeout -1
CONFIG SET timeout x
CONFIG SET timeout
CONFIG SET timeout 2147483648
CONFIG SET maxclients 0
CONFIG SET maxclients 4294967296

CONFIG SET timeout 9 Timeout 8
CONFIG SET timeout 9 nothing 1
CONFIG GET timeout
CONFIG SET timeout 9 maxclients x
CONFIG GET timeout
CONFIG SET timeout 1 x

CONFIG SET appendfsync yes
CONFIG SET appendfsync ALWAYS
CONFIG GET appendfsync
CONFIG SET appendfsync no
CONFIG SET appendfsync ""
CONFIG SET appendfsync everysec

CONFIG SET protected-mode maybe
CONFIG SET protected-mode NO
CONFIG GET protected-mode

CONFIG SET Databases 3
CONFIG GET databases
CONFIG SET aclfile x
CONFIG GET aclfile
CONFIG SET acllog-max-len -1
CONFIG SET acllog-max-len 64
CONFIG GET acllog-max-len
CONFIG SET dir x
CONFIG SET unixsocket x
CONFIG SET unixsocketperm 777
CONFIG GET unixsocketperm

CONFIG SET save ""
CONFIG GET save
CONFIG GET maxmemory
CONFIG GET maxmemory-policy

SHUTDOWN ABORT
SHUTDOWN abort ABORT
SHUTDOWN NOW abort
SHUTDOWN save nosave
SHUTDOWN now x

CONFIG SET databases 3 nothing 3
CONFIG SET nothing 3 databases 3
CONFIG SET databases 3 dir x
CONFIG SET
CONFIG GET nothing
CONFIG HELP
CONFIG REWRITE

CONFIG SET slowlog-log-slower-than -2
CONFIG SET slowlog-max-len -1
CONFIG SET slowlog-max-len x
CONFIG SET slowlog-log-slower-than -1 slowlog-max-len 7
CONFIG GET slowlog-log-slower-than
CONFIG GET slowlog-max-len
SLOWLOG RESET
SET a b
SLOWLOG LEN
SLOWLOG GET
SLOWLOG HELP
SLOWLOG GET 1 2
SLOWLOG GET 9223372036854775807
SLOWLOG GET 9223372036854775808

CONFIG SET requirepass one
PING
CONFIG GET requirepass
AUTH two
RESET
PING

AUTH one
CONFIG SET requirepass ""
CONFIG GET requirepass
AUTH one
RESET
PING
"#;

/// Plays scripts as [`OPTIONS`] has them, each on a connection of its own.
pub fn assert_scripts(both: &Both, scripts: &str) {
    for script in scripts.trim().split("\n\n") {
        assert_alike(both, &script.lines().collect::<Vec<_>>());
    }
}

#[test]
fn options_change_alike() {
    let Some(both) = Both::start(None) else { return };
    assert_scripts(&both, OPTIONS);
}

#[test]
fn zeros_have_no_sign_and_lists_are_turned_round_as_they_are() {
    let Some(both) = Both::start(None) else { return };
    assert_alike(
        &both,
        &[
            "ZADD z -0 a",
            "ZSCORE z a",
            "ZADD z INCR -0 a",
            "ZRANGE z -0 0 BYSCORE WITHSCORES",
            "RPUSH l 3 1 2 5 4",
            "RPUSH words 1 x",
            "SORT words",
            "SORT l BY nosort DESC",
            "SORT l BY nosort DESC LIMIT 1 2",
            "SORT l BY nosort ASC GET # GET x*",
            "SORT l BY nosort BY * ALPHA",
            "SORT l BY * BY nosort DESC",
            "SORT l BY nosort DESC STORE l",
            "LRANGE l 0 -1",
        ],
    );
}
