//! Queues beside writes in front of them: a search for the first key finds what a model has.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

use cleavedb::{Db, Keyspace, Operand, WriteBatch};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Rng;

use crate::read::Checked;
use crate::setup::Setup;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a search for the first key finds, by the calls that make one.
fn check(queue: &Keyspace, model: &Model) -> Checked<()> {
    let expected = model.first_key_value().map(|(key, value)| (&key[..], &value[..]));
    let same = |call: &str, item: Option<cleavedb::Item>| {
        let found = item.as_ref().map(|item| (&item.key[..], &item.value[..]));
        let told = || format!("{call}: {found:?} instead of {expected:?}");
        (found == expected).then_some(()).ok_or_else(told)
    };
    let failed = |e: cleavedb::Error| e.to_string();
    same("first_key_value", queue.first_key_value().map_err(failed)?)?;
    same("range", queue.range(..).next().transpose().map_err(failed)?)?;
    let mut cursor = queue.cursor(..);
    cursor.seek_to_first().map_err(failed)?;
    same("seek_to_first", cursor.item().map_err(failed)?)?;
    for (begin, end) in PARTS {
        let range = begin.as_bytes()..end.as_bytes();
        let expected = model.range::<[u8], _>((Included(range.start), Excluded(range.end))).next();
        let found = queue.range(range).next().transpose().map_err(failed)?;
        let found = found.as_ref().map(|item| (&item.key[..], &item.value[..]));
        if found != expected.map(|(key, value)| (&key[..], &value[..])) {
            return Err(format!("from {begin}: {found:?} instead of {expected:?}"));
        }
    }
    Ok(())
}

/// Ranges of keys that are queues themselves.
const PARTS: [(&str, &str); 4] =
    [("0002", "0005"), ("0004", "0009"), ("000701", "001"), ("0009", "0015")];

/// A queue and what it has to have.
struct Queue {
    db: Db,
    keys: Keyspace,
    other: Keyspace,
    model: Model,
    /// The number of the next key at its end.
    next: u64,
}

impl Queue {
    fn write(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.model.insert(key, value);
    }

    /// Puts some keys at the end, in a batch.
    fn push(&mut self, value: &[u8]) -> cleavedb::Result<()> {
        let mut batch = WriteBatch::new();
        for _ in 0..30 {
            let key = key(self.next);
            batch.keyspace(&self.keys).put(&key, value)?;
            self.write(key, value.to_vec());
            self.next += 1;
        }
        self.db.write(&batch)
    }

    fn pop(&mut self, count: usize) -> cleavedb::Result<()> {
        for _ in 0..count {
            let popped = self.keys.pop_first()?.map(|item| item.key.to_vec());
            assert_eq!(popped, self.model.pop_first().map(|(key, _)| key));
        }
        Ok(())
    }

    /// Takes keys of a part.
    fn pop_part(&mut self, part: usize, count: usize) -> cleavedb::Result<()> {
        let (begin, end) = PARTS[part];
        for _ in 0..count {
            let range = begin.as_bytes()..end.as_bytes();
            let Some(item) = self.keys.range(range).keys_only().next().transpose()? else { break };
            self.keys.delete(&item.key)?;
            assert!(self.model.remove(&item.key[..]).is_some());
        }
        Ok(())
    }

    /// Writes a key in a transaction, which sees it in front of what is there.
    fn transact(&mut self, key: Vec<u8>, value: Vec<u8>) -> cleavedb::Result<()> {
        let first = self.db.transact(|transaction| {
            let mut queue = transaction.keyspace(&self.keys);
            queue.put(&key, &value)?;
            queue.range(..).next().transpose()
        })?;
        self.write(key, value);
        let expected = self.model.first_key_value().map(|(key, _)| &key[..]);
        assert_eq!(first.as_ref().map(|item| &item.key[..]), expected);
        Ok(())
    }

    /// A drawn operation.
    fn act(&mut self, rng: &mut Rng, value: Vec<u8>) -> cleavedb::Result<()> {
        let key = key(rng.below(self.next));
        match rng.index(26) {
            0..=2 => self.push(&value)?,
            3 => {
                self.keys.put(&key, &value)?;
                self.write(key, value);
            }
            4 => {
                self.keys.merge(&key, &Operand::append([7]))?;
                let before = self.model.get(&key).cloned().unwrap_or_default();
                self.write(key, [before, vec![7]].concat());
            }
            5 => {
                self.keys.delete_range(..key.clone())?;
                self.model.retain(|other, _| *other >= key);
            }
            6 => {
                let mut load = self.keys.bulk_load()?;
                load.put(&key, &value)?;
                load.finish()?;
                self.write(key, value);
            }
            7 => self.other.put(&key, &value)?,
            8 => self.db.flush()?,
            9 => drop(self.db.step()?),
            10 => self.transact(key, value)?,
            11..=16 => self.pop_part(rng.index(PARTS.len()), rng.index(25))?,
            _ => self.pop(rng.index(12))?,
        }
        Ok(())
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("{n:06}").into_bytes()
}

/// Draws operations on a queue, and compares its first key with that of a model behind each, at
/// times as of a snapshot, too.
pub fn first_keys_are_found(setup: &Setup, seed: u64) -> Checked<()> {
    let db = Db::open_in(Arc::new(Sim::new()), setup.options.clone(), 7);
    let db = db.map_err(|e| e.to_string())?;
    let keyspace = |name| db.keyspace(name).map_err(|e| e.to_string());
    let (keys, other) = (keyspace("queue")?, keyspace("other")?);
    let mut queue = Queue { db: db.clone(), keys, other, model: Model::new(), next: 1000 };
    let (mut rng, mut snapshot) = (Rng::new(seed), None);
    for step in 0..400_u32 {
        let value = step.to_le_bytes().repeat(1 + rng.index(40));
        queue.act(&mut rng, value).map_err(|e| e.to_string())?;
        let told = |e| format!("{setup}, seed {seed}, step {step}: {e}");
        check(&queue.keys, &queue.model).map_err(told)?;
        if rng.chance(5) {
            let first = queue.model.first_key_value().map(|(key, _)| key.clone());
            snapshot = Some((db.snapshot(), first));
        }
        if let Some((snapshot, first)) = &snapshot {
            let found = snapshot.keyspace(&queue.keys).range(..).next().transpose();
            let found = found.map_err(|e| told(e.to_string()))?.map(|item| item.key.to_vec());
            if found != *first {
                return Err(told(format!("{found:?} instead of {first:?} of the snapshot")));
            }
        }
    }
    Ok(())
}
