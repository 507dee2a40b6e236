//! Long values: `put --file`, and `get` of a part, byte for byte.

use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use crate::common::{Home, Ran};

/// Longer than the least length of a blob.
const LEN: usize = (5 << 20) + 77;

fn value() -> Vec<u8> {
    (0..LEN as u32 / 4 + 1).flat_map(u32::to_le_bytes).take(LEN).collect()
}

/// Names of the files of blobs of a database.
fn blobs(home: &Home) -> usize {
    let files = fs::read_dir(home.path("cleave.db")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".blob")).count()
}

#[test]
fn a_long_value_comes_from_a_file_or_a_pipe_and_is_read_in_parts() {
    let (home, value) = (Home::new(), value());
    fs::write(home.path("film"), &value).unwrap();
    home.run(&["put", "file", "--file", "film"]).ok();
    let said = home.run_with(&["put", "pipe", "--json"], &value).text();
    assert!(said.contains(&format!("\"bytes\":{LEN}")), "{said}");
    home.run(&["put", "short", "--file", "film", "--ttl", "1h"]).ok();
    assert_eq!(blobs(&home), 3);
    for key in ["file", "pipe", "short"] {
        assert!(home.run(&["get", key]).ok() == value, "{key}");
        let part = home.run(&["get", key, "--offset", "4MiB", "--length", "9"]).ok();
        assert_eq!(part, &value[4 << 20..(4 << 20) + 9]);
        let part = home.run(&["get", key, "--offset", "5MiB"]).ok();
        assert_eq!(part, &value[5 << 20..]);
    }
    assert_eq!(home.run(&["get", "66696c65", "--length", "3", "--hex"]).ok(), b"000000\n");
    assert_eq!(home.run(&["get", "file", "--offset", "1GiB"]).ok(), b"");
    let json = home.run(&["get", "short", "--length", "4", "--json"]).text();
    assert!(json.contains("expires"), "{json}");
    home.run(&["check"]).ok();
    home.run(&["put", "none", "--file", "missing"]).fails(4, "missing");
    home.run(&["put", "key", "value", "--file", "film"]).fails(2, "cannot be used with");
}

/// Files of a tree go in and come out, long ones as blobs.
#[test]
fn a_tree_with_long_files_comes_back() {
    let (home, value) = (Home::new(), value());
    home.file("tree/films/long", &value);
    home.file("tree/films/longer", &[&value[..], b"more"].concat());
    home.file("tree/text", b"short");
    home.run(&["import", "--dir", "tree"]).ok();
    assert_eq!(blobs(&home), 2);
    home.run(&["export", "--dir", "copy"]).ok();
    for name in ["films/long", "films/longer", "text"] {
        let read = |root: &str| fs::read(home.path(root).join(name)).unwrap();
        assert!(read("copy") == read("tree"), "{name}");
    }
    home.run(&["--db", "bulk.db", "import", "--bulk", "--dir", "tree"]).ok();
    assert!(home.run(&["--db", "bulk.db", "get", "films/long"]).ok() == value);
    assert_eq!(home.run(&["export", "--jsonl", "-"]).ok().split(|byte| *byte == b'\n').count(), 4);
}

/// The input ends, by a signal, in the middle of a value: nothing is stored.
#[test]
fn a_put_that_is_interrupted_stores_nothing() {
    let home = Home::new();
    home.run(&["put", "key", "before"]).ok();
    let (child, mut stdin) = home.start(&["put", "key"]);
    stdin.write_all(&value()).unwrap();
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    // A busy machine may tell it late.
    std::thread::sleep(Duration::from_millis(500));
    drop(stdin);
    Ran::new(child.wait_with_output().unwrap()).fails(130, "interrupted");
    assert_eq!(home.run(&["get", "key"]).ok(), b"before");
    home.run(&["put", "other", "value"]).ok();
    assert_eq!(blobs(&home), 0);
}
