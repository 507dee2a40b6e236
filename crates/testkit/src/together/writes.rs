//! Writes of every kind.

use std::collections::BTreeSet;
use std::time::Duration;

use cleavedb::{Keyspace, PutOptions, WriteBatch};

use super::content::failed;
use super::{Together, named};
use crate::merges::is_counter;
use crate::op::{Write, short};
use crate::read::{Checked, compare_value};
use crate::session;
use crate::state::State;

impl Together {
    /// Tells open transactions that others have written.
    pub(super) fn note_written(&mut self, name: &str, writes: &[Write]) {
        let mut keys = BTreeSet::new();
        for write in writes {
            match &write.upto {
                Some(upto) => {
                    let state = self.content.0.get(name).map(|space| &space.state);
                    let range = state.map(|it| it.range(Some(&write.key), Some(upto)));
                    keys.extend(range.into_iter().flatten().map(|(key, _)| key.to_vec()));
                }
                None => _ = keys.insert(write.key.clone()),
            }
        }
        for open in &mut self.open {
            let named = keys.iter().map(|key| (name.to_owned(), key.clone()));
            open.written_since.extend(named);
        }
    }

    fn applied(&mut self, writes: &[(String, Write)]) -> Checked {
        for (name, write) in writes {
            self.note_written(name, std::slice::from_ref(write));
        }
        self.content.apply(writes)
    }

    /// A batch over several keyspaces.
    pub(super) fn batch(&mut self) -> Checked {
        let (mut batch, mut writes) = (WriteBatch::new(), Vec::new());
        for _ in 0..1 + self.rng.index(6) {
            let (keyspace, write) = (self.any()?, self.generator.write());
            let ttl = self.content.space(keyspace.name())?.ttl;
            if ttl.is_some() && write.operand.is_some() {
                continue;
            }
            let (key, lives) = (&write.key[..], write.ttl.map(Duration::from_millis));
            let mut within = batch.keyspace(&keyspace);
            match (&write.operand, &write.value, &write.upto, lives) {
                (Some(operand), ..) => within.merge(key, operand).map(drop),
                (_, Some(value), _, Some(ttl)) => within.put_with_ttl(key, value, ttl).map(drop),
                (_, Some(value), _, None) => within.put(key, value).map(drop),
                (_, None, Some(upto), _) => within.delete_range(key..&upto[..]).map(drop),
                (_, None, None, _) => within.delete(key).map(drop),
            }
            .map_err(failed)?;
            writes.push((keyspace.name().to_owned(), write));
        }
        let durability = self.generator.durability();
        self.tell(format!("batch {writes:?}"));
        self.db().write_with(&batch, durability).map_err(failed)?;
        self.applied(&writes)
    }

    /// One write by the plain call.
    pub(super) fn single(&mut self) -> Checked {
        let (keyspace, write) = (self.any()?, self.generator.write());
        let durability = self.generator.durability();
        self.tell(format!("one to {}: {write:?}", keyspace.name()));
        match session::commit_one(&keyspace, &write, durability) {
            Some(done) => done.map_err(failed)?,
            None => {
                let value = write.value.as_deref().unwrap_or_default();
                let ttl = Duration::from_millis(write.ttl.unwrap_or_default());
                keyspace.put_with(&write.key, value, PutOptions::new().ttl(ttl)).map_err(failed)?;
            }
        }
        self.applied(&named(keyspace.name(), vec![write]))
    }

    /// A bulk load.
    pub(super) fn load(&mut self) -> Checked {
        let (keyspace, puts) = (self.any()?, self.generator.puts());
        self.tell(format!("load to {}: {puts:?}", keyspace.name()));
        session::load(&keyspace, &puts, self.setup.now()).map_err(failed)?;
        self.applied(&named(keyspace.name(), puts))
    }

    /// A write that depends on what is there.
    pub(super) fn conditional(&mut self) -> Checked {
        let keyspace = self.any()?;
        let name = keyspace.name().to_owned();
        let write = self.generator.write();
        let key = write.key.clone();
        let put = self.generator.put_to(&key);
        let new = put.value.clone().unwrap_or_default();
        let state = self.content.space(&name)?.state.clone();
        let old = state.get(&key);
        let wrote = match self.rng.index(6) {
            0 => {
                self.tell(format!("put if absent to {name}: {}", short(&key)));
                let done = keyspace.put_if_absent(&key, &new).map_err(failed)?;
                if done == old.is_some() {
                    return Err(format!("put_if_absent of {} gave {done}", short(&key)));
                }
                done.then_some(Write { ttl: None, ..put })
            }
            1 => {
                let is_right = self.rng.chance(70);
                self.tell(format!("swap in {name}: {}, {is_right}", short(&key)));
                let expected = if is_right { old } else { Some(&b"other"[..]) };
                let done = keyspace.compare_and_swap(&key, expected, Some(&new));
                if done.map_err(failed)? != is_right {
                    return Err(format!("compare_and_swap of {}", short(&key)));
                }
                is_right.then_some(Write { ttl: None, ..put })
            }
            2 => {
                self.tell(format!("delete if in {name}: {}", short(&key)));
                let done = keyspace.delete_if(&key, |value| Some(value) == old);
                if done.map_err(failed)? != old.is_some() {
                    return Err(format!("delete_if of {}", short(&key)));
                }
                old.is_some().then(|| Write::delete(&key))
            }
            3 => self.pop(&keyspace, &state)?.map(|key| Write::delete(&key)),
            4 => {
                let ttl = [0, 40, 200][self.rng.index(3)];
                self.tell(format!("set ttl in {name}: {} {ttl}", short(&key)));
                let done = keyspace.set_ttl(&key, Duration::from_millis(ttl));
                if done.map_err(failed)? != old.is_some() {
                    return Err(format!("set_ttl of {}", short(&key)));
                }
                old.map(|old| Write { ttl: Some(ttl), ..Write::put(&key, old.to_vec()) })
            }
            _ => {
                self.tell(format!("update in {name}: {}", short(&key)));
                let made = match is_counter(&key) {
                    true => new.to_vec(),
                    false => [&new[..], b"!"].concat(),
                };
                let returned = keyspace.update(&key, |_| Some(made.clone())).map_err(failed)?;
                compare_value("update", &key, returned.as_ref(), Some(&made))?;
                Some(Write::put(&key, made))
            }
        };
        wrote.map_or(Ok(()), |write| self.applied(&named(&name, vec![write])))
    }
    /// Takes the first or the last pair away, and returns its key.
    fn pop(&mut self, keyspace: &Keyspace, state: &State) -> Checked<Option<Vec<u8>>> {
        let is_first = self.rng.chance(50);
        self.tell(format!("pop of {}, first: {is_first}", keyspace.name()));
        let popped = if is_first { keyspace.pop_first() } else { keyspace.pop_last() };
        let key = popped.map_err(failed)?.map(|item| item.key.to_vec());
        let pairs = state.range(None, None);
        let pair = if is_first { pairs.first() } else { pairs.last() };
        match key.as_deref() == pair.map(|pair| pair.0) {
            true => Ok(key),
            false => Err(format!("another key was popped: {key:?}")),
        }
    }
}
