//! Scripts in Lua: what both servers answer to them.

use crate::Both;
use crate::fixed::assert_scripts;
use crate::wire::Pair;

/// Scripts, a line each, on one connection.
const SCRIPTS: &str = r####"
return 1
return 3.99
return -3.99
return 1e300
return 'x'
return true
return false
return nil
return
return {}
return {1,2,nil,4}
return {1,2,{3,4,{5}}}
return {ok='fine'}
return {err='bad'}
return {err='ERR bad'}
return {err='ERR a\r\nb'}
return {ok='a\r\nb'}
return {double=3.5}
return {double=3}
return {big_number='12345678901234567890'}
return {verbatim_string={string='hi',format='mkd'}}
return {map={a=1}}
return {set={a=true}}
return function() end
return coroutine.create(function() end)
return redis.status_reply('S')
return redis.error_reply('E')
return redis.error_reply('E two')
return redis.error_reply('-E two')
return redis.error_reply('-E')
return redis.error_reply()
return redis.error_reply(1)
return redis.status_reply()
return redis.error_reply({})
return redis.sha1hex('')
return redis.sha1hex('abc')
return redis.sha1hex(12)
return redis.sha1hex()
return redis.sha1hex(1,2)
return redis.log(redis.LOG_WARNING,'x')
return redis.log()
return redis.log('a','b')
return redis.log(10,'b')
return redis.log(3)
return redis.setresp(4)
return redis.setresp()
return redis.setresp(3,4)
return redis.set_repl(1)
return redis.set_repl(9)
return redis.set_repl()
return redis.replicate_commands()
return redis.REDIS_VERSION
return redis.REDIS_VERSION_NUM
return redis.breakpoint()
return redis.call()
return redis.pcall()
return redis.call('nothing')
return redis.pcall('nothing')
return redis.call('get')
return redis.pcall('get')
return redis.call('get',{})
return redis.pcall('get',nil)
return redis.call('get',true)
return redis.call('blpop','a',0)
return redis.call('eval','return 1',0)
return redis.call('multi')
return redis.call('auth','x')
return redis.call('subscribe','x')
return redis.call('client','id')
return redis.call('script','flush')
return redis.call('set','a',1)
return redis.call('set','a',0.1)
return redis.call('get','a')
return redis.call('set','a',12345678901234567)
return redis.call('get','a')
return redis.call('incr','a')
return type(redis.call('incr','a'))
return redis.call('lpush','a','b')
return redis.pcall('lpush','a','b')
local r=redis.pcall('lpush','a','b') return r.err
local r=redis.pcall('lpush','a','b') return redis.error_reply(r.err)
local ok,e=pcall(redis.call,'lpush','a','b') return e
local ok,e=pcall(redis.call,'lpush','a','b') return {tostring(ok),type(e),e}
local ok,e=pcall(error,{err='x',b=1}) return e
local ok,e=pcall(error,{b=1}) return type(e)
local ok,e=pcall(error,'x') return e
local ok,e=pcall(function() error('x') end) return e
local ok,e=pcall(function() error('x',2) end) return e
return {pcall(function(...) return ... end,1,2,3)}
return {xpcall(function() error('x') end, function(e) return 'h:'..e end)}
error('boom')
error({err='My Err'})
error({err='MYERR x'})
error()
error(nil)
error('boom',0)
local a=nil; return a.b
return unknown
return unknown()
x=10
function f() end
_G.x=1
rawset(_G,'x',1)
setmetatable(_G,{})
redis.call=1
redis.x=1
string.rep=1
cjson.encode=1
KEYS=1
KEYS[1]='x' return KEYS
return {KEYS,ARGV}
return type(_G)
return type(string)
return type(os)
return io
return print
return type(loadstring)
return loadstring('return 1+1')()
return {loadstring('return +')}
return {loadstring('\27Lua')}
return load(function() return nil end)
local t={'return ','7'} local i=0 return load(function() i=i+1 return t[i] end)()
return dofile
return require
return tostring(redis.call)~=nil
return string.format('%5.2f|%s|%d|%q',1.234,'a',7,'z"')
return ('x'):rep(3)
return ('abc'):upper():len()
return table.concat({1,2,3},',')
local t={3,1,2} table.sort(t) return t
local t={3,1,2} table.sort(t,function(a,b) return a>b end) return t
return {unpack({1,2,3})}
return select('#',1,2,3)
return tonumber('0x10')
return tonumber('10',2)
return math.floor(3.7)
return math.max(1,5,3)
math.randomseed(7) return {math.random(100),math.random(5,9),math.random(1000000)}
math.randomseed(7) return tostring(math.random())
return math.random(0)
return math.random(5,1)
return math.random(1,2,3)
return {math.huge,-math.huge}
return 0/0
return tostring(1e15)
return tostring(2^53)
return string.find('hello world','o w')
return {string.find('hello world','(o)( )(w)')}
return {string.find('hello','l+')}
return {string.match('key=value','(%w+)=(%w+)')}
return string.gsub('hello world','o','0')
return {string.gsub('hello world','(%w+)','<%1>')}
return {string.gsub('hello','l',{l='L'})}
return {string.gsub('hello','.',function(c) if c=='l' then return 'L' end end)}
return {string.gsub('abc','%w','%0%0',2)}
local r={} for w in string.gmatch('one two three','%a+') do r[#r+1]=w end return r
local r={} for k,v in string.gmatch('a=1, b=2','(%w+)=(%w+)') do r[#r+1]=k..v end return r
return {string.find('a.b','.',1,true)}
return {string.find('abc','b',-1)}
return {string.find('abc','()b()')}
return string.match('  trim  ','^%s*(.-)%s*$')
return string.match('[[x]]','%[%[(.-)%]%]')
return string.match('f(a(b)c)d','%b()')
return {string.gsub('THE (quick) fox','%f[%a]%a+','X')}
return string.find('a','[')
return string.find('a','%')
return string.match('a','(')
return string.match('a',')')
return string.gsub('a','a','%2')
return string.gsub('a','a','%')
return string.rep('x',-1)
return string.byte('A')
return {string.byte('ABC',1,-1)}
return string.char(72,105)
return string.reverse('abc')
return string.lower('ABC')
return string.sub('hello',2,-2)
return string.len('a\0b')
return 'a\0b'
return collectgarbage('count') > 0
return gcinfo() > 0
return type(newproxy)
return type(getfenv)
return type(debug)
local co=coroutine.wrap(function() coroutine.yield(1) return 2 end) return {co(),co()}
local co=coroutine.create(function() error('in co') end) return {coroutine.resume(co)}
return _VERSION
return redis.acl_check_cmd('get','x')
return redis.acl_check_cmd('nothing')
return redis.acl_check_cmd()
return redis.call('select',3)
return redis.call('select',99)
return redis.call('ping')
return redis.call('echo','hi')
return redis.call('time')[3]
return redis.call('publish','c','m')
return redis.call('info') ~= nil
return redis.call('hset','h','f','v')
return redis.call('hgetall','h')
redis.setresp(3) return redis.call('hgetall','h').map.f
redis.setresp(3) return redis.call('hgetall','h')
redis.setresp(3) return redis.call('get','nokey')
redis.setresp(3) return type(redis.call('get','nokey'))
redis.setresp(3) return true
redis.setresp(3) return false
redis.setresp(3) redis.call('sadd','s','m') return redis.call('smembers','s')
redis.setresp(3) redis.call('zadd','z',1.5,'m') return redis.call('zscore','z','m')
redis.setresp(3) return redis.call('zrange','z',0,-1,'withscores')
return redis.call('zscore','z','m')
return redis.call('zrange','z',0,-1,'withscores')
return redis.call('blmpop',0,1,'nolist','left')
return redis.call('mget','a','nokey')
return redis.call('exists','a')
return {redis.call('type','a'),redis.call('type','h').ok}
return redis.call('SET','a','1','bogus')
return -1
return redis
local t={} t[1]=1 t[3]=3 return t
local a={} a[1]=a return #a
syntax error here
return 'unterminated
if x
-- comment
return 1 -- trailing
#!lua flags=no-writes
return string.format
return tostring(nil)
return tostring(print)
for i=1,3 do redis.call('rpush','l',i) end return redis.call('lrange','l',0,-1)
return redis.pcall('lpop')
local t = setmetatable({},{__index=function() error('meta') end}) return t
return setmetatable({1,2},{__index=function() return 'x' end})
return getmetatable('').__name
return redis.call('object','help')[1]
return redis.call('spop','nokey')
return redis.call('setex','e',0,'x')
return redis.call('wait',1,1)
return redis.call('hello')
return redis.call('SHUTDOWN')
return redis.call('get','a\r\n')
return redis.call('no\r\nthing')
return string.rep('ab',3,4)
return string.find('abc','b',10)
return {string.find('','')}
return {string.find('abc','')}
return {string.find('a+b','+',1,true)}
return {string.match('2026-11-30','(%d+)-(%d+)-(%d+)')}
return {string.find('aXb','%u')}
return {string.gsub('abc','','-')}
return {string.gsub('hello world','%s+','')}
return {string.gsub('abc','^a','x')}
return {string.gsub('x^2','%^','**')}
return string.gsub('abc','b',true)
return string.gsub('abc','b',{b={}})
return string.gsub('abc','b','%9')
return {string.match('aaa','a-b')}
return {string.match('[[x]]','[^%[%]]+')}
return {string.match('a]b','[]]')}
return {string.match('a-b','[a%-]+')}
return {string.match('f(x)','%((.-)%)')}
return {string.match('abcabc','(abc)%1')}
return {string.match('x','%f[x]x')}
return string.match('x','%f')
return string.match('x','%1')
return string.match('x','(()')
return string.match('x','%bx')
return string.find(nil,'x')
return string.find('x')
return string.match({}, 'x')
return string.gsub('x','x')
return ('x'):gsub('x',1)
return {string.find('a\0b','b')}
return {string.find('a\0b','%z')}
return {string.gsub('a,b,,c',',',';')}
return string.gsub(123,2,'x')
local t={} for w in ('a b'):gmatch('%S') do t[#t+1]=w end return t
local t={} for p,c in ('ab'):gmatch('()(.)') do t[#t+1]=p..c end return t
local t={} for w in ('ab'):gmatch('') do t[#t+1]=#w end return t
return bit.tobit(0xffffffff)
return bit.tobit(2^32+5)
return bit.band(0xff,0x0f,7)
return bit.bor(1,2,4)
return bit.bxor(5,1)
return bit.bnot(0)
return bit.lshift(1,31)
return bit.rshift(-1,28)
return bit.arshift(-256,4)
return bit.rol(0x12345678,12)
return bit.ror(0x12345678,12)
return bit.bswap(0x12345678)
return {bit.tohex(255),bit.tohex(-1,4),bit.tohex(255,-4),bit.tohex(1,0)}
return bit.band()
return bit.band('x')
return bit.band('7',3)
return bit.lshift(1,33)
return cjson.encode({1,2,3})
return cjson.encode({})
return cjson.encode({a=1})
return cjson.encode({1,{2,{3}}})
return cjson.encode('a"b\\c/d\n\t\b\f\r\1\127')
return cjson.encode(1.5)
return cjson.encode(1e20)
return cjson.encode(0.1)
return cjson.encode(-0.0001)
return cjson.encode(12345678901234567890)
return cjson.encode(1/3)
return cjson.encode(true)
return cjson.encode(nil)
return cjson.encode(cjson.null)
return cjson.encode(0/0)
return cjson.encode(1/0)
return cjson.encode(print)
return cjson.encode(function() end)
return cjson.encode({[1]=1,[1000]=2})
return cjson.encode({[1]=1,[3]=2})
return cjson.encode({[true]=1})
return cjson.encode({['1']=1})
local a={} a[1]=a return cjson.encode(a)
return cjson.decode('[1,2,3]')
return cjson.decode('{"a":{"b":[1,"x",null,true]}}').a.b[2]
return cjson.decode('{"a":null}').a==cjson.null
return type(cjson.decode('null'))
return tostring(cjson.decode('1.5'))
return tostring(cjson.decode('-1e3'))
return tostring(cjson.decode('0.1')==0.1)
return cjson.decode('"a\\u0041\\n\\/\\u00e9\\ud83d\\ude00"')
return cjson.decode(' [ ] ')
return #cjson.decode('[[],[]]')
return cjson.decode('[1,2,3]')[3]
return cjson.encode(cjson.decode('{"a":[1,{"b":"c"}]}'))
return (pcall(cjson.decode,'{'))
return (pcall(cjson.decode,''))
return (pcall(cjson.decode,'[1,2'))
return (pcall(cjson.decode,'[1] x'))
return (pcall(cjson.decode,string.rep('[',1001)))
return #cjson.encode(cjson.decode(string.rep('[',1000)..string.rep(']',1000)))
return cmsgpack.pack({1,2,3})
return cmsgpack.pack({a=1})
return cmsgpack.pack(1,2,'x',true,false,nil)
return cmsgpack.pack(0,127,128,255,256,65535,65536,4294967295,4294967296,2^53)
return cmsgpack.pack(-1,-32,-33,-128,-129,-32768,-32769,-2147483648,-2147483649)
return cmsgpack.pack(0.1,0.5,1e300,-1.5)
return cmsgpack.pack(string.rep('x',31),string.rep('x',32))
return cmsgpack.pack(string.rep('x',256))
return cmsgpack.pack({})
return cmsgpack.pack({[1]=1,[3]=3})
return cmsgpack.pack({{},{{}}})
return cmsgpack.pack()
local a={} a[1]=a return cmsgpack.pack(a)
return {cmsgpack.unpack(cmsgpack.pack(1,'x',{1,2},true))}
return cmsgpack.unpack(cmsgpack.pack({a={b={1,2,'c'}}})).a.b
return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3))}
return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3),1)}
return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3),2)}
return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),2)}
return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),2,1)}
return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),0)}
return cmsgpack.unpack('\193')
return cmsgpack.unpack('\145')
return cmsgpack.unpack('')
return cmsgpack.unpack_one('x',9)
return cmsgpack.unpack_one('x',-1)
return cmsgpack.unpack({})
return tostring(cmsgpack.unpack(cmsgpack.pack(-1099511627776)))
return tostring(cmsgpack.unpack(cmsgpack.pack(0.1)))
return struct.pack('>I4',1)
return struct.pack('<I4',1)
return struct.pack('>i2hHbBlLT',-1,-2,3,-4,5,-6,7,8)
return struct.pack('>f',1.5)
return struct.pack('<d',1.5)
return struct.pack('s','abc')
return struct.pack('c2','abc')
return struct.pack('c0','abc')
return struct.pack('>Ic0',3,'abc')
return struct.pack('!4bI',1,2)
return struct.pack('b x b',1,2)
return struct.pack('c5','abc')
return struct.pack('z')
return struct.pack('!3b',1)
return struct.pack('I33',1)
return struct.pack('I',{})
return {struct.unpack('>I4',struct.pack('>I4',77))}
return {struct.unpack('<i2hHbB',struct.pack('<i2hHbB',-1,-2,3,-4,5))}
return {struct.unpack('>bIc0',struct.pack('>bIc0',1,3,'abc'))}
return {struct.unpack('ss',struct.pack('ss','ab','cd'))}
return {struct.unpack('I2',struct.pack('I2I2',7,8),3)}
return struct.unpack('I4','ab')
return struct.unpack('s','ab')
return struct.unpack('c0','ab')
return struct.unpack('I','abcd',0)
return {struct.size('>I4i2b'),struct.size('!8bd')}
return struct.size('s')
return struct.size('c0')
return {struct.unpack('',  'a', -1e300)}
return struct.unpack('b', 'a', -5)
return {struct.unpack('hc0', '\255\255abc')}
return struct.pack('>I2L', 1/0, 1/0)
return tostring(cmsgpack.unpack('\207\255\255\255\255\255\255\255\254'))
return cmsgpack.unpack('\129\192\001')
return cmsgpack.unpack_one('a', 9007199254740993)
return cmsgpack.unpack_one('a', 0/0)
return cmsgpack.unpack_limit('a', 1/0)
return {string.gsub('abc', '(', '<%0>')}
return {string.gsub('abc', '(%w', {a='x'})}
return string.gsub('abc', '(%w', '%1')
return {pcall(string.gsub, 'abc', 'b', '%3')}
return {pcall(string.find, 'abc', '[')}
local t={1,2,3} table.insert(t,1,'a') table.insert(t,3.9,'b') table.insert(t,'c') return t
local t={1,2,3} table.insert(t,9,'a') return {#t, t[9]}
local t={1,2,3} return {table.remove(t), table.remove(t,1), table.remove(t,7), #t}
local t={1,2,3} return {table.remove(t,0), table.remove(t,1/0), #t}
return select('#', table.insert({},1))
return select('#', table.remove({}))
local x = table.insert(nil,1)
local x = table.insert({},'x',1)
local x = table.insert({})
local x = table.remove(nil)
local x = table.sort({3,'a'})
local x = table.sort({}, 1)
local ok,e=pcall(table.sort,{3,'a'}) return e
local ok,e=pcall(table.sort,{3,{},{}}) return e
local x = cmsgpack.unpack(string.rep('\1', 8100))
local x = cmsgpack.unpack_limit(string.rep('\1', 9000), 9000)
local x = struct.unpack(string.rep('b', 8100), string.rep('a', 8100))
local t={} table.foreachi({4,5},function(i,v) t[#t+1]=i*v end) return t
local x = table.foreachi({},nil)
table.insert(_G,1)
table.insert(redis,1)
table.sort(string)
table.remove(string)
local x = table.insert()
local x = table.remove()
local x = string.rep('x')
local x = string.rep({},1)
local x = string.rep('x','y')
return {string.rep(12,2), ('x'):rep('3'), (''):rep(5)}
local x = collectgarbage('x')
local x = collectgarbage({})
return {collectgarbage(), collectgarbage('step')}
"####;

#[test]
fn values_and_errors_are_those_of_redis() {
    let Some(both) = Both::start(None) else { return };
    for protocol in [b"2", b"3"] {
        let mut pair = both.pair();
        for client in [&mut pair.ours, &mut pair.theirs] {
            client.call(&[b"HELLO", protocol]);
            client.call(&[b"FLUSHALL"]);
        }
        let different: Vec<String> = SCRIPTS
            .trim()
            .lines()
            .filter_map(|script| {
                let [ours, theirs] = pair.call(&[b"EVAL", script.as_bytes(), b"0"]);
                let shown = || format!("{script}\n{}\n{}", ours.shown(), theirs.shown());
                (ours != theirs).then(shown)
            })
            .collect();
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
