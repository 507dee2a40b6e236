//! Which deletes and inline values of a flush need a group tombstone: those of keys of which their
//! group may hold a record.

use std::sync::Arc;

use cleavedb_base::checksum::hash64;
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_values::groups::{ExtentHandle, GroupCursor, GroupFilter};
use cleavedb_values::{GroupId, GroupTable};

use crate::engine::Engine;
use crate::store::state::ReadState;

/// The keys that groups hold, as of a read state and its table of groups.
pub(crate) struct HeldKeys<'a> {
    engine: &'a Engine,
    state: &'a ReadState,
    table: &'a GroupTable,
    cursor: GroupCursor<'a>,
    /// By ordinal, once a key of the group was asked for.
    groups: Vec<Option<OfGroup>>,
}

/// What a group is asked.
struct OfGroup {
    id: GroupId,
    filter: Arc<GroupFilter>,
    /// Extents that the filter does not cover.
    uncovered: Vec<Arc<ExtentHandle>>,
    /// Keys that it does not hold.
    denied: u64,
}

impl<'a> HeldKeys<'a> {
    /// For the groups of `table`, whose extents are open in `state`.
    pub(crate) fn new(engine: &'a Engine, state: &'a ReadState, table: &'a GroupTable) -> Self {
        let cursor = GroupCursor::new(table);
        let mut groups = Vec::new();
        groups.resize_with(cursor.count(), || None);
        Self { engine, state, table, cursor, groups }
    }

    /// Whether the group of a key may have a record of it; `false` is certain.
    pub(crate) fn may_contain(&mut self, key: &[u8]) -> Result<bool> {
        let ordinal = self.cursor.ordinal(key).ok_or_else(no_group)? as usize;
        let of_group = match &mut self.groups[ordinal] {
            Some(known) => known,
            none => {
                let id = self.cursor.group(ordinal as u32);
                none.insert(OfGroup::new(self.engine, self.state, self.table, id)?)
            }
        };
        of_group.may_contain(hash64(key, 0))
    }

    /// For each group, how many of its group tombstones were probably caused by false answers.
    pub(super) fn false_stubs(&self) -> Vec<(GroupId, f64)> {
        let of = |group: &OfGroup| {
            (group.id, group.filter.false_answers(group.denied, group.uncovered.len()))
        };
        self.groups.iter().flatten().map(of).collect()
    }
}

impl OfGroup {
    fn new(engine: &Engine, state: &ReadState, table: &GroupTable, id: GroupId) -> Result<Self> {
        let filter = engine.group_filters.lock().of(id);
        let uncovered = table.extents_of(id).map(|extent| extent.place);
        let uncovered = uncovered.filter(|place| !filter.covers(*place));
        let open = |place| state.segments.extent(place).cloned();
        let uncovered = uncovered.map(open).collect::<Result<_>>()?;
        Ok(Self { id, filter, uncovered, denied: 0 })
    }

    fn may_contain(&mut self, hash: u64) -> Result<bool> {
        if self.filter.may_contain(hash) {
            return Ok(true);
        }
        for extent in &self.uncovered {
            match extent.may_contain(hash) {
                Ok(false) => {}
                // A filter that is damaged gives no answer, so the key may be there: at worst the
                // group tombstone is superfluous.
                Err(error) if error.kind() != ErrorKind::Corruption => return Err(error),
                _ => return Ok(true),
            }
        }
        self.denied += 1;
        Ok(false)
    }
}

/// The error of a key that no group covers.
pub(super) fn no_group() -> Error {
    Error::corruption("no group covers a key")
}
