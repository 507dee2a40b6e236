//! Whether a server answers, for those that start it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::config::Config;

/// How long a server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the server that was started with these options for an answer, and fails if none comes. A
/// server that answers that it wants a password is well. One that listens with TLS alone cannot be
/// asked.
pub fn health(config: &Config) -> io::Result<()> {
    if let Some(path) = &config.unix_socket {
        let socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        return answers(socket);
    }
    let Some(address) = config.addresses().first().copied() else {
        let why = "it listens with TLS alone: give it a unix_socket, too, to ask how it is";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    };
    let socket = TcpStream::connect_timeout(&reachable(address), PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    answers(socket)
}

fn answers(mut socket: impl Read + Write) -> io::Result<()> {
    socket.write_all(b"PING\r\n")?;
    let mut first = [0];
    socket.read_exact(&mut first)?;
    match first[0] {
        b'+' | b'-' => Ok(()),
        other => Err(io::Error::other(format!("the answer begins with {}", other.escape_ascii()))),
    }
}

/// The address of this machine, where a server listens at all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
