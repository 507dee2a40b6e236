//! What a server does each second: it notes what was done, syncs, and sends clients away that are
//! silent for too long.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::config::AppendFsync;
use crate::observe::stalls::STEP;
use crate::service::WorkerBeats;
use crate::shared::ServerShared;

/// Seconds that a client has to say who it is.
const STRANGER_SECONDS: u32 = 10;

/// Keeps house until the server stops.
pub(super) async fn each_second(shared: Arc<ServerShared>, beats: Option<Arc<WorkerBeats>>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut noted = Instant::now();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shared.stop.cancelled() => return,
        }
        beats.iter().for_each(|beats| beats.pass_on());
        if noted.elapsed() >= STEP {
            noted = Instant::now();
            note_stalls(shared.clone());
        }
        let config = shared.config.load_full();
        shared.observer.tick();
        let now = shared.observer.uptime().as_secs() as u32;
        shared.seconds.store(now, Ordering::Relaxed);
        let is_open = shared.users.default().rules.load().is_open();
        for client in shared.clients.all() {
            let is_slow = |most: u32| client.waited(now).is_some_and(|seconds| seconds > most);
            let is_stranger =
                !is_open && !client.is_known() && client.age().as_secs() as u32 > STRANGER_SECONDS;
            let is_idle = config.timeout > 0 && !client.takes_messages() && is_slow(config.timeout);
            if is_idle || is_stranger {
                client.killed.cancel();
            }
        }
        if config.appendfsync == AppendFsync::Everysec {
            // The error of a sync is that of the next write, too.
            shared.syncer.want(shared.store.written());
        }
    }
}

/// Notes how long writers have waited since the open, in a thread that may wait for the figures.
fn note_stalls(shared: Arc<ServerShared>) {
    tokio::task::spawn_blocking(move || {
        shared.observer.work.stalls.note(shared.store.db().metrics().stalls);
    });
}
