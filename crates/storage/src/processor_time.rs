//! Processor time of a thread: how long it worked, whatever it waited for.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Does `work`; returns also the processor time that this thread spent on it.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let now = || clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or(Duration::ZERO);
    let before = now();
    let done = work();
    (done, now().saturating_sub(before))
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::time::{Duration, Instant};

    use super::timed;

    #[test]
    fn waits_do_not_count_and_work_does() {
        let wait = Duration::from_millis(50);
        let ((), waited) = timed(|| std::thread::sleep(wait));
        assert!(waited < wait / 2, "{waited:?}");
        let begun = Instant::now();
        let (sum, worked) = timed(|| (0..20_000_000u64).fold(0, |sum, n| sum ^ black_box(n)));
        assert!(black_box(sum) < u64::MAX && worked > Duration::ZERO, "{worked:?}");
        assert!(worked <= begun.elapsed() + Duration::from_millis(1), "{worked:?}");
    }
}
