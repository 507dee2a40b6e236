//! Ranks in a view: how many members of a collection lie in front of a name, and where the walk to
//! a rank begins.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};

use super::View;
use super::elements::ElementRange;
use crate::exec::Answer;
use crate::exec::ranks::{BLOCK_MAX, RankBlocks, RankSpot, Ranks};
use crate::exec::reads::{KeyPlace, KeyWalk};
use crate::model::element::{self, MEMBERS, NameRange, PREFIX_LEN};
use crate::model::record::Collection;

impl<'a> View<'a> {
    /// Adds an element that was not there to a collection of names.
    pub fn add_member(
        &mut self,
        to: &mut Collection,
        name: &[u8],
        value: impl Into<Cow<'a, [u8]>>,
    ) {
        self.put_element(to.id, MEMBERS, name, value);
        self.count_name(to, name, 1);
        to.len += 1;
    }

    /// Removes an element that is there from a collection of names.
    pub fn remove_member(&mut self, from: &mut Collection, name: &[u8]) {
        self.delete_element(from.id, MEMBERS, name);
        self.count_name(from, name, -1);
        from.len = from.len.saturating_sub(1);
    }

    /// Counts an element that was added under a name that has its order, or removed.
    pub fn count_name(&mut self, of: &Collection, name: &[u8], change: i64) {
        if self.reads.has_ranks(of.id) {
            let key = element::key(of.id, of.kind.ordered(), name);
            *self.effects.ranked.entry(key).or_default() += change;
        }
    }

    /// The name of a rank.
    pub fn name_at(&self, of: &Collection, rank: u64) -> Answer<Option<Vec<u8>>> {
        let (from, mut skipped) = self.rank_bound(of, rank, false)?;
        let (from, mut found) = (from.as_ref().map(Vec::as_slice), None);
        let range = (from, Bound::Unbounded);
        let within =
            ElementRange { part: of.kind.ordered(), range, is_reversed: false, with_values: false };
        self.elements(of.id, within, &mut |name, _| {
            if skipped > 0 {
                skipped -= 1;
                return ControlFlow::Continue(());
            }
            found = Some(name.to_vec());
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Number of members whose names are from one to below another.
    pub fn members_between(&self, of: &Collection, from: &[u8], to: &[u8]) -> Answer<u64> {
        if of.len <= BLOCK_MAX {
            let range = (Bound::Included(from), Bound::Excluded(to));
            return self.members_of(of, range);
        }
        let below = self.members_below(of, from)?;
        self.members_below(of, to).map(|to| to.saturating_sub(below))
    }

    fn members_of(&self, of: &Collection, range: NameRange<'_>) -> Answer<u64> {
        let within =
            ElementRange { part: of.kind.ordered(), range, is_reversed: false, with_values: false };
        let mut count = 0;
        self.elements(of.id, within, &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// Number of members whose names are below one.
    pub fn members_below(&self, of: &Collection, name: &[u8]) -> Answer<u64> {
        let spot = self.spot(of, &|blocks| blocks.of_name(name))?;
        let (from, before) = spot.map(|spot| (spot.from, spot.before)).unwrap_or_default();
        let rest = self.members_of(of, (Bound::Included(&from[..]), Bound::Excluded(name)))?;
        Ok(before + rest)
    }

    /// Where a walk begins that leaves out `skipped` members, and how many of them it meets.
    pub fn rank_bound(
        &self,
        of: &Collection,
        skipped: u64,
        is_reversed: bool,
    ) -> Answer<(Bound<Vec<u8>>, u64)> {
        let Some(most) = of.len.checked_sub(1).filter(|most| skipped.min(*most) > BLOCK_MAX) else {
            return Ok((Bound::Unbounded, skipped));
        };
        let rank = if is_reversed { most.saturating_sub(skipped) } else { skipped };
        let spot = self.spot(of, &|blocks| blocks.of_rank(rank))?;
        Ok(match spot {
            None => (Bound::Unbounded, skipped),
            Some(spot) if is_reversed => {
                let left = (spot.before + spot.count).saturating_sub(rank + 1);
                (spot.to.map_or(Bound::Unbounded, Bound::Excluded), left)
            }
            Some(spot) => (Bound::Included(spot.from), rank.saturating_sub(spot.before)),
        })
    }

    /// The block that `find` finds; none where a walk over all members does.
    fn spot(
        &self,
        of: &Collection,
        find: &dyn Fn(&RankBlocks) -> RankSpot,
    ) -> Answer<Option<RankSpot>> {
        if of.len <= BLOCK_MAX {
            return Ok(None);
        }
        let Some(ranks) = self.reads.ranks()? else { return Ok(None) };
        let id = of.id;
        let Some(found) = self.counted(ranks, of, find)? else { return Ok(None) };
        if found.count <= BLOCK_MAX {
            return Ok(Some(found));
        }
        if self.effects.ranked_of(id).next().is_some() {
            return Ok(Some(found));
        }
        let to = found.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        ranks.cut(id, &found.from, self.stored_blocks(of, Bound::Included(&found.from), to)?);
        self.counted(ranks, of, find)
    }

    /// What `find` finds in the blocks of what is stored, with what was changed.
    fn counted(
        &self,
        ranks: &Ranks,
        of: &Collection,
        find: &dyn Fn(&RankBlocks) -> RankSpot,
    ) -> Answer<Option<RankSpot>> {
        let id = of.id;
        if ranks.ask(id, |_| ()).is_none() {
            ranks.keep(id, self.stored_blocks(of, Bound::Unbounded, Bound::Unbounded)?);
        }
        let mut changes = self.effects.ranked_of(id).peekable();
        let found = ranks.ask(id, |blocks| {
            if changes.peek().is_none() {
                return (blocks.members() == of.len).then(|| find(blocks));
            }
            let mut blocks = blocks.clone();
            let are_right = changes.all(|(_, name, change)| blocks.count(name, change));
            (are_right && blocks.members() == of.len).then(|| find(&blocks))
        });
        if matches!(found, Some(None)) {
            ranks.forget(std::iter::once(id));
        }
        Ok(found.flatten())
    }

    /// The blocks of the members between two names as they are stored.
    fn stored_blocks(
        &self,
        of: &Collection,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Answer<RankBlocks> {
        let range = element::bounds(of.id, of.kind.ordered(), (from, to));
        let range = element::slices(&range);
        let mut blocks = RankBlocks::default();
        let walk =
            KeyWalk { space: KeyPlace::Elements, range, is_reversed: false, with_values: false };
        self.reads.walk(walk, &mut |key, _| {
            blocks.push(&key[PREFIX_LEN..]);
            ControlFlow::Continue(())
        })?;
        Ok(blocks)
    }
}
