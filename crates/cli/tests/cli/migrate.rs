//! `migrate`: another preset for a database, whatever stops the command.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cleavedb_testkit::budget::{first_seed, of};

use crate::common::Home;

/// Keys of a store that takes some time to be copied.
const KEYS: u64 = 8000;

/// A store of `preset` with some thousand values, and a listing of all that it holds.
fn filled(preset: &str) -> (Home, Vec<u8>) {
    let home = Home::new();
    let line = |number: u64| {
        let value = format!("value {number} ").repeat(1 + (number % 97) as usize);
        format!("{{\"key\": \"key {number:06}\", \"value\": \"{value}\"}}\n")
    };
    fs::write(home.path("in.jsonl"), (0..KEYS).map(line).collect::<String>()).unwrap();
    home.run(&["--preset", preset, "import", "--jsonl", "in.jsonl"]).ok();
    home.run(&["put", "-k", "users", "7", "Ada"]).ok();
    let listed = listed(&home);
    (home, listed)
}

fn listed(home: &Home) -> Vec<u8> {
    home.run(&["export", "--jsonl", "-"]).ok()
}

#[test]
fn a_database_gets_another_preset() {
    let (home, before) = filled("wisckey");
    let refused = home.run(&["--preset", "hashkv", "put", "key", "value"]);
    refused.fails(4, "`cleave --preset NAME migrate`");
    home.run(&["migrate"]).fails(2, "--preset");
    home.run(&["--db", "none", "--preset", "lsm", "migrate"]).fails(4, "none");
    let told = home.run(&["--preset", "cleave", "migrate"]).text();
    assert!(told.starts_with("migrated from wisckey to cleave: 8,001 keys copied"), "{told}");
    assert!(told.contains("on disk before"), "{told}");
    let told = home.run(&["--preset", "cleave", "migrate"]).text();
    assert_eq!(told, "the database has the preset cleave already\n");
    let told = home.run(&["--preset", "ktstore", "migrate", "--json"]).text();
    assert!(told.contains(r#""from":"cleave","to":"ktstore","copied":0"#), "{told}");
    let told = home.run(&["--preset", "lsm", "migrate", "--json"]).text();
    assert!(told.contains(r#""from":"ktstore","to":"lsm","copied":8001"#), "{told}");
    assert!(!home.path("cleave.db").join("cleavedb-migration").exists());
    home.run(&["check"]).ok();
    assert!(listed(&home) == before, "the content has changed");
    let disks = ["--place", "levels=fast"];
    home.run(&[&disks[..], &["put", "key", "value"]].concat()).ok();
    home.run(&["--preset", "cleave", "migrate"]).fails(2, "volumes");
}

/// Signals at different moments, one of which is in the midst of the copy at least.
#[test]
fn a_migration_that_is_killed_or_stopped_is_gone_on_with() {
    let (first, mut gone_on) = (first_seed(), false);
    for seed in first.. {
        if gone_on && seed >= first + of(4, 10, 40) {
            break;
        }
        assert!(seed < first + 100, "no command goes on with what one before has copied");
        let (from, to) = [("lsm", "cleave"), ("cleave", "hashkv")][seed as usize % 2];
        let (home, before) = filled(from);
        let signal = ["KILL", "INT"][seed as usize / 2 % 2];
        let migrate = ["--preset", to, "migrate", "--with", "memtable_bytes=256KiB", "--json"];
        // How long it takes differs from one machine to the next: the copy has begun.
        let copy = home.path("cleave.db").join("cleavedb-migration");
        let tables = || {
            let names = fs::read_dir(&copy).into_iter().flatten().flatten();
            names.filter(|it| it.path().extension().is_some_and(|it| it == "tbl")).count()
        };
        let mut child = home.command(&migrate).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while tables() < 1 + seed as usize % 4 && child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing is copied");
            sleep(Duration::from_micros(300));
        }
        let kill = format!("kill -{signal} {}", child.id());
        let _ = std::process::Command::new("sh").args(["-c", &kill]).output().unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(signal == "KILL" || output.status.success() || said.contains("again"), "{said}");
        assert!(listed(&home) == before, "{signal}, seed {seed}");
        let told = home.run(&migrate).text();
        gone_on |= !told.contains(r#""found":0"#);
        assert!(listed(&home) == before, "{signal}, seed {seed}");
        home.run(&["check"]).ok();
        assert!(!copy.exists());
    }
}
