//! MergeIter: many sorted sources read as one.
//!
//! Sources are given youngest first. Where two hold the same (key, sequence number), the younger
//! one's entry comes first (in backward walks: last), so that a reader of a key's entries in order
//! sees the valid one before those that it replaces.
//!
//! The smallest of k entries is kept by a tournament (a *loser tree*): inner node n stores the
//! loser of its round, so a step costs one comparison per round, log2 k in all, and none for one
//! source. A source that waits in front of its next table takes part with that table's first key,
//! and arrives only when it wins: most scans end before.

use std::cmp::Ordering;

use bytes::Bytes;
use cleavedb_base::{Error, Result, SeqNo};

use crate::entry::{Entry, EntryIter};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Merges sources; see the module.
pub struct MergeIter {
    sources: Vec<Box<dyn EntryIter>>,
    /// The source of the current entry.
    winner: usize,
    /// Losers of the inner nodes 1..k; the children of node n are 2n and 2n + 1, leaves follow.
    losers: Vec<usize>,
    direction: Direction,
    error: Option<Error>,
}

impl MergeIter {
    /// A merge of `sources`, youngest first; not valid until it is positioned.
    pub fn new(sources: Vec<Box<dyn EntryIter>>) -> Self {
        let losers = vec![0; sources.len()];
        Self { sources, winner: 0, losers, direction: Direction::Forward, error: None }
    }

    /// The error that stopped the walk, if one did.
    pub fn status(&self) -> Result<()> {
        self.error.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Index of the source that the current entry comes from; 0 is the youngest.
    pub fn source(&self) -> usize {
        self.winner
    }

    /// Whether source `a` comes before source `b` in the direction of the walk.
    #[inline]
    fn beats(&self, a: usize, b: usize) -> bool {
        let Some(x) = self.sources[a].peek() else { return false };
        let Some(y) = self.sources[b].peek() else { return true };
        match (x.order(y.key, y.seq), self.direction) {
            (Ordering::Less, direction) => direction == Direction::Forward,
            (Ordering::Greater, direction) => direction == Direction::Backward,
            (Ordering::Equal, Direction::Forward) => a < b,
            (Ordering::Equal, Direction::Backward) => a > b,
        }
    }

    /// Plays all rounds again.
    fn rebuild(&mut self, direction: Direction) {
        self.direction = direction;
        let count = self.sources.len();
        let mut winners: Vec<usize> = (0..2 * count).map(|n| n.saturating_sub(count)).collect();
        for node in (1..count).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            let first = self.beats(a, b);
            winners[node] = if first { a } else { b };
            self.losers[node] = if first { b } else { a };
        }
        self.winner = if count > 1 { winners[1] } else { 0 };
    }

    /// Replays the rounds of the winner, after it moved.
    #[inline]
    fn replay(&mut self) {
        let mut winner = self.winner;
        let mut node = (winner + self.sources.len()) / 2;
        while node > 0 {
            let loser = self.losers[node];
            if self.beats(loser, winner) {
                self.losers[node] = winner;
                winner = loser;
            }
            node /= 2;
        }
        self.winner = winner;
    }

    /// Lets waiting winners arrive, until one wins that does not wait. Most sources never have to.
    fn let_winner_arrive(&mut self) -> Result<()> {
        while self.sources.get(self.winner).is_some_and(|source| source.waits()) {
            if let Err(error) = self.sources[self.winner].arrive() {
                return Err(self.fail(error));
            }
            self.replay();
        }
        Ok(())
    }

    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        self.error = Some(error.clone());
        error
    }

    /// Moves every source and plays all rounds.
    fn position(
        &mut self,
        direction: Direction,
        mut movement: impl FnMut(usize, &mut dyn EntryIter) -> Result<()>,
    ) -> Result<()> {
        self.status()?;
        for (i, source) in self.sources.iter_mut().enumerate() {
            if let Err(error) = movement(i, &mut **source) {
                return Err(self.fail(error));
            }
        }
        self.rebuild(direction);
        self.let_winner_arrive()
    }

    /// Turns round on the current entry: every source moves to its neighbour of that entry in the
    /// new direction. Of equal entries, those of younger sources come before it, others behind it.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let (winner, entry) = (self.winner, self.entry());
        let (key, seq) = (entry.key.to_vec(), entry.seq);
        self.position(direction, |i, source| {
            if i == winner {
                return match direction {
                    Direction::Forward => source.next(),
                    Direction::Backward => source.prev(),
                };
            }
            if i > winner && direction == Direction::Backward {
                return source.seek_before(&key, seq);
            }
            source.seek(&key, seq)?;
            if i > winner {
                return Ok(());
            }
            let equal = source.valid() && source.entry().order(&key, seq).is_eq();
            match direction {
                Direction::Forward if equal => source.next(),
                Direction::Backward if !equal => source.seek_before(&key, seq),
                Direction::Forward | Direction::Backward => Ok(()),
            }
        })
    }
}

impl EntryIter for MergeIter {
    #[inline]
    fn valid(&self) -> bool {
        self.error.is_none() && self.sources.get(self.winner).is_some_and(|source| source.valid())
    }

    #[inline]
    fn entry(&self) -> Entry<'_> {
        self.sources[self.winner].entry()
    }

    #[inline]
    fn peek(&self) -> Option<Entry<'_>> {
        match self.error {
            None => self.sources.get(self.winner)?.peek(),
            Some(_) => None,
        }
    }

    fn keep_value(&self) -> Bytes {
        self.sources[self.winner].keep_value()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.position(Direction::Forward, |_, source| source.seek_first())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.position(Direction::Backward, |_, source| source.seek_last())
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.expect_seek(key, seq);
        self.position(Direction::Forward, |_, source| source.seek(key, seq))
    }

    fn expect_seek(&mut self, key: &[u8], seq: SeqNo) {
        if self.sources.len() > 1 {
            self.sources.iter_mut().for_each(|source| source.expect_seek(key, seq));
        }
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.expect_seek(key, seq);
        self.position(Direction::Backward, |_, source| source.seek_before(key, seq))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.status()?;
        if self.direction == Direction::Backward {
            return self.turn(Direction::Forward);
        }
        if let Err(error) = self.sources[self.winner].next() {
            return Err(self.fail(error));
        }
        let before = self.winner;
        self.replay();
        if self.winner == before { Ok(()) } else { self.let_winner_arrive() }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.status()?;
        if self.direction == Direction::Forward {
            return self.turn(Direction::Backward);
        }
        if let Err(error) = self.sources[self.winner].prev() {
            return Err(self.fail(error));
        }
        self.replay();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
