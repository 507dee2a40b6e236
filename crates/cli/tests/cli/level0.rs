//! The option `level0`: level 0 in another way than the preset's, for one command.

use crate::common::Home;

const WAYS: [&str; 3] = ["level0=whole", "level0=partitions", "level0=partitions:4"];

#[test]
fn a_database_may_be_kept_in_another_way_by_each_command() {
    for preset in ["wisckey", "lsm", "ohdb"] {
        let home = Home::new();
        for way in WAYS {
            home.run(&["--preset", preset, "--with", way, "put", way, "value"]).ok();
            home.run(&["--with", way, "compact"]).ok();
        }
        for way in WAYS {
            assert_eq!(home.run(&["get", way]).text(), "value", "{preset}");
        }
        home.run(&["--with", "level0=whole", "check"]).ok();
    }
}

#[test]
fn a_way_that_there_is_not_is_refused() {
    let home = Home::new();
    for (way, words) in
        [("halves", "partitions:N"), ("partitions:1", "2 to 256"), ("whole:2", "partitions:N")]
    {
        home.run(&["--with", &format!("level0={way}"), "put", "k", "v"]).fails(2, words);
    }
}
