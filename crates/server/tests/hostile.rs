//! Clients that are broken, slow or greedy: each one suffers alone, and the server goes on.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use cleavedb_server::{Config, Running, start};

/// A server that is stopped at the end of its test.
struct Server(Option<Running>);

impl Server {
    fn start(dir: &tempfile::TempDir, client_memory: usize) -> Self {
        let mut config = Config::new(dir.path().join("store"));
        config.listen = vec!["127.0.0.1:0".parse().unwrap()];
        config.client_memory = client_memory;
        Self(Some(start(config).unwrap()))
    }

    fn address(&self) -> SocketAddr {
        self.0.as_ref().unwrap().addresses()[0]
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client
    }

    /// Whether another client is answered, and not sent away.
    fn answers(&self) -> bool {
        let mut client = self.connect();
        let mut replies = String::new();
        let sent = client.write_all(b"SET ping 1\r\nGET ping\r\nQUIT\r\n");
        let _ = sent.and_then(|()| client.read_to_string(&mut replies));
        replies == "+OK\r\n$1\r\n1\r\n+OK\r\n"
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let running = self.0.take().unwrap();
        running.stop();
        running.wait().unwrap();
    }
}

/// Bytes that look like commands often enough to get far.
fn noise(draw: &mut fastrand::Rng) -> Vec<u8> {
    let pieces: [&[u8]; 12] = [
        b"*3\r\n",
        b"*1000000\r\n",
        b"$3\r\n",
        b"SET",
        b"\r\n",
        b"$-1\r\n",
        b"PING\r\n",
        b"\"",
        b"GET",
        b"*0\r\n",
        b"$1\r\na\r\n",
        b"\0\xff",
    ];
    (0..draw.usize(..40)).flat_map(|_| pieces[draw.usize(..pieces.len())].to_vec()).collect()
}

#[test]
fn noise_ends_no_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, 64 << 20);
    let mut draw = fastrand::Rng::with_seed(51);
    for _ in 0..500 {
        let mut client = server.connect();
        for _ in 0..draw.usize(1..4) {
            // The server may have closed the connection already.
            let _ = client.write_all(&noise(&mut draw));
        }
    }
    assert!(server.answers());
}

#[test]
fn clients_that_declare_much_take_little() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, 16 << 20);
    // Together 6.4 GiB, if each were believed.
    let mut clients: Vec<_> = (0..100).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$67108864\r\nbegin").unwrap();
    }
    // Clients without room were sent away, and the others left with their memory.
    drop(clients);
    while !server.answers() {}
}

#[test]
fn who_wants_more_than_there_is_is_sent_away() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, 4 << 20);
    let mut client = server.connect();
    let head = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$33554432\r\n";
    client.write_all(head).unwrap();
    // The write ends early, since the server closes the connection.
    let _ = client.write_all(&vec![b'v'; 32 << 20]);
    let mut why = Vec::new();
    let _ = client.read_to_end(&mut why);
    // The memory comes back with the end of its connection.
    while !server.answers() {}
    // A long value that fits is stored.
    let mut client = server.connect();
    client.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1048576\r\n").unwrap();
    client.write_all(&vec![b'v'; 1 << 20]).unwrap();
    client.write_all(b"\r\nSTRLEN a\r\nQUIT\r\n").unwrap();
    let mut replies = String::new();
    client.read_to_string(&mut replies).unwrap();
    assert_eq!(replies, "+OK\r\n:1048576\r\n+OK\r\n");
}

/// What is queued, watched and subscribed to is memory of the client, too.
#[test]
fn a_session_that_keeps_much_is_sent_away() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, 4 << 20);
    let value = "v".repeat(60_000);
    let queued = |number: u32| format!("SET {number} {value}\r\n");
    let named = |command: &'static str| {
        move |number: u32| {
            let names = (0..400).map(|name| format!(" {number:06}{name:060}"));
            format!("{command}{}\r\n", names.collect::<String>())
        }
    };
    let lines: [(&str, &dyn Fn(u32) -> String); 3] =
        [("MULTI\r\n", &queued), ("", &named("WATCH")), ("", &named("SUBSCRIBE"))];
    for (first, line) in lines {
        let mut client = server.connect();
        client.write_all(first.as_bytes()).unwrap();
        let mut reader = client.try_clone().unwrap();
        let read = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        let _ = (0..200).try_for_each(|number| client.write_all(line(number).as_bytes()));
        // The end may come as a reset, since the server has not read all.
        let is_late = |e: std::io::Error| e.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!read.join().unwrap().is_err_and(is_late), "{}", line(0).len());
        while !server.answers() {}
    }
}

#[test]
fn who_does_not_read_replies_gets_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, 64 << 20);
    let mut client = server.connect();
    client.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1048576\r\n").unwrap();
    client.write_all(&vec![b'v'; 1 << 20]).unwrap();
    client.write_all(b"\r\n").unwrap();
    // Replies of 10 GiB, of which none is taken: more than this machine would hold.
    client.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    for _ in 0..10_000 {
        if client.write_all(b"GET a\r\n").is_err() {
            break;
        }
    }
    assert!(server.answers());
    let resident = resident_kib();
    assert!(resident < 1 << 20, "{resident} KiB");
}

/// Memory that this process has, in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    resident.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Eight clients ask for 100 MB each and take nothing, then all of it.
#[test]
fn long_replies_take_little_memory() {
    const FIELDS: usize = 400;
    const LEN: usize = 256 << 10;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, 64 << 20);
    let mut writer = server.connect();
    for field in 0..FIELDS {
        let head = format!("*4\r\n$4\r\nHSET\r\n$1\r\na\r\n$3\r\n{field:03}\r\n${LEN}\r\n");
        writer.write_all(&[head.as_bytes(), &vec![b'v'; LEN], b"\r\n"].concat()).unwrap();
    }
    writer.write_all(b"QUIT\r\n").unwrap();
    writer.read_to_end(&mut Vec::new()).unwrap();
    let before = resident_kib();
    let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|it| it.write_all(b"HGETALL a\r\nQUIT\r\n").unwrap());
    std::thread::sleep(Duration::from_millis(700));
    assert!(server.answers());
    let more = resident_kib().saturating_sub(before);
    assert!(more < 200 << 10, "{more} KiB");
    for client in &mut clients {
        let len = std::io::copy(client, &mut std::io::sink()).unwrap() as usize;
        let of_field = "$3\r\n000\r\n$262144\r\n\r\n".len() + LEN;
        assert_eq!(len, "*800\r\n+OK\r\n".len() + FIELDS * of_field);
    }
}

#[test]
fn a_slow_client_stops_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, 64 << 20);
    let mut slow = server.connect();
    for byte in b"*2\r\n$3\r\nGET\r\n$4\r\nping\r\n" {
        slow.write_all(&[*byte]).unwrap();
        assert!(server.answers());
    }
    let mut reply = [0; 7];
    slow.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"$1\r\n1\r\n");
}
