//! Queues beside writes in front of them: searches for the first and the last key find what a
//! model has.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

use cleavedb::{Db, Item, Keyspace, Operand, WriteBatch};
use cleavedb_storage_sim::Sim;
use cleavedb_storage_sim::sim::Rng;

use crate::read::Checked;
use crate::setup::Setup;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A key and its value.
type Pair<'p> = Option<(&'p [u8], &'p [u8])>;

fn same(call: &str, found: cleavedb::Result<Option<Item>>, expected: Pair<'_>) -> Checked<()> {
    let found = found.map_err(|e| e.to_string())?;
    let found = found.as_ref().map(|item| (&item.key[..], &item.value[..]));
    let told = || format!("{call}: {found:?} instead of {expected:?}");
    (found == expected).then_some(()).ok_or_else(told)
}

/// What searches for the first and the last key find, by the calls that make one.
fn check(queue: &Keyspace, model: &Model) -> Checked<()> {
    let [first, last] = [model.first_key_value(), model.last_key_value()]
        .map(|end| end.map(|(key, value)| (&key[..], &value[..])));
    same("first_key_value", queue.first_key_value(), first)?;
    same("last_key_value", queue.last_key_value(), last)?;
    same("next", queue.range(..).next().transpose(), first)?;
    same("next_back", queue.range(..).next_back().transpose(), last)?;
    let mut cursor = queue.cursor(..);
    let moved = cursor.next().and_then(|_| cursor.item());
    same("next of a cursor", moved, first)?;
    let moved = cursor.seek_to_last().and_then(|_| cursor.item());
    same("seek_to_last", moved, last)?;
    for (begin, end) in PARTS {
        let range = begin.as_bytes()..end.as_bytes();
        let mut part = model
            .range::<[u8], _>((Included(range.start), Excluded(range.end)))
            .map(|(key, value)| (&key[..], &value[..]));
        let found = queue.range(range.clone()).next().transpose();
        same(&format!("from {begin}"), found, part.clone().next())?;
        let found = queue.range(range).next_back().transpose();
        same(&format!("up to {end}"), found, part.next_back())?;
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

    /// Takes keys at an end.
    fn pop(&mut self, count: usize, is_first: bool) -> cleavedb::Result<()> {
        for _ in 0..count {
            let (popped, expected) = match is_first {
                true => (self.keys.pop_first()?, self.model.pop_first()),
                false => (self.keys.pop_last()?, self.model.pop_last()),
            };
            assert_eq!(popped.map(|item| item.key.to_vec()), expected.map(|(key, _)| key));
        }
        Ok(())
    }

    /// Takes keys at an end of a part.
    fn pop_part(&mut self, part: usize, count: usize, is_first: bool) -> cleavedb::Result<()> {
        let (begin, end) = PARTS[part];
        for _ in 0..count {
            let mut range = self.keys.range(begin.as_bytes()..end.as_bytes()).keys_only();
            let end = if is_first { range.next() } else { range.next_back() };
            let Some(item) = end.transpose()? else { break };
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
            11..=16 => self.pop_part(rng.index(PARTS.len()), rng.index(25), rng.chance(2))?,
            _ => self.pop(rng.index(12), rng.chance(2))?,
        }
        Ok(())
    }
}

fn key(n: u64) -> Vec<u8> {
    format!("{n:06}").into_bytes()
}

/// Draws operations on a queue, and compares its first and its last key with those of a model
/// behind each, at times as of a snapshot, too.
pub fn ends_are_found(setup: &Setup, seed: u64) -> Checked<()> {
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
            let ends = [queue.model.first_key_value(), queue.model.last_key_value()];
            let ends = ends.map(|end| end.map(|(key, value)| (key.clone(), value.clone())));
            snapshot = Some((db.snapshot(), ends));
        }
        if let Some((snapshot, ends)) = &snapshot {
            let keys = snapshot.keyspace(&queue.keys);
            let [first, last] =
                [0, 1].map(|end| ends[end].as_ref().map(|(key, value)| (&key[..], &value[..])));
            same("first of the snapshot", keys.range(..).next().transpose(), first)
                .map_err(told)?;
            same("last of the snapshot", keys.range(..).next_back().transpose(), last)
                .map_err(told)?;
        }
    }
    Ok(())
}
