//! One child process: run, watched, and ended with all its descendants when it must.
//!
//! Several may be alive at once and take turns ([`crate::turns`]): a child then works until it says
//! that it waits for its next turn, and its time is that of its turns.
//!
//! The child has a process group of its own, so that whatever it started dies with it, and so that
//! Ctrl-C on the terminal reaches the orchestrator alone, which then decides.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{BenchError, Result};
use crate::orchestrate::guard::Guard;
use crate::orchestrate::target::Target;
use crate::record::Ended;
use crate::scratch::Scratch;
use crate::system::memory_limit::KILLED;
use crate::turns::TURN;

/// Between two looks at a child.
const POLL: Duration = Duration::from_millis(50);
/// Most characters of a child's last words.
const WORDS_MAX: usize = 400;
/// Bytes at the end of a child's notes in which its last words are looked for.
const NOTES_TAIL: usize = 16 << 10;
/// How long the last words about a child that was killed may take.
const LAST_WORDS: Duration = Duration::from_secs(2);
const SIGKILL: i32 = 9;

/// What to run, and for how long at most.
pub struct Job {
    /// The program and its arguments.
    pub command: Command,
    /// The file to which it appends results, a line each.
    pub results: PathBuf,
    /// The file for what it prints to standard error.
    pub notes: PathBuf,
    /// After which it is taken to hang.
    pub timeout: Duration,
}

impl Job {
    /// A run of `target` with these arguments, on a new store called `name` in `scratch`.
    pub fn of(
        target: &Target,
        arguments: impl IntoIterator<Item = String>,
        (scratch, name): (&Scratch, &str),
        timeout: Duration,
    ) -> Result<Self> {
        let store = scratch.emptied(name)?;
        let file = |kind: &str| store.with_file_name(format!("{name}.{kind}"));
        let (results, notes) = (file("jsonl"), file("err"));
        let mut command = Command::new(&target.program);
        command.args(&target.arguments).args(arguments).arg("--quiet");
        command.arg("--dir").arg(&store).arg("--results").arg(&results);
        Ok(Self { command, results, notes, timeout })
    }
}

/// How a child ended, before its results are read.
pub struct End {
    /// How.
    pub ended: Ended,
    /// What there is to say about it.
    pub words: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// Is given each line of a child's results as soon as it is there.
pub type OnLine<'a> = &'a mut dyn FnMut(&str) -> Result<()>;

/// Where a child stands at the end of a turn.
pub enum Stand {
    /// The child waits for its next turn, to do a piece of this step.
    Waits(u32),
    /// The child has ended.
    Ended(End),
}

/// A child that was started.
pub struct Running {
    group: Group,
    results: Tail,
    notes: PathBuf,
    timeout: Duration,
    /// The time of its turns.
    took: Duration,
    /// Where it gets its turns, and says that it waits for the next.
    turns: Option<(ChildStdin, Receiver<u32>)>,
}

impl Running {
    /// Starts a child, which works at once, or `in_turns`. How it ended, if it could not be run.
    pub fn start(mut job: Job, in_turns: bool) -> Result<Result<Self, End>> {
        let notes = File::create(&job.notes).map_err(BenchError::io("create", &job.notes))?;
        let results = Tail::new(&job.results)?;
        let pipe = || if in_turns { Stdio::piped() } else { Stdio::null() };
        let command = job.command.stdin(pipe()).stdout(pipe()).stderr(notes);
        let mut child = match command.process_group(0).spawn() {
            Ok(child) => child,
            Err(error) => {
                let program = Path::new(command.get_program()).display();
                let words = Some(format!("{program} cannot be run: {error}"));
                return Ok(Err(End { ended: Ended::Failed, words, took: Duration::ZERO }));
            }
        };
        let pipes = child.stdin.take().zip(child.stdout.take());
        let turns = pipes.map(|(input, output)| (input, steps(output)));
        let (group, notes, timeout) = (Group::of(child), job.notes, job.timeout);
        Ok(Ok(Self { group, results, notes, timeout, took: Duration::ZERO, turns }))
    }

    /// Lets it work for a turn, or to its end if it takes none; `first` if nothing needs to be said
    /// for it to begin. `stop` is asked all the while whether to end the child.
    pub fn turn(
        &mut self,
        first: bool,
        line: OnLine<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Stand> {
        let killed_before = out_of_memory_kills();
        if let (false, Some((input, _))) = (first, &mut self.turns) {
            // Fails only if it has ended, which is seen below.
            let _ = writeln!(input, "go");
        }
        let begin = Instant::now();
        let forced = loop {
            let waits = self.wait();
            self.results.read(line)?;
            if let Some(step) = waits {
                self.took += begin.elapsed();
                return Ok(Stand::Waits(step));
            }
            let ended = self.group.child.try_wait();
            if ended.map_err(BenchError::io("wait for", &self.notes))?.is_some() {
                break None;
            }
            if stop() {
                break Some(Ended::Interrupted);
            }
            if self.took + begin.elapsed() > self.timeout {
                break Some(Ended::TimedOut);
            }
        };
        self.took += begin.elapsed();
        let end = self.end(forced, killed_before)?;
        self.results.read(line)?;
        Ok(Stand::Ended(end))
    }

    /// Waits for a moment; the step of which it awaits a turn, if it does by then.
    fn wait(&self) -> Option<u32> {
        let step = self.turns.as_ref().map(|(_, steps)| steps.recv_timeout(POLL));
        // Without turns, or when it has closed its output, there is nothing to wait for.
        if !matches!(step, Some(Ok(_) | Err(RecvTimeoutError::Timeout))) {
            thread::sleep(POLL);
        }
        step?.ok()
    }

    fn end(&mut self, forced: Option<Ended>, killed_before: u64) -> Result<End> {
        let status = self.group.end().map_err(BenchError::io("wait for", &self.notes))?;
        let memory = out_of_memory_kills() > killed_before;
        let (ended, how) = forced.map_or_else(|| judge(status, memory), |ended| (ended, None));
        let words = match ended {
            Ended::Done => None,
            Ended::TimedOut => Some(format!("not done after {:.0} s", self.timeout.as_secs_f64())),
            Ended::OutOfMemory => how.map(|how| format!("{how}{}", said_of_limit(&self.notes))),
            _ => how.map(|how| format!("{how}{}", said(&self.notes))),
        };
        Ok(End { ended, words, took: self.took })
    }
}

/// The steps of which a child says on `output` that it awaits a turn.
fn steps(output: ChildStdout) -> Receiver<u32> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(std::io::Result::ok);
        let steps = lines.filter_map(|line| line.strip_prefix(TURN)?.parse().ok());
        // Other lines have no use, but are read: the child would block on a full pipe.
        steps.for_each(|step| _ = sender.send(step));
    });
    receiver
}

/// A child and its descendants; dropped, they end.
struct Group {
    child: Child,
    /// Ends them if this process is killed; without a shell they would go on.
    guard: Option<Guard>,
}

impl Group {
    fn of(child: Child) -> Self {
        let guard = Guard::of(child.id()).ok();
        Self { child, guard }
    }

    /// Ends what still runs.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        // First of all: once the child is waited for, its number may be another's.
        self.guard = None;
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            // If all went well the group has no process left, and the call fails.
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.child.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn judge(status: ExitStatus, memory: bool) -> (Ended, Option<String>) {
    match (status.code(), status.signal()) {
        (Some(0), _) => (Ended::Done, None),
        // The kernel may have killed a process of the engine's own, without which it gave up.
        (Some(code), _) if memory => (Ended::OutOfMemory, Some(format!("exit code {code}"))),
        (Some(code), _) => (Ended::Failed, Some(format!("exit code {code}"))),
        (None, Some(SIGKILL)) if memory => (Ended::OutOfMemory, Some("signal 9".to_owned())),
        (None, signal) => (Ended::Killed, Some(format!("signal {}", signal.unwrap_or_default()))),
    }
}

/// How many processes the kernel has killed for lack of memory, in whatever group.
fn out_of_memory_kills() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The last words in `notes` of a child that the kernel killed. Those on its memory limit are
/// written by the shell that removes the limit, once the child is gone; a limit that the child did
/// not set has no such shell, and no words.
fn said_of_limit(notes: &Path) -> String {
    let begin = Instant::now();
    loop {
        let words = said(notes);
        if words.contains(KILLED) || begin.elapsed() > LAST_WORDS {
            return words;
        }
        thread::sleep(POLL);
    }
}

/// The last words in `notes`, behind a colon; nothing if there are none.
fn said(notes: &Path) -> String {
    let bytes = fs::read(notes).unwrap_or_default();
    let end = &bytes[bytes.len().saturating_sub(NOTES_TAIL)..];
    let text = String::from_utf8_lossy(end);
    // Warnings are in the results, and a hint for programmers explains nothing.
    let noise = |line: &str| line.starts_with("WARNING: ") || line.starts_with("note: run with");
    let words = |line: &&str| !line.is_empty() && !noise(line);
    let mut last: Vec<_> = text.lines().map(str::trim).filter(words).rev().take(2).collect();
    last.reverse();
    let words: String = last.join("; ").chars().filter(|c| !c.is_control()).collect();
    let short: String = words.chars().take(WORDS_MAX).collect();
    if short.is_empty() { short } else { format!(": {short}") }
}

/// The lines of a growing file.
struct Tail {
    path: PathBuf,
    file: Option<File>,
    partial: Vec<u8>,
}

impl Tail {
    /// Of a file that is not there yet.
    fn new(path: &Path) -> Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(BenchError::io("delete", path)(error))
            }
            _ => Ok(Self { path: path.to_owned(), file: None, partial: Vec::new() }),
        }
    }

    /// Hands on the lines that were completed since the last call.
    fn read(&mut self, line: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.read_to_end(&mut self.partial).map_err(BenchError::io("read", &self.path))?;
        while let Some(end) = self.partial.iter().position(|&byte| byte == b'\n') {
            let rest = self.partial.split_off(end + 1);
            let whole = std::mem::replace(&mut self.partial, rest);
            line(String::from_utf8_lossy(&whole).trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    use super::{Job, KILLED, Running, Stand, said_of_limit};
    use crate::record::Ended;

    /// Runs a shell script with its result file as `$0`; returns how it ended, and its lines.
    fn shell(script: &str, timeout: Duration, stop: bool) -> (super::End, Vec<String>) {
        let home = tempfile::tempdir().unwrap();
        let (results, notes) = (home.path().join("results"), home.path().join("notes"));
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&results);
        let mut lines = Vec::new();
        let mut line = |line: &str| {
            lines.push(line.to_owned());
            Ok(())
        };
        let job = Job { command, results, notes, timeout };
        let mut running = Running::start(job, false).unwrap().ok().unwrap();
        let Stand::Ended(end) = running.turn(true, &mut line, &|| stop).unwrap() else {
            panic!("a child without turns works to its end");
        };
        (end, lines)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn lines_arrive_whole() {
        let script = "printf 'a\\nb' > $0; sleep 0.2; printf 'c\\nlost' >> $0";
        let (end, lines) = shell(script, LONG, false);
        assert_eq!((end.ended, lines), (Ended::Done, vec!["a".to_owned(), "bc".to_owned()]));
    }

    #[test]
    fn a_failure_brings_its_last_words() {
        let (end, _) =
            shell("echo 'disk on fire' >&2; echo 'WARNING: load' >&2; exit 3", LONG, false);
        let words = end.words.unwrap();
        assert_eq!(end.ended, Ended::Failed);
        assert!(words.contains("exit code 3") && words.ends_with("disk on fire"), "{words}");
        let (end, _) = shell("kill -SEGV $$", LONG, false);
        assert_eq!((end.ended, end.words.as_deref()), (Ended::Killed, Some("signal 11")));
    }

    #[test]
    fn the_limit_is_waited_for_to_be_named() {
        let home = tempfile::tempdir().unwrap();
        let notes = home.path().join("notes");
        fs::write(&notes, "thread panicked\n").unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(200));
                fs::write(&notes, format!("{KILLED} of 16.0 MiB\n")).unwrap();
            });
            let words = said_of_limit(&notes);
            assert!(words.ends_with("of 16.0 MiB"), "{words}");
        });
    }

    #[test]
    fn a_hang_ends_with_all_descendants() {
        let home = tempfile::tempdir().unwrap();
        let alive = home.path().join("alive");
        let script = format!("(sleep 1; touch {}) & sleep 1000", alive.display());
        let (end, _) = shell(&script, Duration::from_millis(200), false);
        assert_eq!(end.ended, Ended::TimedOut);
        thread::sleep(Duration::from_millis(1500));
        assert!(!alive.exists(), "a descendant outlived its group");
    }

    #[test]
    fn an_interrupt_ends_the_child() {
        let (end, _) = shell("sleep 1000", LONG, true);
        assert_eq!(end.ended, Ended::Interrupted);
    }

    #[test]
    fn a_child_works_only_in_its_turns() {
        let home = tempfile::tempdir().unwrap();
        let (results, notes) = (home.path().join("results"), home.path().join("notes"));
        let script = "echo turn 4; read go; echo done >> $0; echo turn 7; read go; echo more >> $0";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&results);
        let job = Job { command, results: results.clone(), notes, timeout: LONG };
        let mut running = Running::start(job, true).unwrap().ok().unwrap();
        let mut lines = Vec::new();
        let mut turn = |first| {
            let mut line = |line: &str| {
                lines.push(line.to_owned());
                Ok(())
            };
            let stand = running.turn(first, &mut line, &|| false).unwrap();
            (stand, lines.len())
        };
        assert!(matches!(turn(true), (Stand::Waits(4), 0)));
        assert!(matches!(turn(false), (Stand::Waits(7), 1)));
        assert!(matches!(turn(false), (Stand::Ended(end), 2) if end.ended == Ended::Done));
    }

    #[test]
    fn a_program_that_cannot_run_is_a_failure_of_its_task_alone() {
        let home = tempfile::tempdir().unwrap();
        let (results, notes) = (home.path().join("results"), home.path().join("notes"));
        let command = Command::new(home.path().join("absent"));
        let job = Job { command, results, notes, timeout: LONG };
        let end = Running::start(job, false).unwrap().err().unwrap();
        assert_eq!(end.ended, Ended::Failed);
        assert!(end.words.unwrap().contains("absent"));
    }
}
