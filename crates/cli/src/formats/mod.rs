//! Sources and targets of keys and values: a directory tree, JSON lines, CSV.

mod feed;
mod target;
mod text;
mod jsonl;
mod csv;
mod tree;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use cleavedb::{KeyspaceOptions, ValueReader};

use crate::args::{Layout, PlaceArgs};
use crate::expiry::Lasts;
use crate::failure::{Failure, Result};

pub use text::Text;
pub use tree::{TreeSource, measure};

use feed::Feed;
use tree::TreeSink;

/// An item of a source.
pub enum Input {
    /// A keyspace, which may stay empty, and its options.
    Keyspace(String, KeyspaceOptions),
    /// A key and its value, and when that expires, unless the keyspace decides.
    Pair(Vec<u8>, Vec<u8>, Option<Lasts>),
    /// A key, and the open file of this length that has its value: one that is long.
    File(Vec<u8>, File, u64),
    /// Something that is not a value, and its description.
    Skipped(String),
    /// Something that should have been a value, and the reason for the failure.
    Failed(String),
}

/// A source of keys and values.
pub trait ItemSource {
    /// The next item; `None` at the end.
    fn next(&mut self) -> Result<Option<Input>>;
    /// The place of the last item, for messages.
    fn place(&self) -> String;
    /// Bytes read so far.
    fn position(&self) -> u64;
    /// The keyspace of the last item, if the source names one.
    fn keyspace(&self) -> Option<&str> {
        None
    }
}

/// A target of keys and values.
pub trait Sink {
    /// Begins a keyspace, whose items follow; called for none, or for each.
    fn begin(&mut self, keyspace: &str, options: KeyspaceOptions) -> Result<()>;
    /// Writes one item, which may expire; `Some` is the reason why this form cannot hold it, which
    /// is not an error.
    fn put(&mut self, key: &[u8], value: &[u8], expires: Option<Lasts>) -> Result<Option<String>>;
    /// Writes one item, as [`Self::put`] does, with a value that is long.
    fn put_reader(
        &mut self,
        key: &[u8],
        reader: &mut ValueReader,
        expires: Option<Lasts>,
    ) -> Result<Option<String>> {
        let mut value = Vec::new();
        reader.read_to_end(&mut value).map_err(Failure::of_reader)?;
        self.put(key, &value, expires)
    }
    /// Whether it keeps when a value expires.
    fn keeps_expiry(&self) -> bool {
        false
    }
    /// Whether it keeps the options of keyspaces, and those that are empty.
    fn keeps_options(&self) -> bool {
        true
    }
    /// Writes buffered items.
    fn finish(&mut self) -> Result<()>;
}

/// Bytes that are read or written at once.
const BUFFER: usize = 1 << 18;

/// Whether `path` stands for a standard stream.
pub fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The file to read, or the standard input that `-` stands for.
pub fn open(path: &Path) -> Result<Box<dyn Read>> {
    let failed = Failure::file("open", path);
    if is_stream(path) {
        Ok(Box::new(Feed::stdin()))
    } else if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        Ok(Box::new(Feed::open(path).map_err(failed)?))
    } else {
        Ok(Box::new(File::open(path).map_err(failed)?))
    }
}

/// The failure of a write.
fn write_failed(path: &Path, error: io::Error) -> Failure {
    if is_stream(path) { Failure::output(error) } else { Failure::file("write to", path)(error) }
}

/// Fails if the layout is for another format.
fn check_layout(place: &PlaceArgs, layout: &Layout) -> Result<()> {
    let Layout { delimiter, key_column, value_column, no_header, comment, ragged, key_field } =
        layout;
    let columns = key_column.is_some() || value_column.is_some() || *no_header || *ragged;
    let what = match (columns || delimiter.is_some() || comment.is_some(), key_field) {
        (true, _) if place.csv.is_none() => {
            "columns, rows, delimiter, header and comments are those of --csv"
        }
        (_, Some(_)) if place.jsonl.is_none() => "--key-field is a field of --jsonl",
        _ => return Ok(()),
    };
    Err(Failure::Usage(what.to_owned()))
}

/// The source of the arguments; `database` is a directory that is not part of the input.
pub fn source(place: &PlaceArgs, layout: &Layout, database: &Path) -> Result<Box<dyn ItemSource>> {
    check_layout(place, layout)?;
    match (&place.dir, &place.jsonl, &place.csv) {
        (Some(dir), _, _) => Ok(Box::new(TreeSource::of_export(dir, database)?)),
        (_, Some(file), _) => Ok(Box::new(jsonl::JsonlSource::open(file, layout)?)),
        (_, _, Some(file)) => Ok(Box::new(csv::CsvSource::open(file, layout)?)),
        _ => unreachable!("one of them is required"),
    }
}

/// The sink of the arguments, for the items of one keyspace or of `several`.
pub fn sink(place: &PlaceArgs, layout: &Layout, several: bool) -> Result<Box<dyn Sink>> {
    check_layout(place, layout)?;
    let Layout { key_column, value_column, no_header, key_field, .. } = layout;
    if several
        && (key_column.is_some() || value_column.is_some() || *no_header || key_field.is_some())
    {
        let what = "lines of this form have no place for the name of a keyspace, and there are \
                    several: export one, with --keyspace";
        return Err(Failure::Usage(what.to_owned()));
    }
    match (&place.dir, &place.jsonl, &place.csv) {
        (Some(dir), _, _) => Ok(Box::new(TreeSink::create(dir)?)),
        (_, Some(file), _) => Ok(Box::new(jsonl::JsonlSink::create(file, layout)?)),
        (_, _, Some(file)) => Ok(Box::new(csv::CsvSink::create(file, layout, several)?)),
        _ => unreachable!("one of them is required"),
    }
}

/// The directory or file of the arguments.
pub fn path(place: &PlaceArgs) -> &Path {
    let named = [&place.dir, &place.jsonl, &place.csv].into_iter().flatten().next();
    named.expect("one of them is required")
}
