//! A directory tree: the key of a file is its path below the root, with `/`, as bytes; the value is
//! its content.
//!
//! Reading skips entries without content of their own. Writing begins in an empty directory, and a
//! key becomes a path only if each of its parts is the name of an entry below it: so no key can
//! reach outside, not even through a link.
//!
//! Several keyspaces have a directory each. The file [`KEYSPACES`] in the root lists them, a line
//! of JSON each, and makes the tree one of keyspaces.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cleavedb::{KeyspaceOptions, VALUE_LEN_MAX, ValueReader};
use serde::{Deserialize, Serialize};
use tempfile::{Builder, TempDir};
use walkdir::{DirEntry, WalkDir};

use super::{Input, ItemSource, Sink};
use crate::expiry::Lasts;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::keyspaces::StoredOptions;

/// The list of the keyspaces of a tree.
const KEYSPACES: &str = ".cleave-keyspaces";

/// A keyspace in the list.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    keyspace: String,
    directory: String,
    options: StoredOptions,
}

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
    /// The keyspaces of the list, by their directories; `None` if there is no list.
    keyspaces: Option<BTreeMap<PathBuf, String>>,
    /// Keyspaces that were not returned yet.
    listed: VecDeque<(String, KeyspaceOptions)>,
    /// The keyspace of the last item.
    keyspace: Option<String>,
}

impl TreeSource {
    /// Reads the tree at `root`, which may be one of keyspaces, without the directory `except`.
    pub fn of_export(root: &Path, except: &Path) -> Result<Self> {
        let mut this = Self::new(root, except)?;
        let list = root.join(KEYSPACES);
        if !list.is_file() {
            return Ok(this);
        }
        let keyspaces = this.keyspaces.insert(BTreeMap::new());
        let lines = fs::read_to_string(&list).map_err(Failure::file("read", &list))?;
        for (at, line) in lines.lines().enumerate() {
            let listed = serde_json::from_str::<Listed>(line).map_err(|e| e.to_string());
            let parsed = listed.and_then(|it| Ok((it.options.parse()?, it)));
            let (options, Listed { keyspace, directory, .. }) = parsed.map_err(|reason| {
                let message = format!("line {}: {reason}", at + 1);
                Failure::Input { path: list.clone(), message }
            })?;
            keyspaces.insert(directory.into(), keyspace.clone());
            this.listed.push_back((keyspace, options));
        }
        Ok(this)
    }

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
            keyspaces: None,
            listed: VecDeque::new(),
            keyspace: None,
        })
    }

    /// The key of the file at `path`, after the step to its keyspace; `None` if it is in none.
    fn key(&mut self, path: &Path) -> Option<Vec<u8>> {
        let mut below = path.strip_prefix(&self.root).unwrap_or(path);
        if let Some(keyspaces) = &self.keyspaces {
            let directory = Path::new(below.iter().next()?);
            self.keyspace = Some(keyspaces.get(directory)?.clone());
            below = below.strip_prefix(directory).ok()?;
        }
        Some(below.as_os_str().as_bytes().to_vec())
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

impl ItemSource for TreeSource {
    fn next(&mut self) -> Result<Option<Input>> {
        if let Some((keyspace, options)) = self.listed.pop_front() {
            return Ok(Some(Input::Keyspace(keyspace, options)));
        }
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
            if self.keyspaces.is_some() && path.strip_prefix(&self.root) == Ok(Path::new(KEYSPACES))
            {
                continue;
            }
            let Some(key) = self.key(path) else {
                let note = format!("{}: in no keyspace that {KEYSPACES} lists", path.display());
                return Ok(Some(Input::Skipped(note)));
            };
            let input = self.input(path, &key).unwrap_or_else(Input::Failed);
            self.position += match &input {
                Input::Pair(_, content, _) => content.len() as u64,
                Input::File(_, _, len) => *len,
                Input::Keyspace(..) | Input::Skipped(_) | Input::Failed(_) => 0,
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

    fn keyspace(&self) -> Option<&str> {
        self.keyspace.as_deref()
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
    /// The directory in which files are written, that of a keyspace if there are several.
    root: PathBuf,
    /// The list of keyspaces, if there are several, and their number.
    list: String,
    keyspaces: usize,
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
        let (parent, list) = (written.clone(), String::new());
        Ok(Self { target, beside: Some(beside), parent, root: written, list, keyspaces: 0 })
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
    fn begin(&mut self, keyspace: &str, options: KeyspaceOptions) -> Result<()> {
        // Most names are names of directories, too; no name stands for two of them.
        let is_fit = unfit(keyspace.as_bytes()).is_none() && !keyspace.contains('/');
        let directory = match is_fit && !keyspace.starts_with('%') && keyspace != KEYSPACES {
            true => keyspace.to_owned(),
            false => format!("%{}", self.keyspaces),
        };
        self.keyspaces += 1;
        let Some(beside) = &self.beside else { return Ok(()) };
        self.root = beside.path().join(&directory);
        fs::create_dir(&self.root).map_err(Failure::file("create", &self.root))?;
        self.parent.clone_from(&self.root);
        let listed = Listed { keyspace: keyspace.to_owned(), directory, options: options.into() };
        self.list += &serde_json::to_string(&listed).map_err(|e| Failure::output(e.into()))?;
        self.list.push('\n');
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8], _: Option<Lasts>) -> Result<Option<String>> {
        self.write(key, |mut file| Ok(file.write_all(value)?))
    }

    fn put_reader(
        &mut self,
        key: &[u8],
        reader: &mut ValueReader,
        _: Option<Lasts>,
    ) -> Result<Option<String>> {
        self.write(key, |mut file| {
            loop {
                interrupt::check().map_err(NotWritten::Stopped)?;
                let piece =
                    reader.fill_buf().map_err(|e| NotWritten::Stopped(Failure::of_reader(e)))?;
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
        let Some(beside) = self.beside.take() else { return Ok(()) };
        if self.keyspaces > 0 {
            let list = beside.path().join(KEYSPACES);
            fs::write(&list, &self.list).map_err(Failure::file("write", &list))?;
        }
        let entries = fs::read_dir(beside.path()).map_err(Failure::file("list", beside.path()))?;
        for entry in entries {
            let entry = entry.map_err(Failure::file("list", beside.path()))?;
            let to = self.target.join(entry.file_name());
            fs::rename(entry.path(), &to).map_err(Failure::file("create", &to))?;
        }
        beside.close().map_err(Failure::file("remove", &self.target))
    }
}

/// Why a file was not written.
enum NotWritten {
    /// A call of the file system failed.
    Failed(io::Error),
    /// What is written cannot be read, or a signal arrived.
    Stopped(Failure),
}

impl From<io::Error> for NotWritten {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl TreeSink {
    /// Creates the file of `key` and has `write` fill it; returns why a tree cannot hold the key.
    fn write(
        &mut self,
        key: &[u8],
        write: impl FnOnce(File) -> std::result::Result<(), NotWritten>,
    ) -> Result<Option<String>> {
        if let Some(reason) = unfit(key) {
            return Ok(Some(reason.to_owned()));
        }
        if self.keyspaces == 0 && key == KEYSPACES.as_bytes() {
            return Ok(Some("the name of the list of keyspaces".to_owned()));
        }
        let path = self.root.join(OsStr::from_bytes(key));
        let create = || OpenOptions::new().write(true).create_new(true).open(&path);
        let created = self.make_parent(&path).and_then(|()| create());
        match created.map_err(NotWritten::Failed).and_then(write) {
            Ok(()) => Ok(None),
            Err(NotWritten::Stopped(failure)) => Err(failure),
            Err(NotWritten::Failed(error)) => match error.kind() {
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
