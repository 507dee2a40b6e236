//! The files of the repository, read once, and the findings of rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;

use crate::source::Source;

/// Folders that are not part of the repository: version control and build output.
const SKIPPED: [&str; 2] = [".git", "target"];

/// Suffixes of the files that are read as text. Files without a suffix are read too (scripts).
const TEXT: [&str; 14] =
    ["c", "csv", "h", "json", "lock", "md", "py", "rs", "sh", "svg", "toml", "txt", "yaml", "yml"];

/// Longest text file that is read, in bytes; longer ones are data, not source.
const TEXT_LEN_MAX: u64 = 4 << 20;

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// File, from the root of the repository.
    pub path: String,
    /// Line, from 1; 0 for the whole file.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl Finding {
    /// A finding in `line` (from 1) of `path`.
    pub fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// The files of a repository.
#[derive(Default)]
pub struct Repo {
    /// Every file and every folder, from the root, with forward slashes.
    pub names: BTreeSet<String>,
    /// Text of every text file.
    pub texts: BTreeMap<String, String>,
    /// Every Rust file, in order of path.
    pub sources: Vec<Source>,
}

impl Repo {
    /// Reads the repository at `root`.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut repo = Self::default();
        repo.walk(root, "")?;
        repo.finish();
        Ok(repo)
    }

    /// A repository that holds `files` (path and text); for tests of the rules.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut repo = Self::default();
        for (path, text) in files {
            for (at, _) in path.match_indices('/') {
                repo.names.insert(path[..at].to_owned());
            }
            repo.names.insert((*path).to_owned());
            repo.texts.insert((*path).to_owned(), (*text).to_owned());
        }
        repo.finish();
        repo
    }

    fn walk(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if SKIPPED.contains(&name.as_str()) {
                continue;
            }
            let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.walk(&entry.path(), &path)?;
            } else if kind.is_file()
                && is_text(&path)
                && entry.metadata()?.len() <= TEXT_LEN_MAX
                && let Ok(text) = String::from_utf8(std::fs::read(entry.path())?)
            {
                self.texts.insert(path.clone(), text);
            }
            self.names.insert(path);
        }
        Ok(())
    }

    fn finish(&mut self) {
        let rust = self.texts.iter().filter(|(path, _)| path.ends_with(".rs"));
        self.sources = rust.map(|(path, text)| Source::new(path, text)).collect();
    }

    /// Whether `path` is a file or a folder of the repository.
    pub fn has(&self, path: &str) -> bool {
        self.names.contains(path)
    }

    /// Whether the engine exists. Before that, documents about it may be missing.
    pub fn has_engine(&self) -> bool {
        self.has("crates/cleavedb/Cargo.toml")
    }

    /// The Rust file at `path`.
    pub fn source(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }
}

fn is_text(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some(("", _)) | None => true,
        Some((_, ending)) => TEXT.contains(&ending),
    }
}
