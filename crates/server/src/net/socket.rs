//! A client's socket: TCP, with TLS or without, or one of the file system.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rustix::net::sockopt;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

/// How long a client may take for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// How often a client is looked after whose input is left where it is.
const ENDED_REST: Duration = Duration::from_millis(500);

/// A socket of either kind, accepted but not yet a worker's.
pub(super) enum Accepted {
    /// Over the network.
    Tcp(std::net::TcpStream),
    /// Over the network, with the certificates that the client is shown.
    Tls(std::net::TcpStream, Arc<ServerConfig>),
    /// On this machine.
    Unix(std::os::unix::net::UnixStream),
}

/// A socket of a worker.
pub(super) enum Socket {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Unix(UnixStream),
}

impl Accepted {
    /// Tells a client that it is not let in, if it can be told so early. It is not waited for.
    pub(super) fn refuse(&self, why: &[u8]) {
        use std::io::Write;
        let _ = match self {
            Self::Tcp(socket) => (&*socket).write(why),
            Self::Tls(..) => Ok(0),
            Self::Unix(socket) => (&*socket).write(why),
        };
    }

    /// Has the system ask after these seconds of silence whether the client is still there; 0 for
    /// never.
    pub(super) fn keep_alive(&self, seconds: u32) -> io::Result<()> {
        let (Self::Tcp(socket) | Self::Tls(socket, _)) = self else { return Ok(()) };
        sockopt::set_socket_keepalive(socket, seconds > 0)?;
        if seconds > 0 {
            sockopt::set_tcp_keepidle(socket, Duration::from_secs(seconds.into()))?;
            let between = Duration::from_secs((seconds / 3).max(1).into());
            sockopt::set_tcp_keepintvl(socket, between)?;
            sockopt::set_tcp_keepcnt(socket, 3)?;
        }
        Ok(())
    }

    /// The socket in the runtime of the calling worker, once the client has shaken hands.
    pub(super) async fn enter(self) -> io::Result<Socket> {
        let entered = |socket: std::net::TcpStream| {
            socket.set_nodelay(true)?;
            TcpStream::from_std(socket)
        };
        Ok(match self {
            Self::Tcp(socket) => Socket::Tcp(entered(socket)?),
            Self::Tls(socket, certificates) => {
                let shaken = TlsAcceptor::from(certificates).accept(entered(socket)?);
                Socket::Tls(Box::new(tokio::time::timeout(HANDSHAKE_TIME, shaken).await??))
            }
            Self::Unix(socket) => Socket::Unix(UnixStream::from_std(socket)?),
        })
    }
}

impl Socket {
    /// Where the client is, and where it has connected to, as `CLIENT LIST` has them.
    pub(super) fn addresses(&self) -> io::Result<(String, String)> {
        let of_tcp = |socket: &TcpStream| {
            Ok((socket.peer_addr()?.to_string(), socket.local_addr()?.to_string()))
        };
        match self {
            Self::Tcp(socket) => of_tcp(socket),
            Self::Tls(socket) => of_tcp(socket.get_ref().0),
            Self::Unix(socket) => {
                let local = socket.local_addr()?;
                let path = local.as_pathname().unwrap_or("".as_ref()).display();
                Ok((format!("{path}:0"), format!("{path}:0")))
            }
        }
    }

    /// Waits until there is something to read, or the end.
    pub(super) async fn readable(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.readable().await,
            Self::Tls(socket) => socket.fill_buf().await.map(|_| ()),
            Self::Unix(socket) => socket.readable().await,
        }
    }

    /// Waits until the client sends no more, whatever of it is not read yet.
    pub(super) async fn ended(&self) -> io::Result<()> {
        loop {
            let ready = match self {
                Self::Tcp(socket) => socket.ready(Interest::READABLE).await?,
                Self::Tls(socket) => socket.get_ref().0.ready(Interest::READABLE).await?,
                Self::Unix(socket) => socket.ready(Interest::READABLE).await?,
            };
            if ready.is_read_closed() {
                return Ok(());
            }
            // The socket is ready as long as something is not read.
            tokio::time::sleep(ENDED_REST).await;
        }
    }

    /// Reads what is there, once it is readable, into the room that `input` has; 0 at the end.
    pub(super) async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.try_read_buf(input),
            Self::Tls(socket) => socket.read_buf(input).await,
            Self::Unix(socket) => socket.try_read_buf(input),
        }
    }

    /// Sends a part of `output`, and waits until one is taken; returns its length.
    pub(super) async fn write(&mut self, output: &[u8]) -> io::Result<usize> {
        let sent = match self {
            Self::Tcp(socket) => socket.write(output).await,
            Self::Tls(socket) => {
                let sent = socket.write(output).await?;
                socket.flush().await.map(|()| sent)
            }
            Self::Unix(socket) => socket.write(output).await,
        };
        match sent {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            sent => sent,
        }
    }

    /// Says that nothing more will be sent.
    pub(super) async fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.shutdown().await,
            Self::Tls(socket) => socket.shutdown().await,
            Self::Unix(socket) => socket.shutdown().await,
        }
    }
}
