//! Options at the ends of what their types hold: refused in words, or meant as they say.

use std::sync::Arc;

use cleavedb::{Background, Db, ErrorKind, Options, Preset};
use cleavedb_storage_sim::Sim;
use cleavedb_testkit::Setup;
use cleavedb_testkit::records::{key, value};

/// Changes one option to a number.
type Change = fn(&mut Options, u64);

/// Every numeric option.
const NUMBERS: [(&str, Change); 24] = [
    ("separation", |o, n| {
        if o.min_separated.is_some() {
            o.min_separated = Some(n as usize);
        }
    }),
    ("memtable_bytes", |o, n| o.tuning.memtable_bytes = Some(n as usize)),
    ("memtables_max", |o, n| o.tuning.memtables_max = Some(n as usize)),
    ("memtable_log_bytes", |o, n| o.tuning.memtable_log_bytes = n),
    ("log_file_bytes", |o, n| o.tuning.log_file_bytes = n),
    ("segment_bytes", |o, n| o.tuning.segment_bytes = n),
    ("window_bytes", |o, n| o.tuning.window_bytes = Some(n as usize)),
    ("cache_bytes", |o, n| o.tuning.cache_bytes = Some(n as usize)),
    ("record_cache_bytes", |o, n| o.record_cache_bytes = n as usize),
    ("read_ahead_bytes", |o, n| o.tuning.read_ahead_bytes = n as usize),
    ("block_bytes", |o, n| o.tuning.block_bytes = n as usize),
    ("filter_bits", |o, n| o.tuning.filter_bits = n as usize),
    ("table_bytes", |o, n| o.tuning.table_bytes = n),
    ("level0_bytes", |o, n| o.tuning.level0_bytes = Some(n)),
    ("background_bytes_per_second", |o, n| o.background_bytes_per_second = Some(n)),
    ("latency_sampling", |o, n| o.latency_sampling = n.min(u64::from(u32::MAX)) as u32),
    ("level1_bytes", |o, n| o.tuning.level1_bytes = Some(n)),
    ("space_floor", |o, n| o.tuning.space_floor = n),
    ("change_retention_bytes", |o, n| o.change_retention_bytes = Some(n)),
    ("space_limit", |o, n| o.space_limit = Some(n)),
    ("capacity_bytes", |o, n| o.tuning.groups.capacity_bytes = n),
    ("main_segment_bytes", |o, n| o.tuning.groups.main_segment_bytes = n),
    ("log_segment_bytes", |o, n| o.tuning.groups.log_segment_bytes = n),
    ("key_block_record_bytes", |o, n| o.tuning.groups.key_block_record_bytes = n),
];

/// Writes and deletes, so that every job runs; what comes out must be right.
fn works(options: Options, what: &str) {
    let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
    for round in 0..3 {
        for i in 0..100 {
            db.put(key(i), value(i, round)).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        db.flush().unwrap_or_else(|e| panic!("{what}: {e}"));
        db.wait_idle().unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    for i in 0..100 {
        assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i, 2), "{what}");
    }
    db.close().unwrap_or_else(|e| panic!("{what}: {e}"));
}

/// `level0_bytes` of 2^63 stopped writers, since four times that is nothing.
#[test]
fn every_number_is_refused_or_works() {
    for setup in Setup::designs() {
        for (name, change) in NUMBERS {
            for number in [0, 1, u64::MAX / 2, 1 << 63, u64::MAX] {
                let mut options = setup.options.clone();
                change(&mut options, number);
                let what = format!("{setup}, {name} of {number}");
                match options.validate() {
                    Ok(()) if name == "space_limit" && number <= 1 => {
                        let opened = Db::open_in(Arc::new(Sim::new()), options, 7);
                        assert_eq!(opened.err().unwrap().kind(), ErrorKind::InvalidOptions);
                    }
                    Ok(()) => works(options, &what),
                    Err(e) => assert_eq!(e.kind(), ErrorKind::InvalidOptions, "{what}"),
                }
            }
        }
    }
    let threads = Background::Threads(usize::MAX);
    let options = Options { background: threads, ..Options::preset(Preset::Lsm) };
    assert!(options.validate().is_err());
}

/// A floor without end was added up beyond it, and came out as none.
#[test]
fn a_floor_without_end_tolerates_all_garbage() {
    let mut options = Setup::tiny(Preset::WiscKey, true).options;
    options.tuning.space_floor = u64::MAX;
    let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
    for round in 0..20 {
        (0..100).for_each(|i| db.put(key(i), value(i, round)).unwrap());
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(db.metrics().collections, 0);
}
