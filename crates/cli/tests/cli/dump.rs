//! `dump`: what stands in the files of a database, whole and damaged, and of copies of them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;

use cleavedb_testkit::budget::in_turn;
use serde_json::{Value, json};

use crate::common::{Home, json_lines};

const PRESETS: [&str; 5] = ["ktstore", "wisckey", "hashkv", "lsm", "ohdb"];

/// A database with a table, values in all their places, a deleted key, and a log.
fn filled(preset: &str) -> Home {
    let home = Home::new();
    home.run(&["--preset", preset, "put", "small", "1"]).ok();
    for round in ["1", "2"] {
        let value = round.repeat(2000);
        let keys: Vec<_> = (0..50).map(|key| format!("key{key:02}")).collect();
        let pairs: Vec<_> = keys.iter().map(|key| (key.as_str(), value.as_str())).collect();
        home.fill(&pairs);
    }
    home.run(&["del", "key07"]).ok();
    home.run(&["compact"]).ok();
    home.run(&["put", "last", "one"]).ok();
    home
}

/// The files of the database with this suffix, in order.
fn files(home: &Home, suffix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.path("cleave.db")).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == suffix))
        .collect();
    files.sort();
    files
}

fn contents(home: &Home) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(home.path("cleave.db")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    all.sort();
    all
}

/// The lines that say `what`.
fn of<'a>(lines: &'a [Value], what: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["what"] == what).collect()
}

fn dumped(home: &Home, args: &[&str]) -> Vec<Value> {
    home.run(&[&["--json", "dump", "cleave.db"], args].concat()).json()
}

#[test]
fn every_kind_of_file_is_shown_under_every_preset_and_nothing_is_changed() {
    for preset in PRESETS {
        let home = filled(preset);
        let before = contents(&home);
        let manifest = dumped(&home, &["manifest", "--state"]);
        assert_eq!(of(&manifest, "current")[0]["preset"], json!(preset));
        assert!(!of(&manifest, "edit").is_empty() && !of(&manifest, "table added").is_empty());
        assert_eq!(of(&manifest, "state").len(), 1, "{preset}");
        let log = dumped(&home, &["log"]);
        let last = log.iter().find(|line| line["key"] == "last").unwrap();
        assert_eq!((&last["checksum"], &last["value_len"]), (&json!("ok"), &json!(3)), "{preset}");
        assert!(last["position"].as_u64() >= last["offset"].as_u64() && last["seq"].is_u64());
        assert!(of(&log, "end")[0]["why"].as_str().unwrap().contains("manifest"), "{log:?}");
        let table = dumped(&home, &["table"]);
        for what in ["file", "properties", "filter", "index", "block"] {
            assert!(!of(&table, what).is_empty(), "{preset}: no {what} in {table:?}");
        }
        let keys: Vec<_> = table.iter().filter_map(|line| line["key"].as_str()).collect();
        assert!(keys.contains(&"key49") && !keys.contains(&"key07"), "{preset}: {keys:?}");
        let values = dumped(&home, &["values"]);
        let separates = matches!(preset, "ktstore" | "hashkv");
        assert_eq!(!of(&values, "extent").is_empty(), separates, "{preset}");
        assert_eq!(values.iter().any(|line| line["key"] == "key49"), separates, "{preset}");
        assert!(contents(&home) == before, "{preset}: something was changed");
        home.run(&["check"]).ok();
    }
}

#[test]
fn words_say_the_same_and_keys_are_shown_as_everywhere() {
    let home = Home::new();
    home.run(&["put", "a\tb", "value"]).ok();
    home.run(&["--hex", "put", "00ff", "ff"]).ok();
    let text = home.run(&["dump", "cleave.db", "log"]).text();
    assert!(text.contains("put: position") && text.contains("key a\\tb, value len 5"), "{text}");
    assert!(text.contains("key \\x00\\xff"), "{text}");
    assert!(text.lines().next().unwrap().contains(".log: length "), "{text}");
    let text = home.run(&["--hex", "dump", "cleave.db", "log", "--values"]).text();
    assert!(text.contains("key 610962, value len 5, value 76616c7565,"), "{text}");
    let keys = home.run(&["dump", "cleave.db", "log", "--keys-only", "--limit", "1"]).text();
    assert_eq!(keys, "a\\tb\n");
    let json = home.run(&["--json", "dump", "cleave.db", "log", "--keys-only"]).json();
    assert_eq!(json, [json!({"key": "a\tb"}), json!({"key": {"base64": "AP8="}})]);
}

#[test]
fn a_bound_ends_a_dump_and_so_does_a_reader_that_has_seen_enough() {
    let home = filled("lsm");
    let lines = dumped(&home, &["table", "--limit", "3"]);
    assert_eq!(lines.iter().filter(|line| line["key"].is_string()).count(), 3);
    let mut child = home.command(&["dump", "cleave.db", "table", "--values"]);
    let mut child = child.stdout(std::process::Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 100]).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "the pipe is closed");
}

#[test]
fn one_file_is_named_by_number_by_name_or_by_a_path_elsewhere() {
    let home = filled("ktstore");
    let path = files(&home, "tbl").pop().unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let number = name.trim_start_matches('0').strip_suffix(".tbl").unwrap();
    let by_name = home.run(&["dump", "cleave.db", "table", name]).ok();
    assert_eq!(home.run(&["dump", "cleave.db", "table", number]).ok(), by_name);
    fs::create_dir(home.path("copy")).unwrap();
    fs::copy(&path, home.path("copy").join(name)).unwrap();
    let copied = format!("copy/{name}");
    assert_eq!(home.run(&["dump", "cleave.db", "table", &copied]).ok(), by_name);
    let id = of(&dumped(&home, &["manifest"]), "current")[0]["database"].clone();
    let args = ["dump", "copy", "table", "--database-id", id.as_str().unwrap()];
    assert!(home.run(&args).text().contains("key key49"));
    let ran = home.run(&["dump", "copy", "table"]);
    assert!(String::from_utf8_lossy(&ran.out).contains("which database the file belongs to"));
    ran.fails(3, "1 place is damaged");
    let wrong = home.run(&["dump", "cleave.db", "log", name]);
    wrong.fails(2, "no file of this kind has such a name");
    home.run(&["dump", "cleave.db", "table", "--state"]).fails(2, "--state is of a manifest");
    let gone = home.run(&["dump", "cleave.db", "table", "999999"]);
    assert!(String::from_utf8_lossy(&gone.fails(3, "missing")).contains("perhaps=a process"));
    fs::create_dir(home.path("empty")).unwrap();
    home.run(&["dump", "empty", "table"]).fails(4, "no file of a database is there");
}

#[test]
fn a_log_that_was_copied_out_of_its_database_is_read_by_itself() {
    let home = filled("wisckey");
    let path = files(&home, "log").pop().unwrap();
    fs::create_dir(home.path("copy")).unwrap();
    fs::copy(&path, home.path("copy").join(path.file_name().unwrap())).unwrap();
    let lines = json_lines(&home.run(&["--json", "dump", "copy", "log"]).ok());
    assert!(lines.iter().any(|line| line["key"] == "last"), "{lines:?}");
}

#[test]
fn damage_is_named_with_file_and_offset_and_the_dump_goes_on() {
    for (preset, kind, suffix) in [
        ("ktstore", "values", "grp"),
        ("ktstore", "log", "log"),
        ("ktstore", "manifest", "manifest"),
        ("wisckey", "log", "log"),
        ("hashkv", "values", "grp"),
        ("lsm", "table", "tbl"),
    ] {
        let home = filled(preset);
        let longest = |path: &PathBuf| fs::metadata(path).unwrap().len();
        let path = files(&home, suffix).into_iter().max_by_key(longest).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let at = if suffix == "grp" { 4096 + 40 } else { 80 };
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        let ran = home.run(&["--json", "dump", "cleave.db", kind, name]);
        let lines = json_lines(&ran.out);
        let damage = lines.iter().find(|line| line["damage"].is_string()).unwrap();
        assert_eq!(damage["file"], json!(name), "{damage}");
        assert!(damage["offset"].as_u64().unwrap() <= at as u64, "{damage}");
        assert_ne!(lines.last(), Some(damage), "{preset}, {name}: it goes on");
        ran.fails(3, "damaged");
    }
}

#[test]
fn a_file_that_was_cut_off_is_told_and_never_a_panic() {
    for preset in in_turn(PRESETS.into()) {
        let home = filled(preset);
        for (kind, suffix) in
            [("manifest", "manifest"), ("log", "log"), ("table", "tbl"), ("values", "grp")]
        {
            for path in files(&home, suffix) {
                let whole = fs::read(&path).unwrap();
                let name = path.file_name().unwrap().to_str().unwrap();
                for len in [0, 3, 60, whole.len() / 2, whole.len() - 1] {
                    fs::write(&path, &whole[..len]).unwrap();
                    let ran = home.run(&["dump", "cleave.db", kind, name, "--values"]);
                    assert!(matches!(ran.code, Some(0 | 3)), "{preset}, {name}: {}", ran.err);
                    assert!(!ran.err.contains("panicked"), "{preset}, {name}: {}", ran.err);
                }
                fs::write(&path, whole).unwrap();
            }
        }
    }
}

#[test]
fn a_database_in_use_is_shown_with_what_its_window_holds() {
    let home = Home::new();
    let (mut child, mut stdin) = home.start(&["shell", "--durability", "os"]);
    stdin.write_all(b"put young 1\nget young\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "1\n");
    let log = dumped(&home, &["log"]);
    // Not every file system lets the window be a file.
    if home.path("cleave.db/window").exists() {
        let young = log.iter().find(|line| line["key"] == "young");
        assert_eq!(young.map(|line| &line["value_len"]), Some(&json!(1)), "{log:?}");
    }
    assert!(!of(&dumped(&home, &["manifest"]), "session begun").is_empty());
    stdin.write_all(b"put younger 2\n").unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success(), "it was not hindered");
    assert_eq!(home.run(&["get", "younger"]).ok(), b"2");
}

#[test]
fn where_a_log_ends_and_why_is_told_as_an_open_would_decide_it() {
    let home = Home::new();
    let (mut child, mut stdin) = home.start(&["shell"]);
    stdin.write_all(b"put a 1\nput b 2\nput c 3\nget c\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let whole = dumped(&home, &["log"]);
    assert_eq!(of(&whole, "end")[0]["why"], "nothing follows", "{whole:?}");
    assert!(of(&whole, "mark").len() >= 2, "each sync but the last has one behind it: {whole:?}");
    let path = files(&home, "log").remove(0);
    let bytes = fs::read(&path).unwrap();
    let damaged = |key: &str| {
        let record = whole.iter().find(|line| line["key"] == key).unwrap();
        let offset = record["offset"].as_u64().unwrap();
        let mut bytes = bytes.clone();
        bytes[offset as usize + 5] ^= 1;
        fs::write(&path, bytes).unwrap();
        (home.run(&["--json", "dump", "cleave.db", "log"]), offset)
    };
    let (ran, offset) = damaged("a");
    let lines = json_lines(&ran.out);
    let damage = lines.last().unwrap();
    assert_eq!(damage["offset"].as_u64(), Some(offset), "{damage}");
    assert!(damage["damage"].as_str().unwrap().contains("a mark behind says was durable"));
    let behind = lines.iter().find(|line| line["key"] == "c").unwrap();
    assert!(behind["counts"].as_str().unwrap().starts_with("no"), "{behind}");
    ran.fails(3, "1 place is damaged");
    let (ran, offset) = damaged("c");
    let lines = ran.json();
    let end = of(&lines, "end")[0];
    assert_eq!(end["offset"].as_u64(), Some(offset), "{end}");
    assert!(end["why"].as_str().unwrap().starts_with("torn"), "{end}");
}
