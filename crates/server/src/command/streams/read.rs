//! What clients read of several streams, with or without a group, and with or without a wait.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use super::group::OpenGroup;
use super::ids::{IdRange, id};
use super::{StreamEntry, delivery, entries, find, shown_all, timeout};
use crate::command::args::{is, number, showing_all, shown, syntax};
use crate::exec::{Answer, Halt, KeyWait, ResumedCommand, Run, View};
use crate::model::record::Collection;
use crate::model::stream::StreamId;
use crate::resp::reply::Reply;

/// Most entries of a stream that a client gets that has waited, if it has not said how many.
const RESUMED_COUNT: u64 = 1000;

/// The places of the options of `XREAD` and `XREADGROUP`, up to the word in front of the keys.
fn options(args: &[&[u8]]) -> impl Iterator<Item = usize> {
    let next = |at: &usize| {
        let words = match args[*at] {
            word if is(word, "BLOCK") || is(word, "COUNT") => 2,
            word if is(word, "GROUP") => 3,
            word if is(word, "NOACK") => 1,
            _ => return None,
        };
        Some(at + words).filter(|next| *next < args.len())
    };
    std::iter::successors(Some(1).filter(|first| *first < args.len()), next)
}

/// The places of the keys among the arguments of `XREAD` and `XREADGROUP`: half of what stands
/// behind the word for it.
pub fn keys_of(args: &[&[u8]]) -> Range<usize> {
    let streams = options(args).find(|at| is(args[*at], "STREAMS"));
    streams.map_or(0..0, |at| at + 1..at + 1 + (args.len() - at - 1) / 2)
}

/// Whether `XREAD` or `XREADGROUP` is to wait.
pub fn waits(args: &[&[u8]]) -> bool {
    options(args).any(|at| is(args[at], "BLOCK"))
}

/// What `XREAD` and `XREADGROUP` ask for.
struct ReadTerms<'t, 'a> {
    /// How long a client waits, if it does.
    block: Option<Option<Duration>>,
    /// Most entries of a stream; all of 0.
    count: u64,
    /// Whether what is given is acknowledged.
    is_settled: bool,
    /// A group and a consumer.
    group: Option<[&'a [u8]; 2]>,
    keys: &'t [&'a [u8]],
    ids: &'t [&'a [u8]],
}

impl<'t, 'a> ReadTerms<'t, 'a> {
    fn of(args: &'t [&'a [u8]], of_group: bool) -> Answer<Self> {
        let mut terms =
            Self { block: None, count: 0, is_settled: false, group: None, keys: &[], ids: &[] };
        let mut words = &args[1..];
        while let [word, rest @ ..] = words {
            words = match rest {
                [millis, rest @ ..] if is(word, "BLOCK") => {
                    terms.block = Some(timeout(millis)?);
                    rest
                }
                [count, rest @ ..] if is(word, "COUNT") => {
                    terms.count = number(count)?.max(0).cast_unsigned();
                    rest
                }
                [_, ..] if is(word, "STREAMS") => return terms.with_streams(rest, of_group),
                [_, _, ..] if is(word, "GROUP") && !of_group => return Err(of_groups("GROUP")),
                [group, consumer, rest @ ..] if is(word, "GROUP") => {
                    terms.group = Some([group, consumer]);
                    rest
                }
                _ if is(word, "NOACK") && !of_group => return Err(of_groups("NOACK")),
                _ if is(word, "NOACK") => {
                    terms.is_settled = true;
                    rest
                }
                _ => return Err(syntax()),
            };
        }
        Err(syntax())
    }

    fn with_streams(self, words: &'t [&'a [u8]], of_group: bool) -> Answer<Self> {
        if words.len() % 2 == 1 {
            return Err(Halt::error(
                "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be \
                 specified.",
            ));
        }
        if of_group && self.group.is_none() {
            return Err(Halt::error("ERR Missing GROUP option for XREADGROUP"));
        }
        let (keys, ids) = words.split_at(words.len() / 2);
        Ok(Self { keys, ids, ..self })
    }

    /// Has the client wait, if it is to: each key has a call of `run` with some words.
    fn wait(&self, run: Run, needs_keys: bool, words: &dyn Fn(usize) -> Vec<Vec<u8>>) -> Answer {
        let Some(timeout) = self.block else { return Ok(Reply::NilArray) };
        let count = if self.count == 0 { RESUMED_COUNT } else { self.count };
        let call = |(at, key): (usize, &&[u8])| {
            let args = [vec![key.to_vec(), count.to_string().into()], words(at)].concat();
            (key.to_vec(), args)
        };
        let calls = self.keys.iter().enumerate().map(call).collect();
        Err(wait(timeout, Some(ResumedCommand { run, calls, needs_keys })))
    }
}

fn of_groups(name: &str) -> Halt {
    let why = "option is only supported by XREADGROUP. You called XREAD instead.";
    Halt::error(format!("ERR The {name} {why}"))
}

fn wait(timeout: Option<Duration>, resumed: Option<ResumedCommand>) -> Halt {
    Halt::Block(KeyWait { timeout, in_transaction: Reply::NilArray, resumed })
}

fn named(key: &[u8], entries: Reply) -> (Reply, Reply) {
    (Reply::Bulk(Bytes::copy_from_slice(key)), entries)
}

/// `XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]`: entries behind an
/// id, which is `$` for the last one.
pub fn xread<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let terms = ReadTerms::of(args, false)?;
    let mut places = Vec::with_capacity(terms.keys.len());
    for (key, text) in terms.keys.iter().zip(terms.ids) {
        let stream = find(key, view)?.map(|(stream, _)| stream);
        let behind = match shown(text, text.len()) {
            b"$" => stream.map_or(StreamId::MIN, |stream| stream.stream.last),
            b">" => {
                return Err(Halt::error(
                    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP \
                     <group> <consumer> option.",
                ));
            }
            _ => id(text, 0)?,
        };
        places.push((stream, behind));
    }
    let mut replies = Vec::new();
    for (key, (stream, behind)) in terms.keys.iter().zip(&places) {
        let Some(stream) = stream.filter(|stream| stream.stream.last > *behind) else { continue };
        let found = entries(&stream, IdRange::behind(*behind), false, terms.count, view)?;
        if !found.is_empty() {
            replies.push(named(key, shown_all(&stream, found)?));
        }
    }
    match replies.is_empty() {
        true => terms.wait(resumed, false, &|at| vec![places[at].1.to_string().into()]),
        false => Ok(Reply::Keyed(replies)),
    }
}

/// What `XREAD` answers that has waited for a key: its arguments are the key, the number of
/// entries, and the id behind which they are wanted.
fn resumed<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let [key, count, behind] = args else { return Err(syntax()) };
    let (behind, count) = (id(behind, 0)?, number(count)?.cast_unsigned());
    match find(key, view)? {
        // Entries that were added and are gone count, too.
        Some((stream, _)) if stream.stream.last > behind => {
            let found = entries(&stream, IdRange::behind(behind), false, count, view)?;
            Ok(Reply::Keyed(vec![named(key, shown_all(&stream, found)?)]))
        }
        _ => Err(wait(None, None)),
    }
}

/// The id of an argument of `XREADGROUP`; none for entries that the group was not given.
fn history(text: &[u8]) -> Answer<Option<StreamId>> {
    match shown(text, text.len()) {
        b"$" => Err(Halt::error(
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the \
             history of this consumer by specifying a proper ID, or use the > ID to get new \
             messages. The $ ID would just return an empty result set.",
        )),
        b">" => Ok(None),
        _ => Ok(Some(id(text, 0)?).filter(|id| *id < StreamId::MAX)),
    }
}

/// `XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key
/// ...] id [id ...]`: entries that the group was not given, for `>`, or those that the consumer has
/// behind an id.
pub fn xreadgroup<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let terms = ReadTerms::of(args, true)?;
    let [group, consumer] = terms.group.ok_or_else(syntax)?;
    let mut places = Vec::with_capacity(terms.keys.len());
    for (key, text) in terms.keys.iter().zip(terms.ids) {
        if OpenGroup::find(key, group, view)?.is_none() {
            return Err(showing_all(&[
                b"NOGROUP No such key '",
                key,
                b"' or consumer group '",
                group,
                b"' in XREADGROUP with GROUP option",
            ]));
        }
        places.push(history(text)?);
    }
    let mut replies = Vec::new();
    for (key, behind) in terms.keys.iter().zip(places) {
        let Some(mut group) = OpenGroup::find(key, group, view)? else { continue };
        let found = match behind {
            Some(behind) => delivery::again(&mut group, consumer, key, behind, terms.count, view)?,
            None => {
                let found = unread(&group, terms.count, view)?;
                if found.is_empty() {
                    continue;
                }
                delivery::first(&mut group, consumer, key, found, terms.is_settled, view)?
            }
        };
        replies.push(named(key, found));
    }
    match replies.is_empty() {
        true => terms.wait(resumed_group, true, &|_| {
            let settled = if terms.is_settled { "1" } else { "0" };
            vec![group.to_vec(), consumer.to_vec(), settled.into()]
        }),
        false => Ok(Reply::Keyed(replies)),
    }
}

/// The entries that a group was not given.
fn unread(group: &OpenGroup<'_>, count: u64, view: &View<'_>) -> Answer<Vec<StreamEntry>> {
    match group.stream.stream.last > group.state.last {
        true => entries(&group.stream, IdRange::behind(group.state.last), false, count, view),
        false => Ok(Vec::new()),
    }
}

/// What `XREADGROUP` answers that has waited for a key: its arguments are the key, the number of
/// entries, group, consumer, and 1 if what is given is acknowledged.
fn resumed_group<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let [key, count, group, consumer, is_settled] = args else { return Err(syntax()) };
    let stream: Option<Collection> = match find(key, view) {
        Ok(found) => found.map(|(stream, _)| stream),
        Err(Halt::Error(_)) => None,
        Err(halt) => return Err(halt),
    };
    let Some(stream) = stream else {
        return Ok(Reply::error("UNBLOCKED the stream key no longer exists"));
    };
    let Some(mut group) = OpenGroup::of(stream, group, view)? else {
        let why = "NOGROUP the consumer group this client was blocked on no longer exists";
        return Ok(Reply::error(why));
    };
    if stream.stream.last <= group.state.last {
        return Err(wait(None, None));
    }
    let found = unread(&group, number(count)?.cast_unsigned(), view)?;
    let is_settled = *is_settled == b"1";
    let found = delivery::first(&mut group, consumer, key, found, is_settled, view)?;
    Ok(Reply::Keyed(vec![named(key, found)]))
}
