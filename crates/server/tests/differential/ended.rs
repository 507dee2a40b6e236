//! Scripts that fail or are ended, where this server differs from Redis: they leave nothing.

use std::time::{Duration, Instant};

use crate::wire::{Client, Ours, Value};

fn eval(client: &mut Client, script: &str) -> Value {
    client.call(&[b"EVAL", script.as_bytes(), b"0"])
}

/// Scripts that would take for ever, or all memory, or the whole stack.
const GREEDY: &str = r#"
while true do end
while true do pcall(function() while true do end end) end
while true do redis.pcall('get', 'x') end
local function f() pcall(f) while true do end end f()
return xpcall(function() while true do end end, function() while true do end end)
return xpcall(function() error('x') end, function() while true do end end)
coroutine.wrap(function() while true do end end)()
while true do coroutine.resume(coroutine.create(function() while true do end end)) end
local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end
local t = {} while true do pcall(function() t[#t + 1] = ('x'):rep(1000) .. #t end) end
return #('x'):rep(1e9)
while true do local x = ('x'):rep(3e7) end
local function f() return 1 + f() end return f()
local function f() return f() end return f()
local function f() return coroutine.wrap(f)() end return f()
local function g(n) return n == 0 and coroutine.wrap(g)(180) or (pcall(g, n - 1)) end return g(180)
local function g() return (('x'):gsub('x', g)) end return g()
local function g() local t = {2, 1} table.sort(t, g) return true end return g()
return loadstring('return ' .. ('('):rep(1e5) .. '1' .. (')'):rep(1e5))()
return ('a'):rep(30000):find(('a-'):rep(10) .. 'b')
return ('a'):rep(1e6):find(('a?'):rep(1e6) .. 'b')
return ('a'):rep(1e6):match(('(a*)'):rep(30) .. 'b')
for word in ('a'):rep(30000):gmatch(('a-'):rep(10) .. 'b') do end
return (('a'):rep(30000):gsub(('a-'):rep(10) .. 'b', ''))
return ('x'):rep(1e6):gsub('x', ('y'):rep(1e6))
local a = {} a[1] = a a[2] = a return a
local s, t = ('x'):rep(1e7), {} for i = 1, 1000 do t[i] = s end return t
local s = ('x'):rep(1e7) for i = 1, 1000 do redis.call('set', 'k', s) end
for i = 1, 1e9 do redis.call('rpush', 'l', i) end
local t = {} for i = 1, 24 do t = {t, t} end return cjson.encode(t)
local t = {} for i = 1, 15 do t = {t, t, t, t, t, t} end return cmsgpack.pack(t)
return cjson.decode(('['):rep(1e6))
return cmsgpack.unpack(('\145'):rep(1e6))
local t = {} for i = 1, 1000 do t[i] = ('x'):rep(1e6) end struct.pack(('c0'):rep(1e3), unpack(t))
return setmetatable({}, {__index = function(t, k) return t[k + 1] end})[1]
return tostring(setmetatable({}, {__tostring = tostring}))
return {unpack({}, 1, 1e8)}
for i = 1, 1e9 do local x = (''):rep(2147483647) end
table.insert({}, -2147483647, 1) while true do end
local t = {} for i = 0, 29 do t[2 ^ i] = 1 end while true do table.insert(t, 1, 1) end
local t = {} for i = 0, 29 do t[2 ^ i] = 1 end while true do table.remove(t, 1) end
local t = {} for i = 0, 29 do t[2 ^ i] = 1 end table.foreachi(t, type) while true do end
local t = {} for i = 0, 29 do t[2 ^ i] = 1 end table.sort(t, rawequal) while true do end
while true do pcall(loadstring, ('x=1 '):rep(1e6)) end
"#;

#[test]
fn greedy_scripts_are_ended_and_leave_nothing() {
    let ours = Ours::start(None);
    let mut client = ours.client();
    client.call(&[b"CONFIG", b"SET", b"busy-reply-threshold", b"200"]);
    for script in GREEDY.trim().lines() {
        let begun = Instant::now();
        let reply = eval(&mut client, &format!("redis.call('set', 'left', 1) {script}"));
        assert!(begun.elapsed() < Duration::from_secs(15), "{script}: {:?}", begun.elapsed());
        let is_left = client.call(&[b"DEL", b"left", b"k", b"l"]);
        let left = i64::from(!reply.is_error());
        assert_eq!(is_left.integer(), Some(left), "{script}: {}", reply.shown());
        assert_eq!(eval(&mut client, "return 1").integer(), Some(1), "{script}");
    }
}

#[test]
fn others_are_served_while_a_script_runs() {
    let ours = Ours::start(None);
    let (mut greedy, mut killer) = (ours.client(), ours.client());
    // A client that is not served waits for ever.
    killer.call(&[b"CONFIG", b"SET", b"busy-reply-threshold", b"0"]);
    let sha = greedy.call(&[b"SCRIPT", b"LOAD", b"while true do end"]).bulk().unwrap().to_vec();
    let ran = std::thread::spawn(move || greedy.call(&[b"EVALSHA", &sha, b"0"]));
    let mut others: Vec<Client> = (0..8).map(|_| ours.client()).collect();
    for _ in 0..50 {
        for other in &mut others {
            assert_eq!(other.call(&[b"PING"]).shown(), "+PONG");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    while !ran.is_finished() {
        killer.call(&[b"SCRIPT", b"KILL"]);
        std::thread::sleep(Duration::from_millis(1));
    }
    let reply = ran.join().unwrap().shown();
    assert!(reply.contains("Script killed by user with SCRIPT KILL"), "{reply}");
}

#[test]
fn a_script_that_fails_leaves_nothing() {
    let ours = Ours::start(None);
    let (mut client, mut listening) = (ours.client(), ours.client());
    listening.call(&[b"SUBSCRIBE", b"c"]);
    client.call(&[b"RPUSH", b"old", b"a", b"b"]);
    client.call(&[b"SADD", b"s", b"m"]);
    let change = "redis.call('set', 'new', 1) redis.call('lpop', 'old') redis.call('del', 's')
        redis.call('hset', 'h', 'f', 'v') redis.call('publish', 'c', 'lost') ";
    for end in ["error('no')", "redis.call('incr', 'h')", "nothing()", "redis.call('nothing')"] {
        let script = format!("{change}{end}");
        assert!(eval(&mut client, &script).is_error());
        client.call(&[b"MULTI"]);
        client.call(&[b"RPUSH", b"old", b"c"]);
        eval(&mut client, &script);
        client.call(&[b"LREM", b"old", b"0", b"c"]);
        let replies = client.call(&[b"EXEC"]);
        assert_eq!(replies.items().map(<[Value]>::len), Some(3));
        assert!(replies.items().unwrap()[1].is_error());
        assert_eq!(client.call(&[b"DBSIZE"]).integer(), Some(2), "{end}");
        let old = client.call(&[b"LRANGE", b"old", b"0", b"-1"]);
        assert_eq!(old.shown(), r#"*[$1 "a", $1 "b"]"#, "{end}");
    }
    assert_eq!(eval(&mut client, &format!("{change} return 7")).integer(), Some(7));
    assert_eq!(client.call(&[b"DBSIZE"]).integer(), Some(3));
    client.call(&[b"PUBLISH", b"c", b"last"]);
    let message = listening.receive().unwrap().shown();
    assert!(message.contains("lost"), "{message}");
    let message = listening.receive().unwrap().shown();
    assert!(message.contains("last"), "{message}");
}

#[test]
fn a_killed_script_leaves_nothing() {
    let ours = Ours::start(None);
    let (mut client, mut other) = (ours.client(), ours.client());
    assert!(other.call(&[b"SCRIPT", b"KILL"]).shown().contains("NOTBUSY"));
    let ran = std::thread::spawn(move || {
        eval(&mut client, "redis.call('set', 'left', 1) while true do end")
    });
    while other.call(&[b"SCRIPT", b"KILL"]).is_error() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let reply = ran.join().unwrap().shown();
    assert!(reply.contains("Script killed by user with SCRIPT KILL"), "{reply}");
    assert_eq!(other.call(&[b"EXISTS", b"left"]).integer(), Some(0));
    assert!(other.call(&[b"SCRIPT", b"KILL"]).shown().contains("NOTBUSY"));
}

#[test]
fn scripts_of_many_clients_lose_no_write() {
    const THREADS: usize = 4;
    const CALLS: usize = 50;
    let ours = Ours::start(None);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let mut client = ours.client();
            scope.spawn(move || {
                let declared = "local n = redis.call('get', KEYS[1]) or 0
                    return redis.call('set', KEYS[1], n + 1)";
                let other = "local n = redis.call('get', 'total') or 0
                    return redis.call('set', 'total', n + 1)";
                for call in 0..CALLS {
                    if call % 5 == 0 {
                        client.call(&[b"MULTI"]);
                    }
                    client.call(&[b"EVAL", declared.as_bytes(), b"1", b"total"]);
                    eval(&mut client, other);
                    client.call(&[b"INCR", b"total"]);
                    if call % 5 == 0 {
                        client.call(&[b"EXEC"]);
                    }
                }
            });
        }
    });
    let total = ours.client().call(&[b"GET", b"total"]);
    assert_eq!(total.bulk(), Some((THREADS * CALLS * 3).to_string().as_bytes()));
}
