//! When a flush waits: only as long as no writer does.

use std::sync::Arc;

use cleavedb_storage_sim::Sim;

use super::Db;
use crate::background::jobs::Job;
use crate::background::jobs::flush::Flush;
use crate::control::pace::Pace;
use crate::settings::options::{Background, Options};
use crate::settings::tuning::Tuning;

/// A database without threads whose oldest MemTable is full, and the number of full ones.
fn with_full(memtables: usize, options: Options) -> Db {
    let options = Options {
        background: Background::Manual,
        tuning: Tuning { memtable_bytes: Some(1 << 20), memtables_max: Some(2), ..options.tuning },
        ..options
    };
    let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
    fill(&db, memtables);
    db
}

/// Writes until this number of MemTables is full.
fn fill(db: &Db, memtables: usize) {
    let mut key = 0u32;
    while db.engine().state.load().waiting() < memtables {
        db.put(key.to_be_bytes(), [0; 1000]).unwrap();
        key += 1;
    }
}

/// How long a write of the flush that is due would wait that is far ahead, at the beginning
/// and after the next MemTable is full, too.
fn pauses(db: &Db) -> [bool; 2] {
    let flush = Flush::plan(db.engine(), ()).unwrap().unwrap();
    let pace = flush.pace();
    let waits = || match &pace {
        Pace::Flush(pace) => !pace.pause(64 << 30).is_zero(),
        Pace::AtOnce | Pace::Background => false,
    };
    let before = waits();
    if db.engine().state.load().waiting() < 2 {
        fill(db, 2);
    }
    let pauses = [before, waits()];
    db.engine().jobs.lock().flushing = false;
    pauses
}

#[test]
fn a_flush_waits_until_the_next_memtable_is_full() {
    assert_eq!(pauses(&with_full(1, Options::default())), [true, false]);
    let crowded = with_full(2, Options::default());
    assert_eq!(pauses(&crowded), [false; 2], "writers are slowed down");
}
