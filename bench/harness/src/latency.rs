//! How long operations took: one histogram for each action.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::workload::{Action, Workload};

/// Largest time told apart, in nanoseconds: ten minutes; a longer one counts as this.
const LONGEST: u64 = 600_000_000_000;
/// Decimal digits kept of every time.
const DIGITS: u8 = 3;

/// Times of the operations of one client, or of several merged.
#[derive(Clone, Debug)]
pub struct Latencies {
    histograms: [Option<Histogram<u64>>; Action::ALL.len()],
}

impl Latencies {
    /// Ready for the actions of `workload`.
    pub fn new(workload: &Workload) -> Self {
        let histograms = Action::ALL.map(|action| {
            workload.does(action).then(|| {
                Histogram::new_with_max(LONGEST, DIGITS).expect("bounds and digits are constants")
            })
        });
        Self { histograms }
    }

    /// Counts an operation that took `nanoseconds`.
    pub fn record(&mut self, action: Action, nanoseconds: u64) {
        if let Some(histogram) = &mut self.histograms[action as usize] {
            histogram.saturating_record(nanoseconds);
        }
    }

    /// Adds the times of another client of the same workload.
    pub fn merge(&mut self, other: &Self) {
        for (into, from) in self.histograms.iter_mut().zip(&other.histograms) {
            if let (Some(into), Some(from)) = (into, from) {
                into.add(from).expect("all histograms have the same bounds");
            }
        }
    }

    /// The figures of every action that occurred, by its name.
    pub fn summaries(&self) -> BTreeMap<String, LatencySummary> {
        let named = Action::ALL.iter().zip(&self.histograms);
        named
            .filter_map(|(action, histogram)| Some((action, histogram.as_ref()?)))
            .filter(|(_, histogram)| !histogram.is_empty())
            .map(|(action, histogram)| (action.name().to_owned(), LatencySummary::of(histogram)))
            .collect()
    }

    /// How many operations took how long, by action: see [`Bucket`].
    pub fn buckets(&self) -> BTreeMap<String, Vec<Bucket>> {
        let named = Action::ALL.iter().zip(&self.histograms);
        named
            .filter_map(|(action, histogram)| Some((action, histogram.as_ref()?)))
            .filter(|(_, histogram)| !histogram.is_empty())
            .map(|(action, histogram)| (action.name().to_owned(), buckets(histogram)))
            .collect()
    }

    /// The figures of all actions together.
    pub fn overall(&self) -> LatencySummary {
        let mut present = self.histograms.iter().flatten();
        let mut all = present.next().expect("a workload has an action").clone();
        for histogram in present {
            all.add(histogram).expect("all histograms have the same bounds");
        }
        LatencySummary::of(&all)
    }
}

/// The longest time of a bucket, in microseconds, and the number of operations that took no longer,
/// but longer than the bucket before. Each bucket ends 10% above the one before; empty ones are
/// left out. Those of several runs can be added.
pub type Bucket = (f64, u64);

fn buckets(histogram: &Histogram<u64>) -> Vec<Bucket> {
    const FIRST: u64 = 50;
    const RATIO: f64 = 1.1;
    let filled = histogram.iter_log(FIRST, RATIO);
    filled
        .map(|step| {
            let longest = step.value_iterated_to() as f64 / 1000.0;
            (longest, step.count_since_last_iteration())
        })
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Figures of one histogram, in microseconds; the harness' own time for the operation is in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Operations counted.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Half took no longer.
    pub p50_us: f64,
    /// 90% took no longer.
    pub p90_us: f64,
    /// 95% took no longer.
    #[serde(default)]
    pub p95_us: f64,
    /// 99% took no longer.
    pub p99_us: f64,
    /// 99.9% took no longer.
    pub p999_us: f64,
    /// 99.99% took no longer.
    pub p9999_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl LatencySummary {
    fn of(histogram: &Histogram<u64>) -> Self {
        let quantile = |q| histogram.value_at_quantile(q) as f64 / 1000.0;
        Self {
            count: histogram.len(),
            mean_us: histogram.mean() / 1000.0,
            p50_us: quantile(0.5),
            p90_us: quantile(0.9),
            p95_us: quantile(0.95),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            p9999_us: quantile(0.9999),
            max_us: histogram.max() as f64 / 1000.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Latencies};
    use crate::workload::{Action, select};

    #[test]
    fn clients_merge_and_actions_stay_apart() {
        let workload = select(&["ycsb-a"]).unwrap().pop().unwrap();
        let (mut one, mut two) = (Latencies::new(&workload), Latencies::new(&workload));
        (1..=100).for_each(|time| one.record(Action::Read, time * 1000));
        two.record(Action::Update, LONGEST * 2);
        one.merge(&two);
        let summaries = one.summaries();
        assert_eq!(summaries["read"].count, 100);
        assert!((summaries["read"].p50_us - 50.0).abs() < 0.1);
        assert_eq!(summaries["update"].count, 1);
        assert_eq!(one.overall().count, 101);
    }

    #[test]
    fn buckets_hold_every_operation_and_end_at_the_same_times() {
        let workload = select(&["ycsb-c"]).unwrap().pop().unwrap();
        let (mut short, mut long) = (Latencies::new(&workload), Latencies::new(&workload));
        (1..=1000).for_each(|time| short.record(Action::Read, time * 100));
        (1..=1000).for_each(|time| long.record(Action::Read, time * 1000));
        let (short, long) = (&short.buckets()["read"], &long.buckets()["read"]);
        for buckets in [short, long] {
            assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 1000);
            assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
        let shared = short.iter().filter(|(end, _)| long.iter().any(|(other, _)| end == other));
        assert!(shared.count() > 20);
    }
}
