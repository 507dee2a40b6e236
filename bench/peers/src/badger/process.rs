//! The Go program as a child process.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::wire::Connection;

/// What the program says when it can be asked.
const READY: &str = "ready";

/// A running program with one database. It ends with its standard input, which is held here: also
/// if this process dies.
pub struct Peer {
    child: Child,
    address: SocketAddr,
}

impl Peer {
    /// Starts `program` on `directory`, for a memory `limit` if there is one; returns once the
    /// database is open.
    pub fn start(
        program: &Path,
        directory: &Path,
        separate_from: u64,
        limit: Option<u64>,
    ) -> io::Result<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        // An abstract name: the path of a store may be longer than a socket's may be.
        let name = format!("bench-peers-badger-{}-{number}", process::id());
        let child = Command::new(program)
            .arg("-dir")
            .arg(directory)
            .args(["-socket", &format!("@{name}")])
            .args(["-separate-from", &separate_from.to_string()])
            .args(limit.map(|bytes| format!("-memory-limit={bytes}")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut peer = Self { child, address: SocketAddr::from_abstract_name(name)? };
        let output = peer.child.stdout.take().expect("piped above");
        let mut said = String::new();
        BufReader::new(output).read_line(&mut said)?;
        match said.trim_end() {
            READY => Ok(peer),
            "" => Err(io::Error::other("badger-peer ended before it was ready")),
            error => Err(io::Error::other(error.to_owned())),
        }
    }

    /// One more connection.
    pub fn connect(&self) -> io::Result<Connection> {
        Ok(Connection::new(UnixStream::connect_addr(&self.address)?))
    }

    /// Of the program.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// In whose control groups the process is: a memory limit must hold for both together.
    pub fn memory_group(&self) -> String {
        let groups = |process: &str| fs::read_to_string(format!("/proc/{process}/cgroup")).ok();
        match (groups("self"), groups(&self.id().to_string())) {
            (Some(ours), Some(theirs)) if ours == theirs => {
                "its own, in the control groups of the harness and counted with it".to_owned()
            }
            (Some(_), Some(_)) => "NOT in the control groups of the harness".to_owned(),
            _ => "its own, in unknown control groups".to_owned(),
        }
    }

    /// Waits for the end of a program that was asked to close its database.
    pub fn end(mut self) -> io::Result<()> {
        let status = self.hang_up()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("badger-peer ended with {status}")))
    }

    fn hang_up(&mut self) -> io::Result<process::ExitStatus> {
        drop(self.child.stdin.take());
        self.child.wait()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The error is ignored, since a drop cannot return it; the program ends at once.
        let _ = self.hang_up();
    }
}
