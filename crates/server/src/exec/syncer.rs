//! One thread that syncs for all clients: replies wait for it if they are to, workers do not.

use cleavedb::Db;
use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

/// Up to which write everything survives a loss of power.
#[derive(Clone, Copy, Debug, Default)]
struct Durable {
    seq: u64,
    /// Whether a sync has failed: nothing more will survive.
    has_failed: bool,
}

#[derive(Default)]
struct WantedSeq {
    seq: u64,
    is_over: bool,
}

/// The thread that syncs, and what waits for it.
pub struct Syncer {
    wanted: Mutex<WantedSeq>,
    wake: Condvar,
    durable: watch::Sender<Durable>,
}

impl Default for Syncer {
    fn default() -> Self {
        let durable = watch::Sender::new(Durable::default());
        Self { wanted: Mutex::default(), wake: Condvar::new(), durable }
    }
}

impl Syncer {
    /// Syncs what is asked for, until [`Syncer::end`] or a sync that fails.
    pub fn run(&self, db: &Db) {
        let mut durable = Durable::default();
        while let Some(seq) = self.next(durable.seq) {
            match db.sync_to(seq) {
                Ok(()) => durable.seq = db.durable_seq().max(seq),
                Err(_) => durable.has_failed = true,
            }
            self.durable.send_replace(durable);
            if durable.has_failed {
                return;
            }
        }
    }

    /// Waits until a write behind `done` is asked for; none at the end.
    fn next(&self, done: u64) -> Option<u64> {
        let mut wanted = self.wanted.lock();
        while wanted.seq <= done {
            if wanted.is_over {
                return None;
            }
            self.wake.wait(&mut wanted);
        }
        Some(wanted.seq)
    }

    /// Has the write `seq`, and all before it, survive a loss of power soon.
    pub fn want(&self, seq: u64) {
        let mut wanted = self.wanted.lock();
        wanted.seq = wanted.seq.max(seq);
        self.wake.notify_one();
    }

    /// Waits until the write `seq`, and all before it, survive a loss of power. Returns whether
    /// they do.
    pub async fn until_durable(&self, seq: u64) -> bool {
        if self.durable.borrow().seq >= seq {
            return true;
        }
        let mut durable = self.durable.subscribe();
        self.want(seq);
        let is_done = |durable: &Durable| durable.seq >= seq || durable.has_failed;
        durable.wait_for(is_done).await.is_ok_and(|durable| durable.seq >= seq)
    }

    /// Lets the thread end, once all that was asked for is done.
    pub fn end(&self) {
        self.wanted.lock().is_over = true;
        self.wake.notify_one();
    }
}
