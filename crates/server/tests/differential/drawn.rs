//! Commands that are drawn from a seed.

mod forms;
mod places;
mod streams;
mod arguments;

use fastrand::Rng;

use self::arguments::argument;
use crate::wire::array;

/// Forms of commands, of which some are drawn more often.
#[derive(Clone, Copy)]
pub struct Forms {
    all: &'static [&'static str],
    often: &'static str,
}

impl Forms {
    /// Of commands of all kinds.
    pub const ANY: Self = Self { all: &[forms::FORMS, places::FORMS], often: forms::OFTEN };
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
        || form.contains("subscribe ")
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
    if is_short(&args) || ends_all(&args) {
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

/// Whether all topics are ended, of which the order is each server's own.
fn ends_all(args: &[Vec<u8>]) -> bool {
    args.len() == 1 && args[0].to_ascii_lowercase().ends_with(b"unsubscribe")
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
