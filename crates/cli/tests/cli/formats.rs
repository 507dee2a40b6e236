//! Import and export: every format gives back what it was given, and refuses what it cannot hold.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::json;

use crate::common::{Home, json_lines};

/// Paths below `root` and contents.
fn tree(root: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().as_os_str().to_owned();
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    files
}

/// A tree with all that is hard about trees.
fn plant(home: &Home) {
    home.file("tree/plain.txt", b"text\n");
    home.file("tree/empty", b"");
    home.file("tree/deep/er/still/file", &(0..=255).cycle().take(100_000).collect::<Vec<u8>>());
    home.file("tree/deep-er/comma,\"quote\"\nline", b"a,b\r\n\"c\"\rd");
    home.file("tree/-rf", b"\0");
    home.file("tree/..dots", b"{\"key\"}");
    home.file(OsStr::from_bytes(b"tree/not\xffutf8/\xfe"), b"\xff\xfe\x00");
    for number in 0..1500 {
        home.file(format!("tree/many/{number}"), format!("{number}").as_bytes());
    }
}

#[test]
fn a_tree_comes_back_byte_for_byte() {
    let home = Home::new();
    plant(&home);
    let planted = tree(&home.path("tree"));
    let imported = home.run(&["--json", "import", "--dir", "tree"]).json().remove(0);
    assert_eq!(imported["items"], json!(planted.len()));
    home.run(&["export", "--dir", "copy"]).ok();
    assert_eq!(tree(&home.path("copy")), planted);
    home.run(&["check"]).ok();
    home.run(&["export", "--dir", "copy"]).fails(4, "new or empty");
}

#[test]
fn files_of_lines_come_back_byte_for_byte_through_each_other() {
    let home = Home::new();
    plant(&home);
    home.run(&["--db", "a", "import", "--dir", "tree"]).ok();
    home.run(&["--db", "a", "export", "--jsonl", "a.jsonl"]).ok();
    home.run(&["--db", "b", "import", "--jsonl", "a.jsonl"]).ok();
    home.run(&["--db", "b", "export", "--csv", "b.csv"]).ok();
    home.run(&["--db", "c", "--preset", "lsm", "import", "--csv", "b.csv"]).ok();
    home.run(&["--db", "c", "export", "--dir", "copy"]).ok();
    assert_eq!(tree(&home.path("copy")), tree(&home.path("tree")));
    json_lines(&fs::read(home.path("a.jsonl")).unwrap());
}

#[test]
fn pipes_serve_as_files() {
    let home = Home::new();
    let lines =
        [r#"{"key":"a","value":"1"}"#, "", r#"{"key":{"hex":"ff"},"value":{"base64":"AP8="}}"#];
    home.run_with(&["import", "--jsonl", "-"], lines.join("\n").as_bytes()).ok();
    let out = home.run(&["export", "--csv", "-"]).ok();
    assert_eq!(out, b"key,value\na,1\n\xff,\0\xff\n", "and nothing else on standard output");
    home.run_with(&["--db", "other", "import", "--csv", "-"], &out).ok();
    let out = home.run(&["--json", "--db", "other", "export", "--jsonl", "-"]);
    assert_eq!(json_lines(&out.out).len(), 2);
    assert_eq!(json_lines(out.err.as_bytes()).len(), 1, "{}", out.err);
}

#[test]
fn what_is_no_file_is_skipped_with_a_note() {
    let home = Home::new();
    home.file("tree/file", b"content");
    std::os::unix::fs::symlink("/etc", home.path("tree/link")).unwrap();
    let ran = home.run(&["--db", "tree/db", "import", "--dir", "tree"]);
    assert!(ran.err.contains("tree/link: a symbolic link"), "{}", ran.err);
    assert!(ran.err.contains("tree/db: the database itself"), "{}", ran.err);
    assert!(ran.text().contains("skipped: 2"));
    assert_eq!(home.run(&["--db", "tree/db", "scan"]).text(), "file\tcontent\n");
    let quiet = home.run(&["-q", "--db", "tree/db", "import", "--dir", "tree"]);
    assert_eq!(quiet.err, "");
    quiet.ok();
}

#[test]
fn no_key_leaves_the_directory_of_an_export() {
    let home = Home::new();
    let mut bad = vec!["../up", "/abs", "x//y", "x/", "x/../../up", ".", "./x", "fine/below"];
    let long = "l".repeat(300);
    bad.push(&long);
    for key in bad.iter().chain(&["fine", "good/one"]) {
        home.run(&["put", key, "v"]).ok();
    }
    home.run(&["--hex", "put", "610062", "76"]).ok();
    let out = home.run(&["export", "--dir", "inner/out"]).fails(4, "refused key ../up");
    let report = String::from_utf8(out).unwrap();
    assert!(report.contains(&format!("NOT EXPORTED: {} keys", bad.len() + 1)), "{report}");
    let exported: Vec<_> = tree(&home.path("inner/out")).into_keys().collect();
    assert_eq!(exported, ["fine", "good/one"]);
    assert!(!home.path("inner/up").exists() && !home.path("up").exists());
    let ran = home.run(&["--json", "export", "--dir", "json"]);
    assert_eq!(json_lines(&ran.out)[0]["refused"], json!(bad.len() + 1));
    assert_eq!(json_lines(ran.err.as_bytes()).len(), bad.len() + 1, "notes are JSON too");
}

#[test]
fn a_bad_input_is_named_with_its_line() {
    let home = Home::new();
    let good = "{\"key\":\"a\",\"value\":\"1\"}\n";
    for (line, words) in [
        ("{\"key\":\"b\"}", "line 2: missing field `value`"),
        ("{\"key\":\"b\",\"value\":1}", "line 2: invalid type: integer"),
        ("{\"key\":\"b\",\"value\":\"\",\"ttl\":1}", "line 2: unknown field `ttl`"),
        ("{\"key\":{\"base64\":\"?\"},\"value\":\"\"}", "line 2: bad base64"),
        ("key,value", "line 2: expected value"),
    ] {
        let input = format!("{good}{line}\n");
        home.run_with(&["import", "--jsonl", "-"], input.as_bytes()).fails(4, words);
    }
    assert_eq!(home.run(&["get", "a"]).ok(), b"1", "what came before the error stays");
    for (text, words) in [
        ("name,value\na,1\n", "the header must be key,value, not name,value"),
        ("", "the header must be key,value"),
        ("key,value\na,1\nb\n", "line: 3"),
    ] {
        home.run_with(&["import", "--csv", "-"], text.as_bytes()).fails(4, words);
    }
}

#[test]
fn an_empty_key_goes_through_every_format_that_can_hold_it() {
    for format in ["--csv", "--jsonl"] {
        let (from, to) = (Home::new(), Home::new());
        from.fill(&[("", "nothing"), ("a", "")]);
        let text = from.run(&["export", format, "-"]).ok();
        to.run_with(&["import", format, "-"], &text).ok();
        assert_eq!(to.run(&["get", ""]).ok(), b"nothing", "{format}");
        assert_eq!(to.run(&["get", "a"]).ok(), b"", "{format}");
    }
}

#[test]
fn a_source_that_is_not_there_leaves_no_database_behind() {
    let home = Home::new();
    home.run(&["import", "--jsonl", "gone"]).fails(4, "cannot open gone");
    home.run(&["import", "--dir", "gone"]).fails(4, "cannot open gone");
    home.file("file", b"");
    home.run(&["import", "--dir", "file"]).fails(4, "cannot open file");
    assert!(!home.path("cleave.db").exists());
}

#[test]
fn a_later_import_wins() {
    let home = Home::new();
    home.fill(&[("a", "old"), ("b", "kept")]);
    home.fill(&[("a", "new")]);
    assert_eq!(home.run(&["scan"]).text(), "a\tnew\nb\tkept\n");
}
