//! What is asked of an engine: a table of workloads, one entry each, and named lists of them.
//!
//! Workloads run one after another on the same store. Sizes are shares of the number of records,
//! so that an entry means the same at every scale. Sources:
//!
//! - `load`, `ycsb-*`: Cooper et al. (SoCC 2010) and the files `workloads/workload[a-f]` of YCSB.
//!   YCSB updates one of ten fields; a key-value store has no fields, so the whole value is
//!   written.
//! - `hashkv-p*`: Chan et al., "HashKV" (ATC 2018), section 4.2: a load, then three phases that
//!   each update as many records as there are, Zipfian 0.99 (values of 992 bytes there).
//! - `fillrandom`, `readrandom*`: RocksDB's `db_bench`, which draws keys with replacement, so that
//!   63.2% of the records exist after a fill. OHDB's evaluation consists of these two, at 100 M
//!   records of 100 bytes under keys of 16: scale `small` with `--key-size 16`.
//! - `mixgraph`: Cao et al. (FAST 2020), section 7, and the benchmark of that name in `db_bench`:
//!   gets, puts and seeks as 83, 14, 3; key ranges as in [`KeyRanges`](crate::ranges::KeyRanges);
//!   value sizes with `--value-sizes pareto`; its sine of the load with `--rate 4500:0.22:60`
//!   (there, if it is asked for, 4500 + 1000 sin(0.000073 t): the period is a day).
//! - `range-*`: "KT-Store", section 4.3, which varies the entries of a range from 2,000 to 20,000.
//! - `update-moving`: HoaKV says that hot and cold data are not fixed (section 3.2) but measures no
//!   such workload; ours replaces the hot set ten times.
//! - `queue`: a queue, or records with a time to live: insert one behind the last key, take the
//!   first key, which the store has to find; `queue-read` reads the youngest meanwhile.

use crate::distribution::Distribution;
use crate::error::{BenchError, Result};

/// What one operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Reads a record that exists.
    Read,
    /// Replaces a record.
    Update,
    /// Adds a record that did not exist.
    Insert,
    /// Reads consecutive records.
    Scan,
    /// Reads a record, then replaces it.
    ReadModifyWrite,
    /// Removes a record.
    Delete,
    /// Removes the oldest record.
    Expire,
}

impl Action {
    /// Every action, in the order of declaration.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Update,
        Self::Insert,
        Self::Scan,
        Self::ReadModifyWrite,
        Self::Delete,
        Self::Expire,
    ];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Scan => "scan",
            Self::ReadModifyWrite => "read-modify-write",
            Self::Delete => "delete",
            Self::Expire => "expire",
        }
    }
}

/// The store that a workload finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// An empty one: what was there is deleted.
    Empty,
    /// The one that the workload before left, as it left it.
    AsLeft,
    /// The one that the workload before left, opened anew, with the system's caches dropped.
    Cold,
}

/// How many records a scan asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanLength {
    /// Always this number.
    Fixed(usize),
    /// Uniform from 1 up to and including this number.
    UpTo(usize),
    /// Generalized Pareto with `iter_k` = 2.517 and `iter_sigma` = 14.236, modulo 10,000
    /// (`mix_max_scan_len`): mixgraph's.
    Mixgraph,
}

impl ScanLength {
    /// Records of a scan: the mean, or the median where the mean says little.
    pub fn typical(self) -> f64 {
        match self {
            Self::Fixed(length) => length as f64,
            Self::UpTo(most) => (1 + most) as f64 / 2.0,
            Self::Mixgraph => 27.0,
        }
    }
}

/// One entry of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name on the command line and in results.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Actions with their shares in percent; the shares add up to 100.
    pub mix: &'static [(Action, u8)],
    /// How reads, updates, deletes and scan starts choose a record.
    pub distribution: Distribution,
    /// The store that it finds.
    pub begin: Begin,
    /// Measured operations, as a share of the records.
    pub operations: f64,
    /// Operations before the measurement, as a share of the records.
    pub warm_up: f64,
    /// Records asked for by a scan.
    pub scan: ScanLength,
    /// Records that a read asks for at once.
    pub batch: usize,
    /// Whether it is a pass over the data, which no time ends: the phases that follow it find what
    /// a whole one leaves.
    pub is_pass: bool,
    /// Whether it replays the trace of the run: then only its beginning counts of the above.
    pub replays: bool,
}

const READ_ONLY: &[(Action, u8)] = &[(Action::Read, 100)];
const UPDATE_ONLY: &[(Action, u8)] = &[(Action::Update, 100)];
const SCAN_ONLY: &[(Action, u8)] = &[(Action::Scan, 100)];

/// A workload that reads what is there, the base of most entries.
const BASE: Workload = Workload {
    name: "",
    about: "",
    mix: READ_ONLY,
    distribution: Distribution::Uniform,
    begin: Begin::AsLeft,
    operations: 0.5,
    warm_up: 0.0,
    scan: ScanLength::Fixed(100),
    batch: 1,
    is_pass: false,
    replays: false,
};

const LOAD: Workload = Workload {
    name: "load",
    about: "insert every record once, in random key order, into an empty store",
    mix: &[(Action::Insert, 100)],
    begin: Begin::Empty,
    operations: 1.0,
    ..BASE
};

/// An update phase of HashKV's section 4.2: as many updates as records, Zipfian 0.99.
const HASHKV_UPDATE: Workload = Workload {
    mix: UPDATE_ONLY,
    distribution: Distribution::Zipfian,
    operations: 1.0,
    is_pass: true,
    about: "HashKV P1-P3: as many updates as records, Zipfian 0.99",
    ..BASE
};

const YCSB: Workload =
    Workload { distribution: Distribution::Zipfian, scan: ScanLength::UpTo(100), ..BASE };

/// A range query of KT-Store's section 4.3: as many entries are read whatever their number.
const fn range(name: &'static str, about: &'static str, entries: usize) -> Workload {
    Workload {
        name,
        about,
        mix: SCAN_ONLY,
        operations: 1.0 / entries as f64,
        scan: ScanLength::Fixed(entries),
        ..BASE
    }
}

/// The replay of the run's trace, on an empty store unless other workloads come before it.
pub const TRACE: Workload = Workload {
    name: "trace",
    about: "the operations of a recorded trace",
    mix: &[],
    begin: Begin::Empty,
    replays: true,
    ..BASE
};

/// Every workload that a name is enough for.
pub const WORKLOADS: &[Workload] = &[
    LOAD,
    Workload {
        name: "fillrandom",
        about: "db_bench: put uniform keys with replacement into an empty store",
        mix: UPDATE_ONLY,
        begin: Begin::Empty,
        operations: 1.0,
        ..BASE
    },
    Workload {
        name: "readrandom",
        about: "read uniform records after a warm-up of half as many reads as records",
        warm_up: 0.5,
        ..BASE
    },
    Workload {
        name: "readrandom-cold",
        about: "read uniform records (5% of them) of a store just opened, caches dropped",
        begin: Begin::Cold,
        operations: 0.05,
        ..BASE
    },
    Workload {
        name: "readbatch",
        about: "read 32 uniform records at a time: an operation is all of them",
        operations: 0.25 / 32.0,
        warm_up: 0.125 / 32.0,
        batch: 32,
        ..BASE
    },
    Workload {
        name: "readmissing",
        about: "db_bench: read keys that are not there",
        distribution: Distribution::Missing,
        ..BASE
    },
    Workload {
        name: "update",
        about: "replace uniform records, as many as there are",
        mix: UPDATE_ONLY,
        operations: 1.0,
        is_pass: true,
        ..BASE
    },
    Workload {
        name: "scan-100",
        about: "scan 100 records from a uniform start, each with its value",
        mix: SCAN_ONLY,
        operations: 0.01,
        warm_up: 0.001,
        ..BASE
    },
    Workload {
        name: "scan-100-cold",
        about: "scan 100 records of a store just opened, caches dropped",
        mix: SCAN_ONLY,
        begin: Begin::Cold,
        operations: 0.001,
        ..BASE
    },
    Workload {
        name: "seek",
        about: "db_bench seekrandom: a new iterator, a uniform key, one record",
        mix: SCAN_ONLY,
        scan: ScanLength::Fixed(1),
        operations: 0.2,
        warm_up: 0.02,
        ..BASE
    },
    Workload {
        name: "churn",
        about: "half updates, half deletes, uniform, as many as there are records",
        mix: &[(Action::Update, 50), (Action::Delete, 50)],
        operations: 1.0,
        is_pass: true,
        ..BASE
    },
    Workload {
        name: "update-zipfian",
        about: "replace Zipfian records, as many as there are",
        mix: UPDATE_ONLY,
        distribution: Distribution::Zipfian,
        operations: 1.0,
        is_pass: true,
        ..BASE
    },
    Workload {
        name: "update-moving",
        about: "the same with a hot set that is replaced ten times (HoaKV)",
        mix: UPDATE_ONLY,
        distribution: Distribution::Moving,
        operations: 1.0,
        is_pass: true,
        ..BASE
    },
    Workload {
        name: "delete",
        about: "remove uniform records, half as many times as there are",
        mix: &[(Action::Delete, 100)],
        ..BASE
    },
    Workload {
        name: "queue",
        about: "insert a record, remove the oldest: all records are replaced once",
        mix: &[(Action::Insert, 50), (Action::Expire, 50)],
        operations: 2.0,
        is_pass: true,
        ..BASE
    },
    Workload {
        name: "queue-read",
        about: "25% inserts, 25% removals of the oldest, 50% reads of the latest",
        mix: &[(Action::Insert, 25), (Action::Expire, 25), (Action::Read, 50)],
        distribution: Distribution::Latest,
        operations: 1.0,
        ..BASE
    },
    Workload {
        name: "mixgraph",
        about: "Meta: 83% gets, 14% puts, 3% seeks, hot key ranges; see --value-sizes pareto",
        mix: &[(Action::Read, 83), (Action::Update, 14), (Action::Scan, 3)],
        distribution: Distribution::KeyRanges,
        scan: ScanLength::Mixgraph,
        operations: 0.2,
        ..BASE
    },
    range("range-2000", "KT-Store: ranges of 2,000 entries, uniform starts", 2_000),
    range("range-3000", "KT-Store: ranges of 3,000 entries", 3_000),
    range("range-5000", "KT-Store: ranges of 5,000 entries", 5_000),
    range("range-15000", "KT-Store: ranges of 15,000 entries", 15_000),
    range("range-20000", "KT-Store: ranges of 20,000 entries", 20_000),
    Workload {
        name: "ycsb-a",
        about: "YCSB A: 50% reads, 50% updates, Zipfian",
        mix: &[(Action::Read, 50), (Action::Update, 50)],
        ..YCSB
    },
    Workload {
        name: "ycsb-b",
        about: "YCSB B: 95% reads, 5% updates, Zipfian",
        mix: &[(Action::Read, 95), (Action::Update, 5)],
        ..YCSB
    },
    Workload {
        name: "ycsb-b-moving",
        about: "YCSB B with a hot set that is replaced ten times (HoaKV)",
        mix: &[(Action::Read, 95), (Action::Update, 5)],
        distribution: Distribution::Moving,
        ..YCSB
    },
    Workload { name: "ycsb-c", about: "YCSB C: reads, Zipfian", ..YCSB },
    Workload {
        name: "ycsb-d",
        about: "YCSB D: 95% reads of the latest, 5% inserts",
        mix: &[(Action::Read, 95), (Action::Insert, 5)],
        distribution: Distribution::Latest,
        ..YCSB
    },
    Workload {
        name: "ycsb-e",
        about: "YCSB E: 95% scans of 1 to 100 records, Zipfian starts, 5% inserts",
        mix: &[(Action::Scan, 95), (Action::Insert, 5)],
        operations: 0.02,
        ..YCSB
    },
    Workload {
        name: "ycsb-f",
        about: "YCSB F: 50% reads, 50% read-modify-writes, Zipfian",
        mix: &[(Action::Read, 50), (Action::ReadModifyWrite, 50)],
        ..YCSB
    },
    Workload { name: "hashkv-p0", about: "HashKV P0: the load", ..LOAD },
    Workload { name: "hashkv-p1", ..HASHKV_UPDATE },
    Workload { name: "hashkv-p2", ..HASHKV_UPDATE },
    Workload { name: "hashkv-p3", ..HASHKV_UPDATE },
];

/// Bundles: names that stand for several workloads, run in this order.
pub const BUNDLES: &[(&str, &[&str])] = &[
    ("basic", &["load", "readrandom", "readrandom-cold", "update", "scan-100"]),
    // The order that YCSB's documentation asks for: D and E insert, so E gets a load of its own.
    ("ycsb", &["load", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f", "ycsb-d", "load", "ycsb-e"]),
    ("hashkv", &["hashkv-p0", "hashkv-p1", "hashkv-p2", "hashkv-p3"]),
    ("ohdb", &["fillrandom", "readrandom"]),
    ("kt-store", &["load", "range-2000", "range-3000", "range-5000", "range-15000", "range-20000"]),
    ("mixed", &["load", "mixgraph", "update-moving", "queue", "queue-read"]),
];

impl Workload {
    /// The share of `action`, in percent.
    pub fn share(&self, action: Action) -> u8 {
        self.mix.iter().filter(|(of, _)| *of == action).map(|(_, share)| share).sum()
    }

    /// Whether every record is inserted once, in the order of their numbers.
    pub fn is_load(&self) -> bool {
        self.begin == Begin::Empty && self.share(Action::Insert) == 100
    }

    /// Whether all that it does is to scan.
    pub fn is_scanning(&self) -> bool {
        self.share(Action::Scan) > 50
    }

    /// Whether it changes what is stored.
    pub fn writes(&self) -> bool {
        let reads = [Action::Read, Action::Scan];
        self.replays || self.mix.iter().any(|(action, _)| !reads.contains(action))
    }

    /// Whether it may do `action`; a trace may do anything.
    pub fn does(&self, action: Action) -> bool {
        self.replays || self.share(action) > 0
    }

    /// Whether it may leave records that do not exist, so that a read may rightly find nothing.
    pub fn leaves_holes(&self) -> bool {
        self.does(Action::Delete) || (self.begin == Begin::Empty && !self.is_load())
    }

    /// Whether its reads ask for keys that were never written.
    pub fn reads_what_is_absent(&self) -> bool {
        self.distribution == Distribution::Missing
    }

    /// Whether one of its own reads may rightly find nothing: another client removed the record, or
    /// there never was one.
    pub fn misses(&self) -> bool {
        self.reads_what_is_absent() || self.leaves_holes() || self.does(Action::Expire)
    }
}

/// The workloads that `names` stand for, bundles expanded; starts with a load if they need one.
pub fn select<S: AsRef<str>>(names: &[S]) -> Result<Vec<Workload>> {
    let mut selected = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        let bundle = BUNDLES.iter().find(|(bundle, _)| *bundle == name);
        for name in bundle.map_or(&[name][..], |(_, members)| members) {
            selected.push(find(name)?);
        }
    }
    for later in selected.iter_mut().skip(1).filter(|workload| workload.replays) {
        later.begin = Begin::AsLeft;
    }
    let unfilled = |pair: &[Workload]| pair[0].replays && pair[1].begin != Begin::Empty;
    if selected.first().is_some_and(|first| first.replays) && selected.windows(2).any(unfilled) {
        return Err(BenchError::Usage(
            "a trace does not say which records there are to choose from: put a load before it, \
             or let it be the last workload"
                .into(),
        ));
    }
    if selected.first().is_some_and(|first| first.begin != Begin::Empty) {
        selected.insert(0, LOAD);
    }
    Ok(selected)
}

fn find(name: &str) -> Result<Workload> {
    let mut entries = WORKLOADS.iter().chain([&TRACE]);
    entries.find(|workload| workload.name == name).cloned().ok_or_else(|| {
        let known: Vec<_> = BUNDLES
            .iter()
            .map(|(bundle, _)| *bundle)
            .chain(WORKLOADS.iter().map(|workload| workload.name))
            .collect();
        BenchError::Usage(format!("no workload is called \"{name}\"; known: {}", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::{Action, BUNDLES, WORKLOADS, select};

    #[test]
    fn every_entry_is_whole() {
        let mut names: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
        names.extend(BUNDLES.iter().map(|(bundle, _)| *bundle));
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "names are unique");
        for workload in WORKLOADS {
            let shares: u32 = workload.mix.iter().map(|(_, share)| u32::from(*share)).sum();
            assert_eq!(shares, 100, "{}", workload.name);
            assert!(!workload.about.is_empty() && workload.operations > 0.0);
        }
    }

    /// The oracle replays writes; the operations of a mix with inserts depend on other threads.
    #[test]
    fn no_entry_mixes_inserts_with_other_writes() {
        for workload in WORKLOADS.iter().filter(|workload| workload.share(Action::Insert) > 0) {
            for write in [Action::Update, Action::Delete, Action::ReadModifyWrite] {
                assert_eq!(workload.share(write), 0, "{}", workload.name);
            }
        }
    }

    #[test]
    fn bundles_expand_and_begin_with_a_load() {
        let names = |list: &[&str]| -> Vec<_> {
            select(list).unwrap().iter().map(|workload| workload.name).collect()
        };
        assert_eq!(names(&["ycsb-c"]), ["load", "ycsb-c"]);
        assert_eq!(names(&["hashkv"]), ["hashkv-p0", "hashkv-p1", "hashkv-p2", "hashkv-p3"]);
        for (bundle, members) in BUNDLES {
            assert_eq!(names(&[bundle]), *members);
        }
        assert!(select(&["nonsense"]).unwrap_err().to_string().contains("ycsb-a"));
        assert_eq!(names(&["trace", "ycsb"])[..2], ["trace", "load"]);
        assert_eq!(names(&["ycsb-c", "trace", "ycsb-c"])[..3], ["load", "ycsb-c", "trace"]);
        assert!(select(&["trace", "ycsb-c"]).unwrap_err().to_string().contains("a load before"));
    }
}
