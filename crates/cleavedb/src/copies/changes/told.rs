//! What a reader of changes is told: the operations of a batch, with the names of keyspaces.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use cleavedb_base::key::split_encoded_key;
use cleavedb_base::record::RecordKind;
use cleavedb_base::{Error, ErrorKind, KeyspaceId, Lasting, Result, StoredOperand, ValuePointer};
use cleavedb_storage::log::LoggedOp;
use cleavedb_storage::segment::blob::blob_len;

use super::batches::LoggedBatch;
use super::names::{Names, Naming, named, range_of};
use super::walk::BatchBoundary;
use crate::engine::Engine;
use crate::operations::catalog::{NAMES, RANGES, UNTOLD};
use crate::settings::merge::Operand;
use crate::store::manifest::LoadedRange;

/// A committed batch, or a bulk load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeBatch {
    /// The first sequence number of the batch.
    pub first: u64,
    /// The last sequence number of the batch: those of the next batch are greater, and not always
    /// by one.
    pub last: u64,
    /// What it changes, in order.
    pub changes: Vec<Change>,
}

impl ChangeBatch {
    /// The sequence number from which on [`crate::Db::changes`] returns what follows.
    pub fn next_seq(&self) -> u64 {
        self.last + 1
    }
}

/// One change of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The sequence number of the change.
    pub seq: u64,
    /// The name of the keyspace; that of the default one is `default`.
    pub keyspace: Arc<str>,
    /// What was done.
    pub kind: ChangeKind,
}

/// What a change does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// A key gets a value.
    Put {
        /// The key.
        key: Bytes,
        /// The value of the key, whole, however the database keeps it.
        value: Bytes,
        /// When it expires, if it does. Expiry itself is no change.
        expires: Option<SystemTime>,
    },
    /// A key gets a blob ([`crate::Keyspace::put_reader`]), which is not told: a reader takes what
    /// [`crate::Keyspace::get_reader`] finds, which may be a later value.
    PutBlob {
        /// The key.
        key: Bytes,
        /// Length of the blob, in bytes.
        len: u64,
        /// When it expires, if it does.
        expires: Option<SystemTime>,
    },
    /// A key is deleted; also a put whose time to live was over at once.
    Delete {
        /// The key.
        key: Bytes,
    },
    /// A range of keys is deleted.
    DeleteRange {
        /// The first key.
        from: Bytes,
        /// The key behind the last one; `None` for all that follow.
        upto: Option<Bytes>,
    },
    /// The value of a key changes, as [`crate::Keyspace::merge`] changes it.
    Merge {
        /// The key.
        key: Bytes,
        /// What is done to it.
        operand: Operand,
    },
    /// The keyspace is created, or gets other options.
    KeyspaceCreated,
    /// The keyspace is dropped, with all its keys.
    KeyspaceDropped,
    /// A bulk load puts pairs that are not told one by one: a reader scans the range in a snapshot,
    /// and forgets what it does not find there. The snapshot has later changes, too: of this range
    /// a replica leaves out those up to [`crate::Snapshot::seq`] of its scan, since a merge among
    /// them would count twice. Or it copies everything anew, and goes on behind that number.
    Loaded {
        /// The first key.
        first: Bytes,
        /// The last key.
        last: Bytes,
    },
}

/// What is told of a batch of the log; nothing if it only changes records of the database itself.
pub(super) fn batch(
    engine: &Engine,
    batch: LoggedBatch,
    names: &mut Names,
    place: Option<BatchBoundary>,
) -> Result<Option<ChangeBatch>> {
    let (first, last) = (batch.first(), batch.last());
    let mut of_keyspaces = named(&batch)?.into_iter();
    let (mut changes, mut is_drop) = (Vec::with_capacity(batch.ops.len()), false);
    for op in batch.ops {
        let seq = op.header.seq;
        let (id, kind) = match op.header.keyspace {
            KeyspaceId::SYSTEM => match (op.key.first(), is_drop) {
                (Some(&NAMES), _) => {
                    let Some(said) = of_keyspaces.next() else { continue };
                    let (keyspace, kind) = match &said {
                        Naming::Is(_, name) => (name.clone(), ChangeKind::KeyspaceCreated),
                        Naming::Was(_, name) => (name.clone(), ChangeKind::KeyspaceDropped),
                    };
                    is_drop = kind == ChangeKind::KeyspaceDropped;
                    names.note(said);
                    changes.push(Change { seq, keyspace, kind });
                    continue;
                }
                // The range delete of a drop.
                (Some(&RANGES), true) => {
                    is_drop = false;
                    continue;
                }
                (Some(&RANGES), false) => {
                    let Some(range) = range_of(&op)? else { continue };
                    let (id, from) = range.begin;
                    let upto = range.end.map(Bytes::from);
                    (id, ChangeKind::DeleteRange { from: from.into(), upto })
                }
                // The database has all that a change names.
                (Some(kind), _) if UNTOLD.contains(kind) => continue,
                _ => {
                    let what = "the log has a record of the system keyspace that this release does \
                                not know";
                    return Err(Error::new(ErrorKind::NewerFormat, what).with("seq", seq));
                }
            },
            id => (id, of_key(engine, op)?),
        };
        let keyspace = names.find(engine, id, seq, place)?;
        changes.push(Change { seq, keyspace, kind });
    }
    Ok((!changes.is_empty()).then_some(ChangeBatch { first, last, changes }))
}

/// The change of one key.
fn of_key(engine: &Engine, op: LoggedOp) -> Result<ChangeKind> {
    let LoggedOp { header, key, value, .. } = op;
    let (key, value) = (Bytes::from(key), Bytes::from(value));
    Ok(match header.kind {
        RecordKind::Delete => ChangeKind::Delete { key },
        RecordKind::Operand => {
            let StoredOperand { operator, operand } = StoredOperand::decode(&value)?;
            ChangeKind::Merge { key, operand: Operand::new(operator, operand) }
        }
        kind if kind.is_blob() => {
            let pointer = ValuePointer::of_entry(kind.as_entry(), &value)?;
            let len = blob_len(pointer.value).unwrap_or_default();
            ChangeKind::PutBlob { key, len, expires: pointer.until.time() }
        }
        kind => {
            let whole = engine.catalog.whole(&header, &value);
            let value = whole.map_err(|e| e.with("seq", header.seq))?.map_or(value, Bytes::from);
            let Lasting { value: rest, until } = kind.split(&value)?;
            ChangeKind::Put { key, value: value.slice_ref(rest), expires: until.time() }
        }
    })
}

/// What is told of a bulk load.
pub(super) fn load(
    engine: &Engine,
    load: LoadedRange,
    names: &mut Names,
    place: Option<BatchBoundary>,
) -> Result<ChangeBatch> {
    let LoadedRange { seq, first, last } = load;
    let (Some((id, first)), Some((_, last))) =
        (split_encoded_key(&first), split_encoded_key(&last))
    else {
        return Err(Error::corruption("a bulk load begins or ends at no key").with("seq", seq));
    };
    let keyspace = names.find(engine, id, seq, place)?;
    let [first, last] = [first, last].map(Bytes::copy_from_slice);
    let kind = ChangeKind::Loaded { first, last };
    let changes = vec![Change { seq, keyspace, kind }];
    Ok(ChangeBatch { first: seq, last: seq, changes })
}
