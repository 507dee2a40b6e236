//! Backups: made, listed, checked, removed and restored.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cleavedb_testkit::program::Program;
use serde_json::json;

use crate::common::{Cleave, Home, PATIENCE, Ran};
use crate::losses::killed;

/// The names in the directory of backups.
fn names(home: &Home) -> Vec<String> {
    let entries = fs::read_dir(home.path("backups")).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_backup_is_restored() {
    let home = Home::new();
    home.fill(&[("apple", "red"), ("banana", "yellow")]);
    let told = home.run(&["backup", "backups"]).text();
    assert!(told.contains("made backup 1 of"), "{told}");
    home.run(&["put", "apple", "green"]).ok();
    let made = home.run(&["--json", "backup", "backups"]).json().remove(0);
    assert_eq!((&made["number"], &made["removed"]), (&json!(2), &json!([])));
    let newest = ["--db", "newest", "restore", "backups"];
    assert!(home.run(&newest).text().contains("restored backup 2 in newest"));
    assert_eq!(home.run(&["--db", "newest", "get", "apple"]).ok(), b"green");
    let first = ["--json", "--db", "first", "restore", "backups", "--number", "1"];
    let told = home.run(&first).json().remove(0);
    assert_eq!((&told["number"], &told["checked"]), (&json!(1), &json!(true)));
    assert_eq!(home.run(&["--db", "first", "get", "apple"]).ok(), b"red");
    // The restored copy is a database of its own, and can be backed up in the same place.
    home.run(&["--db", "first", "put", "apple", "blue"]).ok();
    home.run(&["--db", "first", "backup", "backups"]).ok();
    assert_eq!(home.run(&["--db", "backups/000003", "get", "apple"]).ok(), b"blue");
    assert_eq!(home.run(&["--db", "backups/000002", "get", "apple"]).ok(), b"green");
    home.run(&["--db", "backups/000002", "check"]).ok();
    home.run(&["--db", "backups/000002", "put", "a", "b"]).fails(4, "is a backup");
    home.run(&newest).fails(4, "must be empty");
    home.run(&["--db", "x", "restore", "backups", "--number", "9"]).fails(4, "no such backup");
    home.run(&["--db", "x", "restore", "nothing"]).fails(4, "no such directory");
    assert!(!home.path("x").exists());
}

#[test]
fn backups_are_listed_and_removed() {
    let home = Home::new();
    home.fill(&[("apple", "red")]);
    home.run(&["backup", "backups", "--list"]).fails(4, "no such directory");
    for _ in 0..3 {
        home.run(&["put", "apple", "green"]).ok();
        home.run(&["backup", "backups"]).ok();
    }
    let listed = home.run(&["--json", "backup", "backups", "--list"]).json();
    let numbers: Vec<_> = listed.iter().map(|it| it["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(listed.iter().all(|it| it["made"].as_u64() > Some(1_700_000_000)));
    assert_eq!(listed[0]["directory"], json!("backups/000001"));
    let text = home.run(&["backup", "backups", "--list"]).text();
    assert!(text.lines().count() == 3 && text.contains("UTC"), "{text}");
    home.run(&["backup", "backups", "--remove", "2"]).ok();
    home.run(&["backup", "backups", "--remove", "2"]).fails(4, "--list");
    assert!(home.run(&["backup", "backups", "--prune", "1"]).text().contains("removed backup 1"));
    assert!(home.run(&["backup", "backups", "--prune", "1"]).text().contains("no backup to"));
    let made = home.run(&["--json", "backup", "backups", "--keep", "1"]).json().remove(0);
    assert_eq!((&made["number"], &made["removed"]), (&json!(4), &json!([3])));
    home.run(&["backup", "backups", "--full"]).ok();
    assert_eq!(names(&home), ["000004", "000005", "lock"]);
    for wrong in [&["--keep", "0"][..], &["--keep", "1", "--list"], &["--list", "--prune", "1"]] {
        home.run(&[&["backup", "backups"], wrong].concat()).fails(2, "");
    }
    home.run(&["--db", "other", "put", "a", "b"]).ok();
    home.run(&["--db", "other", "backup", "backups"]).fails(2, "another database");
    home.run(&["backup", "other"]).fails(2, "holds a database");
    home.run(&["--db", "none", "backup", "backups"]).fails(4, "no database");
}

#[test]
fn damage_of_a_backup_is_found_and_not_restored() {
    let home = Home::new();
    home.fill(&[("apple", &"red".repeat(1000))]);
    home.run(&["backup", "backups"]).ok();
    let checked = home.run(&["--json", "backup", "backups", "--verify"]).json().remove(0);
    assert_eq!((&checked["keys"], &checked["problems"]), (&json!(1), &json!([])));
    let files = fs::read_dir(home.path("backups/000001")).unwrap().map(|it| it.unwrap().path());
    let (mut file, mut bytes) = (Vec::new(), Vec::new());
    for path in files {
        let content = fs::read(&path).unwrap();
        if let Some(at) = content.windows(6).position(|part| part == b"redred") {
            file.push((path, at));
            bytes = content;
        }
    }
    let [(path, at)] = &file[..] else { panic!("the value is in {file:?}") };
    bytes[*at] ^= 1;
    fs::write(path, bytes).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let ran = home.run(&["backup", "backups", "--verify", "1"]);
    let told = format!("{}{}", String::from_utf8_lossy(&ran.out), ran.err);
    assert!(told.contains(name), "{told}");
    ran.fails(3, "");
    home.run(&["--db", "new", "restore", "backups"]).fails(3, name);
    assert_eq!(fs::read_dir(home.path("new")).unwrap().count(), 0);
}

#[test]
fn what_a_killed_process_has_left_is_backed_up() {
    let Some(home) = killed() else { return };
    home.run(&["backup", "backups"]).ok();
    home.run(&["--db", "new", "restore", "backups"]).ok();
    assert_eq!(home.run(&["--db", "new", "get", "third"]).ok(), b"3");
    // The database is as it was: nothing was recovered on its disk.
    assert!(home.path("cleave.db/window").exists());
    home.run(&["put", "fourth", "4"]).ok();
    home.run(&["backup", "backups"]).ok();
    assert_eq!(home.run(&["--db", "backups/000002", "count"]).text(), "5\n");
}

/// Whether this is the name of a backup that is whole.
fn is_whole(name: &str) -> bool {
    name.parse::<u64>().is_ok()
}

#[test]
fn a_backup_that_is_stopped_or_killed_leaves_the_others() {
    let home = Home::new();
    let line = |key| format!("{{\"key\":\"key{key}\",\"value\":\"{}\"}}\n", "v".repeat(300_000));
    let lines: String = (0..250).map(line).collect();
    home.run_with(&["--preset", "wisckey", "import", "--jsonl", "-"], lines.as_bytes()).ok();
    home.run(&["backup", "backups"]).ok();
    for signal in ["KILL", "INT", "KILL", "TERM"] {
        let before = names(&home);
        let mut command = Command::new(Cleave::PATH);
        command
            .current_dir(home.path("."))
            .env_remove("CLEAVE_DB")
            .args(["backup", "backups", "--full", "--quiet"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let begin = Instant::now();
        while names(&home) == before && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let kill = format!("kill -{signal} {}", child.id());
        // The child may have ended already.
        let _ = Command::new("sh").args(["-c", &kill]).output().unwrap();
        let ran = Ran::new(child.wait_with_output().unwrap());
        let after = names(&home);
        println!("{signal}: {:?}, {}", after, ran.err);
        if signal != "KILL" {
            let unfinished = after.iter().any(|name| name.ends_with("unfinished"));
            assert!(!unfinished, "{after:?}");
            let whole = |names: &[String]| names.iter().filter(|name| is_whole(name)).count();
            let stopped = ran.err.contains("interrupted");
            assert_eq!(whole(&after), whole(&before) + usize::from(!stopped), "{}", ran.err);
        }
        for backup in after.iter().filter(|name| is_whole(name)) {
            let number = backup.trim_start_matches('0');
            home.run(&["backup", "backups", "--verify", number]).ok();
        }
    }
    home.run(&["backup", "backups", "--keep", "1"]).ok();
    let left = names(&home);
    assert!(left.len() == 2 && left[1] == "lock", "{left:?}");
}
