//! The size that a batch states is what its commit adds to the log.

use std::sync::Arc;

use cleavedb_storage_sim::Sim;

use super::Db;
use crate::operations::batch::WriteBatch;
use crate::settings::options::{Durability, Options};

#[test]
fn a_batch_takes_the_size_that_it_states_in_the_log() {
    let options = Options { durability: Durability::Os, ..Options::default() };
    let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
    let named = db.keyspace("named").unwrap();
    db.put("first", "begins the session").unwrap();
    let end = || db.engine().commit.append().appender.next();
    let mut batches = vec![WriteBatch::new(); 4];
    batches[0].put("key", "value").unwrap().put("", "").unwrap().delete("key").unwrap();
    batches[1].keyspace(&named).put("key", vec![7; 1000]).unwrap().delete("x").unwrap();
    batches[2].delete_range("a"..="b").unwrap().delete_range(..).unwrap();
    batches[3].keyspace(&named).delete_range(vec![b'x'; 300]..).unwrap().put("y", "").unwrap();
    let mut all = WriteBatch::new();
    for batch in &batches {
        let before = end();
        db.write(batch).unwrap();
        assert_eq!(batch.size_bytes(), end() - before, "{} operations", batch.len());
        all.append(batch).unwrap();
    }
    let before = end();
    db.write(&all).unwrap();
    assert_eq!(all.size_bytes(), end() - before);
}
