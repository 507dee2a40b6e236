//! How large values are: all alike, or drawn from a distribution.
//!
//! A size is a function of its key, or of key and version, so that a run can be repeated. HashKV
//! has small and large *pairs*: a key keeps its size for ever (`zipfian`, `two`). Meta's workloads
//! draw a size for every write, as `db_bench` does (`pareto`, `uniform`). Distributions are kept as
//! a table of quantiles: a draw is one look-up, whatever the formula, and mean and maximum are
//! those of the table. What lies beyond its last quantile (0.01% of the draws) is cut off.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use crate::distribution::{ZIPFIAN_CONSTANT, Zipfian};
use crate::hash::mix;
use crate::random::generalized_pareto;
use crate::units;

/// Smallest size of a value, in bytes: its version has to fit.
pub const MIN_VALUE_LEN: usize = 8;
/// Entries of a table of quantiles.
const QUANTILES: usize = 4096;
/// Shape of the value sizes of Meta's workloads: `value_k` of `db_bench`'s mixgraph, fitted in Cao
/// et al., "Characterizing, Modeling, and Benchmarking RocksDB Key-Value Workloads" (FAST 2020).
const PARETO_SHAPE: f64 = 0.2615;
/// Scale of the same: `value_sigma`, in bytes. The mean is scale / (1 - shape).
const PARETO_SCALE: f64 = 25.45;
/// Smallest value that mixgraph writes, in bytes. The largest, 1024, is beyond our last quantile.
const MIXGRAPH_LEAST: usize = 10;

/// The distribution of value sizes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSizes {
    /// All alike.
    Fixed(usize),
    /// Every size from the first to the second equally likely.
    Uniform(usize, usize),
    /// Generalized Pareto with location 0, shape and scale of mixgraph; no value has fewer than 10
    /// bytes, which makes the mean 36.
    Mixgraph,
    /// The Pareto of mixgraph with this mean, and without the bound.
    Pareto(usize),
    /// From the first to the second, Zipfian with constant 0.99, the smallest most popular (HashKV,
    /// experiments 8 and 12). Updates do not change the size of a pair.
    Zipfian(usize, usize),
    /// The first or the second; the first with this probability in percent (HashKV, experiment 7).
    /// Updates do not change the size of a pair.
    Two(usize, usize, u8),
}

impl ValueSizes {
    /// The quantile `at`, in (0, 1).
    fn quantile(&self, zipfian: Option<&Zipfian>, at: f64) -> usize {
        let size = match *self {
            Self::Fixed(size) => size,
            Self::Uniform(least, most) => least + (at * (most - least + 1) as f64) as usize,
            Self::Mixgraph => {
                let size = generalized_pareto(at, PARETO_SHAPE, PARETO_SCALE).ceil() as usize;
                size.max(MIXGRAPH_LEAST)
            }
            Self::Pareto(mean) => {
                let scale = mean as f64 * (1.0 - PARETO_SHAPE);
                generalized_pareto(at, PARETO_SHAPE, scale).ceil() as usize
            }
            Self::Zipfian(least, _) => least + zipfian.map_or(0, |ranks| ranks.rank(at)) as usize,
            Self::Two(small, large, percent) => {
                if at * 100.0 < f64::from(percent) {
                    small
                } else {
                    large
                }
            }
        };
        size.max(MIN_VALUE_LEN)
    }

    /// Whether a key keeps the size of its first value.
    fn is_of_pairs(&self) -> bool {
        matches!(self, Self::Zipfian(..) | Self::Two(..))
    }

    /// Ready to draw from.
    pub fn table(&self) -> SizeTable {
        if let Self::Fixed(size) = *self {
            let quantiles = Box::default();
            return SizeTable { mean: size as f64, largest: size, of_pairs: true, quantiles };
        }
        let zipfian = match *self {
            Self::Zipfian(least, most) => {
                Some(Zipfian::new((most - least + 1) as u64, ZIPFIAN_CONSTANT))
            }
            _ => None,
        };
        let at = |entry: usize| (entry as f64 + 0.5) / QUANTILES as f64;
        let quantiles: Box<[u32]> =
            (0..QUANTILES).map(|n| self.quantile(zipfian.as_ref(), at(n)) as u32).collect();
        let sum: f64 = quantiles.iter().copied().map(f64::from).sum();
        let largest = quantiles.iter().copied().max().unwrap_or(0) as usize;
        let mean = sum / QUANTILES as f64;
        SizeTable { mean, largest, of_pairs: self.is_of_pairs(), quantiles }
    }

    /// The smallest size that the description names, where it names one.
    fn least(&self) -> usize {
        match *self {
            Self::Mixgraph => MIXGRAPH_LEAST,
            Self::Fixed(size) | Self::Pareto(size) => size,
            Self::Uniform(least, _) | Self::Zipfian(least, _) | Self::Two(least, _, _) => least,
        }
    }

    /// Refuses sizes that no value can have, with the reason.
    pub fn validate(&self) -> Result<(), String> {
        if self.least() < MIN_VALUE_LEN {
            return Err(format!(
                "values have at least {MIN_VALUE_LEN} bytes (they carry a version)"
            ));
        }
        let (least, most) = match *self {
            Self::Mixgraph => (MIXGRAPH_LEAST, MIXGRAPH_LEAST),
            Self::Fixed(size) | Self::Pareto(size) => (size, size),
            Self::Uniform(least, most) | Self::Zipfian(least, most) => (least, most),
            Self::Two(small, large, percent) if percent <= 100 => (small.min(large), large),
            Self::Two(..) => return Err("the share of small values is 0 to 100 percent".into()),
        };
        if least > most || most > 1 << 30 {
            return Err(format!("\"{self}\": sizes ascend and are at most 1 GiB"));
        }
        Ok(())
    }
}

impl Display for ValueSizes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Uniform(least, most) => write!(f, "uniform:{least}:{most}"),
            Self::Mixgraph => write!(f, "pareto"),
            Self::Pareto(mean) => write!(f, "pareto:{mean}"),
            Self::Zipfian(least, most) => write!(f, "zipfian:{least}:{most}"),
            Self::Two(small, large, percent) => write!(f, "two:{small}:{large}:{percent}"),
        }
    }
}

impl FromStr for ValueSizes {
    type Err = String;

    /// `1KiB`, `uniform:LEAST:MOST`, `pareto`, `pareto:MEAN`, `zipfian:LEAST:MOST` or
    /// `two:SMALL:LARGE:PERCENT_SMALL`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let numbers: Result<Vec<_>, _> =
            rest.split(':').filter(|part| !part.is_empty()).map(units::parse).collect();
        let numbers: Vec<_> = numbers?.into_iter().map(|number| number as usize).collect();
        let sizes = match (name, &numbers[..]) {
            ("uniform", &[least, most]) => Self::Uniform(least, most),
            ("pareto", &[]) => Self::Mixgraph,
            ("pareto", &[mean]) => Self::Pareto(mean),
            ("zipfian", &[least, most]) => Self::Zipfian(least, most),
            ("two", &[small, large, percent]) => {
                Self::Two(small, large, u8::try_from(percent).unwrap_or(u8::MAX))
            }
            (size, &[]) => Self::Fixed(units::parse(size)? as usize),
            _ => {
                return Err(format!(
                    "\"{text}\" is no distribution of sizes: 1KiB, uniform:LEAST:MOST, pareto, \
                     pareto:MEAN, zipfian:LEAST:MOST or two:SMALL:LARGE:PERCENT_SMALL"
                ));
            }
        };
        sizes.validate().map(|()| sizes)
    }
}

/// A distribution of sizes, ready to draw from.
#[derive(Clone, Debug)]
pub struct SizeTable {
    mean: f64,
    largest: usize,
    /// Whether all versions of a value have one size.
    of_pairs: bool,
    /// Empty if all sizes are alike.
    quantiles: Box<[u32]>,
}

impl SizeTable {
    /// The size of `version` of the value of the key that hashes to `hash`.
    pub fn size(&self, hash: u64, version: u64) -> usize {
        if self.quantiles.is_empty() {
            return self.largest;
        }
        let version = if self.of_pairs { 0 } else { version };
        let drawn = mix(hash ^ version.rotate_left(32)) >> (64 - QUANTILES.ilog2());
        self.quantiles[drawn as usize] as usize
    }

    /// The mean, in bytes.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The largest, in bytes.
    pub fn largest(&self) -> usize {
        self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::ValueSizes;

    fn parse(text: &str) -> ValueSizes {
        text.parse().unwrap()
    }

    #[test]
    fn every_distribution_has_its_mean() {
        for (text, mean) in [
            ("1KiB", 1024.0),
            ("uniform:100:300", 200.0),
            ("pareto:1KiB", 1024.0),
            ("two:40:1024:50", 532.0),
        ] {
            let table = parse(text).table();
            assert!((table.mean() / mean - 1.0).abs() < 0.02, "{text}: {}", table.mean());
            let draws = 100_000;
            let sum: usize = (0..draws).map(|i| table.size(i, i)).sum();
            let drawn = sum as f64 / draws as f64;
            assert!((drawn / mean - 1.0).abs() < 0.02, "{text}: {drawn}");
        }
    }

    #[test]
    fn zipfian_sizes_are_small_most_often() {
        let table = parse("zipfian:40:8192").table();
        let smallest = (0..10_000).filter(|&key| table.size(key, 1) == 40).count();
        assert!((700..1500).contains(&smallest), "{smallest}");
        assert!(table.largest() > 8000 && table.largest() <= 8192);
    }

    /// "Small and large KV pairs" (HashKV, section 4.4): a key flipped between 40 B and 1 KiB at
    /// every update, so that each small value had to tell a group of the death of a large one.
    #[test]
    fn pairs_keep_their_sizes_and_writes_do_not() {
        for (text, kept) in [
            ("1KiB", true),
            ("two:16:1000:50", true),
            ("zipfian:16:8168", true),
            ("uniform:8:9", false),
            ("pareto", false),
            ("pareto:1KiB", false),
        ] {
            let table = parse(text).table();
            let keeps = |key: &u64| (1..40).all(|v| table.size(*key, v) == table.size(*key, 0));
            let kept_by = (0..100).filter(keeps).count();
            assert_eq!(kept_by, if kept { 100 } else { 0 }, "{text}");
        }
    }

    #[test]
    fn sizes_of_mixgraph_are_those_of_db_bench() {
        let table = parse("pareto").table();
        // The generalized Pareto distribution has its median at 19 bytes; 28.7% of it is below 10.
        let sizes: Vec<_> = (0..100_000).map(|version| table.size(1, version)).collect();
        let share = |most| sizes.iter().filter(|&&size| size <= most).count() as f64 / 1e5;
        assert!(sizes.iter().all(|size| (10..=1024).contains(size)));
        assert!((share(10) - 0.31).abs() < 0.01, "{}", share(10));
        assert!((share(19) - 0.5).abs() < 0.01, "{}", share(19));
        assert!((table.mean() - 36.5).abs() < 0.1, "{}", table.mean());
    }

    #[test]
    fn a_description_reads_back_as_it_is_printed() {
        for text in
            ["100", "uniform:8:9", "pareto", "pareto:34", "zipfian:40:8192", "two:40:1024:33"]
        {
            assert_eq!(parse(text).to_string(), text);
        }
        for text in ["7", "uniform:9:8", "two:40:1024:101", "pareto:1:2", "gauss:1:2", "zipfian:8"]
        {
            assert!(text.parse::<ValueSizes>().is_err(), "{text}");
        }
    }
}
