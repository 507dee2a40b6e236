//! What a trace asks for, in numbers: mix, sizes, and how unequal its keys are.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::Serialize;

use crate::error::Result;
use crate::keys::hash_of_any;
use crate::trace::format::{Reader, Record};
use crate::units::{bytes, short, thousands};
use crate::workload::Action;

/// Shares of the keys, in percent, for which the share of the operations is told.
const HOTTEST: [f64; 4] = [0.1, 1.0, 10.0, 50.0];

/// A trace in numbers.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Operations.
    pub operations: u64,
    /// Operations by action.
    pub mix: BTreeMap<&'static str, u64>,
    /// From the first operation to the last.
    pub seconds: f64,
    /// Different keys.
    pub keys: u64,
    /// Bytes of keys.
    pub key_bytes: Sizes,
    /// Bytes of values that were written.
    pub value_bytes: Sizes,
    /// Records that scans asked for.
    pub scan_lengths: Sizes,
    /// Operations on the key with most of them.
    pub hottest_key: u64,
    /// For a share of the keys, the most popular ones, in percent: the share of the operations on
    /// them, in percent.
    pub popularity: Vec<(f64, f64)>,
}

/// Some numbers, in short.
#[derive(Debug, Default, Serialize)]
pub struct Sizes {
    /// Number of entries.
    pub count: u64,
    /// The smallest.
    pub least: u64,
    /// The middle one.
    pub median: u64,
    /// The mean.
    pub mean: f64,
    /// 99% are no larger.
    pub p99: u64,
    /// The largest.
    pub most: u64,
}

impl Sizes {
    fn of(counts: &BTreeMap<u64, u64>) -> Self {
        let count: u64 = counts.values().sum();
        if count == 0 {
            return Self::default();
        }
        let sum: f64 = counts.iter().map(|(size, count)| *size as f64 * *count as f64).sum();
        let quantile = |share: f64| {
            let rank = (share * count as f64).ceil().max(1.0) as u64;
            let mut below = 0;
            let reaches = |(_, count): &(&u64, &u64)| {
                below += **count;
                below >= rank
            };
            counts.iter().find(reaches).map_or(0, |(size, _)| *size)
        };
        Self {
            count,
            least: quantile(0.0),
            median: quantile(0.5),
            mean: sum / count as f64,
            p99: quantile(0.99),
            most: quantile(1.0),
        }
    }
}

impl Summary {
    /// Reads all of `path`. Memory grows with the number of different keys, 16 bytes each or so.
    pub fn of(path: &Path) -> Result<Self> {
        let (mut reader, mut record) = (Reader::open(path)?, Record::default());
        let mut mix = BTreeMap::new();
        let mut keys: HashMap<u64, u64> = HashMap::new();
        let [mut key_bytes, mut value_bytes, mut scan_lengths] = [const { BTreeMap::new() }; 3];
        let mut operations = 0;
        while reader.next(&mut record)? {
            operations += 1;
            *mix.entry(record.action.name()).or_insert(0) += 1;
            *keys.entry(hash_of_any(&record.key)).or_insert(0) += 1;
            *key_bytes.entry(record.key.len() as u64).or_insert(0) += 1;
            match record.action {
                Action::Scan => *scan_lengths.entry(record.size).or_insert(0) += 1,
                Action::Update | Action::ReadModifyWrite => {
                    *value_bytes.entry(record.size).or_insert(0) += 1;
                }
                _ => {}
            }
        }
        let mut counts: Vec<u64> = keys.into_values().collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        Ok(Self {
            operations,
            mix,
            seconds: record.at as f64 / 1e6,
            keys: counts.len() as u64,
            key_bytes: Sizes::of(&key_bytes),
            value_bytes: Sizes::of(&value_bytes),
            scan_lengths: Sizes::of(&scan_lengths),
            hottest_key: counts.first().copied().unwrap_or(0),
            popularity: HOTTEST.map(|share| (share, popularity(&counts, share))).into(),
        })
    }

    /// The lines that a person reads.
    pub fn text(&self) -> String {
        let percent = |part: u64| 100.0 * part as f64 / self.operations.max(1) as f64;
        let mut lines = vec![format!(
            "{} operations on {} keys in {} s",
            thousands(self.operations as f64),
            thousands(self.keys as f64),
            short(self.seconds)
        )];
        for (action, count) in &self.mix {
            lines.push(format!(
                "  {action:18} {:>14} {:>5.1}%",
                thousands(*count as f64),
                percent(*count)
            ));
        }
        for (name, sizes, unit) in [
            ("key", &self.key_bytes, true),
            ("value written", &self.value_bytes, true),
            ("records of a scan", &self.scan_lengths, false),
        ] {
            let size = |size| if unit { bytes(size) } else { thousands(size as f64) };
            if sizes.count > 0 {
                lines.push(format!(
                    "{name}: {} to {}, median {}, mean {}, 99% up to {}",
                    size(sizes.least),
                    size(sizes.most),
                    size(sizes.median),
                    size(sizes.mean.round() as u64),
                    size(sizes.p99)
                ));
            }
        }
        let hottest = percent(self.hottest_key);
        lines.push(format!("the hottest key has {hottest:.2}% of the operations"));
        for (keys, operations) in &self.popularity {
            lines.push(format!("the hottest {keys}% of the keys have {operations:.1}%"));
        }
        lines.join("\n")
    }
}

/// The share of the operations, in percent, on the first `share` percent of `counts`.
fn popularity(counts: &[u64], share: f64) -> f64 {
    let hottest = (counts.len() as f64 * share / 100.0).round() as usize;
    let all: u64 = counts.iter().sum();
    100.0 * counts[..hottest].iter().sum::<u64>() as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::Summary;
    use crate::trace::format::Writer;
    use crate::workload::Action;

    #[test]
    fn a_trace_is_told_in_numbers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let mut writer = Writer::create(&path).unwrap();
        for number in 0..100u64 {
            writer.add(number * 1000, Action::Update, &number.to_be_bytes(), number).unwrap();
        }
        for at in 0..900 {
            writer.add(at, Action::Read, &[0; 8], 0).unwrap();
        }
        writer.add(2_000_000, Action::Scan, &[0; 8], 50).unwrap();
        writer.finish().unwrap();
        let summary = Summary::of(&path).unwrap();
        assert_eq!((summary.operations, summary.keys, summary.hottest_key), (1001, 100, 902));
        assert_eq!((summary.mix["read"], summary.mix["update"]), (900, 100));
        assert!((summary.seconds - 2.0).abs() < 1e-9);
        let values = &summary.value_bytes;
        assert_eq!((values.least, values.median, values.p99, values.most), (0, 49, 98, 99));
        assert!((values.mean - 49.5).abs() < 1e-9);
        let (_, tenth) = summary.popularity[2];
        assert!((tenth - 100.0 * 911.0 / 1001.0).abs() < 1e-9);
        assert!(summary.text().contains("1,001 operations on 100 keys in 2.00 s"));
    }
}
