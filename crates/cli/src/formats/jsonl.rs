//! JSON lines, as defined by [jsonlines.org]: one object a line. It has the members `key` and
//! `value`, and `expires` if the value does, or the line itself is the value, and one of its
//! members is the key.
//!
//! [jsonlines.org]: https://jsonlines.org

use std::collections::HashMap;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::target::Target;
use super::{BUFFER, Input, Sink, Source, Text, write_failed};
use crate::args::Layout;
use crate::encoding::{FromJson, JsonBytes};
use crate::expiry::Moment;
use crate::failure::{Failure, Result};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineIn {
    key: FromJson,
    value: FromJson,
    expires: Option<Moment>,
}

#[derive(Serialize)]
struct LineOut<'a> {
    key: JsonBytes<'a>,
    value: JsonBytes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Moment>,
}

/// The key of an object: its member `field`, which is text or the digits of a number.
fn key_of(object: &[u8], field: &str) -> std::result::Result<Vec<u8>, String> {
    let members: HashMap<String, &RawValue> = serde_json::from_slice(object).map_err(reason)?;
    let Some(member) = members.get(field) else { return Err(format!("missing field `{field}`")) };
    match member.get().as_bytes()[0] {
        b'"' => serde_json::from_str(member.get()).map(String::into_bytes).map_err(reason),
        b'-' | b'0'..=b'9' => Ok(member.get().as_bytes().to_vec()),
        _ => Err(format!("the field `{field}` is neither text nor a number, and no key")),
    }
}

/// The message of the parser without the line number, which is always 1.
fn reason(error: serde_json::Error) -> String {
    let error = error.to_string();
    error.rsplit_once(" at line ").map_or(error.as_str(), |(reason, _)| reason).to_owned()
}

/// Reads JSON lines; empty lines are skipped.
pub struct JsonlSource {
    reader: BufReader<Text>,
    path: PathBuf,
    key_field: Option<String>,
    line: Vec<u8>,
    number: u64,
    position: u64,
}

impl JsonlSource {
    /// Reads from `path`.
    pub fn open(path: &Path, layout: &Layout) -> Result<Self> {
        let reader = BufReader::with_capacity(BUFFER, Text::open(path)?);
        let (path, key_field) = (path.to_owned(), layout.key_field.clone());
        Ok(Self { reader, path, key_field, line: Vec::new(), number: 0, position: 0 })
    }

    /// Key and value of the line.
    fn parse(&self) -> std::result::Result<Input, String> {
        if let Some(field) = &self.key_field {
            let object = self.line.trim_ascii();
            return Ok(Input::Pair(key_of(object, field)?, object.to_vec(), None));
        }
        let LineIn { key, value, expires } = serde_json::from_slice(&self.line).map_err(reason)?;
        Ok(Input::Pair(key.0, value.0, expires.map(|Moment(at)| at)))
    }
}

impl Source for JsonlSource {
    fn next(&mut self) -> Result<Option<Input>> {
        loop {
            self.line.clear();
            let read = self.reader.read_until(b'\n', &mut self.line);
            let read = read.map_err(Failure::file("read", &self.path))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.position += read as u64;
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            let failed = |reason| {
                let message = format!("line {}: {reason}", self.number);
                Failure::Input { path: self.path.clone(), message }
            };
            return self.parse().map(Some).map_err(failed);
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
    writer: BufWriter<Box<dyn Write>>,
    target: Target,
    path: PathBuf,
    key_field: Option<String>,
}

impl JsonlSink {
    /// Writes `path`.
    pub fn create(path: &Path, layout: &Layout) -> Result<Self> {
        let (output, target) = Target::create(path)?;
        let writer = BufWriter::with_capacity(BUFFER, output);
        let (path, key_field) = (path.to_owned(), layout.key_field.clone());
        Ok(Self { writer, target, path, key_field })
    }
}

impl Sink for JsonlSink {
    fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires: Option<SystemTime>,
    ) -> Result<Option<String>> {
        if let Some(field) = &self.key_field {
            match key_of(value, field) {
                Ok(found) if found != key => {
                    return Ok(Some(format!("the field `{field}` of its value is another key")));
                }
                Ok(_) if value.contains(&b'\n') => {
                    return Ok(Some("its value has more than one line".to_owned()));
                }
                Ok(_) => {}
                Err(reason) => return Ok(Some(format!("its value: {reason}"))),
            }
            self.writer.write_all(value).map_err(|e| write_failed(&self.path, e))?;
        } else {
            let bytes = |bytes| JsonBytes { bytes, hex: false };
            let line =
                LineOut { key: bytes(key), value: bytes(value), expires: Moment::of(expires) };
            let written = serde_json::to_writer(&mut self.writer, &line);
            written.map_err(|e| write_failed(&self.path, e.into()))?;
        }
        self.writer.write_all(b"\n").map_err(|e| write_failed(&self.path, e))?;
        Ok(None)
    }

    fn keeps_expiry(&self) -> bool {
        self.key_field.is_none()
    }

    fn finish(&mut self) -> Result<()> {
        self.writer.flush().map_err(|e| write_failed(&self.path, e))?;
        self.target.take()
    }
}
