//! Servers that are killed while clients write collections: what was acknowledged is there, a
//! transaction is there as a whole or not at all, and elements fit their keys.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

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

/// Writes the numbers from `from` on until the server dies; the first one that is not acknowledged.
fn write_numbers(client: &mut Client, name: usize, from: usize) -> usize {
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
            let mut line = String::new();
            if client.socket.read_line(&mut line).unwrap_or(0) == 0 {
                return number;
            }
            if line.starts_with('$') && client.socket.read_line(&mut line).unwrap_or(0) == 0 {
                return number;
            }
        }
        if client.call("LMOVE one two LEFT RIGHT").is_none() {
            return number + 1;
        }
        if client.socket.read_line(&mut String::new()).unwrap_or(0) == 0 {
            return number + 1;
        }
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
            let writers: Vec<_> = (0..CLIENTS)
                .map(|name| {
                    let (server, from) = (&server, acknowledged[name]);
                    let mut client = Client::new(server);
                    scope.spawn(move || write_numbers(&mut client, name, from))
                })
                .collect();
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
