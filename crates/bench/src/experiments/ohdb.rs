//! OHDB: Liu, Wang, Zhou, "An optimized implementation for concurrent LSM-structured key-value
//! stores". 100 M items of 116 bytes there, 10 M of 124 here; memtables and tables are scaled by
//! eight.

use crate::experiments::{Experiment, Metric};

/// The experiments of the paper, in its order.
pub const OHDB: &[Experiment] = &[
    Experiment {
        name: "ohdb-motivation",
        paper: "ohdb",
        rows: &["Table I (II)"],
        about: "size of tables, without partitions (2 to 16 MB there)",
        vary: Some(("table", &["512KiB", "1MiB", "2MiB"])),
        scale: "small",
        workloads: &["fillrandom", "readrandom"],
        metrics: &[Metric::Bandwidth, Metric::Throughput, Metric::Compactions],
        paper_says: "HyperLevelDB with 4, 8, 16 MB: write 6.8, 6.5, 6.0 MB/s; read 42,439, \
                    76,470, 131,337 op/s; 9,800, 7,677, 4,896 compactions",
        ..Experiment::BASE
    },
    Experiment {
        name: "ohdb-partitions",
        paper: "ohdb",
        rows: &["Table II (IV.B), low-end", "Table II (IV.B), high-end"],
        about: "partitions, and the bytes that compaction moves",
        vary: Some(("partitions", &["1", "10"])),
        scale: "small",
        settings: &[("memtable", "4MiB"), ("table", "1MiB")],
        workloads: &["fillrandom", "readrandom"],
        metrics: &[
            Metric::Bandwidth,
            Metric::Throughput,
            Metric::Compactions,
            Metric::BytesWritten,
        ],
        paper_says: "low-end, HDB and L0P: write 6.5, 6.7 MB/s; read 76,470, 85,106 op/s; \
                    compactions 7,677, 1,611; GB written 86.7, 79.5. High-end: 12.5, 18.8; \
                    101,173, 117,467; 8,613, 923; 96.3, 66.8",
        ..Experiment::BASE
    },
    Experiment {
        name: "ohdb-memtable",
        paper: "ohdb",
        rows: &["Table III (IV.C)", "Figure 2 (IV.C)", "Table IV (IV.C)", "Figure 3 (IV.C)"],
        about: "memtable (16 to 64 MB there), 10 partitions",
        vary: Some(("memtable", &["2MiB", "4MiB", "6MiB", "8MiB"])),
        scale: "small",
        settings: &[("partitions", "10"), ("table", "1MiB")],
        workloads: &["fillrandom", "readrandom"],
        metrics: &[Metric::Compactions, Metric::Bandwidth, Metric::Throughput],
        paper_says: "compactions on hard disk: HDB 10,099, 7,677, 6,405, 5,410; L0P 2,172, \
                    1,547, 1,416, 1,214. High-end: HDB 10,979, 8,613, 7,082, 6,080; L0P 1,122, \
                    923, 754, 709",
        ..Experiment::BASE
    },
    Experiment {
        name: "ohdb-table",
        paper: "ohdb",
        rows: &["Table V (IV.D)", "Figure 4 (IV.D)", "Table VI (IV.D)", "Figure 5 (IV.D)"],
        about: "tables (4 to 32 MB there), 10 partitions",
        vary: Some(("table", &["512KiB", "1MiB", "2MiB", "4MiB"])),
        scale: "small",
        settings: &[("partitions", "10"), ("memtable", "4MiB")],
        workloads: &["fillrandom", "readrandom"],
        metrics: &[Metric::Compactions, Metric::Bandwidth, Metric::Throughput],
        paper_says: "compactions on hard disk: HDB 9,800, 7,677, 4,896, 3,294; L0P 2,858, 1,547, \
                    1,036, 777. High-end: HDB 10,923, 8,613, 5,934, 3,882; L0P 1,846, 923, 515, \
                    247",
        ..Experiment::BASE
    },
];
