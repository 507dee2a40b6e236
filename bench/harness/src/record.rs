//! The file in which a suite gathers results: the lines of its children, each with the task that it
//! belongs to, and two kinds of line of its own.
//!
//! A file of one engine's run holds the same lines without tasks, so both are read alike. A line of
//! a kind that is not known here is kept as it is: a newer run may have measured more.
//!
//! Nothing is ever taken out of the file. A task that was run again is in it more than once, and
//! the reader believes its last run that came to an outcome of its own: what a run had found counts
//! until a later one has found something else.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::NOT_THERE;
use crate::error::{BenchError, Result};
use crate::result::Line;
use crate::system::machine::Machine;

/// One child's share of a suite.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Task {
    /// The list of workloads.
    pub list: String,
    /// The engine.
    pub engine: String,
    /// Number of the repetition, from 1.
    pub repetition: u32,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// All workloads ran, and every value was right.
    Done,
    /// All workloads ran; values were wrong or missing.
    Wrong,
    /// The program gave up, with an exit code other than 0.
    Failed,
    /// A signal ended the program.
    Killed,
    /// The kernel killed it because its memory limit was reached.
    OutOfMemory,
    /// The program did not end in its time, and was killed.
    TimedOut,
    /// The engine does not have an option that the list asks for.
    NotThere,
    /// The whole run was interrupted meanwhile.
    Interrupted,
}

impl Ended {
    /// In the words of a table.
    pub fn words(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Wrong => "WRONG VALUES",
            Self::Failed => "failed",
            Self::Killed => "killed by a signal",
            Self::OutOfMemory => "killed at the memory limit",
            Self::TimedOut => "killed at its time limit",
            Self::NotThere => NOT_THERE,
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether the task itself caused this end: an interruption came from outside.
    fn is_own(self) -> bool {
        self != Self::Interrupted
    }

    /// Whether there is nothing to run again.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Wrong)
    }
}

/// The end of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// What there is to say about it: exit code, signal, the last words of the program.
    pub words: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// The command that ran.
    pub command: String,
}

/// A list of workloads as a report introduces it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListHeader {
    /// Name.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// The command that runs this list again, on all engines.
    pub command: String,
}

/// What a suite is; the first line of its file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Name of the suite.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// The command that was typed.
    pub command: String,
    /// The lists of workloads.
    pub lists: Vec<ListHeader>,
    /// Engines, in their order of every round.
    pub engines: Vec<String>,
    /// The engine to which others are compared.
    pub baseline: String,
    /// How often each engine runs each list.
    pub repetitions: u32,
    /// The memory limit that was asked for, in bytes.
    pub memory_limit: Option<u64>,
    /// The machine.
    pub machine: Machine,
    /// What a reader has to know before believing the numbers.
    pub warnings: Vec<String>,
}

/// What a line says.
#[derive(Clone, Debug)]
pub enum Content {
    /// The suite begins.
    Suite(Box<Header>),
    /// A task ended.
    Outcome(Outcome),
    /// A line of a child.
    Line(Box<Line>),
    /// A line of a kind that is not known here.
    Other(Value),
}

/// One line.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The task that it belongs to, in the file of a suite.
    pub task: Option<Task>,
    /// The content of the line.
    pub content: Content,
}

impl Entry {
    /// Reads a line; the error says what is wrong with it.
    pub fn parse(line: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let kind = value.get("kind").and_then(Value::as_str).ok_or("it has no \"kind\"")?;
        let known = match kind {
            "suite" => serde_json::from_value(value.clone()).map(Content::Suite),
            "outcome" => serde_json::from_value(value.clone()).map(Content::Outcome),
            "run" | "phase" | "verification" | "feature" => {
                serde_json::from_value(value.clone()).map(Content::Line)
            }
            _ => Ok(Content::Other(value.clone())),
        };
        let content = known.map_err(|error| format!("a line of kind \"{kind}\": {error}"))?;
        let task = value.get("task").map(|task| serde_json::from_value(task.clone()));
        let task = task.transpose().map_err(|error| format!("its task: {error}"))?;
        Ok(Self { task, content })
    }
}

/// A line of the file: `content` of that `kind`, with its task if it has one.
pub fn line_of(kind: &str, task: Option<&Task>, content: &impl Serialize) -> String {
    let mut value = serde_json::to_value(content).expect("results hold nothing but plain data");
    let fields = value.as_object_mut().expect("every line is an object");
    fields.insert("kind".into(), kind.into());
    tagged(value, task)
}

/// A child's line with its task.
pub fn tagged(mut value: Value, task: Option<&Task>) -> String {
    if let (Some(fields), Some(task)) = (value.as_object_mut(), task) {
        let task = serde_json::to_value(task).expect("a task is plain data");
        fields.insert("task".into(), task);
    }
    value.to_string()
}

/// The lines of a file that count, and what is wrong with those that could not be read.
pub fn read(path: &Path) -> Result<(Vec<Entry>, Vec<String>)> {
    let bytes = fs::read(path).map_err(BenchError::io("read", path))?;
    let text = String::from_utf8_lossy(&bytes);
    let (mut entries, mut unreadable) = (Vec::new(), Vec::new());
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match Entry::parse(line) {
            Ok(entry) => entries.push(entry),
            Err(why) => unreadable.push(format!("{}:{}: {why}", path.display(), at + 1)),
        }
    }
    Ok((believed(entries), unreadable))
}

/// The entries that no later run of the same task replaces. A suite begins by its header,
/// and runs each task once.
fn believed(entries: Vec<Entry>) -> Vec<Entry> {
    let mut suite = 0;
    let of_suites: Vec<(u32, Entry)> = entries
        .into_iter()
        .map(|entry| {
            suite += u32::from(matches!(entry.content, Content::Suite(_)));
            (suite, entry)
        })
        .collect();
    // Of each task, whether its believed run came to an outcome of its own, and in which suite.
    let mut last: HashMap<Task, (bool, u32)> = HashMap::new();
    for (suite, Entry { task, content }) in &of_suites {
        let Some(task) = task else { continue };
        let own = matches!(content, Content::Outcome(outcome) if outcome.ended.is_own());
        let known = last.entry(task.clone()).or_default();
        *known = (*known).max((own, *suite));
    }
    let counts = |suite: u32, task: &Task| last[task].1 == suite;
    let kept = of_suites
        .into_iter()
        .filter(|(suite, entry)| entry.task.as_ref().is_none_or(|task| counts(*suite, task)));
    kept.map(|(_, entry)| entry).collect()
}

#[cfg(test)]
mod tests {
    use super::{Content, Ended, Entry, Outcome, Task, line_of, tagged};

    fn task() -> Task {
        Task { list: "basic".into(), engine: "e".into(), repetition: 2 }
    }

    #[test]
    fn a_line_keeps_its_task() {
        let outcome = Outcome {
            ended: Ended::OutOfMemory,
            words: Some("signal 9".into()),
            seconds: 1.5,
            command: "cleave bench".into(),
        };
        let line = line_of("outcome", Some(&task()), &outcome);
        assert!(line.contains(r#""ended":"out-of-memory""#), "{line}");
        let entry = Entry::parse(&line).unwrap();
        assert_eq!(entry.task, Some(task()));
        assert!(matches!(entry.content, Content::Outcome(back) if back == outcome));
    }

    #[test]
    fn unknown_kinds_are_kept_and_nonsense_is_refused() {
        let value = serde_json::json!({ "kind": "disk", "read_mib_s": 5 });
        let entry = Entry::parse(&tagged(value, Some(&task()))).unwrap();
        assert!(matches!(entry.content, Content::Other(value) if value["read_mib_s"] == 5));
        for (line, why) in
            [("{", "EOF"), ("{}", "no \"kind\""), (r#"{"kind":"phase"}"#, "kind \"phase\"")]
        {
            assert!(Entry::parse(line).unwrap_err().contains(why), "{line}");
        }
    }
}
