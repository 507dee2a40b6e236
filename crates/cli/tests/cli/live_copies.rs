//! Checkpoints and backups beside a process that writes and collects all the time.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cleavedb::Preset;
use cleavedb_testkit::budget::in_turn;

use crate::common::Home;
use crate::following::Shell;

/// Keys, each of which is written in every round.
const KEYS: usize = 40;

/// The pause behind each round.
const PAUSE: Duration = Duration::from_millis(30);

/// Options under which a few rounds fill a MemTable.
const SMALL: [&str; 8] = [
    "--with",
    "memtable_bytes=1MiB",
    "--with",
    "memtable_log_bytes=512KiB",
    "--with",
    "log_file_bytes=256KiB",
    "--with",
    "space_floor=512KiB",
];

/// Writes all keys in their order, again and again; `done` is the last round that was acknowledged.
fn write_rounds(mut shell: Shell, done: &AtomicU64, stop: &AtomicBool) {
    for round in 1.. {
        let mut lines = String::new();
        for key in 0..KEYS {
            let _ = writeln!(lines, "put key{key:02} {round}-{}", "x".repeat(key % 4 * 700));
        }
        lines.push_str("put last done");
        shell.run(&lines, "last");
        done.store(round, Ordering::Release);
        // At full speed all files of so small a store are dropped a hundred times a second.
        std::thread::sleep(PAUSE);
        if stop.load(Ordering::Relaxed) {
            return shell.end();
        }
    }
}

/// Ends the writer, also if the test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Fails unless the copy is one moment of the rounds, and not before round `least`.
fn check(home: &Home, copy: &str, least: u64) {
    let text = home.run(&["--db", copy, "scan"]).text();
    let rounds = text.lines().filter_map(|line| line.strip_prefix("key")?.split_once(['\t', ' ']));
    let rounds = rounds.map(|(_, value)| value.split('-').next().unwrap().parse().unwrap());
    let rounds: Vec<u64> = rounds.collect();
    assert_eq!(rounds.len(), KEYS, "{text}");
    let last = rounds[KEYS - 1];
    let is_one_moment = rounds.is_sorted_by(|a, b| a >= b) && rounds[0] - last <= 1;
    assert!(is_one_moment && last >= least, "since round {least}: {rounds:?}");
    assert!(home.run(&["--db", copy, "check"]).text().ends_with("all is well\n"));
}

#[test]
fn copies_beside_a_writer_have_what_was_acknowledged() {
    for preset in in_turn(Preset::ALL.map(Preset::name).into()) {
        let home = Home::new();
        home.run(&["--preset", preset, "put", "last", "none"]).ok();
        let shell = Shell::with(&home, &SMALL);
        let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let _stop = StopAtEnd(&stop);
            scope.spawn(|| write_rounds(shell, &done, &stop));
            while done.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            for number in 1..3 {
                let least = done.load(Ordering::Acquire);
                let made = home.run(&["backup", "backups"]);
                assert!(made.err.contains("following the process that has"), "{}", made.err);
                assert!(made.text().contains(&format!("made backup {number} of")));
                check(&home, &format!("backups/00000{number}"), least);
                let least = done.load(Ordering::Acquire);
                let copy = format!("copy{number}");
                home.run(&["checkpoint", &copy]).ok();
                check(&home, &copy, least);
            }
        });
        // Neither the writer nor a copy that is written harms the other.
        home.run(&["--db", "copy1", "del", "--prefix", "key"]).ok();
        home.run(&["--db", "copy1", "collect"]).ok();
        check(&home, "cleave.db", done.load(Ordering::Acquire));
        check(&home, "copy2", 1);
    }
}
