//! The names of keyspaces as they were when a change was made.
//!
//! A change has the id of its keyspace, and an id may belong to one keyspace after another. What
//! the reader has met tells the names of keyspaces that were created since it began; the catalog
//! those of keyspaces that are still there. The name of one that was dropped meanwhile stands in
//! the log further on, by its drop: it is looked for once.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleavedb_base::key::split_encoded_key;
use cleavedb_base::record::RecordKind;
use cleavedb_base::{Error, KeyspaceId, Result, SeqNo};
use cleavedb_storage::log::LoggedOp;

use super::batches::LoggedBatch;
use super::walk::{BatchBoundary, BatchOutcome, walk};
use crate::engine::Engine;
use crate::engine::range_deletes;
use crate::operations::catalog::{self, DEFAULT_NAME, NAMES, RANGES};

/// The names that are known, by id.
#[derive(Default)]
pub(super) struct Names {
    known: BTreeMap<KeyspaceId, Arc<str>>,
}

/// What a batch says of a keyspace.
pub(super) enum Naming {
    /// The keyspace is there.
    Is(KeyspaceId, Arc<str>),
    /// The keyspace is dropped.
    Was(KeyspaceId, Arc<str>),
}

impl Names {
    /// Notes what a batch says.
    pub(super) fn note(&mut self, named: Naming) {
        match named {
            Naming::Is(id, name) => _ = self.known.insert(id, name),
            Naming::Was(id, _) => _ = self.known.remove(&id),
        }
    }

    /// The name that keyspace `id` had as of `seq`, which the reader has come to; the following
    /// batches are behind `place`.
    pub(super) fn find(
        &mut self,
        engine: &Engine,
        id: KeyspaceId,
        seq: SeqNo,
        place: Option<BatchBoundary>,
    ) -> Result<Arc<str>> {
        if id == KeyspaceId::DEFAULT {
            return Ok(DEFAULT_NAME.into());
        }
        if let Some(name) = self.known.get(&id) {
            return Ok(name.clone());
        }
        if let Some(name) = engine.catalog.name_since(id, seq) {
            return Ok(self.known.entry(id).or_insert(name.into()).clone());
        }
        self.look_ahead(engine, seq, place)?;
        self.known.get(&id).cloned().ok_or_else(|| {
            let what = "a change belongs to a keyspace that no drop names";
            Error::corruption(what).with("keyspace", id.0).with("seq", seq)
        })
    }

    /// Reads the names of keyspaces that were dropped, or got other options, behind `place`.
    fn look_ahead(
        &mut self,
        engine: &Engine,
        seq: SeqNo,
        mut place: Option<BatchBoundary>,
    ) -> Result<()> {
        let mut first = BTreeMap::new();
        walk(engine, &mut place, |batch| {
            if batch.first() > seq {
                for named in named(&batch)? {
                    let (Naming::Is(id, name) | Naming::Was(id, name)) = named;
                    first.entry(id).or_insert(name);
                }
            }
            Ok(BatchOutcome::On)
        })?;
        for (id, name) in first {
            self.known.entry(id).or_insert(name);
        }
        Ok(())
    }
}

/// What a batch says of keyspaces.
pub(super) fn named(batch: &LoggedBatch) -> Result<Vec<Naming>> {
    let mut all = Vec::new();
    for (at, op) in batch.ops.iter().enumerate() {
        if op.header.keyspace != KeyspaceId::SYSTEM || op.key.first() != Some(&NAMES) {
            continue;
        }
        if op.header.kind == RecordKind::Delete {
            // The delete of all its keys follows.
            let range = batch.ops.get(at + 1).map(range_of).transpose()?.flatten();
            let range = range.ok_or_else(|| Error::corruption("a keyspace is dropped half"))?;
            let name = str::from_utf8(&op.key[1..]).unwrap_or_default();
            all.push(Naming::Was(range.begin.0, name.into()));
        } else {
            let (name, id, _) = catalog::decode(&op.key, &op.value)?;
            all.push(Naming::Is(id, name.into()));
        }
    }
    Ok(all)
}

/// A range delete, as a record has it.
pub(super) struct LoggedRange {
    /// The keyspace and the first key.
    pub(super) begin: (KeyspaceId, Vec<u8>),
    /// The key behind the range; none if it ends with the keyspace.
    pub(super) end: Option<Vec<u8>>,
}

/// The range delete that a record of the system keyspace is, if it is one.
pub(super) fn range_of(op: &LoggedOp) -> Result<Option<LoggedRange>> {
    let is_range = op.key.first() == Some(&RANGES) && op.header.kind != RecordKind::Delete;
    if op.header.keyspace != KeyspaceId::SYSTEM || !is_range {
        return Ok(None);
    }
    let deleted = range_deletes::decode(&op.key, &op.value, op.header.seq)?;
    let (begin, end) = (split_encoded_key(&deleted.begin), split_encoded_key(&deleted.end));
    let (Some((id, begin)), Some((behind, end))) = (begin, end) else {
        return Err(Error::corruption("a range delete begins or ends at no key"));
    };
    let end = (behind == id).then(|| end.to_vec());
    Ok(Some(LoggedRange { begin: (id, begin.to_vec()), end }))
}
