//! Where clients connect, and which of them are let in.

use std::fs::{Metadata, Permissions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};

use super::socket::Accepted;
use super::{Door, WorkerPlace};
use crate::config::Config;
use crate::shared::ServerShared;

/// What a client of another machine is told that would need no password.
const PROTECTED: &[u8] = b"-DENIED protected mode: other machines are let in only with a \
password. Set one from this machine, with CONFIG SET requirepass, or at the start, with \
--requirepass; or say --protected-mode no, if all of them may read and write.\r\n";

/// A place where clients connect.
pub(super) enum Listener {
    /// An address.
    Tcp(TcpListener),
    /// An address for TLS.
    Tls(TcpListener),
    /// A socket of the file system.
    Unix(UnixListener),
}

impl Listener {
    /// Listens wherever the options say.
    pub(super) async fn all(config: &Config) -> io::Result<Vec<Self>> {
        let mut all = Vec::new();
        for address in config.addresses() {
            all.push(Self::Tcp(at(address).await?));
        }
        for address in &config.tls_listen {
            all.push(Self::Tls(at(*address).await?));
        }
        if let Some(path) = &config.unix_socket {
            let is_socket = |found: Metadata| found.file_type().is_socket();
            // One that a killed server has left: where another one listens, it is not taken away.
            if std::fs::symlink_metadata(path).is_ok_and(is_socket)
                && UnixStream::connect(path).is_err()
            {
                std::fs::remove_file(path)?;
            }
            let socket = UnixListener::bind(path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?;
            if let Some(mode) = config.unix_socket_perm {
                std::fs::set_permissions(path, Permissions::from_mode(mode))?;
            }
            all.push(Self::Unix(socket));
        }
        Ok(all)
    }

    /// The address, if it is one.
    fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Tcp(listener) | Self::Tls(listener) => listener.local_addr().map(Some),
            Self::Unix(_) => Ok(None),
        }
    }

    /// The addresses of those with TLS, or of those without; with the ports that are free ones.
    pub(super) fn addresses(all: &[Self], with_tls: bool) -> io::Result<Vec<SocketAddr>> {
        let is_wanted = |listener: &&Self| matches!(listener, Self::Tls(_)) == with_tls;
        all.iter().filter(is_wanted).filter_map(|it| it.address().transpose()).collect()
    }

    /// A command line that connects to it.
    pub(super) fn example(&self, config: &Config) -> io::Result<String> {
        let before = if matches!(self, Self::Tls(_)) { "redis-cli --tls" } else { "redis-cli" };
        Ok(match (self.address()?, &config.unix_socket) {
            (Some(address), _) => format!("{before} -h {} -p {}", address.ip(), address.port()),
            (None, None) => before.to_owned(),
            (None, Some(path)) => format!("{before} -s {}", path.display()),
        })
    }

    /// Ends it; no file of it is left.
    fn end(self, config: &Config) {
        if let (Self::Unix(_), Some(path)) = (&self, &config.unix_socket) {
            // While it listens no other server takes its place. A file that has gone is no fault.
            let _ = std::fs::remove_file(path);
        }
    }

    /// The next client, and the address from where it comes, if it has one.
    async fn accept(&self, shared: &ServerShared) -> io::Result<(Accepted, Option<IpAddr>)> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (socket, from) = listener.accept().await?;
                (Accepted::Tcp(socket.into_std()?), Some(from.ip().to_canonical()))
            }
            Self::Tls(listener) => {
                let (socket, from) = listener.accept().await?;
                let certificates = shared.certificates.load_full();
                let certificates = certificates.ok_or(io::ErrorKind::NotConnected)?;
                let accepted = Accepted::Tls(socket.into_std()?, certificates);
                (accepted, Some(from.ip().to_canonical()))
            }
            Self::Unix(listener) => (Accepted::Unix(listener.accept().await?.0.into_std()?), None),
        })
    }
}

async fn at(address: SocketAddr) -> io::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))
}

/// Accepts clients, and gives each to the worker with the fewest.
pub(super) async fn accept(listener: Listener, shared: Arc<ServerShared>, doors: Arc<[Door]>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(&shared) => accepted,
            () = shared.stop.cancelled() => return listener.end(&shared.config.load()),
        };
        let Ok((socket, from)) = accepted else {
            // No descriptor is left, or the client has gone: others go on.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let config = shared.config.load_full();
        let is_open = config.protected_mode && shared.users.default().rules.load().needs_none;
        if is_open && from.is_some_and(|from| !from.is_loopback()) {
            socket.refuse(PROTECTED);
            continue;
        }
        let clients = |door: &&Door| door.clients.load(Ordering::Relaxed);
        let all: usize = doors.iter().map(|door| clients(&door)).sum();
        if all >= config.max_clients as usize {
            shared.observer.refused.fetch_add(1, Ordering::Relaxed);
            socket.refuse(b"-ERR max number of clients reached\r\n");
            continue;
        }
        // Only a system without keepalive refuses it.
        let _ = socket.keep_alive(config.tcp_keepalive);
        if let Some(door) = doors.iter().min_by_key(clients) {
            // A worker that stops takes no more.
            let _ = door.accepted.send((socket, WorkerPlace::take(&door.clients)));
        }
    }
}
