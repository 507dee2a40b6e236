//! What a server is told: its options, and their names in `CONFIG GET`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::command::STRING_MAX;

/// When writes survive a loss of power, with Redis's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AppendFsync {
    /// Before the reply.
    Always,
    /// A second later at most.
    #[default]
    Everysec,
    /// When the system writes them.
    No,
}

/// A server of CleaveDB that speaks the protocol of Redis: any client of Redis talks to it.
///
/// Writes survive the death of the process, and a second later the loss of power.
#[derive(Clone, Debug, Parser)]
#[command(name = "cleave-server", version)]
pub struct Config {
    /// The directory of the store, which is made if it is not there
    #[arg(long, value_name = "PATH", default_value = "cleave.db")]
    pub dir: PathBuf,
    /// The address where clients connect; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6379")]
    pub listen: SocketAddr,
    /// A socket of the file system where clients connect as well
    #[arg(long, value_name = "PATH")]
    pub unix_socket: Option<PathBuf>,
    /// Number of databases
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub databases: u16,
    /// When a write survives a loss of power
    #[arg(long, value_name = "WHEN", default_value = "everysec")]
    pub append_fsync: AppendFsync,
    /// What clients have to say with AUTH
    #[arg(
        long = "requirepass",
        value_name = "PASSWORD",
        env = "CLEAVE_REQUIREPASS",
        hide_env_values = true
    )]
    pub password: Option<String>,
    /// Let clients of other machines in without a password
    #[arg(long)]
    pub unprotected: bool,
    /// Memory of what all clients send and are sent; a client that wants more is sent away
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = cleavedb_named::size)]
    pub client_memory: usize,
    /// Most clients at once, and at most half of the descriptors that the process may have
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max_clients: usize,
    /// Threads that run commands; 0 for one a processor
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub workers: usize,
    /// An option of the store, as memory_bytes=1GiB or preset=hoakv
    #[arg(long = "with", value_name = "NAME=VALUE")]
    pub store: Vec<String>,
}

impl Config {
    /// The defaults, for a store in this directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), ..Self::parse_from(["cleave-server"]) }
    }

    /// The names of Redis, and their values here.
    pub fn named(&self) -> Vec<(&'static str, String)> {
        let fsync = match self.append_fsync {
            AppendFsync::Always => "always",
            AppendFsync::Everysec => "everysec",
            AppendFsync::No => "no",
        };
        vec![
            ("appendfsync", fsync.to_owned()),
            ("appendonly", "yes".to_owned()),
            ("bind", self.listen.ip().to_string()),
            ("databases", self.databases.to_string()),
            ("dir", self.dir.display().to_string()),
            ("maxclients", self.max_clients.to_string()),
            ("port", self.listen.port().to_string()),
            ("proto-max-bulk-len", STRING_MAX.to_string()),
            ("save", String::new()),
        ]
    }
}
