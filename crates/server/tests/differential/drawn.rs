//! Commands that are drawn from a seed.

mod places;
mod streams;

use fastrand::Rng;

use crate::wire::array;

/// The commands: words in small letters are themselves, and capitals stand for a kind of argument
/// ([`argument`]). What stands in brackets may be left out, in whatever order; what has a plus
/// comes once or a few times.
const FORMS: &str = "\
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
bitfield K overflow fail incrby FIELD BITS I set FIELD BITS I
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
unsubscribe
psubscribe
punsubscribe
ssubscribe
sunsubscribe
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
V V V
";

/// Forms that are drawn more often, since what they do needs several commands.
const OFTEN: &str = "\
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

/// Forms of commands, of which some are drawn more often.
#[derive(Clone, Copy)]
pub struct Forms {
    all: &'static [&'static str],
    often: &'static str,
}

impl Forms {
    /// Of commands of all kinds.
    pub const ANY: Self = Self { all: &[FORMS, places::FORMS], often: OFTEN };
    /// Of streams.
    pub const STREAMS: Self = Self { all: &[streams::FORMS], often: streams::OFTEN };
}

/// A command of a pipeline.
#[derive(Clone, Debug)]
pub enum Call {
    /// Arguments, each with its length.
    Array(Vec<Vec<u8>>),
    /// A line of words.
    Line(Vec<Vec<u8>>),
    /// Bytes that are no command: the connection ends.
    Noise(&'static [u8]),
}

impl Call {
    /// The bytes that are sent.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Array(args) => array(args),
            Self::Line(words) => {
                let quoted = |word: &Vec<u8>| {
                    let hex: String = word.iter().map(|byte| format!("\\x{byte:02x}")).collect();
                    format!("\"{hex}\"")
                };
                let words: Vec<_> = words.iter().map(quoted).collect();
                format!("{}\r\n", words.join(" ")).into_bytes()
            }
            Self::Noise(bytes) => bytes.to_vec(),
        }
    }

    /// The arguments; none of noise.
    pub fn args(&self) -> &[Vec<u8>] {
        match self {
            Self::Array(args) | Self::Line(args) => args,
            Self::Noise(_) => &[],
        }
    }

    /// One line for people.
    pub fn shown(&self) -> String {
        match self {
            Self::Noise(bytes) => format!("noise \"{}\"", bytes.escape_ascii()),
            _ => {
                let args = self.args().iter();
                let args: Vec<_> =
                    args.map(|argument| format!("\"{}\"", argument.escape_ascii())).collect();
                args.join(" ")
            }
        }
    }
}

/// Commands that one client sends at once.
#[derive(Clone, Debug)]
pub struct Step {
    /// The number of the client.
    pub client: usize,
    /// The commands.
    pub calls: Vec<Call>,
    /// Where the bytes are cut.
    pub cuts: Vec<usize>,
    /// Whether time passes behind it, in which short lives end.
    pub is_short: bool,
}

/// Names of all commands that are drawn.
pub fn names() -> impl Iterator<Item = &'static str> {
    let all = [Forms::ANY, Forms::STREAMS].into_iter().flat_map(|forms| forms.all);
    all.flat_map(|forms| forms.lines()).filter_map(|form| form.split(' ').next())
}

/// The steps of a round, for this number of clients.
pub fn steps(rng: &mut Rng, clients: usize, forms: Forms) -> Vec<Step> {
    (0..rng.usize(1..60)).map(|_| step(rng, clients, forms)).collect()
}

fn step(rng: &mut Rng, clients: usize, forms: Forms) -> Step {
    let client = rng.usize(..clients);
    if rng.u8(..40) == 0 {
        // In a transaction it would run later, beside others.
        let calls = vec![Call::Array(vec![b"discard".into()]), Call::Array(short(rng))];
        return Step { client, calls, cuts: Vec::new(), is_short: true };
    }
    let count = match rng.u8(..10) {
        0..5 => 1,
        5..9 => rng.usize(2..10),
        _ => rng.usize(10..=50),
    };
    let mut calls: Vec<_> = (0..count).map(|_| call(rng, forms)).collect();
    if rng.u8(..60) == 0 {
        let noise: [&[u8]; 7] = [
            b"*1\r\nfoo\r\n",
            b"*x\r\n",
            b"*2147483648\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n$67108865\r\n",
            b"get \"a\r\n",
            b"get 'a'b\r\n",
        ];
        calls.push(Call::Noise(one_of(rng, &noise)));
    }
    let len: usize = calls.iter().map(|call| call.bytes().len()).sum();
    let cuts = if rng.bool() { 0 } else { rng.usize(1..5) };
    let mut cuts: Vec<_> = (0..cuts).map(|_| rng.usize(..=len)).collect();
    cuts.sort_unstable();
    Step { client, calls, cuts, is_short: false }
}

/// A write of a life that ends before the next step.
fn short(rng: &mut Rng) -> Vec<Vec<u8>> {
    let forms = ["set K V px 5", "pexpire K 5", "psetex K 5 V", "getex K px 5", "set K V exat 1"];
    let form = one_of(rng, &forms);
    words(rng, form)
}

fn call(rng: &mut Rng, of: Forms) -> Call {
    let is_often = rng.u8(..5) == 0;
    let forms: Vec<_> = match is_often {
        true => of.often.lines().collect(),
        false => of.all.iter().flat_map(|forms| forms.lines()).collect(),
    };
    let form = one_of(rng, &forms);
    let is_seldom = matches!(form, "quit" | "reset" | "command" | "flushall [sync]")
        || streams::SELDOM.contains(&form);
    if is_seldom && rng.u8(..8) > 0 {
        return call(rng, of);
    }
    let mut args = words(rng, form);
    // Wrong ones could wait for ever, take what another server does not, or be endless.
    let is_left = |word: &[u8]| {
        let begins: [&[u8]; 4] = [b"bl", b"br", b"bz", b"xread"];
        let blocks = begins.iter().any(|begin| word.starts_with(begin));
        blocks
            || [&b"wait"[..], b"spop"].contains(&word)
            || word.ends_with(b"randmember")
            || word == b"hrandfield"
    };
    if rng.u8(..12) == 0 && !is_left(&args[0].to_ascii_lowercase()) {
        spoil(rng, &mut args);
    }
    if is_short(&args) {
        return call(rng, of);
    }
    match rng.u8(..12) {
        0 if !args[0].is_empty() => Call::Line(args),
        _ => Call::Array(args),
    }
}

/// Whether a life is so short that it may end in one server before the other reads.
fn is_short(args: &[Vec<u8>]) -> bool {
    let small = |argument: &Vec<u8>| argument.to_ascii_lowercase();
    let number = |at: usize| str::from_utf8(args.get(at)?).ok()?.parse::<i64>().ok();
    let begins = |at: usize| match &*small(&args[at]) {
        b"px" | b"ex" => number(at + 1),
        b"pexpire" | b"expire" | b"psetex" | b"setex" | b"restore" if at == 0 => number(2),
        _ => None,
    };
    (0..args.len()).filter_map(begins).any(|life| (1..1000).contains(&life))
}

/// Makes a command a wrong one, likely.
fn spoil(rng: &mut Rng, args: &mut Vec<Vec<u8>>) {
    let at = rng.usize(..args.len());
    let kind = one_of(rng, &["V", "K", "I", "F", "D", "S", "ANY", "T"]);
    let other = argument(rng, kind);
    match rng.u8(..5) {
        0 if args.len() > 1 => _ = args.pop(),
        1 if args.len() > 1 => _ = args.remove(at.max(1)),
        2 => args.push(other),
        3 => args.insert(at.max(1), other),
        _ if at > 0 => args[at] = other,
        _ => args.push(args[at].clone()),
    }
}

/// The arguments of a form.
fn words(rng: &mut Rng, form: &str) -> Vec<Vec<u8>> {
    let (must, may) = form.split_once(" [").unwrap_or((form, ""));
    let mut options: Vec<&str> = may.split([']', '[']).filter(|it| !it.trim().is_empty()).collect();
    rng.shuffle(&mut options);
    let chosen = if rng.u8(..4) == 0 { 3 } else { rng.usize(..3) };
    let parts = std::iter::once(must).chain(options.into_iter().take(chosen));
    let mut args = Vec::new();
    for word in parts.flat_map(|part| part.split(' ')) {
        let times = if word.ends_with('+') { rng.usize(1..4) } else { 1 };
        for _ in 0..times {
            match word.trim_end_matches('+') {
                "PAIR" => args.extend([argument(rng, "K"), argument(rng, "V")]),
                "WM" => args.extend([argument(rng, "W"), argument(rng, "N")]),
                "PLACE" => {
                    args.extend(["LON", "LAT", "N"].map(|kind| argument(rng, kind)));
                }
                ":FIELD" => args.extend([argument(rng, "N"), argument(rng, "N")]),
                "FV" => args.extend([argument(rng, "N"), argument(rng, "V")]),
                kind => args.push(argument(rng, kind)),
            }
        }
    }
    args
}

fn one_of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())]
}

fn text(rng: &mut Rng, all: &[&[u8]]) -> Vec<u8> {
    one_of(rng, all).to_vec()
}

/// Scores, of which many are equal.
const SCORES: &[&[u8]] = &[
    b"0", b"-0", b"0", b"1", b"1", b"2", b"3", b"-1", b"1.5", b"0.1", b"-2.5", b"inf", b"-inf",
    b"+inf", b"1e300", b"0x1p-3",
];

/// Scripts of one write, since one that fails behind a write takes that back, and with Redis not.
const SCRIPTS: &[&[u8]] = &[
    b"return redis.call('set', KEYS[1], ARGV[1])",
    b"return redis.pcall('incr', KEYS[1])",
    b"return redis.call('lpush', KEYS[1], ARGV[1], 2, 1.5)",
    b"return {redis.pcall('lrange', KEYS[1], 0, -1), redis.call('exists', KEYS[1]), 3.7}",
    b"return redis.call('type', KEYS[1])",
    b"local it = redis.pcall('get', KEYS[1]) return it and it.err or it",
    b"return {pcall(redis.call, 'zadd', KEYS[1], 1, ARGV[1])}",
    b"return redis.call('del', KEYS[1], ARGV[1])",
    b"redis.setresp(3) return redis.pcall('hgetall', 'nothing')",
    b"return #ARGV + #KEYS",
    b"error('no' .. #ARGV)",
    b"return ARGV[",
];

/// Types of fields of bits.
const BIT_FIELDS: &[&[u8]] =
    &[b"u1", b"u8", b"i8", b"i5", b"u63", b"i64", b"i1", b"u17", b"i33", b"u64", b"i0", b"x"];

/// An argument of a kind, or the word itself in letters of either case.
fn argument(rng: &mut Rng, kind: &str) -> Vec<u8> {
    let wrong = rng.u8(..12) == 0;
    match kind {
        "I" if rng.bool() => rng.i32(-20..20).to_string().into(),
        "I" => integer(rng),
        "S" | "M" | "A" | "B" if wrong => integer(rng),
        // Lives of different lengths, so that the clocks of both compare two of them alike.
        "S" => rng.u32(1000..1_000_000_000).to_string().into(),
        "M" => rng.u64(1_000_000..1_000_000_000_000).to_string().into(),
        "A" => rng.u64(4_000_000_000..5_000_000_000).to_string().into(),
        "B" => rng.u64(4_000_000_000_000..5_000_000_000_000).to_string().into(),
        "O" if wrong => integer(rng),
        "O" => rng.i32(-12..12).to_string().into(),
        "WAIT" if wrong => text(rng, &[b"-1", b"x", b"", b"9223372036854775807"]),
        "WAIT" => text(rng, &[b"0.001", b"0.01", b"1e-2", b"0x.01"]),
        // A large negative number would be a reply without an end.
        "BITS" if rng.u8(..20) == 0 => integer(rng),
        "BITS" if rng.u8(..8) == 0 => format!("#{}", rng.u8(..9)).into(),
        "BITS" => rng.u8(..70).to_string().into(),
        "FIELD" => text(rng, BIT_FIELDS),
        "PATTERN" => text(rng, &[b"*", b"a*", b"key:*", b"*->a", b"a*->b", b"x*->"]),
        "R" if wrong => text(rng, &[b"9223372036854775807", b"-9223372036854775808", b"x", b""]),
        "R" => rng.i32(-12..12).to_string().into(),
        "D" if wrong => integer(rng),
        "D" => text(rng, &[b"0", b"0", b"1", b"15", b"16", b"-1"]),
        "F" => float(rng),
        "K" => text(rng, &[b"a", b"b", b"c", b"ab", b"key:1", b"key:2", b"", b"\xff\0\r\n"]),
        "N" => text(rng, &[b"a", b"b", b"c", b"1", b"-2", b"3.5", b"", b"\xff\0\r\n"]),
        "P" => text(
            rng,
            &[
                b"*", b"a*", b"key:?", b"[a-c]", b"[^a]*", b"", b"\\a", b"*b", b"k*:[12]", b"[c-a",
                b"\xff*",
            ],
        ),
        "T" => text(
            rng,
            &[b"string", b"STRING", b"hash", b"normal", b"get", b"none", b"list", b"set", b"zset"],
        ),
        "W" if wrong => float(rng),
        "W" => text(rng, SCORES),
        "E" if rng.u8(..4) == 0 => [b"(".to_vec(), argument(rng, "W")].concat(),
        "E" => argument(rng, "W"),
        "L" if wrong => value(rng),
        "L" => text(
            rng,
            &[
                b"-", b"-", b"+", b"+", b"[a", b"(a", b"[b", b"(b", b"[ab", b"(aa", b"[c", b"[",
                b"(",
            ],
        ),
        "V" => value(rng),
        "SCRIPT" => text(rng, SCRIPTS),
        "LON" | "LAT" | "SIZE" | "UNIT" | "DUMP" => text(rng, places::arguments(kind)),
        _ if let Some(kind) = kind.strip_prefix(':') => streams::argument(rng, kind),
        "ANY" => {
            let kind = one_of(rng, &["K", "V", "I", "F", "T", "P"]);
            argument(rng, kind)
        }
        word => {
            let upper = rng.bool();
            let word = if upper { word.to_ascii_uppercase() } else { word.to_owned() };
            word.into_bytes()
        }
    }
}

fn integer(rng: &mut Rng) -> Vec<u8> {
    let edges: [&[u8]; 20] = [
        b"0",
        b"1",
        b"-1",
        b"10",
        b"",
        b"x",
        b" 1",
        b"1 ",
        b"01",
        b"+1",
        b"-0",
        b"1.0",
        b"9223372036854775807",
        b"-9223372036854775808",
        b"9223372036854775808",
        b"-9223372036854775809",
        b"9223372036854776",
        b"-9223372036854776",
        b"18446744073709551615",
        b"2147483648",
    ];
    text(rng, &edges)
}

fn float(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..8) {
        0 => rng.i32(-1000..1000).to_string().into(),
        1 => format!("{}", f64::from(rng.i32(-100_000..100_000)) / 1000.0).into(),
        2 => format!("{:e}", rng.f64() * 10_f64.powi(rng.i32(-20..20))).into(),
        3 => format!("{}.{}", rng.i64(..), rng.u64(..)).into(),
        4 => format!("{}e{}", rng.i32(-99..99), rng.i32(-25..25)).into(),
        5 => integer(rng),
        _ => text(
            rng,
            &[
                b"1.5",
                b"-0.1",
                b"0.1",
                b"3.0e3",
                b"1e400",
                b"1e5000",
                b"inf",
                b"-inf",
                b"nan",
                b"0x10",
                b"0x1.8p1",
                b".5",
                b"5.",
                b".",
                b"1e",
                b"1e+2",
                b"+1.5",
                b"--1",
                b"1e-30",
                b"infinity",
                b"1e-5000",
                b"1.5x",
                b"1\0",
                b" 1.5",
                b"1.5 ",
                b"-0.0",
                b"1e17",
                b"1e18",
                b"3.0",
            ],
        ),
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..3 => rng.i32(-100..100).to_string().into(),
        3 => integer(rng),
        4 => float(rng),
        5 => (0..rng.usize(..20)).map(|_| rng.u8(..)).collect(),
        6 => (0..rng.usize(..200)).map(|_| rng.u8(b'a'..b'd')).collect(),
        7 => vec![rng.u8(..); rng.usize(..3000)],
        _ => text(rng, &[b"", b"a", b"ohmytext", b"mynewtext", b"GET", b"nx", b"ex", b"help"]),
    }
}
