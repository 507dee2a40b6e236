//! The server of CleaveDB with RocksDB in the place of its engine, as far as GET and SET go: what
//! clients of both measure is then the engine.
//!
//! What is the same: the decoder of requests (compiled from the server's own source), a runtime of
//! one thread for each processor, a pool of threads for what would wait, writes of a pipeline as
//! one batch, the record in front of a value, a sync of the log each second. What a command does
//! besides in the server is left out: users, locks of keys, times and counts of commands.

#[path = "../../../../../crates/server/src/resp/mod.rs"]
#[allow(dead_code, reason = "the server answers more than this program")]
mod resp;
mod store;
mod connection;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bench_peers::rocks::RocksOpener;
use bench_peers::settings::PeerArgs;
use clap::Parser;
use tokio::runtime::{self, Handle};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use self::store::RocksStore;

/// Threads that may wait, as many as the server has for two to four processors.
const POOL: usize = 16;

/// How often the log is synced, as under `everysec`.
const SYNCED_EACH: Duration = Duration::from_secs(1);

/// Serves GET and SET over RocksDB, as CleaveDB's server does over its own engine.
#[derive(Parser)]
struct Arguments {
    /// The directory of the store, which is made if it is not there
    #[arg(long)]
    dir: PathBuf,
    /// The address where clients connect
    #[arg(long)]
    listen: SocketAddr,
    #[command(flatten)]
    peer: PeerArgs,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let options = RocksOpener::plain(&arguments.peer).options();
    let store = Arc::new(RocksStore::open(&options, &arguments.dir)?);
    let pool = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(POOL)
        .build()?;
    let synced = store.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(SYNCED_EACH);
            if let Err(error) = synced.sync() {
                eprintln!("rocks-server: the log is not synced: {error}");
            }
        }
    });
    let workers = (0..thread::available_parallelism()?.get())
        .map(|_| worker(store.clone(), pool.handle().clone()))
        .collect::<io::Result<Vec<_>>>()?;
    let listener = TcpListener::bind(arguments.listen)?;
    println!("listening at {}", listener.local_addr()?);
    for (socket, worker) in listener.incoming().zip(workers.iter().cycle()) {
        worker.send(socket?)?;
    }
    Ok(())
}

/// A thread that runs connections; what sends it some.
fn worker(store: Arc<RocksStore>, pool: Handle) -> io::Result<UnboundedSender<TcpStream>> {
    let (sockets, accepted) = unbounded_channel();
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || LocalSet::new().block_on(&runtime, serve_all(accepted, store, pool)));
    Ok(sockets)
}

async fn serve_all(
    mut sockets: UnboundedReceiver<TcpStream>,
    store: Arc<RocksStore>,
    pool: Handle,
) {
    while let Some(socket) = sockets.recv().await {
        // A client that has gone is no error of the server.
        tokio::task::spawn_local(connection::serve(socket, store.clone(), pool.clone()));
    }
}
