//! Clients that are broken, slow or greedy: each one suffers alone, and the server goes on.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use cleavedb_server::{Config, Running, start};

/// A server that is stopped at the end of its test.
struct Server(Option<Running>);

impl Server {
    fn start(dir: &tempfile::TempDir, client_memory: usize) -> Self {
        Self::with(dir, |config| config.client_memory = client_memory)
    }

    fn with(dir: &tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(dir.path().join("store"));
        config.listen = vec!["127.0.0.1:0".parse().unwrap()];
        change(&mut config);
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
        let stopped = running.wait();
        if !std::thread::panicking() {
            stopped.unwrap();
        }
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

/// A client that has written a string of `len` bytes.
fn with_string(server: &Server, len: usize) -> TcpStream {
    let mut client = server.connect();
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${len}\r\n");
    client.write_all(&[head.as_bytes(), &vec![b'v'; len], b"\r\n"].concat()).unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    client
}

/// Replies that wait for their clients are memory of these, too.
#[test]
fn who_is_sent_more_than_there_is_room_for_is_sent_away() {
    const LEN: usize = 8 << 20;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, 20 << 20);
    drop(with_string(&server, LEN));
    let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.write_all(b"PING\r\n").unwrap();
        client.read_exact(&mut [0; 7]).unwrap();
    }
    clients.iter_mut().for_each(|it| it.write_all(b"GET a\r\nQUIT\r\n").unwrap());
    let listed = || {
        let (mut client, mut replies) = (server.connect(), String::new());
        client.write_all(b"CLIENT LIST\r\nQUIT\r\n").unwrap();
        let _ = client.read_to_string(&mut replies);
        replies.matches("id=").count()
    };
    let begun = Instant::now();
    while listed() > 8 {
        assert!(begun.elapsed() < Duration::from_secs(20), "all are kept");
        std::thread::sleep(Duration::from_millis(20));
    }
    let whole = clients.iter_mut().map(|client| {
        let taken = std::io::copy(client, &mut std::io::sink());
        taken.is_ok_and(|taken| taken as usize > LEN)
    });
    assert!((1..8).contains(&whole.filter(|is_whole| *is_whole).count()));
    while !server.answers() {}
}

#[test]
fn clients_without_a_password_take_no_memory_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(&dir, |config| {
        config.client_memory = 4 << 20;
        config.requirepass = Some("secret".to_owned());
    });
    let mut client = server.connect();
    client.write_all(b"AUTH secret\r\n").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    let argument = format!("$16384\r\n{}\r\n", "v".repeat(16384));
    let begun = format!("*10\r\n{}", argument.repeat(9));
    let mut strangers: Vec<_> = (0..100).map(|_| server.connect()).collect();
    for stranger in &mut strangers {
        // The server may have closed the connection already.
        let _ = stranger.write_all(begun.as_bytes());
    }
    client.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1048576\r\n").unwrap();
    client.write_all(&vec![b'v'; 1 << 20]).unwrap();
    client.write_all(b"\r\nSTRLEN a\r\nQUIT\r\n").unwrap();
    let mut replies = String::new();
    client.read_to_string(&mut replies).unwrap();
    assert_eq!(replies, "+OK\r\n:1048576\r\n+OK\r\n");
}

#[test]
fn a_long_command_that_was_run_takes_no_memory() {
    const KEYS: usize = 100_000;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, 16 << 20);
    let command = [format!("*{}\r\n$3\r\nDEL\r\n", KEYS + 1), "$1\r\na\r\n".repeat(KEYS)].concat();
    let idle = (0..8).map(|_| {
        let mut client = server.connect();
        client.write_all(command.as_bytes()).unwrap();
        let mut reply = [0; 4];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b":0\r\n");
        client
    });
    assert_eq!(idle.collect::<Vec<_>>().len(), 8);
}

#[test]
fn a_client_with_much_to_do_leaves_others_their_turn() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(&dir, |config| config.workers = 1);
    let mut greedy = with_string(&server, 1 << 20);
    greedy.write_all(&b"BITCOUNT a\r\n".repeat(1300)).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!(server.answers());
    greedy.set_nonblocking(true).unwrap();
    let read = greedy.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(read, Err(std::io::ErrorKind::WouldBlock), "the first one is done before");
}

/// Writes that come together are one batch, which fails as one.
#[test]
fn a_key_that_is_too_long_fails_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, 64 << 20);
    let set = |key: &str| format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$1\r\nv\r\n", key.len());
    let mut client = server.connect();
    let lines = [set("a"), set(&"k".repeat(65_534)), set("b"), "QUIT\r\n".to_owned()];
    client.write_all(lines.concat().as_bytes()).unwrap();
    let mut replies = String::new();
    client.read_to_string(&mut replies).unwrap();
    let firsts: Vec<&str> = replies.lines().filter_map(|line| line.get(..3)).collect();
    assert_eq!(firsts, ["+OK", "-ER", "+OK", "+OK"], "{replies}");
}

#[test]
fn clients_that_take_nothing_delay_no_stop() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, 64 << 20);
    let mut client = with_string(&server, 1 << 20);
    client.write_all(&b"GET a\r\n".repeat(100)).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn clients_that_wait_for_a_lock_keep_no_thread() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, 64 << 20);
    let mut holder = server.connect();
    let script = "local n = redis.call('time')[1] repeat until redis.call('time')[1] - n > 3";
    holder.write_all(format!("EVAL \"{script}\" 1 held\r\n").as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let mut writers: Vec<_> = (0..100).map(|_| server.connect()).collect();
    writers.iter_mut().for_each(|it| it.write_all(b"INCR held\r\n").unwrap());
    std::thread::sleep(Duration::from_millis(300));
    let mut client = server.connect();
    client.write_all(b"WAITAOF 1 0 0\r\nQUIT\r\n").unwrap();
    let mut replies = String::new();
    client.read_to_string(&mut replies).unwrap();
    assert_eq!(replies, "*2\r\n:1\r\n:0\r\n+OK\r\n");
    holder.set_nonblocking(true).unwrap();
    let read = holder.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(read, Err(std::io::ErrorKind::WouldBlock), "it was answered behind the script");
    let mut numbers: Vec<u32> = writers
        .iter_mut()
        .map(|writer| {
            writer.write_all(b"QUIT\r\n").unwrap();
            let mut replies = String::new();
            writer.read_to_string(&mut replies).unwrap();
            let number = replies.strip_prefix(':').and_then(|it| it.strip_suffix("\r\n+OK\r\n"));
            number.unwrap().parse().unwrap()
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
}

/// Eight clients ask for 100 MB each and take nothing, then all of it. Their sessions begin anew.
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
    clients.iter_mut().for_each(|it| it.write_all(b"RESET\r\nHGETALL a\r\nQUIT\r\n").unwrap());
    std::thread::sleep(Duration::from_millis(700));
    assert!(server.answers());
    let more = resident_kib().saturating_sub(before);
    assert!(more < 200 << 10, "{more} KiB");
    // At once, since a client that takes nothing for a minute is left.
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(move || {
                let len = std::io::copy(client, &mut std::io::sink()).unwrap() as usize;
                let of_field = "$3\r\n000\r\n$262144\r\n\r\n".len() + LEN;
                assert_eq!(len, "+RESET\r\n*800\r\n+OK\r\n".len() + FIELDS * of_field);
            });
        }
    });
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

/// What it has sent behind the command that waits is more than is read meanwhile.
#[test]
fn who_waits_behind_much_that_was_sent_and_goes_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, 64 << 20);
    let waits = || {
        let mut client = server.connect();
        client.write_all(b"INFO clients\r\nQUIT\r\n").unwrap();
        let mut told = String::new();
        client.read_to_string(&mut told).unwrap();
        told.contains("blocked_clients:1\r\n")
    };
    let mut client = server.connect();
    client.write_all(b"BLPOP list 0\r\n").unwrap();
    client.write_all(&b"PING\r\n".repeat((1 << 20) / 6 + 2000)).unwrap();
    while !waits() {}
    std::thread::sleep(Duration::from_millis(700));
    assert!(waits(), "a client that is there waits on");
    drop(client);
    let begun = Instant::now();
    while waits() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it waits for a client that has gone");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Messages that wait for a client that takes none are memory of clients, too.
#[test]
fn who_takes_no_messages_is_sent_away_when_others_need_the_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir, 8 << 20);
    let mut subscriber = server.connect();
    subscriber.write_all(b"SUBSCRIBE topic\r\n").unwrap();
    subscriber.read_exact(&mut [0; 8]).unwrap();
    let (mut publisher, mut reply) = (server.connect(), [0; 4]);
    let message = ["PUBLISH topic ", &"m".repeat(60_000), "\r\n"].concat();
    let mut sent = 0;
    loop {
        publisher.write_all(message.as_bytes()).unwrap();
        publisher.read_exact(&mut reply).unwrap();
        if &reply == b":0\r\n" {
            break;
        }
        sent += message.len();
        assert!(sent < 30 << 20, "{sent} bytes wait");
    }
    assert!(server.answers());
}
