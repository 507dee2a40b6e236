//! `checkpoint`: a copy that is a database of its own.

use crate::common::Home;

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let home = Home::new();
    home.fill(&[("apple", "red"), ("banana", "yellow")]);
    let copy = home.path("copy");
    let copy = copy.to_str().unwrap();
    let told = home.run(&["checkpoint", copy]).text();
    assert!(told.contains("linked") && told.contains(copy), "{told}");
    home.run(&["put", "apple", "green"]).ok();
    assert_eq!(home.run(&["get", "apple"]).ok(), b"green");
    assert_eq!(home.run(&["--db", copy, "get", "apple"]).ok(), b"red");
    home.run(&["--db", copy, "del", "banana"]).ok();
    home.run(&["--db", copy, "check"]).ok();
    assert_eq!(home.run(&["get", "banana"]).ok(), b"yellow");
    home.run(&["check"]).ok();
    home.run(&["checkpoint", copy]).fails(4, "must be empty");
}
