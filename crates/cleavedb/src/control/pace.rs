//! Pace: the limit on what background jobs write ([`crate::Options::background_bytes_per_second`]).
//!
//! Every write of a job is charged. Compactions and collections wait, between two writes and
//! without a lock, until what was charged before is paid at the rate. Flushes do not wait for it:
//! writers may wait for them, and have a pace of their own (`throttle`). So that flushes at the
//! rate or above it do not keep all else from ever running, the others may always write a part of
//! the rate. How fast a flush writes for which no writer waits is in `flush_pace`.
//!
//! At a close, on a full disk and while space is searched for, no job waits.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleavedb_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use cleavedb_base::sync::{Condvar, Mutex};
use cleavedb_storage::{File, FileLayer, Reserve};

use crate::control::flush_pace::FlushPace;
use crate::control::metrics::Counter;

/// What jobs write in a second while none is urgent, in bytes.
const GENTLE: u64 = 32 << 20;

/// Divisor of the rate for what compactions and collections may write whatever flushes do.
const LEAST_PART: u64 = 10;

/// How long a time without writes counts: a job that begins after a rest may write at once what the
/// rate allows in this time.
const BURST: Duration = Duration::from_millis(100);

/// How long a job waits before it looks again whether it has to.
const LOOK: Duration = Duration::from_millis(100);

/// How long a job waits before it looks again how far writers are.
const LOOK_AT_WRITERS: Duration = Duration::from_millis(2);

/// For what the writes of a job wait.
#[derive(Clone)]
pub(crate) enum Pace {
    /// For nothing: a bulk load, or a job that flushes wait for.
    AtOnce,
    /// For the pace of their flush, but not for the limit.
    Flush(Arc<FlushPace>),
    /// For the limit.
    Background,
}

impl Pace {
    fn keeps_limit(&self) -> bool {
        matches!(self, Self::Background)
    }
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
    fn charge(&mut self, bytes: u64, rate: u64, pace: &Pace, now: Duration) {
        let since = now.saturating_sub(BURST);
        let cost = |rate: u64| Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        self.all = self.all.max(since).saturating_add(cost(rate));
        if pace.keeps_limit() {
            let part = cost(rate.div_ceil(LEAST_PART));
            self.background = self.background.max(since).saturating_add(part);
        }
    }
}

/// Keeps the pace of the jobs of a database.
pub(crate) struct Pacer {
    /// Bytes per second; 0 for no limit.
    rate: AtomicU64,
    /// Whether no job is urgent: then there is a limit.
    gentle: AtomicBool,
    /// Number of reasons for which no job waits now.
    rushes: AtomicUsize,
    /// Number of callers that wait for flushes.
    hurries: AtomicUsize,
    /// Whether a job waits for the flush that is under way.
    hurried: AtomicBool,
    reserve: Arc<Reserve>,
    /// Whether jobs wait at all: a test that steps them does not ask for the time.
    waits: bool,
    begin: Instant,
    account: Mutex<Account>,
    changed: Condvar,
    /// Nanoseconds that jobs have waited for the limit.
    pub(crate) paused: Counter,
    flush_waits: Mutex<FlushWaits>,
}

/// The times in which a thread of a flush has waited.
#[derive(Default)]
struct FlushWaits {
    /// Threads that wait, and since when the first of them does.
    threads: usize,
    since: Option<Instant>,
    ended: Duration,
}

/// Jobs, or only flushes, do not wait until it is dropped.
pub(crate) struct Rush<'a>(&'a AtomicUsize);

impl Drop for Rush<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Pacer {
    /// A pacer at this rate; jobs wait if `waits`.
    pub(crate) fn new(rate: Option<u64>, waits: bool, reserve: Arc<Reserve>) -> Arc<Self> {
        Arc::new(Self {
            rate: AtomicU64::new(rate.unwrap_or(0)),
            gentle: AtomicBool::new(false),
            rushes: AtomicUsize::new(0),
            hurries: AtomicUsize::new(0),
            hurried: AtomicBool::new(false),
            reserve,
            waits,
            begin: Instant::now(),
            account: Mutex::default(),
            changed: Condvar::default(),
            paused: Counter::default(),
            flush_waits: Mutex::default(),
        })
    }

    /// Changes the rate, of jobs that wait, too.
    pub(crate) fn set_rate(&self, rate: Option<u64>) {
        self.rate.store(rate.unwrap_or(0), Ordering::Release);
        // What was charged at the old rate need not be paid.
        *self.account.lock() = Account::default();
        self.changed.notify_all();
    }

    /// Has jobs write slowly, so that reads go on beside them, or as fast as they can.
    pub(crate) fn be_gentle(&self, gentle: bool) {
        // Relaxed: no other memory depends on it.
        self.gentle.store(gentle, Ordering::Relaxed);
    }

    /// Bytes per second; 0 for no limit.
    fn rate(&self) -> u64 {
        match self.rate.load(Ordering::Acquire) {
            0 if self.gentle.load(Ordering::Relaxed) => GENTLE,
            rate => rate,
        }
    }

    /// No job waits while the guard is there.
    pub(crate) fn rush(&self) -> Rush<'_> {
        self.begin_rush(&self.rushes)
    }

    /// No flush waits while the guard is there: its caller waits for one.
    pub(crate) fn hurry_flushes(&self) -> Rush<'_> {
        self.begin_rush(&self.hurries)
    }

    /// The flush that is under way does not wait any more: a job waits for its end.
    pub(crate) fn hurry_flush_under_way(&self) {
        self.hurried.store(true, Ordering::Release);
        drop(self.hurry_flushes());
    }

    /// Called before a flush, which may wait again.
    pub(crate) fn begin_flush(&self) {
        self.hurried.store(false, Ordering::Release);
    }

    fn begin_rush<'a>(&self, reasons: &'a AtomicUsize) -> Rush<'a> {
        reasons.fetch_add(1, Ordering::AcqRel);
        drop(self.account.lock());
        self.changed.notify_all();
        Rush(reasons)
    }

    /// How long flushes have waited since the open.
    pub(crate) fn flushes_waited(&self) -> Duration {
        let waits = self.flush_waits.lock();
        waits.ended + waits.since.map_or(Duration::ZERO, |since| since.elapsed())
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
    fn write(&self, bytes: usize, pace: &Pace) {
        if let (Pace::Flush(flush), true) = (pace, self.waits) {
            self.write_of_flush(bytes as u64, flush);
        }
        if self.rate() > 0 {
            self.write_at_rate(bytes as u64, pace);
        }
    }

    /// Whether no job waits now.
    fn is_rushed(&self) -> bool {
        self.rushes.load(Ordering::Acquire) > 0 || self.reserve.is_short()
    }

    fn write_of_flush(&self, bytes: u64, flush: &FlushPace) {
        let before = flush.charge(bytes);
        let pause = || {
            let awaited = self.hurries.load(Ordering::Acquire) > 0;
            let hurried = awaited || self.hurried.load(Ordering::Acquire) || self.is_rushed();
            if hurried { Duration::ZERO } else { flush.pause(before) }
        };
        if pause().is_zero() {
            return;
        }
        self.flush_waits.lock().begin();
        let mut account = self.account.lock();
        loop {
            let pause = pause();
            if pause.is_zero() {
                break;
            }
            self.changed.wait_for(&mut account, pause.min(LOOK_AT_WRITERS));
        }
        drop(account);
        self.flush_waits.lock().end();
    }

    #[cold]
    fn write_at_rate(&self, bytes: u64, pace: &Pace) {
        let mut account = self.account.lock();
        if pace.keeps_limit() && self.waits {
            let start = Instant::now();
            loop {
                let pause = account.pause(self.begin.elapsed());
                let rate = self.rate();
                if pause.is_zero() || rate == 0 || self.is_rushed() {
                    break;
                }
                self.changed.wait_for(&mut account, pause.min(LOOK));
            }
            self.paused.add(start.elapsed().as_nanos() as u64);
        }
        let rate = self.rate();
        if rate > 0 {
            account.charge(bytes, rate, pace, self.begin.elapsed());
        }
    }
}

impl FlushWaits {
    fn begin(&mut self) {
        self.threads += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    fn end(&mut self) {
        self.threads -= 1;
        if self.threads == 0 {
            self.ended += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
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
        self.pacer.write(buf.len(), &self.pace);
        self.inner.write_at(buf, offset)
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_storage_sim::Sim;

    use super::*;

    const RATE: u64 = 10 << 20;
    const PIECE: u64 = 64 << 10;

    /// Bytes that a job and flushes write in a minute; `flushes` in a second by flushes.
    fn minute(flushes: u64) -> (u64, u64) {
        let (mut account, mut now) = (Account::default(), Duration::ZERO);
        let (mut background, mut flushed) = (0, 0);
        while now < Duration::from_secs(60) {
            while (flushed as f64) < flushes as f64 * now.as_secs_f64() {
                account.charge(PIECE, RATE, &Pace::AtOnce, now);
                flushed += PIECE;
            }
            match account.pause(now) {
                pause if pause.is_zero() => {
                    account.charge(PIECE, RATE, &Pace::Background, now);
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
            account.charge(PIECE, RATE, &Pace::Background, later);
            written += PIECE;
        }
        let burst = (RATE as f64 * BURST.as_secs_f64()) as u64;
        assert!((burst..=burst + 2 * PIECE).contains(&written), "{written}");
    }

    /// A pacer, and the pace of a flush that has written 16 GiB, with this number of bytes behind
    /// it: at 0 another write waits for minutes.
    fn far_ahead(behind: Option<u64>) -> (Arc<Pacer>, Pace) {
        let pacer = Pacer::new(None, true, Arc::new(Reserve::new(Arc::new(Sim::new()))));
        let flush = Arc::new(FlushPace::new(move || behind));
        flush.charge(16 << 30);
        (pacer, Pace::Flush(flush))
    }

    #[test]
    fn a_flush_waits_for_nothing_while_somebody_waits_for_it() {
        let (pacer, pace) = far_ahead(Some(0));
        {
            let _hurry = pacer.hurry_flushes();
            pacer.write(1, &pace);
        }
        {
            let _rush = pacer.rush();
            pacer.write(1, &pace);
        }
        pacer.hurry_flush_under_way();
        pacer.write(1, &pace);
        pacer.write(1, &Pace::AtOnce);
        assert_eq!(pacer.flushes_waited(), Duration::ZERO);
        let (writers_wait, pace) = far_ahead(None);
        writers_wait.write(1, &pace);
        let (writers_are_ahead, pace) = far_ahead(Some(4 << 30));
        writers_are_ahead.write(1, &pace);
        let waited = writers_wait.flushes_waited() + writers_are_ahead.flushes_waited();
        assert_eq!(waited, Duration::ZERO);
    }

    #[test]
    fn a_flush_that_waits_goes_on_once_somebody_waits_for_it() {
        let (pacer, pace) = far_ahead(Some(0));
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let writing = [0; 2].map(|_| scope.spawn(|| pacer.write(1, &pace)));
            while pacer.flushes_waited() < LOOK_AT_WRITERS {
                std::thread::yield_now();
            }
            let _hurry = pacer.hurry_flushes();
            for thread in writing {
                thread.join().unwrap();
            }
        });
        let waited = pacer.flushes_waited();
        assert!(waited >= LOOK_AT_WRITERS && waited <= begun.elapsed(), "threads count once");
        assert!(begun.elapsed() < Duration::from_secs(100), "it did not wait to the end");
    }
}
