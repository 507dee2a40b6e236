//! What all clients of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use tokio_rustls::rustls::ServerConfig;
use tokio_util::sync::CancellationToken;

use crate::acl::{DenialLog, Guesses, Users};
use crate::clients::{ClientPause, Clients, Monitors};
use crate::config::Config;
use crate::exec::{Expirer, Reads, Store, Sweeper, Syncer, ViewMoment, event};
use crate::model::scan::Scans;
use crate::observe::{Observer, ProcessFigures, ServerFigures};
use crate::saves::Saves;
use crate::script::{Libraries, Scripts};
use crate::topics::Topics;

/// What all clients share.
pub struct ServerShared {
    /// What the server was told, and what of it has changed since.
    pub config: ArcSwap<Config>,
    /// Held by those that change the configuration.
    changes: Mutex<()>,
    /// What clients over TLS are shown, if there are any.
    pub certificates: ArcSwapOption<ServerConfig>,
    /// Users.
    pub users: Users,
    /// What was denied to them.
    pub denials: DenialLog,
    /// Wrong passwords.
    pub guesses: Guesses,
    /// The store.
    pub store: Store,
    /// Syncs for all clients, if writes are to be durable before their replies.
    pub syncer: Syncer,
    /// Removes elements that no key has any more.
    pub sweeper: Sweeper,
    /// Tells of keys whose end has come.
    pub expirer: Expirer,
    /// Saves, and what is told of them.
    pub saves: Arc<Saves>,
    /// What is published, and to whom.
    pub topics: Topics,
    /// Scripts.
    pub scripts: Scripts,
    /// Libraries of functions.
    pub libraries: Libraries,
    /// Clients that are connected.
    pub clients: Clients,
    /// Clients that are shown what others call.
    pub monitors: Monitors,
    /// A time in which clients wait with what they call.
    pub pause: ClientPause,
    /// Cursors of scans.
    pub scans: Scans,
    /// What is counted.
    pub observer: Observer,
    /// Seconds since the start, as of the last second.
    pub seconds: AtomicU32,
    /// Says that the server is to stop.
    pub stop: CancellationToken,
}

impl ServerShared {
    /// What clients of this store share.
    pub fn new(config: Config, users: Users, store: Store, observer: Observer) -> Self {
        observer.slow_log.configure(&config);
        let clients = Clients::new(config.client_memory);
        Self {
            config: ArcSwap::from_pointee(config),
            changes: Mutex::default(),
            certificates: ArcSwapOption::empty(),
            users,
            denials: DenialLog::default(),
            guesses: Guesses::default(),
            store,
            syncer: Syncer::default(),
            sweeper: Sweeper::default(),
            expirer: Expirer::default(),
            saves: Arc::default(),
            topics: Topics::default(),
            scripts: Scripts::default(),
            libraries: Libraries::default(),
            clients,
            monitors: Monitors::default(),
            pause: ClientPause::default(),
            scans: Scans::default(),
            observer,
            seconds: AtomicU32::new(0),
            stop: CancellationToken::new(),
        }
    }

    /// What clients of a store share, for tests.
    #[cfg(test)]
    pub fn of(db: cleavedb::Db) -> Self {
        let (work, store) = (Arc::default(), Store::open(db, 1).unwrap());
        Self::new(Config::new("store"), Users::new(None), store, Observer::new(work))
    }

    /// Changes the configuration; after an error nothing has changed.
    pub fn change_config<E>(
        &self,
        change: impl FnOnce(&mut Config) -> Result<(), E>,
    ) -> Result<(), E> {
        let _one_at_a_time = self.changes.lock();
        let mut config = Config::clone(&self.config.load());
        change(&mut config)?;
        self.observer.slow_log.configure(&config);
        self.config.store(Arc::new(config));
        self.expirer.wake();
        Ok(())
    }

    /// Seconds since the start, as of the last second.
    pub fn seconds(&self) -> u32 {
        self.seconds.load(Ordering::Relaxed)
    }

    /// What the server and its store are like now.
    pub fn figures(&self) -> ServerFigures<'_> {
        let db = self.store.db();
        ServerFigures {
            config: self.config.load_full(),
            observer: &self.observer,
            clients: self.clients.all(),
            swept_over: self.sweeper.stepped_over(),
            blocked: self.store.waiters.len() + self.pause.waiting(),
            scripts: self.scripts.len(),
            libraries: self.libraries.now().counts(),
            saves: &self.saves,
            options: db.options(),
            metrics: db.metrics(),
            directories: db.directories().unwrap_or_default(),
            process: ProcessFigures::now(),
            is_open: self.users.default().rules.load().is_open(),
            stops: self.stop.is_cancelled(),
        }
    }

    /// Of which records, and when, the views of a command are.
    pub fn moment<'a>(&'a self, reads: &'a dyn Reads, now: u64) -> ViewMoment<'a> {
        let waiters = &self.store.waiters;
        let ready = if waiters.is_empty() { 0 } else { event::READY };
        let gone = if waiters.need_keys() { event::GONE } else { 0 };
        let told = self.config.load().notify_keyspace_events.told() | ready | gone;
        ViewMoment { reads, scans: &self.scans, now, told }
    }
}
