//! When operations begin in an open loop: at a rate that does not wait for the engine.
//!
//! A closed loop begins an operation when the one before has ended, so an engine that stalls is
//! asked less while it does, and the stall shows in one time only ("coordinated omission", Tene).
//! In an open loop every operation has an intended start, and its time counts from there: whatever
//! waits behind a stall is charged for it.

use std::f64::consts::TAU;
use std::str::FromStr;
use std::time::Duration;

use quanta::{Clock, Instant};
use rustix::time::{ClockId, clock_gettime};

use crate::units;

/// Nearer than this a sleep would end too late: the kernel's timer slack is 50 us.
const SLEEPS: Duration = Duration::from_micros(150);

/// Operations a second, over all clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// On average.
    pub mean: f64,
    /// By which share of the mean it rises and falls as a sine: below 1, and 0 for a constant rate.
    pub swing: f64,
    /// Seconds from one crest to the next.
    pub period: f64,
}

impl FromStr for Rate {
    type Err = String;

    /// `10k`, or `10k:SWING:PERIOD` as `4500:0.22:60`: mean, share of it, seconds.
    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("\"{text}\" is not a rate such as 10k or 4500:0.22:60");
        let mut parts = text.split(':');
        let mean = units::parse(parts.next().unwrap_or_default())? as f64;
        let rest: Vec<f64> =
            parts.map(str::parse).collect::<Result<_, _>>().map_err(|_| malformed())?;
        let rate = match rest[..] {
            [] => Self { mean, swing: 0.0, period: 1.0 },
            [swing, period] => Self { mean, swing, period },
            _ => return Err(malformed()),
        };
        let sound = mean >= 1.0 && (0.0..1.0).contains(&rate.swing) && rate.period > 0.0;
        if sound { Ok(rate) } else { Err(malformed()) }
    }
}

/// The intended starts of one client.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    rate: Rate,
    threads: f64,
    first: f64,
    /// Seconds from the beginning to the next start.
    next: f64,
}

impl Pace {
    /// Of client `thread` of `threads`: they take turns.
    pub fn new(rate: Rate, thread: u32, threads: u32) -> Self {
        let first = f64::from(thread) / rate.mean;
        Self { rate, threads: f64::from(threads), first, next: first }
    }

    /// Goes back to the first start: what was drawn so far did not keep to it.
    pub fn restart(&mut self) {
        self.next = self.first;
    }

    /// The next start, from the beginning of the phase.
    pub fn next_start(&mut self) -> Duration {
        let start = self.next;
        let Rate { mean, swing, period } = self.rate;
        let now = mean * (1.0 + swing * (start * TAU / period).sin());
        self.next += self.threads / now;
        Duration::from_secs_f64(start)
    }
}

/// Waits until `moment`, and returns the processor time that it took: none if it has passed.
pub fn wait_until(clock: &Clock, moment: Instant) -> Duration {
    if clock.now() >= moment {
        return Duration::ZERO;
    }
    let begin = thread_cpu();
    loop {
        let left = moment.saturating_duration_since(clock.now());
        if left.is_zero() {
            return thread_cpu().saturating_sub(begin);
        }
        match left.checked_sub(SLEEPS) {
            Some(far) if !far.is_zero() => std::thread::sleep(far),
            _ => std::thread::yield_now(),
        }
    }
}

/// Processor time of this thread so far.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quanta::Clock;

    use super::{Pace, Rate, wait_until};

    #[test]
    fn clients_take_turns_at_the_rate() {
        let rate = Rate { mean: 1000.0, swing: 0.0, period: 1.0 };
        let mut starts: Vec<_> = (0..4)
            .flat_map(|thread| {
                let mut pace = Pace::new(rate, thread, 4);
                (0..250).map(move |_| pace.next_start().as_micros())
            })
            .collect();
        starts.sort_unstable();
        let even = starts.iter().enumerate().all(|(at, &us)| us.abs_diff(at as u128 * 1000) <= 1);
        assert!(even, "{:?}", &starts[..10]);
    }

    #[test]
    fn a_swing_moves_starts_and_keeps_the_mean() {
        let mut pace = Pace::new("10000:0.5:1".parse().unwrap(), 0, 1);
        let starts: Vec<_> =
            (0..).map(|_| pace.next_start()).take_while(|at| at.as_secs() < 2).collect();
        let in_part = |from: f64, to: f64| {
            starts.iter().filter(|at| (from..to).contains(&at.as_secs_f64())).count()
        };
        assert!((19_900..20_100).contains(&starts.len()), "{}", starts.len());
        assert!(in_part(0.0, 0.5) > 6400 && in_part(0.5, 1.0) < 3600);
    }

    #[test]
    fn rates_are_checked() {
        assert_eq!("2k".parse(), Ok(Rate { mean: 2000.0, swing: 0.0, period: 1.0 }));
        for text in ["0", "x", "1:2", "1:1:1", "1:0.5:0", "1:0.5:60:9"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn waiting_ends_at_the_moment_not_before() {
        let clock = Clock::new();
        let moment = clock.now() + Duration::from_millis(3);
        let spent = wait_until(&clock, moment);
        assert!(clock.now() >= moment && !spent.is_zero() && spent <= Duration::from_millis(3));
        assert_eq!(wait_until(&clock, moment), Duration::ZERO);
    }
}
