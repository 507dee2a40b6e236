//! `merge`: counters, lists and maxima from the command line.

use crate::common::Home;

#[test]
fn values_are_counted_appended_to_and_compared() {
    let home = Home::new();
    home.run(&["merge", "visits", "add", "44"]).ok();
    home.run(&["merge", "visits", "add", "-2"]).ok();
    assert_eq!(home.run(&["get", "visits"]).text(), "42");
    home.run(&["put", "log", "one"]).ok();
    home.run(&["merge", "log", "append", ",two"]).ok();
    for score in ["200", "300", "100"] {
        home.run(&["merge", "-k", "scores", "best", "max", score]).ok();
    }
    assert_eq!(home.run(&["get", "log"]).text(), "one,two");
    assert_eq!(home.run(&["scan", "-k", "scores"]).text(), "best\t300\n");
    home.run(&["merge", "visits", "add", "many"]).fails(2, "does not accept the operand");
    home.run(&["merge", "visits", "times", "2"]).fails(2, "[possible values: add, append, max]");
    home.run(&["merge", "log", "add", "1"]).ok();
    home.run(&["get", "log"]).fails(4, "cannot apply an operand to the value of the key");
    home.run(&["put", "log", "1"]).ok();
    home.run(&["check"]).ok();
    let lines = b"merge log add 1\nmerge log append 0\nget log\n";
    assert_eq!(home.run_with(&["shell"], lines).text(), "20\n");
    home.run(&["repair", "cleave.db", "new"]).ok();
    assert_eq!(home.run(&["--db", "new", "scan"]).text(), "log\t20\nvisits\t42\n");
}

/// A merge that does not fit ended `scan` and `export`, `check` said that all was well, and
/// `repair` dropped the key.
#[test]
fn a_merge_that_does_not_fit_is_named_everywhere_and_mended_by_a_put() {
    let home = Home::new();
    home.fill(&[("a", "1"), ("log", "text"), ("z", "2")]);
    home.run(&["merge", "log", "add", "1"]).ok();
    home.run(&["get", "log"]).fails(4, "cleave get --below KEY");
    assert_eq!(home.run(&["get", "--below", "log"]).ok(), b"text");
    let named = "left out: merge: a merge operator cannot apply an operand";
    for quiet in [&["scan"][..], &["scan", "-q"]] {
        let ran = home.run(quiet);
        assert!(ran.err.contains(named) && ran.err.contains("log"), "{}", ran.err);
        assert_eq!(ran.fails(4, "1 key left out: a merge cannot be applied"), b"a\t1\nz\t2\n");
    }
    assert_eq!(home.run(&["scan", "--reverse", "--limit", "1"]).text(), "z\t2\n");
    assert_eq!(home.run(&["scan", "--keys-only"]).text(), "a\nlog\nz\n");
    for (form, file) in [("--jsonl", "-"), ("--csv", "all.csv"), ("--dir", "all")] {
        let ran = home.run(&["export", form, file]);
        let said = String::from_utf8_lossy(&ran.out).into_owned() + &ran.err;
        assert!(said.contains("NOT EXPORTED: 1 key with a merge"), "{said}");
        ran.fails(4, named);
    }
    let ran = home.run(&["check"]);
    let said = String::from_utf8(ran.fails(4, "")).unwrap();
    assert!(said.contains("UNREADABLE: ") && said.contains("keyspace=default"), "{said}");
    let ran = home.run(&["repair", "cleave.db", "new"]);
    let said = String::from_utf8(ran.fails(3, "")).unwrap();
    assert!(said.contains("UNMERGED: log has the value below a merge"), "{said}");
    assert_eq!(home.run(&["--db", "new", "scan"]).text(), "a\t1\nlog\ttext\nz\t2\n");
    home.run(&["put", "log", "text"]).ok();
    home.run(&["check"]).ok();
    assert_eq!(home.run(&["scan"]).text(), "a\t1\nlog\ttext\nz\t2\n");
}
