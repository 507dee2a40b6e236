//! Pace: the limit on what background jobs write ([`crate::Options::background_bytes_per_second`]).
//!
//! Every write of a job is charged. Compactions and collections wait, between two writes and
//! without a lock, until what was charged before is paid at the rate. Flushes do not wait: writers
//! wait for them, and have a pace of their own (`throttle`). So that flushes at the rate or above
//! it do not keep all else from ever running, the others may always write a part of the rate.
//!
//! At a close, on a full disk and while space is searched for, no job waits.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use cleavedb_base::sync::{Condvar, Mutex};
use cleavedb_storage::{File, FileLayer, Reserve};

use crate::metrics::Counter;

/// Divisor of the rate for what compactions and collections may write whatever flushes do.
const LEAST_PART: u64 = 10;

/// How long a time without writes counts: a job that begins after a rest may write at once what the
/// rate allows in this time.
const BURST: Duration = Duration::from_millis(100);

/// How long a job waits before it looks again whether it has to.
const LOOK: Duration = Duration::from_millis(100);

/// Whether a write waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// No: it is that of a flush, or of a job that flushes wait for.
    Flush,
    /// Yes.
    Background,
}

/// What was written, as the times until which it is paid at the rate.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// All that was written.
    all: Duration,
    /// What did not come from flushes, at its least part of the rate.
    background: Duration,
}

impl Account {
    /// How long a write in the background waits at the moment `now`.
    fn pause(&self, now: Duration) -> Duration {
        self.all.min(self.background).saturating_sub(now)
    }

    /// Charges a write of `bytes` at a `rate` in bytes per second.
    fn charge(&mut self, bytes: u64, rate: u64, pace: Pace, now: Duration) {
        let since = now.saturating_sub(BURST);
        let cost = |rate: u64| Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        self.all = self.all.max(since).saturating_add(cost(rate));
        if pace == Pace::Background {
            let part = cost(rate.div_ceil(LEAST_PART));
            self.background = self.background.max(since).saturating_add(part);
        }
    }
}

/// Keeps the pace of the jobs of a database.
pub(crate) struct Pacer {
    /// Bytes per second; 0 for no limit.
    rate: AtomicU64,
    /// Number of reasons for which no job waits now.
    rushes: AtomicUsize,
    reserve: Arc<Reserve>,
    /// Whether jobs wait at all: a test that steps them does not ask for the time.
    waits: bool,
    begin: Instant,
    account: Mutex<Account>,
    changed: Condvar,
    /// Nanoseconds that jobs have waited.
    pub(crate) paused: Counter,
}

/// Jobs do not wait until it is dropped.
pub(crate) struct Rush<'a>(&'a Pacer);

impl Drop for Rush<'_> {
    fn drop(&mut self) {
        self.0.rushes.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Pacer {
    /// A pacer at this rate; jobs wait if `waits`.
    pub(crate) fn new(rate: Option<u64>, waits: bool, reserve: Arc<Reserve>) -> Arc<Self> {
        Arc::new(Self {
            rate: AtomicU64::new(rate.unwrap_or(0)),
            rushes: AtomicUsize::new(0),
            reserve,
            waits,
            begin: Instant::now(),
            account: Mutex::default(),
            changed: Condvar::default(),
            paused: Counter::default(),
        })
    }

    /// Changes the rate, of jobs that wait, too.
    pub(crate) fn set_rate(&self, rate: Option<u64>) {
        self.rate.store(rate.unwrap_or(0), Ordering::Release);
        // What was charged at the old rate need not be paid.
        *self.account.lock() = Account::default();
        self.changed.notify_all();
    }

    /// No job waits while the guard is there.
    pub(crate) fn rush(&self) -> Rush<'_> {
        self.rushes.fetch_add(1, Ordering::AcqRel);
        drop(self.account.lock());
        self.changed.notify_all();
        Rush(self)
    }

    /// No job waits any more: the database closes.
    pub(crate) fn end(&self) {
        std::mem::forget(self.rush());
    }

    /// `file`, whose writes keep the pace.
    pub(crate) fn over(self: &Arc<Self>, file: Arc<dyn File>, pace: Pace) -> Arc<dyn File> {
        Arc::new(PacedFile { inner: file, pacer: Arc::clone(self), pace })
    }

    /// Called before a write of `bytes`.
    #[inline]
    fn write(&self, bytes: usize, pace: Pace) {
        if self.rate.load(Ordering::Acquire) > 0 {
            self.write_at_rate(bytes as u64, pace);
        }
    }

    #[cold]
    fn write_at_rate(&self, bytes: u64, pace: Pace) {
        let mut account = self.account.lock();
        if pace == Pace::Background && self.waits {
            let start = Instant::now();
            loop {
                let pause = account.pause(self.begin.elapsed());
                let rate = self.rate.load(Ordering::Acquire);
                let rushes = self.rushes.load(Ordering::Acquire) > 0 || self.reserve.is_short();
                if pause.is_zero() || rate == 0 || rushes {
                    break;
                }
                self.changed.wait_for(&mut account, pause.min(LOOK));
            }
            self.paused.add(start.elapsed().as_nanos() as u64);
        }
        let rate = self.rate.load(Ordering::Acquire);
        if rate > 0 {
            account.charge(bytes, rate, pace, self.begin.elapsed());
        }
    }
}

/// A file of a job.
struct PacedFile {
    inner: Arc<dyn File>,
    pacer: Arc<Pacer>,
    pace: Pace,
}

impl FileLayer for PacedFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.pacer.write(buf.len(), self.pace);
        self.inner.write_at(buf, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 10 << 20;
    const PIECE: u64 = 64 << 10;

    /// Bytes that a job and flushes write in a minute; `flushes` in a second by flushes.
    fn minute(flushes: u64) -> (u64, u64) {
        let (mut account, mut now) = (Account::default(), Duration::ZERO);
        let (mut background, mut flushed) = (0, 0);
        while now < Duration::from_secs(60) {
            while (flushed as f64) < flushes as f64 * now.as_secs_f64() {
                account.charge(PIECE, RATE, Pace::Flush, now);
                flushed += PIECE;
            }
            match account.pause(now) {
                pause if pause.is_zero() => {
                    account.charge(PIECE, RATE, Pace::Background, now);
                    background += PIECE;
                    // A fast disk.
                    now += Duration::from_micros(50);
                }
                pause => now += pause.min(Duration::from_millis(1)),
            }
        }
        (background, flushed)
    }

    #[test]
    fn jobs_get_what_flushes_leave_and_never_less_than_their_part() {
        let most = |rate: u64| rate * 60 + rate / 8 + PIECE;
        for (flushes, rate) in [
            (0, RATE),
            (RATE / 4, RATE / 4 * 3),
            (RATE / 2, RATE / 2),
            (RATE, RATE / 10),
            (RATE * 3, RATE / 10),
        ] {
            let (background, flushed) = minute(flushes);
            assert!(flushed >= flushes * 59, "flushes do not wait");
            assert!(background <= most(rate), "{flushes}: {background}");
            assert!(background >= rate * 59, "{flushes}: {background}");
        }
    }

    #[test]
    fn a_rest_is_not_saved_up() {
        let mut account = Account::default();
        let later = Duration::from_secs(3600);
        let mut written = 0;
        while account.pause(later).is_zero() {
            account.charge(PIECE, RATE, Pace::Background, later);
            written += PIECE;
        }
        let burst = (RATE as f64 * BURST.as_secs_f64()) as u64;
        assert!((burst..=burst + 2 * PIECE).contains(&written), "{written}");
    }
}
