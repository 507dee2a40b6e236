//! Clients over TLS.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::configuration::said;
use crate::running::Server;

type Client = StreamOwned<ClientConnection, TcpStream>;

/// An authority, and what it has signed.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

impl Authority {
    /// A new one.
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Writes a certificate of `name`, its key, and that of the authority into a directory.
    pub fn sign(&self, dir: &Path, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(dir.join(format!("{name}.pem")), signed.pem()).unwrap();
        std::fs::write(dir.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// A client that trusts the authority, and shows a certificate if it has one.
    fn connect(&self, server: &Server, own: Option<(&Path, &str)>) -> Client {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((dir, name)) => {
                let path = |kind: &str| dir.join(format!("{name}.{kind}"));
                let chain = CertificateDer::from_pem_file(path("pem")).unwrap();
                let key = PrivateKeyDer::from_pem_file(path("key")).unwrap();
                builder.with_client_auth_cert(vec![chain], key).unwrap()
            }
        };
        let name = "localhost".try_into().unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = server.connect();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        StreamOwned::new(connection, socket)
    }
}

/// What a client is answered, behind which the connection ends; the error of TLS if it is not.
fn answered(mut client: Client, lines: &[u8]) -> Result<Vec<u8>, std::io::Error> {
    client.write_all(lines)?;
    client.write_all(b"QUIT\r\n")?;
    let mut replies = Vec::new();
    match client.read_to_end(&mut replies) {
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(error),
        _ if replies.is_empty() => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(replies),
    }
}

const NAMES: [&str; 6] =
    ["--tls-listen", "127.0.0.1:0", "--tls-cert", "server.pem", "--tls-key", "server.key"];

/// The program with these certificates, whose standard error is read by line.
fn start(dir: &Path, more: &[&str]) -> (Server, BufReader<std::process::ChildStderr>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cleave-server"));
    command.args(NAMES).args(more).current_dir(dir);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let errors = BufReader::new(child.stderr.take().unwrap());
    (Server::ready(child), errors)
}

#[test]
fn commands_go_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.sign(dir.path(), "server");
    let (server, _errors) = start(dir.path(), &[]);
    let set = |key: &str, len: usize| {
        let head = format!("*3\r\n$3\r\nSET\r\n$1\r\n{key}\r\n${len}\r\n");
        [head.as_bytes(), &vec![b'v'; len], b"\r\n"].concat()
    };
    let lines = [set("a", 3 << 20), set("b", 5), b"MGET a b\r\n".to_vec()].concat();
    // One that says nothing holds no other up.
    let _silent = server.connect();
    let replies = answered(authority.connect(&server, None), &lines).unwrap();
    let head = format!("+OK\r\n+OK\r\n*2\r\n${}\r\n", 3 << 20);
    assert!(replies.starts_with(head.as_bytes()) && replies.ends_with(b"$5\r\nvvvvv\r\n+OK\r\n"));
    // Bytes that arrive with the last ones of a command are not left in the layer below.
    let mut slow = authority.connect(&server, None);
    for _ in 0..3 {
        slow.write_all(b"PING\r\nPI").unwrap();
        slow.write_all(b"NG\r\n").unwrap();
        let mut pongs = [0; 14];
        slow.read_exact(&mut pongs).unwrap();
        assert_eq!(&pongs, b"+PONG\r\n+PONG\r\n");
    }
    let other = Authority::new();
    assert!(answered(other.connect(&server, None), b"PING\r\n").is_err(), "not of this authority");
    // Whether it answers is asked without a certificate, and not of one that speaks no TLS.
    let health = |address: &str| {
        let asked = said(dir.path(), &["--health", "--tls-listen", address], &[]);
        asked.status.code()
    };
    assert_eq!(health(&server.address), Some(0));
    let without = Server::start(&dir.path().join("without"), &[]);
    assert_eq!(health(&without.address), Some(1));
    let mut plain = server.connect();
    plain.write_all(b"PING\r\n").unwrap();
    let mut refused = Vec::new();
    let _ = plain.read_to_end(&mut refused);
    assert!(!refused.starts_with(b"+"), "{refused:?}");
}

#[test]
fn clients_may_need_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    authority.sign(dir.path(), "server");
    authority.sign(dir.path(), "client");
    other.sign(dir.path(), "stranger");
    std::fs::write(dir.path().join("ca.pem"), authority.certificate.pem()).unwrap();
    let (server, _errors) = start(dir.path(), &["--tls-client-ca", "ca.pem"]);
    let ask = |own| answered(authority.connect(&server, own), b"PING\r\n");
    assert_eq!(ask(Some((dir.path(), "client"))).unwrap(), b"+PONG\r\n+OK\r\n");
    assert!(ask(None).is_err());
    assert!(ask(Some((dir.path(), "stranger"))).is_err());
}

#[test]
fn certificates_change_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (Authority::new(), Authority::new());
    first.sign(dir.path(), "server");
    let (server, mut errors) = start(dir.path(), &[]);
    let mut before = first.connect(&server, None);
    before.write_all(b"PING\r\n").unwrap();
    let mut told = || {
        let id = server.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        line
    };
    std::fs::write(dir.path().join("server.pem"), "nothing").unwrap();
    let kept = told();
    assert!(kept.contains("stay as they were: server.pem: no certificate is in it"), "{kept}");
    assert!(answered(first.connect(&server, None), b"PING\r\n").is_ok());
    second.sign(dir.path(), "server");
    assert!(told().contains("certificates read"));
    assert!(answered(second.connect(&server, None), b"PING\r\n").is_ok());
    assert!(answered(first.connect(&server, None), b"PING\r\n").is_err());
    let mut pong = [0; 7];
    before.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"+PONG\r\n", "a connection stays");
}

#[test]
fn certificates_that_are_none_are_named() {
    let dir = tempfile::tempdir().unwrap();
    Authority::new().sign(dir.path(), "server");
    Authority::new().sign(dir.path(), "other");
    std::fs::write(dir.path().join("empty.pem"), "").unwrap();
    for (more, why) in [
        (&["--tls-key", "missing.key"][..], "missing.key: "),
        (&["--tls-key", "empty.pem"], "empty.pem: "),
        (&["--tls-cert", "empty.pem"], "empty.pem: no certificate is in it"),
        (&["--tls-key", "other.key"], "server.pem: "),
        (&["--tls-client-ca", "empty.pem"], "empty.pem: no certificate is in it"),
    ] {
        let said = said(dir.path(), &[&NAMES, more, &["--check-config"]].concat(), &[]);
        let told = String::from_utf8(said.stderr).unwrap();
        assert!(!said.status.success() && told.contains(why), "{more:?}: {told}");
    }
    let said = said(dir.path(), &["--tls-listen", "127.0.0.1:0"], &[]);
    let told = String::from_utf8(said.stderr).unwrap();
    assert!(told.contains("tls_listen needs tls_cert and tls_key"), "{told}");
}
