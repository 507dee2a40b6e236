//! About how much a range of keys holds: from the facts of tables, the index blocks at the ends of
//! the range, and a sample of each MemTable. No value is read.
//!
//! What makes it wrong: versions that were overwritten count until a compaction drops them; a
//! delete counts against one version, whatever it hides; between the ends of a range entries and
//! values count as if all of a table's were alike; of hot values (`hoakv`) a range has the part
//! that it has of all entries; of a MemTable only some hash buckets are looked at.

use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::{EntryKind, Result, ValuePointer};
use cleavedb_index::IndexSize;

use crate::engine::Engine;
use crate::operations::bounds::Bounds;
use crate::store::state::ReadState;

/// Entries of a MemTable that are looked at, about: a tenth of a millisecond.
const SAMPLED: usize = 4096;

/// About what a range of keys holds: see [`crate::Keyspace::approximate_size`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeSize {
    /// Keys.
    pub entries: u64,
    /// Bytes of keys, short values and pointers: in tables as they are stored, compressed if they
    /// are, and in memory.
    pub index_bytes: u64,
    /// Bytes of the records of values outside the index, their keys and headers included.
    pub value_bytes: u64,
}

/// About what the range `bounds` holds, as of now.
pub(crate) fn approximate_size(engine: &Engine, bounds: &Bounds) -> Result<RangeSize> {
    let (lower, upper) = (&bounds.lower[..], &bounds.upper[..]);
    if lower >= upper {
        return Ok(RangeSize::default());
    }
    let state = engine.state.load_full();
    let deleted = state.deleted.fragments(SEQ_MAX);
    let in_tables = state.version.size_within(lower, upper, &deleted)?;
    let in_memory = in_memtables(&state, lower, upper);
    let mut sum = in_tables;
    sum += in_memory;
    // Each tombstone hides a version that counts as well.
    let entries = sum.entries.saturating_sub(2 * sum.deletes);
    let in_files = if entries == 0 { 0 } else { in_value_files(engine, &state, in_tables) };
    let value_bytes = if entries == 0 { 0 } else { in_files + in_memory.pointer_bytes };
    let index_bytes = if entries == 0 { 0 } else { sum.bytes };
    Ok(RangeSize { entries, index_bytes, value_bytes })
}

/// What MemTables hold of the keys from `lower` to `upper`, excluded.
fn in_memtables(state: &ReadState, lower: &[u8], upper: &[u8]) -> IndexSize {
    let mut sum = IndexSize::default();
    for slot in &state.memtables {
        let mut seen = IndexSize::default();
        let each = slot.table.sample(SAMPLED, |entry| {
            let is_inside = lower <= entry.key && entry.key < upper;
            if !is_inside || state.deleted.covers(entry.key, entry.seq, SEQ_MAX) {
                return;
            }
            seen.entries += 1;
            seen.deletes += u64::from(entry.kind == EntryKind::Delete);
            seen.bytes += (entry.key.len() + entry.value.len()) as u64;
            if entry.kind.is_pointer()
                && let Ok(pointer) = ValuePointer::of_entry(entry.kind, entry.value)
            {
                seen.pointer_bytes += u64::from(pointer.value.len);
            }
        });
        let IndexSize { entries, deletes, bytes, pointer_bytes } = seen;
        sum += IndexSize {
            entries: entries * each,
            deletes: deletes * each,
            bytes: bytes * each,
            pointer_bytes: pointer_bytes * each,
        };
    }
    sum
}

/// Bytes of values outside the index of which tables hold `part`. Pointers of all tables own more
/// than there is if collections have moved records, so they count for their part of it.
fn in_value_files(engine: &Engine, state: &ReadState, part: IndexSize) -> u64 {
    let (owned, apart) = {
        let manifest = engine.manifest.lock();
        let apart = manifest.live().groups.extents_apart().map(|extent| extent.live).sum();
        (manifest.live().owned().saturating_sub(apart), apart)
    };
    let tables = state.version.tables().map(|(_, table)| table.meta());
    let (pointers, entries) = tables.fold((0, 0), |(pointers, entries), meta| {
        (pointers + meta.pointer_bytes, entries + meta.entries)
    });
    let share = |of: u64, part: u64, all: u64| {
        (u128::from(of) * u128::from(part) / u128::from(all.max(1))) as u64
    };
    let in_place = share(owned.min(pointers), part.pointer_bytes, pointers);
    in_place + share(apart, part.entries, entries)
}
