//! Libraries of functions: how they are loaded, called, told of and moved.

use crate::Both;
use crate::fixed::assert_scripts;
use crate::wire::Ours;

/// Libraries that [`SCRIPTS`] names.
const LIBRARIES: &[(&str, &str)] = &[
    (
        "ECHOING",
        "#!lua name=one
redis.register_function('f', function(keys, args) return {keys, args} end)",
    ),
    (
        "REPLACING",
        "#!LUA name=two
redis.register_function('h', function() return 2 end)",
    ),
    (
        "REPEATED",
        "#!lua name=b
local f = function() end
redis.register_function('f', f)
redis.register_function('f', f)",
    ),
    (
        "FLAGGED",
        "#!lua name=b
redis.register_function{Function_Name=7, CALLBACK=function() end, description=8,
  flags={'No-Writes', 'allow-stale'}}",
    ),
    (
        "SHARED",
        "#!lua name=a
local function add(n) return n + 1 end
redis.register_function('f', function(k, a) return add(a[1]) end)
redis.register_function('g', function(k) return redis.call('set', k[1], add(1)) end)
redis.register_function{function_name='r',
  callback=function(k) return redis.call('get', k[1]) end, flags={'no-writes'}}
redis.register_function{function_name='w',
  callback=function(k) return redis.call('set', k[1], 1) end, flags={'no-writes'}}",
    ),
    (
        "MANY",
        "#!lua name=a
local lib = redis
redis.register_function('a', function() return redis.call('nope') end)
redis.register_function('b', function() error('x') end)
redis.register_function('c', function() return KEYS end)
redis.register_function('d', function() return redis.nope end)
redis.register_function('e', function() error({err='my err'}) end)
redis.register_function('f', function() return redis.error_reply('my err') end)
redis.register_function('g', function() redis.register_function('z', function() end) end)
redis.register_function('h', function() lib.register_function('z', function() end) end)
redis.register_function('i', function() lib.x = 1 end)
redis.register_function('j', function() x = 1 end)
redis.register_function('k', function() getmetatable(_G).__index = 1 end)
redis.register_function('l', function() redis.setresp(3) return redis.call('hgetall', 'none') end)
redis.register_function('m', function(...) return select('#', ...) end)
redis.register_function('n', function() return {redis.pcall('incr').err} end)
redis.register_function('o', function() return redis.call('eval', 'return 1', 0) end)
redis.register_function('p', function() return redis.call('fcall', 'a', 0) end)
redis.register_function('q', function() return redis.call('function', 'flush') end)",
    ),
    (
        "READING",
        "#!lua name=a
redis.register_function('f', function() return redis.call('get', 'b') end)",
    ),
];

const SCRIPTS: &str = r##"
FUNCTION FLUSH
FUNCTION LOAD ECHOING
FCALL f 1 a b c
FCALL F 0
FCALL f 2 a
FCALL f -1
FCALL f x
FCALL none x
FCALL_RO f 0
FUNCTION LIST
FUNCTION LIST WITHCODE
FUNCTION LIST LIBRARYNAME O*
FUNCTION LIST LIBRARYNAME x WITHCODE
FUNCTION LIST WITHCODE WITHCODE
FUNCTION LIST LIBRARYNAME
FUNCTION LIST LIBRARYNAME a LIBRARYNAME b
FUNCTION LIST x
FUNCTION STATS
FUNCTION LOAD "#!lua name=one\nredis.register_function('g', function() return 1 end)"
FUNCTION LOAD REPLACE "#!lua name=one\nredis.register_function('g', function() return 1 end)"
FCALL f 0
FCALL g 0
FUNCTION LOAD "#!lua name=two\nredis.register_function('g', function() return 2 end)"
FCALL g 0
FUNCTION LOAD REPLACE replace REPLACING
FUNCTION LOAD x "#!lua name=two\nredis.register_function('h', function() return 2 end)"
FUNCTION STATS
FUNCTION DELETE three
FUNCTION DELETE two
FCALL h 0
FUNCTION FLUSH x
FUNCTION FLUSH ASYNC x
FUNCTION FLUSH ASYNC
FUNCTION LIST
FUNCTION KILL
FUNCTION
FUNCTION x
FUNCTION LOAD
FCALL g
COMMAND GETKEYS FCALL x 2 a b c
COMMAND GETKEYS FCALL_RO x 1 a b c

FUNCTION FLUSH
FUNCTION LOAD ""
FUNCTION LOAD hello
FUNCTION LOAD "#!lua name=a"
FUNCTION LOAD "#!\n"
FUNCTION LOAD "#!lua\n"
FUNCTION LOAD "#!x name=a\n"
FUNCTION LOAD "#! name=a\n"
FUNCTION LOAD "#!lua name=a-b\n"
FUNCTION LOAD "#!lua name=\n"
FUNCTION LOAD "#!lua name=a name=b\n"
FUNCTION LOAD "#!lua name=a b=c\n"
FUNCTION LOAD "#!lua name=\"a\"b\n"
FUNCTION LOAD "#!lua NAME=\"a\"\nredis.register_function('g', function() return 2 end)"
FUNCTION LOAD "#!lua name=b\n"
FUNCTION LOAD "#!lua name=b\nbad script"
FUNCTION LOAD "#!lua name=b\n\nlocal x = nil + 1"
FUNCTION LOAD "#!lua name=b\nerror('x')"
FUNCTION LOAD "#!lua name=b\nx = 1"
FUNCTION LOAD "#!lua name=b\nredis.x = 1"
FUNCTION LOAD "#!lua name=b\nreturn redis.call('ping')"
FUNCTION LOAD "#!lua name=b\nreturn math.pi"
FUNCTION LOAD "#!lua name=b\nreturn KEYS"
FUNCTION LOAD "#!lua name=b\nredis.log('x')"
FUNCTION LOAD "#!lua name=b\nredis.log(redis.LOG_NOTICE, redis.REDIS_VERSION)"
FUNCTION LOAD "#!lua name=b\nredis.register_function()"
FUNCTION LOAD "#!lua name=b\nredis.register_function('f')"
FUNCTION LOAD "#!lua name=b\nredis.register_function('f', 'x')"
FUNCTION LOAD "#!lua name=b\nredis.register_function(nil, function() end)"
FUNCTION LOAD "#!lua name=b\nredis.register_function('f', function() end, {})"
FUNCTION LOAD "#!lua name=b\nredis.register_function('', function() end)"
FUNCTION LOAD "#!lua name=b\nredis.register_function('a-b', function() end)"
FUNCTION LOAD REPEATED
FUNCTION LOAD "#!lua name=b\nredis.register_function{}"
FUNCTION LOAD "#!lua name=b\nredis.register_function{function_name='f'}"
FUNCTION LOAD "#!lua name=b\nredis.register_function{callback=function() end}"
FUNCTION LOAD "#!lua name=b\nredis.register_function{function_name={}}"
FUNCTION LOAD "#!lua name=b\nredis.register_function{callback=1}"
FUNCTION LOAD "#!lua name=b\nredis.register_function{description={}}"
FUNCTION LOAD "#!lua name=b\nredis.register_function{flags=1}"
FUNCTION LOAD "#!lua name=b\nredis.register_function{flags={{}}}"
FUNCTION LOAD "#!lua name=b\nredis.register_function{flags={'x'}}"
FUNCTION LOAD "#!lua name=b\nredis.register_function{x=1}"
FUNCTION LOAD "#!lua name=b\nredis.register_function{[{}]=1}"
FUNCTION LOAD FLAGGED
FUNCTION LIST LIBRARYNAME b
FCALL_RO 7 0

FUNCTION FLUSH
FUNCTION LOAD SHARED
FCALL f 0 41
FCALL g 1 k
FCALL_RO g 1 k
FCALL r 1 k
FCALL_RO r 1 k
FCALL w 1 k
FCALL_RO w 1 k
FCALL f 0
MULTI
FCALL g 1 m
FCALL r 1 m
FUNCTION STATS
FCALL f 0
EXEC

FUNCTION FLUSH
FUNCTION LOAD MANY
FCALL a 0
FCALL b 0
FCALL c 0
FCALL d 0
FCALL e 0
FCALL f 0
FCALL g 0
FCALL h 0
FCALL i 0
FCALL j 0
FCALL l 0
FCALL m 0
FCALL n 0
FCALL o 0
FCALL p 0
FCALL q 0
EVAL "return redis.register_function" 0

FUNCTION FLUSH
FUNCTION RESTORE x
FUNCTION RESTORE x y z
FUNCTION RESTORE "\n\x00!\xb3\x98\xab\x18\x08\xa4\x0f"
FUNCTION RESTORE x y

FUNCTION FLUSH
ACL SETUSER default -function|load +function|list
FUNCTION LOAD x
FUNCTION LIST
ACL SETUSER default -fcall
FCALL x 0
ACL SETUSER default +@all ~a* resetchannels
FUNCTION LOAD READING
FCALL f 0
FCALL f 1 b
ACL SETUSER default +@all allkeys allchannels
FUNCTION FLUSH
"##;

#[test]
fn functions_are_those_of_redis() {
    let Some(both) = Both::start(None) else { return };
    let named = |scripts: String, (name, text): &(&str, &str)| {
        scripts.replace(name, &format!("\"{}\"", text.replace('\n', "\\n")))
    };
    assert_scripts(&both, &LIBRARIES.iter().fold(SCRIPTS.to_owned(), named));
}

/// A library with two functions, which is long enough to be compressed.
const LIBRARY: &str = "#!lua name=lib
redis.register_function('twice', function(keys, args) return 2 * args[1] end)
redis.register_function('thrice', function(keys, args) return 3 * args[1] end)";

#[test]
fn libraries_move_there_and_back() {
    let Some(both) = Both::start(None) else { return };
    let mut pair = both.pair();
    let [loaded, _] = pair.call(&[b"FUNCTION", b"LOAD", LIBRARY.as_bytes()]);
    assert_eq!(loaded.bulk(), Some(&b"lib"[..]));
    let dumps = pair.call(&[b"FUNCTION", b"DUMP"]).map(|dump| dump.bulk().unwrap().to_vec());
    for dump in dumps {
        pair.call(&[b"FUNCTION", b"LOAD", b"REPLACE", LIBRARY.as_bytes()]);
        for how in ["APPEND", "REPLACE", "FLUSH"] {
            let [ours, theirs] = pair.call(&[b"FUNCTION", b"RESTORE", &dump, how.as_bytes()]);
            assert_eq!(ours, theirs);
            assert_eq!(ours.is_error(), how == "APPEND", "{}", ours.shown());
            let [ours, theirs] = pair.call(&[b"FCALL", b"Thrice", b"0", b"14"]);
            assert_eq!((ours.integer(), theirs.integer()), (Some(42), Some(42)));
        }
        pair.call(&[b"FUNCTION", b"FLUSH"]);
    }
    // A function that another library has ends the whole.
    let other = LIBRARY.replace("name=lib", "name=other").replace("twice", "once");
    pair.call(&[b"FUNCTION", b"LOAD", LIBRARY.as_bytes()]);
    let [dump, _] = pair.call(&[b"FUNCTION", b"DUMP"]).map(|dump| dump.bulk().unwrap().to_vec());
    pair.call(&[b"FUNCTION", b"FLUSH"]);
    pair.call(&[b"FUNCTION", b"LOAD", other.as_bytes()]);
    let [ours, theirs] = pair.call(&[b"FUNCTION", b"RESTORE", &dump]);
    assert_eq!(ours.shown(), theirs.shown());
    let [ours, theirs] = pair.call(&[b"FUNCTION", b"LIST"]);
    assert_eq!(ours.items().unwrap().len(), theirs.items().unwrap().len());
}

#[test]
fn what_a_library_keeps_ends_with_the_call() {
    let ours = Ours::start(None);
    let mut client = ours.client();
    let text = "#!lua name=lib
local calls = 0
redis.register_function('count', function() calls = calls + 1 return calls end)";
    client.call(&[b"FUNCTION", b"LOAD", text.as_bytes()]);
    for _ in 0..3 {
        assert_eq!(client.call(&[b"FCALL", b"count", b"0"]).integer(), Some(1));
    }
}

#[test]
fn a_function_that_fails_or_is_killed_leaves_nothing() {
    let ours = Ours::start(None);
    let (mut client, mut other) = (ours.client(), ours.client());
    other.call(&[b"CONFIG", b"SET", b"busy-reply-threshold", b"0"]);
    let text = "#!lua name=lib
redis.register_function('fails', function() redis.call('set', 'k', 1) error('no') end)
redis.register_function('stays', function() redis.call('set', 'k', 1) while true do end end)";
    client.call(&[b"FUNCTION", b"LOAD", text.as_bytes()]);
    assert!(client.call(&[b"FCALL", b"fails", b"0"]).is_error());
    let ran = std::thread::spawn(move || client.call(&[b"FCALL", b"stays", b"0", b"word"]));
    let is_told = |other: &mut crate::wire::Client| {
        other.call(&[b"FUNCTION", b"STATS"]).shown().contains("word")
    };
    while !is_told(&mut other) {}
    assert!(other.call(&[b"SCRIPT", b"KILL"]).shown().contains("NOTBUSY"));
    while !ran.is_finished() {
        other.call(&[b"FUNCTION", b"KILL"]);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let reply = ran.join().unwrap().shown();
    assert!(reply.contains("Script killed by user"), "{reply}");
    assert_eq!(other.call(&[b"EXISTS", b"k"]).integer(), Some(0));
}
