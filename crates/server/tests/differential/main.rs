//! Replies of this server and of Redis itself to equal commands: equal, byte for byte, but
//! for what `alike.rs` lists with its reasons.
//!
//! `CLEAVEDB_SEED` draws other commands, and `CLEAVEDB_DIFFERENTIAL_SECONDS` more of them. Without
//! a
//! `redis-server` nothing is compared, and the test says so.

mod alike;
mod drawn;
mod scripts;
mod lua;
mod functions;
mod ended;
mod blocked;
mod streams;
mod published;
mod fixed;
mod large;
mod places;
mod clients;
mod moved;
mod users;
mod watched;
mod wire;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use fastrand::Rng;

use self::alike::alike;
use self::drawn::{Forms, Step};
use self::wire::{Ours, Pair, Theirs, Value};

/// Connections to each server.
const CLIENTS: usize = 3;

/// The longest life of a short step, and some more.
const SHORT: Duration = Duration::from_millis(15);

/// How long a failing round is made smaller.
const SHRINK_TIME: Duration = Duration::from_secs(60);

/// How much a deadline may differ: what lies between the same command in both.
const DEADLINE_TOLERANCE: i64 = 20_000;

/// Where both servers differ.
struct Difference {
    what: String,
    ours: String,
    theirs: String,
}

/// A connection to both servers, and the command of each reply that `EXEC` will have.
struct Client {
    pair: Pair,
    queue: Vec<Vec<Vec<u8>>>,
}

/// Both servers.
struct Both {
    ours: Ours,
    theirs: Theirs,
}

impl Both {
    fn start(password: Option<&str>) -> Option<Self> {
        Theirs::start(password).map(|theirs| Self { ours: Ours::start(password), theirs })
    }

    fn pair(&self) -> Pair {
        Pair::new(&self.ours, &self.theirs)
    }

    fn client(&self) -> Client {
        Client { pair: self.pair(), queue: Vec::new() }
    }

    /// Plays steps on empty servers; where they first differ, if they do.
    fn play(&self, steps: &[Step]) -> Option<Difference> {
        let mut check = self.pair();
        check.call(&[b"FLUSHALL"]);
        until_left(&mut check);
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| self.client()).collect();
        for step in steps {
            match clients[step.client].play(step) {
                Ok(true) => {}
                Ok(false) => {
                    clients[step.client] = self.client();
                    until_left(&mut check);
                }
                Err(difference) => return Some(difference),
            }
            if step.is_short {
                std::thread::sleep(SHORT);
            }
        }
        [0, 1, 15].into_iter().find_map(|database| same_keys(&mut check, database))
    }

    /// Leaves out of `steps` what they differ without.
    fn shrunk(&self, mut steps: Vec<Step>) -> Vec<Step> {
        let begun = Instant::now();
        let mut size = steps.len();
        while size > 0 && begun.elapsed() < SHRINK_TIME {
            let mut at = 0;
            while at < steps.len() {
                let mut fewer = steps.clone();
                fewer.drain(at..steps.len().min(at + size));
                if self.play(&fewer).is_some() { steps = fewer } else { at += size }
            }
            size /= 2;
        }
        for at in 0..steps.len() {
            let mut call = 0;
            while call < steps[at].calls.len() && begun.elapsed() < SHRINK_TIME {
                let mut fewer = steps.clone();
                fewer[at].calls.remove(call);
                if self.play(&fewer).is_some() { steps = fewer } else { call += 1 }
            }
        }
        steps.retain(|step| !step.calls.is_empty());
        steps
    }
}

impl Client {
    /// Sends a step to both, and compares what comes back. Whether the connections go on.
    fn play(&mut self, step: &Step) -> Result<bool, Difference> {
        let bytes: Vec<u8> = step.calls.iter().flat_map(drawn::Call::bytes).collect();
        self.pair.ours.send(&bytes, &step.cuts);
        self.pair.theirs.send(&bytes, &step.cuts);
        for call in &step.calls {
            let Some(theirs) = self.receive(call, call.args())? else { return Ok(false) };
            for args in self.behind(call.args(), &theirs) {
                if self.receive(call, &args)?.is_none() {
                    return Ok(false);
                }
            }
            match theirs {
                Value::Line(line) if line == b"+QUEUED" => {
                    // `EXEC` refuses it.
                    let is_refused = call.args()[0].eq_ignore_ascii_case(b"ssubscribe");
                    let count = if is_refused { 1 } else { replies(call.args()) };
                    self.queue.extend(vec![call.args().to_vec(); count]);
                }
                _ => {
                    let name = call.args().first().map(|name| name.to_ascii_lowercase());
                    let ends: [&[u8]; 4] = [b"exec", b"discard", b"reset", b"multi"];
                    if name.is_some_and(|name| ends.contains(&&*name)) && !theirs.is_error() {
                        self.queue.clear();
                    }
                }
            }
        }
        Ok(true)
    }

    /// The next reply of Redis, to a command of a call, and equal to ours; none if both connections
    /// have ended. Messages before it are equal, in whatever order: that of patterns is each
    /// server's own.
    fn receive(
        &mut self,
        call: &drawn::Call,
        args: &[Vec<u8>],
    ) -> Result<Option<Value>, Difference> {
        let [ours, theirs] = [&mut self.pair.ours, &mut self.pair.theirs].map(|client| {
            let (mut messages, mut reply) = (Vec::new(), client.receive());
            while let Some(message) = reply.take_if(|reply| reply.is_message()) {
                messages.push(message);
                reply = client.receive();
            }
            messages.sort_unstable_by_key(Value::shown);
            (messages, reply)
        });
        match (ours, theirs) {
            ((ours, None), (theirs, None)) if ours == theirs => Ok(None),
            ((told, Some(ours)), (told_too, Some(theirs)))
                if told == told_too && alike(args, &ours, &theirs, &self.queue) =>
            {
                Ok(Some(theirs))
            }
            (ours, theirs) => {
                let [ours, theirs] = [ours, theirs].map(|(messages, reply)| {
                    let mut shown: Vec<_> = messages.iter().map(Value::shown).collect();
                    shown.push(reply.map_or("the end".into(), |reply| reply.shown()));
                    shown.join(", ")
                });
                Err(Difference { what: call.shown(), ours, theirs })
            }
        }
    }

    /// The commands whose replies come behind the first one of a call.
    fn behind(&self, args: &[Vec<u8>], first: &Value) -> Vec<Vec<Vec<u8>>> {
        match first.items() {
            Some(items) if args[0].eq_ignore_ascii_case(b"exec") => {
                self.queue[items.len()..].to_vec()
            }
            Some(_) => vec![args.to_vec(); replies(args) - 1],
            None => Vec::new(),
        }
    }
}

/// How many replies a command has, unless it is refused: one for each topic.
fn replies(args: &[Vec<u8>]) -> usize {
    if args[0].to_ascii_lowercase().ends_with(b"subscribe") { args.len() - 1 } else { 1 }
}

/// Waits until clients that have gone get no messages from either server.
fn until_left(check: &mut Pair) {
    let begun = Instant::now();
    let mut differ = || {
        let [ours, theirs] = check.call(&[b"CLIENT", b"LIST", b"TYPE", b"pubsub"]);
        let lines = |list: &Value| list.bulk().unwrap().split(|byte| *byte == b'\n').count();
        lines(&ours) != lines(&theirs)
    };
    while differ() && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Where the keys of a database differ: their names, values, lives, number, and how they are found.
fn same_keys(check: &mut Pair, database: u8) -> Option<Difference> {
    let differ = |what: String, [ours, theirs]: [Value; 2]| {
        let what = format!("database {database}: {what}");
        Some(Difference { what, ours: ours.shown(), theirs: theirs.shown() })
    };
    check.call(&[b"SELECT", database.to_string().as_bytes()]);
    let keys = check.call(&[b"KEYS", b"*"]);
    let [ours, theirs] = [&keys[0], &keys[1]].map(bulks);
    if ours != theirs {
        return differ("KEYS".into(), keys);
    }
    for key in &ours {
        let ends = check.call(&[b"PEXPIRETIME", key]);
        let reads: &[&[&[u8]]] = match &check.ours.call(&[b"TYPE", key]).shown()[..] {
            "+string" => &[&[b"GET", key]],
            "+stream" => &[
                &[b"XRANGE", key, b"-", b"+"],
                &[b"XLEN", key],
                &[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"],
            ],
            "+hash" => &[&[b"HGETALL", key], &[b"HLEN", key]],
            "+list" => &[&[b"LRANGE", key, b"0", b"-1"], &[b"LLEN", key]],
            "+set" => &[&[b"SMEMBERS", key], &[b"SCARD", key]],
            "+zset" => &[
                &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
                &[b"ZRANGE", key, b"-inf", b"inf", b"BYSCORE", b"REV"],
                &[b"ZSCAN", key, b"0"],
                &[b"ZCARD", key],
            ],
            other => panic!("keys of type {other} are not compared"),
        };
        for read in reads {
            let values = check.call(read);
            let args: Vec<_> = read.iter().map(|it| it.to_vec()).collect();
            if !alike(&args, &values[0], &values[1], &[]) {
                return differ(drawn::Call::Array(args).shown(), values);
            }
        }
        let [of_ours, of_theirs] = [&ends[0], &ends[1]].map(|end| end.integer().unwrap());
        if (of_ours - of_theirs).abs() > DEADLINE_TOLERANCE {
            return differ(format!("PEXPIRETIME {}", key.escape_ascii()), ends);
        }
    }
    let count = check.ours.call(&[b"DBSIZE"]);
    if count.integer() != Some(ours.len() as i64) {
        return differ("DBSIZE".into(), [count, keys[1].clone()]);
    }
    let drawn = check.call(&[b"RANDOMKEY"]);
    if !drawn[0].bulk().map_or(ours.is_empty(), |key| ours.contains(key)) {
        return differ("RANDOMKEY".into(), drawn);
    }
    let walked = walked(check);
    let items = |key: &Vec<u8>| Value::Bulk(b'$', key.clone());
    let whole = |keys: &BTreeSet<Vec<u8>>| Value::Many(b'*', keys.iter().map(items).collect());
    if walked != ours {
        return differ("SCAN to the end".into(), [whole(&walked), whole(&ours)]);
    }
    None
}

/// The keys that `SCAN` finds in ours, two at a time.
fn walked(check: &mut Pair) -> BTreeSet<Vec<u8>> {
    let (mut cursor, mut found) = (b"0".to_vec(), BTreeSet::new());
    loop {
        let reply = check.ours.call(&[b"SCAN", &cursor, b"COUNT", b"2"]);
        let items = reply.items().unwrap();
        found.extend(bulks(&items[1]));
        cursor = items[0].bulk().unwrap().to_vec();
        if cursor == b"0" {
            return found;
        }
    }
}

/// The items of a reply, by twos or one by one.
fn shown_items(value: &Value, each: usize) -> Vec<String> {
    let items = value.items().unwrap_or_else(|| panic!("{}", value.shown())).chunks(each);
    items.map(|parts| parts.iter().map(Value::shown).collect::<Vec<_>>().join(" ")).collect()
}

fn bulks(value: &Value) -> BTreeSet<Vec<u8>> {
    let items = value.items().unwrap_or_else(|| panic!("{}", value.shown()));
    items.iter().map(|item| item.bulk().unwrap().to_vec()).collect()
}

/// A number of the environment.
fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// Draws commands for some seconds.
fn compare(forms: Forms, seconds: u64) {
    let Some(both) = Both::start(None) else { return };
    let first = from_environment("CLEAVEDB_SEED").unwrap_or(1);
    let seconds = from_environment("CLEAVEDB_DIFFERENTIAL_SECONDS").unwrap_or(seconds);
    let (begun, mut commands) = (Instant::now(), 0);
    for seed in first.. {
        let steps = drawn::steps(&mut Rng::with_seed(seed), CLIENTS, forms);
        commands += steps.iter().map(|step| step.calls.len()).sum::<usize>();
        if let Some(difference) = both.play(&steps) {
            fail(&both, seed, steps, difference);
        }
        if begun.elapsed().as_secs() >= seconds {
            println!("{commands} commands of seeds {first} to {seed} have equal replies");
            return;
        }
    }
}

#[test]
fn replies_are_those_of_redis() {
    compare(Forms::ANY, 5);
}

#[test]
fn replies_about_streams_are_those_of_redis() {
    compare(Forms::STREAMS, 5);
}

/// Fails with as few commands as differ.
fn fail(both: &Both, seed: u64, steps: Vec<Step>, first: Difference) -> ! {
    let steps = both.shrunk(steps);
    let Difference { what, ours, theirs } = both.play(&steps).unwrap_or(first);
    let mut shown = String::new();
    for step in &steps {
        let rest = if step.is_short { ", and a wait" } else { "" };
        let _ = writeln!(shown, "  client {}{rest}:", step.client);
        step.calls.iter().for_each(|call| _ = writeln!(shown, "    {}", call.shown()));
    }
    panic!("CLEAVEDB_SEED={seed}\n{shown}reply to {what}\n  ours:  {ours}\n  Redis: {theirs}");
}

/// Whether Redis 7.0 has no such command.
fn is_own(name: &str) -> bool {
    name.starts_with("cleave.") || name == "waitaof"
}

#[test]
fn each_command_is_drawn() {
    let Some(both) = Both::start(None) else { return };
    let drawn: BTreeSet<_> = drawn::names().collect();
    let listed = both.pair().ours.call(&[b"COMMAND", b"LIST"]);
    for name in bulks(&listed) {
        let name = String::from_utf8(name).unwrap();
        // A server that shuts down ends the test, and how far a save has come is not known.
        let ends =
            ["shutdown", "save", "bgsave", "bgrewriteaof", "monitor", "replicaof", "slaveof"];
        let ends = ends.contains(&&*name);
        let is_left_out = ends || is_own(&name) || name.contains('|');
        assert!(is_left_out || drawn.contains(&*name), "no form of {name} in drawn/forms.rs");
    }
}
