//! Changes as a reader is told them, applied to another database of another design.

use std::collections::BTreeMap;
use std::time::SystemTime;

use cleavedb::{
    Bytes, Change, ChangeBatch, ChangeKind, Db, Keyspace, KeyspaceOptions, Result, WriteBatch,
};

use super::content::{Content, failed};
use crate::disks::Disks;
use crate::read::Checked;
use crate::session::open_all;
use crate::setup::Setup;

/// A reader that keeps up, and its copy.
pub(super) struct Feed {
    copy: Db,
    next: u64,
    told: Vec<ChangeBatch>,
}

impl Feed {
    /// One whose copy is of `setup`.
    pub(super) fn new(setup: &Setup) -> Checked<Self> {
        let copy = open_all(&Disks::forgetful(setup).storages(), setup).map_err(failed)?;
        Ok(Self { copy, next: 1, told: Vec::new() })
    }

    /// Applies what is new. It must be called after each operation: what is not told is read as it
    /// is now.
    pub(super) fn follow(&mut self, db: &Db) -> Checked {
        for batch in db.changes(self.next).map_err(failed)? {
            let batch = batch.map_err(failed)?;
            if batch.first < self.next || batch.last < batch.first {
                return Err(format!("a batch begins at {}, after {}", batch.first, self.next));
            }
            self.next = batch.next_seq();
            self.apply(db, &batch).map_err(|e| format!("the copy, {batch:?}: {e}"))?;
            self.told.push(batch);
        }
        Ok(())
    }

    /// Compares the copy with what it must have.
    pub(super) fn check(&self, content: &Content) -> Checked {
        content.check(&self.copy).map_err(|e| format!("a copy by changes: {e}"))
    }

    /// Compares what `db` tells from the first change on with what was told.
    pub(super) fn check_told(&self, db: &Db) -> Checked {
        let all: Result<Vec<ChangeBatch>> = db.changes(1).map_err(failed)?.collect();
        match all.map_err(failed)? == self.told {
            true => Ok(()),
            false => Err("other changes are told than before".to_owned()),
        }
    }

    /// Runs jobs of the copy.
    pub(super) fn step(&self) -> Checked {
        self.copy.flush().and_then(|()| self.copy.wait_idle()).map_err(failed)
    }

    fn apply(&self, db: &Db, batch: &ChangeBatch) -> Result<()> {
        let mut writes = WriteBatch::new();
        for Change { keyspace, kind, .. } in &batch.changes {
            match kind {
                ChangeKind::KeyspaceCreated => {
                    let options = KeyspaceOptions::default();
                    self.copy.create_keyspace(keyspace, options).map(drop)?;
                    continue;
                }
                ChangeKind::KeyspaceDropped => {
                    self.copy.drop_keyspace(keyspace)?;
                    continue;
                }
                _ => {}
            }
            let target = self.copy.keyspace(keyspace)?;
            let source = || db.keyspace(keyspace);
            let mut within = writes.keyspace(&target);
            match kind {
                ChangeKind::Put { key, value, expires } => {
                    within.put_until(key, value, *expires)?;
                }
                ChangeKind::PutBlob { key, .. } => {
                    match source()?.get_with_expiry(key)? {
                        Some((value, expires)) => within.put_until(key, value, expires)?,
                        None => within.delete(key)?,
                    };
                }
                ChangeKind::Delete { key } => _ = within.delete(key)?,
                ChangeKind::DeleteRange { from, upto: Some(upto) } => {
                    within.delete_range(&from[..]..&upto[..])?;
                }
                ChangeKind::DeleteRange { from, upto: None } => {
                    within.delete_range(&from[..]..)?;
                }
                ChangeKind::Merge { key, operand } => _ = within.merge(key, operand)?,
                ChangeKind::Loaded { first, last } => {
                    // What is the same already may become another: merges of what expires.
                    let here = scan(&target, first, last)?;
                    let there = scan(&source()?, first, last)?;
                    for (key, (value, expires)) in &there {
                        if here.get(key) != Some(&(value.clone(), *expires)) {
                            within.put_until(key, value, *expires)?;
                        }
                    }
                    for key in here.keys().filter(|key| !there.contains_key(*key)) {
                        within.delete(key)?;
                    }
                }
                _ => {}
            }
        }
        self.copy.write(&writes)
    }
}

/// Values, and when they expire.
type Pairs = BTreeMap<Bytes, (Bytes, Option<SystemTime>)>;

/// The pairs of a range with both ends.
fn scan(keyspace: &Keyspace, first: &[u8], last: &[u8]) -> Result<Pairs> {
    let (mut cursor, mut pairs) = (keyspace.cursor(first..=last), Pairs::new());
    while cursor.next()? {
        let expires = cursor.expiry();
        if let Some(item) = cursor.item()? {
            pairs.insert(item.key, (item.value, expires));
        }
    }
    Ok(pairs)
}
