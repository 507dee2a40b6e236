//! Clients that wait for entries of a stream while others add them.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::running::Server;

/// Entries that are added.
const ENTRIES: u64 = 300;

/// How long a reader may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The texts of a reply, however they are nested.
fn texts(client: &mut BufReader<TcpStream>) -> Vec<String> {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    let count: i64 = line[1..].trim_end().parse().unwrap_or_default();
    match line.as_bytes()[0] {
        b'*' => (0..count).flat_map(|_| texts(client)).collect(),
        b'$' => {
            let mut text = String::new();
            client.read_line(&mut text).unwrap();
            vec![text.trim_end().to_owned()]
        }
        _ => Vec::new(),
    }
}

/// The times of the entries that a command is answered.
fn times(client: &mut BufReader<TcpStream>, command: &str) -> Vec<u64> {
    client.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let texts = texts(client);
    let times = texts.iter().filter_map(|text| text.strip_suffix("-0"));
    times.map(|time| time.parse().unwrap()).collect()
}

#[test]
fn who_waits_for_entries_misses_none() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("store"), &[]);
    server.ask("XGROUP CREATE s g 0 MKSTREAM");
    let client = || BufReader::new(server.connect());
    let (read, was_read) = channel();
    let begun = Instant::now();
    let given = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut client, mut last) = (client(), 0);
            while last < ENTRIES {
                // The next entry is added while this call begins.
                read.send(()).unwrap();
                let command = format!("XREAD BLOCK 5000 STREAMS s {last}");
                assert_eq!(times(&mut client, &command), [last + 1]);
                last += 1;
            }
        });
        for consumer in 0..2 {
            let (given, mut client) = (&given, client());
            scope.spawn(move || {
                let command = format!("XREADGROUP GROUP g {consumer} BLOCK 100 STREAMS s >");
                while given.lock().unwrap().len() < ENTRIES as usize && begun.elapsed() < PATIENCE {
                    let times = times(&mut client, &command);
                    given.lock().unwrap().extend(times);
                }
            });
        }
        let mut client = client();
        for time in 1..=ENTRIES {
            was_read.recv_timeout(PATIENCE).unwrap();
            assert_eq!(times(&mut client, &format!("XADD s {time} field value")), [time]);
        }
    });
    let mut given = given.into_inner().unwrap();
    given.sort_unstable();
    assert!(given.iter().copied().eq(1..=ENTRIES), "{given:?}");
    assert!(server.ask("XPENDING s g").starts_with(&format!("*4\r\n:{ENTRIES}\r\n")));
    assert_eq!(server.ask("CLEAVE.CHECK"), "*0\r\n");
}
