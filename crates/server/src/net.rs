//! Connections: which clients are let in, on which thread each lives, how bytes become commands.
//!
//! A connection belongs to one worker, a thread with a runtime of its own, and nothing of it moves
//! but when a command would wait: then the session goes to the pool with it, and comes back. So a
//! slow disk stops one client, and no worker.

mod budget;
mod socket;
mod connection;

use std::fs::Metadata;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{self, Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use self::budget::ClientBudget;
use self::socket::Accepted;
use crate::config::{AppendFsync, Config};
use crate::shared::ServerShared;

/// Threads that may wait, for each processor, and at least.
const POOL_PER_PROCESSOR: usize = 4;
const POOL_MIN: usize = 16;

/// How long clients have to take their last replies.
const STOP_TIME: Duration = Duration::from_secs(10);

/// A thread that runs connections.
struct Worker {
    clients: Arc<AtomicUsize>,
    accepted: UnboundedSender<Accepted>,
    thread: JoinHandle<()>,
}

/// A server that runs in threads of its own.
pub struct Running {
    shared: Arc<ServerShared>,
    address: SocketAddr,
    workers: Vec<Worker>,
    /// The thread that syncs before replies, if they are to be durable.
    syncer: Option<JoinHandle<()>>,
    sweeper: JoinHandle<()>,
    /// Of the accepting task and the pool.
    runtime: Runtime,
}

impl Running {
    /// Listens, and lets clients in.
    pub(crate) fn start(shared: Arc<ServerShared>) -> io::Result<Self> {
        let processors = std::thread::available_parallelism()?.get();
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(POOL_MIN.max(POOL_PER_PROCESSOR * processors))
            .thread_name("cleave-pool")
            .enable_all()
            .build()?;
        let listeners = runtime.block_on(Listeners::bind(&shared.config))?;
        let address = listeners.tcp.local_addr()?;
        let count = if shared.config.workers == 0 { processors } else { shared.config.workers };
        let rooms = Rooms {
            shared: shared.clone(),
            budget: ClientBudget::new(shared.config.client_memory),
            pool: runtime.handle().clone(),
        };
        let start = |number| worker(number, rooms.clone());
        let workers = (0..count).map(start).collect::<io::Result<Vec<_>>>()?;
        let doors = workers.iter().map(|it| (it.clients.clone(), it.accepted.clone())).collect();
        runtime.spawn(accept(listeners, shared.clone(), doors));
        let of_syncer = shared.clone();
        let syncer = match shared.config.append_fsync {
            AppendFsync::No => None,
            AppendFsync::Everysec => {
                runtime.spawn(sync_each_second(of_syncer));
                None
            }
            AppendFsync::Always => {
                let thread = std::thread::Builder::new().name("cleave-syncer".to_owned());
                Some(thread.spawn(move || of_syncer.syncer.run(of_syncer.store.db()))?)
            }
        };
        let of_sweeper = shared.clone();
        let sweeper = std::thread::Builder::new()
            .name("cleave-sweeper".to_owned())
            .spawn(move || of_sweeper.sweeper.run(&of_sweeper.store))?;
        Ok(Self { shared, address, workers, syncer, sweeper, runtime })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What does not fit together in the store, a sentence each: keys of lists, hashes and sets, the
    /// elements of these, and the register of which key has which. Writes wait meanwhile.
    pub fn audit(&self) -> cleavedb::Result<Vec<String>> {
        self.shared.store.audit().map(|audit| audit.wrong)
    }

    /// Tells it to stop: clients get the replies of what they have sent, and the store is closed.
    pub fn stop(&self) {
        self.shared.stop.cancel();
    }

    /// Has SIGTERM and Ctrl-C stop it, from now on; a second signal ends the process at once, which
    /// loses nothing that was acknowledged.
    pub fn stop_at_signals(&self) -> io::Result<()> {
        let _runtime = self.runtime.enter();
        let mut terminated = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
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
        for worker in self.workers {
            drop(worker.accepted);
            // A panic of a worker was reported by its thread.
            let _ = worker.thread.join();
        }
        self.shared.syncer.end();
        self.shared.sweeper.end();
        self.syncer.into_iter().chain([self.sweeper]).for_each(|thread| _ = thread.join());
        self.runtime.shutdown_timeout(STOP_TIME);
        self.shared.store.db().clone().close_now()
    }
}

/// Where clients connect.
struct Listeners {
    tcp: TcpListener,
    unix: Option<UnixListener>,
}

impl Listeners {
    async fn bind(config: &Config) -> io::Result<Self> {
        let tcp = TcpListener::bind(config.listen).await?;
        let unix = config.unix_socket.as_ref().map(|path| {
            let is_socket = |found: Metadata| found.file_type().is_socket();
            // One that a killed server has left: where another one listens, it is not taken away.
            if std::fs::symlink_metadata(path).is_ok_and(is_socket)
                && UnixStream::connect(path).is_err()
            {
                std::fs::remove_file(path)?;
            }
            UnixListener::bind(path)
        });
        Ok(Self { tcp, unix: unix.transpose()? })
    }

    async fn accept(&self) -> io::Result<Accepted> {
        let Some(unix) = &self.unix else {
            return self.tcp.accept().await.and_then(|(tcp, _)| tcp.into_std()).map(Accepted::Tcp);
        };
        tokio::select! {
            tcp = self.tcp.accept() => Ok(Accepted::Tcp(tcp?.0.into_std()?)),
            unix = unix.accept() => Ok(Accepted::Unix(unix?.0.into_std()?)),
        }
    }
}

type Door = (Arc<AtomicUsize>, UnboundedSender<Accepted>);

/// Accepts clients, and gives each to the worker with the fewest.
async fn accept(listeners: Listeners, shared: Arc<ServerShared>, doors: Vec<Door>) {
    loop {
        let accepted = tokio::select! {
            accepted = listeners.accept() => accepted,
            () = shared.stop.cancelled() => return,
        };
        let socket = match accepted {
            Ok(socket) => socket,
            Err(_) => {
                // No descriptor is left, or the client has gone: others go on.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let clients = |door: &&Door| door.0.load(Ordering::Relaxed);
        let all: usize = doors.iter().map(|door| clients(&door)).sum();
        if all >= shared.config.max_clients {
            socket.refuse(b"-ERR max number of clients reached\r\n");
            continue;
        }
        if let Some(door) = doors.iter().min_by_key(clients) {
            door.0.fetch_add(1, Ordering::Relaxed);
            let _ = door.1.send(socket);
        }
    }
}

/// The place of a client at its worker, which is free when this is dropped, even by a panic.
struct WorkerPlace(Arc<AtomicUsize>);

impl Drop for WorkerPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What connections need.
#[derive(Clone)]
struct Rooms {
    shared: Arc<ServerShared>,
    budget: Arc<ClientBudget>,
    /// Where commands run that wait.
    pool: Handle,
}

fn worker(number: usize, rooms: Rooms) -> io::Result<Worker> {
    let clients = Arc::new(AtomicUsize::new(0));
    let (accepted, sockets) = unbounded_channel();
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let of_thread = clients.clone();
    let thread = std::thread::Builder::new()
        .name(format!("cleave-worker-{number}"))
        .spawn(move || LocalSet::new().block_on(&runtime, serve_all(sockets, rooms, of_thread)))?;
    Ok(Worker { clients, accepted, thread })
}

async fn serve_all(
    mut sockets: UnboundedReceiver<Accepted>,
    rooms: Rooms,
    clients: Arc<AtomicUsize>,
) {
    while let Some(socket) = tokio::select! {
        socket = sockets.recv() => socket,
        () = rooms.shared.stop.cancelled() => None,
    } {
        let (rooms, place) = (rooms.clone(), WorkerPlace(clients.clone()));
        tokio::task::spawn_local(async move {
            // A client that has gone is no error of the server.
            let _ = connection::serve(socket, rooms).await;
            drop(place);
        });
    }
    // Clients that were accepted and never served.
    sockets.close();
    while sockets.try_recv().is_ok() {
        clients.fetch_sub(1, Ordering::Relaxed);
    }
    let begun = tokio::time::Instant::now();
    while clients.load(Ordering::Relaxed) > 0 && begun.elapsed() < STOP_TIME {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Makes each second's writes survive a loss of power.
async fn sync_each_second(shared: Arc<ServerShared>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shared.stop.cancelled() => return,
        }
        let seq = shared.store.written();
        if seq > shared.store.db().durable_seq() {
            let shared = shared.clone();
            // The error of a sync is that of the next write, too.
            let _ = tokio::task::spawn_blocking(move || shared.store.db().sync_to(seq)).await;
        }
    }
}
