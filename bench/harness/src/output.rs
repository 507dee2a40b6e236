//! Output: writes the lines of a run to a file, and passes them to a reader as they come.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{BenchError, Result};
use crate::progress::say;
use crate::result::Line;

/// A program that reads along.
pub trait Reader {
    /// Takes in a line as soon as it is there.
    fn line(&mut self, line: &Line) -> Result<()>;
    /// Takes in what stands in no line, in words.
    fn note(&mut self, words: &str);
}

/// The receivers of a run's lines.
pub struct Output<'a> {
    file: Option<(PathBuf, File)>,
    reader: Option<&'a mut dyn Reader>,
}

impl<'a> Output<'a> {
    /// To the end of the file at `path`, and to `reader`.
    pub fn open(path: Option<&Path>, reader: Option<&'a mut dyn Reader>) -> Result<Self> {
        let open = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            Ok((path.to_owned(), file.map_err(BenchError::io("open", path))?))
        };
        Ok(Self { file: path.map(open).transpose()?, reader })
    }

    /// Whether a reader takes the lines; then no other words may be printed among them.
    pub fn is_read(&self) -> bool {
        self.reader.is_some()
    }

    /// Says `words` to the reader, or on standard error.
    pub fn note(&mut self, words: &str) {
        match &mut self.reader {
            Some(reader) => reader.note(words),
            None => say(words),
        }
    }

    /// Hands on a line.
    pub fn write(&mut self, line: &Line) -> Result<()> {
        if let Some((path, file)) = &mut self.file {
            let mut json = serde_json::to_string(line).expect("results hold plain data");
            json.push('\n');
            file.write_all(json.as_bytes()).map_err(BenchError::io("write to", path))?;
        }
        self.reader.as_mut().map_or(Ok(()), |reader| reader.line(line))
    }
}
