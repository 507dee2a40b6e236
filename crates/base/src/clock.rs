//! Clock: things in a circle, of which one that nobody used of late goes first.
//!
//! To look at each in turn and pass over it if it was used since the last look (second chance)
//! comes close to taking what was not used for longest, and costs a user one flag.

use std::collections::BTreeMap;

/// Things by their numbers, and a hand that goes round.
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
    /// How many there are.
    pub fn len(&self) -> usize {
        self.things.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    /// Adds `thing`, in the place of what had its number.
    pub fn insert(&mut self, number: u64, thing: T) -> Option<T> {
        self.things.insert(number, thing)
    }

    /// Takes out the thing with this number.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        self.things.remove(&number)
    }

    /// Takes out the next thing that was not used since the last look at it, as `used` says, which
    /// forgets it; if all are in use, the one behind the hand. `None` if there is none.
    pub fn take(&mut self, used: impl Fn(&T) -> bool) -> Option<T> {
        // Whoever uses them meanwhile may use all of them again and again.
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
        assert_eq!(take(&[2, 3]), Some(2), "somebody has to go");
        assert_eq!((take(&[]), take(&[])), (Some(3), None));
        assert!(clock.is_empty());
    }
}
