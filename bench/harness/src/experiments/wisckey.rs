//! WiscKey: Lu et al., "WiscKey: Separating Keys from Values in SSD-conscious Storage" (FAST 2016).
//! 100 GB there, 2 GiB here; keys of 16 bytes there, 24 here.

use crate::experiments::{Experiment, Metric};

/// The experiments of the paper, in its order.
pub const WISCKEY: &[Experiment] = &[
    Experiment {
        name: "wisckey-amplification",
        paper: "wisckey",
        rows: &["Figure 2 (2.3)"],
        about: "write and read amplification of a small and a large store",
        vary: Some(("--data", &["256MiB", "2GiB"])),
        settings: &[("--operations", "20000"), ("--warm-up", "20000")],
        workloads: &["load", "readrandom"],
        metrics: &[Metric::WriteAmplification, Metric::ReadAmplification],
        paper_says: "LevelDB, 1 and 100 GB: write amplification 3.1 and 14, read amplification \
                    8.2 and 327",
        ..Experiment::BASE
    },
    Experiment {
        name: "wisckey-device",
        paper: "wisckey",
        rows: &["Figure 3 (2.4)", "Figure 6 (3.4.1)"],
        about: "what the device and the file system do by request size and depth",
        paper_says: "32 threads of random reads match sequential reads above 16 KB; small write \
                    calls are dominated by their overhead",
        skipped: Some("it measures the device, not a store: `--disk` measures ours with every run"),
        ..Experiment::BASE
    },
    Experiment {
        name: "wisckey-load-sequential",
        paper: "wisckey",
        rows: &["Figure 7 (4.1.1)"],
        about: "sequential load by value size",
        vary: Some(("--value-size", &["64", "256", "1KiB", "4KiB", "16KiB", "64KiB", "256KiB"])),
        settings: &[("--data", "2GiB"), ("--key-order", "ordered")],
        workloads: &["load"],
        metrics: &[Metric::Bandwidth],
        paper_says: "WiscKey reaches the bandwidth of the device above 4 KB and is 3x LevelDB \
                    even for small values",
        ..Experiment::BASE
    },
    Experiment {
        name: "wisckey-breakdown",
        paper: "wisckey",
        rows: &["Figure 8 (4.1.1)"],
        about: "where the time of LevelDB goes in the sequential load",
        paper_says: "log writing for small pairs, waiting for the flush for large ones",
        skipped: Some("it dissects LevelDB; classes and stalls of each result dissect ours"),
        ..Experiment::BASE
    },
    Experiment {
        name: "wisckey-load-random",
        paper: "wisckey",
        rows: &["Figure 9 (4.1.1)", "Figure 10 (4.1.1)", "Figure 14 (4.1.5)"],
        about: "random load by value size: speed, bytes written, size of the store",
        vary: Some(("--value-size", &["64", "256", "1KiB", "4KiB", "16KiB", "64KiB", "256KiB"])),
        settings: &[("--data", "2GiB")],
        workloads: &["load"],
        metrics: &[Metric::Bandwidth, Metric::WriteAmplification, Metric::SpaceAmplification],
        paper_says: "LevelDB 2 MB/s (64 B) to 4.1 MB/s (256 KB); WiscKey 46x at 1 KB, 111x at 4 \
                    KB. Write amplification: LevelDB above 12, WiscKey nearly 1 from 1 KB on. \
                    Size close to the data after collection",
        ..Experiment::BASE
    },
    Experiment {
        name: "wisckey-lookup",
        paper: "wisckey",
        rows: &["Figure 11 (4.1.2)"],
        about: "random look-ups by value size on a randomly loaded store",
        vary: Some(("--value-size", &["64", "256", "1KiB", "4KiB", "16KiB", "64KiB", "256KiB"])),
        settings: &[("--data", "2GiB"), ("--operations", "20000"), ("--warm-up", "20000")],
        workloads: &["load", "readrandom"],
        shows: &["readrandom"],
        metrics: &[Metric::Bandwidth],
        paper_says: "12x LevelDB at 1 KB; limited by the random reads of the device for large \
                    values",
        ..Experiment::BASE
    },
    Experiment {
        name: "wisckey-range-random",
        paper: "wisckey",
        rows: &["Figure 12 (4.1.2)"],
        about: "range queries by value size on a randomly loaded store",
        vary: Some(("--value-size", &["64", "256", "1KiB", "4KiB", "16KiB", "64KiB", "256KiB"])),
        coupled: Some(("--scan-length", &["16384", "4096", "1024", "256", "64", "16", "4"])),
        settings: &[("--data", "2GiB")],
        workloads: &["load", "scan-100"],
        shows: &["scan-100"],
        metrics: &[Metric::Bandwidth],
        paper_says: "up to 8.4x LevelDB for large values, 12x slower at 64 B",
        ..Experiment::BASE
    },
    Experiment {
        name: "wisckey-range-sequential",
        paper: "wisckey",
        rows: &["Figure 12 (4.1.2)"],
        about: "range queries by value size on a sequentially loaded store",
        vary: Some(("--value-size", &["64", "256", "1KiB", "4KiB", "16KiB", "64KiB", "256KiB"])),
        coupled: Some(("--scan-length", &["16384", "4096", "1024", "256", "64", "16", "4"])),
        settings: &[("--data", "2GiB"), ("--key-order", "ordered")],
        workloads: &["load", "scan-100"],
        shows: &["scan-100"],
        metrics: &[Metric::Bandwidth],
        paper_says: "25% slower than LevelDB at 64 B, 2.8x faster for large values",
        ..Experiment::BASE
    },
    Experiment {
        name: "wisckey-collection",
        paper: "wisckey",
        rows: &["Figure 13 (4.1.3)"],
        about: "writing while values are collected: uniform updates, more or less space tolerated",
        vary: Some(("reserved-space", &["15%", "30%", "60%", "100%"])),
        settings: &[("--data", "2GiB"), ("--value-size", "4KiB")],
        workloads: &["load", "update", "update"],
        shows: &["update"],
        metrics: &[Metric::Settled, Metric::WriteAmplification],
        paper_says: "random load of 4 KB values while the collector reads space of which 25% to \
                    100% is free: 10% slower if all is free, about 35% otherwise",
        ..Experiment::BASE
    },
    Experiment {
        name: "wisckey-crash",
        paper: "wisckey",
        rows: &["4.1.4"],
        about: "crash states, and time to recover in the worst case",
        paper_says: "more than 3,000 states without a vulnerability; recovery 0.7 s for LevelDB, \
                    2.6 s for WiscKey",
        skipped: Some(
            "it is a test, not a benchmark: crates/cleavedb/tests/engine/crash.rs and \
            crates/cleavedb/tests/engine/kill.rs",
        ),
        ..Experiment::BASE
    },
    Experiment {
        name: "wisckey-cpu",
        paper: "wisckey",
        rows: &["Table 1 (4.1.6)"],
        about: "processor time of load, look-up and range",
        workloads: &["load", "readrandom", "scan-100"],
        metrics: &[Metric::CpuPerOperation],
        paper_says: "at 1 KB, in percent of the machine: LevelDB 6.3, 7.9, 11.2; WiscKey 8.9, \
                    11.3, 30.1",
        ..Experiment::BASE
    },
    Experiment {
        name: "wisckey-cpu-sequential",
        paper: "wisckey",
        rows: &["Table 1 (4.1.6)"],
        about: "processor time of a sequential load",
        settings: &[("--key-order", "ordered")],
        workloads: &["load"],
        metrics: &[Metric::CpuPerOperation],
        paper_says: "at 1 KB, in percent of the machine: LevelDB 10.6, WiscKey 8.2",
        ..Experiment::BASE
    },
    Experiment {
        name: "wisckey-ycsb-1k",
        paper: "wisckey",
        rows: &["Figure 15a (4.2)"],
        about: "YCSB with values of 1 KiB",
        workloads: &["ycsb"],
        metrics: &[Metric::Throughput, Metric::Settled],
        paper_says: "load at least 50x LevelDB and RocksDB, 45x while collecting; ahead in all six",
        ..Experiment::BASE
    },
    Experiment {
        name: "wisckey-ycsb-16k",
        paper: "wisckey",
        rows: &["Figure 15b (4.2)"],
        about: "YCSB with values of 16 KiB",
        settings: &[("--data", "2GiB"), ("--value-size", "16KiB")],
        workloads: &["ycsb"],
        metrics: &[Metric::Throughput, Metric::Settled],
        paper_says: "load 104x LevelDB and RocksDB while collecting; ahead in all six",
        ..Experiment::BASE
    },
];
