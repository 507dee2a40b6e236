//! Whether a hot store pays: it turns itself off where accesses are spread evenly, and on again.
//!
//! The paper always keeps its hot store. But if hot keys are accessed no more often than others,
//! moving them costs and gains nothing, so it is left off for longer and longer times. After each
//! of them it is tried again.

/// Times by which hot keys must be accessed more often than all keys are on average.
const GAIN_MIN: u64 = 2;

/// Accesses of hot keys, as many as an even spread would give, that are enough to judge.
const ENOUGH: u64 = 256;

/// Half-lives that a store stays off at most.
const REST_MAX: u64 = 64;

/// What is judged: accesses since the store was made, those of hot keys, and live bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Reads and writes of all keys.
    pub accesses: u64,
    /// Accesses of hot keys.
    pub hits: u64,
    /// Live bytes of hot records.
    pub hot: u64,
    /// Live bytes of all values.
    pub live: u64,
}

/// Judges a hot store from one flush to the next.
#[derive(Clone, Copy, Debug)]
pub struct Worth {
    half_life: u64,
    /// What it was when it was last judged.
    seen: Use,
    /// Accesses until which the store is off, if it is.
    off_until: Option<u64>,
    /// Half-lives for which it was off last: 0 if it has paid since.
    rest: u64,
}

impl Worth {
    /// For a store whose heat is halved after `half_life` accesses. It is on at first.
    pub fn new(half_life: u64) -> Self {
        Self { half_life, seen: Use::default(), off_until: None, rest: 0 }
    }

    /// Whether keys may be hot until the next call.
    pub fn judge(&mut self, now: Use) -> bool {
        if let Some(off_until) = self.off_until {
            if now.accesses < off_until {
                return false;
            }
            self.off_until = None;
            self.seen = now;
        }
        let accesses = now.accesses - self.seen.accesses.min(now.accesses);
        if accesses < self.half_life / 8 {
            return true;
        }
        let hits = now.hits - self.seen.hits.min(now.hits);
        // The accesses that an even spread gives to what was hot all the time.
        let hot = self.seen.hot.min(now.hot);
        let even = u128::from(accesses) * u128::from(hot) / u128::from(now.live.max(1));
        self.seen = now;
        if even < u128::from(ENOUGH) {
            return true;
        }
        let pays = u128::from(hits) >= even * u128::from(GAIN_MIN);
        if pays {
            self.rest = 0;
        } else {
            self.rest = (self.rest * 2).clamp(1, REST_MAX);
            self.off_until = Some(now.accesses + self.half_life * self.rest);
        }
        pays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_LIFE: u64 = 100_000;

    /// `flushes` flushes of 10,000 accesses, of which `hits` are of a tenth of the data: the
    /// answers.
    fn judged(worth: &mut Worth, now: &mut Use, flushes: usize, hits: u64) -> Vec<bool> {
        let mut answer = |_| {
            now.accesses += 10_000;
            now.hits += hits;
            worth.judge(*now)
        };
        (0..flushes).map(&mut answer).collect()
    }

    fn begun() -> (Worth, Use) {
        (Worth::new(HALF_LIFE), Use { hot: 100, live: 1_000, ..Use::default() })
    }

    #[test]
    fn a_store_with_much_of_the_accesses_stays_on() {
        let (mut worth, mut now) = begun();
        assert!(judged(&mut worth, &mut now, 100, 2_000).iter().all(|on| *on));
    }

    #[test]
    fn a_store_with_no_more_than_its_part_turns_itself_off_for_longer_and_longer_times() {
        let (mut worth, mut now) = begun();
        let on = judged(&mut worth, &mut now, 3_000, 1_000);
        let rests: Vec<usize> =
            on.split(|on| *on).map(<[bool]>::len).filter(|rest| *rest > 0).collect();
        assert_eq!(rests[..4], [10, 20, 40, 80]);
        let longest = rests[..rests.len() - 1].iter().max();
        assert_eq!(longest, Some(&640), "no longer than that");
        assert!(on[..1].iter().all(|on| *on), "it is not judged at once");
    }

    #[test]
    fn a_store_is_on_again_when_a_few_keys_are_accessed_most() {
        let (mut worth, mut now) = begun();
        assert!(judged(&mut worth, &mut now, 5, 1_000).contains(&false));
        let on = judged(&mut worth, &mut now, 40, 5_000);
        assert!(on[20..].iter().all(|on| *on), "{on:?}");
        // And the next rest is a short one.
        let on = judged(&mut worth, &mut now, 13, 0);
        assert_eq!(on.split(|on| *on).map(<[bool]>::len).max(), Some(10), "{on:?}");
    }

    #[test]
    fn accesses_before_a_key_was_hot_do_not_count() {
        let (mut worth, mut now) = begun();
        now = Use { hot: 0, accesses: 1_000_000, ..now };
        assert!(worth.judge(now));
        now.hot = 100;
        assert!(judged(&mut worth, &mut now, 2, 0).iter().all(|on| *on), "nothing was hot before");
        assert!(judged(&mut worth, &mut now, 100, 5_000).iter().all(|on| *on));
    }

    #[test]
    fn an_almost_empty_store_is_not_judged() {
        let (mut worth, mut now) = begun();
        now.hot = 1;
        now.live = 1 << 20;
        assert!(judged(&mut worth, &mut now, 100, 0).iter().all(|on| *on));
    }
}
