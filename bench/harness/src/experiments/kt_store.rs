//! KT-Store: Wang et al., "KT-Store: A Key-Order and Write-Order Hybrid Key-Value Store with High
//! Write and Range-Query Performance" (NPC 2018). 100 GB there, 2 GiB here.
//!
//! The paper's hard disk is a modelled one, twenty times as fast: every one of its times is a
//! twentieth, so factors between engines stay as long as they wait for the disk.

use crate::experiments::{Experiment, Metric};

/// The hard disk.
const DISK: (&str, &str) = ("device", "hdd:20");

/// What both disks share.
const LOAD_SIZE: Experiment = Experiment {
    paper: "kt-store",
    vary: Some(("--value-size", &["1KiB", "4KiB", "16KiB", "64KiB"])),
    settings: &[("--data", "2GiB")],
    workloads: &["load"],
    metrics: &[Metric::Settled, Metric::Bandwidth],
    ..Experiment::BASE
};
const RANGE_SIZE: Experiment = Experiment {
    paper: "kt-store",
    vary: Some(("--value-size", &["1KiB", "4KiB", "16KiB"])),
    coupled: Some(("--scan-length", &["40000", "10000", "2500"])),
    settings: &[("--data", "2GiB")],
    workloads: &["load", "scan-100"],
    shows: &["scan-100"],
    metrics: &[Metric::Bandwidth, Metric::MeanLatency],
    ..Experiment::BASE
};

/// The experiments of the paper, in its order.
pub const KT_STORE: &[Experiment] = &[
    Experiment {
        name: "kt-store-order",
        paper: "kt-store",
        rows: &["Section 2"],
        about: "random against sequential insertion, 4 KiB values",
        vary: Some(("--key-order", &["ordered", "shuffled"])),
        settings: &[("--data", "2GiB"), ("--value-size", "4KiB")],
        workloads: &["load"],
        metrics: &[Metric::Settled, Metric::WriteAmplification],
        paper_says: "RocksDB: random insertion reaches about 30% of sequential",
        ..Experiment::BASE
    },
    Experiment {
        name: "kt-store-load-size",
        rows: &["Figure 6b (4.2)"],
        about: "load by value size",
        paper_says: "SSD: above RocksDB, as WiscKey at best",
        ..LOAD_SIZE
    },
    Experiment {
        name: "kt-store-load-size-disk",
        rows: &["Figure 6a (4.2)"],
        about: "load by value size, hard disk",
        settings: &[("--data", "2GiB"), DISK],
        paper_says: "4.3 to 12.6x RocksDB, rising with the size, about 16% below WiscKey at best",
        ..LOAD_SIZE
    },
    Experiment {
        name: "kt-store-load-volume",
        paper: "kt-store",
        rows: &["Figure 7 (4.2)"],
        about: "load by volume (5 to 100 GB there), 4 KiB values, hard disk",
        vary: Some(("--data", &["256MiB", "512MiB", "1GiB", "2GiB"])),
        settings: &[("--value-size", "4KiB"), DISK],
        workloads: &["load"],
        metrics: &[Metric::Settled],
        paper_says: "the lead over RocksDB grows with the volume; about 23% below WiscKey",
        ..Experiment::BASE
    },
    Experiment {
        name: "kt-store-range-entries",
        paper: "kt-store",
        rows: &["Figure 8 (4.3)"],
        about: "range queries by number of entries, 4 KiB values, hard disk",
        settings: &[("--data", "2GiB"), ("--value-size", "4KiB"), DISK],
        workloads: &[
            "load",
            "range-2000",
            "range-3000",
            "range-5000",
            "range-15000",
            "range-20000",
        ],
        shows: &["range-2000", "range-3000", "range-5000", "range-15000", "range-20000"],
        metrics: &[Metric::Throughput, Metric::MeanLatency],
        paper_says: "54.2 to 112.6x WiscKey, 3.42 to 5.81x RocksDB",
        ..Experiment::BASE
    },
    Experiment {
        name: "kt-store-levels",
        paper: "kt-store",
        rows: &["Figure 8 (4.3)"],
        about: "the same and the load with levels that are fixed, as the paper built it: 19, 185 \
                and 1,845 TrieTables",
        // Keys begin with `user` and a number below 2^64 in 20 digits.
        vary: Some(("ktstore.levels", &["6", "7", "8"])),
        settings: &[("--data", "2GiB"), ("--value-size", "4KiB"), DISK],
        workloads: &["load", "range-2000", "range-20000"],
        metrics: &[Metric::Settled, Metric::Throughput, Metric::MeanLatency],
        paper_says: "54.2 to 112.6x WiscKey, 3.42 to 5.81x RocksDB",
        ..Experiment::BASE
    },
    Experiment {
        name: "kt-store-range-size",
        rows: &["Figure 9b (4.3)"],
        about: "ranges of 40 MB by value size",
        paper_says: "SSD: faster than WiscKey in all cases",
        ..RANGE_SIZE
    },
    Experiment {
        name: "kt-store-range-size-disk",
        rows: &["Figure 9a (4.3)"],
        about: "ranges of 40 MB by value size, hard disk",
        settings: &[("--data", "2GiB"), DISK],
        paper_says: "faster than WiscKey in all cases",
        ..RANGE_SIZE
    },
    Experiment {
        name: "kt-store-read",
        paper: "kt-store",
        rows: &["Figure 10 (4.4)"],
        about: "1,000 random reads by volume, 4 KiB values, nothing in memory at first, hard disk",
        vary: Some(("--data", &["256MiB", "512MiB", "1GiB", "2GiB"])),
        settings: &[("--value-size", "4KiB"), ("--operations", "1000"), DISK],
        workloads: &["load", "readrandom-cold"],
        shows: &["readrandom-cold"],
        metrics: &[Metric::MeanLatency],
        paper_says: "latency about as RocksDB and WiscKey",
        ..Experiment::BASE
    },
    Experiment {
        name: "kt-store-ycsb",
        paper: "kt-store",
        rows: &["Figure 11 (4.5)"],
        about: "YCSB with values of 4 KiB, hard disk",
        settings: &[("--data", "2GiB"), ("--value-size", "4KiB"), DISK],
        workloads: &["ycsb"],
        metrics: &[Metric::Throughput, Metric::Settled],
        paper_says: "load, A to D, F 1.8 to 7.0x RocksDB, as WiscKey; E 2.32x \
                    WiscKey, a little below RocksDB",
        ..Experiment::BASE
    },
];
