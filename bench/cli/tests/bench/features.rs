//! `bench features`, and `bench --feature`, which does a part of it.

use cleavedb_bench::features::FEATURES;

use crate::common::Home;

#[test]
fn every_feature_is_measured_on_every_preset() {
    let home = Home::new();
    let few = ["bench", "features", "--no-peers", "--part", "2000", "--repetitions", "1"];
    let presets = "cleave,lsm,wisckey,hashkv,ktstore,hoakv,ohdb";
    let engines = ["--engines", presets, "--results", "r.jsonl"];
    let text = home.run(&[&few[..], &engines].concat()).text();
    for feature in FEATURES {
        assert!(text.contains(&format!("{}: ", feature.name)), "{}: {text}", feature.name);
    }
    let lines = std::fs::read_to_string(home.path("r.jsonl")).unwrap();
    let done = lines.lines().filter(|line| line.contains(r#""ended":"done""#)).count();
    assert_eq!(done, FEATURES.len() * 7, "{text}");
    let report = home.run(&["bench", "report", "r.jsonl", "--markdown", "r.md"]).text();
    assert!(report.contains("| 1 M keys | cleave-wisckey"), "{report}");
    assert!(std::fs::read_to_string(home.path("r.md")).unwrap().contains("## Features"));
}

#[test]
fn one_feature_is_measured_once() {
    let home = Home::new();
    let one = ["--preset", "lsm", "bench", "--feature", "merges/2000"];
    assert!(home.run(&one).text().contains("x reads and puts"));
    let rows = home.run(&[&["--json"][..], &one].concat()).json();
    assert!(rows.iter().any(|row| row["feature"] == "merges" && row["part"] == 2000), "{rows:?}");
    assert!(!home.path("bench-data").exists());
    home.run(&["bench", "--feature", "nonsense"]).fails(2, "known: batches");
    home.run(&["bench", "features", "nonsense"]).fails(2, "known: batches");
    let listed = home.run(&["bench", "features", "--list"]).text();
    assert!(listed.contains("range-deletes"), "{listed}");
}
