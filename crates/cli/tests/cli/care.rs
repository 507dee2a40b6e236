//! The commands that look after a database: stats, check, collect, compact, and presets.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Home, PATIENCE, Ran};

/// A database in which every file but the youngest has values that are dead, and some that live.
fn churned() -> Home {
    let home = Home::new();
    for round in 1..=4 {
        let value = format!("{round}").repeat(2000);
        let keys = (0..200).filter(|key| key % round == 0).map(|key| format!("key{key:04}"));
        let keys: Vec<_> = keys.collect();
        let pairs: Vec<_> = keys.iter().map(|key| (key.as_str(), value.as_str())).collect();
        home.fill(&pairs);
    }
    home
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("{name} in {value}"))
}

#[test]
fn stats_explain_themselves() {
    let home = churned();
    let text = home.run(&["stats"]).text();
    assert!(text.lines().count() <= 14 && text.contains(" live, "), "{text}");
    let text = home.run(&["stats", "--all"]).text();
    let decided = "so level 0 may have 64.0 MiB and level 1 64.0 MiB; a MemTable covers at most";
    let others = ["preset cleave", "level", "tables", ".grp", "live", "dead", "space", "write"];
    for needed in others.into_iter().chain(["read", decided, "writers are not slowed"]) {
        assert!(text.contains(needed), "{needed} is not in:\n{text}");
    }
    let stats = home.run(&["stats", "--json"]).json().remove(0);
    assert_eq!(stats["preset"], json!("cleave"));
    assert_eq!(stats["decided"]["level1_bytes"], json!(64 << 20));
    assert_eq!(stats["decided"]["writers_bytes_per_second"], json!(null));
    assert!(number(&stats["space"], "live_bytes") > 200.0 * 2000.0);
    assert!(number(&stats["space"], "space_amplification") >= 1.0);
    assert!(stats["levels"].as_array().is_some_and(|levels| !levels.is_empty()));
}

#[test]
fn stats_tell_of_groups_where_there_are_some() {
    let home = Home::new();
    home.run(&["--preset", "hashkv", "put", "a", "1"]).ok();
    let text = home.run(&["stats", "--all"]).text();
    assert!(text.contains("1 group of 0 records, which takes 0 B of a reserve of"), "{text}");
    assert_eq!(home.run(&["--json", "stats"]).json().remove(0)["groups"], json!(1));
}

#[test]
fn a_whole_database_passes_its_check() {
    let home = churned();
    let text = home.run(&["check"]).text();
    assert!(text.contains("all is well") && text.contains("followed 200 keys"), "{text}");
    let checked = home.run(&["--json", "check"]).json().remove(0);
    assert_eq!((&checked["keys"], &checked["problems"]), (&json!(200), &json!([])));
}

#[test]
fn collection_gives_space_back_and_loses_nothing() {
    let home = churned();
    let before = home.run(&["scan"]).ok();
    let collected = home.run(&["--json", "collect"]).json().remove(0);
    assert!(number(&collected, "collections") > 0.0, "{collected}");
    let (then, now) = (&collected["before"], &collected["after"]);
    assert!(number(now, "value_bytes") < number(then, "value_bytes") / 1.5, "{collected}");
    // What was reserved for writes that did not come once counted.
    assert!(number(now, "disk_bytes") < number(then, "disk_bytes"), "{collected}");
    let text = home.run(&["collect"]).text();
    assert!(text.contains("before") && text.contains("on disk"), "{text}");
    assert_eq!(home.run(&["scan"]).ok(), before);
    home.run(&["check"]).ok();
}

#[test]
fn compaction_leaves_one_level_and_loses_nothing() {
    let home = churned();
    let before = home.run(&["scan"]).ok();
    let text = home.run(&["compact"]).text();
    assert!(text.contains("before") && text.contains("tables"), "{text}");
    let stats = home.run(&["--json", "stats"]).json().remove(0);
    assert_eq!(stats["levels"].as_array().map(Vec::len), Some(1), "{stats}");
    let compacted = home.run(&["--json", "compact"]).json().remove(0);
    assert!(compacted["after"].is_object());
    assert_eq!(home.run(&["scan"]).ok(), before);
    home.run(&["check"]).ok();
}

#[test]
fn a_database_keeps_its_preset() {
    let home = Home::new();
    home.run(&["--preset", "lsm", "put", "a", "1"]).ok();
    assert_eq!(home.run(&["get", "a"]).ok(), b"1");
    home.run(&["put", "b", "2"]).ok();
    home.run(&["--preset", "lsm", "get", "b"]).ok();
    let refused = home.run(&["--preset", "wisckey", "get", "a"]);
    refused.fails(4, "created with preset lsm and keeps values in the index");
    home.run(&["--preset", "wisckey", "put", "a", "1"]).fails(4, "created with preset lsm");
    assert!(home.run(&["stats"]).text().contains("preset lsm"));
    home.run(&["collect"]).ok();
    home.run(&["check"]).ok();
}

#[test]
fn the_environment_names_the_database() {
    let home = Home::new();
    let status = home.command(&["put", "a", "1"]).env("CLEAVE_DB", "named").status().unwrap();
    assert!(status.success());
    assert!(home.path("named").is_dir() && !home.path("cleave.db").exists());
    assert_eq!(home.run(&["--db", "named", "get", "a"]).ok(), b"1");
}

#[test]
fn stats_begin_with_data_against_disk_and_count_what_is_in_memory() {
    for preset in ["lsm", "wisckey", "hashkv"] {
        let home = Home::new();
        let line = |key| format!("{{\"key\":\"key{key}\",\"value\":\"{}\"}}\n", "v".repeat(1000));
        let lines: String = (0..1000).map(line).collect();
        home.run_with(&["--preset", preset, "import", "--jsonl", "-"], lines.as_bytes()).ok();
        let text = home.run(&["stats"]).text();
        let first = text.lines().next().unwrap();
        assert!(
            first.starts_with("about ") && first.contains(" of keys and values, in "),
            "{text}"
        );
        let stats = home.run(&["stats", "--json"]).json().remove(0);
        let data = number(&stats["space"], "data_bytes");
        assert!((1_000_000.0..1_150_000.0).contains(&data), "{preset}: {data}");
        assert!(number(&stats["memory"], "memtables") < 4096.0, "nothing is in memory: {stats}");
    }
}

#[test]
fn a_check_names_damage_once_and_says_what_was_healed() {
    let home = churned();
    let entries = std::fs::read_dir(home.path("cleave.db")).unwrap();
    let files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    let manifest = files.iter().find(|path| path.extension().is_some_and(|e| e == "manifest"));
    let mut bytes = std::fs::read(manifest.unwrap()).unwrap();
    bytes[30] ^= 1;
    std::fs::write(manifest.unwrap(), bytes).unwrap();
    let text = home.run(&["check"]).text();
    assert!(text.contains("1 edit of the manifest had") && text.contains("all is well"));
    home.run(&["put", "key", "value"]).ok();
    assert!(!home.run(&["check"]).text().contains("the open found"), "the first write heals it");
    let table = files.iter().find(|path| path.extension().is_some_and(|e| e == "tbl")).unwrap();
    std::fs::remove_file(table).unwrap();
    let checked = home.run(&["--json", "check"]);
    assert_eq!(checked.code, Some(3));
    let checked: Value = serde_json::from_slice(&checked.out).unwrap();
    let problems = checked["problems"].as_array().unwrap();
    let named = |problem: &&Value| problem.as_str().unwrap().contains("failed to open a table");
    assert_eq!(problems.iter().filter(named).count(), 1, "{checked}");
    assert!(!problems.iter().any(|p| p.as_str().unwrap().contains("live bytes")), "{checked}");
}

#[test]
fn what_was_done_is_counted_over_sessions() {
    for preset in ["lsm", "wisckey", "hashkv"] {
        let home = Home::new();
        assert!(home.run(&["--preset", preset, "put", "a", "1"]).text().is_empty());
        home.run(&["put", "b", &"2".repeat(1000)]).ok();
        home.run(&["compact"]).ok();
        let totals = home.run(&["--json", "stats"]).json().remove(0)["totals"].take();
        assert_eq!((&totals["writes"], &totals["user_bytes"]), (&json!(2), &json!(1003)));
        assert!(number(&totals, "written_bytes") >= 1003.0, "{preset}: {totals}");
        let text = home.run(&["stats", "--all"]).text();
        assert!(
            text.contains(
                " -  bytes written for each of 0.98 KiB of keys and values that were put"
            ),
            "{text}"
        );
        // A compaction of one table only moves it, and writes all the same.
        assert_eq!((&totals["operations"], &totals["sessions"]), (&json!(2), &json!(3)));
        assert!(text.contains("3 sessions with writes; 2 operations in 2 writes"), "{text}");
    }
}

#[test]
fn what_a_database_has_of_the_machine_is_shown() {
    let home = Home::new();
    home.run(&["put", "a", "1"]).ok();
    let text = home.run(&["stats", "--all"]).text();
    assert!(text.contains("of at most 768 MiB") && text.contains("no log window before"), "{text}");
    let text = home.run_with(&["shell"], b"put b 2\nstats --all\n").text();
    assert!(text.contains("log window ") && text.contains("files open for reading"), "{text}");
    assert!(text.contains("since this open: 1 operation in 1 write, "), "{text}");
    let timed = ["--with", "latency_sampling=1", "shell"];
    let text = home.run_with(&timed, b"put b 2\nget b\nstats --all\n").text();
    let latencies = text.split("latencies: ").nth(1).unwrap();
    assert!(latencies.contains("\n  get ") && latencies.contains("\n  synced_write "), "{text}");
    let shell = home.run_with(&["--json", "shell"], b"put b 2\nstats\n").json().remove(1);
    assert!(number(&shell["window"], "bytes") > 0.0 && shell["window"]["locked"] == false);
    assert_eq!((&shell["failures"], &shell["damaged"]), (&json!([]), &json!([])));
}

#[test]
fn stats_are_printed_for_prometheus() {
    let home = Home::new();
    home.run(&["put", "a", "1"]).ok();
    let text = home.run(&["stats", "--prometheus"]).text();
    let figure = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{db=\"")));
        line.unwrap_or_else(|| panic!("{name}: {text}")).rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(figure("cleavedb_lifetime_writes"), "1");
    assert_eq!(figure("cleavedb_writes_total"), "0", "since this open");
    assert_eq!(home.run(&["--json", "stats", "--prometheus"]).code, Some(2));
}

/// With blocks longer than tables, and values that compress well, tables were packed into tables
/// that were as short, for ever.
#[test]
fn compaction_of_short_compressed_tables_ends() {
    let home = Home::new();
    (1..=40).for_each(|n| home.file(format!("in/n{n}"), &[7; 3000]));
    let with = |options: &[&'static str]| -> Vec<&'static str> {
        options.iter().flat_map(|option| ["--with", option]).collect()
    };
    let tables = with(&["compression=zstd", "table_bytes=4KiB", "block_bytes=64KiB"]);
    let small = [&tables[..], &with(&["level0_bytes=4KiB", "level1_bytes=4KiB"])].concat();
    home.run(&[&tables[..], &["--preset", "lsm", "import", "--dir", "in"]].concat()).ok();
    home.run(&[&small[..], &["put", "zz", "b"]].concat()).ok();
    let (mut child, _) = home.start(&[&small[..], &["compact"]].concat());
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ran::new(child.wait_with_output().unwrap()).ok();
    assert_eq!(home.run(&["count"]).text(), "41\n");
}
