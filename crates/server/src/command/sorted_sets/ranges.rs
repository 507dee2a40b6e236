//! Commands of sorted sets about spans of them.

use super::span::{By, MemberSpan, Window, count, select};
use super::stored::{self, KIND, find, shown, store, take};
use crate::command::args::{is, number, syntax};
use crate::exec::{Answer, ElementForm, Halt, View};
use crate::resp::reply::Reply;

/// What the name of a command says of a range; words behind its ends say the rest.
#[derive(Clone, Copy, Default)]
struct RangeForm {
    by: Option<By>,
    is_reversed: Option<bool>,
    stores: bool,
}

/// What is asked for.
struct RangeTerms<'a> {
    key: &'a [u8],
    span: MemberSpan<'a>,
    window: Window,
    with_scores: bool,
}

impl<'a> RangeTerms<'a> {
    /// A key, the ends of a span, and words.
    fn of(args: &[&'a [u8]], named: RangeForm) -> Answer<Self> {
        let RangeForm { mut by, mut is_reversed, stores } = named;
        let (mut window, mut with_scores, mut words) = (Window::ALL, false, &args[3..]);
        while let [word, rest @ ..] = words {
            words = match rest {
                _ if is(word, "WITHSCORES") && !stores => {
                    with_scores = true;
                    rest
                }
                [offset, limit, rest @ ..] if is(word, "LIMIT") => {
                    (window.offset, window.limit) = (number(offset)?, number(limit)?);
                    rest
                }
                _ if is(word, "REV") && is_reversed.is_none() => {
                    is_reversed = Some(true);
                    rest
                }
                _ if is(word, "BYLEX") && by.is_none() => {
                    by = Some(By::Lex);
                    rest
                }
                _ if is(word, "BYSCORE") && by.is_none() => {
                    by = Some(By::Score);
                    rest
                }
                _ => return Err(syntax()),
            };
        }
        let by = by.unwrap_or(By::Rank);
        window.is_reversed = is_reversed.unwrap_or(false);
        if window.limit != -1 && by == By::Rank {
            let why = "ERR syntax error, LIMIT is only supported in combination with either \
                       BYSCORE or BYLEX";
            return Err(Halt::error(why));
        }
        if with_scores && by == By::Lex {
            let why = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
            return Err(Halt::error(why));
        }
        let (from, to) = match window.is_reversed && by != By::Rank {
            true => (args[2], args[1]),
            false => (args[1], args[2]),
        };
        Ok(Self { key: args[0], span: MemberSpan::of(by, from, to)?, window, with_scores })
    }
}

fn range(args: &[&[u8]], named: RangeForm, view: &View<'_>) -> Answer {
    let RangeTerms { key, span, window, with_scores } = RangeTerms::of(&args[1..], named)?;
    let Some(zset) = find(key, view)? else { return Ok(Reply::Array(Vec::new())) };
    if let Some(ranks) = span.ranks(zset)
        && let Some(count) = ranks.end.checked_sub(ranks.start)
    {
        let form = if with_scores { ElementForm::ScoredMembers } else { ElementForm::Members };
        stored::send_long(zset, ranks.start, count, window.is_reversed, form, view)?;
    }
    select(zset, span, window, view).map(|members| shown(members, with_scores))
}

const fn named(by: By, is_reversed: bool) -> RangeForm {
    RangeForm { by: Some(by), is_reversed: Some(is_reversed), stores: false }
}

/// `ZRANGE key from to [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub fn zrange(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    range(args, RangeForm::default(), view)
}

/// `ZREVRANGE key from to [WITHSCORES]`
pub fn zrevrange(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    range(args, named(By::Rank, true), view)
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
pub fn zrangebyscore(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    range(args, named(By::Score, false), view)
}

/// `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`
pub fn zrevrangebyscore(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    range(args, named(By::Score, true), view)
}

/// `ZRANGEBYLEX key min max [LIMIT offset count]`
pub fn zrangebylex(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    range(args, named(By::Lex, false), view)
}

/// `ZREVRANGEBYLEX key max min [LIMIT offset count]`
pub fn zrevrangebylex(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    range(args, named(By::Lex, true), view)
}

/// `ZRANGESTORE to from min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
pub fn zrangestore<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    let terms = RangeTerms::of(&args[2..], RangeForm { stores: true, ..RangeForm::default() })?;
    let members = match find(terms.key, view)? {
        Some(zset) => select(zset, terms.span, terms.window, view)?,
        None => Vec::new(),
    };
    store(args[1], &members, "zrangestore", view)
}

fn counted(args: &[&[u8]], by: By, view: &View<'_>) -> Answer {
    let span = MemberSpan::of(by, args[2], args[3])?;
    let zset = find(args[1], view)?;
    Ok(Reply::Integer(zset.map_or(Ok(0), |zset| count(zset, span, view))?))
}

/// `ZCOUNT key min max`
pub fn zcount(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    counted(args, By::Score, view)
}

/// `ZLEXCOUNT key min max`
pub fn zlexcount(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    counted(args, By::Lex, view)
}

fn remove<'a>(args: &[&'a [u8]], by: By, event: &'static str, view: &mut View<'a>) -> Answer {
    let span = MemberSpan::of(by, args[2], args[3])?;
    let Some(zset) = view.collection(args[1], KIND)? else { return Ok(Reply::Integer(0)) };
    let members = select(zset.0, span, Window::ALL, view)?;
    take(args[1], zset, &members, event, view)?;
    Ok(Reply::Integer(members.len() as i64))
}

/// `ZREMRANGEBYRANK key from to`
pub fn zremrangebyrank<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    remove(args, By::Rank, "zremrangebyrank", view)
}

/// `ZREMRANGEBYSCORE key min max`
pub fn zremrangebyscore<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    remove(args, By::Score, "zremrangebyscore", view)
}

/// `ZREMRANGEBYLEX key min max`
pub fn zremrangebylex<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    remove(args, By::Lex, "zremrangebylex", view)
}
