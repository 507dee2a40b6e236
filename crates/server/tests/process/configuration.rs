//! Options: where they come from, which of them change while the server runs, and what they do.

use std::io::{Read, Write};
use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::running::Server;

/// What the program says to arguments, in a directory.
pub fn said(dir: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cleave-server"));
    command.args(arguments).envs(environment.iter().copied()).current_dir(dir);
    command.output().unwrap()
}

/// The options that hold.
fn holds(dir: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let said = said(dir, &[arguments, &["--check-config"]].concat(), environment);
    assert!(said.status.success(), "{said:?}");
    String::from_utf8(said.stdout).unwrap()
}

/// Why options are refused.
fn refused(dir: &Path, arguments: &[&str]) -> String {
    let said = said(dir, &[arguments, &["--check-config"]].concat(), &[]);
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    String::from_utf8(said.stderr).unwrap()
}

#[test]
fn the_command_line_counts_before_the_environment_and_that_before_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = "max_clients = 1\ntimeout = 2\ndatabases = 3\n\
                listen = [\"127.0.0.1:1\", \"[::1]:2\"]\n\
                client_memory = \"1MiB\"\nprotected_mode = false\nrequirepass = \"secret\"\n\
                [store]\npreset = \"hoakv\"\nmemory_bytes = 50_000_000\n";
    std::fs::write(dir.path().join("cleave.toml"), file).unwrap();
    let environment =
        [("CLEAVE_TIMEOUT", "20"), ("CLEAVE_DATABASES", "30"), ("CLEAVE_CONFIG", "cleave.toml")];
    let arguments = ["--databases", "300", "--with", "memory_bytes=60000000"];
    let holds_all = holds(dir.path(), &arguments, &environment);
    for line in [
        "max_clients = \"1\"",
        "timeout = \"20\"",
        "databases = \"300\"",
        "listen = [\"127.0.0.1:1\", \"[::1]:2\"]",
        "client_memory = \"1MiB\"",
        "protected_mode = \"false\"",
        "requirepass = \"...\"",
        "appendfsync = \"everysec\"",
        "[store]",
        "preset = \"hoakv\"",
        "memory_bytes = \"60000000\"",
    ] {
        assert!(holds_all.lines().any(|held| held == line), "{line}: {holds_all}");
    }
    // What is printed is a file, which says the same.
    std::fs::write(dir.path().join("again.toml"), &holds_all).unwrap();
    let again = holds(dir.path(), &["--config", "again.toml", "--requirepass", "secret"], &[]);
    assert_eq!(again, holds_all);
    // An address of the command line replaces all of the file.
    let one = holds(dir.path(), &["--config", "cleave.toml", "--listen", "127.0.0.1:9"], &[]);
    assert!(one.contains("listen = \"127.0.0.1:9\"\n"), "{one}");
}

#[test]
fn mistakes_are_named_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    for (text, why) in [
        (
            "databses = 3",
            "cleave.toml: databses: there is no option databses; databases is nearest",
        ),
        ("databases = 0", "cleave.toml: databases: invalid value '0'"),
        ("colour = 'red'", "there is no option colour\n"),
        ("check_config = true", "cleave.toml: check_config is for the command line"),
        (
            "[store]\nmemroy_bytes = 1",
            "[store] memroy_bytes: there is no option memroy_bytes; memory_bytes",
        ),
        ("[store]\npreset = 'best'", "there is no preset best; there are"),
        ("appendfsync = 'yes'", "[possible values: always, everysec, no]"),
        ("timeout = [", "cleave.toml: TOML parse error at line 1"),
        ("unix_socket_perm = '888'", "permissions such as 770"),
        ("listen = 'localhost'", "invalid value 'localhost' for '--listen"),
        ("[listen.a]\nb.c = 1", "options in options"),
    ] {
        std::fs::write(dir.path().join("cleave.toml"), text).unwrap();
        let told = refused(dir.path(), &["--config", "cleave.toml"]);
        assert!(told.contains(why), "{text}: {told}");
    }
    let told = refused(dir.path(), &["--config", "missing.toml"]);
    assert!(told.contains("missing.toml: No such file"), "{told}");
    let told = refused(dir.path(), &["--databses", "1"]);
    assert!(told.contains("--databases"), "{told}");
    let said = said(dir.path(), &["--check-config"], &[("CLEAVE_DATABASES", "many")]);
    let told = String::from_utf8(said.stderr).unwrap();
    assert!(told.contains("CLEAVE_DATABASES: invalid value 'many'"), "{told}");
}

#[test]
fn a_redis_conf_is_read_and_the_rest_of_it_named() {
    let dir = tempfile::tempdir().unwrap();
    let text = "# as Debian has it\nbind 127.0.0.1 -::1\nport 6390\nTimeout 7\n\
                requirepass \"a b\"\n\
                maxclients 99\nunixsocket /run/x.sock\nunixsocketperm 770\nsave 900 1\nhz 10\n\
                notify-keyspace-events KEA\nlua-time-limit 70\nbusy-reply-threshold 80\n";
    std::fs::write(dir.path().join("redis.conf"), text).unwrap();
    let arguments = ["--redis-config", "redis.conf", "--max-clients", "98"];
    let held = holds(dir.path(), &arguments, &[]);
    for line in [
        "listen = \"127.0.0.1:6390\"",
        "timeout = \"7\"",
        "max_clients = \"98\"",
        "requirepass = \"...\"",
        "unix_socket = \"/run/x.sock\"",
        "unix_socket_perm = \"770\"",
        "notify_keyspace_events = \"KEA\"",
        "busy_reply_threshold = \"80\"",
    ] {
        assert!(held.lines().any(|it| it == line), "{line}: {held}");
    }
    let said = said(dir.path(), &[&arguments[..], &["--check-config"]].concat(), &[]);
    let notes = String::from_utf8(said.stderr).unwrap();
    for note in ["line 2: -::1 may be missing", "line 9: save has no", "line 10: hz has no meaning"]
    {
        assert!(notes.contains(note), "{note}: {notes}");
    }
    assert_eq!(notes.lines().count(), 3, "{notes}");
    for (text, why) in [
        ("rename-command FLUSHALL \"\"", "redis.conf, line 1: rename-command is not there"),
        ("user alice on", "put users into a file"),
        ("port x", "redis.conf: bind and port: invalid value '127.0.0.1:x'"),
        ("requirepass \"a", "redis.conf, line 1: unbalanced quotes"),
    ] {
        std::fs::write(dir.path().join("redis.conf"), text).unwrap();
        let told = refused(dir.path(), &["--redis-config", "redis.conf"]);
        assert!(told.contains(why), "{text}: {told}");
    }
}

#[test]
fn what_has_changed_is_written_into_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cleave.toml");
    std::fs::write(&path, "# ours\ntimeout = 100 # seconds\n[store]\npreset = \"lsm\"\n").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let store = dir.path().join("store");
    let server = Server::start(&store, &["--config", path.to_str().unwrap()]);
    let lines = "CONFIG SET timeout 200 maxclients 50\r\nCONFIG SET requirepass secret\r\n\
                 CONFIG SET timeout 300 maxclients x\r\nCONFIG SET dir x\r\nCONFIG REWRITE";
    let replies = server.ask(lines);
    assert_eq!(
        replies,
        "+OK\r\n+OK\r\n\
         -ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument couldn't be \
         parsed into an integer\r\n\
         -ERR CONFIG SET failed (possibly related to argument 'dir') - can't set \
         protected config\r\n+OK\r\n"
    );
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = "# ours\ntimeout = 200 # seconds\nmax_clients = 50\nrequirepass = \"secret\"\n\
                 [store]\npreset = \"lsm\"\n";
    assert_eq!(text, lines);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    // A directory where nothing can be written.
    std::fs::remove_file(&path).unwrap();
    let failed = server.ask("AUTH secret\r\nCONFIG REWRITE");
    let why = "+OK\r\n-ERR Rewriting config file: No such file or directory (os error 2)\r\n";
    assert_eq!(failed, why);
    drop(server);
    let server = Server::start(&store, &[]);
    let none = "-ERR The server is running without a config file\r\n";
    assert_eq!(server.ask("CONFIG REWRITE"), none);
}

#[test]
fn a_password_that_was_written_is_that_of_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let (path, store) = (dir.path().join("cleave.toml"), dir.path().join("store"));
    std::fs::write(&path, "").unwrap();
    let start = || Server::start(&store, &["--config", path.to_str().unwrap()]);
    let said = start().ask("CONFIG SET requirepass 007\r\nCONFIG REWRITE");
    assert_eq!(said, "+OK\r\n+OK\r\n");
    let without = "CONFIG SET requirepass \"\"\r\nCONFIG REWRITE";
    let said = start().ask(&format!("GET a\r\nAUTH 007\r\n{without}"));
    assert_eq!(said, "-NOAUTH Authentication required.\r\n+OK\r\n+OK\r\n+OK\r\n");
    assert_eq!(start().ask("GET a"), "$-1\r\n");
    let held = holds(dir.path(), &["--config", "cleave.toml"], &[]);
    assert!(!held.contains("requirepass"), "{held}");
}

#[test]
fn a_silent_client_is_sent_away() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("store"), &[]);
    let mut silent = server.connect();
    silent.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert!(silent.read(&mut [0; 5]).is_err(), "it may be silent for ever");
    assert_eq!(server.ask("CONFIG SET timeout 1"), "+OK\r\n");
    silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(silent.read_to_end(&mut Vec::new()).unwrap(), 0);
}

#[test]
fn a_stranger_has_ten_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("store"), &["--requirepass", "secret"]);
    let (mut stranger, mut known) = (server.connect(), server.connect());
    known.write_all(b"AUTH secret\r\n").unwrap();
    known.read_exact(&mut [0; 5]).unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(7))).unwrap();
    assert!(stranger.read(&mut [0; 5]).is_err(), "seven seconds are fewer");
    stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(stranger.read_to_end(&mut Vec::new()).unwrap(), 0);
    known.write_all(b"PING\r\n").unwrap();
    known.read_exact(&mut [0; 7]).unwrap();
}

/// An address of this machine that is not loopback, if it has one.
pub fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the system only says from where it would be.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn other_machines_need_a_password() {
    let Some(own) = own_address() else {
        println!("NOT CHECKED: this machine has the loopback address only");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let all = format!("{own}:0");
    let more = ["--listen", &all, "--unix-socket", socket.to_str().unwrap()];
    let server = Server::listening(&dir.path().join("store"), &more);
    let from_outside = || {
        let mut client = server.connect();
        let _ = client.write_all(b"PING\r\nQUIT\r\n");
        let mut replies = String::new();
        let _ = client.read_to_string(&mut replies);
        replies
    };
    assert!(from_outside().starts_with("-DENIED"), "{}", from_outside());
    let mut inside = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let mut ok = [0; 5];
    inside.write_all(b"CONFIG SET protected-mode no\r\n").unwrap();
    inside.read_exact(&mut ok).unwrap();
    assert_eq!(from_outside(), "+PONG\r\n+OK\r\n");
    inside.write_all(b"CONFIG SET protected-mode yes requirepass x\r\n").unwrap();
    inside.read_exact(&mut ok).unwrap();
    assert!(from_outside().starts_with("-NOAUTH"));
}

#[test]
fn it_listens_wherever_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let more = ["--listen", "127.0.0.2:0", "--unix-socket", socket.to_str().unwrap()];
    let server = Server::start(
        &dir.path().join("store"),
        &[&more[..], &["--unix-socket-perm", "700"]].concat(),
    );
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(server.ask("PING"), "+PONG\r\n");
    let listened = std::fs::read_to_string(format!("/proc/{}/net/tcp", server.child.id())).unwrap();
    // Addresses there are in the order of this machine's bytes.
    assert!(listened.contains(" 0200007F:"), "{listened}");
    let dir = tempfile::tempdir().unwrap();
    let taken = &*server.address;
    let said = said(dir.path(), &["--listen", taken], &[]);
    let told = String::from_utf8(said.stderr).unwrap();
    assert!(told.contains(taken) && !said.status.success(), "{told}");
}
