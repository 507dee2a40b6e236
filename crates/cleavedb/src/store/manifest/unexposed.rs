//! Upper bound of the unexposed garbage, from the counts in the index's tables.

use cleavedb_index::Version;

/// Most bytes of records that can be hidden: each entry above the deepest level, a tombstone too,
/// may hide one record of average length.
pub(super) fn hidden_max(version: &Version) -> u64 {
    let deepest = version.tables().map(|(level, _)| level).max().unwrap_or_default();
    let (mut owned, mut values, mut above) = (0, 0, 0);
    for (level, table) in version.tables() {
        let meta = table.meta();
        owned += meta.pointer_bytes;
        values += meta.entries - meta.deletes;
        if level < deepest || deepest == 0 {
            above += meta.entries;
        }
    }
    above.saturating_mul(owned) / values.max(1)
}
