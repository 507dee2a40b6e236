//! The result file while a suite runs: what earlier runs finished, and what is added.
//!
//! Lines are only ever appended ([`crate::record`] says which of them count), so that whatever ends
//! a suite, nothing is lost that was known before.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{BenchError, Result};
use crate::record::{Content, Entry, Task, read};

/// A result file that grows.
pub struct Gathered {
    path: PathBuf,
    file: File,
    /// Tasks that need not run again, each with the command that ran.
    finished: HashMap<Task, String>,
}

impl Gathered {
    /// Begins `path`, which must not hold anything unless the run is to `resume` it.
    pub fn open(path: &Path, resume: bool) -> Result<Self> {
        let filled = fs::metadata(path).is_ok_and(|file| file.len() > 0);
        if filled && !resume {
            let path = path.display();
            return Err(BenchError::Usage(format!(
                "{path} has results in it: go on with them by --resume, or name another file by \
                 --results"
            )));
        }
        let finished = if filled { finished(path)? } else { HashMap::new() };
        if filled {
            end_last_line(path)?;
        }
        Ok(Self { path: path.to_owned(), file: append_to(path)?, finished })
    }

    /// Whether `task` was finished by this very `command`.
    pub fn has(&self, task: &Task, command: &str) -> bool {
        self.finished.get(task).is_some_and(|ran| ran == command)
    }

    /// Adds a line.
    pub fn add(&mut self, line: &str) -> Result<()> {
        let line = format!("{line}\n");
        self.file.write_all(line.as_bytes()).map_err(BenchError::io("write to", &self.path))
    }
}

fn append_to(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(BenchError::io("open", path))
}

fn finished(path: &Path) -> Result<HashMap<Task, String>> {
    let (entries, _) = read(path)?;
    let finished = entries.into_iter().filter_map(|entry| match (entry.task, entry.content) {
        (Some(task), Content::Outcome(outcome)) if outcome.ended.is_final() => {
            Some((task, outcome.command))
        }
        _ => None,
    });
    Ok(finished.collect())
}

/// Ends the last line of `path`, or takes it out if it is a piece of one, as a kill may leave: what
/// follows must not become a part of it.
fn end_last_line(path: &Path) -> Result<()> {
    let text = fs::read(path).map_err(BenchError::io("read", path))?;
    let begin = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let last = &text[begin..];
    if last.is_empty() {
        return Ok(());
    }
    if Entry::parse(&String::from_utf8_lossy(last)).is_ok() {
        return append_to(path)?.write_all(b"\n").map_err(BenchError::io("write to", path));
    }
    let cut = append_to(path)?.set_len(begin as u64);
    cut.map_err(BenchError::io("shorten", path))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::Gathered;
    use crate::record::{Content, Ended, Header, Outcome, Task, line_of};
    use crate::report::collect;

    fn task() -> Task {
        Task { list: "list".into(), engine: "e".into(), repetition: 1 }
    }

    fn ended(ended: Ended) -> String {
        let (words, command) = (Some("last words".to_owned()), "bench".to_owned());
        line_of("outcome", Some(&task()), &Outcome { ended, words, seconds: 1.0, command })
    }

    /// A suite that appends to `path` and ends its task as told, or is killed before that.
    fn suite(path: &Path, outcome: Option<Ended>) -> Gathered {
        let mut gathered = Gathered::open(path, true).unwrap();
        gathered.add(&line_of("suite", None, &Header::default())).unwrap();
        if let Some(outcome) = outcome {
            gathered.add(&ended(outcome)).unwrap();
        }
        gathered
    }

    fn failures(path: &Path) -> Vec<Ended> {
        let results = collect(&[PathBuf::from(path)], None).unwrap();
        results.failures.iter().map(|(_, outcome)| outcome.ended).collect()
    }

    #[test]
    fn a_resumed_run_that_is_stopped_still_reports_what_it_had() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("results.jsonl");
        suite(&path, Some(Ended::OutOfMemory));
        suite(&path, None);
        assert_eq!(failures(&path), [Ended::OutOfMemory]);
        suite(&path, Some(Ended::Interrupted));
        assert_eq!(failures(&path), [Ended::OutOfMemory]);
        suite(&path, Some(Ended::TimedOut));
        assert_eq!(failures(&path), [Ended::TimedOut]);
        assert!(!Gathered::open(&path, true).unwrap().has(&task(), "bench"));
        suite(&path, Some(Ended::Done));
        assert_eq!(failures(&path), []);
        assert!(Gathered::open(&path, true).unwrap().has(&task(), "bench"));
    }

    #[test]
    fn a_piece_of_a_line_is_taken_out_and_a_whole_one_ended() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("results.jsonl");
        for (torn, lines) in [(ended(Ended::Failed), 2), ("{\"kind\":\"outc".to_owned(), 1)] {
            fs::write(&path, torn).unwrap();
            suite(&path, None);
            let (entries, unreadable) = crate::record::read(&path).unwrap();
            assert_eq!((entries.len(), unreadable), (lines, Vec::<String>::new()));
            assert!(matches!(entries[lines - 1].content, Content::Suite(_)));
        }
    }
}
