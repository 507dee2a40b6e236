//! Commands of several sorted sets, or sets, whose members have the score 1.

use std::collections::HashMap;
use std::ops::Bound;

use bytes::Bytes;

use super::stored::{self, ScoredMember, order, shown, store, walk};
use crate::command::args::{at_least, is, number, syntax};
use crate::command::collections;
use crate::command::float;
use crate::exec::{Answer, ElementRange, Halt, View, wrong_type};
use crate::model::element::MEMBERS;
use crate::model::record::{Collection, CollectionKind, KeyContent};
use crate::resp::reply::Reply;

/// How sets are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetOperation {
    Union,
    Intersection,
    Difference,
}

/// What becomes of several scores of a member.
#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Sum,
    Least,
    Greatest,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // Infinities of both signs are 0.
            Self::Sum => number_or_zero(one + other),
            Self::Least => {
                if other < one {
                    other
                } else {
                    one
                }
            }
            Self::Greatest => {
                if other > one {
                    other
                } else {
                    one
                }
            }
        }
    }
}

fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// One of the sets, and what its scores are multiplied with.
#[derive(Clone, Copy)]
struct ScoredSet {
    /// None if its key is not there.
    set: Option<Collection>,
    weight: f64,
}

impl ScoredSet {
    fn of(key: &[u8], view: &View<'_>) -> Answer<Self> {
        let set = match view.record(key)?.map(|record| record.content) {
            None => None,
            Some(KeyContent::Collection(set))
                if matches!(set.kind, CollectionKind::Set | CollectionKind::SortedSet) =>
            {
                Some(set)
            }
            Some(_) => return Err(wrong_type()),
        };
        Ok(Self { set, weight: 1.0 })
    }

    fn len(self) -> u64 {
        self.set.map_or(0, |set| set.len)
    }

    fn members(self, view: &View<'_>) -> Answer<Vec<ScoredMember>> {
        let Some(set) = self.set else { return Ok(Vec::new()) };
        if set.kind == CollectionKind::Set {
            let names = ElementRange { with_values: false, ..ElementRange::ALL };
            let members = collections::elements(set, names, view)?.into_iter();
            return Ok(members.map(|(member, _)| (member, 1.0)).collect());
        }
        let mut found = Vec::new();
        walk(set, (Bound::Unbounded, Bound::Unbounded), false, view, &mut |member, score| {
            found.push((Bytes::copy_from_slice(member), score));
            view.holding(member.len())
        })?;
        Ok(found)
    }

    /// The score of a member, if it is there.
    fn score(self, member: &[u8], view: &View<'_>) -> Answer<Option<f64>> {
        match self.set {
            None => Ok(None),
            Some(set) if set.kind == CollectionKind::Set => {
                Ok(view.element(set.id, MEMBERS, member)?.map(|_| 1.0))
            }
            Some(set) => stored::score(set, member, view),
        }
    }
}

/// What a command says behind its name, and behind the key where the result goes.
struct CombineTerms {
    sources: Vec<ScoredSet>,
    aggregate: Aggregate,
    with_scores: bool,
    /// Most members that are counted, or all of 0.
    limit: u64,
}

/// What is done with the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CombinePurpose {
    Show,
    Store,
    Count,
}

impl CombineTerms {
    fn of(
        words: &[&[u8]],
        command: &str,
        operation: SetOperation,
        purpose: CombinePurpose,
        view: &View<'_>,
    ) -> Answer<Self> {
        let count = number(words[0])?;
        if count < 1 {
            let why = format!("ERR at least 1 input key is needed for '{command}' command");
            return Err(Halt::error(why));
        }
        let count = usize::try_from(count).ok().filter(|count| *count < words.len());
        let (keys, mut words) = words[1..].split_at(count.ok_or_else(syntax)?);
        let sources =
            keys.iter().map(|key| ScoredSet::of(key, view)).collect::<Answer<Vec<_>>>()?;
        let mut terms = Self { sources, aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
        let has_scores = operation != SetOperation::Difference && purpose != CombinePurpose::Count;
        while let [word, rest @ ..] = words {
            words = match rest {
                _ if is(word, "WEIGHTS") && has_scores && rest.len() >= keys.len() => {
                    let (weights, rest) = rest.split_at(keys.len());
                    for (source, weight) in terms.sources.iter_mut().zip(weights) {
                        let no_float = || Halt::error("ERR weight value is not a float");
                        source.weight = float::double(weight).ok_or_else(no_float)?;
                    }
                    rest
                }
                [name, rest @ ..] if is(word, "AGGREGATE") && has_scores => {
                    terms.aggregate = match name {
                        _ if is(name, "SUM") => Aggregate::Sum,
                        _ if is(name, "MIN") => Aggregate::Least,
                        _ if is(name, "MAX") => Aggregate::Greatest,
                        _ => return Err(syntax()),
                    };
                    rest
                }
                _ if is(word, "WITHSCORES") && purpose == CombinePurpose::Show => {
                    terms.with_scores = true;
                    rest
                }
                [limit, rest @ ..] if is(word, "LIMIT") && purpose == CombinePurpose::Count => {
                    let limit = at_least(limit, 0, "ERR LIMIT can't be negative")?;
                    terms.limit = limit.cast_unsigned();
                    rest
                }
                _ => return Err(syntax()),
            };
        }
        Ok(terms)
    }

    fn combined(mut self, operation: SetOperation, view: &View<'_>) -> Answer<Vec<ScoredMember>> {
        // The sum of doubles depends on the order, which is that of Redis.
        if operation != SetOperation::Difference {
            self.sources.sort_by_key(|source| source.len());
        }
        let Some((first, others)) = self.sources.split_first() else { return Ok(Vec::new()) };
        if operation != SetOperation::Union {
            view.take_lookups((first.len() as usize).saturating_mul(others.len()))?;
        }
        let mut found = match operation {
            SetOperation::Union => self.union(view)?,
            SetOperation::Intersection => self.intersection(*first, others, view)?,
            SetOperation::Difference => {
                let mut found = first.members(view)?;
                for other in others {
                    let mut rest = Vec::new();
                    for (member, score) in found {
                        if other.score(&member, view)?.is_none() {
                            rest.push((member, score));
                        }
                    }
                    found = rest;
                }
                found
            }
        };
        found.sort_unstable_by(order);
        Ok(found)
    }

    fn union(&self, view: &View<'_>) -> Answer<Vec<ScoredMember>> {
        let mut found = HashMap::new();
        for source in &self.sources {
            for (member, score) in source.members(view)? {
                let score = number_or_zero(source.weight * score);
                let sum = found.entry(member);
                sum.and_modify(|sum| *sum = self.aggregate.of(*sum, score)).or_insert(score);
            }
        }
        Ok(found.into_iter().collect())
    }

    fn intersection(
        &self,
        first: ScoredSet,
        others: &[ScoredSet],
        view: &View<'_>,
    ) -> Answer<Vec<ScoredMember>> {
        let mut found = Vec::new();
        'members: for (member, score) in first.members(view)? {
            let mut sum = number_or_zero(first.weight * score);
            for other in others {
                let Some(score) = other.score(&member, view)? else { continue 'members };
                sum = self.aggregate.of(sum, score * other.weight);
            }
            found.push((member, sum));
            if found.len() as u64 == self.limit {
                break;
            }
        }
        Ok(found)
    }
}

fn combine(args: &[&[u8]], name: &str, operation: SetOperation, view: &View<'_>) -> Answer {
    let terms = CombineTerms::of(&args[1..], name, operation, CombinePurpose::Show, view)?;
    let with_scores = terms.with_scores;
    terms.combined(operation, view).map(|members| shown(members, with_scores))
}

fn combine_to<'a>(
    args: &[&'a [u8]],
    name: &'static str,
    operation: SetOperation,
    view: &mut View<'a>,
) -> Answer {
    let terms = CombineTerms::of(&args[2..], name, operation, CombinePurpose::Store, view)?;
    let members = terms.combined(operation, view)?;
    store(args[1], &members, name, view)
}

/// `ZUNION number key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]`
pub fn zunion(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    combine(args, "zunion", SetOperation::Union, view)
}

/// `ZINTER number key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]`
pub fn zinter(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    combine(args, "zinter", SetOperation::Intersection, view)
}

/// `ZDIFF number key [key ...] [WITHSCORES]`
pub fn zdiff(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    combine(args, "zdiff", SetOperation::Difference, view)
}

/// `ZUNIONSTORE to number key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]`
pub fn zunionstore<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    combine_to(args, "zunionstore", SetOperation::Union, view)
}

/// `ZINTERSTORE to number key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]`
pub fn zinterstore<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    combine_to(args, "zinterstore", SetOperation::Intersection, view)
}

/// `ZDIFFSTORE to number key [key ...]`
pub fn zdiffstore<'a>(args: &[&'a [u8]], view: &mut View<'a>) -> Answer {
    combine_to(args, "zdiffstore", SetOperation::Difference, view)
}

/// `ZINTERCARD number key [key ...] [LIMIT limit]`
pub fn zintercard(args: &[&[u8]], view: &mut View<'_>) -> Answer {
    let (operation, purpose) = (SetOperation::Intersection, CombinePurpose::Count);
    let terms = CombineTerms::of(&args[1..], "zintercard", operation, purpose, view)?;
    Ok(Reply::Integer(terms.combined(operation, view)?.len() as i64))
}
