//! Time, as values that expire see it: an input of the database, whose clock may be wrong.
//!
//! Three questions have answers of their own (decision 0057). *Reads* follow the clock, but stand
//! still where it steps back a little. *A time to live* begins with the clock as it is. *Jobs*,
//! whose removals are for good, believe a jump ahead only after it has lasted.

use std::fmt::Debug;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cleavedb_base::Expiry;
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

/// The most that a clock is corrected by in steps, in milliseconds: more is a jump.
const STEP_MAX: u64 = 10_000;

/// How long a jump ahead must last until jobs remove what has expired by it, in milliseconds.
const JUMP_LASTS: u64 = 600_000;

/// Tells the time by which values expire ([`crate::Options::time`]).
pub trait TimeSource: Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> SystemTime;

    /// Time that has passed since some moment, by a clock that is never set: it tells a jump of
    /// [`TimeSource::now`] from time that has passed. Default: that of the system.
    fn passed(&self) -> Duration {
        static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGAN.elapsed()
    }
}

/// The clock of the system.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemClock;

impl TimeSource for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A clock that stands still until it is moved, for tests of what expires.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use cleavedb::{Db, ManualTime, Options, PutOptions};
///
/// let time = Arc::new(ManualTime::default());
/// let options = Options { time: time.clone(), ..Options::default() };
/// let db = Db::open(dir.path().join("db"), options)?;
/// db.put_with("session", "Ada", PutOptions::new().ttl(Duration::from_secs(60)))?;
/// time.advance(Duration::from_secs(59));
/// assert!(db.contains_key("session")?);
/// time.advance(Duration::from_secs(1));
/// assert!(!db.contains_key("session")?);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct ManualTime {
    millis: AtomicU64,
    passed: AtomicU64,
}

impl ManualTime {
    /// A clock that shows this time; the default one shows the beginning of 1970.
    pub fn new(time: SystemTime) -> Self {
        Self { millis: AtomicU64::new(millis_of(time)), ..Self::default() }
    }

    /// Lets time pass, in whole milliseconds.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        let add = |now: u64| Some(now.saturating_add(by));
        for millis in [&self.millis, &self.passed] {
            let _ = millis.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        }
    }

    /// Sets it to `time`, earlier or later, while no time passes: as a clock jumps.
    pub fn set(&self, time: SystemTime) {
        self.millis.store(millis_of(time), Ordering::Release);
    }
}

impl TimeSource for ManualTime {
    fn now(&self) -> SystemTime {
        let millis = self.millis.load(Ordering::Acquire);
        time_of(millis).unwrap_or(UNIX_EPOCH)
    }

    fn passed(&self) -> Duration {
        Duration::from_millis(self.passed.load(Ordering::Acquire))
    }
}

/// The time of an open database. All times are in milliseconds since the beginning of 1970.
pub(crate) struct Time {
    source: Arc<dyn TimeSource>,
    /// The latest time that reads were told.
    latest: AtomicU64,
    belief: Mutex<Belief>,
    /// Jumps of the clock that were noticed.
    jumps: AtomicU64,
}

impl Time {
    pub(crate) fn new(source: Arc<dyn TimeSource>) -> Self {
        let latest = AtomicU64::new(0);
        let belief = Mutex::new(Belief::new(millis_of(source.now()), passed(&*source)));
        Self { source, latest, belief, jumps: AtomicU64::new(0) }
    }

    /// The time of reads. It does not follow small steps back, so what has expired does not come
    /// back for seconds at each correction of the clock.
    pub(crate) fn millis(&self) -> u64 {
        let now = self.clock();
        let latest = self.latest.load(Ordering::Acquire);
        // Mostly the millisecond is the same: readers share the line of the number then.
        if now <= latest {
            return if latest - now <= STEP_MAX { latest } else { self.jumped_back(latest, now) };
        }
        self.latest.fetch_max(now, Ordering::AcqRel).max(now)
    }

    /// The time up to which jobs may remove what has expired.
    pub(crate) fn believed(&self) -> u64 {
        let (now, clock) = (self.millis(), self.clock());
        let mut belief = self.belief.lock();
        let was_doubted = belief.doubted_since.is_some();
        let believed = belief.time(clock, passed(&*self.source));
        if !was_doubted && belief.doubted_since.is_some() {
            self.jumped(believed, clock);
        }
        believed.min(now)
    }

    /// Number of jumps of the clock that were noticed.
    pub(crate) fn jumps(&self) -> u64 {
        self.jumps.load(Ordering::Relaxed)
    }

    /// What the clock shows.
    fn clock(&self) -> u64 {
        millis_of(self.source.now())
    }

    #[cold]
    fn jumped_back(&self, latest: u64, now: u64) -> u64 {
        let set = self.latest.compare_exchange(latest, now, Ordering::AcqRel, Ordering::Acquire);
        if set.is_ok() {
            self.jumped(latest, now);
        }
        now
    }

    fn jumped(&self, from: u64, to: u64) {
        self.jumps.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(from, to, "the clock by which values expire has jumped");
    }
}

/// What jobs believe of a clock.
#[derive(Debug)]
struct Belief {
    /// What the clock shows more than time has passed, modulo 2^64.
    ahead: u64,
    /// Since when the clock shows a later time, in time that has passed.
    doubted_since: Option<u64>,
}

impl Belief {
    fn new(clock: u64, passed: u64) -> Self {
        Self { ahead: clock.wrapping_sub(passed), doubted_since: None }
    }

    /// The time, if the clock shows `clock` after `passed`: that of the clock, unless it has jumped
    /// ahead a short time ago. Then it is what the clock would show without the jump.
    fn time(&mut self, clock: u64, passed: u64) -> u64 {
        let expected = passed.wrapping_add(self.ahead);
        if clock > expected.saturating_add(STEP_MAX) {
            let since = *self.doubted_since.get_or_insert(passed);
            if passed.saturating_sub(since) < JUMP_LASTS {
                return expected;
            }
        }
        *self = Self::new(clock, passed);
        clock
    }
}

/// Time that has passed, in milliseconds.
fn passed(source: &dyn TimeSource) -> u64 {
    u64::try_from(source.passed().as_millis()).unwrap_or(u64::MAX)
}

/// A time in milliseconds since the beginning of 1970; 0 before.
fn millis_of(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn time_of(millis: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis))
}

/// When the value of a put expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// After the time to live of its keyspace, if that has one.
    #[default]
    OfKeyspace,
    /// So long after the put.
    For(Duration),
    /// At this moment, or never.
    Until(Expiry),
}

impl Lifetime {
    /// Until `time`; for good, if there is none.
    pub(crate) fn until(time: Option<SystemTime>) -> Self {
        Self::Until(time.map_or(Expiry::NEVER, |time| Expiry::at(millis_of(time))))
    }

    /// For so long after the put; for good, if nothing says how long.
    pub(crate) fn after(ttl: Option<Duration>) -> Self {
        ttl.map_or(Self::Until(Expiry::NEVER), Self::For)
    }

    /// The end of a value that is put now, in a keyspace whose values have the lifetime `usual`.
    #[inline]
    pub(crate) fn end(self, usual: Self, time: &Time) -> Expiry {
        match self.or(usual) {
            Self::Until(expiry) => expiry,
            Self::For(ttl) => after(ttl, time),
            Self::OfKeyspace => Expiry::NEVER,
        }
    }

    /// Whether that is never, whatever the time is.
    pub(crate) fn is_for_good(self, usual: Self) -> bool {
        matches!(self.or(usual), Self::Until(Expiry::NEVER))
    }

    /// Bytes that it takes in front of the value, unless only the keyspace says so.
    pub(crate) fn front_len(self) -> usize {
        match self {
            Self::OfKeyspace => 0,
            Self::For(_) => Expiry::LEN,
            Self::Until(expiry) => expiry.front_len(),
        }
    }

    #[inline]
    fn or(self, usual: Self) -> Self {
        if self == Self::OfKeyspace { usual } else { self }
    }
}

/// A time in milliseconds, rounded up.
pub(crate) fn whole_millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// The expiry of a value that lives for `ttl` from now on by the clock, rounded up to milliseconds.
/// While the time of reads stands still, the value is there until that goes on.
fn after(ttl: Duration, time: &Time) -> Expiry {
    let millis = whole_millis(ttl);
    let (reads, clock) = (time.millis(), time.clock());
    Expiry::at(clock.saturating_add(millis).max(reads.saturating_add(millis.min(1))))
}

#[cfg(test)]
mod tests;
