//! A test that runs itself in a process of its own, with its own directory, limits and end.

use std::process::{Command, Output};
use std::thread;

/// Names the test that the child process runs.
const CHILD: &str = "CLEAVEDB_TEST_CHILD";

/// Runs `body` in a process of its own, which runs the test of this thread again. Panics with the
/// child's output if it fails.
pub fn in_a_child(body: impl FnOnce()) {
    let current = thread::current();
    let test = current.name().expect("a test's thread has its name");
    if std::env::var(CHILD).as_deref() == Ok(test) {
        return body();
    }
    let Output { status, stdout, stderr } = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .output()
        .unwrap();
    let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(status.success(), "the child ended with {status}:\n{}", said.join("\n"));
    assert!(said[0].contains("1 passed"), "{test} is not the name of a test:\n{}", said[0]);
}
