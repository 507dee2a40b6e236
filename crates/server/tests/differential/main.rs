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

/// A connection to both servers, and the commands that `EXEC` will run.
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
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| self.client()).collect();
        for step in steps {
            match clients[step.client].play(step) {
                Ok(true) => {}
                Ok(false) => clients[step.client] = self.client(),
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
            let (ours, theirs) = (self.pair.ours.receive(), self.pair.theirs.receive());
            let (ours, theirs) = match (ours, theirs) {
                (None, None) => return Ok(false),
                (Some(ours), Some(theirs)) => (ours, theirs),
                (ours, theirs) => {
                    let shown = |it: Option<Value>| it.map_or("the end".into(), |it| it.shown());
                    let (ours, theirs) = (shown(ours), shown(theirs));
                    return Err(Difference { what: call.shown(), ours, theirs });
                }
            };
            if !alike(call.args(), &ours, &theirs, &self.queue) {
                let (ours, theirs) = (ours.shown(), theirs.shown());
                return Err(Difference { what: call.shown(), ours, theirs });
            }
            match theirs {
                Value::Line(line) if line == b"+QUEUED" => self.queue.push(call.args().to_vec()),
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
