//! What the service manager of the system is told: that the server is ready, and that it lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sd_notify::NotifyState;

/// Tells the service manager, if there is one.
pub fn tell(states: &[NotifyState<'_>]) {
    // The server runs as well without one that listens.
    let _ = sd_notify::notify(states);
}

/// How often workers say that they live.
const BEAT: Duration = Duration::from_secs(1);

/// Signs of life of each worker. They come from the workers' own loops, so that one that hangs has
/// the service manager start the server anew.
pub struct WorkerBeats(Vec<AtomicBool>);

impl WorkerBeats {
    /// One of this number of workers, if the service manager wants signs of life.
    pub fn of(workers: usize) -> Option<Arc<Self>> {
        sd_notify::watchdog_enabled()?;
        Some(Arc::new(Self((0..workers).map(|_| AtomicBool::new(false)).collect())))
    }

    /// Says that a worker lives, again and again.
    pub async fn beat(self: Arc<Self>, worker: usize) {
        loop {
            self.0[worker].store(true, Ordering::Relaxed);
            tokio::time::sleep(BEAT).await;
        }
    }

    /// Tells the service manager that the server lives, if all workers have said so since the last
    /// time.
    pub fn pass_on(&self) {
        if self.0.iter().all(|beat| beat.load(Ordering::Relaxed)) {
            self.0.iter().for_each(|beat| beat.store(false, Ordering::Relaxed));
            tell(&[NotifyState::Watchdog]);
        }
    }
}
