//! `import --bulk`: sorted, all or nothing, and no file is left.

use std::fs;
use std::path::Path;

use cleavedb::Preset;
use cleavedb_testkit::budget::in_turn;

use crate::common::Home;

/// Lines of a CSV in an order that is not sorted, with each key twice.
fn lines(count: u32) -> String {
    let line = |i: u32| format!("key{:05},{}\n", i * 7919 % count, "x".repeat(i as usize % 300));
    let first = (0..count).map(|i| format!("key{i:05},old\n"));
    "key,value\n".to_owned()
        + &first.collect::<String>()
        + &(0..count).map(line).collect::<String>()
}

fn is_left(directory: &Path) -> bool {
    let names = fs::read_dir(directory).unwrap().map(|it| it.unwrap().file_name());
    names.into_iter().any(|name| name.to_str().unwrap().ends_with("sort"))
}

#[test]
fn items_in_any_order_are_loaded_as_an_import_would_store_them() {
    let home = Home::new();
    home.file("in.csv", lines(3000).as_bytes());
    for preset in in_turn(Preset::ALL.map(Preset::name).into()) {
        let db = ["--db", preset, "--preset", preset];
        let told = home.run(&[&db[..], &["import", "--bulk", "--csv", "in.csv"]].concat()).text();
        assert!(told.contains("imported 3,000 items"), "{told}");
        home.run(&["--db", "plain", "import", "--csv", "in.csv"]).ok();
        let scanned = home.run(&["--db", preset, "scan"]).text();
        assert_eq!(scanned, home.run(&["--db", "plain", "scan"]).text(), "{preset}");
        home.run(&["--db", preset, "check"]).ok();
        assert!(!is_left(&home.path(preset)));
        // Into a database with such keys, and into a keyspace.
        home.file("more.csv", b"key,value\nkey00002,two\nkey00001,one\nzz,last\n");
        home.run(&["--db", preset, "keyspace", "create", "other"]).ok();
        for within in [&[][..], &["--keyspace", "other"]] {
            let import = ["--db", preset, "import", "--bulk", "--csv", "more.csv"];
            home.run(&[&import[..], within].concat()).ok();
            let get = ["--db", preset, "get", "key00001"];
            assert_eq!(home.run(&[&get[..], within].concat()).ok(), b"one");
        }
        assert_eq!(home.run(&["--db", preset, "--json", "count"]).json()[0]["keys"], 3001);
    }
}

#[test]
fn a_broken_input_stores_nothing_and_leaves_no_file() {
    let home = Home::new();
    home.run(&["put", "there", "1"]).ok();
    home.file("bad.jsonl", b"{\"key\":\"b\",\"value\":\"2\"}\n{\"key\":\"a\",\"val\n");
    let ran = home.run(&["import", "--bulk", "--jsonl", "bad.jsonl"]);
    ran.fails(4, "nothing of this import is stored");
    assert_eq!(home.run(&["scan"]).text(), "there\t1\n");
    assert!(!is_left(&home.path("cleave.db")));
    home.run(&["import", "--jsonl", "bad.jsonl", "--temp", "."]).fails(2, "--bulk");
}

#[test]
fn files_of_the_sort_lie_where_they_are_told_and_those_of_a_killed_one_go() {
    let home = Home::new();
    home.file("in.csv", lines(300).as_bytes());
    fs::create_dir(home.path("tmp")).unwrap();
    let import = ["import", "--bulk", "--csv", "in.csv"];
    home.run(&[&import[..], &["--temp", "missing"]].concat()).fails(4, "cannot create missing");
    assert_eq!(home.run(&["--json", "count"]).json()[0]["keys"], 0);
    home.run(&[&import[..], &["--temp", "tmp"]].concat()).ok();
    assert!(!is_left(&home.path("tmp")));
    let left = home.path("cleave.db").join("import.sort");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("run-000001.sorted"), "left by a kill").unwrap();
    assert_eq!(home.run(&["get", "key00299"]).code, Some(0));
    home.run(&import).ok();
    assert!(!left.exists());
}

#[test]
fn a_signal_ends_it_and_nothing_is_stored() {
    let home = Home::new();
    let (mut child, mut stdin) = home.start(&["import", "--bulk", "--jsonl", "-"]);
    use std::io::Write;
    stdin.write_all(b"{\"key\":\"b\",\"value\":\"2\"}\n").unwrap();
    let sorts = home.path("cleave.db").join("import.sort");
    let begin = std::time::Instant::now();
    while !sorts.exists() {
        assert!(begin.elapsed() < crate::common::PATIENCE, "it does not begin");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let kill = format!("kill -INT {}", child.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(!sorts.exists());
    assert_eq!(home.run(&["--json", "count"]).json()[0]["keys"], 0);
    drop(stdin);
}
