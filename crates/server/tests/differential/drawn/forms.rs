//! Forms of commands of all kinds.

/// The commands: words in small letters are themselves, and capitals stand for a kind of argument,
/// as `arguments.rs` has them. What stands in brackets may be left out, in whatever order; what has
/// a plus comes once or a few times.
pub const FORMS: &str = "\
get K
set K V [nx] [xx] [get] [keepttl] [ex S] [px M] [exat A] [pxat B]
set K V
set K I
setnx K V
setex K S V
psetex K M V
getset K V
getdel K
getex K [ex S] [px M] [exat A] [pxat B] [persist]
mget K+
mset PAIR+
msetnx PAIR+
append K V
strlen K
getrange K I I
getrange K O O
substr K O O
setrange K O V
incr K
decr K
incrby K I
decrby K I
incrbyfloat K F
setbit K BITS 1
setbit K BITS 0
setbit K O I
getbit K BITS
bitcount K
bitcount K O O
bitcount K BITS O [bit] [byte]
bitpos K 1
bitpos K 0 O
bitpos K 0 O O [bit] [byte]
bitpos K 1 O BITS [bit]
bitop and K K K
bitop or K K K
bitop xor K K+
bitop not K K
bitfield K get FIELD BITS
bitfield K set FIELD BITS I incrby FIELD BITS I
bitfield K overflow sat incrby FIELD BITS I [get u8 0]
bitfield K overflow fail incrby i64 0 I set i64 0 I
bitfield_ro K get FIELD BITS
lcs K K [len] [idx] [minmatchlen O] [withmatchlen]
del K+
unlink K+
exists K+
touch K+
type K
keys P
scan 0 [match P] [count O] [type T]
scan I [match P] [count I] [type T]
randomkey
dbsize
rename K K
renamenx K K
copy K K [replace] [db D]
move K D
swapdb D D
flushdb [async] [sync]
flushall [sync]
expire K S [nx] [xx] [gt] [lt]
pexpire K M [nx] [xx] [gt] [lt]
expireat K A [nx] [xx] [gt] [lt]
pexpireat K B [nx] [xx] [gt] [lt]
persist K
hset K FV+
hset K FV
hmset K FV+
hsetnx K N V
hget K N
hmget K N+
hdel K N+
hlen K
hexists K N
hstrlen K N
hgetall K
hkeys K
hvals K
hincrby K N I
hincrbyfloat K N F
hrandfield K
hrandfield K R
hrandfield K R withvalues
hscan K 0 [match P] [count O]
lpush K N+
rpush K N+
rpush K V+
lpushx K N+
rpushx K N+
lpop K
rpop K
lpop K O
rpop K O
llen K
lindex K O
lrange K O O
lrange K 0 -1
lpos K N [rank O] [count O] [maxlen O]
lset K O N
linsert K before N N
linsert K after N N
lrem K O N
ltrim K O O
lmove K K left right
lmove K K right left
lmove K K left left
rpoplpush K K
lmpop 2 K K left
lmpop 1 K right [count O]
blpop K+ WAIT
brpop K WAIT
blmove K K left right WAIT
brpoplpush K K WAIT
blmpop WAIT 2 K K right [count O]
sadd K N+
sort K [limit O O] [asc] [desc] [alpha] [get P] [get #]
sort K [by *] [desc] [store K]
sort K [desc] [alpha] [store K]
sort K [by PATTERN] [get PATTERN] [get #]
sort_ro K [alpha] [desc] [limit O O]
sadd K N+
srem K N+
scard K
sismember K N
smismember K N+
smembers K
smove K K N
spop K 1000
spop K 0
srandmember K
srandmember K R
sscan K 0 [match P] [count O]
sunion K+
sinter K+
sdiff K+
sunionstore K K+
sinterstore K K K
sdiffstore K K+
sintercard 2 K K [limit O]
zadd K WM+
zadd K WM+
zadd K E N E a E b E c
zadd K 0 a 0 b 0 c 0 aa 0 ab
zadd K [nx] [xx] [gt] [lt] [ch] WM+
zadd K [incr] [nx] [xx] [gt] [lt] [ch] W N
zincrby K W N
zrem K N+
zcard K
zscore K N
zmscore K N+
zrank K N
zrevrank K N
zrandmember K
zrandmember K R
zrandmember K R withscores
zscan K 0 [match P] [count O]
zrange K O O [withscores] [rev]
zrange K E E byscore [withscores] [rev] [limit O O]
zrange K L L bylex [rev] [limit O O]
zrange K O O [byscore] [bylex] [rev] [withscores] [limit O O]
zrevrange K O O [withscores]
zrangebyscore K E E [withscores] [limit O O]
zrevrangebyscore K E E [withscores] [limit O O]
zrangebylex K L L [limit O O]
zrevrangebylex K L L [limit O O]
zrangestore K K O O [rev]
zrangestore K K E E byscore [rev] [limit O O]
zrangestore K K L L bylex [rev] [limit O O]
zcount K E E
zlexcount K L L
zremrangebyrank K O O
zremrangebyscore K E E
zremrangebylex K L L
zpopmin K
zpopmin K O
zpopmax K
zpopmax K O
zmpop 1 K min [count O]
zmpop 2 K K max [count O]
zmpop O K K min [count O]
bzpopmin K+ WAIT
bzpopmax K WAIT
bzmpop WAIT 2 K K min [count O]
zunion 2 K K [weights W W] [aggregate min] [aggregate max] [withscores]
zunion 3 K K K [weights W W W] [aggregate sum] [withscores]
zunion O K+ [withscores]
zinter 2 K K [weights W W] [aggregate min] [aggregate max] [withscores]
zinter 3 K K K [weights W W W] [aggregate sum] [withscores]
zinter O K+ [withscores]
zdiff 2 K K [withscores]
zdiff 3 K K K [withscores]
zintercard 2 K K [limit O]
zintercard O K+ [limit O]
zunionstore K 2 K K [weights W W] [aggregate min] [aggregate max]
zunionstore K 3 K K K [weights W W W] [aggregate V]
zinterstore K 2 K K [weights W W] [aggregate min] [aggregate max]
zinterstore K O K+ [aggregate sum]
zdiffstore K 2 K K
zdiffstore K O K+
ttl K
pttl K
expiretime K
pexpiretime K
object encoding K
object refcount K
object idletime K
object freq K
object help
object V K
memory usage K [samples I]
memory usage K
memory help
memory V
ping
ping V
echo V
select D
hello [setname V] [auth V V]
hello 2
hello 3 [setname V]
hello I [setname V]
auth V
auth default V
auth V V
quit
reset
client id
client getname
client setname V
client list [type T] [id I]
client info
client no-evict on
client no-evict V
client reply V
client unblock I
client getredir
client setinfo lib-name V
client V V
acl whoami
acl users
acl help
acl dryrun default get K
acl genpass I
acl V [V]
command
command count
command info T
command list [filterby pattern P]
command list filterby T T
command docs get set
command getkeys ANY+
command getkeys set K V
command getkeys mset PAIR+
command help
command V
config get port maxclients
config get V
config set V V
config resetstat
config rewrite
config help
config V
info
info server
info V
time
lastsave
slowlog get
slowlog get I
slowlog get V V
slowlog help
slowlog len
slowlog reset
slowlog V
debug object K
debug V
wait 0 O
publish N V
spublish N V
pubsub channels [P]
pubsub numsub N+
pubsub numpat
pubsub shardchannels
pubsub shardnumsub N
pubsub help
subscribe
subscribe N+
unsubscribe N+
psubscribe
psubscribe P
punsubscribe P
ssubscribe
ssubscribe N+
sunsubscribe N+
wait -1 I
multi
exec
discard
watch K+
unwatch
eval SCRIPT 1 K V
eval_ro SCRIPT 1 K V
eval SCRIPT I K V
evalsha V 1 K
evalsha_ro V 0
script exists V
script flush [sync]
script load SCRIPT
script help
script V
fcall FUNCTION 1 K V
fcall FUNCTION I K V
fcall_ro FUNCTION 1 K V
function load [replace] LIBRARY
function load LIBRARY V
function delete FUNCTION
function list libraryname FUNCTION [withcode]
function flush [sync]
function stats
function help
function V V
V V V
";

/// Forms that are drawn more often, since what they do needs several commands.
pub const OFTEN: &str = "\
multi
exec
multi
exec
discard
watch K+
set K V [nx] [xx] [get] [keepttl] [ex S] [px M] [exat A] [pxat B]
set K V
set K I
incrbyfloat K F
get K
select D
";
