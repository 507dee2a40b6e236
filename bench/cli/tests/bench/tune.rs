//! The search for a threshold, on stores so small that what it finds is of no use, and what becomes
//! of what was found.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cleavedb::{Db, Options, Preset};
use serde_json::json;

use crate::common::{Home, Ran};

/// Arguments of the shortest search.
const SMALL: [&str; 4] = ["--data", "64KiB", "--time", "0"];

fn tune(home: &Home, args: &[&str]) -> Ran {
    home.run(&[&["tune"][..], args].concat())
}

fn small<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &SMALL].concat()
}

/// Creates a database of that name with the value 1 under the key `a`.
fn create(home: &Home, db: &str, preset: Preset) {
    let db = Db::open(home.path(db), Options::preset(preset)).unwrap();
    db.put(b"a", b"1").unwrap();
    db.close().unwrap();
}

/// Opens it as any later command does.
fn open(home: &Home, db: &str) -> Db {
    let path = home.path(db);
    let stored = Db::stored_options(&path).unwrap();
    Db::open(path, stored.unwrap()).unwrap()
}

/// From which size on values leave the index of the database of that name.
fn threshold(home: &Home, db: &str) -> Option<usize> {
    open(home, db).options().min_separated
}

#[test]
fn a_search_measures_beside_the_database_and_leaves_nothing() {
    let home = Home::new();
    create(&home, "site.db", Preset::HashKv);
    let text = tune(&home, &small(&["site.db"])).text();
    for needed in [
        "hashkv in",
        "update-zipfian",
        "separated op/s",
        "128 B",
        "512 B",
        "the database has 192 B",
    ] {
        assert!(text.contains(needed), "{needed} is not in:\n{text}");
    }
    assert!(text.contains("threshold"), "{text}");
    let names: Vec<_> =
        fs::read_dir(home.path(".")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["site.db"]);
    assert_eq!(threshold(&home, "site.db"), Some(192), "nothing is saved unless asked for");
}

#[test]
fn what_is_found_is_saved() {
    let home = Home::new();
    create(&home, "cleave.db", Preset::WiscKey);
    let found = tune(&home, &small(&["--json", "--save", "-w", "ycsb-a"])).json().remove(0);
    assert_eq!((&found["preset"], &found["present"]), (&json!("wisckey"), &json!(0)));
    assert_eq!(found["saved"], json!(found["threshold"].is_u64()), "{found}");
    assert!(found["sizes"].as_array().is_some_and(|sizes| sizes.len() >= 2), "{found}");
    for size in found["sizes"].as_array().unwrap() {
        assert!(size["ratio"].as_f64().unwrap() > 0.0 && size["pairs"].as_u64().unwrap() > 0);
        assert!(size["uncertainty"].as_f64().unwrap() > 1.0, "{size}");
    }
    let kept = if found["saved"] == json!(true) { &found["threshold"] } else { &json!(0) };
    assert_eq!(json!(threshold(&home, "cleave.db")), *kept);
    assert_eq!(open(&home, "cleave.db").get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_size_is_saved_without_a_search_and_forgotten() {
    let home = Home::new();
    create(&home, "cleave.db", Preset::HashKv);
    let text = tune(&home, &["--set", "1KiB"]).text();
    assert!(text.contains("threshold: 1024 B"), "{text}");
    assert_eq!(threshold(&home, "cleave.db"), Some(1024));
    let set = home.run(&["--json", "tune", "--set", "default"]).json().remove(0);
    assert_eq!(set, json!({ "threshold": null, "saved": true }));
    assert_eq!(threshold(&home, "cleave.db"), Some(192));
    tune(&home, &["--set", "2GiB"]).fails(2, "no value is as long");
    tune(&home, &["--set", "much"]).fails(2, "or `default`");
    create(&home, "lsm.db", Preset::Lsm);
    tune(&home, &["lsm.db", "--set", "9"]).fails(2, "keeps values in the index");
}

#[test]
fn what_cannot_be_tuned_is_said_before_anything_is_measured() {
    let home = Home::new();
    tune(&home, &["--save"]).fails(4, "there is no database in cleave.db");
    tune(&home, &["--set", "100"]).fails(4, "there is no database in cleave.db");
    tune(&home, &["gone"]).fails(4, "gone");
    tune(&home, &["--preset", "ohdb"]).fails(2, "keeps every value in the index");
    tune(&home, &["-w", "load"]).fails(2, "on a filled store");
    tune(&home, &["-w", "nonsense"]).fails(2, "no workload");
    tune(&home, &["--time=-1"]).fails(2, "--time");
    tune(&home, &["--save", "--set", "9"]).fails(2, "cannot be used with");
    assert_eq!(fs::read_dir(home.path(".")).unwrap().count(), 0);
    home.file("tune-data/thesis.tex", b"precious");
    tune(&home, &small(&[])).fails(2, "that no benchmark made");
    assert_eq!(fs::read(home.path("tune-data/thesis.tex")).unwrap(), b"precious");
}

#[test]
fn ctrl_c_leaves_nothing() {
    let home = Home::new();
    let mut command = home.command(&["tune", "--data", "4MiB", "--time", "600"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    while !home.path("tune-data/cleave/current").exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the search does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let ran = Ran::new(child.wait_with_output().unwrap());
    ran.fails(130, "interrupted");
    assert_eq!(fs::read_dir(home.path(".")).unwrap().count(), 0);
}
