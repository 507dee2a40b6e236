//! Clients that wait for streams.

use std::time::{Duration, Instant};

use crate::Both;
use crate::scripts::{assert_alike, waiting};
use crate::wire::array;

/// Scripts of several clients.
const SCRIPTS: &str = "\
1 HELLO 3
1 XADD a 1 x y
1 XADD b 2 x y
1 XREAD STREAMS a none b 0 0 0
1 XREAD STREAMS a 9
1 XRANGE a - + COUNT 1
1 XRANGE a - + COUNT 0

1> XREAD BLOCK 0 STREAMS a b $ $
2 XADD b 1 x y
1
2 XADD a 1 x y

2 XADD a 1 x y
1> XREAD BLOCK 0 STREAMS a $
2> XREAD BLOCK 0 COUNT 1 STREAMS a 1
3 XADD a 2 x y
1
2

1> XREAD BLOCK 0 STREAMS a $
2 MULTI
2 XADD a 1 x y
2 XADD a 2 x y
2 XADD a 3 x y
2 EXEC
1

1> XREAD BLOCK 0 COUNT 2 STREAMS a $
2 MULTI
2 XADD a 1 x y
2 XADD a 2 x y
2 XADD a 3 x y
2 EXEC
1

1> XREAD BLOCK 0 STREAMS a $
2 MULTI
2 XADD a 1 x y
2 XDEL a 1
2 EXEC
1

1> XREAD BLOCK 0 STREAMS a $
2 SET a x
2 DEL a
2 RPUSH a x
2 DEL a
2 XADD a 1 x y
1

2 XADD a 5 x y
1> XREAD BLOCK 0 STREAMS a 7
2 XADD a 6 x y
2 XADD a 7 x y
2 EXPIRE a 100
2 XTRIM a MAXLEN 1
2 XADD a 8 x y
1

2 XADD a 5 x y
2 XADD a 9 x y
2 XDEL a 9
1> XREAD BLOCK 0 STREAMS a 5
2 EXPIRE a 100
2 XDEL a 5
2 XADD b 1 x y
2 XTRIM a MAXLEN 0
2 XSETID a 12
2 PERSIST a
2 XADD a 13 x y
1

2 XADD a 5 x y
2 XADD a 7 x y
2 XADD a 9 x y
2 XDEL a 9
1> XREAD BLOCK 0 STREAMS a 7
2 XTRIM a MAXLEN 1
2 XADD a 13 x y
1

2 XADD b 5 x y
1> XREAD BLOCK 0 STREAMS a $
2 RENAME b a
1

1 HELLO 3
1> XREAD BLOCK 0 STREAMS a a 0 5
2 XADD a 1 x y
1

1> XREAD BLOCK 30 STREAMS a $
1
1 HELLO 3
1> XREAD BLOCK 30 STREAMS a $
1

1> XREAD BLOCK 0 STREAMS a b $ $
2> BLPOP a 0
3 RPUSH a x
2
3 XADD b 1 x y
1

1> XREAD BLOCK 0 STREAMS a $
2 XADD b 1 x y
2 COPY b a
1

1> XREAD BLOCK 0 STREAMS a $
1> SET other value
2 FLUSHALL
2 SELECT 1
2 XADD a 1 x y
2 SWAPDB 0 1
1
1

1 XGROUP CREATE a g $ MKSTREAM
1> XREADGROUP GROUP g x BLOCK 0 STREAMS a >
2> XREADGROUP GROUP g y BLOCK 0 COUNT 1 STREAMS a >
3 MULTI
3 XADD a 1 x y
3 XADD a 2 x y
3 EXEC
1
3 XADD a 3 x y
2
3 XPENDING a g
3 XINFO GROUPS a

1 XGROUP CREATE a g $ MKSTREAM
1> XREADGROUP GROUP g x BLOCK 0 STREAMS a >
2> XREADGROUP GROUP other x BLOCK 0 STREAMS a >
2
3 CONFIG RESETSTAT
3 XGROUP DESTROY a g
1
3 INFO errorstats

1 XGROUP CREATE a g $ MKSTREAM
1> XREADGROUP GROUP g x BLOCK 0 STREAMS a >
2 DEL a
1

1 XGROUP CREATE a g $ MKSTREAM
1> XREADGROUP GROUP g x BLOCK 0 STREAMS a >
2 SET a x
1

1 XGROUP CREATE a g $ MKSTREAM
1> XREADGROUP GROUP g x BLOCK 0 STREAMS a >
2 RENAME a b
1

1 XGROUP CREATE a g $ MKSTREAM
1> XREADGROUP GROUP g x BLOCK 0 STREAMS a >
2 XADD b 1 x y
2 RENAME b a
1

1 XGROUP CREATE a g $ MKSTREAM
1> XREADGROUP GROUP g x BLOCK 0 STREAMS a >
2 MULTI
2 DEL a
2 SADD a m
2 EXEC
1

1 XGROUP CREATE a g $ MKSTREAM
1> XREADGROUP GROUP g x BLOCK 0 STREAMS a >
2 FLUSHDB
1

1 XGROUP CREATE a g $ MKSTREAM
1> XREADGROUP GROUP g x BLOCK 0 STREAMS a >
2 SWAPDB 0 1
1

1 XGROUP CREATE a g $ MKSTREAM
1> XREADGROUP GROUP g x BLOCK 0 STREAMS a >
2> XREAD BLOCK 0 STREAMS a $
3 EXPIRE a 100
3 PEXPIRE a 0
1
3 XADD a 1 x y
2

1 XGROUP CREATE a g $ MKSTREAM
1> XREADGROUP GROUP g x BLOCK 0 NOACK STREAMS a >
2 XADD a 1 x y
1
2 XPENDING a g
2 XGROUP SETID a g 0
1> XREADGROUP GROUP g x BLOCK 0 STREAMS a 0
1

1 XGROUP CREATE a g $ MKSTREAM
1 XGROUP CREATE b g $ MKSTREAM
1 HELLO 3
1> XREADGROUP GROUP g x BLOCK 0 STREAMS a b > >
2 MULTI
2 SET c x
2 DEL b
2 XADD a 1 x y
2 EXEC
1

1 XGROUP CREATE a g $ MKSTREAM
1> XREADGROUP GROUP g x BLOCK 30 STREAMS a >
1
1 MULTI
1 XREADGROUP GROUP g x BLOCK 0 STREAMS a >
1 EXEC

1 XGROUP CREATE a g $ MKSTREAM
1 WATCH a
2 XGROUP CREATE a h $
2 XACK a g 1
2 XREADGROUP GROUP g x STREAMS a 0
1 MULTI
1 EXEC
1 WATCH a
2 XADD a 1 x y
1 MULTI
1 EXEC
";

#[test]
fn who_waits_for_a_stream_is_told_of_writes_that_are_sent_together() {
    let Some(both) = Both::start(None) else { return };
    let [mut waits, mut writes] = [both.pair(), both.pair()];
    for lines in ["SET other x\nSET a x", "SET a x\nDEL a", "MSET a x b y"] {
        // Arrays alone are gathered.
        let sent = lines.lines().flat_map(|line| {
            let words: Vec<_> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            array(&words)
        });
        let sent: Vec<u8> = sent.collect();
        writes.call(&[b"FLUSHALL"]);
        writes.call(&[b"XGROUP", b"CREATE", b"a", b"g", b"0", b"MKSTREAM"]);
        let clients =
            [(&mut waits.ours, &mut writes.ours), (&mut waits.theirs, &mut writes.theirs)];
        let told = clients.map(|(waits, writes)| {
            waits.send(b"XREADGROUP GROUP g c BLOCK 5000 STREAMS a >\r\n", &[]);
            let begun = Instant::now();
            while waiting(writes) != Some(1) && begun.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(1));
            }
            writes.send(&sent, &[]);
            let replies: Vec<_> = lines.lines().map(|_| writes.receive().unwrap()).collect();
            (waits.receive().unwrap().shown(), replies)
        });
        assert_eq!(told[0], told[1], "{lines}");
    }
}

#[test]
fn who_waits_for_entries_is_served_alike() {
    let Some(both) = Both::start(None) else { return };
    assert_alike(&both, SCRIPTS);
}
