//! The commands on ranges as a whole: `size`, `count --approximate`, `collect` and `compact` of a
//! part; and `destroy`.

use std::fs;

use crate::common::Home;

/// A database with two users, each with many values.
fn users() -> Home {
    let home = Home::new();
    let pairs: Vec<(String, String)> = ["ada", "bob"]
        .into_iter()
        .flat_map(|user| {
            (0..300).map(move |at| {
                (format!("{user}:{at:04}"), format!("secret of {user} {at} ").repeat(60))
            })
        })
        .collect();
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    home.fill(&pairs);
    home
}

/// Whether a file of the database has these bytes.
fn is_on_disk(home: &Home, words: &str) -> bool {
    let files = fs::read_dir(home.path("cleave.db")).unwrap();
    let bytes = files.map(|file| fs::read(file.unwrap().path()).unwrap());
    bytes.into_iter().any(|bytes| bytes.windows(words.len()).any(|part| part == words.as_bytes()))
}

#[test]
fn sizes_are_estimated() {
    let home = users();
    let about: u64 =
        home.run(&["count", "--approximate", "--prefix", "ada:"]).text().trim().parse().unwrap();
    assert!((150..600).contains(&about), "{about}");
    let text = home.run(&["size", "--prefix", "ada:"]).text();
    assert!(text.starts_with("about ") && text.contains("in the index"), "{text}");
    let json = home.run(&["--json", "size", "--prefix", "eve:"]).text();
    assert_eq!(json, "{\"keys\":0,\"index_bytes\":0,\"value_bytes\":0}\n");
    let shell = home.run_with(&["shell"], b"size --prefix eve:\ncount --approximate\n").text();
    assert!(shell.starts_with("about 0 keys"), "{shell}");
    home.run(&["size", "-k", "none"]).fails(4, "no keyspace of that name");
}

/// `del` counted the keys of a range whose ends were reversed, and said that it had deleted 0.
#[test]
fn a_range_without_room_for_a_key_is_refused_by_every_command() {
    let home = users();
    let ranges = [
        &["--from", "z", "--to", "a"][..],
        &["--prefix", "ada:", "--from", "bob:"],
        &["--prefix", "bob:", "--to", "ada:"],
    ];
    for range in ranges {
        for command in ["scan", "count", "count --approximate", "size", "del", "compact", "collect"]
        {
            let args = [&command.split(' ').collect::<Vec<_>>()[..], range].concat();
            home.run(&args).fails(2, "no key can be in this range: --from lies behind --to");
        }
        for command in ["scan", "count", "size", "del", "batch\ndel"] {
            let line = format!("{command} {}\n", range.join(" "));
            home.run_with(&["shell"], line.as_bytes()).fails(2, "no key can be in this range");
        }
    }
    // One that only happens to be empty is none of them, and ends in front of its first key.
    assert_eq!(home.run(&["count", "--from", "c", "--to", "c"]).text(), "0\n");
    assert_eq!(home.run(&["count", "--prefix", "ada:", "--from", "ada;"]).text(), "0\n");
    assert_eq!(home.run(&["del", "--from", "x", "--to", "y"]).text(), "deleted 0 keys\n");
    assert_eq!(home.run(&["count"]).text(), "600\n");
}

#[test]
fn what_was_deleted_leaves_the_disk() {
    let home = users();
    home.run(&["del", "--prefix", "ada:"]).ok();
    assert!(is_on_disk(&home, "secret of ada 7 ") && is_on_disk(&home, "ada:0007"));
    let text = home.run(&["collect", "--prefix", "ada:"]).text();
    assert!(text.contains("collected"), "{text}");
    assert!(!is_on_disk(&home, "secret of ada") && !is_on_disk(&home, "ada:0007"));
    assert!(is_on_disk(&home, "secret of bob"));
    assert_eq!(home.run(&["count"]).text(), "300\n");
    home.run(&["put", "-k", "eve", "key", "secret of eve"]).ok();
    home.run(&["keyspace", "drop", "eve", "--collect"]).ok();
    assert!(!is_on_disk(&home, "secret of eve"));
    home.run(&["put", "-k", "eve", "key", "secret of eve"]).ok();
    home.run(&["keyspace", "drop", "eve"]).ok();
    home.run(&["collect", "--dropped"]).ok();
    assert!(!is_on_disk(&home, "secret of eve"));
    let text = home.run(&["compact", "--from", "bob:0100", "--to", "bob:0200"]).text();
    assert!(text.contains("compacted"), "{text}");
    home.run(&["collect", "-k", "none"]).fails(4, "no keyspace of that name");
    home.run(&["check"]).ok();
}

#[test]
fn a_database_is_destroyed_only_on_purpose() {
    let home = users();
    home.run(&["destroy"]).fails(2, "--yes removes the database in");
    assert_eq!(home.run(&["count"]).text(), "600\n");
    home.file("cleave.db/notes.txt", b"mine");
    let text = home.run(&["destroy", "--yes"]).text();
    assert!(text.contains("removed") && text.contains("left cleave.db/notes.txt"), "{text}");
    assert_eq!(fs::read_dir(home.path("cleave.db")).unwrap().count(), 1);
    home.run(&["destroy", "--yes"]).fails(4, "no database in the directory");
    home.run(&["--db", "none", "destroy", "--yes"]).fails(4, "no such directory");
}
