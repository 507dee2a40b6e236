//! Messages: scripts of several clients, and what is told of keys.

use std::time::Duration;

use crate::Both;
use crate::scripts::assert_alike;
use crate::wire::{Client, Ours, Value, array};

const SCRIPTS: &str = r#"1 SUBSCRIBE a b
1
2 PUBLISH a hello
1
2 PUBLISH other x
1 GET key
1 PING
1 PING text
1 PING text more
2 PUBSUB CHANNELS b
2 PUBSUB CHANNELS a*
2 PUBSUB NUMSUB a c
2 PUBSUB NUMSUB
2 PUBSUB NUMPAT
1 UNSUBSCRIBE a
1 UNSUBSCRIBE
1 GET key
1 UNSUBSCRIBE
1 PUNSUBSCRIBE x

1 PSUBSCRIBE n* *z
1
1 SUBSCRIBE news
2 PUBLISH news y
1
1
2 PUBLISH none y
1
2 PUBSUB NUMPAT
1 PUNSUBSCRIBE n*
2 PUBLISH none z

1 HELLO 3
1 SUBSCRIBE a
1 PUBLISH a self
1
1 GET key
2 PUBLISH a m
1
1 PING
1 UNSUBSCRIBE b
1 UNSUBSCRIBE

1 MULTI
1 SUBSCRIBE a
1 PING
1 EXEC
2 PUBLISH a m
1

1 MULTI
1 SSUBSCRIBE s
1 EXEC
2 SPUBLISH s m

1 MULTI
2 SUBSCRIBE a
1 PUBLISH a one
1 SET key value
1 PUBLISH a two
1 EXEC
2
2

1 SSUBSCRIBE s
1 SUBSCRIBE s
2 SPUBLISH s m
1
2 PUBLISH s m
1
2 PUBSUB SHARDCHANNELS
2 PUBSUB SHARDNUMSUB s t
1 SUNSUBSCRIBE
1 UNSUBSCRIBE

1 SUBSCRIBE a
1 RESET
2 PUBLISH a m
1 GET key

1 SUBSCRIBE a
1 SUBSCRIBE a
2 PUBLISH a once
1
1 SUBSCRIBE b
1 PSUBSCRIBE a
2 PUBLISH a twice
1
1

1 PSUBSCRIBE *
1 PSUBSCRIBE ""
1 SUBSCRIBE ""
2 PUBSUB CHANNELS
2 PUBSUB CHANNELS *
2 PUBSUB CHANNELS ""
1 UNSUBSCRIBE
2 PUBLISH "" m
1

1 HELLO 3
1 SUBSCRIBE a
1> BLPOP list 0
2 PUBLISH a m
1
2 RPUSH list x
1
"#;

#[test]
fn messages_are_alike() {
    let Some(both) = Both::start(None) else { return };
    assert_alike(&both, SCRIPTS);
    for wrong in [
        "SUBSCRIBE",
        "PUBLISH a",
        "PUBSUB",
        "PUBSUB x",
        "PUBSUB NUMPAT x",
        "PUBSUB CHANNELS a b",
        "PUBSUB HELP",
        "CLIENT LIST TYPE pubsub",
    ] {
        assert_alike(&both, &format!("1 {wrong}"));
    }
}

/// A write that may be committed with others has its reply behind what was published before.
#[test]
fn messages_come_before_the_replies_of_what_is_sent_behind_them() {
    let ours = Ours::start(None);
    let [mut publisher, mut subscriber] = [(); 2].map(|()| ours.client());
    subscriber.call(&[b"HELLO", b"3"]);
    subscriber.call(&[b"SUBSCRIBE", b"news"]);
    for _ in 0..50 {
        publisher.call(&[b"PUBLISH", b"news", b"text"]);
        assert!(subscriber.call(&[b"SET", b"key", b"value"]).is_message());
        assert_eq!(subscriber.receive().unwrap().shown(), "+OK");
    }
}

/// Commands that change keys, or do not.
const CHANGES: &str = "\
SET a 1
SET a 1 EX 1000
SET a 1 NX
SET a 2 KEEPTTL GET
SETNX b 1
SETEX c 1000 v
PSETEX c 1000000 v
GETSET c w
MSET a 1 b 2
MSETNX d 1 e 2
MSETNX d 1 f 2
APPEND a x
SETRANGE a 1 y
SET n 5
INCR n
DECRBY n 2
INCRBYFLOAT n 1.5
GETEX n EX 100
GETEX n PERSIST
GETEX n PERSIST
GETDEL n
GETDEL n
EXPIRE a 1000
PERSIST a
PERSIST a
EXPIRE a -1
EXPIRE a 1000
DEL b c nothing
UNLINK d
RENAME e f
RENAMENX f g
COPY g h
MOVE h 1
HSET hash a 1 b 2
HMSET hash a 2
HSETNX hash c 3
HSETNX hash c 3
HINCRBY hash a 1
HINCRBYFLOAT hash a 1.5
HDEL hash a x
HDEL hash x
HDEL hash b c
LPUSH l a b
RPUSH l c
LPUSHX l d
RPUSHX none d
LSET l 0 e
LINSERT l BEFORE a f
LINSERT l BEFORE x f
LREM l 0 f
LREM l 0 x
LTRIM l 0 3
LPOP l
RPOP l 1
LMOVE l l LEFT RIGHT
LMOVE l m LEFT RIGHT
RPOPLPUSH l m
RPOPLPUSH m m
LPOP m 0
LMPOP 1 m LEFT COUNT 10
LTRIM l 5 1
SADD s a b c
SADD s a
SREM s x
SREM s a
SMOVE s t b
SMOVE s t b
SPOP t
SADD t c d
SINTERSTORE u s t
SINTERSTORE u s none
SUNIONSTORE u s t
SDIFFSTORE u none s
SPOP s 10
RPUSH l 3 1
SORT l STORE m
SORT none STORE m
SORT none STORE none
ZADD z 1 x 2 y 3 z
ZADD z 1 x
ZADD z XX CH 2 x 5 none
ZADD z INCR 1 x
ZADD z NX INCR 1 x
ZINCRBY z 0 x
ZINCRBY z 1 new
ZREM z none
ZREM z new
ZRANGESTORE w z 0 -1
ZRANGESTORE w z 9 9
ZUNIONSTORE w 2 z none
ZINTERSTORE w 1 z WEIGHTS 2
ZDIFFSTORE v 1 z
ZDIFFSTORE v 2 z w
ZINTERSTORE nothing 2 z none
ZREMRANGEBYRANK w 0 0
ZREMRANGEBYRANK w 9 9
ZREMRANGEBYSCORE w 99 inf
ZREMRANGEBYSCORE w -inf inf
ZUNIONSTORE w 1 z
ZREMRANGEBYLEX w - +
ZPOPMIN z 0
ZPOPMIN z
ZMPOP 2 none z MAX
BZPOPMAX z 0
ZADD z 1 x 2 y
ZREM z x y
XADD x 1 a b
XADD x MAXLEN 1 2 a b
XADD x MAXLEN 1 NOMKSTREAM 3 a b
XADD x 3 a b
XADD x 4 a b
XADD x MAXLEN ~ 0 5 a b
XADD x 6 a b
XADD x 7 a b
XADD none NOMKSTREAM 7 a b
XTRIM x MAXLEN 5
XTRIM x MAXLEN 1
XSETID x 9
XDEL x 99
XDEL x 7
XADD x 10 a b
XADD x 11 a b
XGROUP CREATE x g 0
XGROUP CREATE x g 0
XGROUP CREATE y g 0 MKSTREAM
XGROUP SETID x g 0
XGROUP CREATECONSUMER x g one
XGROUP CREATECONSUMER x g one
XREADGROUP GROUP g one COUNT 1 STREAMS x >
XREADGROUP GROUP g two STREAMS x >
XREADGROUP GROUP g two STREAMS x >
XREADGROUP GROUP g three STREAMS x 0
XREAD STREAMS x 0
XCLAIM x g four 0 10
XCLAIM x g five 0 99
XAUTOCLAIM x g six 0 0
XACK x g 10
XGROUP DELCONSUMER x g one
XGROUP DELCONSUMER x g none
XGROUP DESTROY x g
XGROUP DESTROY x g
DEL x y
FLUSHDB
";

/// The messages that a client gets up to the one that says that there are no more.
fn events(client: &mut Client) -> Vec<String> {
    let replies = std::iter::from_fn(|| client.receive()).map(|it: Value| it.shown());
    replies.take_while(|message| !message.contains("\"end\"")).collect()
}

#[test]
fn changes_of_keys_are_told_alike() {
    let Some(both) = Both::start(None) else { return };
    let [mut listening, mut writing] = [both.pair(), both.pair()];
    for classes in ["KEA", "Kg$", "El", "Kz", "Et", "En", "KEAn", ""] {
        writing.call(&[b"CONFIG", b"SET", b"notify-keyspace-events", classes.as_bytes()]);
        writing.call(&[b"FLUSHALL"]);
        listening.call(&[b"PSUBSCRIBE", b"*"]);
        for line in CHANGES.lines() {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            writing.call(&words);
            writing.call(&[b"PUBLISH", b"end", b"end"]);
            let [ours, theirs] = [&mut listening.ours, &mut listening.theirs].map(events);
            assert_eq!(ours, theirs, "{classes}: {line}");
        }
        listening.call(&[b"PUNSUBSCRIBE"]);
        let values = writing.call(&[b"CONFIG", b"GET", b"notify-keyspace-events"]);
        assert_eq!(values[0], values[1]);
    }
}

/// A subscriber that a transaction tells of a key finds what that has.
#[test]
fn a_transaction_publishes_behind_its_commit() {
    let ours = Ours::start(None);
    let [mut writer, mut reader, mut subscriber] = [(); 3].map(|()| ours.client());
    subscriber.call(&[b"SUBSCRIBE", b"news"]);
    let slow = "local t = redis.call('time') repeat local u = redis.call('time') \
                until (u[1] - t[1]) * 1000000 + u[2] - t[2] > 300000";
    let calls: [&[&[u8]]; 6] = [
        &[b"MULTI"],
        &[b"SET", b"key", b"value"],
        &[b"PUBLISH", b"news", b"key"],
        &[b"EVAL", b"return redis.call('publish', 'news', 'more')", b"0"],
        &[b"EVAL", slow.as_bytes(), b"0"],
        &[b"EXEC"],
    ];
    calls.iter().for_each(|call| writer.send(&array(call), &[]));
    let mut told = || subscriber.receive().unwrap().items().unwrap()[2].bulk().unwrap().to_vec();
    assert_eq!(told(), b"key");
    assert_eq!(reader.call(&[b"GET", b"key"]).bulk(), Some(&b"value"[..]));
    assert_eq!(told(), b"more");
}

/// Commands about keys that end soon, or would have: what is told of their ends is told alike.
const ENDING: &str = "\
SET k v PX 2000
RPUSH l a
PEXPIRE l 2000
SET gone v PX 2000
DEL gone
SET stays v PX 2000
PERSIST stays
SET longer v PX 2000
PEXPIRE longer 100000
SET plain v PX 2000
SET plain v
SET old v PX 2000
RENAME old new
SET source v PX 2000
COPY source copy
SET here v PX 2000
MOVE here 1
";

/// The keys whose ends were told, in the order of their names: which ends first is chance.
fn ended(client: &mut Client) -> Vec<String> {
    let mut told = events(client);
    told.retain(|message| message.contains(":expired"));
    told.sort_unstable();
    told
}

#[test]
fn ends_of_keys_are_told_alike_and_once() {
    let Some(both) = Both::start(None) else { return };
    let [mut listening, mut writing] = [both.pair(), both.pair()];
    let mut call = |line: &str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        writing.call(&words)
    };
    // One that was there before.
    call("SET before v PX 2000");
    call("CONFIG SET notify-keyspace-events Ex");
    listening.call(&[b"PSUBSCRIBE", b"*"]);
    for line in ENDING.lines() {
        call(line);
    }
    for millis in [3500, 200] {
        std::thread::sleep(Duration::from_millis(millis));
        call("PUBLISH end end");
        let [ours, theirs] = [&mut listening.ours, &mut listening.theirs].map(ended);
        assert_eq!(ours, theirs);
    }
    // What is told of a key that is written behind its end comes first.
    call("CONFIG SET notify-keyspace-events E$x");
    call("SET k v PX 5");
    std::thread::sleep(Duration::from_millis(10));
    call("SET k v");
    call("PUBLISH end end");
    let [ours, theirs] = [&mut listening.ours, &mut listening.theirs].map(events);
    assert_eq!(ours, theirs);
    assert!(ours[1].contains(":expired"), "{ours:?}");
    // Nothing is left of those that were gone when it was told of no more.
    call("SET k v PX 2000");
    call("CONFIG SET notify-keyspace-events E$");
    call("DEL k");
    call("CONFIG SET notify-keyspace-events E$x");
    std::thread::sleep(Duration::from_millis(2500));
    call("PUBLISH end end");
    let [ours, theirs] = [&mut listening.ours, &mut listening.theirs].map(events);
    assert_eq!(ours, theirs);
}
