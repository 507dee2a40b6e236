//! Commands that only read: they need no right to write, change nothing, and run side by side.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use cleavedb_testkit::listing;
use cleavedb_testkit::program::Program;

use crate::common::{Cleave, Home, Ran};
use crate::losses::killed;

/// A user without rights of its own.
const ORDINARY: u32 = 65534;

/// Every command that only reads.
const READING: [&[&str]; 6] = [
    &["get", "third"],
    &["scan", "--reverse"],
    &["count"],
    &["stats"],
    &["check"],
    &["export", "--jsonl", "-"],
];

fn set_mode(path: PathBuf, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Lets every user read the database in `home`, and run the program there.
pub fn let_others_read(home: &Home) {
    let db = home.path("cleave.db");
    // By another process: a fork of this one would hold the copy open, which then cannot be run.
    let copy = [PathBuf::from(Cleave::PATH), home.path("cleave")];
    assert!(Command::new("cp").args(copy).status().unwrap().success());
    set_mode(home.path("."), 0o755);
    listing(&db).iter().for_each(|(name, ..)| set_mode(db.join(name), 0o444));
    set_mode(db, 0o555);
}

/// The program as a user that may read everything in `home`, and write nothing.
pub fn as_ordinary_user(home: &Home, args: &[&str]) -> Ran {
    let mut command = Command::new(home.path("cleave"));
    command.current_dir(home.path(".")).env_remove("CLEAVE_DB").args(args);
    // Permissions do not bind the superuser.
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(ORDINARY).gid(ORDINARY);
    }
    Ran::new(command.output().unwrap())
}

#[test]
fn a_user_who_may_not_write_reads_what_a_killed_process_left() {
    let Some(home) = killed() else { return };
    let db = home.path("cleave.db");
    let_others_read(&home);
    let before = listing(&db);
    for args in READING {
        as_ordinary_user(&home, args).ok();
    }
    assert_eq!(as_ordinary_user(&home, &["count"]).text(), "4\n");
    assert_eq!(as_ordinary_user(&home, &["get", "third"]).text(), "3");
    let refused = as_ordinary_user(&home, &["put", "key", "value"]);
    refused.fails(4, "failed to lock the directory");
    assert_eq!(listing(&db), before);
    set_mode(db, 0o755);
}

#[test]
fn readers_run_side_by_side_and_a_writer_is_refused() {
    let home = Home::new();
    let value = "v".repeat(1000);
    let keys: Vec<_> = (0..1000).map(|key| format!("key{key:04}")).collect();
    let pairs: Vec<_> = keys.iter().map(|key| (key.as_str(), value.as_str())).collect();
    home.fill(&pairs);
    home.run(&["put", "third", "3"]).ok();
    let before = listing(&home.path("cleave.db"));
    // The scan waits in the middle, since its pipe is full.
    let (mut child, stdin) = home.start(&["scan"]);
    drop(stdin);
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 10]).unwrap();
    for args in READING {
        home.run(args).ok();
    }
    assert_eq!(listing(&home.path("cleave.db")), before);
    for args in [&["put", "key", "value"][..], &["compact"], &["collect"], &["del", "third"]] {
        home.run(args).fails(4, "open for reading only");
    }
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(rest.len() > 1000 * 1000);
    home.run(&["put", "third", "4"]).ok();
    assert_eq!(home.run(&["get", "third"]).text(), "4");
}
