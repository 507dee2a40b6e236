//! What a process that was killed leaves, and what is said of what it takes with it. Commands that
//! read leave it as it is.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Command;

use serde_json::{Value, json};

use crate::common::Home;

/// The bytes of the window before its ring.
const HEADER: usize = 4096;

/// A database whose process was killed after three writes that were not synced; none if the window
/// cannot be a file here.
pub fn killed() -> Option<Home> {
    let home = Home::new();
    home.fill(&[("old", "0")]);
    let (mut child, mut stdin) = home.start(&["shell", "--durability", "os"]);
    stdin.write_all(b"put first 1\nput second 2\nput third 3\nget third\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "3\n");
    child.kill().unwrap();
    child.wait().unwrap();
    home.path("cleave.db/window").exists().then_some(home)
}

fn copied(home: &Home, name: &str) {
    let mut copy = Command::new("cp");
    let copied = copy.args(["-r", "cleave.db", name]).current_dir(home.path("."));
    assert!(copied.status().unwrap().success());
}

#[test]
fn a_killed_process_takes_nothing_with_it_and_nothing_is_said() {
    let Some(home) = killed() else { return };
    let ran = home.run(&["get", "third"]);
    assert_eq!((ran.err.as_str(), &*ran.out), ("", &b"3"[..]));
}

#[test]
fn a_lost_window_is_given_up_only_if_somebody_says_so() {
    let Some(home) = killed() else { return };
    fs::remove_file(home.path("cleave.db/window")).unwrap();
    copied(&home, "copy");
    home.run(&["get", "old"]).fails(3, "--accept-lost-window");
    home.run(&["put", "a", "b"]).fails(3, "--accept-lost-window");
    let help = home.run(&["--help"]).text();
    assert!(help.contains("--accept-lost-window") && help.contains("are lost"), "{help}");
    let ran = home.run(&["--accept-lost-window", "--quiet", "get", "old"]);
    assert!(ran.err.contains("warning: the log window is lost"), "{}", ran.err);
    assert_eq!(ran.ok(), b"0");
    home.run(&["get", "old"]).fails(3, "--accept-lost-window");
    home.run(&["--accept-lost-window", "put", "new", "1"]).ok();
    let ran = home.run(&["get", "old"]);
    assert_eq!((ran.err.as_str(), &*ran.out), ("", &b"0"[..]), "a write ends it");
    let args = ["--db", "copy", "--accept-lost-window", "--json", "check"];
    let checked = home.run(&args).json().remove(0);
    assert_eq!((&checked["window_lost"], &checked["problems"]), (&json!(true), &json!([])));
}

#[test]
fn operations_that_are_lost_are_told_until_the_next_write() {
    let Some(home) = killed() else { return };
    let path = home.path("cleave.db/window");
    let mut window = fs::read(&path).unwrap();
    let ring = &window[HEADER..];
    let at = ring.windows(6).position(|window| window == b"second").unwrap();
    window[HEADER + at] ^= 1;
    fs::write(&path, window).unwrap();
    copied(&home, "copy");
    let ran = home.run(&["--json", "get", "first"]);
    let warning: Value = serde_json::from_str(ran.err.lines().next().unwrap()).unwrap();
    let words = warning["warning"].as_str().unwrap();
    assert!(words.contains("2 operations lost"), "{words}");
    assert!(home.run(&["put", "fourth", "4"]).err.contains("2 operations"));
    assert_eq!(home.run(&["get", "first"]).err, "");
    home.run(&["get", "second"]).fails(1, "no such key");
    let text = home.run(&["--db", "copy", "check"]).text();
    assert!(text.contains("the open found: 2 operations"), "{text}");
}
