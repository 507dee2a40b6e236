//! What is counted since the start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::history::{CallHistory, grouped};
use super::slow_log::SlowLog;
use super::times::{CallSums, WorkerTimes};
use super::work::BackgroundWork;
use crate::command::table::COMMANDS;

/// Most first words of errors that are counted each by itself.
const ERRORS_MAX: usize = 128;

/// Counts since the start.
pub struct Observer {
    /// Clients that are connected.
    pub clients: AtomicU64,
    /// Clients that have connected.
    pub connections: AtomicU64,
    /// Clients that were sent away, since there were too many.
    pub refused: AtomicU64,
    /// Commands that were run.
    pub commands: AtomicU64,
    /// Commands that had to wait, in threads that may.
    pub in_pool: AtomicU64,
    /// Bytes that clients sent.
    pub received: AtomicU64,
    /// Bytes that clients were sent.
    pub sent: AtomicU64,
    /// Commands that took long.
    pub slow_log: SlowLog,
    /// What the store does.
    pub work: Arc<BackgroundWork>,
    /// When the server was started, since 1970.
    pub started: Duration,
    begun: Instant,
    workers: Mutex<Vec<Arc<WorkerTimes>>>,
    history: Mutex<CallHistory>,
    ticked: Mutex<Instant>,
    errors: Mutex<BTreeMap<String, u64>>,
}

impl Observer {
    /// Nothing yet; `work` is told what the store does.
    pub fn new(work: Arc<BackgroundWork>) -> Self {
        let [clients, connections, refused, commands, in_pool, received, sent] =
            [const { AtomicU64::new(0) }; 7];
        Self {
            clients,
            connections,
            refused,
            commands,
            in_pool,
            received,
            sent,
            slow_log: SlowLog::default(),
            work,
            started: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            begun: Instant::now(),
            workers: Mutex::default(),
            history: Mutex::default(),
            ticked: Mutex::new(Instant::now()),
            errors: Mutex::default(),
        }
    }

    /// Time since the start.
    pub fn uptime(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Where a new worker counts its calls.
    pub fn worker(&self) -> Arc<WorkerTimes> {
        let times = Arc::<WorkerTimes>::default();
        self.workers.lock().push(times.clone());
        times
    }

    /// The calls of each command, by its row.
    pub fn rows(&self) -> Vec<CallSums> {
        let mut rows = vec![CallSums::default(); COMMANDS.len()];
        self.workers.lock().iter().for_each(|worker| worker.add_to(&mut rows));
        rows
    }

    /// Notes what was done since it was called before, about a second ago.
    pub fn tick(&self) {
        let sums = grouped(&self.rows());
        let elapsed = std::mem::replace(&mut *self.ticked.lock(), Instant::now()).elapsed();
        self.history.lock().tick(sums, elapsed);
    }

    /// Looks at the last five minutes.
    pub fn history<T>(&self, look: impl FnOnce(&CallHistory) -> T) -> T {
        look(&self.history.lock())
    }

    /// Counts an error that a client was told, by its first word.
    pub fn add_error(&self, text: &[u8]) {
        let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let word = String::from_utf8_lossy(word);
        let mut errors = self.errors.lock();
        if errors.len() < ERRORS_MAX || errors.contains_key(&*word) {
            *errors.entry(word.into_owned()).or_default() += 1;
        }
    }

    /// Errors that clients were told, by their first words.
    pub fn errors(&self) -> BTreeMap<String, u64> {
        self.errors.lock().clone()
    }

    /// Forgets what was counted, as `CONFIG RESETSTAT` does.
    pub fn reset(&self) {
        for count in [
            &self.connections,
            &self.refused,
            &self.commands,
            &self.in_pool,
            &self.received,
            &self.sent,
        ] {
            count.store(0, Ordering::Relaxed);
        }
        self.workers.lock().iter().for_each(|worker| worker.reset());
        self.errors.lock().clear();
    }
}
