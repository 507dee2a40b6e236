//! Clock: a log buffer of entries that evicts one that was not used lately (the CLOCK algorithm).
//!
//! The hand looks at each entry in turn and passes over it once if it was used since the last look
//! (second chance). That comes close to evicting the least recently used one, and costs a user one
//! flag.

use std::collections::BTreeMap;

/// Entries by number, and a hand that goes round.
#[derive(Debug)]
pub struct Clock<T> {
    things: BTreeMap<u64, T>,
    /// Number at which the next look begins.
    hand: u64,
}

impl<T> Default for Clock<T> {
    fn default() -> Self {
        Self { things: BTreeMap::new(), hand: 0 }
    }
}

impl<T> Clock<T> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.things.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    /// Adds `thing` under `number`; returns the entry that had this number.
    pub fn insert(&mut self, number: u64, thing: T) -> Option<T> {
        self.things.insert(number, thing)
    }

    /// Removes the entry with this number.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        self.things.remove(&number)
    }

    /// Removes the next entry that was not used since the last look at it. `used` says whether it
    /// was and clears its flag. If all are in use, the one behind the hand goes. `None` if there
    /// are none.
    pub fn take(&mut self, used: impl Fn(&T) -> bool) -> Option<T> {
        // Bounded to one round and one more: other threads may set the flags again meanwhile.
        for looks_left in (0..=self.things.len()).rev() {
            let next = self.things.range(self.hand..).next().or(self.things.first_key_value());
            let (&number, thing) = next?;
            self.hand = number.wrapping_add(1);
            if !used(thing) || looks_left == 0 {
                return self.things.remove(&number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_was_used_since_the_last_look_is_passed_over_once() {
        let mut clock = Clock::default();
        for number in 0..4 {
            clock.insert(number, (number, Cell::new(number == 0)));
        }
        let used = |thing: &(u64, Cell<bool>)| thing.1.take();
        let mut take = |uses: &[u64]| {
            uses.iter().for_each(|number| clock.things[number].1.set(true));
            clock.take(used).map(|(number, _)| number)
        };
        assert_eq!(take(&[]), Some(1));
        assert_eq!(take(&[2, 3]), Some(0), "it has had its chance");
        assert_eq!(take(&[2, 3]), Some(2), "one entry must be evicted");
        assert_eq!((take(&[]), take(&[])), (Some(3), None));
        assert!(clock.is_empty());
    }
}
