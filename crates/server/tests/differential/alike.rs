//! What differs on purpose, and how two replies are compared.

use crate::wire::Value;

/// How replies of a command may differ. Errors may only where the rule is [`Rule::Refused`].
#[derive(Clone, Copy)]
enum Rule {
    /// Equal items, in whatever order.
    Order,
    /// Equal pairs, in whatever order.
    Pairs,
    /// A cursor, and equal pairs if it is that of the end, in whatever order.
    Scan,
    /// A cursor, and equal items if it is that of the end, in whatever order.
    ScanNames,
    /// Integers that are no further apart; negative ones and errors are equal.
    Near(i64),
    /// Both of one kind: text, number, list or nothing.
    Kind,
    /// As [`Rule::Kind`], or ours is nothing: Redis has keys for a while that are over.
    KindOrNothing,
    /// Ours is an error.
    Refused,
    /// Redis says that texts are no numbers.
    NoNumbers,
}

/// Seconds and milliseconds that replies of a pipeline may take.
const SECONDS: i64 = 20;
const MILLIS: i64 = 1000 * SECONDS;

/// What differs on purpose: a command, or its first words; how; and why.
const ON_PURPOSE: &[(&str, Rule, &str)] = &[
    ("keys", Rule::Order, "Redis has no order, and ours that of the bytes"),
    ("scan", Rule::Kind, "cursors and their order are each server's own; whole walks are compared"),
    ("randomkey", Rule::Kind, "drawn; that the key is there is checked between steps"),
    ("hgetall", Rule::Pairs, "Redis has no order, and ours that of the bytes"),
    ("hkeys", Rule::Order, "Redis has no order, and ours that of the bytes"),
    ("hvals", Rule::Order, "Redis has no order, and ours that of the bytes"),
    ("hscan", Rule::Scan, "Redis has no order, and ours that of the bytes"),
    ("hrandfield", Rule::Kind, "drawn"),
    ("smembers", Rule::Order, "Redis has no order, and ours that of the bytes"),
    ("sunion", Rule::Order, "Redis has no order, and ours that of the bytes"),
    ("sinter", Rule::Order, "Redis has no order, and ours that of the bytes"),
    ("sdiff", Rule::Order, "Redis has no order, and ours that of the bytes"),
    ("spop", Rule::Order, "Redis has no order, and ours that of the bytes"),
    ("sscan", Rule::ScanNames, "Redis has no order, and ours that of the bytes"),
    ("srandmember", Rule::Kind, "drawn"),
    ("zscan", Rule::Scan, "Redis has the order of scores, and ours that of the bytes"),
    ("zrandmember", Rule::Kind, "drawn"),
    ("sort", Rule::NoNumbers, "Redis remembers that a number before was out of range"),
    ("pubsub channels", Rule::Order, "Redis has no order, and ours that of the bytes"),
    ("pubsub shardchannels", Rule::Order, "Redis has no order, and ours that of the bytes"),
    ("ttl", Rule::Near(SECONDS), "clocks"),
    ("pttl", Rule::Near(MILLIS), "clocks"),
    ("expiretime", Rule::Near(SECONDS), "clocks"),
    ("pexpiretime", Rule::Near(MILLIS), "clocks"),
    ("time", Rule::Kind, "clocks"),
    ("lastsave", Rule::Kind, "clocks"),
    (
        "dbsize",
        Rule::Near(8),
        "Redis counts keys that are over; the count is compared between steps",
    ),
    (
        "object encoding",
        Rule::Kind,
        "Redis tells how a value was made; ours what it would be if set",
    ),
    ("object refcount", Rule::Kind, "Redis shares small numbers"),
    ("object idletime", Rule::Refused, "reads write nothing"),
    ("memory usage", Rule::KindOrNothing, "bytes of a record, not of an object"),
    ("memory help", Rule::Kind, "no statistics of an allocator"),
    ("hello", Rule::Kind, "numbers of clients"),
    ("acl genpass", Rule::Kind, "drawn"),
    ("client id", Rule::Kind, "numbers of clients"),
    ("client list", Rule::Kind, "addresses, and figures of Redis's buffers"),
    ("client info", Rule::Kind, "addresses, and figures of Redis's buffers"),
    ("client help", Rule::Kind, "neither tracking nor pauses"),
    ("command", Rule::Kind, "fewer commands, and no documentation"),
    ("config get", Rule::Kind, "options of its own"),
    ("info", Rule::Kind, "figures of its own"),
    ("slowlog get", Rule::Kind, "clocks"),
    ("slowlog len", Rule::Kind, "clocks"),
    ("script help", Rule::Kind, "no debugger"),
    ("function help", Rule::Kind, "functions run side by side"),
    ("lolwut", Rule::Kind, "another server"),
    ("latency doctor", Rule::Kind, "a sentence of its own"),
    ("latency histogram", Rule::Kind, "clocks"),
    ("memory doctor", Rule::Kind, "a sentence of its own"),
    ("dump", Rule::Kind, "forms are each server's own; moved values are compared"),
    ("dump", Rule::Refused, "streams have no dumps yet"),
    ("debug", Rule::Refused, "an unknown command, not one that can be allowed"),
];

/// Whether two replies to a command are equal but for what differs on purpose. `queue` has the
/// commands that `EXEC` runs.
pub fn alike(args: &[Vec<u8>], ours: &Value, theirs: &Value, queue: &[Vec<Vec<u8>>]) -> bool {
    let words: Vec<_> = args.iter().map(|argument| argument.to_ascii_lowercase()).collect();
    // Redis forgets the sign of 0 where a sorted set is small, and keeps it elsewhere.
    let begins = |begin: &[u8]| words.first().is_some_and(|word| word.starts_with(begin));
    let has_scores = begins(b"z") || begins(b"bz");
    let (ours, theirs) = match has_scores {
        true => (&without_minus_zero(ours), &without_minus_zero(theirs)),
        false => (ours, theirs),
    };
    let (ours, theirs) = match begins(b"zscan") {
        true => (&with_plain_numbers(ours), &with_plain_numbers(theirs)),
        false => (ours, theirs),
    };
    let (ours, theirs) = match begins(b"x") {
        true => {
            let [mut of_ours, mut of_theirs] = [Vec::new(), Vec::new()];
            let ours = &without_times(ours, &mut of_ours);
            let theirs = &without_times(theirs, &mut of_theirs);
            return ours == theirs && are_near(&of_ours, &of_theirs);
        }
        false => (ours, theirs),
    };
    if ours == theirs || is_script_as_text(ours, theirs) {
        return true;
    }
    if words.first().is_some_and(|word| word == b"exec") {
        let (Some(ours), Some(theirs)) = (ours.items(), theirs.items()) else { return false };
        let alike = |((ours, theirs), args): ((_, _), &Vec<_>)| alike(args, ours, theirs, &[]);
        return ours.len() == theirs.len() && ours.iter().zip(theirs).zip(queue).all(alike);
    }
    let names = |name: &str| {
        let mut words = words.iter();
        name.split(' ').all(|part| words.next().is_some_and(|word| word == part.as_bytes()))
    };
    ON_PURPOSE.iter().any(|(name, rule, _)| names(name) && allows(*rule, ours, theirs))
}

fn allows(rule: Rule, ours: &Value, theirs: &Value) -> bool {
    match rule {
        Rule::Order => sorted(ours).is_some_and(|ours| Some(ours) == sorted(theirs)),
        Rule::Pairs => pairs(ours).is_some_and(|ours| Some(ours) == pairs(theirs)),
        Rule::Scan => scans_allow(Rule::Pairs, ours, theirs),
        Rule::ScanNames => scans_allow(Rule::Order, ours, theirs),
        Rule::Near(most) => match (ours.integer(), theirs.integer()) {
            (Some(ours @ 0..), Some(theirs @ 0..)) => (ours - theirs).abs() <= most,
            _ => false,
        },
        Rule::Kind => !ours.is_error() && kind(ours) == kind(theirs),
        Rule::KindOrNothing => {
            let is_nothing =
                *ours == Value::Line(b"$-1".into()) || *ours == Value::Line(b"_".into());
            is_nothing && theirs.integer().is_some() || allows(Rule::Kind, ours, theirs)
        }
        Rule::Refused => ours.is_error(),
        Rule::NoNumbers => !ours.is_error() && theirs.shown().contains("be converted into double"),
    }
}

/// Whether both tell of a script that is no script, of which ours shows what is no text otherwise.
fn is_script_as_text(ours: &Value, theirs: &Value) -> bool {
    let (Value::Line(ours), Value::Line(theirs)) = (ours, theirs) else { return false };
    theirs.starts_with(b"-ERR Error compiling")
        && String::from_utf8_lossy(theirs).as_bytes() == ours
}

fn scans_allow(rule: Rule, ours: &Value, theirs: &Value) -> bool {
    match (ours.items(), theirs.items()) {
        // How far the first step comes is each server's own.
        (Some([end, ours]), Some([of_theirs, theirs])) => {
            let is_whole = [end, of_theirs].iter().all(|end| end.bulk() == Some(b"0"));
            allows(if is_whole { rule } else { Rule::Kind }, ours, theirs)
        }
        _ => false,
    }
}

/// A reply with 0 in place of -0.
fn without_minus_zero(value: &Value) -> Value {
    match value {
        Value::Line(line) if line == b",-0" => Value::Line(b",0".into()),
        Value::Bulk(b'$', bytes) if bytes == b"-0" => Value::Bulk(b'$', b"0".into()),
        Value::Many(kind, items) => {
            Value::Many(*kind, items.iter().map(without_minus_zero).collect())
        }
        other => other.clone(),
    }
}

/// A reply whose texts of numbers have one form: that of Redis's `ZSCAN` depends on how a sorted
/// set is kept, which `SORT` changes.
fn with_plain_numbers(value: &Value) -> Value {
    match value {
        Value::Bulk(kind, bytes) => {
            let number = str::from_utf8(bytes).ok().and_then(|text| text.parse::<f64>().ok());
            let plain = number.map(|number| format!("{number:e}").into_bytes());
            Value::Bulk(*kind, plain.unwrap_or_else(|| bytes.clone()))
        }
        Value::Many(kind, items) => {
            Value::Many(*kind, items.iter().map(with_plain_numbers).collect())
        }
        other => other.clone(),
    }
}

/// A reply without the times of consumers and pending entries, which are put into `times`, and
/// without numbers of Redis's nodes.
fn without_times(value: &Value, times: &mut Vec<i64>) -> Value {
    let Value::Many(kind, items) = value else { return value.clone() };
    let nothing = || Value::Line(b":0".into());
    let time_at = match &items[..] {
        [Value::Bulk(..), Value::Bulk(..), Value::Line(_), Value::Line(_)] => Some(2),
        [Value::Bulk(..), Value::Line(_), Value::Line(_)] => Some(1),
        _ => None,
    };
    let mut before = None;
    let without = items.iter().enumerate().map(|(at, item)| {
        let name = before.replace(item).and_then(Value::bulk);
        match (name, item.integer()) {
            (Some(b"radix-tree-keys" | b"radix-tree-nodes"), Some(_)) => nothing(),
            (Some(b"idle" | b"seen-time"), Some(time)) => {
                times.push(time);
                nothing()
            }
            (_, Some(time)) if time_at == Some(at) => {
                times.push(time);
                nothing()
            }
            _ => without_times(item, times),
        }
    });
    Value::Many(*kind, without.collect())
}

fn are_near(ours: &[i64], theirs: &[i64]) -> bool {
    let is_near = |(ours, theirs): (&i64, &i64)| (ours - theirs).abs() <= MILLIS;
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(is_near)
}

/// The kind of an array, and its items.
fn sorted(value: &Value) -> Option<(u8, Vec<&[u8]>)> {
    let mut items = value.items()?.iter().map(Value::bulk).collect::<Option<Vec<_>>>()?;
    items.sort_unstable();
    Some((kind(value), items))
}

/// The kind of an array or a map, and its pairs.
fn pairs(value: &Value) -> Option<(u8, Vec<Vec<String>>)> {
    let pairs = value.items()?.chunks(2);
    let mut pairs: Vec<_> = pairs.map(|pair| pair.iter().map(Value::shown).collect()).collect();
    pairs.sort_unstable();
    Some((kind(value), pairs))
}

fn kind(value: &Value) -> u8 {
    match value {
        Value::Line(line) => line[0],
        Value::Bulk(kind, _) | Value::Many(kind, _) => *kind,
    }
}
