//! The commands on single keys and on ranges: what they print, byte for byte, and their exit codes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use crate::common::Home;

#[test]
fn a_value_comes_back_as_it_was_given() {
    let home = Home::new();
    let every_byte: Vec<u8> = (0..=255).cycle().take(5000).collect();
    home.run(&["put", "text", "hello"]).ok();
    home.run_with(&["put", "dash", "-"], &every_byte).ok();
    home.run_with(&["put", "absent"], b"line\n").ok();
    home.run(&["put", "empty", ""]).ok();
    home.run(&["put", "--durability", "os", "--", "-key", "-value"]).ok();
    assert_eq!(home.run(&["get", "text"]).ok(), b"hello", "nothing is added");
    assert_eq!(home.run(&["get", "dash"]).ok(), every_byte);
    assert_eq!(home.run(&["get", "absent"]).ok(), b"line\n");
    assert_eq!(home.run(&["get", "empty"]).ok(), b"");
    assert_eq!(home.run(&["get", "--", "-key"]).ok(), b"-value");
}

#[test]
fn an_empty_key_is_a_key() {
    let home = Home::new();
    home.run(&["put", "", "nothing"]).ok();
    home.run(&["put", "a", "some"]).ok();
    assert_eq!(home.run(&["get", ""]).ok(), b"nothing");
    assert!(home.run(&["scan", "--json"]).text().lines().next().unwrap().contains("nothing"));
    home.run(&["del", ""]).ok();
    home.run(&["get", ""]).fails(1, "no such key");
}

#[test]
fn what_is_not_there_has_its_own_exit_code() {
    let home = Home::new();
    home.fill(&[("key", "value")]);
    home.run(&["get", "other"]).fails(1, "no such key");
    home.run(&["del", "key"]).ok();
    home.run(&["get", "key"]).fails(1, "no such key");
    home.run(&["del", "key"]).ok();
    let error = home.run(&["get", "key", "--json"]);
    let line: serde_json::Value = serde_json::from_str(&error.err).unwrap();
    assert_eq!((&line["error"]["kind"], &line["error"]["exit"]), (&json!("not found"), &json!(1)));
    error.fails(1, "not found");
}

#[test]
fn keys_are_bytes() {
    let home = Home::new();
    let key = OsStr::from_bytes(b"k\xff\xfe\x01");
    home.run(&[OsStr::new("put"), key, OsStr::new("raw")]).ok();
    assert_eq!(home.run(&[OsStr::new("get"), key]).ok(), b"raw");
    assert_eq!(home.run(&["--hex", "get", "6BFFfe01"]).ok(), b"726177\n");
    home.run(&["put", "--hex", "00", "00ff00"]).ok();
    assert_eq!(home.run(&["scan"]).ok(), b"\\x00\t\\x00\\xff\\x00\nk\\xff\\xfe\\x01\traw\n");
    assert_eq!(home.run(&["scan", "--hex"]).ok(), b"00\t00ff00\n6bfffe01\t726177\n");
    assert_eq!(home.run(&["scan", "--raw0"]).ok(), b"\0\0\0\xff\0\0k\xff\xfe\x01\0raw\0");
    let piped = home.run(&["--hex", "get", "00"]).ok();
    home.run_with(&["--hex", "put", "01", "-"], &piped).ok();
    assert_eq!(home.run(&["get", "\u{1}"]).ok(), b"\0\xff\0");
    home.run(&["--hex", "del", "00"]).ok();
    home.run(&["--hex", "get", "00"]).fails(1, "no such key");
    home.run(&["--hex", "get", "0"]).fails(2, "is not hex");
    home.run(&["--hex", "put", "00", "zz"]).fails(2, "is not hex");
}

fn keys(home: &Home, args: &[&str]) -> Vec<String> {
    let args = [&["scan", "--keys-only"], args].concat();
    home.run(&args).text().lines().map(str::to_owned).collect()
}

#[test]
fn a_scan_gives_what_its_bounds_leave() {
    let home = Home::new();
    home.fill(&[("a", "1"), ("ab", "2"), ("abc", "3"), ("b", "4"), ("c", "5")]);
    assert_eq!(home.run(&["scan"]).text(), "a\t1\nab\t2\nabc\t3\nb\t4\nc\t5\n");
    assert_eq!(keys(&home, &["--from", "ab", "--to", "c"]), ["ab", "abc", "b"]);
    assert_eq!(keys(&home, &["--prefix", "ab"]), ["ab", "abc"]);
    assert_eq!(keys(&home, &["--prefix", "a", "--from", "aa", "--to", "abb"]), ["ab"]);
    assert_eq!(keys(&home, &["--prefix", "a", "--from", "b"]), [""; 0]);
    home.run(&["scan", "--from", "b", "--to", "a"]).fails(2, "no key can be in this range");
    assert_eq!(keys(&home, &["--reverse", "--limit", "2"]), ["c", "b"]);
    assert_eq!(keys(&home, &["--prefix", "a", "--reverse"]), ["abc", "ab", "a"]);
    assert_eq!(keys(&home, &["--limit", "0"]), [""; 0]);
    assert_eq!(keys(&home, &["--hex", "--from", "62"]), ["62", "63"]);
}

#[test]
fn json_lines_hold_text_as_text_and_the_rest_as_base64() {
    let home = Home::new();
    home.run(&["put", "a\"\t", "1\n"]).ok();
    home.run_with(&["put", "b"], b"\xff").ok();
    let lines = home.run(&["--json", "scan"]).json();
    assert_eq!(lines[0], json!({ "key": "a\"\t", "value": "1\n" }));
    assert_eq!(lines[1], json!({ "key": "b", "value": { "base64": "/w==" } }));
    assert_eq!(home.run(&["scan", "--json", "--keys-only"]).json()[1], json!({ "key": "b" }));
    let hex = json!({ "key": { "hex": "62" }, "value": { "hex": "ff" } });
    assert_eq!(home.run(&["--hex", "--json", "get", "62"]).json(), [hex]);
}

#[test]
fn a_command_line_that_cannot_be_meant_is_refused() {
    let home = Home::new();
    for args in [
        &["frobnicate"][..],
        &[],
        &["get"],
        &["import"],
        &["import", "--dir", "x", "--csv", "y"],
        &["scan", "--raw0", "--json"],
        &["scan", "--limit", "-1"],
        &["--preset", "btree", "stats"],
    ] {
        home.run(args).fails(2, "--help");
    }
    home.run(&["put", &"k".repeat(70_000), "v"]).fails(2, "longer than the limit");
    let error = home.run(&["--json", "--preset", "btree", "stats"]);
    let line: serde_json::Value = serde_json::from_str(&error.err).unwrap();
    assert_eq!(line["error"]["kind"], json!("usage"));
    error.fails(2, "lsm, wisckey");
}

#[test]
fn help_teaches() {
    let home = Home::new();
    let help = home.run(&["--help"]).text();
    for needed in ["Examples:", "Exit codes:", "--hex", "CLEAVE_DB", "import --dir"] {
        assert!(help.contains(needed), "{needed}");
    }
    assert!(home.run(&["help", "export"]).text().contains("byte for byte"));
    assert!(home.run(&["--version"]).text().starts_with("cleave "));
    assert!(home.run(&["--json", "--help"]).text().contains("Usage"));
}
