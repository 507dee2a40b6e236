//! Badger 4, a Go library, in a process of its own; plain, and with its value log in use.
//!
//! Sources: `DefaultOptions` and the documentation of the options, `RunValueLogGC` among them. The
//! Go side (`badger/store.go` beside this crate's manifest) sets and describes them. By default
//! only values of 1 MiB are separated, so the plain one keeps all values of the workloads in its
//! tree; the other one separates from 1 KiB, which the comment of `LSMOnlyOptions` calls a good
//! option.
//!
//! Memory: the Go side fits its options to the limit that it is told of. What its process costs is
//! counted with the harness (`Engine::other_process`).
//!
//! A client's operation is a message and an answer on a Unix socket, one connection for each client
//! that is in the engine at a time. What an empty one takes is measured at each open and is one of
//! the settings: it is a part of every figure of this engine.

mod build;
mod wire;
mod process;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use cleavedb_bench::engine::VisitPair;
use cleavedb_bench::{BenchError, Engine, Opener, Result};

use crate::memory::Memory;
use crate::settings::{PeerArgs, described};

use self::process::Peer;
use self::wire::{Answer, Connection, Operation};

/// Name of the plain one in results.
pub const NAME: &str = "badger";
/// Name of the one that separates values.
pub const SEPARATED_NAME: &str = "badger-separated";

/// Size from which the separating one separates, in bytes.
const SEPARATE_FROM: u64 = 1024;
/// Calls by which a process call is measured.
const CALLS: usize = 1000;

/// Opens Badger with the same settings each time.
pub struct BadgerOpener {
    name: &'static str,
    program: PathBuf,
    /// Size from which values are separated; zero is Badger's default.
    separate_from: u64,
}

impl BadgerOpener {
    /// Will open stores with Badger's own threshold; builds the Go program if it is not there.
    pub fn plain(_: &PeerArgs) -> Result<Self> {
        Ok(Self { name: NAME, program: build::program()?, separate_from: 0 })
    }

    /// Will open stores with values in the value log; builds the Go program if it is not there.
    pub fn separated(args: &PeerArgs) -> Result<Self> {
        // Zero would be Badger's default, and a value has at least one byte to separate.
        let separate_from = args.separate_from.unwrap_or(SEPARATE_FROM).max(1);
        Ok(Self { name: SEPARATED_NAME, program: build::program()?, separate_from })
    }
}

impl Opener for BadgerOpener {
    fn name(&self) -> &str {
        self.name
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        let limit = Memory::here().limit;
        let peer = Peer::start(&self.program, directory, self.separate_from, limit);
        let peer = peer.map_err(|error| BenchError::engine(self.name, "open", error))?;
        let badger = Badger { name: self.name, peer, resting: Mutex::default() };
        Ok(Box::new(badger))
    }
}

struct Badger {
    name: &'static str,
    peer: Peer,
    /// Connections that no client uses at the moment.
    resting: Mutex<Vec<Connection>>,
}

impl Badger {
    /// Does `work` on a connection that no other thread uses meanwhile. One that failed is not used
    /// again, because its next answer may belong to the call that failed.
    fn with<T>(
        &self,
        action: &'static str,
        work: impl FnOnce(&mut Connection) -> std::io::Result<T>,
    ) -> Result<T> {
        let failed = |error| BenchError::engine(self.name, action, error);
        let resting = self.resting.lock().expect("nothing panics while it is held").pop();
        let mut connection = match resting {
            Some(connection) => connection,
            None => self.peer.connect().map_err(failed)?,
        };
        let result = work(&mut connection).map_err(failed)?;
        self.resting.lock().expect("nothing panics while it is held").push(connection);
        Ok(result)
    }

    /// A call that is answered by text: lines of two columns.
    fn table(&self, action: &'static str, operation: Operation) -> Result<Vec<(String, String)>> {
        self.with(action, |connection| {
            connection.call(operation, b"", b"")?;
            let text = String::from_utf8_lossy(connection.body()).into_owned();
            let pairs = text.lines().filter_map(|line| line.split_once('\t'));
            Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
        })
    }

    /// Median time of a call that does nothing.
    fn call_time(&self) -> Result<Duration> {
        self.with("ping", |connection| {
            let mut times = Vec::with_capacity(CALLS);
            for _ in 0..CALLS {
                let begin = Instant::now();
                connection.call(Operation::Idle, b"", b"")?;
                times.push(begin.elapsed());
            }
            times.sort_unstable();
            Ok(times[CALLS / 2])
        })
    }

    fn describe_process(&self) -> Result<Vec<(String, String)>> {
        let time = self.call_time()?.as_secs_f64() * 1e6;
        Ok(described([
            ("process call", format!("{time:.1} us, a part of every operation and of every scan")),
            ("process", self.peer.memory_group()),
        ]))
    }
}

impl Engine for Badger {
    fn name(&self) -> &str {
        self.name
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.with("put", |connection| connection.call(Operation::Put, key, value).map(drop))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.with("get", |connection| {
            let found = connection.call(Operation::Get, key, b"")? == Answer::Done;
            if found {
                visit(connection.body());
            }
            Ok(found)
        })
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.with("delete", |connection| connection.call(Operation::Delete, key, b"").map(drop))
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        self.with("scan", |connection| connection.scan(from, limit, visit))
    }

    fn wait_idle(&self) -> Result<()> {
        self.with("settle", |connection| connection.call(Operation::Settle, b"", b"").map(drop))
    }

    fn describe(&self) -> Vec<(String, String)> {
        let unknown = |error: BenchError| vec![("settings".to_owned(), error.to_string())];
        let mut all = self.table("describe", Operation::Describe).unwrap_or_else(unknown);
        all.extend(self.describe_process().unwrap_or_else(unknown));
        all
    }

    fn counters(&self) -> Vec<(String, f64)> {
        let lines = self.table("count", Operation::Count).unwrap_or_default();
        lines.into_iter().filter_map(|(name, text)| Some((name, text.parse().ok()?))).collect()
    }

    fn other_process(&self) -> Option<u32> {
        Some(self.peer.id())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.with("close", |connection| connection.call(Operation::Close, b"", b"").map(drop))?;
        self.peer.end().map_err(|error| BenchError::engine(self.name, "close", error))
    }
}
