//! The server over RocksDB answers as CleaveDB's own does, from memory and from the disk.
#![cfg(feature = "rocks-server")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server, which ends with its test.
struct Server {
    process: Child,
    socket: TcpStream,
}

impl Server {
    fn start(dir: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_rocks-server"))
            .args(["--listen", "127.0.0.1:0", "--dir"])
            .arg(dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let socket = TcpStream::connect(line.rsplit(' ').next().unwrap().trim()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { process, socket }
    }

    /// Sends commands, whose replies are expected.
    fn says(&mut self, sent: &str, expected: &str) {
        self.socket.write_all(sent.as_bytes()).unwrap();
        let mut found = vec![0; expected.len()];
        self.socket.read_exact(&mut found).unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), expected);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Commands in the form of an array.
fn commands(all: &[&[&str]]) -> String {
    let argument = |argument: &&str| format!("${}\r\n{argument}\r\n", argument.len());
    let one = |args: &&[&str]| {
        format!("*{}\r\n{}", args.len(), args.iter().map(argument).collect::<String>())
    };
    all.iter().map(one).collect()
}

#[test]
fn a_pipeline_is_answered_in_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let sent = commands(&[
        &["SET", "a", "apple"],
        &["set", "b", ""],
        &["GET", "a"],
        &["GET", "none"],
        &["GET", "b"],
        &["PING"],
        &["DEL", "a"],
        &["CONFIG", "GET", "save"],
    ]);
    let replies = "+OK\r\n+OK\r\n$5\r\napple\r\n$-1\r\n$0\r\n\r\n+PONG\r\n\
                   -ERR only GET, SET, PING and CONFIG are there\r\n*0\r\n";
    server.says(&sent, replies);
    // The last command of what is sent comes in two pieces.
    let (first, rest) = sent.split_at(sent.len() - 9);
    server.says(first, &replies[..replies.len() - 4]);
    server.says(rest, &replies[replies.len() - 4..]);
}

/// No block of a store that was just opened is in memory: reads go through the pool.
#[test]
fn what_is_on_the_disk_is_read_in_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let value = "v".repeat(1000);
    let keys: Vec<_> = (0..500).map(|number| format!("key:{number}")).collect();
    let sets: Vec<_> = keys.iter().map(|key| ["SET", key, &value]).collect();
    let sets: Vec<_> = sets.iter().map(|set| &set[..]).collect();
    let mut server = Server::start(dir.path());
    server.says(&commands(&sets), &"+OK\r\n".repeat(keys.len()));
    drop(server);
    // Each open flushes what the log has to tables; the second one reads those.
    drop(Server::start(dir.path()));
    let mut server = Server::start(dir.path());
    let gets = keys.iter().flat_map(|key| [["GET", key], ["GET", "none"]]).collect::<Vec<_>>();
    let gets: Vec<_> = gets.iter().map(|get| &get[..]).collect();
    let found = format!("$1000\r\n{value}\r\n$-1\r\n");
    server.says(&commands(&gets), &found.repeat(keys.len()));
}
