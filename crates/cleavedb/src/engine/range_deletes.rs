//! Range deletes as commits write them: records of the system keyspace, which become range
//! tombstones.
//!
//! A delete of a range is one record of its own key, whatever it deletes, so that it is durable,
//! flushed, compacted and recovered as any write is. An open makes range tombstones of all such
//! records ([`crate::open::catalog_load`]); a commit adds the new ones to the read state before it
//! is visible. Once a tombstone is forgotten (`range_tombstones.rs`), the next commit with a range
//! delete removes its record (`docs/format.md`, "System keyspace").

use cleavedb_base::codec::{Cursor, put_bytes, put_varint};
use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::{Error, ErrorKind, Result, SeqNo};
use cleavedb_index::RangeTombstone;

use crate::engine::Engine;
use crate::engine::range_tombstones::{add_range_tombstones, set_forgotten_upto};
use crate::operations::batch::Op;
use crate::operations::catalog::{FORGOTTEN, RANGES};
use crate::operations::encoded_op::EncodedOp;

/// Most records of forgotten tombstones that one commit removes.
const REMOVED_MAX: usize = 64;

/// The range deletes of one commit.
pub(crate) struct RangeDeletes<'e> {
    engine: &'e Engine,
    records: Vec<RangeRecord>,
    /// Records that the commit removes, and their tombstones.
    removed: Vec<([u8; KEY_LEN], u64)>,
    /// The record of what was forgotten.
    forgotten: Vec<u8>,
    done: bool,
}

/// Length of a key with a range delete, in bytes.
const KEY_LEN: usize = 9;

/// One range delete, and its record.
struct RangeRecord {
    key: [u8; KEY_LEN],
    value: Vec<u8>,
    tombstone: RangeTombstone,
    /// Place among the operations of the commit.
    position: SeqNo,
}

fn key_of(id: u64) -> [u8; KEY_LEN] {
    let mut key = [RANGES; KEY_LEN];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

impl<'e> RangeDeletes<'e> {
    /// None yet.
    pub(crate) fn new(engine: &'e Engine) -> Self {
        let (records, removed, forgotten) = (Vec::new(), Vec::new(), Vec::new());
        Self { engine, records, removed, forgotten, done: false }
    }

    /// Adds the delete of the tree keys from `begin` to `end`, excluded, as the operation at this
    /// place of the commit. With `eager` tables are rewritten for it.
    pub(crate) fn add(&mut self, position: usize, begin: &[u8], end: &[u8], eager: bool) {
        let id = self.engine.range_numbers.take();
        let mut value = vec![u8::from(eager)];
        put_bytes(&mut value, begin);
        put_bytes(&mut value, end);
        let (begin, end) = (begin.into(), end.into());
        let tombstone = RangeTombstone { id, begin, end, seq: SEQ_MAX, eager };
        let position = position as SeqNo;
        self.records.push(RangeRecord { key: key_of(id), value, tombstone, position });
    }

    /// Has the commit, if it deletes a range, remove records of forgotten tombstones.
    pub(crate) fn tidy(&mut self) {
        if !self.records.is_empty() {
            self.remove_some();
        }
    }

    /// Has the commit remove records of forgotten tombstones. Returns whether there are any.
    pub(crate) fn remove_some(&mut self) -> bool {
        let mut ids = self.engine.range_numbers.forgotten.lock();
        let rest = ids.len().saturating_sub(REMOVED_MAX);
        self.removed = ids.drain(rest..).map(|id| (key_of(id), id)).collect();
        // Under the lock of the ids: it is not less than any of their numbers.
        put_varint(&mut self.forgotten, self.engine.state.load().deleted.forgotten_upto());
        !self.removed.is_empty()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The operations of the range deletes, in the order of their places.
    pub(crate) fn ops(&self) -> impl Iterator<Item = EncodedOp<'_>> {
        self.records.iter().map(|record| {
            let RangeTombstone { begin, end, .. } = &record.tombstone;
            EncodedOp::of_range(Op::put(&record.key, &record.value), begin, end)
        })
    }

    /// The operations that remove records, at the end of the commit.
    pub(crate) fn removals(&self) -> impl Iterator<Item = EncodedOp<'_>> {
        let removes = self.removed.iter().map(|(key, _)| Op::delete(key));
        let says = Op::put(&[FORGOTTEN], &self.forgotten);
        let says = (!self.removed.is_empty()).then_some(says);
        removes.chain(says).map(|op| EncodedOp::of_system(op, true))
    }

    /// Adds the range tombstones to the read state: the commit has got its numbers, from `first`
    /// on, and is not visible yet.
    pub(crate) fn numbered(&self, first: SeqNo) {
        let of = |record: &RangeRecord| {
            let seq = first + record.position;
            RangeTombstone { seq, ..record.tombstone.clone() }
        };
        add_range_tombstones(self.engine, self.records.iter().map(of).collect());
    }

    /// The commit has succeeded.
    pub(crate) fn done(mut self) {
        self.done = true;
    }
}

impl Drop for RangeDeletes<'_> {
    fn drop(&mut self) {
        if !self.done && !self.removed.is_empty() {
            let ids = self.removed.iter().map(|(_, id)| *id);
            self.engine.range_numbers.forgotten.lock().extend(ids);
        }
    }
}

/// Reads the range tombstone of a record, whose sequence number is `seq`.
pub(crate) fn decode(key: &[u8], value: &[u8], seq: SeqNo) -> Result<RangeTombstone> {
    let id = key.strip_prefix(&[RANGES]).and_then(|id| id.try_into().ok()).map(u64::from_be_bytes);
    let id = id.ok_or_else(|| Error::corruption("a range delete has no number"))?;
    let mut cursor = Cursor::new(value, "range delete");
    let eager = match cursor.u8()? {
        0 => false,
        1 => true,
        kind => {
            let what = "a range delete is of a kind that this release does not know";
            return Err(Error::new(ErrorKind::NewerFormat, what).with("kind", kind));
        }
    };
    let (begin, end) = (cursor.bytes()?.into(), cursor.bytes()?.into());
    cursor.end()?;
    Ok(RangeTombstone { id, begin, end, seq, eager })
}

/// At an open: `value` says up to which sequence number range tombstones were forgotten.
pub(crate) fn found_forgotten(engine: &Engine, value: &[u8]) -> Result<()> {
    let mut cursor = Cursor::new(value, "forgotten range deletes");
    let seq = cursor.varint()?;
    cursor.end()?;
    set_forgotten_upto(engine, seq);
    Ok(())
}

/// At an open: these ranges are deleted.
pub(crate) fn found(engine: &Engine, deleted: Vec<RangeTombstone>) {
    if !deleted.is_empty() {
        deleted.iter().for_each(|it| engine.range_numbers.found(it.id));
        add_range_tombstones(engine, deleted);
    }
}
