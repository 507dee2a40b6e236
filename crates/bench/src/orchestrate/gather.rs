//! The result file while a suite runs: what earlier runs finished, and what is added.

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
        Ok(Self { path: path.to_owned(), file: append_to(path)?, finished })
    }

    /// Takes out what there is of `tasks`, which will run again, and broken lines.
    pub fn begin(&mut self, tasks: &[Task]) -> Result<()> {
        keep(&self.path, tasks)?;
        self.file = append_to(&self.path)?;
        Ok(())
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

/// Rewrites `path` without the lines of `again`, and without broken ones.
fn keep(path: &Path, again: &[Task]) -> Result<()> {
    let text = fs::read(path).map_err(BenchError::io("read", path))?;
    let stays = |line: &&str| match Entry::parse(line) {
        Ok(Entry { task: Some(task), .. }) => !again.contains(&task),
        Ok(Entry { task: None, .. }) => true,
        Err(_) => false,
    };
    let text = String::from_utf8_lossy(&text);
    let kept: String = text.lines().filter(stays).map(|line| format!("{line}\n")).collect();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    fs::write(&beside, kept).map_err(BenchError::io("write", &beside))?;
    fs::rename(&beside, path).map_err(BenchError::io("replace", path))
}
