//! A server of CleaveDB that speaks the protocol of Redis: any client of Redis talks to it.
//!
//! ```
//! use std::io::{Read, Write};
//!
//! let dir = tempfile::tempdir()?;
//! let mut config = cleavedb_server::Config::new(dir.path().join("store"));
//! config.listen = vec!["127.0.0.1:0".parse()?];
//! let server = cleavedb_server::start(config)?;
//! let mut client = std::net::TcpStream::connect(server.addresses()[0])?;
//! client.write_all(b"SET fruit apple\r\nGET fruit\r\nQUIT\r\n")?;
//! let mut replies = String::new();
//! client.read_to_string(&mut replies)?;
//! assert_eq!(replies, "+OK\r\n$5\r\napple\r\n+OK\r\n");
//! server.stop();
//! server.wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod resp;
mod model;
mod exec;
mod command;
mod files;
mod config;
mod health;
mod service;
mod acl;
mod tls;
mod clients;
mod topics;
mod saves;
mod observe;
mod script;
mod shared;
mod session;
mod http;
mod net;

use std::io;
use std::sync::Arc;

use cleavedb::{Db, Durability, Options, open_files};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sd_notify::NotifyState;
use tokio_rustls::rustls::ServerConfig;

pub use self::config::{AppendFsync, Config};
pub use self::health::health;
pub use self::net::Running;

use self::acl::Users;
use self::exec::Store;
use self::http::PageGuard;
use self::observe::Observer;
use self::observe::work::BackgroundWork;
use self::shared::ServerShared;

/// Opens the store and lets clients in. The process gets as many descriptors as it may have, which
/// clients and the store share. Fails as [`check`] does, if the store cannot be opened, or if an
/// address is taken.
pub fn start(mut config: Config) -> io::Result<Running> {
    // Half of them for clients, a quarter for readers of files, and the rest for what is written.
    let descriptors = descriptors();
    config.clients_possible = u32::try_from(descriptors / 2).unwrap_or(u32::MAX);
    config.max_clients = config.max_clients.min(config.clients_possible);
    open_files::set_max(descriptors / 4);
    let Told { mut options, users, certificates } = Told::by(&config)?;
    let guard = PageGuard::of(&config, &users)?;
    let work = Arc::<BackgroundWork>::default();
    options.listeners.push(work.clone());
    service::tell(&[NotifyState::Status("opening the store")]);
    let db = Db::open(&config.dir, options).map_err(io::Error::other)?;
    let store = Store::open(db, config.databases.into()).map_err(io::Error::other)?;
    let shared = ServerShared::new(config, users, store, Observer::new(work));
    shared.certificates.store(certificates);
    session::load_libraries(&shared).map_err(io::Error::other)?;
    Running::start(Arc::new(shared), guard)
}

/// Fails if an option of the store is none, if a file that the options name cannot be read, or has
/// no users or certificates in it, or if other machines would need no token at the page. Nothing is
/// opened or made.
pub fn check(config: &Config) -> io::Result<()> {
    let Told { users, .. } = Told::by(config)?;
    PageGuard::of(config, &users).map(|_| ())
}

/// What the options and the files that they name tell.
struct Told {
    options: Options,
    users: Users,
    certificates: Option<Arc<ServerConfig>>,
}

impl Told {
    fn by(config: &Config) -> io::Result<Self> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        let options = config.store_options().map_err(invalid)?;
        let options = Options { durability: Durability::Os, ..options };
        let users = Users::new(config.requirepass.as_deref());
        if let Some(path) = &config.aclfile {
            let shown = |why: Vec<u8>| invalid(String::from_utf8_lossy(&why).into_owned());
            users.load_file(path).map_err(shown)?;
        }
        let certificates = tls::certificates(config).map_err(invalid)?;
        Ok(Self { options, users, certificates })
    }
}

/// Descriptors that this process may have, after it has asked for as many as it may ask for.
fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |current| current.try_into().unwrap_or(usize::MAX))
}
