//! HashKV: Chan et al., "Enabling Efficient Updates in KV Storage via Hashing" (ATC 2018 and its
//! extended version). 40 GiB of pairs there, 2 GiB here; segments are scaled by four, and a pair's
//! size counts 24 bytes of key and none of metadata.

use crate::experiments::{Experiment, Metric, Sweep};

/// Space beyond the live data, in most experiments.
const RESERVE_20: &[(&str, &str)] = &[("reserved-space", "20%")];
const RESERVE_30: &[(&str, &str)] = &[("reserved-space", "30%")];
const RESERVE_50: &[(&str, &str)] = &[("reserved-space", "50%")];

/// The third phase of updates, which most experiments vary.
pub const UPDATES: Experiment = Experiment {
    paper: "hashkv",
    scale: "hashkv",
    settings: RESERVE_30,
    workloads: &["hashkv"],
    shows: &["hashkv-p3"],
    metrics: &[Metric::Settled, Metric::BytesWritten],
    ..Experiment::BASE
};

/// Sizes of pairs, and how many of each make a scan of 1 MiB.
const PAIRS: Sweep = ("--value-size", &["232", "1000", "4072", "16360", "65512"]);
const PAIRS_OF_A_SCAN: Sweep = ("--scan-length", &["4096", "1024", "256", "64", "16"]);

/// Thresholds of separation, for values of Zipfian sizes.
const THRESHOLDS: Experiment = Experiment {
    vary: Some(("threshold", &["8", "64", "128", "256", "512", "1024", "4096"])),
    scale: "standard",
    settings: &[
        ("--data", "2GiB"),
        ("--value-sizes", "zipfian:16:8168"),
        ("reserved-space", "30%"),
    ],
    ..UPDATES
};

/// Experiment 5.
const SCANS: Experiment = Experiment {
    vary: Some(PAIRS),
    coupled: Some(PAIRS_OF_A_SCAN),
    scale: "standard",
    shows: &["scan-100"],
    metrics: &[Metric::Bandwidth],
    ..UPDATES
};

/// Experiment 6, Zipfian constant 0.99. Space is what there is, the cold log included.
const TAGGING: Experiment = Experiment {
    rows: &["Experiment 6, Figure 11"],
    vary: Some(("tagging", &["off", "on"])),
    metrics: &[Metric::Settled, Metric::BytesWritten, Metric::SpaceEnd],
    paper_says: "at 20% throughput +121.3%, bytes -42.5%",
    ..UPDATES
};

/// Experiment 7: everything separated, and what is large, for each of three ratios.
const SELECTIVE: Experiment = Experiment {
    rows: &["Experiment 7, Figure 12"],
    vary: Some(("threshold", &["8", "192", "8", "192", "8", "192"])),
    scale: "standard",
    settings: &[("--data", "2GiB"), ("reserved-space", "20%")],
    ..UPDATES
};

/// Experiment 9.
const POLICIES: Experiment = Experiment {
    rows: &["Experiment 9, Figure 14"],
    vary: Some(("victim-policy", &["greedy", "cost-benefit", "greedy-random", "random"])),
    paper_says: "cost-benefit as greedy; greedy above random by 61.3 to 62.2%, above \
                greedy-random by 31.5 to 32.1%",
    ..UPDATES
};

/// Experiment 15.
const SEGMENTS: Experiment = Experiment {
    rows: &["Experiment 15, Figures 20a, 20d"],
    vary: Some(("segment", &["4MiB", "8MiB", "16MiB", "32MiB", "64MiB"])),
    ..UPDATES
};
const LOG_SEGMENTS: Experiment = Experiment {
    rows: &["Experiment 15, Figures 20b, 20e"],
    vary: Some(("log-segment", &["64KiB", "128KiB", "256KiB", "512KiB", "1MiB"])),
    ..UPDATES
};
const CACHES: Experiment = Experiment {
    rows: &["Experiment 15, Figures 20c, 20f"],
    vary: Some(("memtable", &["4MiB", "8MiB", "16MiB", "32MiB", "64MiB"])),
    ..UPDATES
};

/// Sizes of values, each with and without separation.
const SIZES_TWICE: [&str; 12] =
    ["32", "32", "64", "64", "128", "128", "192", "192", "256", "256", "512", "512"];

/// Least sizes that are separated: all are, and none.
const WITH_AND_WITHOUT: [&str; 12] =
    ["8", "64KiB", "8", "64KiB", "8", "64KiB", "8", "64KiB", "8", "64KiB", "8", "64KiB"];

/// YCSB on a store that was updated for a while, and scans behind it.
const AGED: &[&str] = &[
    "hashkv-p0",
    "hashkv-p1",
    "hashkv-p2",
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-f",
    "ycsb-d",
    "scan-100",
];
/// The workloads of [`AGED`] without scans.
const AGED_YCSB: &[&str] = AGED.split_at(AGED.len() - 1).0;
/// How many of its workloads only age the store.
const AGING: usize = 3;

/// The experiments of the paper, in its order.
pub const HASHKV: &[Experiment] = &[
    Experiment {
        name: "hashkv-motivation",
        rows: &["Figure 2 (2.2)"],
        about: "bytes written by load and by updates",
        workloads: &["hashkv-p0", "hashkv-p1"],
        shows: &[],
        metrics: &[Metric::WriteAmplification],
        paper_says: "vLog 1.6 in the load, 19.7 in the update; LevelDB 19.1, RocksDB 7.9 in the \
                    update",
        ..UPDATES
    },
    Experiment {
        name: "hashkv-threshold-search",
        rows: &["Figure 5 (3.5)"],
        about: "updates by size, with and without separation",
        vary: Some(("--value-size", &SIZES_TWICE)),
        coupled: Some(("threshold", &WITH_AND_WITHOUT)),
        settings: &[("--data", "512MiB")],
        scale: "standard",
        workloads: &["load", "update-zipfian"],
        shows: &["update-zipfian"],
        metrics: &[Metric::Settled],
        paper_says: "separation gains from a size between 128 B and 192 B on",
        ..UPDATES
    },
    Experiment {
        name: "hashkv-1",
        rows: &[
            "Experiment 1, Figure 6a",
            "Experiment 1, Figures 6b, 6c",
            "Experiment 1, Figure 6d",
            "Experiment 1, Figure 6e",
        ],
        about: "load and three phases of updates: speed, bytes, size, processor",
        shows: &[],
        metrics: &[
            Metric::Settled,
            Metric::BytesWritten,
            Metric::SpaceEnd,
            Metric::CpuPerOperation,
        ],
        paper_says: "load 17.1x LevelDB, 3.0x RocksDB, 7.9% below vLog; updates 6.3 to 7.9x, 1.3 \
                    to 1.4x, 3.7 to 4.6x. Written: 71.5, 66.7, 49.6% less. Growth P0 to P3: \
                    42.1, 38.9, 28.9, HashKV 27.0%",
        ..UPDATES
    },
    Experiment {
        name: "hashkv-2",
        rows: &["Experiment 2, Figure 7, Table 1"],
        about: "reserved space",
        vary: Some((
            "reserved-space",
            &["10%", "20%", "30%", "40%", "50%", "60%", "70%", "80%", "90%"],
        )),
        metrics: &[
            Metric::Settled,
            Metric::BytesWritten,
            Metric::MeanLatency,
            Metric::Step("flush_values"),
            Metric::Step("flush_index"),
            Metric::Step("collect_values"),
            Metric::Step("collect_lookup"),
            Metric::Step("collect_index"),
        ],
        paper_says: "3.1 to 4.7x vLog, 30.1 to 57.3% fewer bytes. Look-ups in the index take over \
                    80% of vLog's time and none of HashKV's. Mean latency of vLog and \
                    HashKV in us at 10%: 160.70, 36.21; 30%: 57.57, 13.07; 50%: 40.60, 10.25; \
                    70%: 32.86, 8.14; 90%: 24.46, 7.72",
        ..UPDATES
    },
    Experiment {
        name: "hashkv-3",
        paper: "hashkv",
        rows: &["Experiment 3, Figure 8"],
        about: "RAID levels",
        paper_says: "RAID-6: 4.8x LevelDB, 3.2x RocksDB, 2.7x vLog",
        skipped: Some("it measures an array of six disks, the reference machine has one"),
        ..Experiment::BASE
    },
    Experiment {
        name: "hashkv-4",
        rows: &["Experiment 4, Figure 9"],
        about: "size of pairs, updates",
        vary: Some(PAIRS),
        settings: &[("--data", "2GiB"), ("reserved-space", "30%")],
        scale: "standard",
        paper_says: "at 4 KiB 15.5x LevelDB, 2.8x RocksDB; 2.2 to 5.1x vLog from 256 B to 4 KiB, \
                    at 64 KiB 10.7% below vLog; at 256 B both below RocksDB",
        ..UPDATES
    },
    Experiment {
        name: "hashkv-5-loaded",
        rows: &["Experiment 5, Figure 10a"],
        about: "scans of 1 MiB after the load, Zipfian starts there, uniform here",
        settings: &[("--data", "2GiB")],
        workloads: &["hashkv-p0", "scan-100"],
        paper_says: "as vLog; 70.0% and 36.3% below LevelDB at 256 B and 1 KiB, 94.2% above it \
                    at 4 KiB",
        ..SCANS
    },
    Experiment {
        name: "hashkv-5-aged",
        rows: &["Experiment 5, Figure 10b"],
        about: "the same scans after the updates",
        settings: &[("--data", "2GiB"), ("reserved-space", "30%")],
        workloads: &["hashkv", "scan-100"],
        paper_says: "all stores alike at all sizes, after a manual compaction",
        ..SCANS
    },
    Experiment {
        name: "hashkv-6-zipf-0.9",
        about: "tagging off and on, Zipfian constant 0.9",
        settings: &[("--zipfian", "0.9"), ("reserved-space", "20%")],
        paper_says: "throughput +113.1%, bytes -42.8%",
        ..TAGGING
    },
    Experiment {
        name: "hashkv-6-zipf-0.99",
        about: "tagging off and on, Zipfian constant 0.99",
        settings: RESERVE_20,
        ..TAGGING
    },
    Experiment {
        name: "hashkv-6-reserve-30",
        about: "tagging off and on, reserved space 30%",
        ..TAGGING
    },
    Experiment {
        name: "hashkv-6-unlimited-20",
        about: "the same as the paper counts: the cold log has no limit",
        settings: &[("cold-log", "unlimited"), ("reserved-space", "20%")],
        ..TAGGING
    },
    Experiment {
        name: "hashkv-6-unlimited-30",
        about: "the cold log has no limit, reserved space 30%",
        settings: &[("cold-log", "unlimited"), ("reserved-space", "30%")],
        ..TAGGING
    },
    Experiment {
        name: "hashkv-7-1k",
        about: "selective separation off and on, pairs of 40 B and 1 KiB as 1:2, 1:1, 2:1",
        coupled: Some((
            "--value-sizes",
            &[
                "two:16:1000:33",
                "two:16:1000:33",
                "two:16:1000:50",
                "two:16:1000:50",
                "two:16:1000:67",
                "two:16:1000:67",
            ],
        )),
        paper_says: "throughput +23.2 to +118.0%, bytes -14.1 to -39.6% over the three ratios",
        ..SELECTIVE
    },
    Experiment {
        name: "hashkv-7-4k",
        about: "the same with pairs of 40 B and 4 KiB",
        coupled: Some((
            "--value-sizes",
            &[
                "two:16:4072:33",
                "two:16:4072:33",
                "two:16:4072:50",
                "two:16:4072:50",
                "two:16:4072:67",
                "two:16:4072:67",
            ],
        )),
        paper_says: "throughput +19.2 to +52.1%, bytes -4.1 to -10.7% over the three ratios",
        ..SELECTIVE
    },
    Experiment {
        name: "hashkv-8",
        rows: &["Experiment 8, Figure 13"],
        about: "threshold of separation, Zipfian sizes of 40 B to 8 KiB",
        shows: &["hashkv-p0", "hashkv-p3"],
        paper_says: "best between 128 B and 256 B, at least 40% above threshold 0; bytes -16.9 \
                    to -18.4% between 128 B and 512 B",
        ..THRESHOLDS
    },
    Experiment {
        name: "hashkv-9-zipf-0.9",
        about: "victim policy, Zipfian constant 0.9",
        settings: &[("--zipfian", "0.9"), ("reserved-space", "30%")],
        ..POLICIES
    },
    Experiment {
        name: "hashkv-9-zipf-0.99",
        about: "victim policy, Zipfian constant 0.99",
        settings: &[("--zipfian", "0.99"), ("reserved-space", "30%")],
        ..POLICIES
    },
    Experiment {
        name: "hashkv-10",
        paper: "hashkv",
        rows: &["Experiment 10, Table 2"],
        about: "crash consistency off and on",
        paper_says: "58.0 to 54.3 thousand op/s in P3, 454.6 to 473.7 GiB written",
        skipped: Some(
            "crash consistency cannot be switched off here; \
            crates/cleavedb/tests/engine/crash.rs proves it",
        ),
        ..Experiment::BASE
    },
    Experiment {
        name: "hashkv-11",
        rows: &["Table 3 (4.5)", "Experiment 11, Figure 15"],
        about: "YCSB A, B, C, D, F on an aged store: speed, 95th percentile of reads",
        workloads: AGED_YCSB,
        shows: AGED_YCSB.split_at(AGING).1,
        metrics: &[Metric::Settled, Metric::ReadP95],
        paper_says: "A and F: 2.8 to 2.9x LevelDB, 1.1 to 1.4x vLog, 12.5 to 13.9% below \
                    RocksDB; B, C, D: 2.3 to 4.8x LevelDB, as vLog and RocksDB",
        ..UPDATES
    },
    Experiment {
        name: "hashkv-12",
        rows: &["Experiment 12, Figure 16"],
        about: "threshold of separation under YCSB, Zipfian sizes",
        workloads: &["hashkv-p0", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f", "ycsb-d"],
        shows: &["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f", "ycsb-d"],
        metrics: &[Metric::Settled, Metric::ReadP95],
        paper_says: "best between 128 B and 256 B: +26.5 to +48.3% over threshold 0, and the \
                    lowest read latency",
        ..THRESHOLDS
    },
    Experiment {
        name: "hashkv-13",
        rows: &["Experiment 13, Figure 17", "Experiment 13, Figure 18"],
        about: "HashKV over other stores, YCSB and scans: name them by --engines \
                rocksdb,hashkv-rocksdb,leveldb,hashkv-leveldb",
        workloads: AGED,
        shows: AGED.split_at(AGING).1,
        metrics: &[Metric::Settled, Metric::ReadP95],
        paper_says: "A and F: HashKV 1.2x RocksDB, 4.6 to 5.0x HyperLevelDB, 2.2 to 2.4x \
                    PebblesDB, each alone; B, C, D: 1.1 to 1.3x, 3.9 to 5.6x, 2.0 to 2.6x",
        ..UPDATES
    },
    Experiment {
        name: "hashkv-14",
        paper: "hashkv",
        rows: &["Experiment 14, Figure 19"],
        about: "pairs per group, and use of the space",
        paper_says: "64K to 66K pairs a group, within 2.5%; 99.4% of the space used",
        skipped: Some("a matter of metrics, not of speed: `cleave stats` shows groups"),
        ..Experiment::BASE
    },
    Experiment {
        name: "hashkv-15-segment-20",
        about: "main segment (16 to 256 MiB there), reserved space 20%",
        settings: RESERVE_20,
        paper_says: "throughput +52.5% from the smallest to the largest",
        ..SEGMENTS
    },
    Experiment {
        name: "hashkv-15-log-segment-20",
        about: "log segment (256 KiB to 4 MiB there), reserved space 20%",
        settings: RESERVE_20,
        paper_says: "throughput -16.1%, bytes +10.4% from the smallest to the largest",
        ..LOG_SEGMENTS
    },
    Experiment {
        name: "hashkv-15-cache-20",
        about: "write cache (4 to 64 MiB there; here the memtable), reserved space 20%",
        settings: RESERVE_20,
        paper_says: "throughput +29.1%, bytes -16.3% from the smallest to the largest",
        ..CACHES
    },
    Experiment {
        name: "hashkv-15-segment-50",
        about: "main segment (16 to 256 MiB there), reserved space 50%",
        settings: RESERVE_50,
        paper_says: "throughput +28.3% from the smallest to the largest",
        ..SEGMENTS
    },
    Experiment {
        name: "hashkv-15-log-segment-50",
        about: "log segment (256 KiB to 4 MiB there), reserved space 50%",
        settings: RESERVE_50,
        paper_says: "no change",
        ..LOG_SEGMENTS
    },
    Experiment {
        name: "hashkv-15-cache-50",
        about: "write cache (4 to 64 MiB there; here the memtable), reserved space 50%",
        settings: RESERVE_50,
        paper_says: "no numbers in the text",
        ..CACHES
    },
];
