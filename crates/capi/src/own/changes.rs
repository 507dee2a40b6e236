//! Changes: what was committed, batch by batch.

use std::ffi::c_int;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cleavedb::{Change, ChangeKind, Changes};

use super::db::with;
use super::errors::ErrorOut;
use crate::border::needed;
use crate::databases::HeldDb;
use crate::handles::{Handle, export};
use crate::slices::{LentOut, OutPlace};

/// A reader of changes that C holds, and the batch that it has read last.
pub(super) struct HeldChanges {
    changes: Changes,
    batch: Vec<HeldChange>,
}

/// A change, with its texts as C reads them: a NUL is behind each.
struct HeldChange {
    change: Change,
    keyspace: String,
    operator: Option<String>,
}

impl From<Change> for HeldChange {
    fn from(change: Change) -> Self {
        let keyspace = format!("{}\0", change.keyspace);
        let operator = match &change.kind {
            ChangeKind::Merge { operand, .. } => Some(format!("{}\0", operand.operator())),
            _ => None,
        };
        Self { change, keyspace, operator }
    }
}

/// What a change has, by its kind.
#[derive(Default)]
struct ChangeParts<'c> {
    /// Number of the kind in the header, for good; 0 for one that it does not have.
    kind: c_int,
    key: Option<&'c [u8]>,
    to: Option<&'c [u8]>,
    value: Option<&'c [u8]>,
    /// Length of a value that is not told.
    value_len: usize,
    expires: Option<SystemTime>,
}

impl<'c> ChangeParts<'c> {
    fn of(kind: &'c ChangeKind) -> Self {
        let none = Self::default();
        match kind {
            ChangeKind::Put { key, value, expires } => {
                Self { kind: 1, key: Some(key), value: Some(value), expires: *expires, ..none }
            }
            ChangeKind::PutBlob { key, len, expires } => {
                let value_len = *len as usize;
                Self { kind: 2, key: Some(key), value_len, expires: *expires, ..none }
            }
            ChangeKind::Delete { key } => Self { kind: 3, key: Some(key), ..none },
            ChangeKind::DeleteRange { from, upto } => {
                Self { kind: 4, key: Some(from), to: upto.as_deref(), ..none }
            }
            ChangeKind::Merge { key, operand } => {
                Self { kind: 5, key: Some(key), value: Some(operand.bytes()), ..none }
            }
            ChangeKind::KeyspaceCreated => Self { kind: 6, ..none },
            ChangeKind::KeyspaceDropped => Self { kind: 7, ..none },
            ChangeKind::Loaded { first, last } => {
                Self { kind: 8, key: Some(first), to: Some(last), ..none }
            }
            _ => none,
        }
    }
}

/// A change as the header declares it.
#[repr(C)]
pub(super) struct ToldChange {
    seq: u64,
    kind: c_int,
    keyspace: LentOut,
    key: LentOut,
    key_len: usize,
    to: LentOut,
    to_len: usize,
    value: LentOut,
    value_len: usize,
    operator: LentOut,
    expires_millis: u64,
}

impl From<&HeldChange> for ToldChange {
    fn from(HeldChange { change, keyspace, operator }: &HeldChange) -> Self {
        let parts = ChangeParts::of(&change.kind);
        let lent = |bytes: Option<&[u8]>| bytes.map_or_else(LentOut::null, LentOut::bytes);
        let len = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        let since = parts.expires.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self {
            seq: change.seq,
            kind: parts.kind,
            keyspace: LentOut::bytes(keyspace.as_bytes()),
            key: lent(parts.key),
            key_len: len(parts.key),
            to: lent(parts.to),
            to_len: len(parts.to),
            value: lent(parts.value),
            value_len: parts.value.map_or(parts.value_len, <[u8]>::len),
            operator: lent(operator.as_deref().map(str::as_bytes)),
            expires_millis: since.map_or(0, |since| since.as_millis() as u64),
        }
    }
}

export! {
    fn cleavedb_changes_open(db: Handle<HeldDb>, from: u64, durable_only: c_int; error: ErrorOut)
        -> Handle<HeldChanges> {
        let changes = with(&db, |db| db.changes(from))?;
        let changes = if durable_only == 0 { changes } else { changes.durable_only() };
        Ok(Handle::new(HeldChanges { changes, batch: Vec::new() }))
    }

    fn cleavedb_changes_next(changes: Handle<HeldChanges>, wait_millis: u64; error: ErrorOut)
        -> c_int {
        let held = needed(changes.get_mut(), "cleavedb_changes")?;
        held.batch.clear();
        if wait_millis > 0 {
            held.changes.wait(Duration::from_millis(wait_millis));
        }
        let next = held.changes.next().transpose()?;
        held.batch.extend(next.into_iter().flat_map(|it| it.changes).map(HeldChange::from));
        Ok(c_int::from(!held.batch.is_empty()))
    }

    fn cleavedb_changes_at(changes: Handle<HeldChanges>, at: usize, change: OutPlace<ToldChange>)
        -> c_int {
        let told = changes.get().and_then(|it| it.batch.get(at)).map(ToldChange::from);
        told.map_or(0, |told| {
            change.set(told);
            1
        })
    }

    fn cleavedb_changes_next_seq(changes: Handle<HeldChanges>) -> u64 {
        changes.get().map_or(0, |it| it.changes.next_seq())
    }

    fn cleavedb_changes_free(changes: Handle<HeldChanges>) {
        drop(changes.take());
    }
}
