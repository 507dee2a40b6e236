//! What the suites run, as tables: lists of workloads, and which suite has which.
//!
//! A list is what one process runs on one engine. Options of engines are their defaults; a list
//! sets sizes and conditions only.

/// The suite behind `docs/figures.md`.
pub const FIGURES: &str = "figures";

/// An entry of the table of lists.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) records: &'static str,
    pub(crate) value_size: &'static str,
    pub(crate) workloads: &'static str,
    /// Other arguments.
    pub(crate) more: &'static [&'static str],
    pub(crate) without: &'static [&'static str],
}

/// Engines that insert 15,000 records a second or fewer, of 1 KiB and in random order.
const SLOW: &[&str] = &["redb", "badger", "badger-separated"];

/// Engines that are too slow for eight times as many records, of any size.
const SLOW_INSERTS: &[&str] = &["lmdb", "redb", "badger", "badger-separated"];

/// The base of all entries: 1 GiB, twice the memory.
const BASE: Entry = Entry {
    name: "",
    about: "",
    records: "1M",
    value_size: "1KiB",
    workloads: "basic",
    more: &[],
    without: &[],
};

/// Ten million values of 100 bytes, as many bytes.
const SMALL: Entry = Entry { records: "10M", value_size: "100", without: SLOW_INSERTS, ..BASE };

/// What an index is for.
const INDEX: &str = "load,readrandom,readrandom-cold,readmissing,update,scan-100";

/// All lists.
pub(crate) const LISTS: &[Entry] = &[
    Entry {
        name: "basic-1KiB",
        about: "1,000,000 records of 1 KiB: load, cold and warm reads, updates, scans",
        ..BASE
    },
    Entry {
        name: "ycsb-1KiB",
        about: "YCSB load and A to F on 1,000,000 records of 1 KiB, D last, on one store",
        // E inserts so little in its time that D finds the same store; a second load would cost
        // more than it tells.
        workloads: "load,ycsb-a,ycsb-b,ycsb-c,ycsb-f,ycsb-e,ycsb-d",
        without: SLOW,
        ..BASE
    },
    Entry {
        name: "plain-1KiB",
        about: "plain Zipf on a warm store: updates, YCSB A to C on 1,000,000 records of 1 KiB",
        workloads: "load,update-zipfian,ycsb-a,ycsb-b,ycsb-c",
        more: &["--zipfian-ranks", "records", "--warm-up", "still"],
        without: SLOW,
        ..BASE
    },
    Entry {
        name: "hashkv",
        about: "load and three phases of Zipfian updates, 1,000,000 pairs of 1 KiB",
        value_size: "992",
        workloads: "hashkv",
        without: SLOW,
        ..BASE
    },
    Entry {
        name: "mixed-1KiB",
        about: "mixgraph, moving hot set, queue and deletes; 1,000,000 records, Pareto sizes of \
                1 KiB on average",
        workloads: "load,mixgraph,update-moving,queue,queue-read,churn",
        more: &["--value-sizes", "pareto:1KiB"],
        without: SLOW,
        ..BASE
    },
    Entry {
        name: "ranges-4KiB",
        about: "KT-Store's ranges of 2,000 and 20,000 entries, 250,000 records of 4 KiB",
        records: "250k",
        value_size: "4KiB",
        workloads: "load,range-2000,range-20000",
        without: SLOW,
        ..BASE
    },
    Entry {
        name: "threads-1KiB",
        about: "four clients: load, reads, updates, YCSB A on 1,000,000 records of 1 KiB",
        workloads: "load,readrandom,update,ycsb-a",
        more: &["--threads", "4"],
        without: SLOW,
        ..BASE
    },
    Entry {
        name: "paced-1KiB",
        about: "YCSB A and B at 5,000 operations a second, latency from the intended start; \
                1,000,000 records of 1 KiB",
        workloads: "load,ycsb-a,ycsb-b",
        more: &["--rate", "5000"],
        without: SLOW,
        ..BASE
    },
    Entry {
        name: "basic-100B",
        about: "8,000,000 records of 100 bytes: load, cold and warm reads, updates, scans",
        records: "8M",
        ..SMALL
    },
    Entry {
        name: "index-1",
        about: "10,000,000 records of 100 bytes under keys of 16, as in db_bench: load, cold, warm \
                and missing reads, updates, scans",
        workloads: INDEX,
        more: &["--key-size", "16"],
        ..SMALL
    },
    Entry {
        name: "index-4",
        about: "the same by four clients",
        workloads: INDEX,
        more: &["--key-size", "16", "--threads", "4"],
        ..SMALL
    },
    Entry {
        name: "hoakv-1KiB",
        about: "load, three passes of Zipfian updates, YCSB A to D and scans, 2,000,000 records of \
                1 KiB",
        workloads: "load,hashkv-p1,hashkv-p2,hashkv-p3,ycsb-a,ycsb-b,ycsb-c,ycsb-d,scan-100",
        ..HOAKV
    },
    Entry {
        name: "hoakv-uniform",
        about: "the same records, uniform reads and updates",
        workloads: "load,readrandom,update",
        ..HOAKV
    },
    Entry {
        name: "hoakv-threads",
        about: "four clients: load, three passes of Zipfian updates, YCSB A and C, scans",
        workloads: "load,hashkv-p1,hashkv-p2,hashkv-p3,ycsb-a,ycsb-c,scan-100",
        more: &["--threads", "4"],
        ..HOAKV
    },
    Entry {
        name: "hoakv-256B",
        about: "8,000,000 records of 256 bytes: load, Zipfian updates, YCSB A and C, scans",
        records: "8M",
        value_size: "256",
        workloads: "load,update-zipfian,ycsb-a,ycsb-c,scan-100",
        ..HOAKV
    },
    Entry {
        name: "hoakv-4KiB",
        about: "500,000 records of 4 KiB: load, three passes of Zipfian updates, YCSB A and C, \
                scans",
        records: "500k",
        value_size: "4KiB",
        workloads: "load,hashkv-p1,hashkv-p2,hashkv-p3,ycsb-a,ycsb-c,scan-100",
        ..HOAKV
    },
    Entry {
        name: "hoakv-paced",
        about: "YCSB A and B at 12,000 operations a second, latency from the intended start",
        workloads: "load,ycsb-a,ycsb-b",
        more: &["--rate", "12000"],
        ..HOAKV
    },
    Entry {
        name: "basic-64KiB",
        about: "16,000 records of 64 KiB: load, cold and warm reads, updates, scans",
        records: "16k",
        value_size: "64KiB",
        ..BASE
    },
];

/// What the comparisons of HoaKV share: 2 GiB, twice the memory.
const HOAKV: Entry = Entry { records: "2M", without: SLOW, ..BASE };

/// An entry of the table of suites.
pub(crate) struct SuiteEntry {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Names of its lists.
    pub(crate) lists: &'static [&'static str],
    /// Memory with the page cache, in MiB.
    pub(crate) memory: u64,
    /// Seconds of each workload that ends by time.
    pub(crate) seconds: u64,
    /// Whether the order of the engines is drawn anew for each round.
    pub(crate) drawn: bool,
}

/// Half of the data of most lists.
const SUITE: SuiteEntry =
    SuiteEntry { name: "", about: "", lists: &[], memory: 512, seconds: 5, drawn: false };

/// All suites.
pub(crate) const SUITES: &[SuiteEntry] = &[
    SuiteEntry {
        name: "full",
        about: "every list but those of the index and of HoaKV; about an hour and a half for each \
                of three repetitions",
        lists: &[
            "basic-1KiB",
            "ycsb-1KiB",
            "hashkv",
            "mixed-1KiB",
            "ranges-4KiB",
            "threads-1KiB",
            "paced-1KiB",
            "basic-100B",
            "basic-64KiB",
        ],
        ..SUITE
    },
    SuiteEntry {
        name: FIGURES,
        about: "what `docs/figures.md` shows: all presets, RocksDB, BlobDB, LevelDB and fjall; two \
                hours for each of three repetitions",
        lists: &[
            "basic-1KiB",
            "ycsb-1KiB",
            "plain-1KiB",
            "hashkv",
            "mixed-1KiB",
            "ranges-4KiB",
            "threads-1KiB",
            "basic-100B",
            "basic-64KiB",
        ],
        drawn: true,
        ..SUITE
    },
    SuiteEntry {
        name: "basic",
        about: "values of 100 B, 1 KiB and 64 KiB",
        lists: &["basic-100B", "basic-1KiB", "basic-64KiB"],
        ..SUITE
    },
    SuiteEntry {
        name: "index",
        about: "small keys and values, as `db_bench` has them",
        lists: &["index-1", "index-4"],
        ..SUITE
    },
    SuiteEntry { name: "ycsb", about: "YCSB alone", lists: &["ycsb-1KiB"], ..SUITE },
    SuiteEntry {
        name: "updates",
        about: "where collection and compaction must keep up",
        lists: &["hashkv"],
        ..SUITE
    },
    SuiteEntry {
        name: "hoakv",
        about: "HoaKV beside others: 2 GiB, 1 GiB of memory, the order of the engines drawn",
        lists: &[
            "hoakv-1KiB",
            "hoakv-uniform",
            "hoakv-threads",
            "hoakv-256B",
            "hoakv-4KiB",
            "hoakv-paced",
        ],
        memory: 1024,
        // So long that reads fetch about as much as the memory holds: before, they measure what
        // the workload before them has left in it.
        seconds: 20,
        drawn: true,
    },
];
