//! A directory tree: the key of a file is its path below the root, with `/`, as bytes; the value is
//! its content.
//!
//! Reading skips entries without content of their own. Writing begins in an empty directory, and a
//! key becomes a path only if each of its parts is the name of an entry below it: so no key can
//! reach outside, not even through a link.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cleavedb::{VALUE_LEN_MAX, ValueReader};
use tempfile::{Builder, TempDir};
use walkdir::{DirEntry, WalkDir};

use super::{Input, Sink, Source};
use crate::failure::{Failure, Result};
use crate::interrupt;

/// Bytes from which on the content of a file is not held in memory.
const LONG: u64 = 4 << 20;

/// Reads a tree, in order of names.
pub struct TreeSource {
    root: PathBuf,
    walk: walkdir::IntoIter,
    /// The directory that is left out: the database, which may not exist yet.
    except: PathBuf,
    place: PathBuf,
    position: u64,
}

impl TreeSource {
    /// Reads the tree at `root` without the directory `except`.
    pub fn new(root: &Path, except: &Path) -> Result<Self> {
        let found = fs::metadata(root).map_err(Failure::file("open", root))?;
        if !found.is_dir() {
            let error = io::Error::from(ErrorKind::NotADirectory);
            return Err(Failure::file("open", root)(error));
        }
        Ok(Self {
            root: root.to_owned(),
            walk: WalkDir::new(root).sort_by_file_name().into_iter(),
            except: except.to_owned(),
            place: root.to_owned(),
            position: 0,
        })
    }

    fn is_except(&self, entry: &DirEntry) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let except = fs::metadata(&self.except).ok().map(identity);
        except.is_some() && entry.metadata().ok().map(identity) == except
    }

    /// A file with its content, or open, if it is long; `Err` is the reason why there is none.
    fn input(&self, path: &Path, key: &[u8]) -> std::result::Result<Input, String> {
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        if len >= LONG {
            return Ok(Input::File(key.to_vec(), file, len));
        }
        let mut content = Vec::with_capacity(len as usize);
        // A file that grows while it is read must not grow without bound.
        file.take(VALUE_LEN_MAX as u64).read_to_end(&mut content).map_err(failed)?;
        Ok(Input::Pair(key.to_vec(), content, None))
    }
}

impl Source for TreeSource {
    fn next(&mut self) -> Result<Option<Input>> {
        loop {
            let entry = match self.walk.next() {
                None => return Ok(None),
                Some(Ok(entry)) => entry,
                Some(Err(error)) => return Ok(Some(Input::Failed(error.to_string()))),
            };
            let path = entry.path();
            let kind = entry.file_type();
            if kind.is_dir() {
                if !self.is_except(&entry) {
                    continue;
                }
                self.walk.skip_current_dir();
                let note = format!("{}: the database itself, not stored", path.display());
                return Ok(Some(Input::Skipped(note)));
            }
            if !kind.is_file() {
                let what = if kind.is_symlink() { "a symbolic link" } else { "a special file" };
                let note = format!("{}: {what}, not stored", path.display());
                return Ok(Some(Input::Skipped(note)));
            }
            let below = path.strip_prefix(&self.root).unwrap_or(path);
            let input = self.input(path, below.as_os_str().as_bytes());
            let input = input.unwrap_or_else(Input::Failed);
            self.position += match &input {
                Input::Pair(_, content, _) => content.len() as u64,
                Input::File(_, _, len) => *len,
                Input::Skipped(_) | Input::Failed(_) => 0,
            };
            self.place = path.to_owned();
            return Ok(Some(input));
        }
    }

    fn place(&self) -> String {
        self.place.display().to_string()
    }

    fn position(&self) -> u64 {
        self.position
    }
}

/// Number of files in the tree at `root` and their bytes, as far as they can be read.
pub fn measure(root: &Path) -> Result<(u64, u64)> {
    fs::read_dir(root).map_err(Failure::file("list", root))?;
    let entries = WalkDir::new(root).into_iter().flatten();
    let files = entries.filter(|entry| entry.file_type().is_file());
    let sizes = files.map(|file| file.metadata().map_or(0, |metadata| metadata.len()));
    Ok(sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size)))
}

/// Writes a tree: in a directory within the root, and moves it out once it is complete.
pub struct TreeSink {
    target: PathBuf,
    beside: Option<TempDir>,
    /// The directory in which files are written.
    root: PathBuf,
    /// The directory of the last file, which exists already.
    parent: PathBuf,
}

impl TreeSink {
    /// Writes below `root`, which must be new or empty.
    pub fn create(root: &Path) -> Result<Self> {
        fs::create_dir_all(root).map_err(Failure::file("create", root))?;
        let mut entries = fs::read_dir(root).map_err(Failure::file("list", root))?;
        if let Some(entry) = entries.next() {
            let found = entry.map_err(Failure::file("list", root))?.file_name();
            let message = format!(
                "there are files in it ({}); export to a new or empty directory",
                found.display()
            );
            return Err(Failure::Input { path: root.to_owned(), message });
        }
        let builder = Builder::new().prefix(".cleave-export-").tempdir_in(root);
        let beside = builder.map_err(Failure::file("create", root))?;
        let (target, written) = (root.to_owned(), beside.path().to_owned());
        Ok(Self { target, beside: Some(beside), parent: written.clone(), root: written })
    }

    fn make_parent(&mut self, path: &Path) -> io::Result<()> {
        let parent = path.parent().unwrap_or(&self.root);
        if parent != self.parent {
            fs::create_dir_all(parent)?;
            self.parent = parent.to_owned();
        }
        Ok(())
    }
}

impl Sink for TreeSink {
    fn put(&mut self, key: &[u8], value: &[u8], _: Option<SystemTime>) -> Result<Option<String>> {
        self.write(key, |mut file| Ok(file.write_all(value)?))
    }

    fn put_reader(
        &mut self,
        key: &[u8],
        reader: &mut ValueReader,
        _: Option<SystemTime>,
    ) -> Result<Option<String>> {
        self.write(key, |mut file| {
            loop {
                interrupt::check().map_err(Written::Stopped)?;
                let piece =
                    reader.fill_buf().map_err(|e| Written::Stopped(Failure::of_reader(e)))?;
                if piece.is_empty() {
                    return Ok(());
                }
                file.write_all(piece)?;
                let len = piece.len();
                reader.consume(len);
            }
        })
    }

    fn finish(&mut self) -> Result<()> {
        let entries = fs::read_dir(&self.root).map_err(Failure::file("list", &self.root))?;
        for entry in entries {
            let entry = entry.map_err(Failure::file("list", &self.root))?;
            let to = self.target.join(entry.file_name());
            fs::rename(entry.path(), &to).map_err(Failure::file("create", &to))?;
        }
        let emptied = self.beside.take().map(TempDir::close).transpose();
        emptied.map_err(Failure::file("remove", &self.root)).map(|_| ())
    }
}

/// Why a file was not written.
enum Written {
    /// A call of the file system failed.
    Failed(io::Error),
    /// What is written cannot be read, or a signal arrived.
    Stopped(Failure),
}

impl From<io::Error> for Written {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl TreeSink {
    /// Creates the file of `key` and has `write` fill it; returns why a tree cannot hold the key.
    fn write(
        &mut self,
        key: &[u8],
        write: impl FnOnce(File) -> std::result::Result<(), Written>,
    ) -> Result<Option<String>> {
        if let Some(reason) = unfit(key) {
            return Ok(Some(reason.to_owned()));
        }
        let path = self.root.join(OsStr::from_bytes(key));
        let create = || OpenOptions::new().write(true).create_new(true).open(&path);
        let created = self.make_parent(&path).and_then(|()| create());
        match created.map_err(Written::Failed).and_then(write) {
            Ok(()) => Ok(None),
            Err(Written::Stopped(failure)) => Err(failure),
            Err(Written::Failed(error)) => match error.kind() {
                ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
                    Ok(Some("its path, or a part of it, is the file of another key".to_owned()))
                }
                ErrorKind::InvalidFilename => Ok(Some("too long for a file name".to_owned())),
                _ => Err(Failure::file("write", &path)(error)),
            },
        }
    }
}

/// The reason why `key` cannot be the path of a file below a directory, if so.
fn unfit(key: &[u8]) -> Option<&'static str> {
    if key.starts_with(b"/") {
        return Some("an absolute path");
    }
    if key.contains(&0) {
        return Some("a NUL in a path");
    }
    key.split(|byte| *byte == b'/').find_map(|part| match part {
        b"" => Some("an empty part in a path"),
        b"." | b".." => Some("a `.` or `..` in a path"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::unfit;

    #[test]
    fn only_paths_below_the_root_are_fit() {
        for fit in [&b"a"[..], b"a/b", b"..a/b..", b"...", b"\xff/\x01", b"a\\b", b"-rf"] {
            assert_eq!(unfit(fit), None, "{fit:?}");
        }
        for bad in [&b""[..], b"/a", b"a//b", b"a/", b"..", b"a/../b", b"./a", b"a/.", b"a\0b"] {
            assert!(unfit(bad).is_some(), "{bad:?}");
        }
    }
}
