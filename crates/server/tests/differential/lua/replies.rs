//! What scripts call and answer.

/// Scripts, a line each.
pub const SCRIPTS: &str = r####"
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
local a=nil; return a.b
redis.call=1
redis.x=1
return tostring(redis.call)~=nil
return 0/0
return 'a\0b'
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
for i=1,3 do redis.call('rpush','l',i) end return redis.call('lrange','l',0,-1)
return redis.pcall('lpop')
return redis.call('object','help')[1]
return redis.call('spop','nokey')
return redis.call('setex','e',0,'x')
return redis.call('wait',1,1)
return redis.call('hello')
return redis.call('SHUTDOWN')
return redis.call('get','a\r\n')
return redis.call('no\r\nthing')
"####;
