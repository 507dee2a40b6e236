//! What goes wrong: each failure has its words and its exit code, and does no harm.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::{Home, PATIENCE, Ran};

#[test]
fn reading_creates_no_database() {
    let home = Home::new();
    for args in [
        &["get", "key"][..],
        &["scan"],
        &["export", "--dir", "out"],
        &["stats"],
        &["check"],
        &["collect"],
        &["compact"],
        &["del", "key"],
    ] {
        home.run(args).fails(4, "there is no database in cleave.db");
        let json = home.run(&[&["--json"], args].concat());
        let error: serde_json::Value = serde_json::from_str(&json.err).unwrap();
        assert_eq!(error["error"]["kind"], json!("no database"));
        assert!(!home.path("cleave.db").exists() && !home.path("out").exists());
    }
    fs::create_dir(home.path("cleave.db")).unwrap();
    home.run(&["get", "key"]).fails(4, "there is no database in cleave.db");
    assert_eq!(fs::read_dir(home.path("cleave.db")).unwrap().count(), 0);
}

#[test]
fn a_directory_of_somebody_else_is_left_alone() {
    let home = Home::new();
    home.file("cleave.db/thesis.tex", b"precious");
    home.run(&["put", "key", "value"]).fails(4, "not CleaveDB's");
    home.run(&["get", "key"]).fails(4, "not CleaveDB's");
    home.file("file", b"");
    home.run(&["--db", "file", "get", "key"]).fails(4, "path=file");
    assert_eq!(fs::read(home.path("cleave.db/thesis.tex")).unwrap(), b"precious");
}

#[test]
fn a_second_opener_is_told_so() {
    let home = Home::new();
    let (child, stdin) = home.waiting_import();
    home.run(&["collect"]).fails(4, "has the database open");
    home.run(&["put", "key", "other"]).fails(4, "has the database open");
    let json = home.run(&["--json", "collect"]);
    let error: serde_json::Value = serde_json::from_str(&json.err).unwrap();
    assert_eq!(error["error"]["kind"], json!("locked"));
    drop(stdin);
    Ran::new(child.wait_with_output().unwrap()).ok();
    assert_eq!(home.run(&["scan"]).text(), "first\t1\n");
}

#[test]
fn ctrl_c_stops_between_operations_and_closes_well() {
    let home = Home::new();
    let (child, mut stdin) = home.waiting_import();
    let pid = child.id();
    let feeder = std::thread::spawn(move || {
        let line = format!("{{\"key\":\"k\",\"value\":\"{}\"}}\n", "v".repeat(1000));
        let begin = Instant::now();
        while stdin.write_all(line.as_bytes()).is_ok() && begin.elapsed() < PATIENCE {}
    });
    std::thread::sleep(Duration::from_millis(300));
    let sent = Command::new("sh").args(["-c", &format!("kill -INT {pid}")]).status().unwrap();
    assert!(sent.success());
    Ran::new(child.wait_with_output().unwrap()).fails(130, "interrupted");
    feeder.join().unwrap();
    assert_eq!(home.run(&["get", "first"]).ok(), b"1");
    let stats = home.run(&["--json", "stats"]).json().remove(0);
    assert_eq!(stats["replayed_operations"], json!(0), "it was closed");
    home.run(&["check"]).ok();
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let home = Home::new();
    let value = "v".repeat(1000);
    let keys: Vec<_> = (0..2000).map(|key| format!("key{key}")).collect();
    let pairs: Vec<_> = keys.iter().map(|key| (key.as_str(), value.as_str())).collect();
    home.fill(&pairs);
    for args in [
        &["scan"][..],
        &["scan", "--json"],
        &["scan", "--raw0"],
        &["export", "--jsonl", "-"],
        &["export", "--csv", "-"],
    ] {
        let mut command = home.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn every_command_ends_quietly_without_a_reader() {
    let home = Home::new();
    home.fill(&[("key", &"v".repeat(1000))]);
    home.file("tree/file", b"content");
    let done = "get key;put key value;--json put key value;merge n add 1;expire key 1h;\
                del --prefix n;scan;count;size;keyspace create new;keyspace list;\
                keyspace drop new;stats;stats --all;stats --prometheus;check;compact;collect;\
                export --jsonl -;export --dir new;import --dir tree;checkpoint copy;\
                backup backups;backup backups --list;backup backups --verify;\
                --db again restore backups;repair cleave.db saved;dump cleave.db log;shell;\
                tour tree;completions bash;man;--help;help get;--version;--with help;\
                --db copy destroy --yes";
    for command in done.split(';') {
        let args: Vec<_> = command.split_whitespace().collect();
        assert_eq!(home.run_unheard(&args), Some(0), "{command}");
    }
    for (args, code) in [(&["get", "gone"][..], 1), (&["frobnicate"], 2), (&["changes"], 4)] {
        assert_eq!(home.run_unheard(args), Some(code), "{args:?}");
    }
}

/// The files of the database that may hold values.
fn value_files(home: &Home) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(home.path("cleave.db")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let holds = |path: &PathBuf| path.extension().is_some_and(|end| end == "log" || end == "grp");
    paths.filter(holds)
}

#[test]
fn a_damaged_value_is_an_error_and_never_missing() {
    let home = Home::new();
    let value = "precious".repeat(100);
    home.fill(&[("damaged", &value), ("whole", "2")]);
    let hit = value_files(&home).find_map(|path| {
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.windows(16).position(|window| window == b"preciousprecious")?;
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        Some(path)
    });
    assert!(hit.is_some(), "no file holds the value");
    home.run(&["get", "damaged"]).fails(3, "key=damaged");
    assert_eq!(home.run(&["get", "whole"]).ok(), b"2", "the rest is not affected");
    home.run(&["scan"]).fails(3, "key=damaged");
    home.run(&["export", "--dir", "out"]).fails(3, "`cleave repair DAMAGED NEW` saves");
    let checked = home.run(&["check"]);
    assert_eq!(checked.code, Some(3));
    let report = String::from_utf8(checked.out).unwrap();
    assert!(report.contains("PROBLEM: corruption") && report.contains(".grp"), "{report}");
    let json = home.run(&["--json", "get", "damaged"]);
    let error: serde_json::Value = serde_json::from_str(&json.err).unwrap();
    assert_eq!(error["error"]["exit"], json!(3));
}

#[test]
fn a_damaged_database_says_so() {
    let home = Home::new();
    home.fill(&[("key", "value")]);
    let current = home.path("cleave.db/current");
    let whole = fs::read(&current).unwrap();
    let mut bytes = whole.clone();
    bytes[whole.len() / 2] ^= 0x40;
    fs::write(&current, bytes).unwrap();
    home.run(&["get", "key"]).fails(3, "corruption");
    home.run(&["check"]).fails(3, "corruption");
    home.run(&["put", "key", "other"]).fails(3, "corruption");
    fs::remove_file(&current).unwrap();
    home.run(&["get", "key"]).fails(3, "restore it from a backup");
    fs::write(&current, whole).unwrap();
    assert_eq!(home.run(&["get", "key"]).ok(), b"value");
}

#[test]
fn a_space_limit_is_told_and_one_that_is_too_low_is_refused() {
    let home = Home::new();
    home.run(&["--space-limit", "1MiB", "put", "key", "value"]).fails(2, "is less than what");
    home.run(&["--space-limit", "4GiB", "put", "key", "value"]).ok();
    assert!(home.run(&["--space-limit", "4GiB", "stats"]).text().contains("the limit of 4.00 GiB"));
}

#[test]
fn what_is_readable_in_a_damaged_database_is_saved() {
    let home = Home::new();
    let value = "precious".repeat(100);
    home.fill(&[("damaged", &value), ("whole", "2"), ("gone", "3")]);
    home.run(&["del", "gone"]).ok();
    home.run(&["repair", "cleave.db", "same"]).ok();
    assert_eq!(home.run(&["--db", "same", "count"]).text(), "2\n");
    for path in value_files(&home) {
        let mut bytes = fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(16).position(|window| window == b"preciousprecious") {
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
    }
    let ran = home.run(&["repair", "cleave.db", "new"]);
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    let text = String::from_utf8(ran.out).unwrap();
    assert!(text.contains("LOST: the value of damaged") && text.contains("DAMAGE: "), "{text}");
    assert_eq!(home.run(&["--db", "new", "scan"]).text(), "whole\t2\n");
    home.run(&["repair", "cleave.db", "new"]).fails(4, "new or empty");
    fs::remove_file(home.path("cleave.db/current")).unwrap();
    let json = home.run(&["--json", "repair", "cleave.db", "other"]);
    assert_eq!(json.code, Some(3));
    let repaired: serde_json::Value = serde_json::from_slice(&json.out).unwrap();
    assert_eq!(repaired["lost_keys"], json!(1), "{repaired}");
    home.run(&["repair", "nowhere", "x"]).fails(4, "nowhere");
}

/// What was met was an "i/o error: Not a directory", which did not say what a database is.
#[test]
fn a_file_in_place_of_a_database_is_named_as_such() {
    let home = Home::new();
    home.file("file", b"");
    for args in [["get", "key", "--db"], ["put", "key", "--db"], ["count", "--hex", "--db"]] {
        home.run(&[&args[..], &["file"]].concat()).fails(4, "a database is a directory");
    }
    home.run(&["--db", "file/db", "put", "key", "value"]).fails(4, "a database is a directory");
}

/// After a kill in a restore, the same command said only that the directory is not empty.
#[test]
fn the_rest_of_a_copy_that_was_killed_is_named_as_such() {
    let home = Home::new();
    home.fill(&[("key", "value")]);
    home.run(&["backup", "backups"]).ok();
    home.run(&["--db", "restored", "restore", "backups"]).ok();
    let again = ["--db", "restored", "restore", "backups"];
    home.run(&again).fails(4, "must be empty; choose another one");
    fs::remove_file(home.path("restored/current")).unwrap();
    home.run(&again).fails(4, "as a copy leaves them that is killed");
    home.run(&["checkpoint", "restored"]).fails(4, "as a copy leaves them that is killed");
    fs::remove_dir_all(home.path("restored")).unwrap();
    home.run(&again).ok();
    home.run(&["backup", "cleave.db", "--list"]).ok();
}
