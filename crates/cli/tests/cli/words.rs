//! The words of answers and errors: of this program, and of the right number.

use crate::common::Home;

/// What a user of the program cannot call.
const OF_THE_LIBRARY: [&str; 7] = [
    "::",
    "()",
    "drop_changes",
    "get_below",
    "open the database with",
    "durable_only",
    "a snapshot",
];

#[test]
fn errors_advise_what_this_program_has() {
    let home = Home::new();
    home.fill(&[("text", "no number")]);
    home.run(&["merge", "text", "add", "1"]).ok();
    home.run(&["keyspace", "create", "plain"]).ok();
    for (args, code, words) in [
        (&["changes"][..], 4, "`--with change_retention_bytes=64MiB`"),
        (&["get", "text"], 4, "`cleave get --below KEY`"),
        (&["--space-limit", "1KiB", "put", "k", "v"], 2, "`--space-limit none`"),
        (&["keyspace", "train", "plain"], 2, "`keyspace create --compression`"),
        (&["--with", "background=0", "put", "k", "v"], 2, "1 to 256"),
        (&["--with", "cache_bytes", "put", "k", "v"], 2, "cache_bytes has no value"),
        (&["--with", "foo=1", "put", "k", "v"], 2, "there is no option foo; `--with help`"),
        (&["get", "-k", "plane", "k"], 4, "`cleave keyspace list`"),
        (&["merge", "k", "add", "1.5"], 2, "add takes a whole number"),
        (&["--with", "change_retention_bytes=64MiB", "put", "k", "v"], 0, ""),
        (&["changes", "--from", "1"], 4, "`cleave export`"),
        (&["changes", "--from", "999"], 4, "`cleave export`"),
    ] {
        let ran = home.run(args);
        let said = ran.err.clone();
        ran.fails(code, words);
        let foreign = OF_THE_LIBRARY.iter().find(|words| said.contains(**words));
        assert_eq!(foreign, None, "{args:?}: {said}");
    }
    for command in ["check", "scan", "export --jsonl -", "repair cleave.db saved"] {
        let ran = home.run(&command.split_whitespace().collect::<Vec<_>>());
        let said = format!("{}{}", String::from_utf8_lossy(&ran.out), ran.err);
        let foreign = OF_THE_LIBRARY.iter().find(|words| said.contains(**words));
        assert_eq!((said.contains("text"), foreign), (true, None), "{command}: {said}");
    }
    let created = ["keyspace", "create", "x", "--min-separated"];
    home.run(&[&created[..], &["much"]].concat()).fails(2, "not a number such as 2000");
    home.run(&[&created[..], &["1KiB"]].concat()).ok();
    assert_eq!(home.run(&["keyspace", "list"]).text(), "plain\nx\t--min-separated 1024\n");
}

#[test]
fn one_thing_is_said_of_one() {
    let home = Home::new();
    home.fill(&[("key", &"v".repeat(500))]);
    let commands = "export --jsonl one.jsonl;--db b import --jsonl one.jsonl;count;size;check;\
                    stats;stats --all;repair cleave.db new;collect;compact;checkpoint copy;\
                    backup backups;backup backups --list;backup backups --verify;\
                    --db r restore backups;tour in;--db b del --prefix k;--db b destroy --yes";
    home.file("in/file", b"content");
    for command in commands.split(';') {
        let ran = home.run(&command.split_whitespace().collect::<Vec<_>>());
        let said = format!("{}{}", String::from_utf8_lossy(&ran.out), ran.err);
        assert_eq!(ran.code, Some(0), "{command}: {said}");
        let words: Vec<_> = said.split(|c: char| !c.is_alphanumeric() && c != '.').collect();
        let many = words.windows(2).find(|pair| pair[0] == "1" && pair[1].ends_with('s'));
        assert_eq!(many, None, "{command}: {said}");
        assert!(!said.contains(" -  ") || said.contains("(-: too little data)"), "{said}");
        // Costs for each byte, of which there are too few.
        assert!(!said.contains("- per byte") && !said.contains("space amplification"), "{said}");
    }
}

#[test]
fn a_shell_describes_its_commands() {
    let home = Home::new();
    home.fill(&[("key", "value")]);
    let asked = home.run_with(&["shell"], b"help scan\n").text();
    assert_eq!(home.run_with(&["shell"], b"scan --help\n").text(), asked);
    assert!(asked.contains("--reverse"), "{asked}");
    let all = home.run_with(&["shell"], b"help\n").text();
    assert!(all.starts_with("Commands of the shell"), "{all}");
}
