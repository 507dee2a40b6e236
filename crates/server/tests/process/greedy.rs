//! Clients that are truncated, huge, slow and greedy, at a server with little memory for them: it
//! goes on, and stays within its limits.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::running::Server;

/// How long they try.
const TIME: Duration = Duration::from_secs(4);

/// The most that the server takes, in KiB: its store has 64 MiB, its clients 16 for what they send,
/// a reply of each up to 2, and a command up to four copies of what it writes. It was 387 MiB after
/// 100 seconds, and 267 after 4.
const RESIDENT_MAX: u64 = 512 << 10;

/// A command of a number of arguments of a length.
fn command(name: &str, args: usize, len: usize) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n${}\r\n{name}\r\n", args + 1, name.len()).into_bytes();
    for number in 0..args {
        let number = number.to_string();
        let fill = "0".repeat(len - number.len());
        bytes.extend(format!("${len}\r\n{fill}{number}\r\n").bytes());
    }
    bytes
}

/// What a client sends, again and again.
fn piece(draw: &mut Rng) -> Vec<u8> {
    let noise = |draw: &mut Rng| (0..draw.usize(..2000)).map(|_| draw.u8(..)).collect();
    match draw.usize(..14) {
        0 => noise(draw),
        1 => b"*1048576\r\n".to_vec(),
        2 => command("DEL", 50_000, 5),
        3 => command("SET", 2, 4 << 20),
        4 => b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$60000000\r\nbegin".to_vec(),
        5 => [&b"*1\r\n$5\r\nMULTI\r\n"[..], &command("SET", 2, 60_000).repeat(20)].concat(),
        6 => command("WATCH", 2000, 100),
        7 => command("SUBSCRIBE", 2000, 100),
        8 => b"GET long\r\n".repeat(40),
        9 => b"HGETALL hash\r\nLRANGE list 0 -1\r\n".repeat(5),
        10 => command("EVAL", 3, 70_000),
        11 => [&b"*4\r\n$4\r\nHSET\r\n$4\r\nhash\r\n"[..], b"$1\r\na\r\n$70000\r\n"].concat(),
        12 => command("PUBLISH", 2, 100).repeat(50),
        _ => b"PING \"a".to_vec(),
    }
}

/// A client that sends pieces, takes some of the replies or none, and begins anew when it is left.
fn try_hard(address: &str, mut draw: Rng, end: Instant) {
    let mut taken = vec![0; 64 << 10];
    while Instant::now() < end {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let (takes, is_slow) = (draw.bool(), draw.u8(..8) == 0);
        for _ in 0..draw.usize(1..60) {
            let bytes = piece(&mut draw);
            let sent = match is_slow {
                false => client.write_all(&bytes),
                true => bytes.iter().take(20).try_for_each(|byte| {
                    thread::sleep(Duration::from_millis(1));
                    client.write_all(&[*byte])
                }),
            };
            let is_over = |e: std::io::Error| {
                !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
            };
            let left = takes && matches!(client.read(&mut taken), Ok(0));
            if left || sent.is_err_and(is_over) || Instant::now() > end {
                break;
            }
        }
    }
}

/// Memory that the server's process has, in KiB.
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn greedy_clients_make_no_server_large() {
    let dir = tempfile::tempdir().unwrap();
    let limits = ["--client-memory", "16MiB", "--memory", "64MiB"];
    let server = Server::start(&dir.path().join("store"), &limits);
    let mut writer = server.connect();
    writer.write_all(b"*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n$1000000\r\n").unwrap();
    writer.write_all(&[&vec![b'v'; 1_000_000][..], b"\r\n"].concat()).unwrap();
    for number in 0..200 {
        let value = "v".repeat(60_000);
        let field = format!("HSET hash {number} {value}\r\nRPUSH list {value}\r\n");
        writer.write_all(field.as_bytes()).unwrap();
    }
    let end = Instant::now() + TIME;
    let most = thread::scope(|scope| {
        for seed in 0..16 {
            let address = server.address.clone();
            scope.spawn(move || try_hard(&address, Rng::with_seed(seed), end));
        }
        let mut most = 0;
        while Instant::now() < end {
            most = most.max(resident(&server));
            thread::sleep(Duration::from_millis(20));
        }
        most
    });
    // Clients that have gone give back what they had.
    let begun = Instant::now();
    let is_answered = || {
        let mut client = server.connect();
        let mut replies = String::new();
        let asked = client.write_all(b"SET ping 1\r\nGET ping\r\nQUIT\r\n");
        let _ = asked.and_then(|()| client.read_to_string(&mut replies));
        replies == "+OK\r\n$1\r\n1\r\n+OK\r\n"
    };
    while !is_answered() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the server does not answer");
    }
    assert!(most < RESIDENT_MAX, "{most} KiB");
}
