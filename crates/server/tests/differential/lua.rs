//! Scripts in Lua: what both servers answer to them.

mod replies;
mod language;
mod libraries;

use crate::Both;
use crate::fixed::assert_scripts;
use crate::wire::Pair;

#[test]
fn values_and_errors_are_those_of_redis() {
    let Some(both) = Both::start(None) else { return };
    for protocol in [b"2", b"3"] {
        let mut pair = both.pair();
        for client in [&mut pair.ours, &mut pair.theirs] {
            client.call(&[b"HELLO", protocol]);
            client.call(&[b"FLUSHALL"]);
        }
        let all = [replies::SCRIPTS, language::SCRIPTS, libraries::SCRIPTS];
        let different =
            all.iter().flat_map(|scripts| scripts.trim().lines()).filter_map(|script| {
                let [ours, theirs] = pair.call(&[b"EVAL", script.as_bytes(), b"0"]);
                let shown = || format!("{script}\n{}\n{}", ours.shown(), theirs.shown());
                (ours != theirs).then(shown)
            });
        let different: Vec<String> = different.collect();
        assert!(different.is_empty(), "{}", different.join("\n\n"));
    }
}

/// Calls, with an empty line between two connections.
const CALLS: &str = r##"
EVAL "#!lua\nreturn 1" 0
EVAL "#!lua flags=no-writes\nreturn redis.call('set','a','b')" 0
EVAL "#!lua flags=x\nreturn 1" 0
EVAL "#!lua x\nreturn 1" 0
EVAL "#!python\nreturn 1" 0
EVAL "#!lua" 0
EVAL "#!\nreturn 1" 0
EVAL "#!lua flags=no-writes,allow-oom\nreturn 1" 0
EVAL_RO "#!lua\nreturn 1" 0
EVAL_RO "return redis.call('set','a','b')" 0
EVAL_RO "return redis.call('publish','a','b')" 0
EVAL_RO "return redis.call('get',KEYS[1])" 1 a
EVALSHA x 0
EVALSHA 0000000000000000000000000000000000000000 0
SCRIPT LOAD "return 7"
EVALSHA b9d1d3a5c2fd6fbd7bd1ef45b2a7d4c8ad5ba1e4 0
SCRIPT LOAD "return {"
SCRIPT EXISTS x 0000000000000000000000000000000000000000
SCRIPT FLUSH x
SCRIPT FLUSH a b
SCRIPT FLUSH SYNC
SCRIPT FLUSH async
SCRIPT KILL
SCRIPT
SCRIPT x
SCRIPT LOAD
EVAL "return 1"
EVAL "return 1" x
EVAL "return 1" -1
EVAL "return 1" 1
EVAL "return {KEYS[1],KEYS[2],ARGV[1],ARGV[2]}" 2 a b c d
EVAL_RO
EVALSHA_RO x 0
EVAL "\nreturn x" 0
EVAL "local a\n\n\nerror('line four')" 0
EVAL "local function f()\n error('deep')\nend\nlocal function g()\n f()\nend\ng()" 0
EVAL "\x1bLua" 0
EVAL "" 0
EVAL "return ARGV[1]" 0 "\x00\xff\r\n"
COMMAND GETKEYS EVAL x 2 a b c

SCRIPT FLUSH
SCRIPT LOAD "return redis.call('incr',KEYS[1])"
SCRIPT EXISTS 84b59cbaa9a8e6bb3aa46d9efc1dd4b9f8c2ab9c
EVAL "return redis.sha1hex(ARGV[1])" 0 "return redis.call('incr',KEYS[1])"

MULTI
EVAL "redis.call('set','m','1') return redis.call('get','m')" 0
GET m
EVAL "return nosuch" 0
EXEC
GET m

MULTI
SELECT 1
EVAL "redis.call('select',2) redis.call('set','in2','1')" 0
SET in1 x
EXEC
SELECT 2
GET in2
SELECT 1
GET in1

ACL SETUSER default -set ~a* resetchannels
EVAL "return redis.call('set','a','b')" 0
EVAL "return redis.call('get','b')" 0
EVAL "return redis.call('get','a')" 0
EVAL "return redis.call('publish','a','b')" 0
EVAL "return redis.acl_check_cmd('set','a','b')" 0
EVAL "return redis.acl_check_cmd('get','a')" 0
EVAL "return 1" 1 b
ACL SETUSER default +@all allkeys allchannels
"##;

#[test]
fn calls_are_answered_alike() {
    let Some(both) = Both::start(None) else { return };
    assert_scripts(&both, CALLS);
}

/// Scripts among clients that wait, and a message of one.
const WAITING: &str = r#"0> BLPOP q 0
1> BLMOVE q other LEFT LEFT 0
2 EVAL "redis.call('rpush','q','a','b','c') return redis.call('lrange','q',0,-1)" 0
0
1
2 LRANGE q 0 -1
2 LRANGE other 0 -1

0 SUBSCRIBE c
2 EVAL "redis.call('publish','c','one') return redis.call('publish','c','three')" 0
0
0

0> BZPOPMIN z 0
2 MULTI
2 EVAL "redis.call('zadd','z',1,'a') return 1" 0
2 EXEC
0

2 WATCH k
2 EVAL "return redis.call('set','k','v')" 0
2 MULTI
2 GET k
2 EXEC"#;

#[test]
fn clients_wait_for_scripts_alike() {
    let Some(both) = Both::start(None) else { return };
    crate::scripts::assert_alike(&both, WAITING);
}

/// The scripts of locks, of a limiter and of a queue, as widespread libraries have them.
const RELEASE: &str = "
    local token = redis.call('get', KEYS[1])
    if not token or token ~= ARGV[1] then return 0 end
    redis.call('del', KEYS[1])
    return 1";
const EXTEND: &str = "
    local token = redis.call('get', KEYS[1])
    if not token or token ~= ARGV[1] then return 0 end
    local expiration = redis.call('pttl', KEYS[1])
    if not expiration then expiration = 0 end
    if expiration < 0 then return 0 end
    local newttl = ARGV[2]
    if ARGV[3] == '0' then newttl = ARGV[2] + expiration end
    redis.call('pexpire', KEYS[1], newttl)
    return 1";
const LIMIT: &str = "
    local now, window, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
    redis.call('zremrangebyscore', KEYS[1], 0, now - window)
    local count = redis.call('zcard', KEYS[1])
    if count >= most then return {0, count} end
    redis.call('zadd', KEYS[1], now, ARGV[1] .. ':' .. count)
    redis.call('pexpire', KEYS[1], window * 1000)
    return {1, count + 1}";
const MOVE: &str = "
    local opts = cmsgpack.unpack(ARGV[1])
    local id = redis.call('rpoplpush', KEYS[1], KEYS[2])
    if not id then return false end
    local key = opts.prefix .. id
    redis.call('hset', key, 'at', opts.at, 'data', cjson.encode({id = id, tries = {1, 2}}))
    redis.call('zadd', KEYS[3], opts.at, id)
    redis.call('publish', 'moved', id)
    return {id, redis.call('hgetall', key), cjson.decode(redis.call('hget', key, 'data')).tries}";

/// Runs a script of a library with keys and arguments.
fn run(pair: &mut Pair, script: &str, keys: &[&str], args: &[&[u8]]) {
    let count = keys.len().to_string();
    let keys = keys.iter().map(|key| key.as_bytes());
    let words = [b"EVAL", script.as_bytes(), count.as_bytes()].into_iter();
    let call: Vec<&[u8]> = words.chain(keys).chain(args.iter().copied()).collect();
    let [ours, theirs] = pair.call(&call);
    assert_eq!(ours, theirs, "{script}");
    assert!(!ours.is_error(), "{}", ours.shown());
}

#[test]
fn scripts_of_libraries_run_alike() {
    let Some(both) = Both::start(None) else { return };
    let mut pair = both.pair();
    for line in ["SET lock me PX 100000", "LPUSH wait 1 2 3"] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        pair.call(&words);
    }
    run(&mut pair, RELEASE, &["lock"], &[b"you"]);
    run(&mut pair, EXTEND, &["lock"], &[b"me", b"10000", b"0"]);
    run(&mut pair, EXTEND, &["lock"], &[b"me", b"10000", b"1"]);
    run(&mut pair, RELEASE, &["lock"], &[b"me"]);
    run(&mut pair, RELEASE, &["lock"], &[b"me"]);
    for now in ["1000", "1001", "1002", "1003", "1060", "1061"] {
        run(&mut pair, LIMIT, &["limit"], &[now.as_bytes(), b"60", b"3"]);
    }
    let packed = b"\x82\xa6prefix\xa4job:\xa2at\xcd\x03\xe8";
    for _ in 0..4 {
        run(&mut pair, MOVE, &["wait", "active", "moved"], &[packed]);
    }
    assert!(crate::same_keys(&mut pair, 0).is_none());
}

/// Scripts with errors, of which each is counted once.
const FAILING: &str = r#"
return redis.call('incr', 's')
return redis.pcall('incr', 's')
redis.pcall('incr', 's') return 1
local e = redis.pcall('incr', 's') error(e)
error('x')
return redis.error_reply('MY err')
local ok, e = pcall(redis.call, 'incr', 's') return redis.error_reply('MY own')
return redis.call('nope')
local ok, e = pcall(redis.call, 'incr', 's') return redis.call('lpush', 's', 1)"#;

#[test]
fn errors_of_scripts_are_counted_alike() {
    let Some(both) = Both::start(None) else { return };
    let mut pair = both.pair();
    pair.call(&[b"SET", b"s", b"x"]);
    for script in FAILING.trim().lines() {
        pair.call(&[b"CONFIG", b"RESETSTAT"]);
        for in_transaction in [false, true] {
            if in_transaction {
                pair.call(&[b"MULTI"]);
            }
            pair.call(&[b"EVAL", script.as_bytes(), b"0"]);
            if in_transaction {
                pair.call(&[b"EXEC"]);
            }
            let [ours, theirs] = pair.call(&[b"INFO", b"errorstats"]);
            assert_eq!(ours.shown(), theirs.shown(), "{script}");
        }
    }
}
