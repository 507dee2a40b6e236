//! VersionEdit: the change from one version to the next, as the manifest records it.
//!
//! Encoding (`docs/format.md`, "Version edit"): a version byte, then two counted lists.
//!
//! ```text
//! edit     version u8 · count varint · removed* · count varint · added*
//! removed  table number varint
//! added    level u8 · [epoch varint · order varint, if level is 0] · number varint · size varint
//!          · properties (as in the table)
//! ```

use cleavedb_base::codec::{Cursor, put_varint};
use cleavedb_base::{Error, FileNumber, Result};

use crate::table_format::TableMeta;

/// Version of the encoding.
const VERSION: u8 = 1;

/// Deepest level.
pub const LEVEL_MAX: u8 = 6;

/// Position of a run in level 0; the youngest run has the greatest position.
///
/// The epoch counts flushes. A write-back run takes the epoch at which its collection fixed its
/// inputs, with a greater `order` than every run of that epoch: above its inputs, below later runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunPosition {
    /// Flush epoch.
    pub epoch: u64,
    /// Order among the runs of one epoch.
    pub order: u32,
}

/// A table that an edit adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedTable {
    /// 0 through [`LEVEL_MAX`].
    pub level: u8,
    /// Which run of level 0 it belongs to; none on deeper levels.
    pub position: Option<RunPosition>,
    /// The table.
    pub meta: TableMeta,
}

/// Changes from one version to the next. A table that is both removed and added moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// Tables to add.
    pub added: Vec<AddedTable>,
    /// Tables to remove.
    pub removed: Vec<FileNumber>,
}

impl VersionEdit {
    /// Whether the edit changes nothing.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// Adds one run to level 0.
    pub fn add_run(&mut self, position: RunPosition, tables: impl IntoIterator<Item = TableMeta>) {
        let position = Some(position);
        self.added.extend(tables.into_iter().map(|meta| AddedTable { level: 0, position, meta }));
    }

    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put_varint(out, self.removed.len() as u64);
        for number in &self.removed {
            put_varint(out, number.0);
        }
        put_varint(out, self.added.len() as u64);
        for AddedTable { level, position, meta } in &self.added {
            out.push(*level);
            if let Some(position) = position {
                put_varint(out, position.epoch);
                put_varint(out, u64::from(position.order));
            }
            put_varint(out, meta.number.0);
            put_varint(out, meta.size);
            meta.encode_properties(out);
        }
    }

    /// Reads an edit off the front of `cursor`.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let version = cursor.u8()?;
        if version != VERSION {
            let error = Error::corruption("version edit has an unknown version");
            return Err(error.with("version", version));
        }
        let mut edit = Self::default();
        // Memory is not allocated by these counts: each element takes bytes, which run out first.
        for _ in 0..cursor.varint()? {
            edit.removed.push(FileNumber(cursor.varint()?));
        }
        for _ in 0..cursor.varint()? {
            edit.added.push(Self::decode_added(cursor)?);
        }
        Ok(edit)
    }

    fn decode_added(cursor: &mut Cursor<'_>) -> Result<AddedTable> {
        let level = cursor.u8()?;
        if level > LEVEL_MAX {
            let error = Error::corruption("version edit names a level that does not exist");
            return Err(error.with("level", level));
        }
        let position = match level {
            0 => Some(RunPosition { epoch: cursor.varint()?, order: cursor.varint_u32()? }),
            _ => None,
        };
        let number = FileNumber(cursor.varint()?);
        let size = cursor.varint()?;
        let meta = TableMeta::decode_properties(number, size, cursor)?;
        Ok(AddedTable { level, position, meta })
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_base::Expiry;

    use super::*;

    fn meta(number: u64) -> TableMeta {
        TableMeta {
            number: FileNumber(number),
            size: 1 << 40,
            smallest: (*b"aaa").into(),
            largest: (*b"zzz").into(),
            entries: 100,
            deletes: 3,
            shadowed: 9,
            min_seq: 4,
            max_seq: 999,
            raw_bytes: 12_345,
            pointer_bytes: 1 << 35,
            uncovered_upto: 700,
            first_expiry: Expiry::at(1_800_000_000_000),
            half_expired: Expiry::NEVER,
        }
    }

    #[test]
    fn edits_round_trip_and_every_truncation_is_refused() {
        let mut edit = VersionEdit { removed: vec![FileNumber(5), FileNumber(6)], added: vec![] };
        edit.add_run(RunPosition { epoch: 300, order: 2 }, [meta(7), meta(8)]);
        edit.added.push(AddedTable { level: 6, position: None, meta: meta(9) });
        let mut bytes = Vec::new();
        edit.encode(&mut bytes);
        let mut cursor = Cursor::new(&bytes, "edit");
        assert_eq!(VersionEdit::decode(&mut cursor).unwrap(), edit);
        cursor.end().unwrap();
        for len in 0..bytes.len() {
            assert!(VersionEdit::decode(&mut Cursor::new(&bytes[..len], "edit")).is_err());
        }
        for i in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[i] ^= 0xff;
            // The record of an edit has the checksum; here decoding must only not panic.
            let _ = VersionEdit::decode(&mut Cursor::new(&damaged, "edit"));
        }
    }
}
