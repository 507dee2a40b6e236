//! Group tombstones of a bulk load: where groups tell from their own records what is alive, a
//! value that stays in the index makes older records of its key dead, and the group must know.
//!
//! They are written when no commit and no flush can add older records any more. Without a group
//! that has records there is nothing to write.

use std::sync::Arc;

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{Header, RecordKind};
use cleavedb_base::{EntryKind, Result};
use cleavedb_index::table::ReadMode;
use cleavedb_index::{Entry, RunPosition, Version, VersionEdit};

use super::LoadOutput;
use crate::background::jobs::held_keys::HeldKeys;
use crate::background::jobs::separate::loaded;

/// Bytes of group tombstones that are written at once.
const PIECE: usize = 8 << 20;

/// A group tombstone: tree key, kind, stored value.
type Stub = (Vec<u8>, RecordKind, Vec<u8>);

impl LoadOutput {
    /// Writes the group tombstones of those of its `unseparated` entries that need one.
    pub(in crate::writes::bulk_load) fn write_stubs(&mut self, unseparated: u64) -> Result<()> {
        let engine = self.engine.clone();
        let (state, table) = loaded::groups_now(&engine);
        let told = table.told_of_deaths() > 0 && unseparated > 0;
        if !told || planted(Bug::LoadWithoutStubs) {
            return Ok(());
        }
        let mut held = HeldKeys::new(&engine, &state, &table);
        let mut edit = VersionEdit::default();
        edit.add_run(RunPosition::default(), self.tables.tables.iter().cloned());
        let own = Arc::new(Version::empty(engine.tables.clone()).apply(&edit)?);
        let (mut stubs, mut bytes): (Vec<Stub>, _) = (Vec::new(), 0);
        for mut entries in own.iters(None, None, ReadMode::Ahead) {
            entries.seek_first()?;
            while entries.valid() {
                let Entry { key, kind, value, .. } = entries.entry();
                if !kind.is_pointer()
                    && held.may_contain(key)?
                    && let Some(kind) = RecordKind::of_entry(kind)
                {
                    bytes += key.len() + value.len();
                    stubs.push((key.to_vec(), kind, value.to_vec()));
                }
                entries.next()?;
                if bytes >= PIECE {
                    self.write_piece(&stubs)?;
                    stubs.clear();
                    bytes = 0;
                }
            }
        }
        self.write_piece(&stubs)
    }

    fn write_piece(&mut self, stubs: &[Stub]) -> Result<()> {
        let seq = self.seq;
        let records = stubs.iter().map(|(key, kind, value)| {
            let (keyspace, user_key) = loaded::split_tree_key(key)?;
            let header = Header::new(*kind, keyspace, seq, user_key, value);
            let kind = EntryKind::Inline;
            Ok((Entry { key, seq, kind, repeat: false, value }, header))
        });
        let records = records.collect::<Result<Vec<_>>>()?;
        self.write_values(records.into_iter()).map(drop)
    }
}
