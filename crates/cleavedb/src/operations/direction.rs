//! Directions of searches, and the order in which they meet places: bounds between keys.

use std::cmp::Ordering;

use crate::operations::bounds::Bounds;

/// A direction in the order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl Direction {
    /// How a search meets two places.
    pub(crate) fn order(self, one: &[u8], other: &[u8]) -> Ordering {
        match self {
            Self::Forward => one.cmp(other),
            Self::Backward => other.cmp(one),
        }
    }

    /// Whether a search meets a place in front of another one.
    pub(crate) fn meets(self, one: &[u8], before: &[u8]) -> bool {
        self.order(one, before).is_lt()
    }

    /// Where a search in `bounds` begins and ends.
    pub(crate) fn ends(self, bounds: &Bounds) -> (&[u8], &[u8]) {
        match self {
            Self::Forward => (&bounds.lower, &bounds.upper),
            Self::Backward => (&bounds.upper, &bounds.lower),
        }
    }

    /// Puts into `place` where a search still finds a tree key.
    pub(crate) fn place_of(self, key: &[u8], place: &mut Vec<u8>) {
        place.clear();
        place.extend_from_slice(key);
        if self == Self::Backward {
            // The least key above it.
            place.push(0);
        }
    }

    /// The place that a search meets first.
    pub(crate) fn first_of<'p>(self, one: &'p [u8], other: &'p [u8]) -> &'p [u8] {
        if self.meets(other, one) { other } else { one }
    }
}
