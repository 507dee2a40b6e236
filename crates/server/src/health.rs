//! Whether a server answers, for those that start it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::config::Config;

/// How long a server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The first byte of what TLS answers to bytes that are none of its own.
const TLS_ALERT: u8 = 0x15;

/// Asks the server that was started with these options for an answer, and fails if none comes. A
/// server that answers that it wants a password is well, and so is one with TLS alone that refuses
/// what is not TLS: no certificate is needed for that.
pub fn health(config: &Config) -> io::Result<()> {
    if let Some(path) = &config.unix_socket {
        let socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        return answers(socket, b"+-");
    }
    let (address, begins) = match (config.addresses().first(), config.tls_listen.first()) {
        (Some(address), _) => (*address, &b"+-"[..]),
        (None, Some(address)) => (*address, &[TLS_ALERT][..]),
        (None, None) => return Err(io::Error::other("it listens nowhere")),
    };
    let socket = TcpStream::connect_timeout(&reachable(address), PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    answers(socket, begins)
}

fn answers(mut socket: impl Read + Write, begins: &[u8]) -> io::Result<()> {
    socket.write_all(b"PING\r\n")?;
    let mut first = [0];
    socket.read_exact(&mut first)?;
    match begins.contains(&first[0]) {
        true => Ok(()),
        false => {
            let first = first.escape_ascii();
            Err(io::Error::other(format!("the answer begins with {first}")))
        }
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
