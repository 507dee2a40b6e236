//! Clients that wait for keys: scripts of several clients, played on both servers.

use std::time::{Duration, Instant};

use crate::Both;
use crate::scripts::{assert_alike, waiting};

const SCRIPTS: &str = "\
1> BLPOP a b 0
2 RPUSH b x y
1
2 LRANGE b 0 -1

1> BLPOP a 0
2> BRPOP a 0
3 RPUSH a x
1
3 LLEN a
3 RPUSH a y z
2
3 LRANGE a 0 -1

1> BLPOP a 0
2 MULTI
2 RPUSH a x
2 DEL a
2 EXEC
2 RPUSH a y
1

1> BLPOP a b 0
2 MULTI
2 RPUSH b of-b
2 RPUSH a of-a
2 LRANGE b 0 -1
2 EXEC
1
2 LRANGE a 0 -1
2 EXISTS b

1> BLMOVE a b LEFT RIGHT 0
2 RPUSH a x
1
2 LRANGE b 0 -1
2 EXISTS a

1> BLMOVE a b LEFT RIGHT 0
2> BLPOP b 0
3 RPUSH a x
1
2
3 EXISTS a b

1> BRPOPLPUSH a a 0
2 RPUSH a x
1
2 LRANGE a 0 -1

1> BLMOVE a b LEFT RIGHT 0
2 SET b string
2 RPUSH a x
1
2 LRANGE a 0 -1

1> BLPOP a 0
2 SET a string
2 DEL a
2 SADD a m
2 DEL a
2 LPUSH a x
1

1> BLMPOP 0 2 a b LEFT COUNT 2
2 RPUSH b 1 2 3
1
2 LRANGE b 0 -1

1> BLPOP a 0
1> SET other value
2 RPUSH a x
1
1
2 GET other

1> BLPOP a 0
2 SELECT 1
2 RPUSH a x
2 MOVE a 0
1
2 EXISTS a

1> BLPOP a 0
2 RPUSH b x
2 RENAME b a
1
2 EXISTS a b

1> BLPOP a 0
2 RPUSH b x y
2 COPY b a
1
2 LRANGE a 0 -1

1> BLPOP a 0
2 SELECT 1
2 RPUSH a x
2 SWAPDB 0 1
1
2 EXISTS a

1> BLPOP a 0.05
1
2 RPUSH a x
2 LRANGE a 0 -1

1> BLMOVE a b LEFT LEFT 0.05
1
1 HELLO 3
1> BRPOP a 0.05
1

1 MULTI
1 BLPOP a 0
1 BLMOVE a b LEFT LEFT 0
1 BRPOPLPUSH a b 0
1 BLMPOP 0 1 a LEFT
1 RPUSH a x
1 BLPOP a b 0
1 EXEC

1 CLIENT REPLY OFF
1> BLPOP a 0
2 RPUSH a x
2 EXISTS a

1 WATCH a
2> BLPOP a 0
3 RPUSH a x
2
1 MULTI
1 EXEC

1> BLPOP a a 0
2 RPUSH a x y
1
2 LRANGE a 0 -1

1> BLPOP a 0
2 LPUSH a x y z
1
2 LRANGE a 0 -1

1> BLPOP a b c 0
2> BLPOP c b 0
3 MULTI
3 RPUSH c 1
3 RPUSH b 2 3
3 EXEC
1
2
3 LRANGE b 0 -1
3 LRANGE c 0 -1

1> BZPOPMIN a b 0
2 ZADD b 2 x 1 y
1
2 ZRANGE b 0 -1 WITHSCORES

1> BZPOPMAX a 0
2> BZPOPMIN a 0
3 ZADD a 1 x 2 y 3 z
1
2
3 ZRANGE a 0 -1

1> BZPOPMIN a 0
2> BLPOP a 0
3 RPUSH a x
2
3 ZADD a 1 x
1
3 EXISTS a

1> BZMPOP 0 2 a b MAX COUNT 2
2 ZADD c 1 x 2 y 3 z
2 ZUNIONSTORE b 1 c
1
2 ZRANGE b 0 -1

1> BZPOPMIN a 0
2 ZADD b 1 x
2 ZRANGESTORE a b 0 -1
1
2 EXISTS a

1> BZPOPMIN a 0
2 ZINCRBY a 1.5 x
1
1 HELLO 3
1> BZPOPMAX a 0
2 ZADD a INCR -inf x
1
1> BZMPOP 0 1 a MIN
2 ZADD a -0.5 x
1

1> BZPOPMIN a 0.05
1
1> BZMPOP 0.05 1 a MIN
1
1 MULTI
1 BZPOPMIN a 0
1 BZMPOP 0 1 a MAX
1 ZADD a 1 x
1 BZPOPMAX b a 0
1 EXEC
";

#[test]
fn who_waits_is_served_alike() {
    let Some(both) = Both::start(None) else { return };
    assert_alike(&both, SCRIPTS);
}

#[test]
fn a_wait_is_ended_alike() {
    let Some(both) = Both::start(None) else { return };
    let [mut one, mut other] = [both.pair(), both.pair()];
    let ids = one.call(&[b"CLIENT", b"ID"]).map(|id| id.integer().unwrap().to_string());
    let ends: [&[&str]; 3] = [&[], &["TIMEOUT"], &["ERROR"]];
    for words in ends {
        let ended = [(&mut one.ours, &mut other.ours, 0), (&mut one.theirs, &mut other.theirs, 1)];
        let replies = ended.map(|(client, check, at)| {
            client.send(b"BLPOP nothing 0\r\n", &[]);
            let begun = Instant::now();
            while waiting(check) != Some(1) && begun.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let args = [&["CLIENT", "UNBLOCK", &ids[at]], words].concat();
            let args: Vec<&[u8]> = args.iter().map(|word| word.as_bytes()).collect();
            let replies = [check.call(&args), client.receive().unwrap(), check.call(&args)];
            replies.map(|reply| reply.shown())
        });
        assert_eq!(replies[0], replies[1], "{words:?}");
        assert_eq!((&*replies[0][0], &*replies[0][2]), (":1", ":0"));
    }
}
