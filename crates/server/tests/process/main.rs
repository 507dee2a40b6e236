//! The program as people run it: started, killed, stopped, full of clients.

mod configuration;
mod greedy;
mod kills;
mod packages;
mod running;
mod streams;
mod tls;
mod tour;
mod users;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use self::running::Server;

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    for round in 0..3 {
        let server = Server::start(&store, &[]);
        for before in 0..round {
            assert_eq!(server.ask(&format!("GET k{before}")), format!("$2\r\nv{before}\r\n"));
        }
        assert_eq!(server.ask(&format!("SET k{round} v{round}")), "+OK\r\n");
    }
}

#[test]
fn a_store_that_another_process_has_is_told_by_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let server = Server::start(&store, &[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_cleave-server"));
    command.arg("--dir").arg(&store).args(["--listen", "127.0.0.1:0"]);
    let other = command.output().unwrap();
    let told = String::from_utf8_lossy(&other.stderr);
    assert_eq!(other.status.code(), Some(4), "{told}");
    assert!(told.contains(&format!("process {}", server.child.id())), "{told}");
}

#[test]
fn saves_and_backups_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let backups = dir.path().join("backups");
    let more = ["--backup-dir", backups.to_str().unwrap()];
    let server = Server::start(&dir.path().join("store"), &more);
    assert_eq!(server.ask("SET a 1\r\nSAVE\r\nWAITAOF 1 0 0"), "+OK\r\n+OK\r\n*2\r\n:1\r\n:0\r\n");
    let checkpoint = server.ask("CLEAVE.CHECKPOINT monday");
    assert!(checkpoint.starts_with("*4\r\n$4\r\npath\r\n"), "{checkpoint}");
    let again = server.ask("CLEAVE.CHECKPOINT monday");
    assert!(again.starts_with("-ERR"), "{again}");
    assert_eq!(server.ask("CLEAVE.BACKUP"), "*2\r\n$6\r\nnumber\r\n:2\r\n");
    assert!(server.ask("CLEAVE.CHECKPOINT ../x").starts_with("-ERR"));
    assert_eq!(server.ask("CLEAVE.COLLECT\r\nCLEAVE.COMPACT"), "+OK\r\n+OK\r\n");
    assert_eq!(server.ask("BGSAVE"), "+Background saving started\r\n");
    drop(server);
    let server = Server::start(&backups.join("checkpoints").join("monday"), &[]);
    assert_eq!(server.ask("GET a"), "$1\r\n1\r\n");
    assert!(server.ask("CLEAVE.BACKUP").starts_with("-ERR start with --backup-dir"));
}

#[test]
fn changed_keys_are_told_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("a"), &["--with", "change_retention_bytes=8MiB"]);
    server.ask("SET before 1");
    let begin = server.ask("CLEAVE.CHANGES $");
    let (from, none) = begin.strip_prefix("*2\r\n:").unwrap().split_once("\r\n").unwrap();
    assert_eq!(none, "*0\r\n");
    server.ask("SET a 1\r\nHSET h f 1\r\nHSET h f 2\r\nDEL a\r\nSELECT 1\r\nSET b 1\r\nFLUSHDB");
    let told = server.ask(&format!("CLEAVE.CHANGES {from}"));
    let keys = told.split_once("*4\r\n").unwrap().1;
    let pair = |database, key: &str| format!("*2\r\n:{database}\r\n$1\r\n{key}\r\n");
    assert_eq!(keys, pair(0, "a") + &pair(0, "h") + &pair(1, "b") + "*2\r\n:1\r\n$-1\r\n");
    let some = server.ask(&format!("CLEAVE.CHANGES {from} COUNT 1"));
    assert!(some.ends_with(&format!("*1\r\n{}", pair(0, "a"))), "{some}");
    let (next, _) = some.strip_prefix("*2\r\n:").unwrap().split_once("\r\n").unwrap();
    let rest = server.ask(&format!("CLEAVE.CHANGES {next} COUNT 1"));
    assert!(rest.ends_with(&format!("*1\r\n{}", pair(0, "h"))), "{rest}");
    let swapped = "SWAPDB 0 1\r\nSET c 1\r\nMULTI\r\nSWAPDB 1 2\r\nSELECT 1\r\nSET d 1\r\nEXEC";
    server.ask(swapped);
    let told = server.ask(&format!("CLEAVE.CHANGES {from}"));
    let all = |database| format!("*2\r\n:{database}\r\n$-1\r\n");
    let behind = all(0) + &all(1) + &pair(0, "c") + &all(2) + &pair(1, "d");
    assert!(told.ends_with(&behind), "{told}");
    drop(server);
    let server = Server::start(&dir.path().join("b"), &[]);
    let told = server.ask("SET a 1\r\nCLEAVE.CHANGES 1\r\nCLEAVE.CHANGES 1 COUNT 0");
    assert!(told.contains("-ERR the changes from there on are not kept"), "{told}");
    assert!(told.ends_with("-ERR COUNT must be positive\r\n"), "{told}");
}

#[test]
fn a_connection_chooses_when_its_writes_are_durable() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("store"), &["--appendfsync", "no"]);
    let told = server.ask(
        "CLEAVE.DURABILITY\r\nCLEAVE.DURABILITY SYNC\r\nSET a 1\r\nCLEAVE.DURABILITY\r\n\
         CLEAVE.DURABILITY x",
    );
    let expected = "$7\r\ndefault\r\n+OK\r\n+OK\r\n$4\r\nsync\r\n-ERR syntax error\r\n";
    assert_eq!(told, expected);
    assert!(server.ask("INFO persistence").contains("rdb_bgsave_in_progress:0"));
}

#[test]
fn keys_are_read_in_their_order_and_exchanged() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("store"), &[]);
    server.ask("MSET a 1 b 2 c 3 d 4\r\nRPUSH bb x");
    assert_eq!(
        server.ask("CLEAVE.RANGE (a [c"),
        "*6\r\n$1\r\nb\r\n$1\r\n2\r\n$2\r\nbb\r\n$-1\r\n$1\r\nc\r\n$1\r\n3\r\n"
    );
    assert_eq!(server.ask("CLEAVE.RANGE - + KEYS LIMIT 1"), "*1\r\n$1\r\na\r\n");
    assert_eq!(server.ask("CLEAVE.RANGE [c (d"), "*2\r\n$1\r\nc\r\n$1\r\n3\r\n");
    assert!(server.ask("CLEAVE.RANGE a b").starts_with("-ERR min or max"));
    let told = server.ask("CLEAVE.CAS a 2 3\r\nCLEAVE.CAS a 1 3\r\nGET a\r\nCLEAVE.CAS bb 1 2");
    assert!(told.starts_with(":0\r\n:1\r\n$1\r\n3\r\n-WRONGTYPE"), "{told}");
}

#[test]
fn a_signal_ends_it_with_a_closed_store() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&dir.path().join("store"), &[]);
    let mut client = server.connect();
    client.write_all(b"SET a 1\r\n").unwrap();
    let mut reply = [0; 5];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n");
    let id = server.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let status = server.child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0);
    let server = Server::start(&dir.path().join("store"), &[]);
    assert_eq!(server.ask("GET a"), "$1\r\n1\r\n");
}

#[test]
fn a_socket_of_the_file_system_is_another_way_in() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    for _ in 0..2 {
        let more = ["--unix-socket", path.to_str().unwrap()];
        // The first one is killed, and leaves the file of its socket.
        let mut server = Server::start(&dir.path().join("store"), &more);
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"INCR a\r\nQUIT\r\n").unwrap();
        let mut replies = String::new();
        client.read_to_string(&mut replies).unwrap();
        assert_eq!(
            format!(":{}", server.ask("GET a").lines().nth(1).unwrap()),
            replies.lines().next().unwrap()
        );
        if replies.starts_with(":2") {
            server.connect().write_all(b"SHUTDOWN\r\n").unwrap();
            server.child.wait().unwrap();
            assert!(!path.exists());
        }
    }
}

#[test]
fn the_socket_of_another_server_is_not_taken_away() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let more = ["--unix-socket", path.to_str().unwrap()];
    let first = Server::start(&dir.path().join("first"), &more);
    let mut second = Command::new(env!("CARGO_BIN_EXE_cleave-server"));
    second.arg("--dir").arg(dir.path().join("second")).args(["--listen", "127.0.0.1:0"]).args(more);
    assert!(!second.output().unwrap().status.success());
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"SET a 1\r\nQUIT\r\n").unwrap();
    client.read_to_string(&mut String::new()).unwrap();
    assert_eq!(first.ask("GET a"), "$1\r\n1\r\n");
}

#[test]
fn clients_leave_descriptors_to_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_cleave-server");
    let limited = format!("ulimit -n 128; exec {program} --dir store --listen 127.0.0.1:0");
    let mut child = Command::new("sh");
    child.args(["-c", &limited]).current_dir(&dir).stdout(Stdio::piped());
    let server = Server::ready(child.spawn().unwrap());
    let mut first = server.connect();
    let mut reply = [0; 5];
    first.write_all(b"SET a 1\r\n").unwrap();
    first.read_exact(&mut reply).unwrap();
    let held: Vec<_> = (0..150).map(|_| server.connect()).collect();
    // As much as several MemTables hold, so that files are made.
    let set = [b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$65536\r\n", &[b'v'; 65536][..], b"\r\n"].concat();
    for _ in 0..2000 {
        first.write_all(&set).unwrap();
        first.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+OK\r\n");
    }
    drop(held);
}

#[test]
fn a_second_server_is_refused_by_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let server = Server::start(&store, &[]);
    let mut second = Command::new(env!("CARGO_BIN_EXE_cleave-server"));
    second.arg("--dir").arg(&store).args(["--listen", "127.0.0.1:0"]);
    let second = second.output().unwrap();
    let why = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && why.contains(&server.child.id().to_string()), "{why}");
}

#[test]
fn strangers_and_too_many_clients_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--requirepass", "secret", "--max-clients", "2"];
    let server = Server::start(&dir.path().join("store"), &more);
    let noauth = "-NOAUTH Authentication required.\r\n";
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    let replies = server.ask("GET a\r\nAUTH x\r\nAUTH secret\r\nPING");
    assert_eq!(replies, format!("{noauth}{wrong}+OK\r\n+PONG\r\n"));
    // A client that has gone a moment ago may still count.
    let admitted = || loop {
        let mut client = server.connect();
        let mut reply = [0; 7];
        let asked = client.write_all(b"GET a\r\n");
        let answered = asked.and_then(|()| client.read_exact(&mut reply));
        if answered.is_ok() && &reply == b"-NOAUTH" {
            break client;
        }
    };
    let held = [admitted(), admitted()];
    let mut refused = String::new();
    server.connect().read_to_string(&mut refused).unwrap();
    assert_eq!(refused, "-ERR max number of clients reached\r\n");
    drop(held);
}

#[test]
fn every_write_of_a_pipeline_arrives_however_durable() {
    let set = |i| format!("*3\r\n$3\r\nSET\r\n$4\r\n{i:04}\r\n$4\r\n{i:04}\r\n");
    let writes: String = (0..1000).map(set).collect();
    for fsync in ["always", "everysec", "no"] {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        let server = Server::start(&store, &["--appendfsync", fsync]);
        assert_eq!(server.ask(&writes), "+OK\r\n".repeat(1000), "{fsync}");
        drop(server);
        let server = Server::start(&store, &[]);
        assert_eq!(server.ask("DBSIZE\r\nGET 0999"), ":1000\r\n$4\r\n0999\r\n", "{fsync}");
    }
}
