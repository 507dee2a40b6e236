//! Where keys and values come from and go to outside a database: a directory tree, JSON lines, CSV.

mod jsonl;
mod csv;
mod tree;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::args::Place;
use crate::failure::{Failure, Result};

pub use tree::{TreeSource, measure};

use tree::TreeSink;

/// What a source yields.
pub enum Input {
    /// A key and its value.
    Pair(Vec<u8>, Vec<u8>),
    /// Something that is no value, and what it is.
    Skipped(String),
    /// Something that should have been a value, and why it is none.
    Failed(String),
}

/// Where keys and values come from.
pub trait Source {
    /// The next; `None` at the end.
    fn next(&mut self) -> Result<Option<Input>>;
    /// Where the last one stood, for people.
    fn place(&self) -> String;
    /// Bytes of the source so far.
    fn position(&self) -> u64;
}

/// Where keys and values go.
pub trait Sink {
    /// Writes one; `Some` says why it cannot be written in this form, which is no error.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Option<String>>;
    /// Writes what is buffered.
    fn finish(&mut self) -> Result<()>;
}

/// A file to read or write, or the standard stream that `-` stands for.
struct Stream<T> {
    inner: T,
    path: PathBuf,
}

type Reader = Stream<BufReader<Box<dyn Read>>>;
type Writer = Stream<BufWriter<Box<dyn Write>>>;

const BUFFER: usize = 1 << 18;

/// Whether `path` stands for a standard stream.
pub fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl Reader {
    fn open(path: &Path) -> Result<Self> {
        let inner: Box<dyn Read> = if is_stream(path) {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(path).map_err(Failure::file("open", path))?)
        };
        Ok(Self { inner: BufReader::with_capacity(BUFFER, inner), path: path.to_owned() })
    }
}

impl Writer {
    fn create(path: &Path) -> Result<Self> {
        let inner: Box<dyn Write> = if is_stream(path) {
            Box::new(io::stdout())
        } else {
            Box::new(File::create(path).map_err(Failure::file("create", path))?)
        };
        Ok(Self { inner: BufWriter::with_capacity(BUFFER, inner), path: path.to_owned() })
    }
}

/// What a failed write means.
fn write_failed(path: &Path, error: io::Error) -> Failure {
    if is_stream(path) { Failure::output(error) } else { Failure::file("write to", path)(error) }
}

/// The source that the arguments name; `database` is the directory that is no input.
pub fn source(place: &Place, database: &Path) -> Result<Box<dyn Source>> {
    match (&place.dir, &place.jsonl, &place.csv) {
        (Some(dir), _, _) => Ok(Box::new(TreeSource::new(dir, database)?)),
        (_, Some(file), _) => Ok(Box::new(jsonl::JsonlSource::open(file)?)),
        (_, _, Some(file)) => Ok(Box::new(csv::CsvSource::open(file)?)),
        _ => unreachable!("one of them is required"),
    }
}

/// The sink that the arguments name.
pub fn sink(place: &Place) -> Result<Box<dyn Sink>> {
    match (&place.dir, &place.jsonl, &place.csv) {
        (Some(dir), _, _) => Ok(Box::new(TreeSink::create(dir)?)),
        (_, Some(file), _) => Ok(Box::new(jsonl::JsonlSink::create(file)?)),
        (_, _, Some(file)) => Ok(Box::new(csv::CsvSink::create(file)?)),
        _ => unreachable!("one of them is required"),
    }
}

/// The directory or file that the arguments name.
pub fn path(place: &Place) -> &Path {
    let named = [&place.dir, &place.jsonl, &place.csv].into_iter().flatten().next();
    named.expect("one of them is required")
}
