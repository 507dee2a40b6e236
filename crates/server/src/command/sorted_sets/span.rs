//! Spans of sorted sets: members between two ranks, two scores, or two texts.

use std::ops::{Bound, ControlFlow, Range, RangeBounds};

use bytes::Bytes;

use super::stored::{ScoredMember, VisitMember, at_ranks, walk};
use crate::command::args::{number, shown};
use crate::command::float;
use crate::exec::{Answer, Halt, View};
use crate::model::element::{self, NameRange};
use crate::model::record::Collection;

/// What the ends of a span are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Rank,
    Score,
    Lex,
}

/// Members of a sorted set.
#[derive(Clone, Copy, Debug)]
pub enum MemberSpan<'a> {
    /// From one rank to another one; negative ones are counted from the end.
    Ranks(i64, i64),
    /// From one name among scores to one behind them.
    Scores([u8; 8], [u8; 8]),
    /// Between two texts. All members are to have one score.
    Texts(Bound<&'a [u8]>, Bound<&'a [u8]>),
    /// None, since the first text is the last of all, or the last one the first.
    Nothing,
}

impl<'a> MemberSpan<'a> {
    /// The span between two arguments, of which the second one is not below the first.
    pub fn of(by: By, from: &'a [u8], to: &'a [u8]) -> Answer<Self> {
        match by {
            By::Rank => Ok(Self::Ranks(number(from)?, number(to)?)),
            By::Score => {
                let ends = score_end(from).zip(score_end(to));
                let no_float = || Halt::error("ERR min or max is not a float");
                let ((from, is_behind), (to, is_before)) = ends.ok_or_else(no_float)?;
                let begin = |score: f64, is_behind: bool| match is_behind {
                    true => element::behind_score(score),
                    false => element::of_score(score),
                };
                Ok(Self::Scores(begin(from, is_behind), begin(to, !is_before)))
            }
            By::Lex => {
                let ends = TextEnd::of(from).zip(TextEnd::of(to));
                let no_text = || Halt::error("ERR min or max not valid string range item");
                Ok(match ends.ok_or_else(no_text)? {
                    (TextEnd::Last, _) | (_, TextEnd::First) => Self::Nothing,
                    (from, to) => Self::Texts(from.bound(), to.bound()),
                })
            }
        }
    }
}

impl MemberSpan<'_> {
    /// The ranks of a span that names them.
    pub fn ranks(self, zset: Collection) -> Option<Range<u64>> {
        let Self::Ranks(from, to) = self else { return None };
        let place = |rank: i64| match rank {
            ..0 => zset.len.checked_sub(rank.unsigned_abs()),
            _ => Some(rank.cast_unsigned()),
        };
        let end = place(to).map_or(0, |last| last.saturating_add(1));
        Some(place(from).unwrap_or(0)..end.min(zset.len))
    }
}

/// A score, and whether the end lies beside it, as C's `strtod` reads both.
fn score_end(text: &[u8]) -> Option<(f64, bool)> {
    let text = shown(text, usize::MAX);
    let (text, is_beside) = match text {
        [b'(', text @ ..] => (text, true),
        _ => (text, false),
    };
    if text.is_empty() {
        return Some((0.0, is_beside));
    }
    let score = float::any_double(float::behind_blanks(text)).filter(|score| !score.is_nan())?;
    Some((score, is_beside))
}

/// An end of a span of texts.
enum TextEnd<'a> {
    /// In front of all.
    First,
    /// Behind all.
    Last,
    At(Bound<&'a [u8]>),
}

impl<'a> TextEnd<'a> {
    fn of(text: &'a [u8]) -> Option<Self> {
        match text {
            [b'-'] | [b'-', 0, ..] => Some(Self::First),
            [b'+'] | [b'+', 0, ..] => Some(Self::Last),
            [b'(', text @ ..] => Some(Self::At(Bound::Excluded(text))),
            [b'[', text @ ..] => Some(Self::At(Bound::Included(text))),
            _ => None,
        }
    }

    fn bound(self) -> Bound<&'a [u8]> {
        if let Self::At(bound) = self { bound } else { Bound::Unbounded }
    }
}

/// Which members of a span, in which order.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Whether the last one comes first.
    pub is_reversed: bool,
    /// How many are left out at the begin; of a negative number all.
    pub offset: i64,
    /// How many there are at most; of a negative number all.
    pub limit: i64,
}

impl Window {
    /// All, with the first one first.
    pub const ALL: Self = Self { is_reversed: false, offset: 0, limit: -1 };
}

/// The members of a span; ranks know no offset and no limit.
pub fn select(
    zset: Collection,
    span: MemberSpan<'_>,
    window: Window,
    view: &View<'_>,
) -> Answer<Vec<ScoredMember>> {
    if let Some(ranks) = span.ranks(zset) {
        return at_ranks(zset, ranks, window.is_reversed, view);
    }
    let mut found = Vec::new();
    visit(zset, span, window, view, &mut |member, score| {
        found.push((Bytes::copy_from_slice(member), score));
    })?;
    Ok(found)
}

/// The number of members in a span of scores or texts.
pub fn count(zset: Collection, span: MemberSpan<'_>, view: &View<'_>) -> Answer<i64> {
    if let MemberSpan::Scores(from, to) = span {
        return view.members_between(&zset, &from, &to).map(u64::cast_signed);
    }
    let mut count = 0;
    visit(zset, span, Window::ALL, view, &mut |_, _| count += 1)?;
    Ok(count)
}

/// Visits the members of a span of scores or texts.
fn visit(
    zset: Collection,
    span: MemberSpan<'_>,
    window: Window,
    view: &View<'_>,
    visit: &mut dyn FnMut(&[u8], f64),
) -> Answer<()> {
    if window.offset < 0 || window.limit == 0 {
        return Ok(());
    }
    match span {
        MemberSpan::Ranks(..) | MemberSpan::Nothing => Ok(()),
        MemberSpan::Scores(from, to) => {
            let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
            walk(zset, range, window.is_reversed, view, &mut windowed(window, visit))
        }
        MemberSpan::Texts(from, to) => between_texts(zset, (from, to), window, view, visit),
    }
}

/// Visits what a window shows of that which is walked.
fn windowed(
    window: Window,
    visit: &mut dyn FnMut(&[u8], f64),
) -> impl FnMut(&[u8], f64) -> ControlFlow<()> {
    let Window { mut offset, limit, .. } = window;
    let mut left = u64::try_from(limit).unwrap_or(u64::MAX);
    move |member, score| {
        if offset > 0 {
            offset -= 1;
            return ControlFlow::Continue(());
        }
        visit(member, score);
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Visits the members between two texts. If there are several scores, what that is has no meaning:
/// then it is what Redis does with small sets.
fn between_texts(
    zset: Collection,
    texts: NameRange<'_>,
    window: Window,
    view: &View<'_>,
    visit: &mut dyn FnMut(&[u8], f64),
) -> Answer<()> {
    let (from, to) = texts;
    let none: Bound<&[u8]> = Bound::Unbounded;
    let all = (none, none);
    let end = |is_reversed| {
        let mut found = None;
        walk(zset, all, is_reversed, view, &mut |member, score| {
            found = Some((member.to_vec(), score));
            ControlFlow::Break(())
        })?;
        Ok(found)
    };
    let (Some((first, score)), Some((last, of_last))) = (end(false)?, end(true)?) else {
        return Ok(());
    };
    let is_behind = |member: &[u8]| RangeBounds::<[u8]>::contains(&(from, none), member);
    let is_before = |member: &[u8]| RangeBounds::<[u8]>::contains(&(none, to), member);
    if !is_behind(&last) || !is_before(&first) {
        return Ok(());
    }
    if score == of_last {
        let named = |text: &[u8]| element::of_scored(score, text);
        let (from, to) = (from.map(named), to.map(named));
        let range = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        return walk(zset, range, window.is_reversed, view, &mut windowed(window, visit));
    }
    let begins =
        |member: &[u8]| if window.is_reversed { is_before(member) } else { is_behind(member) };
    let ends =
        |member: &[u8]| if window.is_reversed { is_behind(member) } else { is_before(member) };
    let (mut has_begun, mut offset) = (false, window.offset);
    let mut shown = windowed(Window { offset: 0, ..window }, visit);
    let mut visit = |member: &[u8], score| {
        if !has_begun && !begins(member) {
            return ControlFlow::Continue(());
        }
        let is_over = !ends(member) && (!has_begun || offset == 0);
        has_begun = true;
        match is_over {
            true => ControlFlow::Break(()),
            false if offset > 0 => {
                offset -= 1;
                ControlFlow::Continue(())
            }
            false => shown(member, score),
        }
    };
    let visit: &mut VisitMember<'_> = &mut visit;
    walk(zset, all, window.is_reversed, view, visit)
}
