//! A run: sorted items in a file. Each has a checksum, so that a damaged file is an error.
//!
//! ```text
//! item  checksum u64 · key length u32 · value length u32 · expiry u64 (the greatest: none) · key
//!       · value
//! ```

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::PathBuf;

use super::SortedItem;
use super::directory::TempDirectory;
use crate::failure::{Failure, Result};

/// Bytes that are read or written at once: all runs of a merge together take 8 MiB.
const BUFFER: usize = 128 << 10;

/// Bytes in front of a key.
const HEAD: usize = 24;

/// A file that is removed when it is dropped.
struct RunFile(PathBuf);

impl Drop for RunFile {
    fn drop(&mut self) {
        // What cannot be removed now is by the next sorter.
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes a run.
pub(super) struct SortRunWriter {
    file: BufWriter<File>,
    path: RunFile,
    items: u64,
}

impl SortRunWriter {
    /// A new run in `directory`.
    pub(super) fn new(directory: &mut TempDirectory) -> Result<Self> {
        let path = RunFile(directory.next_name());
        let created = File::options().read(true).write(true).create_new(true).open(&path.0);
        let file = created.map_err(Failure::file("create", &path.0))?;
        Ok(Self { file: BufWriter::with_capacity(BUFFER, file), path, items: 0 })
    }

    /// Appends an item.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8], expires: Option<u64>) -> Result<()> {
        let mut head = [0; HEAD];
        head[8..12].copy_from_slice(&(key.len() as u32).to_le_bytes());
        head[12..16].copy_from_slice(&(value.len() as u32).to_le_bytes());
        head[16..].copy_from_slice(&expires.unwrap_or(u64::MAX).to_le_bytes());
        let check = checksum([&head[8..], key, value]);
        head[..8].copy_from_slice(&check.to_le_bytes());
        let mut written = [&head, key, value].into_iter().map(|part| self.file.write_all(part));
        let written = written.find(|part| part.is_err()).unwrap_or(Ok(()));
        self.items += 1;
        written.map_err(Failure::file("write to", &self.path.0))
    }

    /// Ends the run; it is read from its beginning.
    pub(super) fn finish(self) -> Result<RunReader> {
        let Self { file, path, items } = self;
        let flushed = file.into_inner().map_err(std::io::IntoInnerError::into_error);
        drop(flushed.map_err(Failure::file("write to", &path.0))?);
        Ok(RunReader { file: None, path, left: items })
    }
}

/// Reads a run, whose file is removed with it.
pub(super) struct RunReader {
    /// Opened for the first item.
    file: Option<BufReader<File>>,
    path: RunFile,
    left: u64,
}

impl RunReader {
    /// The next item; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<SortedItem>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let path = &self.path.0;
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let opened = File::open(path).map_err(Failure::file("open", path))?;
                none.insert(BufReader::with_capacity(BUFFER, opened))
            }
        };
        let mut head = [0; HEAD];
        file.read_exact(&mut head).map_err(Failure::file("read", path))?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap_or_default());
        let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
        let mut part = |len: usize| {
            // Memory is taken as bytes come: a damaged length is found at the end of the file.
            let mut bytes = Vec::new();
            let read = file.by_ref().take(len as u64).read_to_end(&mut bytes);
            read.map_err(Failure::file("read", path)).map(|_| bytes)
        };
        let (key, value) = (part(word(8) as usize)?, part(word(12) as usize)?);
        if checksum([&head[8..], &key, &value]) != long(0) {
            let message = "a file of the sort is damaged; import again".to_owned();
            return Err(Failure::Input { path: path.clone(), message });
        }
        let expires = Some(long(16)).filter(|expires| *expires != u64::MAX);
        Ok(Some(SortedItem { key, value, expires }))
    }
}

fn checksum(parts: [&[u8]; 3]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.into_iter().for_each(|part| hasher.write(part));
    hasher.finish()
}
