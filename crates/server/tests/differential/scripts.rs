//! Scripts of several clients, played on both servers.
//!
//! A line is a command of a client, by its number: with `>` it waits, and its reply is read by a
//! line of the number alone, or never. An empty line stands between two scripts.

use std::time::{Duration, Instant};

use crate::Both;
use crate::wire::Client;

/// The number of clients that wait.
pub fn waiting(check: &mut Client) -> Option<u64> {
    let info = check.call(&[b"INFO", b"clients"]);
    let info = String::from_utf8(info.bulk()?.to_vec()).ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:"));
    line?.trim().parse().ok()
}

/// The replies that a script is told by the clients of one server.
fn played(script: &str, clients: &mut [Client], check: &mut Client) -> Vec<String> {
    let mut replies = Vec::new();
    check.call(&[b"FLUSHALL"]);
    // Clients of the script before may not have been seen to go.
    let begun = Instant::now();
    while !check
        .call(&[b"CLIENT", b"LIST", b"TYPE", b"pubsub"])
        .bulk()
        .is_some_and(<[u8]>::is_empty)
        && begun.elapsed() < Duration::from_secs(5)
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut in_wait: Vec<usize> = vec![0; clients.len()];
    for line in script.lines() {
        let (client, command) = line.split_once(' ').unwrap_or((line, ""));
        let (client, waits) = match client.strip_suffix('>') {
            Some(client) => (client, true),
            None => (client, false),
        };
        let number: usize = client.parse().unwrap();
        let client = &mut clients[number];
        if !command.is_empty() {
            client.send(format!("{command}\r\n").as_bytes(), &[]);
        }
        if waits {
            // The next command is to find it waiting.
            in_wait[number] += 1;
            let wanted = in_wait.iter().filter(|count| **count > 0).count() as u64;
            let begun = Instant::now();
            while waiting(check) != Some(wanted) && begun.elapsed() < Duration::from_millis(300) {
                std::thread::sleep(Duration::from_millis(1));
            }
        } else if command != "CLIENT REPLY OFF" {
            in_wait[number] =
                if command.is_empty() { in_wait[number].saturating_sub(1) } else { 0 };
            let reply = client.receive().map_or("the end".into(), |reply| reply.shown());
            // A greeting has the number of the client.
            let shown = if command.starts_with("HELLO") { "hello" } else { &reply };
            replies.push(format!("{line}: {shown}"));
        }
    }
    replies
}

/// Fails if the servers answer scripts in different ways.
pub fn assert_alike(both: &Both, scripts: &str) {
    for script in scripts.split("\n\n") {
        let pairs = (0..5).map(|_| both.pair());
        let (mut ours, mut theirs): (Vec<_>, Vec<_>) = pairs.map(|it| (it.ours, it.theirs)).unzip();
        let (mut of_ours, mut of_theirs) = (ours.pop().unwrap(), theirs.pop().unwrap());
        let ours = played(script, &mut ours, &mut of_ours);
        let theirs = played(script, &mut theirs, &mut of_theirs);
        assert_eq!(ours, theirs, "{script}");
    }
}
