//! Sorted sets of many members: they are walked from either end, and scanned piece by piece.

use std::collections::BTreeSet;

use fastrand::Rng;

use crate::alike::alike;
use crate::wire::{Pair, Value};
use crate::{Both, bulks, from_environment};

/// Members of each sorted set.
const MEMBERS: u32 = 2000;

/// Scores, of which each has many members.
const SCORES: i32 = 50;

/// Commands: I stands for a rank, F for an end among scores, L for one among texts, M for a member.
const FORMS: &[&str] = &[
    "ZRANGE scores I I WITHSCORES",
    "ZRANGE scores I I REV",
    "ZRANGE scores F F BYSCORE WITHSCORES LIMIT 3 20",
    "ZRANGE scores F F BYSCORE REV LIMIT 0 I",
    "ZREVRANGEBYSCORE scores F F LIMIT 5 5",
    "ZCOUNT scores F F",
    "ZRANK scores M",
    "ZREVRANK scores M",
    "ZMSCORE scores M M zero",
    "ZRANGE texts L L BYLEX",
    "ZRANGE texts L L BYLEX REV LIMIT 2 10",
    "ZREVRANGEBYLEX texts L L",
    "ZLEXCOUNT texts L L",
    "ZRANGESTORE part scores I I",
    "ZRANGESTORE lines texts L L BYLEX",
    "ZADD scores F M",
    "ZINCRBY scores -0.5 M",
    "ZREM scores M M",
    "ZPOPMIN scores 3",
    "ZPOPMAX scores 3",
    "ZMPOP 2 nothing scores MAX COUNT 4",
    "ZREMRANGEBYRANK part I I",
    "ZREMRANGEBYSCORE part F F",
    "ZREMRANGEBYLEX lines L L",
    "ZUNION 2 scores part WEIGHTS 2 -1 WITHSCORES",
    "ZINTER 2 texts part AGGREGATE MAX WITHSCORES",
    "ZDIFF 3 texts lines part WITHSCORES",
    "ZINTERCARD 2 scores texts LIMIT 100",
    "ZUNIONSTORE all 2 scores texts",
    "ZREMRANGEBYRANK all 0 -1",
];

fn word(kind: &str, rng: &mut Rng) -> String {
    let member = |rng: &mut Rng| format!("{:x}", rng.u32(..MEMBERS));
    match kind {
        "I" => rng.i32(-2100..2100).to_string(),
        "F" => format!("{}{}", if rng.bool() { "" } else { "(" }, rng.i32(-2..SCORES)),
        "L" => format!("{}{}", if rng.bool() { "[" } else { "(" }, member(rng)),
        "M" => member(rng),
        word => word.to_owned(),
    }
}

fn call(pair: &mut Pair, command: &str) -> Value {
    let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    let [ours, theirs] = pair.call(&args);
    assert!(ours == theirs, "replies to {command} differ");
    ours
}

/// The members that `ZSCAN` finds in ours, some at a time.
fn scanned(pair: &mut Pair) -> BTreeSet<Vec<u8>> {
    let (mut cursor, mut found) = (b"0".to_vec(), BTreeSet::new());
    loop {
        let reply = pair.ours.call(&[b"ZSCAN", b"scores", &cursor, b"COUNT", b"77"]);
        let items = reply.items().unwrap();
        let members = items[1].items().unwrap();
        found.extend(members.chunks(2).map(|pair| pair[0].bulk().unwrap().to_vec()));
        cursor = items[0].bulk().unwrap().to_vec();
        if cursor == b"0" {
            return found;
        }
    }
}

#[test]
fn large_sorted_sets_are_alike() {
    let Some(both) = Both::start(None) else { return };
    let (mut pair, mut rng) =
        (both.pair(), Rng::with_seed(from_environment("CLEAVEDB_SEED").unwrap_or(1)));
    for member in 0..MEMBERS {
        call(&mut pair, &format!("ZADD scores {} {member:x}", rng.i32(0..SCORES)));
        call(&mut pair, &format!("ZADD texts 7 {member:x}"));
    }
    call(&mut pair, "ZADD scores 0 zero");
    for _ in 0..1000 {
        let form = FORMS[rng.usize(..FORMS.len())];
        let words: Vec<_> = form.split(' ').map(|kind| word(kind, &mut rng)).collect();
        call(&mut pair, &words.join(" "));
    }
    let all = call(&mut pair, "ZRANGE scores 0 -1");
    assert_eq!(scanned(&mut pair), bulks(&all));
}

/// Replies that are read while they are sent, in both versions of the protocol.
#[test]
fn long_replies_are_alike() {
    let Some(both) = Both::start(None) else { return };
    let mut pair = both.pair();
    for first in (0..3000).step_by(100) {
        let numbers = || first..first + 100;
        let long = |i: i32| format!("{i:04}{}", "v".repeat(i as usize % 300));
        let words = |word: &dyn Fn(i32) -> String| -> String { numbers().map(word).collect() };
        call(&mut pair, &format!("HSET hash{}", words(&|i| format!(" {i} {}", long(i)))));
        call(&mut pair, &format!("SADD set{}", words(&|i| format!(" {}", long(i)))));
        call(&mut pair, &format!("RPUSH list{}", words(&|i| format!(" {}", long(i)))));
        call(&mut pair, &format!("ZADD zset{}", words(&|i| format!(" {} {}", i % 7, long(i)))));
    }
    for protocol in [2, 3] {
        // The clients' numbers and versions differ.
        pair.call(&[b"HELLO", protocol.to_string().as_bytes()]);
        for command in [
            "HGETALL hash",
            "HKEYS hash",
            "HVALS hash",
            "SMEMBERS set",
            "LRANGE list 0 -1",
            "LRANGE list -2500 2000",
            "ZRANGE zset 0 -1 WITHSCORES",
            "ZRANGE zset 100 2900 REV",
            "ZREVRANGE zset 2000 -1 WITHSCORES",
            "ZRANGE zset 2000 1000",
        ] {
            let args: Vec<Vec<u8>> = command.split(' ').map(|word| word.into()).collect();
            let [ours, theirs] = pair.call(&args.iter().map(Vec::as_slice).collect::<Vec<_>>());
            assert!(alike(&args, &ours, &theirs, &[]), "{command} differs in RESP{protocol}");
            call(&mut pair, "PING");
        }
    }
}
