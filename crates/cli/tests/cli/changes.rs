//! `changes`: what was committed, as lines and as JSON.

use std::io::{BufRead, BufReader};

use crate::common::Home;
use crate::following::Shell;

#[test]
fn what_was_committed_is_printed_in_order() {
    let home = Home::new();
    home.run(&["put", "old", "1"]).ok();
    home.run(&["changes"]).fails(4, "no changes are kept");
    home.run(&["--with", "change_retention_bytes=1MiB", "put", "a", "1"]).ok();
    // The retention is stored with the database.
    home.run(&["put", "-k", "own", "tab\there", "\\"]).ok();
    home.run(&["merge", "n", "add", "5"]).ok();
    home.run(&["del", "a"]).ok();
    home.run(&["del", "--from", "b", "--to", "c"]).ok();
    home.run_with(&["import", "--bulk", "--jsonl", "-"], b"{\"key\":\"l\",\"value\":\"1\"}\n").ok();
    home.run(&["keyspace", "drop", "own"]).ok();
    let text = home.run(&["changes"]).text();
    let lines: Vec<&str> = text.lines().collect();
    let told = |line: &str| line.split_once('\t').unwrap().1.to_owned();
    let told: Vec<String> = lines.iter().map(|line| told(line)).collect();
    let expected = [
        "default\tput\ta\t1",
        "own\tcreate-keyspace",
        "own\tput\ttab\\there\t\\\\",
        "default\tmerge\tn\tadd\t5",
        "default\tdelete\ta",
        "default\tdelete-range\tb\tc",
        "default\tloaded\tl\tl",
        "own\tdrop-keyspace",
    ];
    assert_eq!(told, expected);
    let rows = home.run(&["changes", "--json"]).json();
    assert_eq!(rows[0]["key"], "a");
    // Each row says where to go on.
    let next = rows[3]["next"].to_string();
    let rest = home.run(&["changes", "--from", &next]).text();
    assert_eq!(rest.lines().collect::<Vec<_>>(), lines[4..]);
    let own = home.run(&["changes", "--keyspace", "own"]).text();
    assert_eq!(own.lines().count(), 3);
    home.run(&["changes", "--from", "1"]).fails(4, "not kept any more");
}

#[test]
fn a_command_that_follows_prints_later_commits_and_ends_cleanly() {
    let home = Home::new();
    home.run(&["--with", "change_retention_bytes=1MiB", "put", "a", "1"]).ok();
    let (child, stdin) = home.start(&["changes", "--follow", "--json"]);
    let mut child = child;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("\"key\":\"a\""));
    home.run(&["put", "b", "2"]).ok();
    assert!(lines.next().unwrap().unwrap().contains("\"key\":\"b\""));
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(stdin);
}

/// Processes that write come and go, by a close and by a kill, while one command follows.
#[test]
fn a_command_that_follows_outlives_those_that_write() {
    const PUTS: usize = 40;
    for preset in ["lsm", "wisckey", "ktstore"] {
        let home = Home::new();
        // So small that flushes and other log files come with each session.
        let sizes = ["memtable_bytes=256KiB", "log_file_bytes=128KiB", "window_bytes=256KiB"];
        let with = sizes.iter().flat_map(|size| ["--with", size]);
        let keep = ["--preset", preset, "--with", "change_retention_bytes=64MiB"];
        let args: Vec<&str> =
            keep.into_iter().chain(with.clone()).chain(["put", "0", "x"]).collect();
        home.run(&args).ok();
        let (mut child, stdin) = home.start(&["changes", "--follow", "--json"]);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut told = || {
            let line = lines.next().unwrap().unwrap();
            let row: serde_json::Value = serde_json::from_str(&line).unwrap();
            row["key"].as_str().unwrap().parse::<usize>().unwrap()
        };
        assert_eq!(told(), 0);
        let (mut number, value) = (0, "x".repeat(9000));
        for session in 0..6 {
            let mut shell = Shell::with(&home, &with.clone().collect::<Vec<_>>());
            for _ in 0..PUTS {
                number += 1;
                let written = shell.run(&format!("put {number} {value}"), &number.to_string());
                assert_eq!(written.len(), value.len());
                // Each is told while the writer goes on.
                assert_eq!(told(), number, "{preset}, session {session}");
            }
            match session % 3 {
                0 => shell.end(),
                _ => {
                    shell.child.kill().unwrap();
                    shell.child.wait().unwrap();
                }
            }
        }
        home.run(&["del", "1"]).ok();
        assert_eq!(told(), 1);
        child.kill().unwrap();
        child.wait().unwrap();
        drop(stdin);
    }
}

#[test]
fn changes_of_a_store_that_is_open_are_printed() {
    let home = Home::new();
    home.run(&["--with", "change_retention_bytes=1MiB", "put", "a", "1"]).ok();
    let mut shell = Shell::new(&home);
    assert_eq!(shell.run("put b 2", "b"), "2");
    let ran = home.run(&["changes"]);
    assert!(ran.err.contains("following the process that has"), "{}", ran.err);
    assert_eq!(ran.text().lines().count(), 2);
    shell.end();
}

/// The error named a function of the library, and no option of the program.
#[test]
fn kept_changes_are_given_up_as_the_error_says() {
    let home = Home::new();
    home.run(&["--with", "change_retention_bytes=64MiB", "put", "a/1", "secret"]).ok();
    home.run(&["del", "a/1"]).ok();
    let collect = ["collect", "--prefix", "a/"];
    let cure = ["--with", "change_retention_bytes=0"];
    home.run(&collect).fails(4, &format!("`{}` gives them up", cure.join(" ")));
    home.run(&[&cure[..], &collect].concat()).ok();
    home.run(&collect).ok();
}
