//! Benchmarks of single features: what one costs beside the plain calls that do the same.
//!
//! Each feature is a file: its workload, which runs on every engine that has the feature
//! ([`crate::capabilities`]), and the figures that it yields. A workload checks what it has done,
//! and fails if that is wrong. One process runs one feature on one engine once; a suite
//! ([`crate::suite::Suite::features`]) repeats that in rounds.

mod bench;
mod data;
mod orders;
mod batches;
mod transactions;
mod conditional_writes;
mod merges;
mod cursors;
mod range_deletes;
mod expiry;
mod keyspaces;
mod bulk_loads;
mod compression;

use std::fmt;
use std::str::FromStr;

pub use self::bench::{Bench, Case};
use crate::engine::{NOT_THERE, Opener};
use crate::error::{BenchError, Result};
use crate::result::FeatureResult;
use crate::scratch::Scratch;

/// A feature and its workload.
pub struct Feature {
    /// Name on the command line and in results.
    pub name: &'static str,
    /// What the workload does, in a line.
    pub about: &'static str,
    /// The names of its figures with their units, in the order of a table.
    pub figures: &'static [&'static str],
    /// The workload: a case for each row of the table, none if the engine lacks the feature.
    run: fn(&mut Bench<'_>) -> Result<Vec<Case>>,
}

/// All of them.
pub const FEATURES: &[Feature] = &[
    batches::FEATURE,
    transactions::FEATURE,
    conditional_writes::FEATURE,
    merges::FEATURE,
    cursors::FEATURE,
    range_deletes::FEATURE,
    expiry::FEATURE,
    keyspaces::FEATURE,
    bulk_loads::FEATURE,
    compression::FEATURE,
];

impl Feature {
    /// The feature called `name`.
    pub fn named(name: &str) -> Result<&'static Self> {
        FEATURES.iter().find(|feature| feature.name == name).ok_or_else(|| {
            let names: Vec<_> = FEATURES.iter().map(|feature| feature.name).collect();
            let names = names.join(", ");
            BenchError::Usage(format!("no feature is called \"{name}\"; known: {names}"))
        })
    }
}

/// What one process measures, as it is typed: `transactions`, or `transactions/10` for a tenth of
/// the records and of the time.
#[derive(Clone, Copy)]
pub struct Asked {
    feature: &'static Feature,
    part: u64,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.feature.name, self.part)
    }
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, part) = text.split_once('/').unwrap_or((text, "1"));
        let feature = Feature::named(name).map_err(|error| error.to_string())?;
        match part.parse() {
            Ok(part @ 1..) => Ok(Self { feature, part }),
            _ => Err(format!("{part} is not a number of parts; as in {name}/10")),
        }
    }
}

/// Measures what was asked for on the engine of `opener`, once; `seed` draws the order of what is
/// compared. Fails if the engine does not have the feature, or did something wrong.
pub fn run(
    asked: Asked,
    opener: &dyn Opener,
    scratch: &Scratch,
    seed: u64,
) -> Result<Vec<FeatureResult>> {
    let Asked { feature, part } = asked;
    let cases = (feature.run)(&mut Bench::new(opener, scratch, part, seed))?;
    if cases.is_empty() {
        let words = format!("{} has no {}: {NOT_THERE}", opener.name(), feature.name);
        return Err(BenchError::Usage(words));
    }
    let result = |case: Case| FeatureResult {
        engine: opener.name().to_owned(),
        feature: feature.name.to_owned(),
        case: case.name,
        part,
        figures: case.figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    };
    Ok(cases.into_iter().map(result).collect())
}
