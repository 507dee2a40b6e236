//! Many keys at once: prefixes, counts, and a shell that keeps the database open.

use crate::common::Home;

fn filled() -> Home {
    let home = Home::new();
    home.fill(&[("a1", "1"), ("a2", "2"), ("b1", "3"), ("b2", "4")]);
    home
}

#[test]
fn keys_are_counted_and_deleted_by_prefix() {
    let home = filled();
    assert_eq!(home.run(&["count"]).text(), "4\n");
    assert_eq!(home.run(&["count", "--prefix", "a"]).text(), "2\n");
    assert_eq!(home.run(&["--json", "count", "--from", "a2"]).json()[0]["keys"], 3);
    assert_eq!(home.run(&["del", "--prefix", "a"]).text(), "deleted 2 keys\n");
    assert_eq!(home.run(&["scan"]).text(), "b1\t3\nb2\t4\n");
    home.run(&["del", "--prefix", ""]).fails(2, "every key");
    home.run(&["del"]).fails(2, "--prefix");
    home.run(&["del", "b1", "--prefix", "b"]).fails(2, "cannot be used with");
    assert_eq!(home.run(&["count"]).text(), "2\n");
}

/// Keys are looked up in pieces; none is left between two of them.
#[test]
fn many_keys_are_deleted_by_prefix() {
    let home = filled();
    let lines = (0..2500).map(|key| format!("put key{key} value\n")).collect::<String>();
    home.run_with(&["shell", "--durability", "os"], lines.as_bytes()).ok();
    assert_eq!(home.run(&["del", "--prefix", "key"]).text(), "deleted 2,500 keys\n");
    assert_eq!(home.run(&["count"]).text(), "4\n");
}

#[test]
fn a_shell_answers_line_by_line() {
    let home = filled();
    let lines = "get a1\nput 'a key' \"with spaces\"\n\n# a comment\nget 'a key'\n\
                 count --prefix a\n\
                 del --prefix b\nscan\nsync\nexit\nget gone\n";
    let out = home.run_with(&["shell"], lines.as_bytes()).text();
    assert_eq!(out, "1\nwith spaces\n3\ndeleted 2 keys\na key\twith spaces\na1\t1\na2\t2\n");
    let out = home.run_with(&["shell"], b"help\n").text();
    assert!(out.contains("count") && out.contains("exit"), "{out}");
    let json = home.run_with(&["--json", "shell"], b"put x y\nget x\ncount\n").json();
    assert_eq!((&json[1]["value"], &json[2]["keys"]), (&"y".into(), &4.into()));
}

#[test]
fn a_shell_has_the_commands_that_need_an_open_database() {
    let home = filled();
    let lines = "get a1 --offset 1\nuse users\nput ann 1\nexpire ann 1h\nkeyspaces\ncount\n\
                 compact\ncollect\nuse default\ncount\n";
    let out = home.run_with(&["shell"], lines.as_bytes()).text();
    assert_eq!(out, "\nusers\n1\n4\n");
    assert!(home.run(&["--json", "get", "-k", "users", "ann"]).text().contains("expires"));
    home.run_with(&["shell"], b"expire gone never\n").fails(1, "line 1: there is no such key");
}

#[test]
fn a_batch_of_a_shell_is_written_as_a_whole_or_not_at_all() {
    let home = filled();
    let batch = "batch\nput c1 1 --ttl 1h\nuse users\nmerge n add 2\nmerge n add 3\n\
                 use default\ndel a1\ndel --prefix b\ncount\n";
    let shell = |lines: &str| home.run_with(&["shell"], format!("{batch}{lines}").as_bytes());
    let rest = |home: &Home| home.run(&["scan", "--keys-only"]).text();
    assert_eq!(shell("rollback\nput c2 1\ndel c2\n").text(), "4\n");
    for lines in ["", "exit\n", "expire a1 1h\ncommit\n", "put\ncommit\n", "batch\ncommit\n"] {
        shell(lines).fails(2, if lines.len() < 6 { "not committed" } else { "line 10: " });
    }
    assert_eq!(rest(&home), "a1\na2\nb1\nb2\n");
    assert_eq!(shell("commit\ncount\n").text(), "4\n2\n");
    assert_eq!(rest(&home), "a2\nc1\n");
    assert!(home.run(&["--json", "get", "c1"]).text().contains("expires"));
    assert_eq!(home.run(&["get", "-k", "users", "n"]).text(), "5");
    home.run_with(&["shell"], b"commit\n").fails(2, "line 1: no batch was begun");
}

#[test]
fn a_shell_reads_below_a_merge_and_names_commands_that_it_has_not() {
    let home = filled();
    let lines = b"put a1 text\nmerge a1 add 1\nget a1 --below\n";
    assert_eq!(home.run_with(&["shell"], lines).text(), "text\n");
    for command in ["export", "backup", "check", "keyspace"] {
        let said = format!("line 1: the shell has no command {command}: run `cleave {command}`");
        home.run_with(&["shell"], command.as_bytes()).fails(2, &said);
    }
}

/// A carriage return became a part of the value.
#[test]
fn lines_may_end_as_on_other_systems() {
    let home = filled();
    home.run_with(&["shell"], b"put x 1\r\n\r\nput y '1\r'\r\nput z 1\r").ok();
    let out = home.run(&["scan", "--from", "x"]).text();
    assert_eq!(out, "x\t1\ny\t1\\r\nz\t1\\r\n");
}

#[test]
fn a_line_that_fails_is_named() {
    let home = filled();
    let missing = home.run_with(&["shell"], b"get gone\nget a1\n");
    assert_eq!(missing.fails(1, "line 1: there is no such key"), b"1\n", "and it goes on");
    let bad = home.run_with(&["shell"], b"get a1\n\nfrobnicate a1\nput a1 9\n");
    assert_eq!(bad.fails(2, "line 3: "), b"1\n", "and no further");
    assert_eq!(home.run(&["get", "a1"]).ok(), b"1");
    home.run_with(&["shell"], b"get 'a1\n").fails(2, "line 1: a quote is not closed");
    home.run_with(&["shell"], b"get a1 a2\n").fails(2, "line 1: ");
}

#[test]
fn the_command_line_is_written_down_for_shells_and_readers() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.run(&["completions", shell]).text();
        assert!(script.contains("cleave") && script.contains("space-limit"), "{shell}");
    }
    let page = home.run(&["man"]).text();
    assert!(page.contains(".TH cleave") && page.contains("Exit codes"), "{page}");
    home.run(&["man", "share/man1"]).ok();
    assert!(home.path("share/man1/cleave-import.1").is_file());
}

#[test]
fn the_help_of_a_command_begins_with_its_own_options() {
    let home = Home::new();
    let help = home.run(&["scan", "--help"]).text();
    let at = |words: &str| help.find(words).unwrap_or_else(|| panic!("{words} in {help}"));
    assert!(at("--reverse") < at("Options of every command") && at("--db") > at("--raw0"));
    let short = home.run(&["scan", "-h"]).text();
    assert!(short.contains("--reverse") && !short.contains("--space-limit"), "{short}");
}
