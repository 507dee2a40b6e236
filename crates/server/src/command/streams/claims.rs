//! `XCLAIM` and `XAUTOCLAIM`: what takes pending entries over for a consumer.

use std::ops::ControlFlow;

use super::group::{OpenConsumer, OpenGroup};
use super::ids::{IdRange, id, start};
use super::pending::no_key_or_group;
use super::{shown, shown_id};
use crate::command::args::{at_least, is, showing, syntax};
use crate::exec::{Answer, Halt, View};
use crate::model::element::MEMBERS;
use crate::model::group::PendingEntry;
use crate::model::stream::StreamId;
use crate::resp::reply::Reply;

/// Entries that `XAUTOCLAIM` looks at for each that it may take.
const ATTEMPTS: u64 = 10;

/// Most entries that `XAUTOCLAIM` may take.
const COUNT_MAX: i64 = i64::MAX / 16;

/// What becomes of entries that are taken over.
#[derive(Clone, Copy, Debug)]
struct ClaimTerms {
    /// The least time since they were given, in milliseconds.
    idle: i64,
    /// When they count as given, in milliseconds since 1970.
    given: u64,
    /// How often they count as given, if not once more.
    times: Option<u64>,
    /// Whether entries are taken that were not pending.
    forces: bool,
    /// Whether ids alone are told, and entries count as given no more often.
    only_ids: bool,
    /// An entry that the group was given.
    last: StreamId,
}

fn millis(text: &[u8], what: &str, command: &str) -> Answer<i64> {
    let why = || Halt::error(format!("ERR Invalid {what} argument for {command}"));
    at_least(text, i64::MIN, "").map_err(|_| why())
}

impl ClaimTerms {
    fn new(idle: i64, now: u64) -> Self {
        let idle = idle.max(0);
        let last = StreamId::MIN;
        Self { idle, given: now, times: None, forces: false, only_ids: false, last }
    }

    /// The words behind the ids of `XCLAIM`.
    fn of(idle: i64, mut words: &[&[u8]], now: u64) -> Answer<Self> {
        let mut terms = Self::new(idle, now);
        while let [word, rest @ ..] = words {
            let option = |name: &str| format!("{name} option");
            words = match rest {
                _ if is(word, "FORCE") => {
                    terms.forces = true;
                    rest
                }
                _ if is(word, "JUSTID") => {
                    terms.only_ids = true;
                    rest
                }
                [value, rest @ ..] if is(word, "IDLE") || is(word, "TIME") => {
                    let is_idle = is(word, "IDLE");
                    let name = option(if is_idle { "IDLE" } else { "TIME" });
                    let number = millis(value, &name, "XCLAIM")?;
                    let time = match is_idle {
                        true => now.cast_signed().wrapping_sub(number),
                        false => number,
                    };
                    // Clocks of clients are not those of the server.
                    terms.given =
                        u64::try_from(time).ok().filter(|time| *time <= now).unwrap_or(now);
                    rest
                }
                [value, rest @ ..] if is(word, "RETRYCOUNT") => {
                    let times = millis(value, &option("RETRYCOUNT"), "XCLAIM")?;
                    terms.times = u64::try_from(times).ok();
                    rest
                }
                [value, rest @ ..] if is(word, "LASTID") => {
                    terms.last = id(value, 0)?;
                    rest
                }
                _ => return Err(showing("ERR Unrecognized XCLAIM option '", word, "'")),
            };
        }
        Ok(terms)
    }

    /// Whether an entry was given so long ago that it may be taken over.
    fn allows(&self, entry: &PendingEntry, now: u64) -> bool {
        self.idle == 0 || now.wrapping_sub(entry.given).cast_signed() >= self.idle
    }
}

/// A consumer that takes entries over, and is made with the first one.
struct Claimer<'a> {
    group: OpenGroup<'a>,
    key: &'a [u8],
    name: &'a [u8],
    consumer: Option<OpenConsumer<'a>>,
    replies: Vec<Reply>,
}

impl<'a> Claimer<'a> {
    /// Takes an entry over that the stream has.
    fn claim(
        &mut self,
        id: StreamId,
        old: Option<&PendingEntry>,
        terms: &ClaimTerms,
        view: &mut View<'a>,
    ) -> Answer<()> {
        let mut consumer = match self.consumer.take() {
            Some(consumer) => consumer,
            None => self.group.see(self.name, self.key, view)?,
        };
        let before = old.map_or(1, |old| old.times);
        let once_more = if terms.only_ids { before } else { before.wrapping_add(1) };
        let times = terms.times.unwrap_or(once_more);
        self.group.give(&mut consumer, id, old, times, terms.given, view)?;
        self.group.save_consumer(consumer.name, consumer.state, view);
        self.consumer = Some(consumer);
        self.replies.push(match terms.only_ids {
            true => shown_id(id),
            false => {
                let value = view.element(self.group.stream.id, MEMBERS, &id.to_bytes())?;
                let value = value.ok_or_else(|| super::damaged(&self.group.stream, "an entry"))?;
                shown(&self.group.stream, (id, value))?
            }
        });
        Ok(())
    }

    /// Has an entry pending no more that the stream has lost.
    fn forget(&mut self, id: StreamId, entry: &PendingEntry, view: &mut View<'a>) -> Answer<()> {
        self.group.settle(id, entry, view)?;
        if let Some(consumer) = self.consumer.as_mut().filter(|it| entry.consumer == it.name) {
            consumer.state.pending = consumer.state.pending.saturating_sub(1);
        }
        Ok(())
    }

    fn is_there(&self, id: StreamId, view: &View<'_>) -> Answer<bool> {
        view.has_element(self.group.stream.id, MEMBERS, &id.to_bytes())
    }
}

/// `XCLAIM key group consumer idle id [id ...] [IDLE milliseconds] [TIME milliseconds] [RETRYCOUNT
/// count] [FORCE] [JUSTID] [LASTID id]`
pub fn xclaim<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let [_, key, name, consumer, idle, words @ ..] = args else { return Err(syntax()) };
    let Some(group) = OpenGroup::find(key, name, view)? else {
        return Err(no_key_or_group(key, name));
    };
    let idle = millis(idle, "min-idle-time", "XCLAIM")?;
    let ids: Vec<StreamId> = words.iter().map_while(|text| id(text, 0).ok()).collect();
    let terms = ClaimTerms::of(idle, &words[ids.len()..], view.now)?;
    let mut claimer = Claimer { group, key, name: consumer, consumer: None, replies: Vec::new() };
    claimer.group.state.last = claimer.group.state.last.max(terms.last);
    for id in ids {
        let old = claimer.group.pending(id, view)?;
        match old {
            _ if !claimer.is_there(id, view)? => {
                if let Some(entry) = &old {
                    claimer.forget(id, entry, view)?;
                }
            }
            None if !terms.forces => {}
            Some(entry) if !terms.allows(&entry, view.now) => {}
            old => claimer.claim(id, old.as_ref(), &terms, view)?,
        }
    }
    claimer.group.save(view);
    Ok(Reply::Array(claimer.replies))
}

/// `XAUTOCLAIM key group consumer idle start [COUNT count] [JUSTID]`: where to go on, the entries
/// that were taken over, and ids of those that the stream has lost.
pub fn xautoclaim<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let [_, key, name, consumer, idle, from, words @ ..] = args else { return Err(syntax()) };
    let idle = millis(idle, "min-idle-time", "XAUTOCLAIM")?;
    let (from, mut words, mut count) = (start(from)?, words, 100);
    let mut terms = ClaimTerms::new(idle, view.now);
    while let [word, rest @ ..] = words {
        words = match rest {
            [number, rest @ ..] if is(word, "COUNT") => {
                let why = "ERR COUNT must be > 0";
                let most = Some(at_least(number, 1, why)?).filter(|count| *count <= COUNT_MAX);
                count = most.ok_or_else(|| Halt::error(why))?.cast_unsigned();
                rest
            }
            _ if is(word, "JUSTID") => {
                terms.only_ids = true;
                rest
            }
            _ => return Err(syntax()),
        };
    }
    let Some(group) = OpenGroup::find(key, name, view)? else {
        return Err(no_key_or_group(key, name));
    };
    let mut claimer = Claimer { group, key, name: consumer, consumer: None, replies: Vec::new() };
    let (taken, next) = claimable(&claimer, from, count, &terms, view)?;
    let mut lost = Vec::new();
    for (id, entry, is_there) in taken {
        if is_there {
            claimer.claim(id, Some(&entry), &terms, view)?;
        } else {
            claimer.forget(id, &entry, view)?;
            lost.push(shown_id(id));
        }
    }
    claimer.group.save(view);
    Ok(Reply::Array(vec![shown_id(next), Reply::Array(claimer.replies), Reply::Array(lost)]))
}

/// A pending entry with its id, and whether the stream has it.
type Claimable = (StreamId, PendingEntry, bool);

/// Pending entries that may be taken over or forgotten, and the id where to go on.
fn claimable(
    claimer: &Claimer<'_>,
    from: StreamId,
    count: u64,
    terms: &ClaimTerms,
    view: &View<'_>,
) -> Answer<(Vec<Claimable>, StreamId)> {
    let (mut taken, mut next, mut failed) = (Vec::new(), StreamId::MIN, None);
    let mut attempts = count.saturating_mul(ATTEMPTS);
    let within = IdRange { from, to: StreamId::MAX };
    claimer.group.walk_pending(within, false, view, &mut |id, entry| {
        if attempts == 0 || taken.len() as u64 == count {
            next = id;
            return ControlFlow::Break(());
        }
        attempts -= 1;
        match claimer.is_there(id, view) {
            Ok(is_there) if !is_there || terms.allows(&entry, view.now) => {
                taken.push((id, entry, is_there));
            }
            Ok(_) => {}
            Err(halt) => {
                failed = Some(halt);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok((taken, next)), Err)
}
