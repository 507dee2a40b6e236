//! Time, as values that expire see it: an input of the database, which never goes back while it is
//! open.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cleavedb_base::Expiry;
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};

/// Tells the time by which values expire ([`crate::Options::time`]).
pub trait TimeSource: Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> SystemTime;
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
/// use cleavedb::{Db, ManualTime, Options};
///
/// let time = Arc::new(ManualTime::default());
/// let options = Options { time: time.clone(), ..Options::default() };
/// let db = Db::open(dir.path().join("db"), options)?;
/// db.put_with_ttl("session", "Ada", Duration::from_secs(60))?;
/// time.advance(Duration::from_secs(59));
/// assert!(db.contains_key("session")?);
/// time.advance(Duration::from_secs(1));
/// assert!(!db.contains_key("session")?);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct ManualTime {
    millis: AtomicU64,
}

impl ManualTime {
    /// A clock that shows this time; the default one shows the beginning of 1970.
    pub fn new(time: SystemTime) -> Self {
        Self { millis: AtomicU64::new(millis_of(time)) }
    }

    /// Moves it on, by whole milliseconds.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        let add = |now: u64| Some(now.saturating_add(by));
        let _ = self.millis.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    }
}

impl TimeSource for ManualTime {
    fn now(&self) -> SystemTime {
        let millis = self.millis.load(Ordering::Acquire);
        time_of(millis).unwrap_or(UNIX_EPOCH)
    }
}

/// The time of an open database.
#[derive(Debug)]
pub(crate) struct Time {
    source: Arc<dyn TimeSource>,
    /// The latest time that was told.
    latest: AtomicU64,
}

impl Time {
    pub(crate) fn new(source: Arc<dyn TimeSource>) -> Self {
        Self { source, latest: AtomicU64::new(0) }
    }

    /// The time now, in milliseconds since the beginning of 1970. It does not go back if the clock
    /// does: what has expired must not come back.
    pub(crate) fn millis(&self) -> u64 {
        let now = millis_of(self.source.now());
        let latest = self.latest.load(Ordering::Acquire);
        // Mostly the millisecond is the same: readers share the line of the number then.
        if now <= latest {
            return latest;
        }
        self.latest.fetch_max(now, Ordering::AcqRel).max(now)
    }
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

    /// The expiry of a value that is put now, in a keyspace whose values live for `usual`.
    #[inline]
    pub(crate) fn expiry(self, usual: Option<Duration>, time: &Time) -> Expiry {
        match (self, usual) {
            (Self::Until(expiry), _) => expiry,
            (Self::For(ttl), _) | (Self::OfKeyspace, Some(ttl)) => after(ttl, time),
            (Self::OfKeyspace, None) => Expiry::NEVER,
        }
    }
}

/// The expiry of a value that lives from now on for `ttl`, rounded up to milliseconds.
fn after(ttl: Duration, time: &Time) -> Expiry {
    let millis = u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    Expiry::at(time.millis().saturating_add(millis))
}

/// An expiry as users see it; `None` for never, and for what no clock can show.
pub(crate) fn expires_at(expiry: Expiry) -> Option<SystemTime> {
    if expiry.is_never() { None } else { time_of(expiry.millis()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Jumping(AtomicU64);

    impl TimeSource for Jumping {
        fn now(&self) -> SystemTime {
            let at = self.0.fetch_add(1, Ordering::Relaxed);
            UNIX_EPOCH + Duration::from_millis([50, 40, 60][at as usize % 3])
        }
    }

    #[test]
    fn time_does_not_go_back() {
        let time = Time::new(Arc::new(Jumping::default()));
        assert_eq!((time.millis(), time.millis(), time.millis()), (50, 50, 60));
    }

    #[test]
    fn a_lifetime_ends_no_earlier_than_asked_for() {
        let clock = Arc::new(ManualTime::default());
        let time = Time::new(clock.clone());
        clock.advance(Duration::from_millis(1000));
        let of = |lifetime: Lifetime, usual| lifetime.expiry(usual, &time).millis();
        let second = Duration::from_secs(1);
        assert_eq!(of(Lifetime::OfKeyspace, None), u64::MAX);
        assert_eq!(of(Lifetime::OfKeyspace, Some(second)), 2000);
        assert_eq!(of(Lifetime::For(Duration::from_nanos(1)), Some(second)), 1001);
        assert_eq!(of(Lifetime::For(Duration::MAX), None), u64::MAX, "longer than any clock runs");
        assert_eq!(of(Lifetime::until(None), Some(second)), u64::MAX);
        assert_eq!(of(Lifetime::until(Some(UNIX_EPOCH + second)), None), 1000);
        assert_eq!(expires_at(Expiry::at(1000)), Some(UNIX_EPOCH + second));
        assert_eq!(expires_at(Expiry::NEVER), None);
    }
}
