//! Measuring: small stores of one value size after another, with values outside the index and in
//! it.
//!
//! Each run loads an empty store, ages it by half as many updates as records, and then measures the
//! workload, the background work that it left included: the paper's phases, cut short. The two runs
//! of a pair do the same operations, one right after the other, and take turns in being the first,
//! because disks drift.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::engine::Opener;
use crate::error::{BenchError, Result};
use crate::keys::KeySize;
use crate::observer::Observer;
use crate::scratch::Scratch;
use crate::session::Session;
use crate::tune::curve::{Curve, Pair};
use crate::workload::{Begin, Workload, select};

/// What ages a store, and is measured if nothing else is asked for.
pub const UPDATES: &str = "update-zipfian";

/// Operations of a phase but the load, at most, as a share of the records.
const SHARE: f64 = 0.5;

/// Seed of the first pair at each size.
const SEED: u64 = 42;

/// How thresholds are searched for.
pub struct Search<'a> {
    /// Stores whose values lie outside the index, whatever their size.
    pub separated: &'a dyn Opener,
    /// Stores whose values lie in the index.
    pub inline: &'a dyn Opener,
    /// The directory of the measured stores.
    pub scratch: &'a Scratch,
    /// What is done, in this order; the last one counts. [`Search::phases`] makes them.
    pub phases: Vec<Workload>,
    /// Bytes of keys and values of a store.
    pub data: u64,
    /// No pair is begun that would probably end later, but at the sizes that every search begins
    /// with.
    pub time: Duration,
    /// Receives the progress of each run.
    pub observer: &'a dyn Observer,
}

/// Which run is about to begin.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// Bytes of its values.
    pub value_bytes: usize,
    /// The number of its pair among those of the size, from 1.
    pub pair: usize,
    /// Whether values leave the index.
    pub separated: bool,
}

impl Search<'_> {
    /// A load, updates, and then the workload of this name, which must be one for a filled store.
    pub fn phases(workload: &str) -> Result<Vec<Workload>> {
        let mut phases = select(&["load", UPDATES, workload])?;
        match &mut phases[..] {
            [_, ageing, last] if last.begin == Begin::AsLeft && !last.replays => {
                ageing.operations = ageing.operations.min(SHARE);
                last.operations = last.operations.min(SHARE);
                Ok(phases)
            }
            _ => Err(BenchError::Usage(format!(
                "{workload} is not one workload on a filled store, such as {UPDATES}, ycsb-a, \
                 readrandom or scan-100"
            ))),
        }
    }

    /// Adds to `curve` until time is over, or more would say little more. `begins` is told of each
    /// run.
    pub fn run(&self, curve: &mut Curve, begins: &dyn Fn(&Curve, Next)) -> Result<()> {
        let begin = Instant::now();
        // How long the last pair of each size took. At smaller sizes it takes longer.
        let mut took: BTreeMap<usize, Duration> = BTreeMap::new();
        while let Some(size) = curve.next() {
            let smaller = took.range(..=size).next_back().map(|(_, took)| *took);
            let larger = || took.values().next().map(|took| *took * 2);
            let expected = smaller.or_else(larger).unwrap_or_default();
            if curve.missing() == 0 && begin.elapsed() + expected > self.time {
                break;
            }
            let pair_begin = Instant::now();
            let pair = self.pair(size, curve, begins)?;
            curve.add(size, pair);
            took.insert(size, pair_begin.elapsed());
        }
        Ok(())
    }

    fn pair(&self, size: usize, curve: &Curve, begins: &dyn Fn(&Curve, Next)) -> Result<Pair> {
        let number = curve.pairs_at(size);
        let config = Config {
            seed: SEED + number as u64,
            ..Config::new((self.data / (KeySize::default().bytes() + size) as u64).max(1), size)
        };
        let measure = |separated| {
            begins(curve, Next { value_bytes: size, pair: number + 1, separated });
            self.throughput(if separated { self.separated } else { self.inline }, &config)
        };
        let separated_first = number.is_multiple_of(2);
        let (one, other) = (measure(separated_first)?, measure(!separated_first)?);
        let (separated, inline) = if separated_first { (one, other) } else { (other, one) };
        Ok(Pair { separated, inline })
    }

    /// Settled operations a second of the last phase.
    fn throughput(&self, opener: &dyn Opener, config: &Config) -> Result<f64> {
        let mut session = Session::new(opener, self.scratch, config.clone(), None, self.observer)?;
        let mut throughput = 0.0;
        for phase in &self.phases {
            let result = session.run(phase)?;
            if let Some(problem) =
                result.checks.first_problem.as_ref().filter(|_| result.problems() > 0)
            {
                return Err(BenchError::engine(opener.name(), "the check of a value", problem));
            }
            throughput = result.settled_per_second();
        }
        session.close()?;
        Ok(throughput)
    }
}

#[cfg(test)]
mod tests {
    use super::Search;

    #[test]
    fn only_workloads_on_a_filled_store_are_measured() {
        for name in ["update", "update-zipfian", "ycsb-a", "readrandom", "scan-100", "churn"] {
            let phases = Search::phases(name).unwrap();
            let names: Vec<_> = phases.iter().map(|phase| phase.name).collect();
            assert_eq!(names, ["load", "update-zipfian", name]);
        }
        for name in ["load", "basic", "ycsb", "trace", "fillrandom", "readrandom-cold", "what"] {
            assert!(Search::phases(name).is_err(), "{name}");
        }
    }
}
