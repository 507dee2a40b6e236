//! Liveness by the records of the group (HashKV, section 3.3).

use crate::groups::sums::Sums;
use crate::groups::table::{Group, GroupTable};
use crate::partition::GroupId;

/// Upper bound: all bytes that flushes appended since the last collection, what their group
/// tombstones hide, and survivors that are known to be dead.
pub(super) fn reclaimable(
    table: &GroupTable,
    false_stubs: &dyn Fn(GroupId) -> f64,
) -> Vec<(GroupId, u64)> {
    let of_group = |(id, group): (GroupId, &Group)| {
        let hits = hit_rate(group.flushed.stubs, false_stubs(id));
        (id, of_flushed(&group.flushed, hits).saturating_add(group.survivors.dead()))
    };
    table.groups().map(of_group).collect()
}

/// The share of a group's `stubs` that hide a record, if `false_stubs` of them are expected to hide
/// none. Expected, and not counted by the last collection: deletes of many keys that the group does
/// hold count in full at once, however many stubs were false before.
fn hit_rate(stubs: u64, false_stubs: f64) -> f64 {
    (1.0 - false_stubs / stubs.max(1) as f64).max(0.0)
}

/// Upper bound of the dead bytes of extents that flushes wrote, with this share of group tombstones
/// that hide a record: with this rule only the records of the group tell which values are dead. The
/// padding of extents to whole blocks is reclaimed too.
fn of_flushed(flushed: &Sums, hits: f64) -> u64 {
    let hidden = (hits * flushed.hidden_max as f64) as u64;
    flushed.separated.saturating_add(flushed.padding).saturating_add(hidden)
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;
    use crate::groups::{Extent, GroupEdit, Location};

    /// Deletes of absent keys left group tombstones, each of which took a block and counted for 256
    /// bytes: a store at its space limit found nothing to collect, and refused further deletes.
    #[test]
    fn an_extent_of_one_stub_is_worth_the_block_that_it_takes() {
        let place = Location { file: FileNumber(7), offset: 0 };
        let empty = Extent::empty(GroupId(1), place);
        let tombstone = Extent { records: 1, stubs: 1, records_len: 40, filter_len: 30, ..empty };
        assert_eq!(tombstone.len(), 4096);
        assert!(of_flushed(&Sums::of(&tombstone), 0.0) >= tombstone.len());
        let value = Extent { records: 1, records_len: 900, separated: 900, live: 900, ..tombstone };
        let counted = of_flushed(&Sums::of(&value), 1.0);
        assert!(counted >= value.len(), "newer records may have replaced it");
    }

    #[test]
    fn of_survivors_only_what_died_since_counts() {
        let mut table = GroupTable::default();
        let place = Location { file: FileNumber(7), offset: 0 };
        let empty = Extent::empty(GroupId(1), place);
        let lengths = Extent { records: 9, records_len: 9000, separated: 9000, ..empty };
        let survivors = Extent { survivors: true, live: 8000, ..lengths };
        for edit in [GroupEdit::Begin(GroupId(1), Vec::new(), 0), GroupEdit::Add(survivors)] {
            table.apply(&edit).unwrap();
        }
        assert_eq!(reclaimable(&table, &|_| 0.0), [(GroupId(1), 1000)]);
    }

    /// A stub that a false answer of a filter caused counted as the death of an average value, so
    /// that the groups with most keys that they do not hold were collected first.
    #[test]
    fn stubs_that_are_expected_to_hide_nothing_count_for_nothing() {
        let mut table = GroupTable::default();
        for (group, bound) in [(1, ""), (2, "m")] {
            let place = Location { file: FileNumber(7), offset: group * 40_960 };
            let empty = Extent::empty(GroupId(group), place);
            let (records, stubs) = (40, if group == 1 { 0 } else { 20 });
            let separated = (records - stubs) * 1000;
            let records_len = separated + stubs * 60;
            let extent = Extent { records, stubs, records_len, separated, ..empty };
            let begin = GroupEdit::Begin(GroupId(group), bound.as_bytes().to_vec(), 0);
            table.apply(&begin).and_then(|()| table.apply(&GroupEdit::Add(extent))).unwrap();
        }
        let with = |count: f64| reclaimable(&table, &|_| count);
        let best = |counts: &[(GroupId, u64)]| counts.iter().max_by_key(|it| it.1).unwrap().0;
        assert_eq!((best(&with(20.0)), best(&with(0.0))), (GroupId(1), GroupId(2)));
        assert_eq!(with(10.0)[1].1 - with(20.0)[1].1, 10_000);
        assert_eq!((with(30.0), hit_rate(0, 0.0)), (with(20.0), 1.0));
    }
}
