//! OHDB: Liu, Wang, Zhou, "An optimized implementation for concurrent LSM-structured key-value
//! stores". 100 M items of 116 bytes there, 10 M here; memtables, tables and levels are scaled by
//! eight.

use crate::experiments::{Experiment, Metric};

/// Keys as long as the paper's.
const KEY: (&str, &str) = ("--key-size", "16");
/// Levels 0 and 1 of HyperLevelDB, on which the paper builds: four tables of its usual memtable,
/// and 128 MiB, an eighth of them. Those of a `variant` are the same.
const LEVEL0: (&str, &str) = ("level0-size", "16MiB");
const LEVEL1: (&str, &str) = ("level1-size", "16MiB");

/// The stores of the paper on its machines, ten times as fast.
const VARIANTS: &[&str] = &[
    "hdb-low:10",
    "l0p-low:10",
    "2dc-low:10",
    "c-low:10",
    "hdb-high:10",
    "l0p-high:10",
    "2dc-high:10",
    "c-high:10",
];

/// Each store of a machine, with four sizes in turn.
const LOW: &[&str] = &table(["hdb-low:10", "l0p-low:10", "2dc-low:10", "c-low:10"], true);
const HIGH: &[&str] = &table(["hdb-high:10", "l0p-high:10", "2dc-high:10", "c-high:10"], true);
const MEMTABLES: &[&str] = &table(["2MiB", "4MiB", "6MiB", "8MiB"], false);
const TABLES: &[&str] = &table(["512KiB", "1MiB", "2MiB", "4MiB"], false);

/// The cells of a table of four rows and four columns, row by row: what stands in front of the row,
/// or above the column.
const fn table(titles: [&'static str; 4], of_rows: bool) -> [&'static str; 16] {
    let mut cells = [""; 16];
    let mut at = 0;
    while at < cells.len() {
        cells[at] = titles[if of_rows { at / 4 } else { at % 4 }];
        at += 1;
    }
    cells
}

/// The stores of the paper on one of its machines.
const ON_A_MACHINE: Experiment = Experiment {
    paper: "ohdb",
    scale: "small",
    workloads: &["fillrandom", "readrandom"],
    metrics: &[Metric::Compactions, Metric::Bandwidth, Metric::Throughput],
    ..Experiment::BASE
};

/// The experiments of the paper, in its order.
pub const OHDB: &[Experiment] = &[
    Experiment {
        name: "ohdb-motivation",
        paper: "ohdb",
        rows: &["Table I (II)"],
        about: "size of tables, levels as in HyperLevelDB (2 to 16 MB there)",
        vary: Some(("table", &["512KiB", "1MiB", "2MiB"])),
        scale: "small",
        settings: &[KEY, LEVEL0, LEVEL1, ("level0", "hyperleveldb"), ("memtable", "4MiB")],
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
        settings: &[KEY, LEVEL0, LEVEL1, ("memtable", "4MiB"), ("table", "1MiB")],
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
        settings: &[KEY, LEVEL0, LEVEL1, ("partitions", "10"), ("table", "1MiB")],
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
        settings: &[KEY, LEVEL0, LEVEL1, ("partitions", "10"), ("memtable", "4MiB")],
        workloads: &["fillrandom", "readrandom"],
        metrics: &[Metric::Compactions, Metric::Bandwidth, Metric::Throughput],
        paper_says: "compactions on hard disk: HDB 9,800, 7,677, 4,896, 3,294; L0P 2,858, 1,547, \
                    1,036, 777. High-end: HDB 10,923, 8,613, 5,934, 3,882; L0P 1,846, 923, 515, \
                    247",
        ..Experiment::BASE
    },
    Experiment {
        name: "ohdb-disks",
        paper: "ohdb",
        rows: &["Table II (IV.B), low-end", "Table II (IV.B), high-end"],
        about: "partitions, two disks and both, on modelled machines ten times as fast",
        vary: Some(("variant", VARIANTS)),
        scale: "small",
        settings: &[KEY, ("memtable", "4MiB"), ("table", "1MiB")],
        workloads: &["fillrandom", "readrandom"],
        metrics: &[
            Metric::Bandwidth,
            Metric::Throughput,
            Metric::Compactions,
            Metric::BytesWritten,
        ],
        paper_says: "low-end, 2DC and C: write 6.3, 7.5 MB/s; read 71,802, 88,683 op/s; \
                    compactions 7,717, 1,601; GB written 87.8, 79.5. High-end: 12.5, 11.3; \
                    94,885, 123,061; 8,563, 1,641; 95.8, 81.1",
        ..Experiment::BASE
    },
    Experiment {
        name: "ohdb-memtable-low",
        rows: &["Table III (IV.C)", "Figure 2 (IV.C)"],
        about: "memtables under the four stores, on the low-end machine, modelled",
        vary: Some(("variant", LOW)),
        coupled: Some(("memtable", MEMTABLES)),
        settings: &[KEY, ("table", "1MiB")],
        paper_says: "2DC 10,074, 7,717, 6,511, 5,480; C 2,216, 1,554, 1,370, 1,218 compactions",
        ..ON_A_MACHINE
    },
    Experiment {
        name: "ohdb-memtable-high",
        rows: &["Table IV (IV.C)", "Figure 3 (IV.C)"],
        about: "memtables under the four stores, on the high-end machine, modelled",
        vary: Some(("variant", HIGH)),
        coupled: Some(("memtable", MEMTABLES)),
        settings: &[KEY, ("table", "1MiB")],
        paper_says: "2DC 11,067, 8,563, 7,227, 6,076; C 2,247, 1,641, 1,421, 1,218 compactions",
        ..ON_A_MACHINE
    },
    Experiment {
        name: "ohdb-table-low",
        rows: &["Table V (IV.D)", "Figure 4 (IV.D)"],
        about: "tables under the four stores, on the low-end machine, modelled",
        vary: Some(("variant", LOW)),
        coupled: Some(("table", TABLES)),
        settings: &[KEY, ("memtable", "4MiB")],
        paper_says: "2DC 9,880, 7,717, 7,656, 3,418; C 2,729, 1,554, 1,019, 779 compactions",
        ..ON_A_MACHINE
    },
    Experiment {
        name: "ohdb-table-high",
        rows: &["Table VI (IV.D)", "Figure 5 (IV.D)"],
        about: "tables under the four stores, on the high-end machine, modelled",
        vary: Some(("variant", HIGH)),
        coupled: Some(("table", TABLES)),
        settings: &[KEY, ("memtable", "4MiB")],
        paper_says: "2DC 10,821, 8,563, 5,877, 3,812; C 2,858, 1,641, 1,063, 813 compactions",
        ..ON_A_MACHINE
    },
];
