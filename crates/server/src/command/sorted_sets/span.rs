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
        view.holding(member.len())
    })?;
    Ok(found)
}

/// The number of members in a span of scores or texts.
pub fn count(zset: Collection, span: MemberSpan<'_>, view: &View<'_>) -> Answer<i64> {
    let mut count = 0;
    if let Some((from, to)) = names(zset, span, view)? {
        return view.members_between(&zset, &from, &to).map(u64::cast_signed);
    }
    visit(zset, span, Window::ALL, view, &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

/// The name among the scores from which a span reaches, and that up to which; none if its members
/// do not stand side by side there.
fn names(
    zset: Collection,
    span: MemberSpan<'_>,
    view: &View<'_>,
) -> Answer<Option<(Vec<u8>, Vec<u8>)>> {
    match span {
        MemberSpan::Ranks(..) => Ok(None),
        MemberSpan::Nothing => Ok(Some((Vec::new(), Vec::new()))),
        MemberSpan::Scores(from, to) => Ok(Some((from.into(), to.into()))),
        MemberSpan::Texts(from, to) => {
            let ends = [first_member(zset, false, view)?, first_member(zset, true, view)?];
            let [Some((_, score)), Some((_, last))] = ends else { return Ok(None) };
            // A zero behind a text stands for the next one.
            let name = |text: &[u8], behind: bool| {
                [&element::of_scored(score, text)[..], if behind { b"\0" } else { b"" }].concat()
            };
            let of = |end: Bound<&[u8]>, none: [u8; 8], is_last: bool| match end {
                Bound::Unbounded => none.into(),
                Bound::Included(text) => name(text, is_last),
                Bound::Excluded(text) => name(text, !is_last),
            };
            let from = of(from, element::of_score(score), false);
            let to = of(to, element::behind_score(score), true);
            Ok((score == last).then_some((from, to)))
        }
    }
}

/// The first member, or the last one of all.
fn first_member(
    zset: Collection,
    is_last: bool,
    view: &View<'_>,
) -> Answer<Option<(Vec<u8>, f64)>> {
    let mut found = None;
    walk(zset, (Bound::Unbounded, Bound::Unbounded), is_last, view, &mut |member, score| {
        found = Some((member.to_vec(), score));
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Visits the members of a span of scores or texts, until `visit` breaks off.
fn visit(
    zset: Collection,
    span: MemberSpan<'_>,
    window: Window,
    view: &View<'_>,
    visit: &mut VisitMember<'_>,
) -> Answer<()> {
    if window.offset < 0 || window.limit == 0 {
        return Ok(());
    }
    if let Some((from, to)) = names(zset, span, view)? {
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        return walk(zset, range, window.is_reversed, view, &mut windowed(window, visit));
    }
    match span {
        MemberSpan::Texts(from, to) => among_scores(zset, (from, to), window, view, visit),
        _ => Ok(()),
    }
}

/// Visits what a window shows of that which is walked.
fn windowed(
    window: Window,
    visit: &mut VisitMember<'_>,
) -> impl FnMut(&[u8], f64) -> ControlFlow<()> {
    let Window { mut offset, limit, .. } = window;
    let mut left = u64::try_from(limit).unwrap_or(u64::MAX);
    move |member, score| {
        if offset > 0 {
            offset -= 1;
            return ControlFlow::Continue(());
        }
        let flow = visit(member, score);
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { flow }
    }
}

/// Visits the members between two texts of a sorted set with several scores. What that is has no
/// meaning: it is what Redis does with small sets.
fn among_scores(
    zset: Collection,
    texts: NameRange<'_>,
    window: Window,
    view: &View<'_>,
    visit: &mut VisitMember<'_>,
) -> Answer<()> {
    let (from, to) = texts;
    let none: Bound<&[u8]> = Bound::Unbounded;
    let is_behind = |member: &[u8]| RangeBounds::<[u8]>::contains(&(from, none), member);
    let is_before = |member: &[u8]| RangeBounds::<[u8]>::contains(&(none, to), member);
    let ends = [first_member(zset, false, view)?, first_member(zset, true, view)?];
    let [Some((first, _)), Some((last, _))] = ends else { return Ok(()) };
    if !is_behind(&last) || !is_before(&first) {
        return Ok(());
    }
    let begins =
        |member: &[u8]| if window.is_reversed { is_before(member) } else { is_behind(member) };
    let ends =
        |member: &[u8]| if window.is_reversed { is_behind(member) } else { is_before(member) };
    let (mut has_begun, mut offset) = (false, window.offset);
    let mut shown = windowed(Window { offset: 0, ..window }, visit);
    walk(zset, (none, none), window.is_reversed, view, &mut |member, score| {
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
    })
}
