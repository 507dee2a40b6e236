//! The thread that tells of keys whose end has come, if that is asked for.

use std::time::Duration;

use super::events::KeyEvent;
use super::rests::Rests;
use super::{Ends, Store};

/// How long after its end a key is told of at most, if there is not much to do, and how often the
/// thread looks whether it is wanted.
const REST: Duration = Duration::from_millis(20);
const LONG_REST: Duration = Duration::from_secs(60);

/// When the thread works.
#[derive(Default)]
pub struct Expirer(Rests);

impl Expirer {
    /// Keeps the ends of keys while they are `wanted` and tells of those that have come by `now`,
    /// in milliseconds since 1970, until [`Expirer::end`]. An error is left to the next step.
    pub fn run(
        &self,
        store: &Store,
        wanted: impl Fn() -> bool,
        now: impl Fn() -> u64,
        tell: impl Fn(KeyEvent),
    ) {
        let mut rest = Duration::ZERO;
        while self.0.wait(rest) {
            let is_wanted = wanted();
            let left = match is_wanted == store.ends_are_kept() {
                true if is_wanted => store.tell_ends(now(), &tell),
                true => Ok(Ends::Told),
                false => store.keep_ends(is_wanted).map(|()| Ends::More),
            };
            rest = match left {
                Ok(Ends::More) => Duration::ZERO,
                _ if is_wanted => REST,
                _ => LONG_REST,
            };
        }
    }

    /// Has the thread look whether it is wanted.
    pub fn wake(&self) {
        self.0.wake();
    }

    /// Ends [`Expirer::run`].
    pub fn end(&self) {
        self.0.end();
    }
}
