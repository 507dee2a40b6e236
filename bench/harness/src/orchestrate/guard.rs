//! What ends a child if the orchestrator can no longer do it.
//!
//! A killed process cannot clean up, and its children go on. So a shell waits at a pipe of which
//! the orchestrator holds the other end: a line says that all is well, an end without one that the
//! orchestrator is gone, however it went.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Kills the process group `$0` unless a line arrives.
const GUARD: &str = "read line || kill -s KILL -- \"-$0\"";

/// Kills a process group when this process dies; dropped, it lets the group be.
pub struct Guard(Child);

impl Guard {
    /// Of the process group `group`.
    pub fn of(group: u32) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", GUARD]).arg(group.to_string());
        // In a group of its own, Ctrl-C on the terminal does not reach it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().map(Self)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            // Fails only if the shell is gone.
            let _ = pipe.write_all(b"\n");
        }
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command};

    use super::Guard;

    fn sleeper() -> Child {
        Command::new("sleep").arg("1000").process_group(0).spawn().unwrap()
    }

    #[test]
    fn a_group_dies_with_whoever_guards_it() {
        let mut child = sleeper();
        let mut guard = Guard::of(child.id()).unwrap();
        // What the system does when this process dies.
        drop(guard.0.stdin.take());
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn a_group_that_is_let_be_lives() {
        let mut child = sleeper();
        drop(Guard::of(child.id()).unwrap());
        let alive = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(alive);
    }
}
