//! Values that expire: `put --ttl`, `expire`, `keyspace create --ttl`, and what other commands
//! show.

use crate::common::Home;

#[test]
fn a_time_to_live_is_shown_changed_and_kept() {
    let home = Home::new();
    home.run(&["put", "--ttl", "12h", "session", "Ada"]).ok();
    home.run(&["put", "user", "Ada"]).ok();
    home.run(&["put", "--ttl", "0s", "gone", "Ada"]).ok();
    home.run(&["get", "gone"]).fails(1, "no such key");
    let shown = home.run(&["scan", "--json"]).text();
    let (session, user) = shown.split_once('\n').unwrap();
    assert!(
        session.starts_with("{\"key\":\"session\",\"value\":\"Ada\",\"expires\":\"20"),
        "{shown}"
    );
    assert_eq!(user, "{\"key\":\"user\",\"value\":\"Ada\"}\n");
    assert_eq!(home.run(&["get", "--json", "session"]).text(), format!("{session}\n"));

    home.run(&["expire", "session", "never"]).ok();
    assert_eq!(home.run(&["scan", "--keys-only", "--json"]).text().matches("expires").count(), 0);
    home.run(&["expire", "user", "2days"]).ok();
    assert_eq!(home.run(&["scan", "--keys-only", "--json"]).text().matches("expires").count(), 1);
    home.run(&["expire", "session", "0s"]).ok();
    assert_eq!(home.run(&["scan"]).text(), "user\tAda\n");
    home.run(&["expire", "session", "1h"]).fails(1, "no such key");
    home.run(&["expire", "user", "soon"]).fails(2, "write it as in 90s");
    assert_eq!(
        home.run_with(&["--json", "shell"], b"put --ttl 1h a b\nscan --prefix a\n")
            .text()
            .matches("expires")
            .count(),
        1
    );
}

#[test]
fn an_expiry_goes_with_its_value_to_json_lines_and_to_a_repaired_database() {
    let home = Home::new();
    home.run(&["keyspace", "create", "sessions", "--ttl", "1h"]).ok();
    home.run(&["put", "-k", "sessions", "a", "short"]).ok();
    let shown = home.run(&["scan", "-k", "sessions", "--json"]).text();
    assert!(shown.contains("expires"), "{shown}");
    let file = home.path("sessions.jsonl");
    let file = file.to_str().unwrap();
    home.run(&["export", "-k", "sessions", "--jsonl", file]).ok();
    home.run(&["--db", "other", "import", "--jsonl", file]).ok();
    assert_eq!(home.run(&["--db", "other", "scan", "--json"]).text(), shown);
    home.run(&["repair", "cleave.db", "new"]).ok();
    assert_eq!(home.run(&["--db", "new", "scan", "-k", "sessions", "--json"]).text(), shown);
    let csv = home.path("sessions.csv");
    let told = home.run(&["export", "-k", "sessions", "--csv", csv.to_str().unwrap()]).text();
    assert!(told.contains("1 values expire, which this form does not keep"), "{told}");
    std::fs::write(file, "{\"key\": \"a\", \"value\": \"b\", \"expires\": \"tomorrow\"}\n")
        .unwrap();
    home.run(&["import", "--jsonl", file]).fails(4, "tomorrow");
}
