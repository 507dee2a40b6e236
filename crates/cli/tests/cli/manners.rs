//! How the program behaves towards its surroundings: names, signals, locks, limits and exit codes.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::common::{Home, PATIENCE, Ran, json_lines};

#[test]
fn a_preset_is_named_in_any_case() {
    let home = Home::new();
    home.run(&["--preset", "HashKv", "put", "a", "1"]).ok();
    assert!(home.run(&["--preset", "HASHKV", "stats"]).text().contains("preset hashkv"));
    home.run(&["--preset", "btree", "get", "a"]).fails(2, "hashkv");
}

pub(crate) fn send(signal: &str, child: &Child) {
    let kill = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

#[test]
fn a_signal_ends_an_import_that_waits_for_its_pipe() {
    for signal in ["INT", "TERM"] {
        let home = Home::new();
        let (child, stdin) = home.waiting_import();
        send(signal, &child);
        ended(child).fails(130, "interrupted");
        drop(stdin);
        let stats = home.run(&["--json", "stats"]).json().remove(0);
        assert_eq!(stats["replayed_operations"], serde_json::json!(0), "it was closed");
        assert_eq!(home.run(&["get", "first"]).ok(), b"1");
    }
}

/// Waits until `child` is done.
pub(crate) fn ended(mut child: Child) -> Ran {
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        let late = begin.elapsed() > PATIENCE;
        if late {
            child.kill().unwrap();
        }
        assert!(!late, "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ran::new(child.wait_with_output().unwrap())
}

/// SIGTERM once ended a put with another code than Ctrl-C an import.
#[test]
fn a_signal_ends_a_put_that_waits_for_its_pipe() {
    let home = Home::new();
    let (child, mut stdin) = home.start(&["--json", "put", "key", "-"]);
    stdin.write_all(b"part").unwrap();
    let status = format!("/proc/{}/status", child.id());
    let begin = Instant::now();
    // Before it hears signals, one of them would end it at once.
    let hears = |line: &str| line.starts_with("SigCgt:") && line.ends_with(|c| c != '0');
    while !fs::read_to_string(&status).unwrap().lines().any(hears) {
        assert!(begin.elapsed() < PATIENCE, "it does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    send("TERM", &child);
    let ran = ended(child);
    let lines = json_lines(ran.err.as_bytes());
    assert!(lines[0]["note"].is_string(), "{lines:?}");
    ran.fails(130, "interrupted");
    drop(stdin);
    assert!(!home.path("cleave.db").exists());
}

#[test]
fn help_of_a_command_shows_its_own_options_and_the_way_to_the_others() {
    let home = Home::new();
    for args in [&["put", "--help"][..], &["put", "-h"], &["help", "put"]] {
        let help = home.run(args).text();
        assert!(help.contains("cleave --help"), "{help}");
        assert!(!help.contains("--space-limit") && !help.contains("--hex"), "{help}");
    }
    assert!(home.run(&["put", "--help"]).text().contains("--durability"));
    let all = home.run(&["--help"]).text();
    assert!(all.contains("--space-limit") && all.contains("--hex"), "{all}");
    home.run(&["put", "key", "value", "--hex"]).fails(2, "hex");
}

#[test]
fn who_holds_the_lock_is_named() {
    let home = Home::new();
    let (child, stdin) = home.waiting_import();
    home.run(&["collect"]).fails(4, &format!("process {}", child.id()));
    drop(stdin);
    Ran::new(child.wait_with_output().unwrap()).ok();
    home.run(&["get", "first"]).ok();
}

/// The files of the database with data in them, and `current`.
fn files(home: &Home) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.path("whole")).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    let beside = ["lock", "reserve", "window"];
    files.retain(|path| path.file_name().is_some_and(|name| !beside.iter().any(|b| name == *b)));
    files.sort();
    files
}

#[test]
fn a_file_that_is_missing_is_damage() {
    for preset in ["lsm", "wisckey", "hashkv"] {
        let home = Home::new();
        let line = |key| format!("{{\"key\":\"key{key}\",\"value\":\"{}\"}}\n", "v".repeat(1000));
        let lines: String = (0..200).map(line).collect();
        let whole = ["--db", "whole", "--preset", preset, "import", "--jsonl", "-"];
        home.run_with(&whole, lines.as_bytes()).ok();
        for file in files(&home) {
            let name = file.file_name().unwrap().to_str().unwrap();
            let emptied = fs::metadata(&file).unwrap().len() == 0;
            let mut copy = Command::new("cp");
            let copied = copy.args(["-r", "whole", "copy"]).current_dir(home.path("."));
            assert!(copied.status().unwrap().success());
            fs::remove_file(home.path("copy").join(name)).unwrap();
            for command in [&["scan"][..], &["check"]] {
                let ran = home.run(&[&["--db", "copy"][..], command].concat());
                // A log file that was made and not begun holds nothing.
                let codes = if emptied { [0, 3] } else { [3, 3] };
                assert!(codes.map(Some).contains(&ran.code), "{preset} {name}: {}", ran.err);
            }
            fs::remove_dir_all(home.path("copy")).unwrap();
        }
    }
}

#[test]
fn a_small_space_limit_makes_everything_smaller() {
    for preset in ["lsm", "wisckey", "hashkv", "cleave", "ohdb"] {
        let home = Home::new();
        let limit = ["--space-limit", "24MiB", "--preset", preset];
        let line = |key| format!("{{\"key\":\"key{key:04}\",\"value\":\"{}\"}}\n", "v".repeat(500));
        let lines: String = (0..2000).map(line).collect();
        let import = [&limit[..], &["import", "--jsonl", "-"]].concat();
        home.run_with(&import, lines.as_bytes()).ok();
        let entries = fs::read_dir(home.path("cleave.db")).unwrap();
        let bytes: u64 = entries.map(|e| e.unwrap().metadata().unwrap().len()).sum();
        assert!(bytes <= 24 << 20, "{preset}: {bytes} bytes");
        let get = [&limit[..], &["get", "key1999"]].concat();
        assert_eq!(home.run(&get).ok(), "v".repeat(500).as_bytes());
        home.run(&["check"]).ok();
    }
}

/// A range over all keys that went once kept what they took, and the deletes were refused.
#[test]
fn a_store_that_has_reached_its_limit_is_emptied_by_prefix() {
    let home = Home::new();
    let line = |key: u32| format!("{{\"key\":\"key{key}\",\"value\":\"{}\"}}\n", "v".repeat(350));
    let lines = (0..30_000).map(line).collect::<String>();
    for preset in ["lsm", "cleave"] {
        let with = |args: &[&'static str]| {
            [&["--db", preset, "--preset", preset, "--space-limit", "12MiB"], args].concat()
        };
        let import = home.run_with(&with(&["import", "--jsonl", "-"]), lines.as_bytes());
        import.fails(4, "space limit is reached");
        home.run(&with(&["del", "--prefix", "key"])).ok();
        assert_eq!(home.run(&with(&["count"])).text(), "0\n");
        home.run(&with(&["put", "key", "value"])).ok();
    }
}

/// A limit held for the command that had it alone, and the next one filled the disk.
#[test]
fn a_space_limit_is_kept_with_the_database_until_it_is_lifted() {
    let home = Home::new();
    let line = |key: u32| format!("{{\"key\":\"key{key}\",\"value\":\"{}\"}}\n", "v".repeat(350));
    let lines = (0..30_000).map(line).collect::<String>();
    for preset in ["lsm", "cleave"] {
        let with = |args: &[&'static str]| [&["--db", preset, "--preset", preset], args].concat();
        home.run(&with(&["--space-limit", "12MiB", "put", "key", "value"])).ok();
        assert!(home.run(&["--db", preset, "stats"]).text().contains("12.0 MiB"));
        let import = ["--db", preset, "import", "--jsonl", "-"];
        home.run_with(&import, lines.as_bytes()).fails(4, "space limit is reached");
        home.run(&with(&["get", "key"])).ok();
        let lifted = ["--db", preset, "--space-limit", "none", "import", "--jsonl", "-"];
        home.run_with(&lifted, lines.as_bytes()).ok();
        home.run_with(&import, lines.as_bytes()).ok();
        home.run(&["--db", preset, "--space-limit", "much", "get", "key"]).fails(2, "much");
    }
}

/// A layout of one's own could be created, and no command could open it.
#[test]
fn a_layout_of_ones_own_is_opened_as_it_was_created() {
    let home = Home::new();
    let long = "v".repeat(500);
    for (db, preset, option, words) in [
        ("a", "ktstore", "layout.groups=none", "values in the index"),
        ("b", "lsm", "layout.groups=range", "groups by range"),
        ("c", "lsm", "layout.log=value-store", "values in the log"),
        ("d", "hashkv", "layout.survivors=tagged", "cold values"),
    ] {
        let created = ["--db", db, "--preset", preset, "--with", option, "put", "key", &long];
        home.run(&created).ok();
        assert_eq!(home.run(&["--db", db, "get", "key"]).ok(), long.as_bytes());
        assert_eq!(home.run(&["--db", db, "--preset", preset, "get", "key"]).ok(), long.as_bytes());
        assert!(home.run(&["--db", db, "stats"]).text().contains(words), "{option}");
        let repaired = format!("{db}.new");
        home.run(&["--db", db, "compact"]).ok();
        home.run(&["repair", db, &repaired]).ok();
        assert!(home.run(&["--db", &repaired, "stats"]).text().contains(words), "{option}");
    }
    home.run(&["--with", "cache=1", "get", "key"]).fails(2, "cache_bytes is nearest");
    home.run(&["--with", "cache_bytes=much", "get", "key"]).fails(2, "much");
}

#[test]
fn the_options_of_the_engine_are_listed_on_standard_output() {
    let home = Home::new();
    for arguments in [&["--with", "help"][..], &["get", "key", "--with=help"]] {
        let list = home.run(arguments).text();
        assert!(list.contains("blob_bytes: a size in bytes [default: 4MiB]\n    "), "{list}");
    }
    home.run(&["put", "key", "--", "--with", "help"]).fails(2, "unexpected argument");
}
