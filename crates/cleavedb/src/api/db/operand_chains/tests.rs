//! Chains of operands stay short without reads and flushes, by every way to keep values.

use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::{EncodedKey, KeyspaceId};
use cleavedb_storage_sim::Sim;

use crate::api::db::Db;
use crate::background::operand_chains::chain_in_memory;
use crate::operations::batch::WriteBatch;
use crate::settings::merge::Operand;
use crate::settings::options::{Background, Options, Preset};

const COUNTERS: u64 = 5;

/// With one write in eight that counts, more operands than this are as likely as 1 in 10 million.
const LONGEST: usize = 128;

fn open(preset: Preset) -> Db {
    let options = Options { background: Background::Manual, ..Options::preset(preset) };
    Db::open_in(Arc::new(Sim::new()), options, 7).unwrap()
}

/// Operands of a key in memory.
fn operands(db: &Db, key: &str) -> usize {
    let encoded_key = EncodedKey::new(KeyspaceId(0), key.as_bytes());
    let encoded_key = encoded_key.as_bytes();
    let engine = db.default.open_engine().unwrap();
    chain_in_memory(engine, encoded_key, hash64(encoded_key, 0)).operands
}

#[test]
fn a_counter_that_is_never_read_has_few_operands() {
    for preset in Preset::ALL {
        let db = open(preset);
        let name = |number: u64| format!("counter {}", number % COUNTERS);
        for number in 0..2_000 {
            db.merge(name(number), &Operand::add(1)).unwrap();
            let operands = operands(&db, &name(number));
            assert!(operands <= LONGEST, "{preset:?}: {operands} after {number} merges");
        }
        for number in (0..2_000).step_by(COUNTERS as usize) {
            let mut batch = WriteBatch::new();
            (0..COUNTERS).for_each(|at| {
                batch.merge(name(number + at), &Operand::add(1)).unwrap();
            });
            db.write(&batch).unwrap();
            assert!(operands(&db, &name(number)) <= LONGEST, "{preset:?}");
        }
        for number in 0..COUNTERS {
            assert_eq!(db.get(name(number)).unwrap().unwrap(), "800", "{preset:?}");
        }
    }
}

/// The operands that a long value gets until it is written anew grow with its length.
#[test]
fn a_long_value_is_not_written_anew_for_a_few_short_operands() {
    let db = open(Preset::KtStore);
    let value = vec![7; 1 << 20];
    db.put("list", &value).unwrap();
    let before = db.metrics().user_bytes;
    for _ in 0..1_000 {
        db.merge("list", &Operand::append("end")).unwrap();
    }
    assert!(db.metrics().user_bytes - before < value.len() as u64);
    assert_eq!(db.get("list").unwrap().unwrap(), [&value[..], &b"end".repeat(1_000)].concat());
}
