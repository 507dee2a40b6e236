//! What a command does with the keyspaces of a database: an export has all of them, and commands
//! that show one say that there are others.

use std::fs;

use cleavedb::Preset;
use cleavedb_testkit::budget::in_turn;

use crate::common::Home;

/// Names that are hard as names of directories.
const NAMES: [&str; 7] = ["users", "a/b", "..", "%0", ".cleave-keyspaces", "two\nlines", "empty"];

/// A database with keys in all keyspaces but the last.
fn fill(home: &Home, db: &str, preset: &str) {
    home.run(&["--db", db, "--preset", preset, "put", "plain", "1"]).ok();
    let separates = match preset {
        "lsm" | "ohdb" => &[][..],
        _ => &["--min-separated", "9"],
    };
    let options = ["--ttl", "1h 2m 3ms", "--compression", "zstd"];
    let create = ["--db", db, "keyspace", "create", "users"];
    home.run(&[&create[..], &options, separates].concat()).ok();
    home.run(&["--db", db, "keyspace", "create", "empty", "--ttl", "5m"]).ok();
    for name in &NAMES[..6] {
        home.run(&["--db", db, "put", "-k", name, "key", &format!("in {name}")]).ok();
    }
    home.run(&["--db", db, "put", "-k", "a/b", ".cleave-keyspaces", "a key"]).ok();
}

fn exported(home: &Home, db: &str) -> String {
    home.run(&["-q", "--db", db, "export", "--jsonl", "-"]).text()
}

/// An export wrote the default keyspace alone, and said nothing.
#[test]
fn an_export_has_all_keyspaces_with_their_options() {
    let home = Home::new();
    for preset in in_turn(Preset::ALL.map(Preset::name).into()) {
        let in_preset = |db: &str| format!("{preset}-{db}");
        let db = in_preset("from");
        fill(&home, &db, preset);
        let all = exported(&home, &db);
        assert_eq!(all.lines().count(), 8 + NAMES.len(), "{all}");
        assert!(
            all.starts_with("{\"key\":\"plain\",\"value\":\"1\"}\n"),
            "the default one is plain"
        );
        for (form, more) in [("--jsonl", ""), ("--jsonl", "--bulk"), ("--dir", "")] {
            let (file, to) = (in_preset("file"), in_preset("to"));
            home.run(&["--db", &db, "export", form, &file]).ok();
            let import = ["--db", &to, "--preset", preset, "import", form, &file, more];
            home.run(&import[..7 + usize::from(!more.is_empty())]).ok();
            let again = exported(&home, &to);
            // A tree has no times of values; those of the keyspaces come back.
            match form {
                "--dir" => assert_eq!(again.lines().count(), all.lines().count(), "{again}"),
                _ => assert_eq!(again, all, "{preset} {more}"),
            }
            assert!(again.contains("\"options\":{\"ttl\":\"5m\"}"), "{again}");
            let _ = fs::remove_file(home.path(&file));
            let _ = fs::remove_dir_all(home.path(&file));
            fs::remove_dir_all(home.path(&to)).unwrap();
        }
    }
}

#[test]
fn a_table_has_the_names_of_keyspaces_and_says_what_it_lacks() {
    let home = Home::new();
    fill(&home, "from", "ktstore");
    let said = home.run(&["--db", "from", "export", "--csv", "all.csv"]).text();
    assert!(said.contains("exported 8 keyspaces: 8 items"), "{said}");
    assert!(said.contains("2 keyspaces without keys or with options"), "{said}");
    let text = fs::read_to_string(home.path("all.csv")).unwrap();
    assert!(text.starts_with("keyspace,key,value\ndefault,plain,1\n"), "{text}");
    home.run(&["--db", "to", "import", "--csv", "all.csv"]).ok();
    assert_eq!(home.run(&["--db", "to", "get", "-k", "..", "key"]).ok(), b"in ..");
    let layouts = [["--csv", "x", "--no-header"], ["--jsonl", "x", "--key-field=id"]];
    for layout in layouts {
        let export = [&["--db", "from", "export"][..], &layout].concat();
        home.run(&export).fails(2, "export one, with --keyspace");
    }
}

#[test]
fn one_keyspace_is_exported_as_plain_lines() {
    let home = Home::new();
    fill(&home, "from", "ktstore");
    for (form, db) in [("--jsonl", "lines"), ("--csv", "table"), ("--dir", "tree")] {
        home.run(&["--db", "from", "export", "-k", "..", form, "one"]).ok();
        home.run(&["--db", db, "import", form, "one"]).ok();
        assert_eq!(home.run(&["--db", db, "scan"]).text(), "key\tin ..\n", "{form}");
        let _ = fs::remove_file(home.path("one"));
    }
    // In a plain tree the name of the list would be taken for it.
    let export = ["--db", "from", "export", "-k", "a/b", "--dir", "list"];
    home.run(&export).fails(4, "the name of the list of keyspaces");
    // What has keyspaces is for no other one.
    home.run(&["--db", "from", "export", "--jsonl", "all.jsonl"]).ok();
    let import = ["--db", "to", "import", "-k", "one", "--jsonl", "all.jsonl"];
    home.run(&import).fails(4, "what has keyspaces is imported without --keyspace");
}

#[test]
fn what_an_import_cannot_keep_of_a_keyspace_is_said() {
    let home = Home::new();
    let line = "{\"keyspace\":\"k\",\"options\":{\"min_separated\":9,\"ttl\":\"1h\"}}\n";
    let said = home.run_with(&["--preset", "lsm", "import", "--jsonl", "-"], line.as_bytes()).err;
    assert!(said.contains("keyspace k: min_separated is left out"), "{said}");
    let line = "{\"keyspace\":\"k\",\"options\":{}}\n";
    let said = home.run_with(&["import", "--bulk", "--jsonl", "-"], line.as_bytes()).err;
    assert!(said.contains("keyspace k is there, and keeps the options"), "{said}");
    for (line, words) in [
        ("{\"options\":{}}", "missing field `keyspace`"),
        ("{\"keyspace\":\"k\",\"key\":\"a\",\"options\":{}}", "and has no other field"),
        ("{\"keyspace\":\"k\",\"options\":{\"ttl\":\"soon\"}}", "write it as in 90s"),
        ("{\"keyspace\":\"\",\"key\":\"a\",\"value\":\"\"}", "line 1: a keyspace needs a name"),
    ] {
        home.run_with(&["import", "--jsonl", "-"], line.as_bytes()).fails(4, words);
    }
    assert_eq!(exported(&home, "cleave.db"), "{\"keyspace\":\"k\",\"options\":{\"ttl\":\"1h\"}}\n");
}

#[test]
fn what_shows_one_of_several_keyspaces_says_so() {
    let home = Home::new();
    home.run(&["put", "key", "value"]).ok();
    let commands = ["count", "scan", "size"];
    for command in commands {
        assert_eq!(home.run(&[command]).err, "");
    }
    home.run(&["put", "-k", "users", "7", "Ada"]).ok();
    for command in commands {
        let said = home.run(&[command]).err;
        assert!(said.contains("the default keyspace, one of 2"), "{command}: {said}");
        assert_eq!(home.run(&[command, "-k", "default"]).err, "");
        assert_eq!(home.run(&[command, "-q"]).err, "");
    }
    home.run(&["--with", "change_retention_bytes=1MiB", "put", "key", "value"]).ok();
    let said = home.run(&["changes", "-k", "user"]).err;
    assert!(said.contains("there is no keyspace user now"), "{said}");
    assert_eq!(home.run(&["changes", "-k", "users"]).err, "");
}

/// A repair made keyspaces with default options, dropped empty ones, and said that all was saved.
#[test]
fn a_repair_brings_keyspaces_back_with_their_options() {
    let home = Home::new();
    for preset in in_turn(Preset::ALL.map(Preset::name).into()) {
        let (from, to) = (format!("{preset}-from"), format!("{preset}-to"));
        fill(&home, &from, preset);
        let said = home.run(&["repair", &from, &to]).text();
        assert!(said.contains("saved 8 keys"), "{said}");
        assert_eq!(exported(&home, &to), exported(&home, &from), "{preset}");
        let put = |db: &str| {
            home.run(&["--db", db, "put", "-k", "users", "new", "1"]).ok();
            home.run(&["--db", db, "--json", "get", "-k", "users", "new"]).json().remove(0)
        };
        assert!(put(&to)["expires"].is_string(), "{preset}");
    }
}

#[test]
fn a_repair_names_what_it_leaves_out() {
    let home = Home::new();
    fill(&home, "from", "ktstore");
    let args = ["--db", "from", "--space-limit", "8GiB", "--place", "levels=other"];
    let keeping = ["--with", "change_retention_bytes=1MiB", "put", "more", "1"];
    home.run(&[&args[..], &keeping].concat()).ok();
    let said = home.run(&["repair", "from", "to"]).fails(3, "");
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("LEFT OUT: the changes that were kept"), "{said}");
    assert!(said.contains("LEFT OUT: the placement levels="), "{said}");
    home.run(&["--db", "to", "put", "more", "1"]).ok();
    let stats = home.run(&["--db", "to", "--json", "stats"]).json().remove(0);
    assert!(stats.to_string().contains(&(8_u64 << 30).to_string()), "{stats}");
    // Under another layout there is no threshold.
    let said = home.run(&["--preset", "lsm", "repair", "from", "lsm"]).fails(3, "");
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("keyspace users: min_separated is left out"), "{said}");
}

/// A value that was to stay got the time to live of its keyspace on the way.
#[test]
fn a_value_that_stays_in_a_keyspace_whose_values_expire_stays() {
    let home = Home::new();
    home.run(&["keyspace", "create", "k", "--ttl", "1h"]).ok();
    home.run(&["put", "-k", "k", "key", "1"]).ok();
    home.run(&["expire", "-k", "k", "key", "never"]).ok();
    home.run(&["export", "--jsonl", "all.jsonl"]).ok();
    for (db, bulk) in [("plain", None), ("bulk", Some("--bulk"))] {
        let import = ["--db", db, "import", "--jsonl", "all.jsonl"];
        home.run(&[&import[..], bulk.as_slice()].concat()).ok();
        let got = home.run(&["--db", db, "--json", "get", "-k", "k", "key"]).json().remove(0);
        assert!(got["expires"].is_null(), "{got}");
    }
}
