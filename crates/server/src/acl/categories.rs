//! Categories of commands: some follow from what the table has, the others are told here.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::command::glob;
use crate::command::table::{COMMANDS, CommandRow, flag};

/// The names, as rules have them, in the order in which Redis shows them.
pub const NAMES: [&str; 21] = [
    "@keyspace",
    "@read",
    "@write",
    "@set",
    "@sortedset",
    "@list",
    "@hash",
    "@string",
    "@bitmap",
    "@hyperloglog",
    "@geo",
    "@stream",
    "@pubsub",
    "@admin",
    "@fast",
    "@slow",
    "@blocking",
    "@dangerous",
    "@connection",
    "@transaction",
    "@scripting",
];

/// Commands of categories that nothing else tells, as patterns.
const TOLD: [(&str, &str); 15] = [
    (
        "keyspace",
        "copy dbsize del dump exists expire* flush* keys migrate move object|* p*expire* persist \
         pttl randomkey rename* restore* scan swapdb touch ttl type unlink",
    ),
    (
        "set",
        "sadd scard sdiff* sinter* sismember smembers smismember smove sort* spop srandmember srem \
         sscan sunion*",
    ),
    ("sortedset", "bz* sort* z*"),
    (
        "list",
        "blmove blmpop blpop brpop* lindex linsert llen lmove lmpop lpop lpos lpush* lrange lrem \
         lset ltrim rpop* rpush* sort*",
    ),
    (
        "hash",
        "hdel hexists hget* hincrby* hkeys hlen hmget hmset hrandfield hscan hset hsetnx hstrlen \
         hvals",
    ),
    (
        "string",
        "append decr* get getdel getex getrange getset incr* lcs mget mset* psetex set setex setnx \
         setrange strlen substr",
    ),
    ("bitmap", "bit* getbit setbit"),
    ("hyperloglog", "pf*"),
    ("geo", "geo*"),
    ("stream", "x*"),
    ("pubsub", "*publish *subscribe pubsub|[^h]*"),
    ("blocking", "bl* br* bz* xread xreadgroup"),
    ("dangerous", "flush* info keys lastsave migrate restore* role sort* swapdb"),
    (
        "connection",
        "asking auth client|* command command|* echo hello ping quit readonly readwrite reset \
         select wait",
    ),
    ("transaction", "discard exec multi unwatch watch"),
];

/// Commands of administrators without its flag, and of scripts.
const TOLD_LAST: [(&str, &str); 2] =
    [("admin", "lastsave role"), ("scripting", "eval* fcall* function|* script|*")];

/// A set of categories: bits in the order of [`NAMES`].
pub type CategoryBits = u32;

/// The bit of a category, whose name may have capitals.
pub fn named(name: &[u8]) -> Option<CategoryBits> {
    let is_it = |known: &&str| name.eq_ignore_ascii_case(&known.as_bytes()[1..]);
    NAMES.iter().position(is_it).map(|at| 1 << at)
}

/// The categories of a command.
pub fn of(command: &CommandRow) -> CategoryBits {
    static OF_ALL: LazyLock<HashMap<&str, CategoryBits>> =
        LazyLock::new(|| COMMANDS.iter().map(|row| (row.name, found(row))).collect());
    OF_ALL.get(command.name).copied().unwrap_or_default()
}

/// The commands of a category.
pub fn commands_of(category: CategoryBits) -> impl Iterator<Item = &'static CommandRow> {
    COMMANDS.iter().filter(move |row| of(row) & category != 0)
}

fn found(command: &CommandRow) -> CategoryBits {
    let bit = |name: &str| named(name.as_bytes()).unwrap_or_default();
    let mut bits = 0;
    for (name, patterns) in TOLD.iter().chain(&TOLD_LAST) {
        let mut patterns = patterns.split(' ');
        // What has subcommands is in no category of these, but where it is named.
        let is_told = match command.is(flag::CONTAINER) {
            true => patterns.any(|it| it == command.name),
            false => patterns.any(|it| glob::matches(it.as_bytes(), command.name.as_bytes())),
        };
        bits |= if is_told { bit(name) } else { 0 };
    }
    let is_script = bits & bit("scripting") != 0;
    for (flags, names) in [
        (flag::WRITE, &["write"][..]),
        (if is_script { 0 } else { flag::READONLY }, &["read"]),
        (flag::ADMIN, &["admin", "dangerous"]),
    ] {
        let told = names.iter().filter(|_| command.is(flags)).map(|name| bit(name));
        bits |= told.sum::<CategoryBits>();
    }
    bits | bit(if command.is(flag::FAST) { "fast" } else { "slow" })
}
