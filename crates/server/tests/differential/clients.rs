//! Clients that are shown what others call, clients that wait in a pause, and lines about clients.

use crate::Both;
use crate::fixed::assert_scripts;
use crate::scripts::assert_alike;
use crate::wire::{Client, Value};

const PAUSES: &str = "\
0 CLIENT PAUSE 20000 WRITE
1 GET a
1> SET a 1
2> PUBLISH a 1
3> PFCOUNT b
0 GET a
0 MULTI
0 GET a
0 EXEC
0 CLIENT UNPAUSE
1
2
3
0 GET a

1 MULTI
1 SET a 2
2 CLIENT PAUSE 20000 WRITE
1> EXEC
2 GET a
2 CLIENT UNPAUSE
1
1 SET a 3

1 CLIENT PAUSE 30 ALL
2> GET a
2
1 CLIENT PAUSE 30
2 PING

1 CLIENT PAUSE x
1 CLIENT PAUSE -1
1 CLIENT PAUSE 1 x
1 CLIENT PAUSE 1 ALL x
1 CLIENT PAUSE
1 CLIENT UNPAUSE x
";

const SCRIPTS: &str = r#"
ROLE
REPLICAOF NO ONE
SLAVEOF no one
LATENCY HELP
LATENCY LATEST
LATENCY HISTORY x
LATENCY RESET
LATENCY RESET a b
LATENCY GRAPH x
LATENCY x
LATENCY HISTORY
MEMORY x
MULTI
MONITOR
EXEC
MONITOR
GET a
SET a b
MONITOR
"#;

#[test]
fn pauses_are_alike() {
    let Some(both) = Both::start(None) else { return };
    assert_alike(&both, PAUSES);
    assert_scripts(&both, SCRIPTS);
}

/// What a client is shown of calls, without times and addresses.
fn shown(client: &mut Client, lines: usize) -> Vec<String> {
    let line = |_| match client.receive() {
        Some(Value::Line(line)) => {
            let line = String::from_utf8(line).unwrap();
            let (before, call) = line.split_once(']').unwrap_or(("", &line));
            let from = if before.ends_with(" lua") { "lua" } else { "" };
            format!("{from}{call}")
        }
        other => panic!("{:?}", other.map(|other| other.shown())),
    };
    (0..lines).map(line).collect()
}

#[test]
fn calls_are_shown_alike() {
    let Some(both) = Both::start(None) else { return };
    let (mut watching, mut pair) = (both.pair(), both.pair());
    watching.call(&[b"MONITOR"]);
    let calls: [&[&[u8]]; 14] = [
        &[b"set", b"foo", b"\x00\xff\"\\\n\r\t\x07\x08 x"],
        &[b"GET", b"foo"],
        &[b"auth", b"secret"],
        &[b"hello", b"2", b"auth", b"default", b"x"],
        &[b"config", b"get", b"maxclients"],
        &[b"nothing"],
        &[b"get"],
        &[b"lpush", b"foo", b"x"],
        &[b"multi"],
        &[b"set", b"foo", b"bar"],
        &[b"get", b"foo"],
        &[b"exec"],
        &[b"eval", b"redis.call('set', KEYS[1], 'bar')", b"1", b"foo"],
        &[b"ping", b"last"],
    ];
    for call in calls {
        pair.call(call);
    }
    let [ours, theirs] = [&mut watching.ours, &mut watching.theirs].map(|client| {
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line: &String| !line.contains("last")) {
            lines.extend(shown(client, 1));
        }
        lines
    });
    assert_eq!(ours, theirs);
    // A client that is shown calls has replies, too, and is one no more behind a reset.
    watching.call(&[b"RESET"]);
    pair.call(&[b"GET", b"unseen"]);
    assert_eq!(watching.call(&[b"PING"]).map(|reply| reply.shown()), ["+PONG", "+PONG"]);
}

/// The words of a client's line that both servers have alike.
fn told(client: &mut Client) -> Vec<String> {
    let line = client.call(&[b"CLIENT", b"INFO"]);
    let line = String::from_utf8(line.bulk().unwrap().to_vec()).unwrap();
    let names = ["name", "flags", "db", "sub", "psub", "ssub", "multi", "cmd", "user", "resp"];
    let is_told = |word: &&str| names.iter().any(|name| word.starts_with(&format!("{name}=")));
    let words = line.trim_end().split(' ').filter(is_told).map(str::to_owned);
    // Redis says by its flags, too, by which kind of socket a client has come.
    let word = |word: String| match &*word {
        "flags=U" => "flags=N".to_owned(),
        _ if word.starts_with("flags=") => word.replace('U', ""),
        _ => word,
    };
    words.map(word).collect()
}

#[test]
fn clients_are_told_alike() {
    let Some(both) = Both::start(None) else { return };
    let mut pair = both.pair();
    pair.call(&[b"HELLO", b"3"]);
    for calls in [
        &[&[&b"SELECT"[..], b"5"][..]][..],
        &[&[b"CLIENT", b"SETNAME", b"x"]],
        &[&[b"SUBSCRIBE", b"a"], &[b"SSUBSCRIBE", b"b"], &[b"PSUBSCRIBE", b"c"]],
        &[&[b"UNSUBSCRIBE"], &[b"PUNSUBSCRIBE"], &[b"SUNSUBSCRIBE"]],
        &[&[b"MULTI"], &[b"DISCARD"]],
        &[&[b"MONITOR"], &[b"RESET"]],
    ] {
        calls.iter().for_each(|call| _ = pair.call(call));
        let [ours, theirs] = [&mut pair.ours, &mut pair.theirs].map(told);
        assert_eq!(ours, theirs, "{calls:?}");
    }
}
