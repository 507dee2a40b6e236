//! Sorted sets of many members: they are walked from either end, and scanned piece by piece.

use std::collections::BTreeSet;

use fastrand::Rng;

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
