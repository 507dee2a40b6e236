//! What commands do with their keys and channels, where that is not what their flags say.

use crate::command::args::is;
use crate::command::glob;
use crate::command::table::{CommandRow, flag};

/// What a command does with a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyAccess {
    /// Whether something of the value is told.
    pub reads: bool,
    /// Whether the value changes.
    pub writes: bool,
}

impl KeyAccess {
    /// The access whose letters `r` and `w` are in a text.
    pub fn of(letters: &str) -> Self {
        Self { reads: letters.contains('r'), writes: letters.contains('w') }
    }

    /// Whether all of another access is part of it.
    pub fn has(self, other: Self) -> bool {
        (self.reads || !other.reads) && (self.writes || !other.writes)
    }
}

/// Patterns of commands, and the access to the first key and to the others.
const SPECIAL: [(&str, &str, &str); 8] = [
    (
        "exists hexists hlen hstrlen llen memory|usage object|* scard sismember strlen touch type \
         watch xlen zcard",
        "",
        "",
    ),
    (
        "append del expire expireat geoadd hdel hmset hset hsetnx linsert lpush lpushx lrem lset \
         ltrim mset msetnx persist pexpire pexpireat pfadd psetex restore* rpush rpushx sadd setex \
         setnx setrange srem unlink xack xadd xautoclaim xclaim xdel xgroup|* xsetid xtrim zadd \
         zrem*",
        "w",
        "w",
    ),
    ("blmove brpoplpush lmove rename renamenx rpoplpush smove", "rw", "w"),
    ("copy georadius georadiusbymember sort", "r", "w"),
    ("bitop geosearchstore sdiffstore sinterstore sunionstore z*store", "w", "r"),
    ("pfmerge", "rw", "r"),
    ("pfcount xreadgroup", "r", "r"),
    ("eval evalsha fcall", "rw", "rw"),
];

/// What a command does with its first key, and with each of the others.
pub fn of_keys(command: &CommandRow, args: &[&[u8]]) -> [KeyAccess; 2] {
    let name = command.name.as_bytes();
    let says = |from: usize, word: &str| args.iter().skip(from).any(|it| is(it, word));
    match command.name {
        "set" => return [KeyAccess { reads: says(3, "GET"), writes: true }; 2],
        "bitfield" if !says(2, "SET") && !says(2, "INCRBY") => return [KeyAccess::of("r"); 2],
        _ => {}
    }
    let told = SPECIAL.iter().find(|(patterns, ..)| {
        patterns.split(' ').any(|pattern| glob::matches(pattern.as_bytes(), name))
    });
    match told {
        Some((_, first, others)) => [KeyAccess::of(first), KeyAccess::of(others)],
        None => [KeyAccess::of(if command.is(flag::WRITE) { "rw" } else { "r" }); 2],
    }
}

/// Whether a command reads keys that are not among its arguments.
pub fn reads_unnamed(command: &CommandRow, args: &[&[u8]]) -> bool {
    match command.name {
        "cleave.range" | "cleave.changes" => true,
        // A pattern without a star is no key.
        "sort" | "sort_ro" => args
            .windows(2)
            .skip(2)
            .any(|pair| is(pair[0], "GET") || is(pair[0], "BY") && pair[1].contains(&b'*')),
        _ => false,
    }
}

/// The channels among the arguments of a command, and whether they are patterns.
pub fn channels<'a, 'k>(command: &CommandRow, args: &'a [&'k [u8]]) -> (&'a [&'k [u8]], bool) {
    let named = args.get(1..).unwrap_or_default();
    match command.name {
        "publish" | "spublish" => (&named[..named.len().min(1)], false),
        "subscribe" | "ssubscribe" => (named, false),
        "psubscribe" => (named, true),
        _ => (&[], false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::permissions::{Denied, Permissions};
    use crate::command::table::{CommandAction, KeyPlaces, find};

    #[test]
    fn keys_that_no_argument_names_need_the_right_to_read_all() {
        let rules = |keys: &[&str]| {
            let mut rules = Permissions::default();
            rules.set(b"+@all").unwrap();
            keys.iter().for_each(|rule| rules.set(rule.as_bytes()).unwrap());
            rules
        };
        // A pattern that fits a star is not yet one for all keys.
        let some = rules(&["~a", "%R~?", "%W~*", "~\\*"]);
        let all = rules(&["~a", "%R~*"]);
        for (line, needs_all) in [
            ("cleave.changes 1", true),
            ("cleave.range - +", true),
            ("sort a by w* get #", true),
            ("sort a by w*", true),
            ("sort_ro a desc get b*", true),
            ("sort a by nosort limit 0 1", false),
            ("sort a alpha", false),
        ] {
            let args: Vec<_> = line.split(' ').map(str::as_bytes).collect();
            let command = find(&args).unwrap();
            let denied = needs_all.then_some(Denied::Command);
            assert_eq!(some.denied(command, &args), denied, "{line}");
            assert_eq!(all.denied(command, &args), None, "{line}");
        }
    }

    #[test]
    fn channels_are_those_of_rules() {
        let mut alice = Permissions::default();
        alice.set(b"+@all").and_then(|()| alice.set(b"&news.*")).unwrap();
        for (call, denied) in [
            (&["publish", "news.a", "other"][..], None),
            (&["publish", "other", "news.a"], Some(1)),
            (&["subscribe", "news.a", "other"], Some(2)),
            (&["subscribe", "news.a", "news.*"], None),
            (&["psubscribe", "news.*"], None),
            (&["psubscribe", "news.a"], Some(1)),
            (&["get", "other"], None),
        ] {
            let keys = KeyPlaces::NONE;
            let flags = flag::NO_AUTH;
            let action = CommandAction::Session;
            let command = CommandRow { name: call[0], arity: -1, flags, keys, action };
            let args: Vec<_> = call.iter().map(|word| word.as_bytes()).collect();
            assert_eq!(alice.denied(&command, &args), denied.map(Denied::Channel), "{call:?}");
        }
    }
}
