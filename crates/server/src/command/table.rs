//! The table of commands: a row each, from which `COMMAND`, checks and locks follow.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::args::is;
use super::{
    bits, expiry, geo, hashes, help, hyperloglog, keys, lcs, lists, own, sets, sort, sorted_sets,
    strings,
};
use crate::exec::Run;
use crate::resp::request::integer;

/// What a command is for: bits of [`CommandRow::flags`].
pub mod flag {
    /// Writes keys.
    pub const WRITE: u32 = 1;
    /// Reads keys.
    pub const READONLY: u32 = 1 << 1;
    /// May make a store grow.
    pub const DENYOOM: u32 = 1 << 2;
    /// Takes little time, whatever the keys have.
    pub const FAST: u32 = 1 << 3;
    /// Is for administrators.
    pub const ADMIN: u32 = 1 << 4;
    /// Is not for scripts.
    pub const NOSCRIPT: u32 = 1 << 5;
    /// Is answered while a store is loaded.
    pub const LOADING: u32 = 1 << 6;
    /// Is answered where a copy is behind.
    pub const STALE: u32 = 1 << 7;
    /// Needs no password.
    pub const NO_AUTH: u32 = 1 << 8;
    /// Is refused in a transaction.
    pub const NO_MULTI: u32 = 1 << 9;
    /// Arguments of it are not to be seen in logs.
    pub const SKIP_MONITOR: u32 = 1 << 10;
    /// Is run at once in a transaction, too.
    pub const AT_ONCE: u32 = 1 << 13;
    /// Is called by the names of subcommands.
    pub const CONTAINER: u32 = 1 << 12;
    /// May write without a look at what was there.
    pub const BLIND: u32 = 1 << 11;
    /// Waits for the disk, whatever the keys have.
    pub const WAITS: u32 = 1 << 15;
    /// Reads keys and may keep in them what it has found, so that it holds them as a write does.
    pub const KEEPS: u32 = 1 << 16;
    /// Reads one record, which is as of one moment by itself.
    pub const ONE_RECORD: u32 = 1 << 14;

    /// Names of the bits, as `COMMAND` has them.
    pub const NAMES: [(u32, &str); 11] = [
        (WRITE, "write"),
        (READONLY, "readonly"),
        (DENYOOM, "denyoom"),
        (ADMIN, "admin"),
        (NOSCRIPT, "noscript"),
        (LOADING, "loading"),
        (STALE, "stale"),
        (SKIP_MONITOR, "skip_monitor"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_MULTI, "no_multi"),
    ];
}

/// What runs a command.
#[derive(Clone, Copy)]
pub enum CommandAction {
    /// A function of arguments and records.
    Data(Run),
    /// The session, by the name.
    Session,
}

/// Where keys stand among arguments.
#[derive(Clone, Copy)]
pub struct KeyPlaces {
    /// The place of the first one; 0 if there is none.
    pub first: usize,
    /// The place of the last one, counted from the end if it is negative.
    pub last: isize,
    /// The step between keys.
    pub step: usize,
    /// The place of a number of more keys, which stand behind it; 0 if there is none.
    pub counted: usize,
    /// The words that one more key stands behind, with a bar between two; empty if there is none.
    pub word: &'static str,
}

impl KeyPlaces {
    const fn new(first: usize, last: isize, step: usize) -> Self {
        Self { first, last, step, counted: 0, word: "" }
    }

    const fn counted(self, counted: usize) -> Self {
        Self { counted, ..self }
    }
}

/// A row of the table.
pub struct CommandRow {
    /// The name in small letters.
    pub name: &'static str,
    /// Number of arguments with the name; at least as many if it is negative.
    pub arity: i32,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Where keys stand among its arguments.
    pub keys: KeyPlaces,
    /// What runs it.
    pub action: CommandAction,
}

impl CommandRow {
    /// Whether a number of arguments will do.
    pub fn takes(&self, arguments: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { arguments >= least } else { arguments == least }
    }

    /// Whether it changes keys that are not among its arguments.
    pub fn writes_unnamed(&self) -> bool {
        self.is(flag::WRITE) && self.keys.first == 0 && self.keys.counted == 0
    }

    /// Whether it runs a script.
    pub fn is_script(&self) -> bool {
        self.name.starts_with("eval")
    }

    /// Whether it is called by two words.
    pub fn is_subcommand(&self) -> bool {
        self.name.contains('|')
    }

    /// Whether it has a bit of [`flag`].
    pub fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The keys among its arguments.
    pub fn keys_of<'a, 'k>(
        &self,
        args: &'a [&'k [u8]],
    ) -> impl Iterator<Item = &'k [u8]> + use<'a, 'k> {
        let KeyPlaces { first, last, step, counted, word } = self.keys;
        let end = if last < 0 { args.len().saturating_add_signed(last) } else { last as usize };
        let places = if step == 0 { 0..0 } else { first..args.len().min(end + 1) };
        let count = args.get(counted).filter(|_| counted > 0).and_then(|text| integer(text));
        let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
        let more = counted + 1..args.len().min((counted + 1).saturating_add(count));
        let is_word = |argument| !word.is_empty() && word.split('|').any(|word| is(argument, word));
        let is_behind = |at: &usize| is_word(args[at - 1]);
        let behind = (2..args.len()).rev().find(is_behind);
        places.step_by(step.max(1)).chain(more).chain(behind).map(|at| args[at])
    }
}

/// The command of a name in whatever case, where a bar stands between command and subcommand.
pub fn named(name: &[u8]) -> Option<&'static CommandRow> {
    static BY_NAME: LazyLock<HashMap<&[u8], &CommandRow>> =
        LazyLock::new(|| COMMANDS.iter().map(|row| (row.name.as_bytes(), row)).collect());
    let mut small = [0; 24];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    BY_NAME.get(&*small).copied()
}

/// The command that is called: a subcommand, if the first word has them and there is a second one.
pub fn find(args: &[&[u8]]) -> Option<&'static CommandRow> {
    // A bar in the first word would name a subcommand as if it was a command.
    let command = named(args[0]).filter(|command| !command.is_subcommand())?;
    match args.get(1) {
        Some(word) if command.is(flag::CONTAINER) => named(&[args[0], b"|", word].concat()),
        _ => Some(command),
    }
}

const fn data(name: &'static str, arity: i32, flags: u32, keys: KeyPlaces, run: Run) -> CommandRow {
    CommandRow { name, arity, flags, keys, action: CommandAction::Data(run) }
}

/// A command that has subcommands; its flags are those of a call without one.
const fn container(name: &'static str, arity: i32, flags: u32) -> CommandRow {
    session(name, arity, flags | flag::CONTAINER)
}

const fn session(name: &'static str, arity: i32, flags: u32) -> CommandRow {
    CommandRow { name, arity, flags, keys: NONE, action: CommandAction::Session }
}

/// A command that runs a script, whose keys stand behind their number.
const fn script(name: &'static str, flags: u32) -> CommandRow {
    let flags = flags | flag::NOSCRIPT | flag::STALE | flag::WAITS;
    CommandRow { keys: NONE.counted(2), ..session(name, -3, flags) }
}

const NONE: KeyPlaces = KeyPlaces::new(0, 0, 0);
const SECOND: KeyPlaces = KeyPlaces::new(2, 2, 1);
const ONE: KeyPlaces = KeyPlaces::new(1, 1, 1);
const TWO: KeyPlaces = KeyPlaces::new(1, 2, 1);
const ALL: KeyPlaces = KeyPlaces::new(1, -1, 1);
const PAIRS: KeyPlaces = KeyPlaces::new(1, -1, 2);

const STORING: KeyPlaces = KeyPlaces { word: "STORE|STOREDIST", ..ONE };
const ALL_BUT_LAST: KeyPlaces = KeyPlaces::new(1, -2, 1);

const READ: u32 = flag::READONLY | flag::FAST;
const READ_ONE: u32 = READ | flag::ONE_RECORD;
const WALK: u32 = flag::READONLY;
const GROW: u32 = flag::WRITE | flag::DENYOOM;
const GROW_BLIND: u32 = GROW | flag::BLIND;
const GROW_FAST: u32 = GROW | flag::FAST;
const BLOCK: u32 = flag::WRITE | flag::NOSCRIPT;
const WRITE_FAST: u32 = flag::WRITE | flag::FAST;
const ALWAYS: u32 = flag::LOADING | flag::STALE;
const OWN: u32 = ALWAYS | flag::NOSCRIPT;
const SAVES: u32 = flag::ADMIN | flag::NOSCRIPT | flag::WAITS;
const OWN_FAST: u32 = OWN | flag::FAST;

/// All commands.
pub static COMMANDS: &[CommandRow] = &[
    data("get", 2, READ_ONE, ONE, strings::get),
    data("set", -3, GROW_BLIND, ONE, strings::set),
    data("setnx", 3, GROW_FAST, ONE, strings::setnx),
    data("setex", 4, GROW_BLIND, ONE, strings::setex),
    data("psetex", 4, GROW_BLIND, ONE, strings::psetex),
    data("getset", 3, GROW_FAST, ONE, strings::getset),
    data("getdel", 2, WRITE_FAST, ONE, strings::getdel),
    data("getex", -2, WRITE_FAST, ONE, strings::getex),
    data("mget", -2, READ, ALL, strings::mget),
    data("mset", -3, GROW_BLIND, PAIRS, strings::mset),
    data("msetnx", -3, GROW, PAIRS, strings::msetnx),
    data("append", 3, GROW_FAST, ONE, strings::append),
    data("strlen", 2, READ, ONE, strings::strlen),
    data("getrange", 4, WALK, ONE, strings::getrange),
    data("substr", 4, WALK, ONE, strings::getrange),
    data("setrange", 4, GROW, ONE, strings::setrange),
    data("incr", 2, GROW_FAST, ONE, strings::incr),
    data("decr", 2, GROW_FAST, ONE, strings::decr),
    data("incrby", 3, GROW_FAST, ONE, strings::incrby),
    data("decrby", 3, GROW_FAST, ONE, strings::decrby),
    data("incrbyfloat", 3, GROW_FAST, ONE, strings::incrbyfloat),
    data("setbit", 4, GROW, ONE, bits::setbit),
    data("getbit", 3, READ_ONE, ONE, bits::getbit),
    data("bitcount", -2, WALK, ONE, bits::bitcount),
    data("bitpos", -3, WALK, ONE, bits::bitpos),
    data("bitop", -4, GROW, KeyPlaces::new(2, -1, 1), bits::bitop),
    data("bitfield", -2, GROW, ONE, bits::bitfield),
    data("bitfield_ro", -2, READ, ONE, bits::bitfield_ro),
    data("lcs", -3, WALK, TWO, lcs::lcs),
    data("del", -2, flag::WRITE, ALL, keys::del),
    data("unlink", -2, WRITE_FAST, ALL, keys::del),
    data("exists", -2, READ, ALL, keys::exists),
    data("touch", -2, READ, ALL, keys::exists),
    data("type", 2, READ_ONE, ONE, keys::type_of),
    data("keys", 2, WALK, NONE, keys::keys),
    data("scan", -2, WALK, NONE, keys::scan),
    data("randomkey", 1, WALK, NONE, keys::randomkey),
    data("dbsize", 1, READ, NONE, keys::dbsize),
    data("rename", 3, flag::WRITE, TWO, keys::rename),
    data("renamenx", 3, WRITE_FAST, TWO, keys::renamenx),
    data("copy", -3, GROW, TWO, keys::copy),
    data("move", 3, WRITE_FAST, ONE, keys::move_to),
    data("swapdb", 3, WRITE_FAST, NONE, keys::swapdb),
    data("flushdb", -1, flag::WRITE, NONE, keys::flushdb),
    data("flushall", -1, flag::WRITE, NONE, keys::flushall),
    data("expire", -3, WRITE_FAST, ONE, expiry::expire),
    data("pexpire", -3, WRITE_FAST, ONE, expiry::pexpire),
    data("expireat", -3, WRITE_FAST, ONE, expiry::expireat),
    data("pexpireat", -3, WRITE_FAST, ONE, expiry::pexpireat),
    data("persist", 2, WRITE_FAST, ONE, expiry::persist),
    data("ttl", 2, READ_ONE, ONE, expiry::ttl),
    data("pttl", 2, READ_ONE, ONE, expiry::pttl),
    data("expiretime", 2, READ_ONE, ONE, expiry::expiretime),
    data("pexpiretime", 2, READ_ONE, ONE, expiry::pexpiretime),
    data("hset", -4, GROW_FAST, ONE, hashes::hset),
    data("hmset", -4, GROW_FAST, ONE, hashes::hmset),
    data("hsetnx", 4, GROW_FAST, ONE, hashes::hsetnx),
    data("hget", 3, READ, ONE, hashes::hget),
    data("hmget", -3, READ, ONE, hashes::hmget),
    data("hdel", -3, WRITE_FAST, ONE, hashes::hdel),
    data("hlen", 2, READ_ONE, ONE, hashes::hlen),
    data("hexists", 3, READ, ONE, hashes::hexists),
    data("hstrlen", 3, READ, ONE, hashes::hstrlen),
    data("hgetall", 2, WALK, ONE, hashes::hgetall),
    data("hkeys", 2, WALK, ONE, hashes::hkeys),
    data("hvals", 2, WALK, ONE, hashes::hvals),
    data("hincrby", 4, GROW_FAST, ONE, hashes::hincrby),
    data("hincrbyfloat", 4, GROW_FAST, ONE, hashes::hincrbyfloat),
    data("hrandfield", -2, WALK, ONE, hashes::hrandfield),
    data("hscan", -3, WALK, ONE, hashes::hscan),
    data("lpush", -3, GROW_FAST, ONE, lists::lpush),
    data("rpush", -3, GROW_FAST, ONE, lists::rpush),
    data("lpushx", -3, GROW_FAST, ONE, lists::lpushx),
    data("rpushx", -3, GROW_FAST, ONE, lists::rpushx),
    data("lpop", -2, WRITE_FAST, ONE, lists::lpop),
    data("rpop", -2, WRITE_FAST, ONE, lists::rpop),
    data("llen", 2, READ_ONE, ONE, lists::llen),
    data("lindex", 3, WALK, ONE, lists::lindex),
    data("lrange", 4, WALK, ONE, lists::lrange),
    data("lpos", -3, WALK, ONE, lists::lpos),
    data("lset", 4, GROW, ONE, lists::lset),
    data("linsert", 5, GROW, ONE, lists::linsert),
    data("lrem", 4, flag::WRITE, ONE, lists::lrem),
    data("ltrim", 4, flag::WRITE, ONE, lists::ltrim),
    data("lmove", 5, GROW, TWO, lists::lmove),
    data("rpoplpush", 3, GROW, TWO, lists::rpoplpush),
    data("lmpop", -4, flag::WRITE, NONE.counted(1), lists::lmpop),
    data("blpop", -3, BLOCK, ALL_BUT_LAST, lists::blpop),
    data("brpop", -3, BLOCK, ALL_BUT_LAST, lists::brpop),
    data("blmove", 6, BLOCK | flag::DENYOOM, TWO, lists::blmove),
    data("brpoplpush", 4, BLOCK | flag::DENYOOM, TWO, lists::brpoplpush),
    data("blmpop", -5, flag::WRITE, NONE.counted(2), lists::blmpop),
    data("sadd", -3, GROW_FAST, ONE, sets::sadd),
    data("srem", -3, WRITE_FAST, ONE, sets::srem),
    data("scard", 2, READ_ONE, ONE, sets::scard),
    data("sismember", 3, READ, ONE, sets::sismember),
    data("smismember", -3, READ, ONE, sets::smismember),
    data("smembers", 2, WALK, ONE, sets::smembers),
    data("smove", 4, WRITE_FAST, TWO, sets::smove),
    data("spop", -2, WRITE_FAST, ONE, sets::spop),
    data("srandmember", -2, WALK, ONE, sets::srandmember),
    data("sscan", -3, WALK, ONE, sets::sscan),
    data("sunion", -2, WALK, ALL, sets::sunion),
    data("sinter", -2, WALK, ALL, sets::sinter),
    data("sdiff", -2, WALK, ALL, sets::sdiff),
    data("sunionstore", -3, GROW, ALL, sets::sunionstore),
    data("sinterstore", -3, GROW, ALL, sets::sinterstore),
    data("sdiffstore", -3, GROW, ALL, sets::sdiffstore),
    data("sintercard", -3, WALK, NONE.counted(1), sets::sintercard),
    data("zadd", -4, GROW_FAST, ONE, sorted_sets::zadd),
    data("zincrby", 4, GROW_FAST, ONE, sorted_sets::zincrby),
    data("zrem", -3, WRITE_FAST, ONE, sorted_sets::zrem),
    data("zcard", 2, READ_ONE, ONE, sorted_sets::zcard),
    data("zscore", 3, READ, ONE, sorted_sets::zscore),
    data("zmscore", -3, READ, ONE, sorted_sets::zmscore),
    data("zrank", 3, READ, ONE, sorted_sets::zrank),
    data("zrevrank", 3, READ, ONE, sorted_sets::zrevrank),
    data("zrandmember", -2, WALK, ONE, sorted_sets::zrandmember),
    data("zscan", -3, WALK, ONE, sorted_sets::zscan),
    data("zrange", -4, WALK, ONE, sorted_sets::zrange),
    data("zrevrange", -4, WALK, ONE, sorted_sets::zrevrange),
    data("zrangebyscore", -4, WALK, ONE, sorted_sets::zrangebyscore),
    data("zrevrangebyscore", -4, WALK, ONE, sorted_sets::zrevrangebyscore),
    data("zrangebylex", -4, WALK, ONE, sorted_sets::zrangebylex),
    data("zrevrangebylex", -4, WALK, ONE, sorted_sets::zrevrangebylex),
    data("zrangestore", -5, GROW, TWO, sorted_sets::zrangestore),
    data("zcount", 4, READ, ONE, sorted_sets::zcount),
    data("zlexcount", 4, READ, ONE, sorted_sets::zlexcount),
    data("zremrangebyrank", 4, flag::WRITE, ONE, sorted_sets::zremrangebyrank),
    data("zremrangebyscore", 4, flag::WRITE, ONE, sorted_sets::zremrangebyscore),
    data("zremrangebylex", 4, flag::WRITE, ONE, sorted_sets::zremrangebylex),
    data("zpopmin", -2, WRITE_FAST, ONE, sorted_sets::zpopmin),
    data("zpopmax", -2, WRITE_FAST, ONE, sorted_sets::zpopmax),
    data("zmpop", -4, flag::WRITE, NONE.counted(1), sorted_sets::zmpop),
    data("bzpopmin", -3, BLOCK | flag::FAST, ALL_BUT_LAST, sorted_sets::bzpopmin),
    data("bzpopmax", -3, BLOCK | flag::FAST, ALL_BUT_LAST, sorted_sets::bzpopmax),
    data("bzmpop", -5, flag::WRITE, NONE.counted(2), sorted_sets::bzmpop),
    data("zunion", -3, WALK, NONE.counted(1), sorted_sets::zunion),
    data("zinter", -3, WALK, NONE.counted(1), sorted_sets::zinter),
    data("zdiff", -3, WALK, NONE.counted(1), sorted_sets::zdiff),
    data("zintercard", -3, WALK, NONE.counted(1), sorted_sets::zintercard),
    data("zunionstore", -4, GROW, ONE.counted(2), sorted_sets::zunionstore),
    data("zinterstore", -4, GROW, ONE.counted(2), sorted_sets::zinterstore),
    data("zdiffstore", -4, GROW, ONE.counted(2), sorted_sets::zdiffstore),
    data("sort", -2, GROW, KeyPlaces { word: "STORE", ..ONE }, sort::sort),
    data("sort_ro", -2, WALK, ONE, sort::sort_ro),
    data("pfadd", -2, GROW_FAST, ONE, hyperloglog::pfadd),
    data("pfcount", -2, WALK | flag::KEEPS, ALL, hyperloglog::pfcount),
    data("pfmerge", -2, GROW, ALL, hyperloglog::pfmerge),
    data("geoadd", -5, GROW, ONE, geo::geoadd),
    data("geodist", -4, WALK, ONE, geo::geodist),
    data("geohash", -2, WALK, ONE, geo::geohash),
    data("geopos", -2, WALK, ONE, geo::geopos),
    data("georadius", -6, GROW, STORING, geo::georadius),
    data("georadius_ro", -6, WALK, ONE, geo::georadius_ro),
    data("georadiusbymember", -5, GROW, STORING, geo::georadiusbymember),
    data("georadiusbymember_ro", -5, WALK, ONE, geo::georadiusbymember_ro),
    data("geosearch", -7, WALK, ONE, geo::geosearch),
    data("geosearchstore", -8, GROW, TWO, geo::geosearchstore),
    container("object", -2, 0),
    data("object|encoding", 3, WALK, SECOND, keys::object_encoding),
    data("object|freq", 3, WALK, SECOND, keys::object_freq),
    data("object|help", 2, ALWAYS, NONE, help::OF_OBJECT),
    data("object|idletime", 3, WALK, SECOND, keys::object_idletime),
    data("object|refcount", 3, WALK, SECOND, keys::object_refcount),
    container("memory", -2, 0),
    data("memory|help", 2, ALWAYS, NONE, help::OF_MEMORY),
    data("memory|usage", -3, WALK, SECOND, keys::memory_usage),
    container("acl", -2, 0),
    session("acl|cat", -2, OWN),
    session("acl|deluser", -3, OWN | flag::ADMIN),
    session("acl|dryrun", -4, OWN | flag::ADMIN),
    session("acl|genpass", -2, OWN),
    session("acl|getuser", 3, OWN | flag::ADMIN),
    session("acl|help", 2, ALWAYS),
    session("acl|list", 2, OWN | flag::ADMIN),
    session("acl|load", 2, OWN | flag::ADMIN),
    session("acl|log", -2, OWN | flag::ADMIN),
    session("acl|save", 2, OWN | flag::ADMIN),
    session("acl|setuser", -3, OWN | flag::ADMIN),
    session("acl|users", 2, OWN | flag::ADMIN),
    session("acl|whoami", 2, OWN),
    session("ping", -1, flag::FAST),
    session("echo", 2, flag::FAST | ALWAYS),
    session("select", 2, ALWAYS | flag::FAST),
    session("hello", -1, OWN_FAST | flag::NO_AUTH),
    session("auth", -2, OWN_FAST | flag::NO_AUTH),
    session("quit", -1, OWN_FAST | flag::NO_AUTH | flag::AT_ONCE),
    session("reset", 1, OWN_FAST | flag::NO_AUTH | flag::AT_ONCE),
    container("client", -2, 0),
    session("client|getname", 2, OWN),
    session("client|getredir", 2, OWN),
    session("client|help", 2, ALWAYS),
    session("client|id", 2, OWN),
    session("client|info", 2, OWN),
    session("client|kill", -3, OWN | flag::ADMIN),
    session("client|list", -2, OWN | flag::ADMIN),
    session("client|no-evict", 3, OWN | flag::ADMIN),
    session("client|reply", 3, OWN),
    session("client|setname", 3, OWN),
    session("client|unblock", -3, OWN | flag::ADMIN),
    container("command", -1, ALWAYS),
    session("command|count", 2, ALWAYS),
    session("command|docs", -2, ALWAYS),
    session("command|getkeys", -4, ALWAYS),
    session("command|help", 2, ALWAYS),
    session("command|info", -2, ALWAYS),
    session("command|list", -2, ALWAYS),
    container("config", -2, 0),
    session("config|get", -3, OWN | flag::ADMIN),
    session("config|help", 2, ALWAYS),
    session("config|resetstat", 2, OWN | flag::ADMIN),
    session("config|rewrite", 2, OWN | flag::ADMIN | flag::WAITS),
    session("config|set", -4, OWN | flag::ADMIN),
    session("info", -1, ALWAYS | flag::WAITS),
    container("slowlog", -2, 0),
    session("slowlog|get", -2, ALWAYS | flag::ADMIN),
    session("slowlog|help", 2, ALWAYS),
    session("slowlog|len", 2, ALWAYS | flag::ADMIN),
    session("slowlog|reset", 2, ALWAYS | flag::ADMIN),
    session("time", 1, ALWAYS | flag::FAST),
    session("lastsave", 1, ALWAYS | flag::FAST),
    session("wait", 3, flag::NOSCRIPT),
    session("waitaof", 4, flag::NOSCRIPT | flag::WAITS),
    session("save", 1, SAVES | flag::NO_MULTI),
    session("bgsave", -1, SAVES),
    session("bgrewriteaof", 1, SAVES),
    data("cleave.range", -3, WALK, NONE, own::range),
    data("cleave.cas", 4, GROW, ONE, own::cas),
    session("cleave.durability", -1, OWN_FAST),
    session("cleave.checkpoint", 2, SAVES),
    session("cleave.backup", 1, SAVES),
    session("cleave.compact", 1, SAVES),
    session("cleave.collect", 1, SAVES),
    session("cleave.check", 1, SAVES),
    session("subscribe", -2, OWN),
    session("unsubscribe", -1, OWN),
    session("psubscribe", -2, OWN),
    session("punsubscribe", -1, OWN),
    CommandRow { keys: ALL, ..session("ssubscribe", -2, OWN) },
    CommandRow { keys: ALL, ..session("sunsubscribe", -1, OWN) },
    session("publish", 3, ALWAYS | flag::FAST),
    CommandRow { keys: ONE, ..session("spublish", 3, ALWAYS | flag::FAST) },
    container("pubsub", -2, 0),
    session("pubsub|channels", -2, ALWAYS),
    session("pubsub|help", 2, ALWAYS),
    session("pubsub|numpat", 2, ALWAYS),
    session("pubsub|numsub", -2, ALWAYS),
    session("pubsub|shardchannels", -2, ALWAYS),
    session("pubsub|shardnumsub", -2, ALWAYS),
    script("eval", flag::SKIP_MONITOR),
    script("evalsha", flag::SKIP_MONITOR),
    script("eval_ro", flag::SKIP_MONITOR | flag::READONLY),
    script("evalsha_ro", flag::SKIP_MONITOR | flag::READONLY),
    container("script", -2, 0),
    session("script|exists", -3, flag::NOSCRIPT),
    session("script|flush", -2, flag::NOSCRIPT),
    session("script|help", 2, ALWAYS),
    session("script|kill", 2, flag::NOSCRIPT),
    session("script|load", 3, flag::NOSCRIPT | flag::STALE | flag::WAITS),
    session("multi", 1, OWN_FAST | flag::AT_ONCE),
    session("exec", 1, OWN | flag::AT_ONCE),
    session("discard", 1, OWN_FAST | flag::AT_ONCE),
    CommandRow { keys: ALL, ..session("watch", -2, OWN_FAST | flag::AT_ONCE) },
    session("unwatch", 1, OWN_FAST),
    session("shutdown", -1, OWN | flag::ADMIN | flag::NO_MULTI),
];
