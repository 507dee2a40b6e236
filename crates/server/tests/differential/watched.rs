//! What commands do to keys that a client watches: a transaction fails where it fails in Redis.

use crate::Both;
use crate::fixed::assert_alike;
use crate::wire::Ours;

/// Keys that are there, and are watched.
const KEPT: &str = r#"
SET s abc
SET n 5
SET t abc EX 100
RPUSH l a b c a
SADD st a b c
SADD st2 a
HSET h f 1 g 2
ZADD z 1 a 2 b 3 c
SET e ""
WATCH s n t l st st2 h z e new new2
"#;

const COMMANDS: &str = r#"
SETBIT s 0 0
SETBIT s 1 1
SETBIT s 0 1
SETBIT s 100 0
SETBIT e 0 0
SETBIT new 0 0
BITFIELD s SET u8 0 97
BITFIELD s SET u8 0 98
BITFIELD s SET u8 50 0
BITFIELD s INCRBY u8 0 0
BITFIELD s OVERFLOW FAIL INCRBY u8 0 255
BITFIELD new SET u8 0 0
BITFIELD s GET u8 0
APPEND s ""
APPEND new ""
APPEND s x
SETRANGE s 0 ""
SETRANGE s 0 a
SETRANGE new 0 ""
SETRANGE new 3 ""
SET s abc
SET s abc NX
SET s abc XX
SETNX s abc
MSETNX s 1 new 2
GETEX s
GETEX s PERSIST
GETEX t PERSIST
GETEX s EX 100
GETEX t EX 100
GETDEL s
INCRBY n 0
INCRBYFLOAT n 0
DECRBY n 0
LREM l 0 x
LREM l 0 a
LSET l 0 a
LTRIM l 0 -1
LINSERT l before x y
LINSERT l before b y
LPUSHX new a
LMOVE l l left right
LMOVE l l left left
RPOPLPUSH l l
LPOP l 0
LPOP new
LPOS l a
SADD st a
SADD st d
SREM st z
SMOVE st st2 a
SMOVE st st2 z
SMOVE st st a
SPOP st 0
SUNIONSTORE st st
SUNIONSTORE st st st2
SINTERSTORE st new
SDIFFSTORE new2 new
HSET h f 1
HSET h f 2
HSETNX h f 1
HDEL h x
HINCRBY h f 0
HINCRBYFLOAT h f 0
HMSET h f 1
ZADD z 1 a
ZADD z XX 1 x
ZADD z NX 5 a
ZADD z GT 0 a
ZADD z INCR 0 a
ZINCRBY z 0 a
ZREM z x
ZREMRANGEBYRANK z 5 6
ZREMRANGEBYSCORE z 10 20
ZREMRANGEBYLEX z [x [y
ZPOPMIN z 0
ZRANGESTORE z z 0 -1
ZUNIONSTORE z 1 z
ZINTERSTORE z 2 z new
ZDIFFSTORE new2 1 new
PERSIST s
PERSIST t
EXPIRE s 100
EXPIRE t 100
EXPIRE t 10 GT
EXPIRE s 100 XX
EXPIRE s -1
PEXPIREAT t 1 GT
RENAME s s
RENAMENX s n
RENAME s new
COPY s n
COPY s new
COPY new s REPLACE
MOVE s 1
TOUCH s
OBJECT ENCODING s
DEL new
DEL s
UNLINK s
SORT l ALPHA STORE l
SORT new STORE s
BITOP NOT s s
BITOP AND s new
GETSET s abc
SWAPDB 0 0
SWAPDB 0 1
SWAPDB 1 2
FLUSHDB
FLUSHALL
LMPOP 1 l left
ZMPOP 1 z min
SETEX s 100 abc
GETRANGE s 0 0
SUBSTR s 0 0
LINSERT new before a b
ZADD z CH 1 a
ZADD z LT 5 a
HDEL h f
HDEL h f g
SREM st a b c
LPOP l 10
ZPOPMAX z 10
"#;

#[test]
fn watched_keys_are_changed_by_the_commands_that_change_them_in_redis() {
    let Some(both) = Both::start(None) else { return };
    for command in COMMANDS.trim().lines() {
        let script = format!("FLUSHALL{KEPT}{command}\nMULTI\nPING\nEXEC");
        assert_alike(&both, &script.lines().collect::<Vec<_>>());
    }
}

/// A transaction holds the locks of its keys, and a check those of all.
#[test]
fn a_check_is_no_part_of_a_transaction() {
    let ours = Ours::start(None);
    let mut client = ours.client();
    client.call(&[b"MULTI"]);
    client.call(&[b"SET", b"key", b"value"]);
    assert!(client.call(&[b"CLEAVE.CHECK"]).is_error());
    assert!(client.call(&[b"EXEC"]).is_error());
    assert_eq!(client.call(&[b"CLEAVE.CHECK"]).items(), Some(&[][..]));
}
