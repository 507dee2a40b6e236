//! Connections: which clients are let in, on which thread each lives, how bytes become commands.
//!
//! A connection belongs to one worker, a thread with a runtime of its own, and nothing of it moves
//! but when a command would wait: then the session goes to the pool with it, and comes back. So a
//! slow disk stops one client, and no worker.

mod socket;
mod gathered;
mod connection;
mod listener;
mod housekeeping;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::runtime::{self, Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{self, LocalSet};

use self::listener::Listener;
use self::socket::Accepted;
use crate::clients::ClientBudget;
use crate::exec::event;
use crate::http::{HttpServer, PageGuard};
use crate::observe::times::WorkerTimes;
use crate::service::{self, WorkerBeats};
use crate::session;
use crate::shared::ServerShared;
use crate::tls;

/// Threads that may wait, for each processor, and at least.
const POOL_PER_PROCESSOR: usize = 4;
const POOL_MIN: usize = 16;

/// Bytes of the stack of a thread that runs commands: scripts nest calls, as far as Lua lets them.
const STACK: usize = 16 << 20;

/// The part of the memory of clients that there is besides for those that have not said who they
/// are, so that they take none of the others.
const STRANGERS_PART: usize = 8;

/// How long clients have to take their last replies.
const STOP_TIME: Duration = Duration::from_secs(10);

/// A way to the connections of a worker.
#[derive(Clone)]
struct Door {
    clients: Arc<AtomicUsize>,
    accepted: UnboundedSender<(Accepted, WorkerPlace)>,
}

/// A thread that runs connections.
struct Worker {
    door: Door,
    thread: JoinHandle<()>,
}

/// A server that runs in threads of its own.
pub struct Running {
    shared: Arc<ServerShared>,
    addresses: Vec<SocketAddr>,
    examples: Vec<String>,
    /// What lets clients in, until the server stops.
    accepting: Vec<task::JoinHandle<()>>,
    workers: Vec<Worker>,
    /// What syncs before replies, where they are to be durable, sweeps, and tells of ends.
    threads: [JoinHandle<()>; 3],
    /// The page, if there is one.
    http: Option<HttpServer>,
    /// Of the accepting tasks and the pool.
    runtime: Runtime,
}

impl Running {
    /// Listens, and lets clients in, and those that watch as far as `guard` does.
    pub(crate) fn start(shared: Arc<ServerShared>, guard: PageGuard) -> io::Result<Self> {
        let processors = std::thread::available_parallelism()?.get();
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(POOL_MIN.max(POOL_PER_PROCESSOR * processors))
            .thread_name("cleave-pool")
            .thread_stack_size(STACK)
            .enable_all()
            .build()?;
        let config = shared.config.load_full();
        let listeners = runtime.block_on(Listener::all(&config))?;
        let plain = Listener::addresses(&listeners, false)?;
        let with_tls = Listener::addresses(&listeners, true)?;
        let addresses = [&plain[..], &with_tls].concat();
        shared.change_config(|config| {
            (config.listen, config.tls_listen) = (plain, with_tls);
            io::Result::Ok(())
        })?;
        let examples = listeners.iter().map(|it| it.example(&config));
        let examples = examples.collect::<io::Result<Vec<_>>>()?;
        let count = if config.workers == 0 { processors } else { config.workers };
        let of_strangers = ClientBudget::new(config.client_memory / STRANGERS_PART);
        let beats = WorkerBeats::of(count);
        let start = |number| {
            let (shared, pool) = (shared.clone(), runtime.handle().clone());
            let of_strangers = of_strangers.clone();
            let times = shared.observer.worker();
            worker(number, Rooms { shared, of_strangers, pool, times }, beats.clone())
        };
        let workers = (0..count).map(start).collect::<io::Result<Vec<_>>>()?;
        let doors: Arc<[Door]> = workers.iter().map(|worker| worker.door.clone()).collect();
        let accept = |it| runtime.spawn(listener::accept(it, shared.clone(), doors.clone()));
        let accepting = listeners.into_iter().map(accept).collect();
        runtime.spawn(housekeeping::each_second(shared.clone(), beats));
        let threads = [
            thread("cleave-syncer", &shared, |it| it.syncer.run(it.store.db()))?,
            thread("cleave-sweeper", &shared, |it| it.sweeper.run(&it.store))?,
            thread("cleave-expirer", &shared, tell_of_ends)?,
        ];
        let start_http = |address| HttpServer::start(address, guard, shared.clone());
        let http = shared.config.load().http.map(start_http).transpose()?;
        Ok(Self { shared, addresses, examples, accepting, workers, threads, http, runtime })
    }

    /// The addresses where it listens; none if it does at a socket of the file system alone.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Command lines that connect to it, one for each place where it listens.
    pub fn examples(&self) -> &[String] {
        &self.examples
    }

    /// What does not fit together in the store, a sentence each: keys, the elements of collections,
    /// and the register of which key has which. Writes wait meanwhile.
    pub fn audit(&self) -> cleavedb::Result<Vec<String>> {
        self.shared.store.audit().map(|audit| audit.wrong)
    }

    /// Where the page is, if there is one.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpServer::address)
    }

    /// Tells it to stop: clients get the replies of what they have sent, and the store is closed.
    pub fn stop(&self) {
        self.shared.stop.cancel();
    }

    /// Tells the service manager, if there is one, that clients are served.
    pub fn say_ready(&self) {
        let status = format!("serving: {}", self.examples.join(", "));
        service::tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
    }

    /// Has SIGTERM and Ctrl-C stop it, from now on; a second signal ends the process at once, which
    /// loses nothing that was acknowledged. At SIGHUP it reads its certificates again, and says so,
    /// or why it keeps the old ones.
    pub fn heed_signals(&self) -> io::Result<()> {
        let _runtime = self.runtime.enter();
        let mut terminated = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut hung_up = signal(SignalKind::hangup())?;
        let shared = self.shared.clone();
        self.runtime.spawn(async move {
            while hung_up.recv().await.is_some() {
                let told = match tls::certificates(&shared.config.load()) {
                    Ok(certificates) => {
                        shared.certificates.store(certificates);
                        "certificates read".to_owned()
                    }
                    Err(why) => format!("certificates stay as they were: {why}"),
                };
                // A reader that has gone is no reason to stop.
                let _ = writeln!(io::stderr(), "cleave-server: {told}");
            }
        });
        let shared = self.shared.clone();
        self.runtime.spawn(async move {
            let mut any = async || {
                tokio::select! {
                    _ = terminated.recv() => {}
                    _ = interrupted.recv() => {}
                }
            };
            any().await;
            shared.stop.cancel();
            any().await;
            std::process::exit(1);
        });
        Ok(())
    }

    /// Waits until a client, a signal or [`Running::stop`] stops it, and for its end.
    pub fn wait(self) -> cleavedb::Result<()> {
        self.runtime.block_on(self.shared.stop.cancelled());
        service::tell(&[NotifyState::Stopping]);
        for accepting in self.accepting {
            // A panic of it was reported by its thread.
            let _ = self.runtime.block_on(accepting);
        }
        for worker in self.workers {
            drop(worker.door);
            // A panic of a worker was reported by its thread.
            let _ = worker.thread.join();
        }
        self.shared.syncer.end();
        self.shared.sweeper.end();
        self.shared.expirer.end();
        self.threads.into_iter().for_each(|thread| _ = thread.join());
        self.http.into_iter().for_each(HttpServer::end);
        self.runtime.shutdown_timeout(STOP_TIME);
        self.shared.store.db().clone().close_now()
    }
}

fn thread(
    name: &str,
    shared: &Arc<ServerShared>,
    body: fn(&ServerShared),
) -> io::Result<JoinHandle<()>> {
    let shared = shared.clone();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || body(&shared))
}

/// Tells of keys whose end has come, while that is asked for.
fn tell_of_ends(shared: &ServerShared) {
    let classes = || shared.config.load().notify_keyspace_events;
    let wanted = || classes().told() & event::EXPIRED != 0;
    let tell = |told| shared.topics.tell(classes(), &[told]);
    shared.expirer.run(&shared.store, wanted, session::now, tell);
}

/// The place of a client at its worker, which is free when this is dropped, even by a panic.
struct WorkerPlace(Arc<AtomicUsize>);

impl WorkerPlace {
    fn take(clients: &Arc<AtomicUsize>) -> Self {
        clients.fetch_add(1, Ordering::Relaxed);
        Self(clients.clone())
    }
}

impl Drop for WorkerPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What connections need.
#[derive(Clone)]
struct Rooms {
    shared: Arc<ServerShared>,
    /// What clients take that have not said who they are.
    of_strangers: Arc<ClientBudget>,
    /// Where commands run that wait.
    pool: Handle,
    /// Where the worker counts calls.
    times: Arc<WorkerTimes>,
}

fn worker(number: usize, rooms: Rooms, beats: Option<Arc<WorkerBeats>>) -> io::Result<Worker> {
    let clients = Arc::new(AtomicUsize::new(0));
    let (accepted, sockets) = unbounded_channel();
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let of_thread = clients.clone();
    let thread = std::thread::Builder::new().name(format!("cleave-worker-{number}"));
    let thread = thread.stack_size(STACK).spawn(move || {
        let connections = LocalSet::new();
        beats.map(|beats| connections.spawn_local(beats.beat(number)));
        connections.block_on(&runtime, serve_all(sockets, rooms, of_thread));
    })?;
    Ok(Worker { door: Door { clients, accepted }, thread })
}

async fn serve_all(
    mut sockets: UnboundedReceiver<(Accepted, WorkerPlace)>,
    rooms: Rooms,
    clients: Arc<AtomicUsize>,
) {
    while let Some((socket, place)) = tokio::select! {
        socket = sockets.recv() => socket,
        () = rooms.shared.stop.cancelled() => None,
    } {
        let rooms = rooms.clone();
        tokio::task::spawn_local(async move {
            // A client that has gone is no error of the server.
            let _ = connection::serve(socket, rooms).await;
            drop(place);
        });
    }
    // Clients that were accepted and never served leave with it.
    drop(sockets);
    let begun = tokio::time::Instant::now();
    while clients.load(Ordering::Relaxed) > 0 && begun.elapsed() < STOP_TIME {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
