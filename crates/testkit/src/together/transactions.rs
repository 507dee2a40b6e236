//! Transactions over several keyspaces that stay open while everything else goes on.

use std::collections::BTreeSet;
use std::time::Duration;

use cleavedb::{Durability, ErrorKind, Item, Keyspace, Savepoint, Transaction};
use cleavedb_storage_sim::sim::Rng;

use super::content::{Content, failed};
use crate::op::Write;
use crate::read::{Checked, compare, compare_value};
use crate::transactions::Read;

/// A transaction and what is known of it.
pub(super) struct Open {
    transaction: Transaction,
    /// Keyspaces of when it began.
    handles: Vec<Keyspace>,
    began: Content,
    /// What it sees: the content of when it began, with its own writes.
    seen: Content,
    /// The transaction's writes; the times to live are those at which values expire.
    pending: Vec<(String, Write)>,
    reads: Vec<(String, Read)>,
    savepoint: Option<(Savepoint, Content, usize)>,
    /// Keyspaces that it has used.
    used: BTreeSet<String>,
    /// Keys that others have written since it began, and keyspaces that were dropped.
    pub(super) written_since: Vec<(String, Vec<u8>)>,
    pub(super) dropped_since: BTreeSet<String>,
}

impl Open {
    /// One that has just begun.
    pub(super) fn new(transaction: Transaction, handles: Vec<Keyspace>, began: &Content) -> Self {
        Self {
            transaction,
            handles,
            began: began.clone(),
            seen: began.clone(),
            pending: Vec::new(),
            reads: Vec::new(),
            savepoint: None,
            used: BTreeSet::new(),
            written_since: Vec::new(),
            dropped_since: BTreeSet::new(),
        }
    }

    fn any(&mut self, rng: &mut Rng) -> Keyspace {
        let keyspace = self.handles[rng.index(self.handles.len())].clone();
        self.used.insert(keyspace.name().to_owned());
        keyspace
    }

    /// A savepoint, a return to it, or a write to one keyspace at the time `now`.
    pub(super) fn write(&mut self, write: &Write, now: u64, rng: &mut Rng) -> Checked {
        match rng.index(8) {
            0 => {
                let savepoint = self.transaction.savepoint();
                self.savepoint = Some((savepoint, self.seen.clone(), self.pending.len()));
                return Ok(());
            }
            1 => {
                if let Some((savepoint, seen, len)) = self.savepoint.take() {
                    self.transaction.rollback_to(savepoint).map_err(failed)?;
                    self.seen = seen;
                    self.pending.truncate(len);
                }
                return Ok(());
            }
            _ => {}
        }
        let keyspace = self.any(rng);
        let name = keyspace.name().to_owned();
        let mut within = self.transaction.keyspace(&keyspace);
        let key = &write.key[..];
        match (&write.operand, &write.value, &write.upto, write.ttl) {
            (Some(operand), ..) => within.merge(key, operand),
            (_, Some(value), _, Some(ttl)) => {
                within.put_with_ttl(key, value, Duration::from_millis(ttl))
            }
            (_, Some(value), _, None) => within.put(key, value),
            (_, None, Some(upto), _) => within.delete_range(key..&upto[..]),
            (_, None, None, _) => within.delete(key),
        }
        .map_err(failed)?;
        if write.operand.is_some() {
            self.note_read(&name, &write.key);
        }
        let space = self.seen.space(&name)?;
        // The transaction's reads are as of when it began; values live from now on.
        let (own, passed) = match &write.operand {
            Some(_) if space.state.get(key).is_some() => (space.merged(write), 0),
            Some(_) => (space.merged(write), now - space.state.now()),
            None => (space.own(write), now - space.state.now()),
        };
        let own = Write { ttl: own.ttl.map(|ttl| ttl + passed), ..own };
        let goes = own.ttl.map(|ttl| ttl + space.state.now());
        space.state.apply(std::slice::from_ref(&own));
        self.pending.push((name, Write { ttl: goes, ..own }));
        Ok(())
    }

    /// Notes that it reads a key. What it has written or deleted itself is not read from the
    /// database.
    fn note_read(&mut self, name: &str, key: &[u8]) {
        let is_own = |(other, Write { key: from, upto, .. }): &(String, Write)| {
            let deletes = |upto: &Vec<u8>| &from[..] <= key && key < &upto[..];
            other == name && (from == key || upto.as_ref().is_some_and(deletes))
        };
        if !self.pending.iter().any(is_own) {
            self.reads.push((name.to_owned(), Read::Key(key.to_vec())));
        }
    }

    /// Reads a key or a range of a keyspace.
    pub(super) fn read(&mut self, key: Vec<u8>, to: Vec<u8>, rng: &mut Rng) -> Checked {
        let keyspace = self.any(rng);
        let name = keyspace.name().to_owned();
        let within = self.transaction.keyspace(&keyspace);
        let seen = &self.seen.space(&name)?.state;
        let what = "a transaction";
        match rng.index(3) {
            0 => {
                let got = within.get(&key).map_err(failed)?;
                compare_value(what, &key, got.as_ref(), seen.get(&key))?;
                if within.contains_key(&key).map_err(failed)? != got.is_some() {
                    return Err("a transaction does not know what it reads".to_owned());
                }
                self.note_read(&name, &key);
                Ok(())
            }
            1 => {
                let take = 1 + rng.index(6);
                let items: Result<Vec<Item>, _> = within.range(&key[..]..).take(take).collect();
                let items = items.map_err(failed)?;
                let expected = seen.range(Some(&key), None);
                compare(what, &items, &expected[..take.min(expected.len())])?;
                let last = items.last().filter(|_| items.len() == take);
                let last = last.map(|item| item.key.to_vec());
                self.reads.push((name, Read::Range(key, last)));
                Ok(())
            }
            _ => {
                let items: Result<Vec<Item>, _> = within.range(&key[..]..&to[..]).rev().collect();
                let (mut items, expected) =
                    (items.map_err(failed)?, seen.range(Some(&key), Some(&to)));
                items.reverse();
                compare(what, &items, &expected)?;
                self.reads.push((name, Read::Before(key, to)));
                Ok(())
            }
        }
    }

    /// Commits at the time `now`; returns what it has written, or nothing after a conflict.
    pub(super) fn commit(mut self, content: &Content, now: u64) -> Checked<Vec<(String, Write)>> {
        let is_gone = self.used.iter().any(|name| self.dropped_since.contains(name));
        let result = self.transaction.commit_with(Durability::Os);
        match result {
            Err(e) if e.kind() == ErrorKind::Conflict => return Ok(Vec::new()),
            Err(e) if e.kind() == ErrorKind::NoKeyspace && is_gone => return Ok(Vec::new()),
            Err(e) => return Err(format!("a commit: {e}")),
            Ok(()) if self.pending.is_empty() => return Ok(Vec::new()),
            Ok(()) if is_gone => return Err("committed to a keyspace that is gone".to_owned()),
            Ok(()) => {}
        }
        let value_of = |content: &Content, (name, key): &(String, Vec<u8>)| {
            content.0.get(name)?.state.get(key).map(<[u8]>::to_vec)
        };
        for written in &self.written_since {
            let is_read =
                |(name, read): &(String, Read)| *name == written.0 && read.has(&written.1);
            let is_changed = value_of(&self.began, written) != value_of(content, written);
            if is_changed && self.reads.iter().any(is_read) {
                let key = written.1.escape_ascii();
                return Err(format!("committed although {key} of {} was changed", written.0));
            }
        }
        for (_, write) in &mut self.pending {
            write.ttl = write.ttl.map(|goes| goes.saturating_sub(now));
        }
        Ok(self.pending)
    }
}
