//! Users: their file, changes while clients are connected, and guesses of passwords.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::configuration::own_address;
use crate::running::Server;

/// Sends a line, and reads a reply of one line.
fn told(client: &mut TcpStream, line: &str) -> String {
    client.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut reply = String::new();
    while Read::take(&mut *client, 1).read_to_string(&mut reply).unwrap() > 0 {
        if reply.ends_with("\r\n") {
            break;
        }
    }
    reply
}

#[test]
fn a_file_keeps_users() {
    let dir = tempfile::tempdir().unwrap();
    let (store, path) = (dir.path().join("store"), dir.path().join("users.acl"));
    let more = ["--aclfile", path.to_str().unwrap(), "--requirepass", "secret"];
    std::fs::write(&path, "\nuser alice on >pw +@read  ~* (+set ~a*)\n").unwrap();
    let saved = {
        let server = Server::start(&store, &more);
        // The default user is not in the file, and keeps its password.
        let replies = server.ask("PING\r\nAUTH alice pw\r\nSET a 1\r\nGET a\r\nSET b 1");
        let denied = "access one of the keys used as arguments";
        let start = "-NOAUTH Authentication required.\r\n+OK\r\n+OK\r\n$1\r\n1\r\n";
        assert_eq!(replies, format!("{start}-NOPERM this user has no permissions to {denied}\r\n"));
        let lines = "AUTH secret\r\nACL SETUSER bob on nopass +ping\r\nACL SAVE\r\nACL LOAD";
        assert_eq!(server.ask(lines), "+OK\r\n".repeat(4));
        std::fs::read_to_string(&path).unwrap()
    };
    let hash = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";
    let (users, default) = (saved.lines().collect::<Vec<_>>(), "user default on #2bb80d537b1da3e3");
    let alice = format!("user alice on #{hash} ~* resetchannels -@all +@read (~a* ");
    assert!(users[0].starts_with(&alice) && users[0].ends_with(" +set)"), "{saved}");
    assert_eq!(users[1], "user bob on nopass resetchannels -@all +ping");
    assert!(users[2].starts_with(default) && users.len() == 3, "{saved}");
    let server = Server::start(&store, &more);
    assert_eq!(server.ask("AUTH bob x\r\nPING"), "+OK\r\n+PONG\r\n");
    // What is wrong in a file changes nothing, and is told with its place.
    let wrong = "user a +nothing\nuser a on\nusers\nuser b (+get\nuser c ~* ~x >hidden-word\n";
    std::fs::write(&path, wrong).unwrap();
    let replies = server.ask("AUTH secret\r\nACL LOAD\r\nAUTH bob x");
    let [ok, errors, still] = replies.lines().collect::<Vec<_>>()[..] else { panic!("{replies}") };
    assert_eq!((ok, still), ("+OK", "+OK"));
    let place = path.display();
    for why in [
        format!("{place}:1: Error in applying operation '+nothing': Unknown command"),
        "WARNING: Duplicate user 'a' found on line 2. ".to_owned(),
        format!("{place}:3 should start with user keyword"),
        format!("{place}:4: Unmatched parenthesis"),
        format!("{place}:5: Adding a pattern after the * pattern"),
        "no change to the previously active ACL rules was performed".to_owned(),
    ] {
        assert!(errors.contains(&why), "{why}: {errors}");
    }
    assert!(!errors.contains("hidden-word"), "{errors}");
    std::fs::remove_file(&path).unwrap();
    let missing = server.ask("AUTH secret\r\nACL LOAD");
    assert!(missing.contains("-ERR Error loading ACLs, opening file"), "{missing}");
}

#[test]
fn a_server_does_not_start_with_a_wrong_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("users.acl"), "user a +nothing\n").unwrap();
    let arguments = ["--aclfile", "users.acl", "--listen", "127.0.0.1:0"];
    for more in [&[][..], &["--check-config"]] {
        let said = crate::configuration::said(dir.path(), &[&arguments, more].concat(), &[]);
        let told = String::from_utf8(said.stderr).unwrap();
        assert!(
            !said.status.success() && told.contains("users.acl:1: Error in applying"),
            "{told}"
        );
    }
}

#[test]
fn changes_count_for_clients_that_are_connected() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("store"), &[]);
    let [mut admin, mut alice, mut again] = [(); 3].map(|()| server.connect());
    assert_eq!(told(&mut admin, "ACL SETUSER alice on >pw ~* +@all"), "+OK\r\n");
    assert_eq!(told(&mut alice, "AUTH alice pw"), "+OK\r\n");
    assert_eq!(told(&mut again, "AUTH alice pw"), "+OK\r\n");
    assert_eq!(told(&mut alice, "SET a 1"), "+OK\r\n");
    assert_eq!(told(&mut admin, "ACL SETUSER alice -set"), "+OK\r\n");
    let no_set = "-NOPERM this user has no permissions to run the 'set' command\r\n";
    assert_eq!(told(&mut alice, "SET a 1"), no_set);
    assert_eq!(told(&mut admin, "ACL SETUSER alice off"), "+OK\r\n");
    assert_eq!(told(&mut alice, "PING"), "+PONG\r\n", "it was let in");
    assert_eq!(told(&mut again, "ACL DELUSER alice nothing"), ":1\r\n", "its own");
    for mut gone in [alice, again] {
        gone.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(gone.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
    assert_eq!(told(&mut admin, "PING"), "+PONG\r\n");
}

#[test]
fn a_client_that_may_not_have_a_channel_any_more_is_sent_away() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("store"), &[]);
    let [mut admin, mut one, mut other] = [(); 3].map(|()| server.connect());
    assert_eq!(told(&mut admin, "ACL SETUSER alice on nopass +@all &a* &b"), "+OK\r\n");
    for (client, call) in [(&mut one, "SUBSCRIBE a1 b"), (&mut other, "PSUBSCRIBE a*")] {
        assert_eq!(told(client, "AUTH alice x"), "+OK\r\n");
        assert_eq!(told(client, call), "*3\r\n");
    }
    assert_eq!(told(&mut admin, "ACL SETUSER alice resetchannels &a*"), "+OK\r\n");
    one.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut rest = Vec::new();
    one.read_to_end(&mut rest).unwrap();
    assert_eq!(told(&mut admin, "PUBLISH a1 x"), ":1\r\n");
}

#[test]
fn guesses_of_another_machine_take_time() {
    let Some(own) = own_address() else {
        println!("NOT CHECKED: this machine has the loopback address only");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let more = ["--listen", &format!("{own}:0"), "--requirepass", "secret"];
    let server = Server::listening(&dir.path().join("store"), &more);
    let mut guesser = server.connect();
    let begun = Instant::now();
    for _ in 0..5 {
        assert!(told(&mut guesser, "AUTH wrong").starts_with("-WRONGPASS"));
    }
    assert!(begun.elapsed() < Duration::from_secs(3));
    let begun = Instant::now();
    assert_eq!(told(&mut server.connect(), "AUTH secret"), "+OK\r\n");
    assert!(begun.elapsed() >= Duration::from_secs(3));
}
