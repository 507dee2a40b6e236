//! `--level0`: level 0 in another way than the preset's, for one command.

use std::fs;

use crate::common::Home;

const WAYS: [(&str, &str); 4] = [
    ("whole", "Whole, "),
    ("partitions", "Partitions(10), "),
    ("partitions:4", "Partitions(4), "),
    ("one-table", "OneTable, "),
];

#[test]
fn a_database_may_be_kept_in_another_way_by_each_command() {
    for preset in ["wisckey", "lsm", "ohdb"] {
        let home = Home::new();
        for (way, _) in WAYS {
            home.run(&["--preset", preset, "--level0", way, "put", way, "value"]).ok();
            home.run(&["--level0", way, "compact"]).ok();
        }
        for (way, _) in WAYS {
            assert_eq!(home.run(&["get", way]).text(), "value", "{preset}");
        }
        home.run(&["--level0", "one-table", "check"]).ok();
    }
}

#[test]
fn a_benchmark_says_how_level_0_was_kept() {
    for (way, told) in WAYS {
        let home = Home::new();
        let bench = ["bench", "--records", "500", "-w", "load,readrandom", "--results", "r"];
        home.run(&[&["--preset", "lsm", "--level0", way], &bench[..]].concat()).ok();
        let results = fs::read_to_string(home.path("r")).unwrap();
        assert!(results.contains(&format!(r#"["level 0","{told}"#)), "{way}: {results}");
    }
}

#[test]
fn a_way_that_there_is_not_is_refused() {
    let home = Home::new();
    for (way, words) in
        [("halves", "partitions:N"), ("partitions:1", "2 to 256"), ("whole:2", "partitions:N")]
    {
        home.run(&["--level0", way, "put", "k", "v"]).fails(2, words);
    }
    home.run(&["--level0", "whole", "bench", "quick"]).fails(2, "--level0 is for one preset");
    let option = ["bench", "-w", "load", "--option", "level0=halves"];
    home.run(&option).fails(2, "--option level0=halves: there are whole");
}
