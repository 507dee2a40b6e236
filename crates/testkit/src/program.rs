//! A directory to run a program in, `cleave` or `cleave-bench`, and what a run came to.

use std::ffi::OsStr;
use std::io::Write;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Most time that something may take that happens at once.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A program of this repository.
pub trait Program {
    /// Where it was built: `env!("CARGO_BIN_EXE_...")`, which only its own package has.
    const PATH: &str;
}

/// A directory of its own, in which the program `P` runs.
pub struct Home<P> {
    dir: TempDir,
    program: PhantomData<P>,
}

impl<P: Program> Default for Home<P> {
    fn default() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), program: PhantomData }
    }
}

impl<P: Program> Home<P> {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// A path in it.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file, and the directories above it.
    pub fn file(&self, name: impl AsRef<Path>, content: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// The program with `args`, not started.
    pub fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = Command::new(P::PATH);
        command.current_dir(self.dir.path()).env_remove("CLEAVE_DB").args(args);
        command
    }

    /// Runs to the end, with nothing on standard input.
    pub fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Ran {
        self.run_with(args, b"")
    }

    /// Runs with `input` as standard input.
    pub fn run_with<A: AsRef<OsStr>>(&self, args: &[A], input: &[u8]) -> Ran {
        let (child, mut stdin) = self.start(args);
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            // A command that does not read its input closes it.
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Ran::new(output)
    }

    /// Starts a command with pipes.
    pub fn start<A: AsRef<OsStr>>(&self, args: &[A]) -> (Child, ChildStdin) {
        let mut command = self.command(args);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        (child, stdin)
    }

    /// Runs with nothing on standard input, and outputs whose readers have gone away; returns the
    /// exit code.
    pub fn run_unheard<A: AsRef<OsStr>>(&self, args: &[A]) -> Option<i32> {
        let closed = || {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            writer
        };
        let mut command = self.command(args);
        command.stdin(Stdio::null()).stdout(closed()).stderr(closed()).status().unwrap().code()
    }

    /// An import of `cleave` into a new database that waits for more input. The file `current` is
    /// not there before the import has the database to itself.
    pub fn waiting_import(&self) -> (Child, ChildStdin) {
        let (child, mut stdin) = self.start(&["import", "--jsonl", "-"]);
        stdin.write_all(b"{\"key\":\"first\",\"value\":\"1\"}\n").unwrap();
        let begin = Instant::now();
        while !self.path("cleave.db/current").exists() {
            assert!(begin.elapsed() < PATIENCE, "the database is not there");
            std::thread::sleep(Duration::from_millis(5));
        }
        (child, stdin)
    }

    /// Stores keys and values that are text, by an import of `cleave`.
    pub fn fill(&self, pairs: &[(&str, &str)]) {
        let lines = pairs
            .iter()
            .map(|(key, value)| format!("{}\n", serde_json::json!({ "key": key, "value": value })));
        self.run_with(&["import", "--jsonl", "-"], lines.collect::<String>().as_bytes()).ok();
    }
}

/// What a run came to.
pub struct Ran {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// What the program left.
    pub fn new(output: Output) -> Self {
        let err = String::from_utf8(output.stderr).unwrap();
        Self { code: output.status.code(), out: output.stdout, err }
    }

    /// Expects success and returns the output.
    pub fn ok(self) -> Vec<u8> {
        assert_eq!(self.code, Some(0), "{}{}", String::from_utf8_lossy(&self.out), self.err);
        self.out
    }

    /// Expects success and returns the output as text.
    pub fn text(self) -> String {
        String::from_utf8(self.ok()).unwrap()
    }

    /// Expects this exit code and an error with these words in it; returns the output.
    pub fn fails(self, code: i32, words: &str) -> Vec<u8> {
        assert_eq!(self.code, Some(code), "{}{}", String::from_utf8_lossy(&self.out), self.err);
        assert!(self.err.contains(words), "\"{words}\" is not in: {}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.out
    }

    /// Expects success and nothing but JSON lines.
    pub fn json(self) -> Vec<Value> {
        json_lines(&self.ok())
    }
}

/// Every line as JSON.
pub fn json_lines(text: &[u8]) -> Vec<Value> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let parse = |line: &[u8]| {
        serde_json::from_slice(line)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(line)))
    };
    lines.map(parse).collect()
}
