//! CSV with the header `key,value`: bytes as they are, quoted where they must be.

use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, ErrorKind};

use super::{Input, Reader, Sink, Source, Writer, write_failed};
use crate::encoding::escape;
use crate::failure::{Failure, Result};

const HEADER: [&str; 2] = ["key", "value"];

/// Reads CSV.
pub struct CsvSource {
    reader: csv::Reader<BufReader<Box<dyn Read>>>,
    path: PathBuf,
    record: ByteRecord,
}

impl CsvSource {
    /// Reads from `path`, whose header must be right.
    pub fn open(path: &Path) -> Result<Self> {
        let Reader { inner, path } = Reader::open(path)?;
        let mut reader = csv::Reader::from_reader(inner);
        let header = reader.byte_headers().map_err(|e| read_failed(&path, e))?;
        if *header != HEADER[..] {
            let found: Vec<_> = header.iter().take(8).map(escape).collect();
            let message = format!("the header must be key,value, not {}", found.join(","));
            return Err(Failure::Input { path, message });
        }
        Ok(Self { reader, path, record: ByteRecord::new() })
    }
}

impl Source for CsvSource {
    fn next(&mut self) -> Result<Option<Input>> {
        let read = self.reader.read_byte_record(&mut self.record);
        if !read.map_err(|e| read_failed(&self.path, e))? {
            return Ok(None);
        }
        // The reader refuses records that do not have the two fields of the header.
        Ok(Some(Input::Pair(self.record[0].to_vec(), self.record[1].to_vec())))
    }

    fn place(&self) -> String {
        format!("line {}", self.record.position().map_or(0, csv::Position::line))
    }

    fn position(&self) -> u64 {
        self.reader.position().byte()
    }
}

fn read_failed(path: &Path, error: csv::Error) -> Failure {
    let message = error.to_string();
    match error.into_kind() {
        ErrorKind::Io(source) => Failure::file("read", path)(source),
        _ => Failure::Input { path: path.to_owned(), message },
    }
}

/// Writes CSV.
pub struct CsvSink {
    writer: csv::Writer<BufWriter<Box<dyn Write>>>,
    path: PathBuf,
}

impl CsvSink {
    /// Writes to `path`, from its beginning, the header first.
    pub fn create(path: &Path) -> Result<Self> {
        let Writer { inner, path } = Writer::create(path)?;
        let mut sink = Self { writer: csv::Writer::from_writer(inner), path };
        sink.write(HEADER)?;
        Ok(sink)
    }

    fn write<T: AsRef<[u8]>>(&mut self, fields: [T; 2]) -> Result<()> {
        self.writer.write_record(fields).map_err(|error| match error.into_kind() {
            ErrorKind::Io(error) => write_failed(&self.path, error),
            kind => unreachable!("records have two fields each: {kind:?}"),
        })
    }
}

impl Sink for CsvSink {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Option<String>> {
        self.write([key, value]).map(|()| None)
    }

    fn finish(&mut self) -> Result<()> {
        self.writer.flush().map_err(|e| write_failed(&self.path, e))
    }
}
