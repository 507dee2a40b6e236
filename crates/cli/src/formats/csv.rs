//! CSV: two of its columns, by name or by number, and a third one in front of them if there are
//! several keyspaces; bytes are unchanged, quoted where necessary.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use cleavedb::KeyspaceOptions;
use csv::{ByteRecord, ErrorKind, ReaderBuilder, WriterBuilder};

use super::target::PendingFile;
use super::{BUFFER, Input, ItemSource, Sink, Text, write_failed};
use crate::args::Layout;
use crate::encoding::escape;
use crate::expiry::Lasts;
use crate::failure::{Failure, Result};

/// The default columns.
const HEADER: [&str; 2] = ["key", "value"];

/// The columns of an export of several keyspaces.
const SEVERAL: [&str; 3] = ["keyspace", "key", "value"];

fn delimiter(layout: &Layout) -> u8 {
    layout.delimiter.unwrap_or(b',')
}

/// The names of the columns of key and value.
fn names(layout: &Layout) -> [&str; 2] {
    let [key, value] = HEADER;
    let (key_column, value_column) = (&layout.key_column, &layout.value_column);
    [key_column.as_deref().unwrap_or(key), value_column.as_deref().unwrap_or(value)]
}

/// Reads CSV.
pub struct CsvSource {
    reader: csv::Reader<LineChecker>,
    path: PathBuf,
    record: ByteRecord,
    /// Indexes of key and value in a record.
    columns: [usize; 2],
    /// Whether a record may have no value, which is empty then.
    ragged: bool,
    /// Whether the first column is the keyspace, and that of the last record.
    several: bool,
    keyspace: Option<String>,
}

impl CsvSource {
    /// Reads from `path`, which must have the columns of `layout`.
    pub fn open(path: &Path, layout: &Layout) -> Result<Self> {
        let (inner, path, delimiter) = (Text::open(path)?, path.to_owned(), delimiter(layout));
        let mut builder = ReaderBuilder::new();
        builder.delimiter(delimiter).has_headers(!layout.no_header).buffer_capacity(BUFFER);
        builder.comment(layout.comment).flexible(layout.ragged);
        let mut reader = builder.from_reader(LineChecker::new(inner, delimiter, layout.comment));
        let described = layout.key_column.is_some() || layout.value_column.is_some();
        let mut several = false;
        let columns = if layout.no_header {
            numbered(layout).map_err(Failure::Usage)?
        } else {
            let header = reader.byte_headers().map_err(|e| read_failed(&path, e))?;
            several = !described && *header == SEVERAL[..];
            let found = if several { Ok([1, 2]) } else { named(header, layout) };
            found.map_err(|message| Failure::Input { path: path.clone(), message })?
        };
        let (record, ragged) = (ByteRecord::new(), layout.ragged);
        let source = Self { reader, path, record, columns, ragged, several, keyspace: None };
        source.check()?;
        Ok(source)
    }

    /// Fails if a quote was closed within a field so far, or if the last record ends with the file,
    /// without a line end.
    fn check(&self) -> Result<()> {
        let follower = self.reader.get_ref();
        let stray = follower.stray.filter(|(at, _)| *at < self.position());
        if let Some((_, line)) = stray {
            let what = "text behind a closing quote; within quotes a quote is written twice";
            return Err(self.failed(&format!("line {line}"), what));
        }
        if self.position() < follower.bytes || follower.at_line_begin() {
            return Ok(());
        }
        let what = "the last line has no end, the file may be cut off; if it is whole, add a line \
                    end";
        Err(self.failed(&self.place(), what))
    }

    fn failed(&self, place: &str, what: &str) -> Failure {
        Failure::Input { path: self.path.clone(), message: format!("{place}: {what}") }
    }
}

/// Indexes of the columns of `layout` in a header.
fn named(header: &ByteRecord, layout: &Layout) -> std::result::Result<[usize; 2], String> {
    let shown = || header.iter().take(8).map(escape).collect::<Vec<_>>().join(",");
    // Unnamed columns must not be dropped silently.
    let described = layout.key_column.is_some() || layout.value_column.is_some();
    if !described && *header != HEADER[..] {
        return Err(format!(
            "the header must be key,value, not {}; --key-column and --value-column name others",
            shown()
        ));
    }
    let mut columns = [0; 2];
    for (column, name) in columns.iter_mut().zip(names(layout)) {
        let found = header.iter().position(|found| found == name.as_bytes());
        *column = found.ok_or_else(|| format!("there is no column {name} in {}", shown()))?;
    }
    Ok(columns)
}

/// The columns of `layout`, which are numbers from 1 on where there is no header.
fn numbered(layout: &Layout) -> std::result::Result<[usize; 2], String> {
    let number = |given: &Option<String>, usual: usize| {
        let Some(given) = given else { return Ok(usual) };
        let parsed = given.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        parsed.ok_or_else(|| format!("without a header columns have numbers from 1, not {given}"))
    };
    Ok([number(&layout.key_column, 0)?, number(&layout.value_column, 1)?])
}

impl ItemSource for CsvSource {
    fn next(&mut self) -> Result<Option<Input>> {
        let read = self.reader.read_byte_record(&mut self.record);
        if !read.map_err(|e| read_failed(&self.path, e))? {
            return Ok(None);
        }
        self.check()?;
        if self.several {
            let name = self.record.get(0).and_then(|name| str::from_utf8(name).ok());
            let name = name.ok_or_else(|| self.failed(&self.place(), "the keyspace is no text"))?;
            if self.keyspace.as_deref() != Some(name) {
                self.keyspace = Some(name.to_owned());
            }
        }
        let fields = self.columns.map(|column| self.record.get(column).map(<[u8]>::to_vec));
        match fields {
            [Some(key), Some(value)] => Ok(Some(Input::Pair(key, value, None))),
            [Some(key), None] if self.ragged => Ok(Some(Input::Pair(key, Vec::new(), None))),
            _ => Err(self.failed(&self.place(), "there are not as many columns")),
        }
    }

    fn place(&self) -> String {
        format!("line {}", self.record.position().map_or(0, csv::Position::line))
    }

    fn position(&self) -> u64 {
        self.reader.position().byte()
    }

    fn keyspace(&self) -> Option<&str> {
        self.keyspace.as_deref()
    }
}

fn read_failed(path: &Path, error: csv::Error) -> Failure {
    let message = error.to_string();
    match error.into_kind() {
        ErrorKind::Io(source) => Failure::file("read", path)(source),
        _ => Failure::Input { path: path.to_owned(), message },
    }
}

/// Where in a line the parser is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    LineBegin,
    FieldBegin,
    Plain,
    Quoted,
    /// Behind a quote within quotes: the end of the field, or the first half of an escaped quote.
    Quote,
    Comment,
}

/// A reader that checks what the parser accepts as it is: an end of the input within a line, and
/// text behind a closing quote.
struct LineChecker {
    inner: Text,
    delimiter: u8,
    comment: Option<u8>,
    at: At,
    /// Bytes and lines so far.
    bytes: u64,
    lines: u64,
    /// Position and line of the first text behind a closing quote.
    stray: Option<(u64, u64)>,
}

impl LineChecker {
    fn new(inner: Text, delimiter: u8, comment: Option<u8>) -> Self {
        Self { inner, delimiter, comment, at: At::LineBegin, bytes: 0, lines: 0, stray: None }
    }

    fn at_line_begin(&self) -> bool {
        self.at == At::LineBegin
    }

    fn follow(&mut self, byte: u8) {
        self.at = match (self.at, byte) {
            (At::Comment, byte) if byte != b'\n' => At::Comment,
            (At::LineBegin, byte) if Some(byte) == self.comment => At::Comment,
            (At::Quoted, b'"') => At::Quote,
            (At::Quoted, _) | (At::Quote | At::LineBegin | At::FieldBegin, b'"') => At::Quoted,
            (_, b'\n' | b'\r') => At::LineBegin,
            (_, byte) if byte == self.delimiter => At::FieldBegin,
            (At::Quote, _) => {
                self.stray = self.stray.or(Some((self.bytes, self.lines + 1)));
                At::Plain
            }
            _ => At::Plain,
        };
        self.bytes += 1;
        self.lines += u64::from(byte == b'\n');
    }
}

impl Read for LineChecker {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let len = self.inner.read(buf)?;
        buf[..len].iter().for_each(|byte| self.follow(*byte));
        Ok(len)
    }
}

/// Writes CSV.
pub struct CsvSink {
    writer: csv::Writer<Box<dyn Write>>,
    target: PendingFile,
    path: PathBuf,
    /// The keyspace of the items, if there are several.
    keyspace: Option<String>,
}

impl CsvSink {
    /// Writes `path`, beginning with the header if there is one.
    pub fn create(path: &Path, layout: &Layout, several: bool) -> Result<Self> {
        let (output, target) = PendingFile::create(path)?;
        let mut builder = WriterBuilder::new();
        let writer =
            builder.delimiter(delimiter(layout)).buffer_capacity(BUFFER).from_writer(output);
        let mut sink = Self { writer, target, path: path.to_owned(), keyspace: None };
        let written = match several {
            true => sink.writer.write_record(SEVERAL),
            false if layout.no_header => Ok(()),
            false => sink.writer.write_record(names(layout)),
        };
        written.map_err(|e| record_failed(path, e))?;
        Ok(sink)
    }
}

fn record_failed(path: &Path, error: csv::Error) -> Failure {
    match error.into_kind() {
        ErrorKind::Io(error) => write_failed(path, error),
        kind => unreachable!("records have as many fields as the header: {kind:?}"),
    }
}

impl Sink for CsvSink {
    fn begin(&mut self, keyspace: &str, _: KeyspaceOptions) -> Result<()> {
        self.keyspace = Some(keyspace.to_owned());
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8], _: Option<Lasts>) -> Result<Option<String>> {
        let keyspace = self.keyspace.as_deref().map(str::as_bytes);
        let written = self.writer.write_record(keyspace.into_iter().chain([key, value]));
        written.map_err(|e| record_failed(&self.path, e)).map(|()| None)
    }

    fn keeps_options(&self) -> bool {
        false
    }

    fn finish(&mut self) -> Result<()> {
        self.writer.flush().map_err(|e| write_failed(&self.path, e))?;
        self.target.take()
    }
}
