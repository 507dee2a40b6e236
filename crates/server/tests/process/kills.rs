//! Servers that are killed while clients write collections: what was acknowledged is there, a
//! transaction is there as a whole or not at all, and elements fit their keys.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use cleavedb::{Db, Options};

use crate::running::Server;

const CLIENTS: usize = 3;

/// Elements that go round between two lists.
const MOVING: usize = 5;

struct Client {
    socket: BufReader<TcpStream>,
}

impl Client {
    fn new(server: &Server) -> Self {
        Self { socket: BufReader::new(server.connect()) }
    }

    /// The first line of the reply to a command; none if the server has died.
    fn call(&mut self, command: &str) -> Option<String> {
        self.socket.get_mut().write_all(format!("{command}\r\n").as_bytes()).ok()?;
        let mut line = String::new();
        self.socket.read_line(&mut line).ok()?;
        line.strip_suffix("\r\n").map(str::to_owned)
    }

    /// Skips a reply that is no array; none if the server has died.
    fn skip(&mut self) -> Option<()> {
        let mut read = |line: &mut String| self.socket.read_line(line).ok().filter(|len| *len > 0);
        let mut line = String::new();
        read(&mut line)?;
        // What is not there has no text.
        if line.starts_with('$') && line != "$-1\r\n" {
            read(&mut line)?;
        }
        Some(())
    }

    /// The bulks of an array.
    fn bulks(&mut self, command: &str) -> Vec<String> {
        let count = self.call(command).unwrap();
        let count: usize = count.trim_start_matches(['*', '%', '~']).parse().unwrap();
        let mut line = || {
            let mut line = String::new();
            self.socket.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        (0..count)
            .map(|_| {
                line();
                line()
            })
            .collect()
    }

    fn number(&mut self, command: &str) -> usize {
        self.call(command).unwrap()[1..].parse().unwrap()
    }
}

/// Writes the numbers from `from` on until the server dies, and tells of each; the first one that
/// is not acknowledged.
fn write_numbers(client: &mut Client, name: usize, from: usize, wrote: &Sender<()>) -> usize {
    for number in from.. {
        let list = number / 50;
        let commands = [
            "MULTI".to_owned(),
            format!("HSET hash:{name} {number} {number}"),
            format!("SADD set:{name} {number}"),
            format!("RPUSH list:{name} {number}"),
            format!("RPUSH short:{name}:{list} {number}"),
            "RPOPLPUSH one two".to_owned(),
            "RPOPLPUSH two one".to_owned(),
            format!("DEL short:{name}:{}", list.wrapping_sub(1)),
            format!("SET over:{name} string"),
            format!("DEL over:{name}"),
            format!("RPUSH over:{name} {number}"),
            "EXEC".to_owned(),
        ];
        for command in &commands[..commands.len() - 1] {
            if client.call(command).is_none() {
                return number;
            }
        }
        if client.call(&commands[commands.len() - 1]).is_none() {
            return number;
        }
        // The replies of the transaction.
        for _ in 0..commands.len() - 2 {
            if client.skip().is_none() {
                return number;
            }
        }
        let moved = client.socket.get_mut().write_all(b"LMOVE one two LEFT RIGHT\r\n").ok();
        if moved.and_then(|()| client.skip()).is_none() {
            return number + 1;
        }
        // The test waits for the first one only, and has gone on by now.
        let _ = wrote.send(());
    }
    unreachable!("numbers do not end")
}

/// What a client wrote is there, without a gap; the first number that is not.
fn check_numbers(client: &mut Client, name: usize, acknowledged: usize) -> usize {
    let list = client.bulks(&format!("LRANGE list:{name} 0 -1"));
    let expected: Vec<_> = (0..list.len()).map(|number| number.to_string()).collect();
    assert_eq!(list, expected);
    assert!((acknowledged..=acknowledged + 1).contains(&list.len()), "{acknowledged}");
    assert_eq!(client.number(&format!("HLEN hash:{name}")), list.len());
    assert_eq!(client.number(&format!("SCARD set:{name}")), list.len());
    list.len()
}

fn killed(appendfsync: &str) {
    let dir = tempfile::tempdir().unwrap();
    let store: &Path = &dir.path().join("store");
    let mut acknowledged = [0; CLIENTS];
    for round in 0..4 {
        let mut server = Server::start(store, &["--appendfsync", appendfsync]);
        let mut client = Client::new(&server);
        assert_eq!(client.bulks("CLEAVE.CHECK"), Vec::<String>::new());
        for (name, acknowledged) in acknowledged.iter_mut().enumerate() {
            *acknowledged = check_numbers(&mut client, name, *acknowledged);
        }
        if round == 0 {
            (0..MOVING).for_each(|number| _ = client.number(&format!("RPUSH one {number}")));
        }
        assert_eq!(client.number("LLEN one") + client.number("LLEN two"), MOVING);
        let written: Vec<usize> = std::thread::scope(|scope| {
            let (writers, first): (Vec<_>, Vec<_>) = (0..CLIENTS)
                .map(|name| {
                    let ((server, from), (wrote, first)) =
                        ((&server, acknowledged[name]), channel());
                    let mut client = Client::new(server);
                    (scope.spawn(move || write_numbers(&mut client, name, from, &wrote)), first)
                })
                .unzip();
            first.iter().for_each(|first| first.recv().unwrap());
            std::thread::sleep(Duration::from_millis(150 + 100 * round));
            let id = server.child.id().to_string();
            std::process::Command::new("kill").args(["-KILL", &id]).status().unwrap();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        server.child.wait().unwrap();
        assert!(written.iter().zip(&acknowledged).all(|(new, old)| new > old), "none has written");
        acknowledged = written.try_into().unwrap();
    }
}

#[test]
fn collections_survive_a_kill_if_writes_are_durable() {
    killed("always");
}

#[test]
fn collections_survive_a_kill_by_default() {
    killed("everysec");
}

#[test]
fn collections_survive_a_kill_without_syncs() {
    killed("no");
}

#[test]
fn libraries_of_functions_survive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let kill = |mut server: Server| {
        server.child.kill().unwrap();
        server.child.wait().unwrap();
    };
    let code = r"#!lua name=lib\nredis.register_function('f', function() return 7 end)";
    let server = Server::start(&store, &[]);
    assert_eq!(server.ask(&format!("FUNCTION LOAD \"{code}\"")), "$3\r\nlib\r\n");
    kill(server);
    let server = Server::start(&store, &[]);
    assert_eq!(server.ask("FCALL f 0"), ":7\r\n");
    assert_eq!(server.ask("FUNCTION DELETE lib"), "+OK\r\n");
    kill(server);
    let server = Server::start(&store, &[]);
    assert_eq!(server.ask("FCALL f 0"), "-ERR Function not found\r\n");
}

/// Spoils the score of a member, so that a command that comes to it fails.
fn spoil(store: &Path, member: &[u8]) {
    let db = Db::open(store, Options::default()).unwrap();
    let elements = db.keyspace("elements").unwrap();
    let all = elements.range(..).map(|element| element.unwrap().key.to_vec());
    let mut of_member: Vec<_> = all.filter(|key| key.ends_with(member)).collect();
    // The score lies before the place of the member in the order of scores.
    elements.put(of_member.swap_remove(0), "spoiled").unwrap();
    db.close().unwrap();
}

#[test]
fn a_command_of_a_pipeline_that_fails_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let kill = |mut server: Server| {
        server.child.kill().unwrap();
        server.child.wait().unwrap();
    };
    let server = Server::start(&store, &["--appendfsync", "always"]);
    assert_eq!(server.ask("ZADD z 1 one 2 two 3 three"), ":3\r\n");
    kill(server);
    spoil(&store, b"two");
    let server = Server::start(&store, &["--appendfsync", "always"]);
    let calls = ["SET a 1", "ZADD z 7 one 8 two 9 new", "SET c 3", "ZADD z 4 three", "DEL x"];
    let words = |call: &str| -> String {
        let words: Vec<_> = call.split(' ').collect();
        let each = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), each.collect::<String>())
    };
    let pipeline: String = calls.into_iter().map(words).collect();
    let replies = server.ask(&pipeline);
    let replies: Vec<_> = replies.lines().collect();
    assert!(replies[1].starts_with("-ERR damaged"), "{replies:?}");
    assert_eq!([replies[0], replies[2], replies[3], replies[4]], ["+OK", "+OK", ":0", ":0"]);
    let seen = "MGET a c\r\nZMSCORE z one three new\r\nZCARD z";
    let expected = "*2\r\n$1\r\n1\r\n$1\r\n3\r\n*3\r\n$1\r\n1\r\n$1\r\n4\r\n$-1\r\n:3\r\n";
    assert_eq!(server.ask(seen), expected);
    let whole = "MULTI\r\nSET a 2\r\nZADD z 5 one 6 two\r\nSET c 4\r\nEXEC";
    let replies = server.ask(whole);
    assert!(
        replies.contains("-EXECABORT") && replies.contains("half-way: ERR damaged"),
        "{replies}"
    );
    let script = "redis.call('set','a',3)redis.pcall('zadd','z',5,'one',6,'two')return'done'";
    let replies = server.ask(&words(&format!("EVAL {script} 0")));
    assert!(replies.starts_with("-ERR damaged"), "{replies}");
    assert_eq!(server.ask(seen), expected);
    kill(server);
    let server = Server::start(&store, &[]);
    assert_eq!(server.ask(seen), expected);
}

/// The keys whose ends are told, from now on, up to a number of them.
fn ended(server: &Server, count: usize) -> Vec<String> {
    let mut client = Client::new(server);
    client.call("SUBSCRIBE __keyevent@0__:expired").unwrap();
    let lines = client.socket.by_ref().lines().map(|line| line.unwrap());
    // Five lines more tell of the subscription, and seven of each message, the last one its text.
    let lines: Vec<_> = lines.skip(5).take(7 * count).collect();
    lines.chunks(7).map(|message| message[6].clone()).collect()
}

#[test]
fn ends_are_told_once_whatever_ends_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let (store, more) = (dir.path().join("store"), ["--notify-keyspace-events", "Ex"]);
    let mut server = Server::start(&store, &more);
    server.ask("SET before v PX 10000\r\nSET gone v PX 10000\r\nSET last v PX 20000\r\nDEL gone");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let mut server = Server::start(&store, &more);
    assert_eq!(ended(&server, 1), ["before"]);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let server = Server::start(&store, &more);
    assert_eq!(ended(&server, 1), ["last"]);
    assert_eq!(server.ask("CLEAVE.CHECK"), "*0\r\n");
}

/// Each transaction swaps both databases and gives the first one its number, so that they have two
/// numbers in a row.
#[test]
fn databases_are_swapped_or_not_whatever_ends_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let mut acknowledged = 1;
    for _ in 0..4 {
        let mut server = Server::start(&store, &[]);
        let told = server.ask("GET turn\r\nSELECT 1\r\nGET turn\r\nCLEAVE.CHECK");
        if acknowledged > 1 {
            let turn: usize = told.split("\r\n").nth(1).unwrap().parse().unwrap();
            let bulk = |turn: usize| format!("${}\r\n{turn}\r\n", turn.to_string().len());
            assert_eq!(told, bulk(turn) + "+OK\r\n" + &bulk(turn - 1) + "*0\r\n");
            assert!(turn == acknowledged || turn == acknowledged + 1, "{turn} {acknowledged}");
            acknowledged = turn;
        }
        let id = server.child.id().to_string();
        acknowledged = std::thread::scope(|scope| {
            let mut client = Client::new(&server);
            let writer = scope.spawn(move || {
                for turn in acknowledged + 1.. {
                    let lines = ["MULTI", "SWAPDB 0 1", &format!("SET turn {turn}"), "EXEC"];
                    if !lines.iter().all(|line| client.call(line).is_some()) {
                        return turn - 1;
                    }
                    // The replies of the transaction.
                    if client.skip().and_then(|()| client.skip()).is_none() {
                        return turn;
                    }
                }
                unreachable!("numbers do not end")
            });
            std::thread::sleep(Duration::from_millis(200));
            std::process::Command::new("kill").args(["-KILL", &id]).status().unwrap();
            writer.join().unwrap()
        });
        server.child.wait().unwrap();
    }
}
