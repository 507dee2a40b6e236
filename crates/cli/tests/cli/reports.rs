//! What users have reported, with their own commands and values.

use crate::common::{Home, Ran};
use crate::manners::ended;

/// Runs words that are separated by blanks.
fn run(home: &Home, command: &str) -> Ran {
    home.run(&command.split_whitespace().collect::<Vec<_>>())
}

/// An export had one of three keys, and ended with success.
#[test]
fn an_export_moves_all_keyspaces_over() {
    let home = Home::new();
    for put in ["put plain 1", "put --keyspace users 7 Ada", "put --keyspace orders 1 pen"] {
        run(&home, &format!("--db a {put}")).ok();
    }
    for (number, form) in ["--jsonl out.jsonl", "--csv out.csv", "--dir out"].iter().enumerate() {
        run(&home, &format!("--db a export {form}")).ok();
        let to = format!("--db b{number}");
        run(&home, &format!("{to} import {form}")).ok();
        assert_eq!(run(&home, &format!("{to} keyspace list")).text(), "orders\nusers\n", "{form}");
        for (key, value) in [("plain", "1"), ("-k users 7", "Ada"), ("-k orders 1", "pen")] {
            assert_eq!(run(&home, &format!("{to} get {key}")).text(), value, "{form}");
        }
    }
}

/// A repaired keyspace had lost its time to live, and an empty one was not there at all.
#[test]
fn a_repair_keeps_the_options_of_keyspaces() {
    let home = Home::new();
    let sessions = "sessions --ttl 1h --min-separated 0 --compression zstd";
    run(&home, &format!("--db a keyspace create {sessions}")).ok();
    run(&home, "--db a keyspace create inbox --ttl 5m").ok();
    run(&home, "--db a put --keyspace sessions old 1").ok();
    run(&home, "repair a b").ok();
    let list = run(&home, "--db a keyspace list").text();
    for db in ["a", "b"] {
        run(&home, &format!("--db {db} put --keyspace sessions new 2")).ok();
        assert_eq!(run(&home, &format!("--db {db} keyspace list")).text(), list);
        let rows = run(&home, &format!("--db {db} scan --keyspace sessions --json")).json();
        assert_eq!((rows.len(), &rows[0]["key"]), (2, &"new".into()));
        assert!(rows.iter().all(|row| row["expires"].is_string()), "{rows:?}");
    }
}

/// Tables that are small when compressed were packed into tables that are small again, for ever.
#[test]
fn a_compaction_of_small_tables_ends() {
    let home = Home::new();
    for i in 1..=40 {
        home.file(format!("imp/n{i}"), &[7; 3000]);
    }
    let with = "--with compression=zstd --with table_bytes=4KiB --with block_bytes=64KiB";
    run(&home, &format!("--db n --preset lsm {with} import --dir imp")).ok();
    let with = format!("{with} --with level0_bytes=4KiB --with level1_bytes=4KiB");
    run(&home, &format!("--db n {with} put zz b")).ok();
    let compact = format!("--json --db n {with} compact");
    let (child, _stdin) = home.start(&compact.split_whitespace().collect::<Vec<_>>());
    let compactions = ended(child).json()[0]["compactions"].as_u64().unwrap();
    assert!(compactions <= 3, "{compactions}");
}

/// The error advised to restore a backup.
#[test]
fn a_stray_table_is_named_with_its_cure() {
    let home = Home::new();
    for i in 1..=3 {
        run(&home, &format!("--db a --preset lsm put k{i} v")).ok();
    }
    run(&home, "--db a compact").ok();
    let mut files = std::fs::read_dir(home.path("a")).unwrap().map(|file| file.unwrap().path());
    let table = files.find(|path| path.extension().is_some_and(|end| end == "tbl")).unwrap();
    std::fs::copy(table, home.path("a/009999.tbl")).unwrap();
    let said = "move it away";
    assert!(run(&home, "--db a get k1").err.contains("009999.tbl"));
    run(&home, "--db a get k1").fails(3, said);
    std::fs::remove_file(home.path("a/009999.tbl")).unwrap();
    assert_eq!(run(&home, "--db a get k1").text(), "v");
}
