//! What was measured at each size, which size is to be measured next, and what follows from it.
//! Pure: the same measurements give the same answers.
//!
//! The paper measures updates of pairs of many sizes, with and without separation, and puts the
//! threshold at the size at which separation begins to gain. That assumes that what separation
//! gains grows with the size. So do we, because single measurements are noisy: the threshold is
//! where the non-decreasing curve that is nearest to all ratios, by absolute distance, so that an
//! outlier does not draw it, rises above 1. The search begins at two sizes, moves out by factors of
//! two if the threshold is not between them, and then spends its time on the two sizes beside the
//! threshold and on sizes between these.

use std::collections::BTreeMap;
use std::iter;

use crate::report::stats::Spread;

/// Sizes that every search begins with, in this order. The paper's threshold lies between them.
const FIRST: [usize; 2] = [512, 128];

/// Least and greatest size that a search reaches out for.
const LEAST: usize = 8;
const MOST: usize = 16 << 10;

/// Pairs that make certain at least, whatever they show, and pairs at a size beside the threshold
/// before a size between is measured.
const PAIRS: usize = 2;

/// Pairs at a size that is not certain at the end; more would hardly change the median.
const PAIRS_MAX: usize = 9;

/// Sizes that are measured are multiples of this.
const GRAIN: usize = 8;

/// How far ratios of single pairs lie from their median, as a logarithm, before any was repeated,
/// and how many repetitions that belief is worth. On a virtual disk it was 5 to 20%.
const NOISE: f64 = 0.15;
const BELIEF: f64 = 2.0;

/// Standard errors on either side that count as certain.
const CERTAIN: f64 = 2.0;

/// Speeds of operations with values of one size, separated and inline, one right after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Operations a second with values outside the index.
    pub separated: f64,
    /// Operations a second with values in the index.
    pub inline: f64,
}

/// All that was measured at one size.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Row {
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How often it was measured.
    pub pairs: usize,
    /// Operations a second with values outside the index, median.
    pub separated_per_second: f64,
    /// Operations a second with values in the index, median.
    pub inline_per_second: f64,
    /// What separation multiplies the speed by: the median over the pairs, so that what drifts
    /// between pairs does not count.
    pub ratio: f64,
    /// A factor: the true ratio lies between `ratio` divided by it and `ratio` multiplied by it,
    /// rather certainly.
    pub uncertainty: f64,
}

impl Row {
    /// Whether inline values are faster, beyond noise.
    pub fn surely_inline(&self) -> bool {
        self.pairs >= PAIRS && self.ratio * self.uncertainty < 1.0
    }

    /// Whether separated values are faster, beyond noise.
    pub fn surely_separated(&self) -> bool {
        self.pairs >= PAIRS && self.ratio > self.uncertainty
    }
}

/// Where separation begins to gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// At this size, the least one of which, and of all greater ones, the fit says so.
    At {
        /// The size.
        size: usize,
        /// The greatest size below at which inline values are faster beyond noise.
        surely_inline: Option<usize>,
        /// The least size from there on at which separated values are faster beyond noise.
        surely_separated: Option<usize>,
    },
    /// At every size that was measured, of which this is the least.
    Always(usize),
    /// At none that was measured, of which this is the greatest.
    Never(usize),
}

/// Measurements by size.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    points: BTreeMap<usize, Vec<Pair>>,
}

impl Curve {
    /// Adds a measurement with values of `size` bytes. One that has no ratio says nothing.
    pub fn add(&mut self, size: usize, pair: Pair) {
        if ratio(&pair).is_normal() {
            self.points.entry(size).or_default().push(pair);
        }
    }

    /// Measurements so far.
    pub fn pairs(&self) -> usize {
        self.points.values().map(Vec::len).sum()
    }

    /// Measurements with values of `size` bytes so far.
    pub fn pairs_at(&self, size: usize) -> usize {
        self.points.get(&size).map_or(0, Vec::len)
    }

    /// How many of the sizes that every search begins with are still to be measured.
    pub fn missing(&self) -> usize {
        FIRST.iter().filter(|size| self.pairs_at(**size) == 0).count()
    }

    /// What was measured, by size.
    pub fn rows(&self) -> Vec<Row> {
        let noise = self.noise();
        let row = |(&value_bytes, pairs): (&usize, &Vec<Pair>)| {
            let median = |of: fn(&Pair) -> f64| Spread::of(pairs.iter().map(of)).map(|s| s.median);
            // The median of a few normal values is less exact than their mean by a quarter.
            let error = 1.25 * noise / (pairs.len() as f64).sqrt();
            Some(Row {
                value_bytes,
                pairs: pairs.len(),
                separated_per_second: median(|pair| pair.separated)?,
                inline_per_second: median(|pair| pair.inline)?,
                ratio: median(ratio)?,
                uncertainty: (CERTAIN * error).exp(),
            })
        };
        self.points.iter().filter_map(row).collect()
    }

    /// Standard deviation of the logarithms of ratios around the median of their size, over all
    /// sizes.
    fn noise(&self) -> f64 {
        let (mut squares, mut freedom) = (BELIEF * NOISE * NOISE, BELIEF);
        for pairs in self.points.values() {
            let Some(Spread { median, .. }) = Spread::of(pairs.iter().map(ratio)) else { continue };
            squares += pairs.iter().map(|pair| (ratio(pair) / median).ln().powi(2)).sum::<f64>();
            freedom += (pairs.len() - 1) as f64;
        }
        (squares / freedom).sqrt()
    }

    /// The threshold; `None` as long as sizes are [`missing`](Self::missing).
    pub fn threshold(&self) -> Option<Threshold> {
        if self.missing() > 0 {
            return None;
        }
        let rows = self.rows();
        let ratios = self.points.values().map(|pairs| pairs.iter().map(ratio).collect());
        Some(match non_decreasing(ratios).iter().position(|ratio| *ratio > 1.0) {
            Some(0) => Threshold::Always(rows[0].value_bytes),
            None => Threshold::Never(rows[rows.len() - 1].value_bytes),
            Some(at) => {
                let (below, above) = rows.split_at(at);
                let size = |row: &Row| row.value_bytes;
                Threshold::At {
                    size: above[0].value_bytes,
                    surely_inline: below.iter().rfind(|row| row.surely_inline()).map(size),
                    surely_separated: above.iter().find(|row| row.surely_separated()).map(size),
                }
            }
        })
    }

    /// The size to measure next; `None` if more measurements would say little more.
    pub fn next(&self) -> Option<usize> {
        if let Some(first) = FIRST.into_iter().find(|size| self.pairs_at(*size) == 0) {
            return Some(first);
        }
        let rows = self.rows();
        match self.threshold()? {
            Threshold::Always(size) if size > LEAST => Some(size / 2),
            Threshold::Never(size) if size < MOST => Some(size * 2),
            Threshold::Always(_) => again(rows.iter().take(1), PAIRS),
            Threshold::Never(_) => again(rows.iter().rev().take(1), PAIRS),
            Threshold::At { size, surely_inline, surely_separated } => {
                let at = rows.iter().position(|row| row.value_bytes == size)?;
                let (below, above) = (&rows[at - 1], &rows[at]);
                let (least, most) =
                    (surely_inline.unwrap_or(0), surely_separated.unwrap_or(MOST + 1));
                let open = |row: &&Row| (least + 1..most).contains(&row.value_bytes);
                again([below, above].into_iter().filter(open), PAIRS)
                    .or_else(|| between(below.value_bytes, above.value_bytes))
                    .or_else(|| again(rows.iter().filter(open), PAIRS_MAX))
            }
        }
    }
}

/// The size that was measured least often, of those that have not had `enough`.
fn again<'a>(rows: impl Iterator<Item = &'a Row>, enough: usize) -> Option<usize> {
    let few = rows.filter(|row| row.pairs < enough);
    few.min_by_key(|row| row.pairs).map(|row| row.value_bytes)
}

fn ratio(pair: &Pair) -> f64 {
    pair.separated / pair.inline
}

/// The size in the middle of two that lie more than a fifth apart.
fn between(below: usize, above: usize) -> Option<usize> {
    let middle = ((below * above) as f64).sqrt() as usize;
    let middle = middle.next_multiple_of(GRAIN);
    (above * 5 > below * 6 && below < middle && middle < above).then_some(middle)
}

/// The non-decreasing values, one for each list, that are nearest to all members by absolute
/// distance: lists in the wrong order are pooled, and a pool stands at its median.
fn non_decreasing(lists: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    let median = |list: &[f64]| Spread::of(list.iter().copied()).map_or(1.0, |of| of.median);
    let mut pools: Vec<(f64, Vec<f64>, usize)> = Vec::new();
    for mut list in lists {
        let (mut level, mut count) = (median(&list), 1);
        while let Some((_, pooled, lists)) = pools.pop_if(|(below, ..)| *below > level) {
            list.extend(pooled);
            (level, count) = (median(&list), count + lists);
        }
        pools.push((level, list, count));
    }
    pools.into_iter().flat_map(|(level, _, count)| iter::repeat_n(level, count)).collect()
}

#[cfg(test)]
mod tests;
