//! How a store is warmed before a workload is measured.
//!
//! A hot store fills with what is accessed: a phase that begins on an empty one measures its
//! filling. So windows of the workload's own operations run unmeasured until the number of hot keys
//! stands still. Every engine does a whole pass first, as many operations as there are records, so
//! that the caches of those without a hot store are warm, too.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{self, thousands};

/// Windows of a pass over the records.
pub(crate) const PASS: u32 = 4;
/// Most windows.
const WINDOWS_MAX: u32 = 16;
/// Time after which no other window begins, and the last one ends: an engine that reads a thousand
/// records a second has no whole pass.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(300);
/// Keys that a store gains or loses in a window, as a share of the hot ones, if it stands still.
const STILL: f64 = 0.02;

/// What runs before the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// A number of operations.
    Operations(u64),
    /// A pass, and more until the number of hot keys stands still.
    Still,
}

impl FromStr for WarmUp {
    type Err = String;

    /// A number of operations, or `still`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "still" { Ok(Self::Still) } else { units::parse(text).map(Self::Operations) }
    }
}

/// How a store was warmed for a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Warm {
    /// Operations before the measured ones.
    pub operations: u64,
    /// Keys of the hot store behind them; `None` if the engine has none.
    pub hot_keys: Option<u64>,
    /// Whether their number stood still; without a hot store, whether the pass was a whole one.
    pub still: bool,
}

impl Warm {
    /// The store in the words of a report.
    pub fn words(&self) -> String {
        match (self.hot_keys, self.still) {
            (Some(keys), true) => format!("{} hot keys", thousands(keys as f64)),
            (Some(keys), false) => format!("{} hot keys, NOT STILL", thousands(keys as f64)),
            (None, true) => "a pass".to_owned(),
            (None, false) => "NOT A WHOLE PASS".to_owned(),
        }
    }
}

/// A store that is being warmed.
#[derive(Debug, Default)]
pub(crate) struct Warming {
    /// Windows so far.
    windows: u32,
    /// The state behind them.
    pub(crate) warm: Warm,
}

impl Warming {
    /// Whether another window is to follow one of `operations` that left `hot_keys`, of an engine
    /// that has a hot store; `in_time` if [`TIME_MAX`] is not over.
    pub(crate) fn goes_on(
        &mut self,
        operations: u64,
        hot_keys: Option<u64>,
        in_time: bool,
    ) -> bool {
        let before = self.warm.hot_keys.unwrap_or(0);
        let stood = |now: u64| before.abs_diff(now) as f64 <= STILL * now as f64;
        self.windows += 1;
        self.warm = Warm {
            operations: self.warm.operations + operations,
            hot_keys,
            still: in_time && self.windows >= PASS && hot_keys.is_none_or(stood),
        };
        !self.warm.still && in_time && self.windows < WINDOWS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::{PASS, WINDOWS_MAX, Warm, WarmUp, Warming};

    /// Windows that leave these numbers of hot keys, and the state when no other is to follow.
    fn warmed(hot_keys: impl IntoIterator<Item = Option<u64>>, in_time: u32) -> (u32, Warm) {
        let mut warming = Warming::default();
        let windows = hot_keys.into_iter().zip(1..).find_map(|(keys, window)| {
            (!warming.goes_on(100, keys, window <= in_time)).then_some(window)
        });
        (windows.unwrap(), warming.warm)
    }

    #[test]
    fn a_store_is_warm_when_its_hot_keys_stand_still() {
        let grows = [10, 200, 400, 800, 900, 917, 2000].map(Some);
        let warm = Warm { operations: 600, hot_keys: Some(917), still: true };
        assert_eq!(warmed(grows, u32::MAX), (6, warm));
        let begun = [900; 9].map(Some);
        assert_eq!(warmed(begun, u32::MAX).0, PASS, "a pass at least");
        let shrinks = [900, 900, 900, 800, 790].map(Some);
        assert_eq!(warmed(shrinks, u32::MAX).0, 5);
        assert_eq!(warmed([0; 9].map(Some), u32::MAX).0, PASS, "it stays empty");
    }

    #[test]
    fn a_store_that_never_stands_still_says_so() {
        let grows = || (0..99).map(|window| Some(1 << window));
        let (windows, warm) = warmed(grows(), u32::MAX);
        assert_eq!((windows, warm.still), (WINDOWS_MAX, false));
        assert!(warm.words().ends_with("NOT STILL"), "{}", warm.words());
        let (windows, warm) = warmed(grows(), 5);
        assert_eq!((windows, warm.still), (6, false), "its time is over");
    }

    #[test]
    fn an_engine_without_a_hot_store_does_a_pass() {
        let (windows, warm) = warmed([None; 9], u32::MAX);
        assert_eq!((windows, warm.still, warm.operations), (PASS, true, 400));
        let (windows, warm) = warmed([None; 9], 3);
        assert_eq!((windows, warm.still), (PASS, false));
    }

    #[test]
    fn a_warm_up_is_a_number_or_still() {
        assert_eq!("still".parse(), Ok(WarmUp::Still));
        assert_eq!("2k".parse(), Ok(WarmUp::Operations(2000)));
        assert!("warm".parse::<WarmUp>().is_err());
    }
}
