//! The tour, which brings its own data.

use serde_json::json;

use crate::common::Home;

fn planted() -> Home {
    let home = Home::new();
    for number in 0..60 {
        let line = format!("file {number} holds {}\n", number * number);
        home.file(format!("tree/{}/{number}.txt", number % 7), line.repeat(200).as_bytes());
    }
    home.file("tree/empty", b"");
    home
}

#[test]
fn the_tour_shows_a_tree_that_stays_whole() {
    let home = planted();
    for preset in ["wisckey", "lsm", "hashkv", "cleave"] {
        let text = home.run(&["tour", "tree", "--preset", preset]).text();
        for needed in
            ["put", "get", "scan", "update", "collect", "check", "amplification", "byte for byte"]
        {
            assert!(text.contains(needed), "{needed} is not in:\n{text}");
        }
        assert!(!home.path("cleave.db").exists());
    }
}

/// Files of 4 MiB and more were left out, and the tour said that every file had come back.
#[test]
fn the_tour_takes_long_files_and_names_what_it_leaves_out() {
    let home = Home::new();
    home.file("tree/short", b"short");
    home.file("tree/long", &vec![7; 5 << 20]);
    std::os::unix::fs::symlink("short", home.path("tree/link")).unwrap();
    let ran = home.run(&["tour", "tree", "--keep", "kept", "--rounds", "0"]);
    assert_eq!(ran.err.matches("tree/link: a symbolic link, not stored").count(), 1, "{}", ran.err);
    assert!(ran.text().contains("2 files came back byte for byte"));
    assert_eq!(home.run(&["--db", "kept", "get", "long"]).ok().len(), 5 << 20);
}

#[test]
fn the_tour_speaks_json_and_leaves_what_it_is_told_to_keep() {
    let home = planted();
    let steps = home.run(&["--json", "tour", "tree", "--keep", "kept", "--rounds", "2"]).json();
    let summary = steps.last().unwrap();
    assert_eq!((&summary["files"], &summary["differences"]), (&json!(61), &json!(0)));
    assert!(summary["write_amplification"].as_f64().unwrap() >= 1.0);
    let (before, after) =
        (&summary["space_amplification_before"], &summary["space_amplification_after"]);
    // What was dead went with its log files before; a collection has little left to win.
    assert!(after.as_f64().unwrap() < before.as_f64().unwrap() + 0.01, "{summary}");
    let value = home.run(&["--db", "kept", "get", "0/0.txt"]).text();
    assert!(value.ends_with("updated in round 2\n"), "{value}");
    home.run(&["--db", "kept", "check"]).ok();
    home.run(&["tour", "tree", "--keep", "kept"]).fails(2, "needs a new directory");
    home.run(&["tour", "gone"]).fails(4, "gone");
    std::fs::create_dir(home.path("bare")).unwrap();
    home.run(&["tour", "bare"]).fails(2, "no files");
}
