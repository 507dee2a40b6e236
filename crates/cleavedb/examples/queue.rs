//! A queue of jobs that loses none: workers take the oldest one, and what a worker had taken when
//! it died waits again at the next open.
//!
//! `cargo run -p cleavedb --example queue`. Where a job may be lost with its worker,
//! `Keyspace::pop_first` alone is a queue.

use cleavedb::{Db, Item, Keyspace, Options, Result, WriteBatch, encode};

struct Queue {
    db: Db,
    waiting: Keyspace,
    running: Keyspace,
    /// Number of the next job: keys in their order.
    next: u64,
}

impl Queue {
    fn open(path: &std::path::Path) -> Result<Self> {
        let db = Db::open(path, Options::default())?;
        let (waiting, running) = (db.keyspace("waiting")?, db.keyspace("running")?);
        let mut again = WriteBatch::new();
        for job in running.range(..) {
            let Item { key, value } = job?;
            again.keyspace(&running).delete(&key)?;
            again.keyspace(&waiting).put(&key, value)?;
        }
        db.write(&again)?;
        let last = waiting.last_key_value()?;
        let next = last.map_or(Ok(0), |last| encode::parts::<u64>(&last.key).map(|at| at + 1))?;
        Ok(Self { db, waiting, running, next })
    }

    fn push(&mut self, job: &str) -> Result<()> {
        self.waiting.put(encode::key(&self.next), job)?;
        self.next += 1;
        Ok(())
    }

    /// The oldest job that waits; no two workers get the same one.
    fn take(&self) -> Result<Option<Item>> {
        self.db.transact(|transaction| {
            let first = transaction.keyspace(&self.waiting).range(..).next().transpose()?;
            if let Some(job) = &first {
                transaction.keyspace(&self.waiting).delete(&job.key)?;
                transaction.keyspace(&self.running).put(&job.key, &job.value)?;
            }
            Ok(first)
        })
    }

    fn finish(&self, job: &Item) -> Result<()> {
        self.running.delete(&job.key)
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("queue.db");
    let mut queue = Queue::open(&path)?;
    for job in ["wash", "dry", "fold"] {
        queue.push(job)?;
    }
    let job = queue.take()?.expect("three wait");
    println!("done: {:?}", job.value);
    queue.finish(&job)?;
    let job = queue.take()?.expect("two wait");
    println!("taken, and its worker dies: {:?}", job.value);
    drop(queue);

    let queue = Queue::open(&path)?;
    while let Some(job) = queue.take()? {
        println!("done: {:?}", job.value);
        queue.finish(&job)?;
    }
    assert_eq!(queue.running.range(..).count(), 0);
    Ok(())
}
