//! Arguments of commands, by their kinds.

use fastrand::Rng;

use super::{integer, one_of, places, streams, text};

/// Scores, of which many are equal.
const SCORES: &[&[u8]] = &[
    b"0", b"-0", b"0", b"1", b"1", b"2", b"3", b"-1", b"1.5", b"0.1", b"-2.5", b"inf", b"-inf",
    b"+inf", b"1e300", b"0x1p-3",
];

/// Scripts of one write, since one that fails behind a write takes that back, and with Redis not.
const SCRIPTS: &[&[u8]] = &[
    b"return redis.call('set', KEYS[1], ARGV[1])",
    b"return redis.pcall('incr', KEYS[1])",
    b"return redis.call('lpush', KEYS[1], ARGV[1], 2, 1.5)",
    b"return {redis.pcall('lrange', KEYS[1], 0, -1), redis.call('exists', KEYS[1]), 3.7}",
    b"return redis.call('type', KEYS[1])",
    b"local it = redis.pcall('get', KEYS[1]) return it and it.err or it",
    b"return {pcall(redis.call, 'zadd', KEYS[1], 1, ARGV[1])}",
    b"return redis.call('del', KEYS[1], ARGV[1])",
    b"redis.setresp(3) return redis.pcall('hgetall', 'nothing')",
    b"return #ARGV + #KEYS",
    b"error('no' .. #ARGV)",
    b"return ARGV[",
];

/// Names of libraries, and of their functions.
const FUNCTIONS: &[&[u8]] = &[b"one", b"two", b"three"];

/// Types of fields of bits.
const BIT_FIELDS: &[&[u8]] =
    &[b"u1", b"u8", b"i8", b"i5", b"u63", b"i64", b"i1", b"u17", b"i33", b"u64", b"i0", b"x"];

/// An argument of a kind, or the word itself in letters of either case.
pub fn argument(rng: &mut Rng, kind: &str) -> Vec<u8> {
    let wrong = rng.u8(..12) == 0;
    match kind {
        "I" if rng.bool() => rng.i32(-20..20).to_string().into(),
        "I" => integer(rng),
        "S" | "M" | "A" | "B" if wrong => integer(rng),
        // Lives of different lengths, so that the clocks of both compare two of them alike.
        "S" => rng.u32(1000..1_000_000_000).to_string().into(),
        "M" => rng.u64(1_000_000..1_000_000_000_000).to_string().into(),
        "A" => rng.u64(4_000_000_000..5_000_000_000).to_string().into(),
        "B" => rng.u64(4_000_000_000_000..5_000_000_000_000).to_string().into(),
        "O" if wrong => integer(rng),
        "O" => rng.i32(-12..12).to_string().into(),
        "WAIT" if wrong => text(rng, &[b"-1", b"x", b"", b"9223372036854775807"]),
        "WAIT" => text(rng, &[b"0.001", b"0.01", b"1e-2", b"0x.01"]),
        // A large negative number would be a reply without an end.
        "BITS" if rng.u8(..20) == 0 => integer(rng),
        "BITS" if rng.u8(..8) == 0 => format!("#{}", rng.u8(..9)).into(),
        "BITS" => rng.u8(..70).to_string().into(),
        "FIELD" => text(rng, BIT_FIELDS),
        "PATTERN" => text(rng, &[b"*", b"a*", b"key:*", b"*->a", b"a*->b", b"x*->"]),
        "R" if wrong => text(rng, &[b"9223372036854775807", b"-9223372036854775808", b"x", b""]),
        "R" => rng.i32(-12..12).to_string().into(),
        "D" if wrong => integer(rng),
        "D" => text(rng, &[b"0", b"0", b"1", b"15", b"16", b"-1"]),
        "F" => float(rng),
        "K" => text(rng, &[b"a", b"b", b"c", b"ab", b"key:1", b"key:2", b"", b"\xff\0\r\n"]),
        "N" => text(rng, &[b"a", b"b", b"c", b"1", b"-2", b"3.5", b"", b"\xff\0\r\n"]),
        "P" => text(
            rng,
            &[
                b"*", b"a*", b"key:?", b"[a-c]", b"[^a]*", b"", b"\\a", b"*b", b"k*:[12]", b"[c-a",
                b"\xff*",
            ],
        ),
        "T" => text(
            rng,
            &[b"string", b"STRING", b"hash", b"normal", b"get", b"none", b"list", b"set", b"zset"],
        ),
        "W" if wrong => float(rng),
        "W" => text(rng, SCORES),
        "E" if rng.u8(..4) == 0 => [b"(".to_vec(), argument(rng, "W")].concat(),
        "E" => argument(rng, "W"),
        "L" if wrong => value(rng),
        "L" => text(
            rng,
            &[
                b"-", b"-", b"+", b"+", b"[a", b"(a", b"[b", b"(b", b"[ab", b"(aa", b"[c", b"[",
                b"(",
            ],
        ),
        "V" => value(rng),
        "SCRIPT" => text(rng, SCRIPTS),
        "FUNCTION" => text(rng, FUNCTIONS),
        "LIBRARY" => library(rng),
        "LON" | "LAT" | "SIZE" | "UNIT" | "DUMP" => text(rng, places::arguments(kind)),
        _ if let Some(kind) = kind.strip_prefix(':') => streams::argument(rng, kind),
        "ANY" => {
            let kind = one_of(rng, &["K", "V", "I", "F", "T", "P"]);
            argument(rng, kind)
        }
        word => {
            let upper = rng.bool();
            let word = if upper { word.to_ascii_uppercase() } else { word.to_owned() };
            word.into_bytes()
        }
    }
}

fn float(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..8) {
        0 => rng.i32(-1000..1000).to_string().into(),
        1 => format!("{}", f64::from(rng.i32(-100_000..100_000)) / 1000.0).into(),
        2 => format!("{:e}", rng.f64() * 10_f64.powi(rng.i32(-20..20))).into(),
        3 => format!("{}.{}", rng.i64(..), rng.u64(..)).into(),
        4 => format!("{}e{}", rng.i32(-99..99), rng.i32(-25..25)).into(),
        5 => integer(rng),
        _ => text(
            rng,
            &[
                b"1.5",
                b"-0.1",
                b"0.1",
                b"3.0e3",
                b"1e400",
                b"1e5000",
                b"inf",
                b"-inf",
                b"nan",
                b"0x10",
                b"0x1.8p1",
                b".5",
                b"5.",
                b".",
                b"1e",
                b"1e+2",
                b"+1.5",
                b"--1",
                b"1e-30",
                b"infinity",
                b"1e-5000",
                b"1.5x",
                b"1\0",
                b" 1.5",
                b"1.5 ",
                b"-0.0",
                b"1e17",
                b"1e18",
                b"3.0",
            ],
        ),
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..3 => rng.i32(-100..100).to_string().into(),
        3 => integer(rng),
        4 => float(rng),
        5 => (0..rng.usize(..20)).map(|_| rng.u8(..)).collect(),
        6 => (0..rng.usize(..200)).map(|_| rng.u8(b'a'..b'd')).collect(),
        7 => vec![rng.u8(..); rng.usize(..3000)],
        _ => text(rng, &[b"", b"a", b"ohmytext", b"mynewtext", b"GET", b"nx", b"ex", b"help"]),
    }
}

/// The text of a library with one function.
fn library(rng: &mut Rng) -> Vec<u8> {
    let (name, script) = (one_of(rng, FUNCTIONS), one_of(rng, SCRIPTS));
    let flag: &[u8] = if rng.bool() { b"'no-writes'" } else { b"" };
    let head = [b"#!lua name=", name, b"\nredis.register_function{function_name='", name];
    let rest = [b"', flags={", flag, b"}, callback=function(KEYS, ARGV)\n", script];
    [&head.concat()[..], &rest.concat(), b"\nend}"].concat()
}
