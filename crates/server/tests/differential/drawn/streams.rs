//! Commands of streams that are drawn.

use fastrand::Rng;

use super::{integer, text};

/// The commands; a colon stands in front of kinds of arguments that streams alone have.
pub const FORMS: &str = "\
xadd :KEY :NEW :FIELD
xadd :KEY :NEW :FIELD+
xadd :KEY nomkstream :NEW :FIELD
xadd :KEY maxlen O :NEW :FIELD
xadd :KEY maxlen = O :NEW :FIELD
xadd :KEY minid :ID :NEW :FIELD
xadd :KEY minid = :ID nomkstream :NEW :FIELD
xtrim :KEY maxlen O
xtrim :KEY minid :ID
xtrim :KEY maxlen ~ 0
xtrim :KEY maxlen = O limit O
xdel :KEY :ID+
xsetid :KEY :ID [entriesadded O] [maxdeletedid :ID]
xlen :KEY
xrange :KEY - :MOST
xrange :KEY :END :END [count O]
xrevrange :KEY :MOST -
xrevrange :KEY :END :END [count O]
xread streams :KEY :ID
xread count O streams :KEY :KEY :ID :AFTER
xread block 1 streams :KEY :AFTER
xgroup create :KEY :GROUP :AFTER [mkstream] [entriesread O]
xgroup create :KEY :GROUP 0 mkstream
xgroup create :KEY :GROUP 0
xgroup setid :KEY :GROUP :AFTER [entriesread O]
xgroup destroy :KEY :GROUP
xgroup createconsumer :KEY :GROUP :CONSUMER
xgroup delconsumer :KEY :GROUP :CONSUMER
xgroup help
xgroup V
xgroup V :KEY :GROUP
xreadgroup group :GROUP :CONSUMER streams :KEY >
xreadgroup group :GROUP :CONSUMER count O streams :KEY >
xreadgroup group :GROUP :CONSUMER count :COUNT streams :KEY >
xreadgroup group :GROUP :CONSUMER noack streams :KEY >
xreadgroup group :GROUP :CONSUMER block 1 count :COUNT streams :KEY >
xreadgroup group :GROUP :CONSUMER streams :KEY :ID
xreadgroup group :GROUP :CONSUMER count O streams :KEY :ID
xreadgroup group :GROUP :CONSUMER streams :KEY :KEY > :AFTER
xack :KEY :GROUP :ID+
xpending :KEY :GROUP
xpending :KEY :GROUP - :MOST O
xpending :KEY :GROUP - :MOST O :CONSUMER
xpending :KEY :GROUP idle :IDLE :END :END :COUNT
xpending :KEY :GROUP idle :IDLE :END :END :COUNT :CONSUMER
xclaim :KEY :GROUP :CONSUMER :IDLE :ID+ [justid] [force] [retrycount O] [idle :IDLE]
xclaim :KEY :GROUP :CONSUMER :IDLE :ID [justid] [force] [time :TIME] [lastid :ID]
xclaim :KEY :GROUP :CONSUMER 0 :ID+ [force] [idle :IDLE]
xautoclaim :KEY :GROUP :CONSUMER :IDLE :END [count :COUNT] [justid]
xautoclaim :KEY :GROUP :CONSUMER 0 - [count :COUNT]
xinfo stream :KEY
xinfo stream :KEY full [count O]
xinfo groups :KEY
xinfo consumers :KEY :GROUP
xinfo help
xinfo V
xinfo V :KEY
del :KEY
copy :KEY :KEY [replace]
rename :KEY :KEY
move :KEY 1
type :KEY
object encoding :KEY
exists :KEY
expire :KEY S
persist :KEY
ttl :KEY
set :KEY V
lpush :KEY N
lrange :KEY 0 -1
sort :KEY
hget :KEY N
scan 0 type stream
swapdb 0 1
flushdb
hello 3
hello 2
";

/// Commands that are drawn more often.
pub const OFTEN: &str = "\
multi
exec
exec
discard
xadd :KEY :NEW :FIELD
xadd :KEY :NEW :FIELD
xadd :KEY :NEW :FIELD+
xrange :KEY - :MOST
xgroup create :KEY g 0 mkstream
xgroup create :KEY :GROUP :AFTER mkstream
xreadgroup group :GROUP :CONSUMER streams :KEY >
xreadgroup group :GROUP :CONSUMER count :COUNT streams :KEY >
xinfo stream :KEY full count 0
";

/// Commands that are drawn seldom, since little is left behind them.
pub const SELDOM: &[&str] = &[
    "del :KEY",
    "set :KEY V",
    "lpush :KEY N",
    "rename :KEY :KEY",
    "move :KEY 1",
    "swapdb 0 1",
    "flushdb",
    "copy :KEY :KEY [replace]",
    "expire :KEY S",
    "xgroup destroy :KEY :GROUP",
    "xsetid :KEY :ID [entriesadded O] [maxdeletedid :ID]",
    "xadd :KEY maxlen O :NEW :FIELD",
    "xtrim :KEY maxlen O",
    "xtrim :KEY maxlen ~ 0",
    "xtrim :KEY minid :ID",
    "xadd :KEY minid :ID :NEW :FIELD",
];

/// An argument of a kind of streams.
pub fn argument(rng: &mut Rng, kind: &str) -> Vec<u8> {
    let wrong = rng.u8(..25) == 0;
    match kind {
        "MOST" => b"+".into(),
        "KEY" => text(rng, &[b"s", b"s", b"s", b"s", b"t", b"t", b"u"]),
        "ID" | "AFTER" | "END" | "NEW" if wrong => text(
            rng,
            &[
                b"18446744073709551615",
                b"18446744073709551615-18446744073709551615",
                b"18446744073709551616-0",
                b"0-0",
                b"-",
                b"+",
                b"",
                b"1-2-3",
                b" 5",
                b"x",
                b"(",
                b"5-",
                b"5--1",
            ],
        ),
        "ID" if rng.u8(..4) == 0 => rng.u8(..11).to_string().into(),
        "ID" => format!("{}-{}", [1, 2, 5, 9, 9, 9, 9][rng.usize(..7)], rng.u8(..8)).into(),
        "GROUP" => text(rng, &[b"g", b"g", b"g", b"g", b"h", b"h", b"none"]),
        "CONSUMER" => text(rng, &[b"x", b"x", b"y", b"y", b"z", b""]),
        "COUNT" if wrong => text(rng, &[b"0", b"-1", b"x", b""]),
        "COUNT" => rng.u8(1..5).to_string().into(),
        // Far from what lies between the same command in both.
        "IDLE" if wrong => text(rng, &[b"x", b"-1", b"9000000000000000"]),
        "IDLE" => text(rng, &[b"0", b"0", b"60000", b"1000000"]),
        "TIME" => text(rng, &[b"0", b"1", b"-5", b"x", b"9000000000000000"]),
        "AFTER" if rng.u8(..3) == 0 => b"$".into(),
        "AFTER" => argument(rng, "ID"),
        "END" => match rng.u8(..6) {
            0 => b"-".into(),
            1 => b"+".into(),
            2 => [b"(".to_vec(), argument(rng, "ID")].concat(),
            _ => argument(rng, "ID"),
        },
        "NEW" => match rng.u8(..8) {
            0 => argument(rng, "ID"),
            1 => format!("{}-*", rng.u8(..11)).into(),
            2 => format!("{}-*", rng.u8(..6)).into(),
            _ => b"9-*".into(),
        },
        _ => integer(rng),
    }
}
