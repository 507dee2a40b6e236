//! The shortest way through everything: write, read, flush, compact, collect, reopen, check.

use cleavedb::{Background, Db, Durability, Options, Preset, Tuning};
use cleavedb_testkit::budget::in_turn;

pub(crate) fn small(preset: Preset, background: Background) -> Options {
    Options {
        durability: Durability::Os,
        background,
        tuning: Tuning {
            memtable_bytes: Some(64 << 10),
            memtable_log_bytes: 128 << 10,
            log_file_bytes: 64 << 10,
            segment_bytes: 64 << 10,
            window_bytes: Some(64 << 10),
            table_bytes: 16 << 10,
            level0_bytes: Some(32 << 10),
            level1_bytes: Some(64 << 10),
            space_floor: 64 << 10,
            ..Tuning::default()
        },
        ..Options::preset(preset)
    }
}

pub(crate) fn key(i: u32) -> Vec<u8> {
    format!("key{:06}", i.wrapping_mul(2_654_435_761) % 3000).into_bytes()
}

#[test]
fn everything_once() {
    for background in [Background::Manual, Background::Threads(1)] {
        for preset in in_turn(Preset::ALL.into()) {
            let dir = tempfile::tempdir().unwrap();
            let options = small(preset, background);
            let mut model = std::collections::BTreeMap::new();
            for round in 0..4u32 {
                let db = Db::open(dir.path().join("db"), options.clone()).unwrap();
                assert_eq!(db.recovery_report().bytes_cut, 0);
                for i in 0..3000u32 {
                    let k = key(i + round * 17);
                    if i % 7 == 3 {
                        db.delete(&k).unwrap();
                        model.remove(&k);
                    } else {
                        let v = vec![i as u8; 50 + (i as usize * 37) % 400];
                        db.put(&k, &v).unwrap();
                        model.insert(k, v);
                    }
                }
                if round == 1 {
                    db.compact().unwrap();
                }
                if round == 2 {
                    db.collect().unwrap();
                }
                for i in 0..3000 {
                    let k = key(i);
                    let got = db.get(&k).unwrap();
                    assert_eq!(got.as_deref(), model.get(&k).map(|v| &v[..]), "{preset} {k:?}");
                }
                let all: Vec<_> = db.range(..).map(Result::unwrap).collect();
                assert_eq!(all.len(), model.len());
                assert!(all.iter().zip(&model).all(|(a, b)| a.key == b.0 && a.value == b.1));
                let back: Vec<_> = db.range(..).rev().map(Result::unwrap).collect();
                assert!(back.iter().eq(all.iter().rev()));
                db.wait_idle().unwrap();
                let report = db.verify().unwrap();
                assert!(report.problems.is_empty(), "{preset}: {:?}", report.problems);
                assert_eq!(report.keys as usize, model.len());
                let metrics = db.metrics();
                println!(
                    "{preset} {background:?} wa={:.2} sa={:.2} collections={} compactions={}",
                    metrics.write_amplification(),
                    metrics.space_amplification(),
                    metrics.collections,
                    metrics.compactions
                );
                if round % 2 == 0 {
                    db.close().unwrap();
                }
            }
        }
    }
}

/// The first read of each table that a load had left waited for its filter and its index.
#[test]
fn what_a_job_has_written_is_opened_before_it_is_read() {
    for preset in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let options = small(preset, Background::Manual);
        let db = Db::open(dir.path().join("db"), options).unwrap();
        let put = |range: std::ops::Range<u32>| {
            range.for_each(|i| db.put(key(i), b"a value").unwrap());
            db.flush().unwrap();
        };
        put(0..100);
        let flushed = db.metrics().table_memory;
        assert!(flushed > 0, "{preset}: no table is open behind a flush");
        put(100..200);
        db.compact().unwrap();
        let metrics = db.metrics();
        let tables: usize = metrics.levels.iter().map(|level| level.tables).sum();
        assert_eq!(tables, 1, "{preset}");
        assert!(metrics.table_memory > flushed, "{preset}: the merged table is not open");
    }
}
