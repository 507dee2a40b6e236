//! Events: what a database does in the background, told to listeners and to subscribers of
//! `tracing` as it happens.
//!
//! No event is told while its thread holds a lock of the database: where that could be, it is kept
//! ([`hold`], [`Events::tell_later`]) and told a little later. While a listener runs, events of the
//! same thread are kept, too, and calls that would wait for background work are refused
//! ([`check_may_wait`]), since the work may be what the thread is in the midst of.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicBool, Ordering};
use cleavedb_base::{Error, ErrorKind, Result};

use crate::control::failures::JobKind;
use crate::control::metrics::StallCause;

/// What happens in a database, as an [`EventListener`] is told.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The database was opened.
    #[non_exhaustive]
    Opened {
        /// Operations that were replayed from the log.
        replayed: u64,
        /// Bytes behind the last whole write that were cut.
        bytes_cut: u64,
        /// Time of the open.
        took: Duration,
    },
    /// A flush, a compaction or a collection begins.
    #[non_exhaustive]
    JobBegan {
        /// The kind of the job.
        job: JobKind,
        /// Why, in words.
        why: &'static str,
        /// Bytes of its inputs.
        bytes_in: u64,
    },
    /// The job has ended.
    #[non_exhaustive]
    JobEnded {
        /// The kind of the job.
        job: JobKind,
        /// Why, in words.
        why: &'static str,
        /// Bytes of its inputs.
        bytes_in: u64,
        /// Bytes that it wrote; 0 if it failed, or only moved tables.
        bytes_out: u64,
        /// The time that the job took.
        took: Duration,
        /// The error if it failed; [`ErrorKind::Closed`] if it gave up at a close.
        error: Option<Error>,
    },
    /// A kind of job has failed. It will be tried again, after a pause; if it met damage, without
    /// the file that is damaged.
    #[non_exhaustive]
    JobFailed {
        /// The kind of the job.
        job: JobKind,
        /// Failures in a row.
        tries: u64,
        /// The last error.
        error: Error,
    },
    /// A kind of job that had failed has succeeded.
    #[non_exhaustive]
    JobRecovered {
        /// The kind of the job.
        job: JobKind,
        /// Failures before.
        tries: u64,
        /// Time since the first of them.
        after: Duration,
    },
    /// A writer begins to wait for background work. The short pauses by which writers are slowed
    /// down before are counted in [`crate::Metrics::stalls`] only.
    #[non_exhaustive]
    StallBegan {
        /// What it waits for.
        cause: StallCause,
    },
    /// The writer goes on, or its write fails.
    #[non_exhaustive]
    StallEnded {
        /// What it waited for.
        cause: StallCause,
        /// The time that the writer waited.
        took: Duration,
    },
    /// A write or a sync has failed, so that what is on the disk is in doubt: all writes are
    /// refused from now on, until the database is opened again.
    #[non_exhaustive]
    WritesRefused {
        /// The failure.
        error: Error,
    },
    /// A file that nothing needs any more was removed.
    #[non_exhaustive]
    FileRemoved {
        /// The name of the file.
        file: String,
    },
    /// The database was closed.
    #[non_exhaustive]
    Closed {
        /// What failed at the close.
        error: Option<Error>,
    },
}

/// Is told what happens in a database ([`crate::Options::listeners`]).
///
/// The thread calls in which it happens: one of the background, or that of a call that does or
/// waits for the work. It holds no lock of the database, but waits for the listener: do what takes
/// long elsewhere. Several threads may call at once. A panic is caught, if panics unwind, and the
/// database goes on.
///
/// A listener may read and write the database, and ask for its metrics. Calls that would wait for
/// background work fail with [`ErrorKind::Stalled`]: flushes, compactions and collections, a close,
/// and writes while writers are stopped. A listener must not hold the last handle: it could not be
/// closed there. It should hold none, or a weak reference to one, since the database holds the
/// listener.
pub trait EventListener: Debug + Send + Sync {
    /// Called with each event.
    fn on_event(&self, event: &Event);
}

thread_local! {
    /// How many guards of [`hold`] this thread has, and whether it is in a listener.
    static HELD: Cell<u32> = const { Cell::new(0) };
    static LISTENS: Cell<bool> = const { Cell::new(false) };
}

/// Fails in a listener: the call would wait for background work.
pub(crate) fn check_may_wait() -> Result<()> {
    if LISTENS.get() { Err(refused()) } else { Ok(()) }
}

#[cold]
fn refused() -> Error {
    let message = "an event listener has made a call that would wait for background work, which \
                   may be what its own thread does; make the call in another thread";
    Error::new(ErrorKind::Stalled, message)
}

/// The listeners of a database, and events that wait to be told.
pub(crate) struct Events {
    listeners: Vec<Arc<dyn EventListener>>,
    kept: Mutex<VecDeque<Event>>,
    any_kept: AtomicBool,
    /// Whether it was told that writes are refused.
    told_refusal: AtomicBool,
}

/// Keeps the events of this thread, and of others as far as they are kept, until it is dropped.
pub(crate) struct HeldEvents<'a>(&'a Events);

impl Drop for HeldEvents<'_> {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
        self.0.tell_kept();
    }
}

impl Events {
    pub(crate) fn new(listeners: Vec<Arc<dyn EventListener>>) -> Self {
        let (kept, any_kept, told_refusal) = Default::default();
        Self { listeners, kept, any_kept, told_refusal }
    }

    /// Until the guard is dropped, this thread tells no event. A guard must be made before a lock
    /// is taken, so that it is dropped behind it.
    pub(crate) fn hold(&self) -> HeldEvents<'_> {
        HELD.set(HELD.get() + 1);
        HeldEvents(self)
    }

    /// Tells an event now, unless the thread holds back what it tells.
    pub(crate) fn tell(&self, event: Event) {
        if HELD.get() > 0 {
            return self.tell_later(event);
        }
        self.tell_kept();
        self.tell_now(&event);
        self.tell_kept();
    }

    /// Keeps an event, since the caller may hold a lock: it is told with the next one.
    pub(crate) fn tell_later(&self, event: Event) {
        self.kept.lock().push_back(event);
        self.any_kept.store(true, Ordering::Release);
    }

    /// Tells that writes are refused because of `cause`, once.
    pub(crate) fn tell_refusal(&self, cause: Option<&Error>) {
        if let Some(error) = cause
            && !self.told_refusal.swap(true, Ordering::AcqRel)
        {
            self.tell(Event::WritesRefused { error: error.clone() });
        }
    }

    fn tell_kept(&self) {
        while HELD.get() == 0 && self.any_kept.load(Ordering::Acquire) {
            let event = {
                let mut kept = self.kept.lock();
                let event = kept.pop_front();
                self.any_kept.store(!kept.is_empty(), Ordering::Release);
                event
            };
            if let Some(event) = event {
                self.tell_now(&event);
            }
        }
    }

    fn tell_now(&self, event: &Event) {
        HELD.set(HELD.get() + 1);
        let before = LISTENS.replace(true);
        let told = catch_unwind(AssertUnwindSafe(|| trace(event)));
        let panicked = self.listeners.iter().filter(|listener| {
            let told = catch_unwind(AssertUnwindSafe(|| listener.on_event(event)));
            told.is_err()
        });
        let panicked = panicked.count() + usize::from(told.is_err());
        if panicked > 0 {
            // The panic itself is reported by the hook of the program.
            let _ = catch_unwind(|| tracing::error!(panicked, "listeners panicked"));
        }
        LISTENS.set(before);
        HELD.set(HELD.get() - 1);
    }
}

/// Hands an event to the subscribers of `tracing`. Without any this costs a look at an atomic.
fn trace(event: &Event) {
    match event {
        Event::Opened { replayed, bytes_cut, took } => {
            tracing::info!(replayed, bytes_cut, ms = millis(took), "opened");
        }
        Event::JobBegan { job, why, bytes_in } => {
            tracing::debug!(job = job.name(), why, bytes = bytes_in, "job begins");
        }
        Event::JobEnded { job, why, bytes_in, bytes_out, took, error } => {
            let (job, bytes, written, ms) = (job.name(), bytes_in, bytes_out, millis(took));
            match error {
                None => tracing::info!(job, why, bytes, written, ms, "job done"),
                Some(error) if error.kind() == ErrorKind::Closed => {
                    tracing::debug!(job, why, bytes, ms, "job gives up: the database is closing");
                }
                Some(error) => tracing::warn!(job, why, bytes, ms, %error, "job failed"),
            }
        }
        Event::JobFailed { job, tries, error } => {
            tracing::debug!(job = job.name(), tries, %error, "job will be tried again");
        }
        Event::JobRecovered { job, tries, after } => {
            tracing::info!(job = job.name(), tries, ms = millis(after), "job recovered");
        }
        Event::StallBegan { cause } => tracing::debug!(cause = cause.name(), "writer waits"),
        Event::StallEnded { cause, took } => {
            tracing::debug!(cause = cause.name(), ms = millis(took), "writer goes on");
        }
        Event::WritesRefused { error } => tracing::error!(%error, "writes are refused"),
        Event::FileRemoved { file } => tracing::debug!(file, "file removed"),
        Event::Closed { error: None } => tracing::info!("closed"),
        Event::Closed { error: Some(error) } => tracing::warn!(%error, "closed with a failure"),
    }
}

fn millis(time: &Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
