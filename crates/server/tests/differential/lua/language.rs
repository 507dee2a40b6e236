//! Lua itself, with its own libraries.

/// Scripts, a line each.
pub const SCRIPTS: &str = r####"
return function() end
return coroutine.create(function() end)
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
return unknown
return unknown()
x=10
function f() end
_G.x=1
rawset(_G,'x',1)
setmetatable(_G,{})
string.rep=1
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
return collectgarbage('count') > 0
return gcinfo() > 0
return type(newproxy)
return type(getfenv)
return type(debug)
local co=coroutine.wrap(function() coroutine.yield(1) return 2 end) return {co(),co()}
local co=coroutine.create(function() error('in co') end) return {coroutine.resume(co)}
return _VERSION
syntax error here
return 'unterminated
if x
-- comment
return 1 -- trailing
#!lua flags=no-writes
return string.format
return tostring(nil)
return tostring(print)
local t = setmetatable({},{__index=function() error('meta') end}) return t
return setmetatable({1,2},{__index=function() return 'x' end})
return getmetatable('').__name
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
