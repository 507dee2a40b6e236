//! A time in which clients wait with what they call.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// What waits, and until when.
#[derive(Clone, Copy, Debug)]
struct PausedCalls {
    until: Instant,
    /// Whether all calls wait, and not writes alone.
    all: bool,
}

/// A time in which clients wait with what they call, as `CLIENT PAUSE` has it.
#[derive(Default)]
pub struct ClientPause {
    paused: Mutex<Option<PausedCalls>>,
    /// Whether there is such a time, or one that has passed since a call came.
    is_set: AtomicBool,
    changed: Notify,
    /// Clients that wait.
    waiting: AtomicUsize,
}

impl ClientPause {
    /// Has calls wait until a time. A time that was set before is made longer, and never shorter.
    pub fn begin(&self, until: Instant, all: bool) {
        let mut paused = self.paused.lock();
        let before = paused.filter(|before| before.until > Instant::now());
        let until = before.map_or(until, |before| before.until.max(until));
        *paused = Some(PausedCalls { until, all: all || before.is_some_and(|before| before.all) });
        self.is_set.store(true, Ordering::Release);
    }

    /// Lets all go on.
    pub fn end(&self) {
        self.forget(&mut self.paused.lock());
        self.changed.notify_waiters();
    }

    fn forget(&self, paused: &mut Option<PausedCalls>) {
        *paused = None;
        self.is_set.store(false, Ordering::Release);
    }

    /// Whether a call waits, which writes or not.
    pub fn holds(&self, writes: bool) -> bool {
        self.is_set.load(Ordering::Acquire) && self.until(writes).is_some()
    }

    /// Until when such calls wait.
    fn until(&self, writes: bool) -> Option<Instant> {
        let mut paused = self.paused.lock();
        if paused.is_some_and(|paused| paused.until <= Instant::now()) {
            self.forget(&mut paused);
        }
        paused.filter(|paused| paused.all || writes).map(|paused| paused.until)
    }

    /// Waits as long as such calls wait.
    pub async fn over(&self, writes: bool) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _counted = PausedClient(&self.waiting);
        loop {
            let changed = self.changed.notified();
            let Some(until) = self.until(writes) else { return };
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
    }

    /// Number of clients that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// A client that is counted until this is dropped.
struct PausedClient<'a>(&'a AtomicUsize);

impl Drop for PausedClient<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
