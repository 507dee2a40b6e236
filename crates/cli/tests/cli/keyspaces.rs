//! `keyspace`, and `--keyspace` of the commands that read or write keys.

use crate::common::Home;

#[test]
fn keyspaces_are_apart_and_are_dropped_whole() {
    let home = Home::new();
    home.run(&["put", "key", "default"]).ok();
    home.run(&["put", "--keyspace", "users", "key", "of users"]).ok();
    home.run(&["keyspace", "create", "empty"]).ok();
    home.run(&["keyspace", "create", "empty"]).fails(4, "there is a keyspace of that name");
    assert_eq!(home.run(&["keyspace", "list"]).text(), "empty\nusers\n");
    let json = home.run(&["--json", "keyspace", "list"]).text();
    assert_eq!(json, "{\"keyspace\":\"empty\"}\n{\"keyspace\":\"users\"}\n");
    assert_eq!(home.run(&["get", "key"]).ok(), b"default");
    assert_eq!(home.run(&["get", "-k", "users", "key"]).ok(), b"of users");
    assert_eq!(home.run(&["scan", "-k", "default"]).text(), "key\tdefault\n");
    assert_eq!(home.run(&["count", "-k", "empty"]).text(), "0\n");
    home.run(&["get", "-k", "user", "key"]).fails(4, "no keyspace of that name");
    home.run(&["del", "-k", "user", "key"]).fails(4, "no keyspace of that name");
    home.run(&["keyspace", "drop", "users"]).ok();
    home.run(&["keyspace", "drop", "users"]).fails(4, "no keyspace of that name");
    home.run(&["put", "-k", "users", "other", "again"]).ok();
    assert_eq!(home.run(&["scan", "-k", "users"]).text(), "other\tagain\n");
    home.run(&["check"]).ok();
}

#[test]
fn data_goes_from_one_keyspace_to_another() {
    let home = Home::new();
    home.fill(&[("apple", "red"), ("banana", "yellow")]);
    let file = home.path("fruit.jsonl");
    let file = file.to_str().unwrap();
    home.run(&["export", "--jsonl", file]).ok();
    home.run(&["import", "-k", "fruit", "--jsonl", file]).ok();
    assert_eq!(
        home.run(&["del", "-k", "fruit", "--from", "b", "--to", "c"]).text(),
        "deleted 1 key\n"
    );
    assert_eq!(home.run(&["scan", "-k", "fruit"]).text(), "apple\tred\n");
    assert_eq!(home.run(&["count"]).text(), "2\n");
    home.run(&["repair", "cleave.db", "new"]).ok();
    assert_eq!(home.run(&["--db", "new", "scan", "-k", "fruit"]).text(), "apple\tred\n");
}

#[test]
fn a_keyspace_is_compressed_as_it_was_created() {
    let home = Home::new();
    let create = ["keyspace", "create", "orders", "--compression"];
    home.run(&[&create[..], &["zip"]].concat()).fails(2, "none, lz4, zstd and zstd-dictionary");
    home.run(&[&create[..], &["zstd-dictionary"]].concat()).ok();
    assert_eq!(
        home.run(&["--json", "keyspace", "list"]).text(),
        "{\"keyspace\":\"orders\",\"compression\":\"zstd-dictionary\"}\n"
    );
    assert_eq!(home.run(&["keyspace", "list"]).text(), "orders\t--compression zstd-dictionary\n");
    home.run(&["keyspace", "train", "orders"]).fails(2, "512 KiB of values");
    home.run(&["keyspace", "train", "order"]).fails(4, "no keyspace of that name");
    let order = |n: u32| format!("{n} {:x} customer {} pays later. ", n * 7919, n % 97).repeat(30);
    let lines = (0..2000).map(|n| format!("{{\"key\":\"{n:05}\",\"value\":\"{}\"}}\n", order(n)));
    let file = home.path("orders.jsonl");
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    home.run(&["import", "-k", "orders", "--jsonl", file.to_str().unwrap()]).ok();
    home.run(&["keyspace", "train", "orders"]).ok();
    assert_eq!(home.run(&["get", "-k", "orders", "01234"]).text(), order(1234));
    home.run(&["keyspace", "create", "plain"]).ok();
    home.run(&["keyspace", "train", "plain"]).fails(2, "see `keyspace create --compression`");
    home.run(&["check"]).ok();
    home.run(&["repair", "cleave.db", "new"]).ok();
    assert_eq!(home.run(&["--db", "new", "get", "-k", "orders", "01234"]).text(), order(1234));
    home.run(&["keyspace", "drop", "orders", "--collect"]).ok();
}
