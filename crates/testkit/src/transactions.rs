//! Transactions that are open at once, in one thread, and whether what they have read is what they
//! would have read one after the other.
//!
//! The thread knows the order of the commits. So the check is direct: what a transaction has read
//! must be, at its commit, what the model has then. A conflict must have a cause.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use cleavedb::{Db, Durability, ErrorKind, Item, Savepoint, Transaction};
use cleavedb_storage_sim::sim::Rng;

use crate::disks::Disks;
use crate::op::Write;
use crate::read::{Checked, compare};
use crate::session::{commit, open_all};
use crate::setup::Setup;
use crate::state::State;
use crate::walk::Walk;

/// Transactions that are open at once, and keys.
const OPEN_MAX: usize = 4;
const KEYS: u64 = 12;

/// Writes of a transaction: values, or `None` for deletes.
type Pending = BTreeMap<Vec<u8>, Option<Arc<[u8]>>>;

/// What a transaction has read.
pub(crate) enum Read {
    Key(Vec<u8>),
    /// From the first key up to the second one, both included; `None` is the end of the keys.
    Range(Vec<u8>, Option<Vec<u8>>),
    /// From the first key up to the second one, which was not read, but may count as read.
    Before(Vec<u8>, Vec<u8>),
    /// Some of all keys, by a walk that goes to and fro.
    Anywhere,
}

impl Read {
    /// Whether a key was read.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        match self {
            Self::Before(from, to) => &from[..] <= key && key < &to[..],
            Self::Anywhere => false,
            Self::Key(read) => read == key,
            Self::Range(from, to) => {
                &from[..] <= key && to.as_ref().is_none_or(|to| key <= &to[..])
            }
        }
    }

    /// Whether a key may count as read.
    fn may_have(&self, key: &[u8]) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Before(from, to) => &from[..] <= key && key <= &to[..],
            Self::Key(_) | Self::Range(..) => self.has(key),
        }
    }
}

/// A transaction and what is known of it.
struct Open {
    transaction: Transaction,
    /// What it sees but for its own writes.
    began: State,
    pending: Pending,
    reads: Vec<Read>,
    savepoint: Option<(Savepoint, Pending)>,
    /// Keys that others have committed since.
    written_since: Vec<Vec<u8>>,
}

/// All keys that are used from `from` to `to`, excluded.
fn keys_within(from: &[u8], to: &[u8]) -> Vec<Vec<u8>> {
    let all = (0..KEYS).map(|number| format!("key{number:02}").into_bytes());
    all.filter(|key| from <= &key[..] && &key[..] < to).collect()
}

/// `state` with the writes of a transaction.
fn with_pending(state: &State, pending: &Pending) -> State {
    let mut state = state.clone();
    pending.iter().for_each(|(key, value)| state.set(key, value.as_ref()));
    state
}

fn text(error: cleavedb::Error) -> String {
    error.to_string()
}

/// Interleaves transactions, plain writes and jobs.
pub struct Interleaving {
    db: Db,
    model: State,
    open: Vec<Open>,
    rng: Rng,
    written: u64,
    /// Transactions with writes that were committed, and those that met a conflict.
    pub committed: u64,
    /// See `committed`.
    pub conflicts: u64,
}

impl Interleaving {
    /// With an empty database.
    pub fn new(setup: &Setup, seed: u64) -> Checked<Self> {
        let db = open_all(&Disks::forgetful(setup).storages(), setup).map_err(text)?;
        let (model, open, rng) = (State::default(), Vec::new(), Rng::new(seed));
        Ok(Self { db, model, open, rng, written: 0, committed: 0, conflicts: 0 })
    }

    /// Makes `steps` steps.
    pub fn run(&mut self, steps: usize) -> Checked {
        (0..steps).try_for_each(|_| self.step())
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key{:02}", self.rng.below(KEYS)).into_bytes()
    }

    fn value(&mut self) -> Option<Arc<[u8]>> {
        self.written += 1;
        let value = format!("{} {}", self.written, "x".repeat(self.rng.index(400)));
        (!self.rng.chance(25)).then(|| value.into_bytes().into())
    }

    fn step(&mut self) -> Checked {
        match self.rng.index(20) {
            0 | 1 if self.open.len() < OPEN_MAX => {
                let transaction = self.db.transaction().map_err(text)?;
                let (reads, written_since) = (Vec::new(), Vec::new());
                let (began, pending) = (self.model.clone(), Pending::new());
                self.open.push(Open {
                    transaction,
                    began,
                    pending,
                    reads,
                    savepoint: None,
                    written_since,
                });
                Ok(())
            }
            2 => {
                let mut ends = [self.key(), self.key()];
                ends.sort();
                let write = match self.rng.chance(20) {
                    true => Write::delete_range(&ends[0], &ends[1]),
                    false => Write { key: self.key(), value: self.value(), ..Write::default() },
                };
                commit(&self.db, std::slice::from_ref(&write), Durability::Os).map_err(text)?;
                self.applied(&[write]);
                Ok(())
            }
            3 if self.rng.chance(20) => self.db.flush().map_err(text),
            4 if self.rng.chance(10) => self.db.collect().map_err(text),
            _ if self.open.is_empty() => Ok(()),
            5 | 6 => self.end(),
            7..=11 => self.write(),
            _ => self.read(),
        }
    }

    fn applied(&mut self, writes: &[Write]) {
        self.model.apply(writes);
        let keys = || {
            writes.iter().flat_map(|write| match &write.upto {
                Some(upto) => keys_within(&write.key, upto),
                None => vec![write.key.clone()],
            })
        };
        self.open.iter_mut().for_each(|open| open.written_since.extend(keys()));
    }

    fn write(&mut self) -> Checked {
        let at = self.rng.index(self.open.len());
        let (key, value) = (self.key(), self.value());
        let open = &mut self.open[at];
        match self.rng.index(8) {
            0 => open.savepoint = Some((open.transaction.savepoint(), open.pending.clone())),
            1 => {
                if let Some((savepoint, pending)) = open.savepoint.take() {
                    open.transaction.rollback_to(savepoint).map_err(text)?;
                    open.pending = pending;
                }
            }
            2 => {
                let to = format!("key{:02}", self.rng.below(KEYS)).into_bytes();
                let (from, to) = if key < to { (key, to) } else { (to, key) };
                open.transaction.delete_range(&from[..]..&to[..]).map_err(text)?;
                let deleted = keys_within(&from, &to).into_iter().map(|key| (key, None));
                open.pending.extend(deleted);
            }
            _ => {
                match &value {
                    Some(value) => open.transaction.put(&key, value),
                    None => open.transaction.delete(&key),
                }
                .map_err(text)?;
                open.pending.insert(key, value);
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Checked {
        let at = self.rng.index(self.open.len());
        let (key, to) = (self.key(), self.key());
        let (kind, take, seed) = (self.rng.index(5), self.rng.index(6), self.rng.next_u64());
        let Open { transaction, began, pending, reads, .. } = &mut self.open[at];
        let seen = with_pending(began, pending);
        match kind {
            0 | 1 => {
                let got = transaction.get(&key).map_err(text)?;
                let there = transaction.contains_key(&key).map_err(text)?;
                if got.as_deref() != seen.get(&key) || there != got.is_some() {
                    return Err("a transaction reads another value".to_owned());
                }
                if !pending.contains_key(&key) {
                    reads.push(Read::Key(key));
                }
                Ok(())
            }
            2 => {
                let range = (Bound::Included(key.clone()), Bound::Unbounded);
                let items: Result<Vec<Item>, _> = transaction.range(range).take(take).collect();
                let items = items.map_err(text)?;
                let expected = seen.range(Some(&key), None);
                compare("a range", &items, &expected[..take.min(expected.len())])?;
                if take > 0 {
                    let last = items.last().filter(|_| items.len() == take);
                    reads.push(Read::Range(key, last.map(|item| item.key.to_vec())));
                }
                Ok(())
            }
            3 => {
                let items: Result<Vec<Item>, _> =
                    transaction.range(&key[..]..&to[..]).rev().collect();
                let expected = seen.range(Some(&key), Some(&to));
                reads.push(Read::Before(key.clone(), to.clone()));
                let mut items = items.map_err(text)?;
                items.reverse();
                compare("a range from its end", &items, &expected)
            }
            _ => {
                reads.push(Read::Anywhere);
                let mut walk = Walk::new(transaction.cursor(..), seed);
                walk.go(4, &seen.range(None, None))
            }
        }
    }

    fn end(&mut self) -> Checked {
        let at = self.rng.index(self.open.len());
        let Open { transaction, began, pending, reads, written_since, .. } = self.open.remove(at);
        if self.rng.chance(10) {
            transaction.rollback();
            return self.compare();
        }
        let overtaken = written_since.iter().find(|key| reads.iter().any(|it| it.may_have(key)));
        let changed = || {
            let differs = |key: &Vec<u8>| began.get(key) != self.model.get(key);
            written_since.iter().find(|key| differs(key) && reads.iter().any(|read| read.has(key)))
        };
        match transaction.commit_with(Durability::Os) {
            Ok(()) => {
                if let Some(key) = changed().filter(|_| !pending.is_empty()) {
                    return Err(format!("committed although {} was changed", key.escape_ascii()));
                }
                let writes = pending.into_iter().map(|(key, value)| Write {
                    key,
                    value,
                    ..Write::default()
                });
                let writes: Vec<Write> = writes.collect();
                self.committed += u64::from(!writes.is_empty());
                self.applied(&writes);
            }
            Err(e) if e.kind() == ErrorKind::Conflict => {
                self.conflicts += 1;
                if overtaken.is_none() {
                    return Err(format!("a conflict without a cause: {e}"));
                }
            }
            Err(e) => return Err(e.to_string()),
        }
        self.compare()
    }

    fn compare(&self) -> Checked {
        let items: Result<Vec<Item>, _> = self.db.range(..).collect();
        compare("the database", &items.map_err(text)?, &self.model.range(None, None))
    }
}

/// Interleaves transactions under a setup.
pub fn interleaved(setup: &Setup, seed: u64) -> Checked<(u64, u64)> {
    let mut interleaving = Interleaving::new(setup, seed)?;
    interleaving.run(250)?;
    Ok((interleaving.committed, interleaving.conflicts))
}

/// What one of several threads has read and written in a transaction that was committed: keys, and
/// the number of the version of each; a version is written by one that has read the one before.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    /// Versions that were read.
    pub reads: Vec<(usize, u64)>,
    /// Versions that were written.
    pub writes: Vec<(usize, u64)>,
}

/// Fails unless the transactions can be put in an order in which each reads what those before it
/// have written: unless their dependences have no circle (Adya, "Weak consistency", 1999).
pub fn check_serializable(history: &[Committed]) -> Checked {
    let mut writers = BTreeMap::new();
    for (at, one) in history.iter().enumerate() {
        for version in &one.writes {
            if writers.insert(*version, at).is_some() {
                return Err(format!("version {version:?} was written twice: a lost update"));
            }
        }
    }
    let mut after = vec![Vec::new(); history.len()];
    let mut before = vec![0_usize; history.len()];
    for (at, one) in history.iter().enumerate() {
        let own = |other: &usize| *other != at;
        for (key, version) in &one.reads {
            if let Some(writer) = writers.get(&(*key, *version)).copied().filter(own) {
                after[writer].push(at);
                before[at] += 1;
            }
            if let Some(next) = writers.get(&(*key, version + 1)).copied().filter(own) {
                after[at].push(next);
                before[next] += 1;
            }
        }
    }
    let mut ready: Vec<usize> = (0..history.len()).filter(|at| before[*at] == 0).collect();
    let mut ordered = 0;
    while let Some(at) = ready.pop() {
        ordered += 1;
        for next in &after[at] {
            before[*next] -= 1;
            if before[*next] == 0 {
                ready.push(*next);
            }
        }
    }
    if ordered < history.len() {
        return Err(format!("{} transactions depend on each other", history.len() - ordered));
    }
    Ok(())
}
