//! Several disks: `--place`, and what the other commands make of it.

use std::fs;

use crate::common::Home;

fn tables(home: &Home, directory: &str) -> usize {
    let entries = fs::read_dir(home.path(directory)).unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".tbl")).count()
}

#[test]
fn a_place_is_remembered_shown_and_missed() {
    let home = Home::new();
    let place = ["--preset", "ohdb", "--place", "level0,levels=ssd:1GiB"];
    home.run(&[&place[..], &["put", "apple", "red"]].concat()).ok();
    home.run(&["compact"]).ok();
    assert_eq!((tables(&home, "cleave.db"), tables(&home, "ssd")), (0, 1));
    assert_eq!(home.run(&["get", "apple"]).text(), "red");
    let text = home.run(&["stats"]).text();
    assert!(text.contains("ssd: level0, levels; ") && text.contains("of 1.00 GiB"), "{text}");
    let json = home.run(&["--json", "stats"]).json();
    assert_eq!(json[0]["directories"][1]["capacity"], 1u64 << 30);
    assert!(home.run(&["check"]).text().contains("in 2 directories"));
    fs::rename(home.path("ssd"), home.path("moved")).unwrap();
    home.run(&["get", "apple"]).fails(4, "mount its disk");
    home.run(&["put", "pear", "green"]).fails(4, "/ssd");
    assert!(!home.path("ssd").exists());
    fs::create_dir(home.path("ssd")).unwrap();
    home.run(&["get", "apple"]).fails(4, "is empty; mount its disk");
    let json = home.run(&["--json", "get", "apple"]);
    assert!(json.err.contains(r#""kind":"missing volume""#), "{}", json.err);
    let moved = |args: &[&str]| home.run(&[&["--place", "levels=moved"], args].concat());
    assert_eq!(moved(&["get", "apple"]).text(), "red");
    home.run(&["get", "apple"]).fails(4, "is empty; mount its disk");
    moved(&["put", "plum", "blue"]).ok();
    assert_eq!(home.run(&["get", "apple"]).text(), "red");
    home.run(&["--db", "moved", "get", "apple"]).fails(4, "a volume of a database");
    home.run(&["--place", "levels=cleave.db", "put", "pear", "green"]).ok();
    assert!(home.run(&["stats"]).text().contains("moved: level0; "));
}

#[test]
fn a_place_that_cannot_be_meant_is_refused() {
    let home = Home::new();
    for (place, words) in [
        ("levels", "CLASS=DIR"),
        ("tables=ssd", "log, level0, levels, segments, groups"),
        ("levels=ssd:0", "at least 1 byte"),
    ] {
        home.run(&["--place", place, "put", "k", "v"]).fails(2, words);
    }
    home.run(&["--place", "levels=cleave.db/ssd", "put", "k", "v"]).fails(2, "within");
    let twice = ["--place", "levels=a", "--place", "levels=b", "put", "k", "v"];
    home.run(&twice).fails(2, "two volumes");
    home.file("full/letter", b"x");
    home.run(&["--place", "levels=full", "put", "k", "v"]).fails(4, "choose an empty one");
    home.run(&["put", "k", "v"]).ok();
    home.run(&["--place", "levels=new", "get", "k"]).fails(4, "missing");
    assert!(!home.path("new").exists(), "reading makes no volume");
}
