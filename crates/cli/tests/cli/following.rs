//! Commands that read beside a process that writes: they follow it, and it does not notice.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdin, ChildStdout};

use crate::common::{Home, Ran};
use crate::manners::send;
use crate::read_only::{as_ordinary_user, let_others_read};

/// A shell that keeps the database open.
pub(crate) struct Shell {
    pub(crate) child: Child,
    stdin: ChildStdin,
    out: BufReader<ChildStdout>,
}

impl Shell {
    pub(crate) fn new(home: &Home) -> Self {
        Self::with(home, &[])
    }

    /// A shell with more arguments.
    pub(crate) fn with(home: &Home, more: &[&str]) -> Self {
        let (mut child, stdin) = home.start(&[&["shell", "--durability", "os"], more].concat());
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, out }
    }

    /// Ends it, and waits for its end.
    pub(crate) fn end(self) {
        let Self { mut child, stdin, .. } = self;
        drop(stdin);
        assert!(child.wait().unwrap().success());
    }

    /// Runs `lines`, and then waits for its answer to a `get` of `key`.
    pub(crate) fn run(&mut self, lines: &str, key: &str) -> String {
        self.stdin.write_all(format!("{lines}\nget {key}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

/// The output of a command that followed, which said so once.
fn followed(ran: Ran) -> String {
    assert_eq!(ran.err.matches("following the process that has").count(), 1, "{}", ran.err);
    ran.text()
}

#[test]
fn a_running_shell_is_followed() {
    for preset in ["lsm", "wisckey", "hashkv", "ktstore", "cleave", "hoakv", "ohdb"] {
        let home = Home::new();
        let long = "x".repeat(3000);
        home.run(&["--preset", preset, "put", "first", "1"]).ok();
        let mut shell = Shell::new(&home);
        assert_eq!(shell.run(&format!("put second 2\nput long {long}"), "second"), "2");
        assert_eq!(followed(home.run(&["get", "second"])), "2", "{preset}");
        assert_eq!(followed(home.run(&["get", "long"])), long, "{preset}");
        assert_eq!(followed(home.run(&["count"])), "3\n");
        assert_eq!(followed(home.run(&["scan", "--keys-only"])), "first\nlong\nsecond\n");
        assert!(followed(home.run(&["stats"])).contains(preset));
        assert!(!followed(home.run(&["size"])).is_empty());
        assert_eq!(
            followed(home.run(&["keyspace", "list"])),
            followed(home.run(&["keyspace", "list"]))
        );
        assert!(followed(home.run(&["export", "--jsonl", "-"])).contains("\"second\""));
        // What the shell writes afterwards is seen by the next command.
        assert_eq!(shell.run("del first\nput second 4", "second"), "4");
        assert_eq!(followed(home.run(&["get", "second"])), "4");
        home.run(&["get", "first"]).fails(1, "there is no such key");
        home.run(&["put", "second", "5"]).fails(4, "has the database open");
        assert!(followed(home.run(&["check"])).ends_with("all is well\n"));
        // A reader that is killed leaves nothing that the shell would notice.
        let (mut reader, reader_stdin) = home.start(&["scan"]);
        reader.kill().unwrap();
        drop(reader_stdin);
        reader.wait().unwrap();
        assert_eq!(shell.run("put third 3", "third"), "3");
        let quiet = home.run(&["--quiet", "get", "second"]);
        assert_eq!((quiet.err.as_str(), &*quiet.out), ("", &b"4"[..]));
        let json = home.run(&["--json", "get", "second"]);
        assert!(json.err.contains("{\"note\":\"following"), "{}", json.err);
        shell.end();
        let closed = home.run(&["get", "second"]);
        assert_eq!((closed.err.as_str(), &*closed.out), ("", &b"4"[..]));
    }
}

#[test]
fn a_user_who_may_not_write_follows() {
    let home = Home::new();
    home.run(&["put", "first", "1"]).ok();
    let mut shell = Shell::new(&home);
    assert_eq!(shell.run("put second 2", "second"), "2");
    let_others_read(&home);
    assert_eq!(followed(as_ordinary_user(&home, &["get", "second"])), "2");
    assert_eq!(followed(as_ordinary_user(&home, &["count"])), "2\n");
    let db = home.path("cleave.db");
    fs::set_permissions(db, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(shell.run("put third 3", "third"), "3");
    shell.end();
}

/// Of two loops of puts more than half failed.
#[test]
fn commands_that_write_wait_for_each_other() {
    const LOOPS: usize = 3;
    const PUTS: usize = 5;
    let home = Home::new();
    std::thread::scope(|scope| {
        for number in 0..LOOPS {
            let home = &home;
            scope.spawn(move || {
                for at in 0..PUTS {
                    let key = format!("{number} {at}");
                    home.run(&["--wait", "10min", "put", &key, "value"]).ok();
                }
            });
        }
    });
    assert_eq!(home.run(&["--quiet", "count"]).text(), format!("{}\n", LOOPS * PUTS));
    let mut shell = Shell::new(&home);
    assert_eq!(shell.run("put more 1", "more"), "1");
    for command in [&["del", "more"][..], &["compact"], &["collect"]] {
        let refused = home.run(&[&["--wait", "20ms"], command].concat());
        refused.fails(4, "has the database open");
    }
    // A signal ends the wait.
    let (mut waiting, stdin) = home.start(&["--wait", "10min", "compact"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    send("INT", &waiting);
    assert!(!waiting.wait().unwrap().success());
    drop(stdin);
    shell.end();
}
