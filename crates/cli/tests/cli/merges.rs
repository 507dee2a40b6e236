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
    home.run(&["check"]).ok();
    home.run(&["put", "log", "1"]).ok();
    let lines = b"merge log add 1\nmerge log append 0\nget log\n";
    assert_eq!(home.run_with(&["shell"], lines).text(), "20\n");
    home.run(&["repair", "cleave.db", "new"]).ok();
    assert_eq!(home.run(&["--db", "new", "scan"]).text(), "log\t20\nvisits\t42\n");
}
