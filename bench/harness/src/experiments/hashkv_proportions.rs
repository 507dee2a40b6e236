//! HashKV at the proportions of its paper, where those of [`super::hashkv`] differ from them.
//!
//! The paper has 40 GiB of pairs, groups for as much, a write cache of 64 MiB (1/640), LevelDB's
//! cache of 8 MB for the index and 16 GiB of memory. Here are 2,000,000 pairs, groups for 2 GiB,
//! write caches of 1/640, caches of 4 MiB, in which no index fits, and 1 GiB of memory. Segments
//! are a quarter of the paper's, so there are 128 groups in place of 640, and the load fills their
//! main segments to 97%. The goal of space is the reserve in all stores, so it bounds them: the
//! reserve alone would start collections and slow no writer, as if space had no bound
//! (`--option space-goal=200%` behind it). Caches of peers stay as they are. A miniature measures
//! another thing: its first flush has not enough bytes to begin all groups.

use crate::experiments::{Experiment, Metric, hashkv};

/// The write cache, in all stores.
const MEMTABLE: (&str, &str) = ("memtable", "3100KiB");
/// The caches of blocks.
const CACHE: (&str, &str) = ("hashkv.cache", "4MiB");
const OTHER_CACHE: (&str, &str) = ("wisckey.cache", "4MiB");
/// Groups for the data.
const CAPACITY: (&str, &str) = ("hashkv.capacity", "2GiB");
const SEGMENT: (&str, &str) = ("hashkv.segment", "16MiB");
const LOG_SEGMENT: (&str, &str) = ("hashkv.log-segment", "256KiB");

/// The third phase of updates.
const UPDATES: Experiment = Experiment {
    settings: &[
        ("reserved-space", "30%"),
        CAPACITY,
        SEGMENT,
        LOG_SEGMENT,
        MEMTABLE,
        CACHE,
        OTHER_CACHE,
    ],
    metrics: &[Metric::Settled, Metric::BytesWritten, Metric::SpacePeak],
    ..hashkv::UPDATES
};

/// The experiments, in the paper's order.
pub const HASHKV_PROPORTIONS: &[Experiment] = &[
    Experiment {
        name: "hashkv-paper-1",
        rows: &["Experiment 1, Figure 6a", "Experiment 1, Figures 6b, 6c"],
        about: "load and three phases of updates, at the paper's proportions",
        shows: &[],
        metrics: &[
            Metric::Settled,
            Metric::BytesWritten,
            Metric::SpaceEnd,
            Metric::SpacePeak,
            Metric::Step("collect_lookup"),
        ],
        paper_says: "load 17.1x LevelDB, 3.0x RocksDB, 7.9% below vLog; updates 6.3 to 7.9x, 1.3 \
                    to 1.4x, 3.7 to 4.6x. Written: 71.5, 66.7, 49.6% less",
        ..UPDATES
    },
    Experiment {
        name: "hashkv-paper-2",
        rows: &["Experiment 2, Figure 7, Table 1"],
        about: "reserved space, at the paper's proportions",
        vary: Some(("reserved-space", &["10%", "30%", "50%", "70%", "90%"])),
        metrics: &[
            Metric::Settled,
            Metric::BytesWritten,
            Metric::SpacePeak,
            Metric::MeanLatency,
            Metric::Step("flush_values"),
            Metric::Step("flush_index"),
            Metric::Step("collect_values"),
            Metric::Step("collect_lookup"),
            Metric::Step("collect_index"),
        ],
        paper_says: "3.1 to 4.7x vLog, 30.1 to 57.3% fewer bytes. Look-ups in the index take over \
                    80% of vLog's time and none of HashKV's",
        ..UPDATES
    },
    Experiment {
        name: "hashkv-paper-15-segment",
        rows: &["Experiment 15, Figures 20a, 20d"],
        about: "main segment (16 to 256 MiB there), groups full after the load",
        vary: Some(("hashkv.segment", &["4MiB", "8MiB", "16MiB"])),
        settings: &[("reserved-space", "20%"), CAPACITY, LOG_SEGMENT, MEMTABLE, CACHE, OTHER_CACHE],
        paper_says: "throughput +52.5% from the smallest to the largest",
        ..UPDATES
    },
    Experiment {
        name: "hashkv-paper-15-log-segment",
        rows: &["Experiment 15, Figures 20b, 20e"],
        about: "log segment (256 KiB to 4 MiB there), groups full after the load",
        vary: Some(("hashkv.log-segment", &["64KiB", "128KiB", "256KiB", "512KiB", "1MiB"])),
        settings: &[("reserved-space", "20%"), CAPACITY, SEGMENT, MEMTABLE, CACHE, OTHER_CACHE],
        paper_says: "throughput -16.1%, bytes +10.4% from the smallest to the largest",
        ..UPDATES
    },
];

#[cfg(test)]
mod tests {
    use super::{CAPACITY, HASHKV_PROPORTIONS, SEGMENT};
    use crate::hash::mix;
    use crate::units;

    #[test]
    fn the_load_fills_main_segments_and_overflows_none() {
        let bytes = |(_, value): (&str, &str)| units::parse(value).unwrap();
        let (capacity, segment) = (bytes(CAPACITY), bytes(SEGMENT));
        let groups = capacity.div_ceil(segment).next_power_of_two();
        // Header, key and value of each pair of the scale.
        let (pairs, record) = (2_000_000, 24 + 24 + 992);
        let mut filled = vec![0; groups as usize];
        (0..pairs).for_each(|key| filled[(mix(key) % groups) as usize] += record);
        let (least, most) = (*filled.iter().min().unwrap(), *filled.iter().max().unwrap());
        assert!(least * 100 > segment * 90 && most <= segment, "{least} to {most} of {segment}");
    }

    #[test]
    fn options_of_groups_are_asked_of_hashkv_alone() {
        for experiment in HASHKV_PROPORTIONS {
            for run in experiment.runs() {
                let line = run.arguments.join(" ");
                let groups = ["capacity", "segment", "log-segment"];
                let named = |name: &str| line.contains(&format!("--option hashkv.{name}="));
                assert!(groups.into_iter().all(named), "{line}");
                assert!(line.contains("--option memtable=3100KiB"), "{line}");
            }
        }
    }
}
