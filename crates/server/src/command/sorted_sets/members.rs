//! Commands of sorted sets about members that they name, or draw.

use bytes::Bytes;

use super::stored::{self, KIND, find, put, remove, tell_rest};
use crate::command::args::{is, syntax};
use crate::command::collections::{self, RandomTerms, Shown};
use crate::command::float;
use crate::exec::{Answer, Halt, View, event};
use crate::model::element;
use crate::resp::reply::{Reply, double};

/// What `ZADD` does, and does not.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddTerms {
    /// Adds members.
    pub only_new: bool,
    /// Changes members.
    pub only_old: bool,
    only_greater: bool,
    only_less: bool,
    counts_changed: bool,
    adds_up: bool,
}

impl AddTerms {
    /// The words in front of the first score, and their number.
    pub fn of(words: &[&[u8]], adds_up: bool) -> (Self, usize) {
        let mut terms = Self { adds_up, ..Self::default() };
        for (at, word) in words.iter().enumerate() {
            match word {
                _ if is(word, "NX") => terms.only_new = true,
                _ if is(word, "XX") => terms.only_old = true,
                _ if is(word, "GT") => terms.only_greater = true,
                _ if is(word, "LT") => terms.only_less = true,
                _ if is(word, "CH") => terms.counts_changed = true,
                _ if is(word, "INCR") => terms.adds_up = true,
                _ => return (terms, at),
            }
        }
        (terms, words.len())
    }

    fn check(self, members: usize) -> Answer<()> {
        let compared = [self.only_new, self.only_greater, self.only_less];
        let why = if self.only_new && self.only_old {
            "ERR XX and NX options at the same time are not compatible"
        } else if compared.into_iter().filter(|it| *it).count() > 1 {
            "ERR GT, LT, and/or NX options at the same time are not compatible"
        } else if self.adds_up && members > 1 {
            "ERR INCR option supports a single increment-element pair"
        } else {
            return Ok(());
        };
        Err(Halt::error(why))
    }

    /// The score of a member that has an old one, or not; none if it stays as it is.
    fn score(self, old: Option<f64>, given: f64) -> Answer<Option<f64>> {
        let Some(old) = old else { return Ok((!self.only_old).then_some(given)) };
        if self.only_new {
            return Ok(None);
        }
        let new = if self.adds_up { old + given } else { given };
        if new.is_nan() {
            return Err(Halt::error("ERR resulting score is not a number (NaN)"));
        }
        let stays = self.only_less && new >= old || self.only_greater && new <= old;
        Ok((!stays).then_some(new))
    }
}

fn add<'a>(args: &[&'a [u8]], adds_up: bool, view: &mut View<'a>) -> Answer {
    let (terms, words) = AddTerms::of(&args[2..], adds_up);
    let pairs = &args[2 + words..];
    if pairs.is_empty() || pairs.len() % 2 == 1 {
        return Err(syntax());
    }
    terms.check(pairs.len() / 2)?;
    let no_float = || Halt::error("ERR value is not a valid float");
    let scored = |pair: &[&'a [u8]]| Ok((float::double(pair[0]).ok_or_else(no_float)?, pair[1]));
    let scored = pairs.chunks_exact(2).map(scored).collect::<Answer<Vec<_>>>()?;
    add_members(args[1], terms, &scored, view)
}

/// Gives members of a key's sorted set scores, and replies what the terms ask for.
pub fn add_members<'a>(
    key: &'a [u8],
    terms: AddTerms,
    scored: &[(f64, &'a [u8])],
    view: &mut View<'a>,
) -> Answer {
    let (mut zset, until) = match view.collection(key, KIND)? {
        Some(found) => found,
        None if terms.only_old && terms.adds_up => return Ok(Reply::Nil),
        None if terms.only_old => return Ok(Reply::Integer(0)),
        None => (view.new_collection(KIND)?, None),
    };
    let (before, mut changed, mut last) = (zset.len, 0, None);
    for (given, member) in scored {
        let old = stored::score(zset, member, view)?;
        last = terms.score(old, *given)?;
        if let Some(new) = last
            && old != last
        {
            put(&mut zset, member, old, new, view);
            changed += 1;
        }
    }
    let added = (zset.len - before).cast_signed();
    if changed > 0 {
        view.keep(key, (zset, until));
        view.tell(event::SORTED_SET, if terms.adds_up { "zincr" } else { "zadd" }, key);
    }
    Ok(match terms {
        AddTerms { adds_up: true, .. } => last.map_or(Reply::Nil, Reply::Double),
        AddTerms { counts_changed: true, .. } => Reply::Integer(changed),
        _ => Reply::Integer(added),
    })
}

/// `ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]`
pub fn zadd<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    add(args, false, view)
}

/// `ZINCRBY key number member`
pub fn zincrby<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    add(args, true, view)
}

/// `ZREM key member [member ...]`
pub fn zrem<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let Some((mut zset, until)) = view.collection(args[1], KIND)? else {
        return Ok(Reply::Integer(0));
    };
    let before = zset.len;
    for member in &args[2..] {
        if let Some(score) = stored::score(zset, member, view)? {
            remove(&mut zset, member, score, view);
        }
    }
    let removed = before - zset.len;
    if removed > 0 {
        view.keep(args[1], (zset, until));
        tell_rest(args[1], "zrem", view)?;
    }
    Ok(Reply::Integer(removed.cast_signed()))
}

/// `ZCARD key`
pub fn zcard(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    collections::len(args[1], KIND, view)
}

/// The scores of members of a key's sorted set.
fn scores(key: &[u8], members: &[&[u8]], view: &View<'_>) -> Answer<Vec<Reply>> {
    let zset = find(key, view)?;
    let score = |member: &&[u8]| {
        let score = zset.map(|zset| stored::score(zset, member, view)).transpose()?.flatten();
        Ok(score.map_or(Reply::Nil, Reply::Double))
    };
    members.iter().map(score).collect()
}

/// `ZSCORE key member`
pub fn zscore(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    Ok(scores(args[1], &args[2..], view)?.pop().unwrap_or(Reply::Nil))
}

/// `ZMSCORE key member [member ...]`
pub fn zmscore(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    scores(args[1], &args[2..], view).map(Reply::Array)
}

fn rank(args: &[&[u8]], is_reversed: bool, view: &View<'_>) -> Answer {
    let Some(zset) = find(args[1], view)? else { return Ok(Reply::Nil) };
    let Some(score) = stored::score(zset, args[2], view)? else { return Ok(Reply::Nil) };
    let rank = stored::rank(zset, args[2], score, is_reversed, view)?;
    Ok(Reply::Integer(rank.cast_signed()))
}

/// `ZRANK key member`
pub fn zrank(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    rank(args, false, view)
}

/// `ZREVRANK key member`
pub fn zrevrank(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    rank(args, true, view)
}

/// `ZRANDMEMBER key [count [WITHSCORES]]`
pub fn zrandmember(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let terms = RandomTerms::of(args, "WITHSCORES")?;
    collections::random(args[1], KIND, terms, view, &|name, value| {
        (name, element::member_score(&value).map_or(Reply::Nil, Reply::Double))
    })
}

/// A score as Redis scans it in small sorted sets, where long integers have all their digits.
fn scanned(score: f64) -> Reply {
    let is_long = (1e17..=(1_i64 << 62) as f64).contains(&score.abs());
    Reply::Bulk(if is_long { (score as i64).to_string() } else { double(score) }.into())
}

/// `ZSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn zscan(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let shown = |_: &[u8], value: Bytes| element::member_score(&value).map_or(Reply::Nil, scanned);
    collections::scan(args, KIND, view, Shown::WithValues(&shown))
}
