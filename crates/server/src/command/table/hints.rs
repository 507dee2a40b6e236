//! What `COMMAND` tells of commands beside their rows: hints for clusters, and what becomes of
//! keys.

use super::CommandRow;
use crate::command::args::is;
use crate::command::glob;

/// Hints, and the commands that have them, as patterns.
const TIPS: [(&str, &str); 12] = [
    ("request_policy:multi_shard", "mget mset msetnx del unlink exists touch"),
    (
        "request_policy:all_shards",
        "keys randomkey dbsize flushdb flushall memory|doctor memory|malloc-stats memory|purge \
         memory|stats ping info wait function|delete function|flush function|kill function|load \
         function|restore function|stats script|exists script|kill",
    ),
    (
        "request_policy:all_nodes",
        "config|set slowlog|get slowlog|len slowlog|reset latency|[^h]* latency|hi* script|flush \
         script|load",
    ),
    ("request_policy:special", "scan"),
    (
        "nondeterministic_output_order",
        "keys hgetall hkeys hvals smembers sunion sinter sdiff \
      command command|docs command|info command|list function|list",
    ),
    (
        "nondeterministic_output",
        "scan randomkey ttl pttl hrandfield hscan spop srandmember sscan \
      zrandmember zscan xadd xtrim xpending xclaim xautoclaim xinfo|consumers dump object|[^h]* \
      memory|doctor memory|malloc-stats memory|stats client|info client|list info slowlog|get \
      slowlog|len latency|doctor latency|graph latency|hi* latency|latest time lastsave \
      function|stats",
    ),
    (
        "response_policy:all_succeeded",
        "mset flushdb flushall ping config|set slowlog|reset \
      latency|reset memory|purge function|delete function|flush function|load function|restore \
      script|flush script|load",
    ),
    ("response_policy:agg_min", "msetnx wait"),
    ("response_policy:agg_sum", "del unlink exists touch dbsize slowlog|len"),
    ("response_policy:one_succeeded", "function|kill script|kill"),
    ("response_policy:agg_logical_and", "script|exists"),
    (
        "response_policy:special",
        "memory|doctor memory|malloc-stats memory|stats info \
      latency|doctor latency|graph latency|hi* latency|latest function|stats",
    ),
];

/// What becomes of keys: of the first one, of the next one, and so on, and of all behind as of the
/// last that is named; and the commands, as patterns.
const USES: [(&[&str], &str); 18] = [
    (&["OW insert"], "setnx msetnx"),
    (&["OW update"], "set setex psetex mset restore"),
    (
        &["RW access update"],
        "getset getex incr* decr* setbit move hincrby* zincrby eval evalsha fcall bitfield",
    ),
    (
        &["RW access delete"],
        "getdel lpop rpop lmpop blpop brpop blmpop spop zpop* zmpop bzpop* bzmpop",
    ),
    (
        &["RW insert"],
        "append hsetnx lpush* rpush* linsert sadd xgroup|create xgroup|createconsumer pfadd",
    ),
    (
        &["RO"],
        "strlen exists touch type hlen hexists hstrlen llen scard sismember zcard xlen object|* \
         memory|usage watch",
    ),
    (
        &["RW update"],
        "setrange expire pexpire expireat pexpireat persist hset hmset lset zadd xadd xsetid xack \
         xclaim xgroup|setid geoadd",
    ),
    (
        &["OW update", "RO access"],
        "bitop sunionstore sdiffstore z*store zrangestore geosearchstore",
    ),
    (&["RW update", "RO access"], "sinterstore"),
    (&["RM delete"], "del unlink"),
    (&["RW access delete", "OW update"], "rename"),
    (&["RW access delete", "OW insert"], "renamenx"),
    (&["RO access", "OW update"], "copy sort georadius georadiusbymember"),
    (
        &["RW delete"],
        "hdel lrem ltrim srem zrem zremrange* xtrim xdel xautoclaim xgroup|delconsumer \
         xgroup|destroy",
    ),
    (&["RW access delete", "RW insert"], "lmove rpoplpush blmove brpoplpush smove"),
    (&["RW access"], "pfcount"),
    (&["RW access insert", "RO access"], "pfmerge"),
    // What is left.
    (&["RO access"], "*"),
];

/// Whether a list of patterns names a command.
fn names(patterns: &str, command: &CommandRow) -> bool {
    patterns.split(' ').any(|it| glob::matches(it.as_bytes(), command.name.as_bytes()))
}

impl CommandRow {
    /// Hints for clusters.
    pub fn tips(&self) -> impl Iterator<Item = &'static str> {
        TIPS.into_iter().filter(|(_, patterns)| names(patterns, self)).map(|(tip, _)| tip)
    }

    /// The keys among its arguments, and the words for what becomes of each.
    pub fn used_keys<'a, 'k>(
        &self,
        args: &'a [&'k [u8]],
    ) -> impl Iterator<Item = (&'k [u8], &'static str)> + use<'a, 'k> {
        let uses = match self.name {
            // What they do stands among their arguments.
            "set" if args[3..].iter().any(|word| is(word, "GET")) => &["RW access update"],
            "bitfield" if args[2..].chunks(3).all(|call| is(call[0], "GET")) => &["RO access"],
            _ => USES.iter().find(|(_, patterns)| names(patterns, self)).map_or(&[][..], |it| it.0),
        };
        let last = uses.last().copied().unwrap_or_default();
        let uses = uses.iter().copied().chain(std::iter::repeat(last));
        self.keys_of(args).zip(uses)
    }
}
