//! What a server is told: its options, where they come from, and which may change while it runs.

mod setting;
mod redis_conf;
mod layers;
mod names;
mod rewrite;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::exec::EventClasses;
use clap::builder::BoolishValueParser;
use clap::{Parser, ValueEnum};
use cleavedb::Options;

pub use self::names::{get, set};
pub use self::rewrite::rewrite;

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
/// Writes survive the death of the process, and a second later the loss of power. Each option is
/// also a line of the file, `max_clients = 100`, and of the environment, `CLEAVE_MAX_CLIENTS=100`:
/// the command line counts before the environment, and that before the file.
#[derive(Clone, Debug, Parser)]
#[command(name = "cleave-server", version, args_override_self = true)]
pub struct Config {
    /// A file of options in TOML, which CONFIG REWRITE keeps; the store has its table
    #[arg(long = "config", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// A redis.conf, for the options that mean something here; the others are named
    #[arg(long, value_name = "FILE")]
    pub redis_config: Option<PathBuf>,
    /// Say which options hold, or what is wrong with them, and end
    #[arg(long)]
    pub check_config: bool,
    /// Ask the server that runs with these options whether it answers, and end
    #[arg(long)]
    pub health: bool,
    /// The directory of the store, which is made if it is not there
    #[arg(long, value_name = "PATH", default_value = "cleave.db")]
    pub dir: PathBuf,
    /// An address where clients connect, or several; port 0 takes a free one [default:
    /// 127.0.0.1:6379, if nothing else is listened at]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub listen: Vec<SocketAddr>,
    /// A socket of the file system where clients connect
    #[arg(long, value_name = "PATH")]
    pub unix_socket: Option<PathBuf>,
    /// Permissions of that socket, as 770 [default: as the process's umask has it]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub unix_socket_perm: Option<u32>,
    /// An address where clients connect with TLS, or several
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub tls_listen: Vec<SocketAddr>,
    /// The certificate for it, and those between it and its authority, in a file of PEM
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in a file of PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Let clients in only with a certificate of the authorities in this file of PEM
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
    /// Number of databases
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub databases: u16,
    /// When a write survives a loss of power
    #[arg(long, value_name = "WHEN", default_value = "everysec")]
    pub appendfsync: AppendFsync,
    /// What clients have to say with AUTH
    #[arg(long, value_name = "PASSWORD")]
    pub requirepass: Option<String>,
    /// A file of users, which ACL SAVE writes
    #[arg(long, value_name = "FILE")]
    pub aclfile: Option<PathBuf>,
    /// Denials that ACL LOG keeps
    #[arg(long, value_name = "N", default_value_t = 128)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=i64::MAX.cast_unsigned()))]
    pub acllog_max_len: u64,
    /// Let other machines in only with a password
    #[arg(long, value_name = "YES", default_value = "yes", action = clap::ArgAction::Set)]
    #[arg(value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub protected_mode: bool,
    /// Memory of the store: the option memory_bytes
    #[arg(long, value_name = "SIZE", value_parser = cleavedb_named::size)]
    pub memory: Option<usize>,
    /// Memory of what all clients send and are sent; a client that wants more is sent away
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = cleavedb_named::size)]
    pub client_memory: usize,
    /// Most clients at once, and at most half of the descriptors that the process may have
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub max_clients: u32,
    /// Seconds until a client that sends nothing is sent away; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(i32::MAX)))]
    pub timeout: u32,
    /// Seconds of silence until the system asks whether a client is still there; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(i32::MAX)))]
    pub tcp_keepalive: u32,
    /// Threads that run commands; 0 for one a processor
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub workers: usize,
    /// Microseconds from which a command is in SLOWLOG; below 0 none is
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(i64).range(-1..), allow_negative_numbers = true)]
    pub slowlog_log_slower_than: i64,
    /// Commands that SLOWLOG has at most
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub slowlog_max_len: usize,
    /// Milliseconds after which a script is ended, having written nothing; 0 for never
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 5000)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(i32::MAX)))]
    pub busy_reply_threshold: u32,
    /// The directory where SAVE and BGSAVE make backups, and CLEAVE.CHECKPOINT copies
    #[arg(long, value_name = "PATH")]
    pub backup_dir: Option<PathBuf>,
    /// What is told of keys by messages, in the letters of Redis, as KEA
    #[arg(long, value_name = "CLASSES", default_value = "", value_parser = event_classes)]
    pub notify_keyspace_events: EventClasses,
    /// The address of the page, of metrics and of health, over HTTP; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// A file with the token that the page asks for, which other machines need
    #[arg(long, value_name = "FILE")]
    pub http_token_file: Option<PathBuf>,
    /// Whether the page shows keys and values [default: on the loopback address]
    #[arg(long, value_name = "YES", num_args = 0..=1, default_missing_value = "yes")]
    #[arg(value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub http_browse: Option<bool>,
    /// Whether the page changes keys and sends clients away
    #[arg(long, value_name = "YES", num_args = 0..=1, default_missing_value = "yes")]
    #[arg(default_value = "no", action = clap::ArgAction::Set)]
    #[arg(value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub http_edit: bool,
    /// An option of the store, as record_cache_bytes=1GiB or preset=hoakv
    #[arg(long = "with", value_name = "NAME=VALUE", value_delimiter = ' ')]
    pub store: Vec<String>,
    /// What is to be said about how these options were read.
    #[arg(skip)]
    pub notes: Vec<String>,
    /// The options that hold, as lines of a file, if they were read.
    #[arg(skip)]
    pub holds: String,
    /// Clients for which the process has descriptors.
    #[arg(skip = u32::MAX)]
    pub clients_possible: u32,
    /// Options that have changed since the start, by their names, with their values.
    #[arg(skip)]
    pub changed: BTreeMap<&'static str, String>,
}

/// Classes of what is told of keys.
fn event_classes(letters: &str) -> Result<EventClasses, &'static str> {
    EventClasses::of(letters.as_bytes()).ok_or("the letters of classes are g$lshzxetdmnA, K and E")
}

impl Config {
    /// The defaults, for a store in this directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), ..Self::parse_from(["cleave-server"]) }
    }

    /// The addresses where clients connect without TLS.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let listens_elsewhere = !self.tls_listen.is_empty() || self.unix_socket.is_some();
        match self.listen.is_empty() && !listens_elsewhere {
            true => vec![(Ipv4Addr::LOCALHOST, 6379).into()],
            false => self.listen.clone(),
        }
    }

    /// The options of the store, or why they are none.
    pub fn store_options(&self) -> Result<Options, String> {
        let memory = self.memory.map(|bytes| format!("memory_bytes={bytes}"));
        cleavedb_named::options(memory.iter().chain(&self.store).map(String::as_str))
    }
}

/// Reads the permissions of a file.
fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "these are permissions such as 770".to_owned())
}
