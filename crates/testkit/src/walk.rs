//! Walks with a cursor: random searches and steps, each compared with the expected pairs.

use cleavedb::Cursor;
use cleavedb_storage_sim::sim::Rng;

use crate::op::short;
use crate::read::Checked;

/// Most steps in one direction.
const RUN_MAX: usize = 40;

/// Where the cursor must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    On(usize),
    InFront,
    Behind,
}

/// A movement.
#[derive(Debug)]
enum Move {
    Next,
    Prev,
    Seek(Vec<u8>),
    SeekForPrev(Vec<u8>),
    First,
    Last,
}

/// A cursor, and where it must be among the expected pairs.
pub struct Walk {
    cursor: Cursor,
    place: Place,
    rng: Rng,
}

impl Walk {
    /// A walk with a new cursor.
    pub fn new(cursor: Cursor, seed: u64) -> Self {
        Self { cursor, place: Place::Start, rng: Rng::new(seed) }
    }

    /// Moves the cursor: `runs` times a search, or some steps that ask for values or not. The range
    /// has the `expected` pairs.
    pub fn go(&mut self, runs: usize, expected: &[(&[u8], &[u8])]) -> Checked {
        for _ in 0..runs {
            let asks = self.rng.index(3);
            let moves = match self.rng.index(8) {
                0 => vec![Move::First],
                1 => vec![Move::Last],
                2 => vec![Move::Seek(self.key(expected))],
                3 => vec![Move::SeekForPrev(self.key(expected))],
                4 => (0..4).map(|i| if i % 2 == 0 { Move::Next } else { Move::Prev }).collect(),
                5 => (0..self.rng.index(RUN_MAX)).map(|_| Move::Prev).collect(),
                _ => (0..self.rng.index(RUN_MAX)).map(|_| Move::Next).collect(),
            };
            for movement in &moves {
                let asks = asks == 0 || asks == 1 && self.rng.index(3) == 0;
                self.step(movement, asks, expected)
                    .map_err(|failure| format!("cursor, {movement:?}: {failure}"))?;
            }
        }
        Ok(())
    }

    /// A key to search: one of those that are there, one near it, or any.
    fn key(&mut self, expected: &[(&[u8], &[u8])]) -> Vec<u8> {
        if expected.is_empty() || self.rng.index(4) == 0 {
            return vec![self.rng.next_u64() as u8; self.rng.index(3)];
        }
        let mut key = expected[self.rng.index(expected.len())].0.to_vec();
        match self.rng.index(4) {
            0 => key.push(0),
            1 => _ = key.pop(),
            _ => {}
        }
        key
    }

    fn step(&mut self, movement: &Move, asks: bool, expected: &[(&[u8], &[u8])]) -> Checked {
        let (cursor, len) = (&mut self.cursor, expected.len());
        let moved = match movement {
            Move::Next => cursor.next(),
            Move::Prev => cursor.prev(),
            Move::Seek(key) => cursor.seek(key),
            Move::SeekForPrev(key) => cursor.seek_for_prev(key),
            Move::First => cursor.seek_to_first(),
            Move::Last => cursor.seek_to_last(),
        };
        let (forward, at) = match (movement, self.place) {
            (Move::Next, Place::Start | Place::InFront) | (Move::First, _) => (true, Some(0)),
            (Move::Next, Place::On(at)) => (true, Some(at + 1)),
            (Move::Next, Place::Behind) => (true, None),
            (Move::Prev, Place::Start | Place::Behind) | (Move::Last, _) => {
                (false, len.checked_sub(1))
            }
            (Move::Prev, Place::On(at)) => (false, at.checked_sub(1)),
            (Move::Prev, Place::InFront) => (false, None),
            (Move::Seek(key), _) => (true, Some(expected.partition_point(|it| it.0 < &key[..]))),
            (Move::SeekForPrev(key), _) => {
                (false, expected.partition_point(|it| it.0 <= &key[..]).checked_sub(1))
            }
        };
        self.place = match at.filter(|at| *at < len) {
            Some(at) => Place::On(at),
            None if forward => Place::Behind,
            None => Place::InFront,
        };
        let pair = match self.place {
            Place::On(at) => Some(expected[at]),
            _ => None,
        };
        let moved = moved.map_err(|e| e.to_string())?;
        let key = cursor.key();
        if moved != pair.is_some() || key != pair.map(|pair| pair.0) {
            let told = |key: Option<&[u8]>| key.map_or_else(|| "no key".to_owned(), short);
            let wanted = pair.map(|pair| pair.0);
            return Err(format!("is on {}, expected {}", told(key), told(wanted)));
        }
        if asks {
            let value = cursor.value().map_err(|e| format!("value: {e}"))?;
            if value.as_deref() != pair.map(|pair| pair.1) {
                return Err(format!("another value at {:?}", self.place));
            }
        }
        Ok(())
    }
}
