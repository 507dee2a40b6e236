//! Ranks in a view: how many members of a sorted set lie in front of a name, and where the walk to
//! a rank begins.

use std::ops::{Bound, ControlFlow};

use super::View;
use super::elements::ElementRange;
use crate::exec::Answer;
use crate::exec::ranks::{BLOCK_MAX, RankBlocks, RankSpot, Ranks};
use crate::exec::reads::{KeyPlace, KeyWalk};
use crate::model::element::{self, NameRange, PREFIX_LEN, SCORES};
use crate::model::record::Collection;

impl View<'_> {
    /// Counts a member that was added under a name among the scores, or removed.
    pub fn count_name(&mut self, id: u64, name: &[u8], change: i64) {
        *self.effects.ranked.entry(element::key(id, SCORES, name)).or_default() += change;
    }

    /// Number of members whose names among the scores are from one to below another.
    pub fn members_between(&self, zset: &Collection, from: &[u8], to: &[u8]) -> Answer<u64> {
        if zset.len <= BLOCK_MAX {
            let range = (Bound::Included(from), Bound::Excluded(to));
            return self.members_of(zset, range);
        }
        let below = self.members_below(zset, from)?;
        self.members_below(zset, to).map(|to| to.saturating_sub(below))
    }

    fn members_of(&self, zset: &Collection, range: NameRange<'_>) -> Answer<u64> {
        let within = ElementRange { part: SCORES, range, is_reversed: false, with_values: false };
        let mut count = 0;
        self.elements(zset.id, within, &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// Number of members whose names among the scores are below one.
    pub fn members_below(&self, zset: &Collection, name: &[u8]) -> Answer<u64> {
        let spot = self.spot(zset, &|blocks| blocks.of_name(name))?;
        let (from, before) = spot.map(|spot| (spot.from, spot.before)).unwrap_or_default();
        let rest = self.members_of(zset, (Bound::Included(&from[..]), Bound::Excluded(name)))?;
        Ok(before + rest)
    }

    /// Where a walk begins that leaves out `skipped` members, and how many of them it meets.
    pub fn rank_bound(
        &self,
        zset: &Collection,
        skipped: u64,
        is_reversed: bool,
    ) -> Answer<(Bound<Vec<u8>>, u64)> {
        let Some(most) = zset.len.checked_sub(1).filter(|most| skipped.min(*most) > BLOCK_MAX)
        else {
            return Ok((Bound::Unbounded, skipped));
        };
        let rank = if is_reversed { most.saturating_sub(skipped) } else { skipped };
        let spot = self.spot(zset, &|blocks| blocks.of_rank(rank))?;
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
        zset: &Collection,
        find: &dyn Fn(&RankBlocks) -> RankSpot,
    ) -> Answer<Option<RankSpot>> {
        if zset.len <= BLOCK_MAX {
            return Ok(None);
        }
        let Some(ranks) = self.reads.ranks()? else { return Ok(None) };
        let id = zset.id;
        let Some(found) = self.counted(ranks, zset, find)? else { return Ok(None) };
        if found.count <= BLOCK_MAX {
            return Ok(Some(found));
        }
        if self.effects.ranked_of(id).next().is_some() {
            return Ok(Some(found));
        }
        let to = found.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        ranks.cut(id, &found.from, self.stored_blocks(id, Bound::Included(&found.from), to)?);
        self.counted(ranks, zset, find)
    }

    /// What `find` finds in the blocks of what is stored, with what was changed.
    fn counted(
        &self,
        ranks: &Ranks,
        zset: &Collection,
        find: &dyn Fn(&RankBlocks) -> RankSpot,
    ) -> Answer<Option<RankSpot>> {
        let id = zset.id;
        if ranks.ask(id, |_| ()).is_none() {
            ranks.keep(id, self.stored_blocks(id, Bound::Unbounded, Bound::Unbounded)?);
        }
        let mut changes = self.effects.ranked_of(id).peekable();
        let found = ranks.ask(id, |blocks| {
            if changes.peek().is_none() {
                return (blocks.members() == zset.len).then(|| find(blocks));
            }
            let mut blocks = blocks.clone();
            let are_right = changes.all(|(_, name, change)| blocks.count(name, change));
            (are_right && blocks.members() == zset.len).then(|| find(&blocks))
        });
        if matches!(found, Some(None)) {
            ranks.forget(std::iter::once(id));
        }
        Ok(found.flatten())
    }

    /// The blocks of the members between two names as they are stored.
    fn stored_blocks(&self, id: u64, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Answer<RankBlocks> {
        let (from, to) = element::bounds(id, SCORES, (from, to));
        let range = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
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
