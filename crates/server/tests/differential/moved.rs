//! Values that are moved from one server to the other by dumps.

use crate::fixed::assert_scripts;
use crate::wire::{Pair, Value};
use crate::{Both, shown_items};

/// The reply to words, of which some have any bytes.
fn words<'a>(line: &'a str, last: &'a [&'a [u8]]) -> Vec<&'a [u8]> {
    line.split(' ').map(str::as_bytes).chain(last.iter().copied()).collect()
}

/// What is under a key, whatever its order is in a server.
fn whole(call: &mut dyn FnMut(&[&[u8]]) -> Value, key: &[u8]) -> Vec<String> {
    let kind = call(&[b"TYPE", key]).shown();
    let (name, rest): (_, &[&[u8]]) = match &*kind {
        "+string" => return vec![call(&[b"GET", key]).shown()],
        "+list" => ("LRANGE", &[b"0", b"-1"]),
        "+set" => ("SMEMBERS", &[]),
        "+hash" => ("HGETALL", &[]),
        "+zset" => ("ZRANGE", &[b"0", b"-1", b"WITHSCORES"]),
        _ => return vec![kind],
    };
    let args = [&[name.as_bytes(), key], rest].concat();
    let mut items = shown_items(&call(&args), if name == "HGETALL" { 2 } else { 1 });
    if !matches!(name, "LRANGE" | "ZRANGE") {
        items.sort_unstable();
    }
    [vec![kind], items].concat()
}

/// Moves the value of a key of Redis to ours, and back under another name.
fn move_there_and_back(pair: &mut Pair, key: &str) {
    let key = key.as_bytes();
    let restore = |dump: &Value| dump.bulk().unwrap().to_vec();
    let dump = restore(&pair.theirs.call(&[b"DUMP", key]));
    assert_eq!(pair.ours.call(&[b"RESTORE", key, b"0", &dump, b"REPLACE"]).shown(), "+OK");
    let theirs = whole(&mut |args| pair.theirs.call(args), key);
    assert_eq!(whole(&mut |args| pair.ours.call(args), key), theirs);
    assert_ne!(theirs, ["+none"]);
    let dump = restore(&pair.ours.call(&[b"DUMP", key]));
    assert_eq!(pair.theirs.call(&[b"RESTORE", b"back", b"0", &dump, b"REPLACE"]).shown(), "+OK");
    assert_eq!(whole(&mut |args| pair.theirs.call(args), b"back"), theirs);
}

#[test]
fn values_move_there_and_back() {
    let Some(both) = Both::start(None) else { return };
    let mut pair = both.pair();
    let noise: Vec<u8> =
        (0..20_000_u32).flat_map(|it| it.wrapping_mul(0x9e37_79b9).to_be_bytes()).collect();
    let texts: [&[u8]; 14] = [
        b"",
        b"a",
        b"12",
        b"-129",
        b"65536",
        b"-2147483648",
        b"2147483648",
        b"9223372036854775807",
        b"012",
        b"1.5",
        &[b'a'; 70],
        &[b'b'; 20_000],
        &noise,
        &b"ab\0\xff".repeat(5000),
    ];
    for text in texts {
        pair.theirs.call(&[b"SET", b"string", text]);
        move_there_and_back(&mut pair, "string");
    }
    let integers = [1_i64, -1, 127, 128, 4095, -4096, 4096, 32767, -32769, 8_388_607, -8_388_609]
        .into_iter()
        .chain([i64::from(i32::MAX), i64::from(i32::MIN) - 1, i64::MAX, i64::MIN]);
    let integers: Vec<_> = integers.map(|number| number.to_string().into_bytes()).collect();
    for large in ["1000000", "1"] {
        for option in ["hash-max-listpack-value", "hash-max-listpack-entries"].into_iter().chain([
            "zset-max-listpack-entries",
            "set-max-intset-entries",
            "list-max-listpack-size",
        ]) {
            pair.theirs.call(&words("CONFIG SET", &[option.as_bytes(), large.as_bytes()]));
        }
        for key in ["hash", "list", "set", "zset"] {
            pair.theirs.call(&[b"DEL", key.as_bytes()]);
        }
        for text in texts.into_iter().chain(integers.iter().map(Vec::as_slice)) {
            pair.theirs.call(&words("RPUSH list", &[text]));
            let name = &text[..text.len().min(1000)];
            pair.theirs.call(&words("HSET hash", &[name, text]));
            pair.theirs.call(&words("ZADD zset", &[text.len().to_string().as_bytes(), name]));
            ["hash", "list", "zset"].iter().for_each(|key| move_there_and_back(&mut pair, key));
        }
        pair.theirs.call(&words("ZADD zset inf a -inf b 0.1 c -1e300 d", &[]));
        move_there_and_back(&mut pair, "zset");
        for (at, number) in integers.iter().enumerate() {
            pair.theirs.call(&words("SADD set", &[number]));
            move_there_and_back(&mut pair, "set");
            let many: Vec<_> = (0..100_u32).map(|it| (it + 100 * at as u32).to_string()).collect();
            let many: Vec<_> = many.iter().map(String::as_bytes).collect();
            pair.theirs.call(&words("RPUSH list", &many));
        }
        ["set", "list"].iter().for_each(|key| move_there_and_back(&mut pair, key));
        pair.theirs.call(&words("SADD set text", &[]));
        move_there_and_back(&mut pair, "set");
    }
}

/// What is said of dumps, of which the key `s` has `bar` and the key `n` 12.
const SCRIPTS: &str = r#"
FLUSHALL
SET s bar
SET n 12
DUMP s
DUMP n
DUMP nothing
DUMP
RESTORE t 0 "\x00\x03bar\n\x00\x16\x8d\xcc?\x8d\xb3\x9f\xa8"
RESTORE t 0 x
RESTORE t 0 ""
RESTORE s 0 x
RESTORE t -1 x
RESTORE t x x
RESTORE t 0 x REPLACE ABSTTL IDLETIME 5 FREQ 5
RESTORE t 0 x IDLETIME -1
RESTORE t 0 x IDLETIME
RESTORE t 0 x FREQ 256
RESTORE t 0 x FREQ x
RESTORE t 0 x FREQ 5 IDLETIME 5
RESTORE t 0 x other
RESTORE t 0
"#;

#[test]
fn dumps_are_told_alike() {
    let Some(both) = Both::start(None) else { return };
    assert_scripts(&both, SCRIPTS);
    let mut pair = both.pair();
    pair.call(&[b"SET", b"s", b"bar"]);
    let [ours, theirs] = pair.call(&[b"DUMP", b"s"]);
    assert_eq!(ours, theirs);
    let dump = ours.bulk().unwrap();
    for (line, last) in [
        ("RESTORE t 0", &[dump][..]),
        ("RESTORE t 0", &[dump, b"REPLACE"]),
        ("TTL t", &[]),
        ("RESTORE t 4000000000000", &[dump, b"REPLACE", b"absttl", b"freq", b"5"]),
        ("PEXPIRETIME t", &[]),
        ("RESTORE t 5", &[dump, b"replace", b"ABSTTL"]),
        ("EXISTS t", &[]),
        ("RESTORE t 9223372036854775807", &[dump]),
        ("DEL t", &[]),
        ("RESTORE t 1000000", &[dump, b"IDLETIME", b"5"]),
        ("GET t", &[]),
        ("RESTORE s 0", &[dump]),
    ] {
        let [ours, theirs] = pair.call(&words(line, last));
        assert_eq!(ours, theirs, "{line}");
    }
}
