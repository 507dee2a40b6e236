//! `changes`: what was committed, as lines and as JSON.

use std::io::{BufRead, BufReader};

use crate::common::Home;

#[test]
fn what_was_committed_is_printed_in_order() {
    let home = Home::new();
    home.run(&["put", "old", "1"]).ok();
    home.run(&["changes"]).fails(4, "no changes are kept");
    home.run(&["--with", "change_retention_bytes=1MiB", "put", "a", "1"]).ok();
    // It is stored with the database.
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
    // A look of the other command may have the database open for a moment.
    while home.run(&["put", "b", "2"]).code != Some(0) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(lines.next().unwrap().unwrap().contains("\"key\":\"b\""));
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(stdin);
}
