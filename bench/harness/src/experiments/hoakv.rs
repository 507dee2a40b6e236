//! HoaKV: Liu et al., "HoaKV: High-Performance KV Store Based on the Hot-Awareness in Mixed
//! Workloads" (Electronics 12, 2023). 100 GB and 32 threads there, 2 GiB and 4 clients here; hot
//! store and groups are scaled with the data. Settings of the preset alone name it, so that others
//! run beside it without them.

use crate::experiments::{Experiment, Metric};

/// The base of all entries: plain Zipfian keys, and beside them YCSB's, whose ten billion ranks
/// spread 39% of the requests evenly.
const BASE: Experiment = Experiment {
    paper: "hoakv",
    across: Some(("--zipfian-ranks", &["records", "10G"])),
    ..Experiment::BASE
};

/// As many tables with their filter and index in memory as the paper's `open_files` of 1000 allows,
/// scaled with the data.
const OPEN_FILES: (&str, &str) = ("open-files", "20");

/// A hot store that is full of what is accessed, as the paper's is after 100 M pairs.
const WARM: (&str, &str) = ("--warm-up", "still");

/// Experiments 1 to 5.
const ALL: Experiment = Experiment {
    rows: &[
        "Experiment 1, Figure 6a",
        "Experiment 2, Figure 6b",
        "Experiment 3, Figure 6c",
        "Experiment 4, Figure 6d",
        "Experiment 5, Figure 6e",
    ],
    workloads: &["load", "ycsb-c", "update-zipfian", "scan-100"],
    metrics: &[Metric::Throughput, Metric::Settled, Metric::SpaceEnd],
    paper_says: "load 9.6x LevelDB, 6.2x RocksDB, 1.8x PebblesDB, 0.8x WiscKey; reads nearly \
                5x LevelDB; updates 7.5x LevelDB, WiscKey best; scans 12.5% above WiscKey, \
                LevelDB best; sizes similar",
    ..BASE
};

/// Experiment 6.
const YCSB: Experiment = Experiment {
    workloads: &["load", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d"],
    shows: &["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d"],
    metrics: &[Metric::Throughput, Metric::Settled],
    paper_says: "A: 4.7x LevelDB, 1.2x RocksDB, 3.2x PebblesDB, 2.2x WiscKey; B to D: 4.4 to \
                11.4x, 1.2 to 3.0x, 2.3 to 7.4x, 1.0 to 2.5x",
    ..BASE
};

/// The experiments of the paper, in its order.
pub const HOAKV: &[Experiment] = &[
    Experiment {
        name: "hoakv-1-inline",
        about: "load, read, update, scan, size; as the paper sets it: cold pairs of 1 KB stay in \
                the tree, hot ones go to the hot store",
        settings: &[
            ("--data", "2GiB"),
            ("--threads", "4"),
            WARM,
            ("--value-size", "1000"),
            ("hoakv.hot-store", "320MiB"),
            ("hoakv.group", "400MiB"),
            ("hoakv.value-size-limit", "32KiB"),
        ],
        ..ALL
    },
    Experiment {
        name: "hoakv-1-separated",
        about: "load, read, update, scan, size; as the paper explains it: cold pairs of 1 KB are \
                separated",
        settings: &[
            ("--data", "2GiB"),
            ("--threads", "4"),
            WARM,
            ("--value-size", "1000"),
            ("hoakv.hot-store", "320MiB"),
            ("hoakv.group", "400MiB"),
            ("hoakv.value-size-limit", "256"),
        ],
        ..ALL
    },
    Experiment {
        name: "hoakv-2-bounded",
        rows: &["Experiment 2, Figure 6b"],
        about: "reads with filters and indexes of 20 tables in memory, as an `open_files` of 1000 \
                bounds them at 100 GB: of ours and LevelDB's, of 2 MiB, one in fifty (LevelDB \
                keeps 64 at least, RocksDB ten fewer than it is told)",
        settings: &[
            ("--data", "2GiB"),
            ("--threads", "4"),
            WARM,
            ("--value-size", "1000"),
            OPEN_FILES,
            ("hoakv.table", "2MiB"),
            ("ktstore.table", "2MiB"),
            ("wisckey.table", "2MiB"),
            ("hoakv.hot-store", "320MiB"),
            ("hoakv.group", "400MiB"),
            ("hoakv.value-size-limit", "32KiB"),
        ],
        workloads: &["load", "ycsb-c"],
        shows: &["ycsb-c"],
        metrics: &[Metric::Throughput, Metric::ReadAmplification],
        paper_says: "reads best of all, nearly 5x LevelDB",
        ..BASE
    },
    Experiment {
        name: "hoakv-6",
        rows: &["Table 1 (4.3)", "Experiment 6, Figure 7"],
        about: "YCSB A to D",
        settings: &[
            ("--data", "2GiB"),
            ("--threads", "4"),
            WARM,
            ("--value-size", "1000"),
            ("hoakv.hot-store", "80MiB"),
            ("hoakv.group", "800MiB"),
        ],
        ..YCSB
    },
    Experiment {
        name: "hoakv-6-bounded",
        rows: &["Experiment 6, Figure 7"],
        about: "YCSB A to D with filters and indexes of 20 tables in memory, as above",
        settings: &[
            ("--data", "2GiB"),
            ("--threads", "4"),
            WARM,
            ("--value-size", "1000"),
            OPEN_FILES,
            ("hoakv.table", "2MiB"),
            ("ktstore.table", "2MiB"),
            ("wisckey.table", "2MiB"),
            ("hoakv.hot-store", "80MiB"),
            ("hoakv.group", "800MiB"),
        ],
        ..YCSB
    },
    Experiment {
        name: "hoakv-7",
        rows: &["Experiment 7, Figure 8a"],
        about: "size of the hot store (1 to 16 GB there)",
        vary: Some(("hot-store", &["20MiB", "40MiB", "80MiB", "160MiB", "320MiB"])),
        settings: &[
            ("--data", "2GiB"),
            ("--threads", "4"),
            WARM,
            ("--value-size", "1000"),
            ("hoakv.group", "800MiB"),
        ],
        workloads: &["load", "ycsb-c"],
        metrics: &[Metric::Throughput, Metric::Settled],
        paper_says: "the load gets faster with the size, reads hardly change",
        ..BASE
    },
    Experiment {
        name: "hoakv-8",
        rows: &["Experiment 8, Figure 8b"],
        about: "size of groups (20 to 60 GB there)",
        vary: Some(("group", &["400MiB", "600MiB", "800MiB", "1000MiB", "1200MiB"])),
        settings: &[
            ("--data", "2GiB"),
            ("--threads", "4"),
            WARM,
            ("--value-size", "1000"),
            ("hoakv.hot-store", "80MiB"),
        ],
        workloads: &["load", "ycsb-c"],
        metrics: &[Metric::Throughput, Metric::Settled],
        paper_says: "little effect on writes, almost none on reads",
        ..BASE
    },
    Experiment {
        name: "hoakv-8-one",
        rows: &["Experiment 8, Figure 8b"],
        about: "size of groups, of which there is one at first, as in the paper",
        vary: Some(("group", &["400MiB", "600MiB", "800MiB", "1000MiB", "1200MiB"])),
        settings: &[
            ("--data", "2GiB"),
            ("--threads", "4"),
            WARM,
            ("--value-size", "1000"),
            ("hoakv.hot-store", "80MiB"),
            ("hoakv.one-group", "on"),
        ],
        workloads: &["load", "ycsb-c"],
        metrics: &[Metric::Throughput, Metric::Settled],
        paper_says: "little effect on writes, almost none on reads",
        ..BASE
    },
    Experiment {
        name: "hoakv-9",
        rows: &["Experiment 9, Figure 8c"],
        about: "HeatLimit, in accesses of a key, and so the share of hot data; a moving hot set \
                beside, which the paper does not measure",
        vary: Some(("heat-limit", &["15", "8", "4", "2", "1"])),
        settings: &[
            ("--data", "2GiB"),
            ("--threads", "4"),
            WARM,
            ("--value-size", "1000"),
            ("hoakv.hot-store", "320MiB"),
            ("hoakv.group", "800MiB"),
        ],
        workloads: &["load", "update-zipfian", "update-moving"],
        shows: &["update-zipfian", "update-moving"],
        metrics: &[Metric::Settled, Metric::HotShare, Metric::BytesWritten],
        paper_says: "the larger the hot share, the faster the updates",
        ..BASE
    },
    Experiment {
        name: "hoakv-10",
        rows: &["Experiment 10, Figure 9"],
        about: "size of pairs: load, update, read, in bytes a second",
        vary: Some(("--value-size", &["232", "1000", "4072", "16360", "32744"])),
        settings: &[
            ("--data", "2GiB"),
            ("--threads", "4"),
            WARM,
            ("hoakv.hot-store", "80MiB"),
            ("hoakv.group", "800MiB"),
        ],
        workloads: &["load", "update-zipfian", "ycsb-c"],
        metrics: &[Metric::Bandwidth],
        paper_says: "all rise with the size; always above PebblesDB; the lead shrinks in the \
                    load and grows in reads and updates",
        ..BASE
    },
];
