//! JSON lines: one object a line with the members `key` and `value`, as [jsonlines.org] has it.
//!
//! [jsonlines.org]: https://jsonlines.org

use std::io::{BufRead, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Input, Reader, Sink, Source, Writer, write_failed};
use crate::encoding::{FromJson, JsonBytes};
use crate::failure::{Failure, Result};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineIn {
    key: FromJson,
    value: FromJson,
}

#[derive(Serialize)]
struct LineOut<'a> {
    key: JsonBytes<'a>,
    value: JsonBytes<'a>,
}

/// Reads JSON lines; empty lines do not count.
pub struct JsonlSource {
    reader: Reader,
    line: Vec<u8>,
    number: u64,
    position: u64,
}

impl JsonlSource {
    /// Reads from `path`.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { reader: Reader::open(path)?, line: Vec::new(), number: 0, position: 0 })
    }
}

impl Source for JsonlSource {
    fn next(&mut self) -> Result<Option<Input>> {
        loop {
            self.line.clear();
            let Reader { inner, path } = &mut self.reader;
            let read = inner.read_until(b'\n', &mut self.line);
            let read = read.map_err(Failure::file("read", path))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.position += read as u64;
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            let parsed = serde_json::from_slice::<LineIn>(&self.line);
            let LineIn { key, value } = parsed.map_err(|error| {
                // The parser counts lines within what it was given, which is one line.
                let error = error.to_string();
                let reason = error.rsplit_once(" at line ").map_or(error.as_str(), |(r, _)| r);
                let message = format!("line {}: {reason}", self.number);
                Failure::Input { path: path.clone(), message }
            })?;
            return Ok(Some(Input::Pair(key.0, value.0)));
        }
    }

    fn place(&self) -> String {
        format!("line {}", self.number)
    }

    fn position(&self) -> u64 {
        self.position
    }
}

/// Writes JSON lines.
pub struct JsonlSink {
    writer: Writer,
}

impl JsonlSink {
    /// Writes to `path`, from its beginning.
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self { writer: Writer::create(path)? })
    }
}

impl Sink for JsonlSink {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Option<String>> {
        let Writer { inner, path } = &mut self.writer;
        let bytes = |bytes| JsonBytes { bytes, hex: false };
        let line = LineOut { key: bytes(key), value: bytes(value) };
        serde_json::to_writer(&mut *inner, &line).map_err(|e| write_failed(path, e.into()))?;
        inner.write_all(b"\n").map_err(|e| write_failed(path, e))?;
        Ok(None)
    }

    fn finish(&mut self) -> Result<()> {
        self.writer.inner.flush().map_err(|e| write_failed(&self.writer.path, e))
    }
}
