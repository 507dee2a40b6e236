//! Packing: merges small neighbouring tables into one.
//!
//! Each short run of a program, and each flush of a slow writer, leaves a table. Where keys come in
//! order such tables move down without being rewritten, and each would stay for ever. When no other
//! compaction is due, small neighbours of a level are merged into one table of it.
//!
//! Why it ends: of each merged group at most one small table remains, since a table that ends with
//! keys left is not small by the same measure. Each time a byte is rewritten, its table becomes
//! several times as long.

use std::sync::Arc;

use super::futile;
use super::level0;
use super::picker::{Picker, bytes_of};

use super::types::{Compaction, CompactionInput, key_range};

use crate::edit::LEVEL_MAX;

use crate::table_handle::TableHandle;

/// Number of neighbours that are merged, and the divisor of a table's size below which one is
/// small: they fit one table.
const PACKED: usize = 8;

/// Merges small neighbours of a level.
pub(super) fn pack(picker: &Picker<'_>) -> Option<Compaction> {
    if !level0::policy(picker.options.level0).packs() {
        return None;
    }
    (1..=LEVEL_MAX).find_map(|level| pack_level(picker, level))
}

fn pack_level(picker: &Picker<'_>, level: u8) -> Option<Compaction> {
    let small = picker.options.table_end() / PACKED as u64;
    let mut neighbours = picker.version.level(level).tables().windows(PACKED);
    let tables = neighbours.find(|tables| {
        tables.iter().all(|table| table.meta().size < small)
            && !tables.iter().all(|table| futile::is_merged(table))
            && may_pack(picker, level, tables)
    })?;
    let input = CompactionInput { level, position: None, tables: tables.to_vec() };
    Some(Compaction::new(vec![input], level, None, false))
}

/// Whether `tables` of `level`, which are neighbours, are free, and overlap few enough bytes of the
/// next level: otherwise their merged table would be cut.
fn may_pack(picker: &Picker<'_>, level: u8, tables: &[Arc<TableHandle>]) -> bool {
    let Some((smallest, largest)) = key_range(tables.iter().map(|table| table.meta())) else {
        return false;
    };
    let over = match level {
        LEVEL_MAX => 0,
        _ => bytes_of(picker.version.level(level + 1).overlapping(smallest, largest)),
    };
    over <= picker.options.overlap_bytes_max()
        && !tables.iter().any(|table| picker.constraints.is_busy(table))
        && !picker.constraints.is_written(level, smallest, largest)
}

#[cfg(test)]
mod tests {
    use crate::compaction::leveled::pick;
    use crate::compaction::{CompactionOptions, Constraints};
    use crate::edit::{AddedTable, VersionEdit};
    use crate::testing::{Item, World};
    use crate::version::Version;

    /// A level of tables with one key each.
    fn tables(world: &World, level: u8, count: u64) -> Version {
        let item = |i: u64| Item::inline(&format!("{i:04}"), i + 1, "value");
        let table = |i| AddedTable { level, position: None, meta: world.table(&[item(i)]) };
        let edit = VersionEdit { added: (0..count).map(table).collect(), removed: Vec::new() };
        Version::empty(world.store.clone()).apply(&edit).unwrap()
    }

    #[test]
    fn small_neighbours_become_one_when_nothing_else_is_due() {
        let (world, none) = (World::new(), Constraints::default());
        let options = CompactionOptions::default();
        for level in [1, 3, 6] {
            assert!(pick(&tables(&world, level, 7), &options, &none).is_none());
            let version = tables(&world, level, 9);
            let compaction = pick(&version, &options, &none).unwrap();
            assert_eq!((compaction.level, compaction.moves), (level, false));
            assert_eq!(compaction.tables().count(), 8);
            let mut constraints = Constraints::default();
            constraints.start(&compaction);
            assert!(pick(&version, &options, &constraints).is_none(), "it runs already");
        }
    }

    #[test]
    fn what_is_long_enough_stays() {
        let (world, none) = (World::new(), Constraints::default());
        let version = tables(&world, 2, 9);
        let len = version.level(2).tables()[0].meta().size;
        let of = |table_bytes| CompactionOptions { table_bytes, ..CompactionOptions::default() };
        assert!(pick(&version, &of(8 * len), &none).is_none());
        assert!(pick(&version, &of(8 * len + 8), &none).is_some());
    }

    #[cfg(feature = "experiments")]
    #[test]
    fn hyperleveldb_packs_nothing() {
        use crate::compaction::Level0;

        let (world, none) = (World::new(), Constraints::default());
        let version = tables(&world, 2, 9);
        let table_bytes = 8 * version.level(2).tables()[0].meta().size + 8;
        let level0 = Level0::HyperLevelDb;
        let options = CompactionOptions { table_bytes, level0, ..CompactionOptions::default() };
        assert!(pick(&version, &options, &none).is_none());
    }
}
