//! JSON lines, as defined by [jsonlines.org]: one object a line. It has the members `key` and
//! `value`, `expires` if the value does, and `keyspace` if that is not the default one; a line with
//! `keyspace` and `options` is a keyspace itself. Or the line is the value, and one of its members
//! the key.
//!
//! [jsonlines.org]: https://jsonlines.org

use std::collections::HashMap;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use cleavedb::KeyspaceOptions;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::target::PendingFile;
use super::{BUFFER, Input, ItemSource, Sink, Text, write_failed};
use crate::args::Layout;
use crate::encoding::{FromJson, JsonBytes};
use crate::expiry::Lasts;
use crate::failure::{Failure, Result};
use crate::keyspaces::{DEFAULT, StoredOptions};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineIn {
    keyspace: Option<String>,
    key: Option<FromJson>,
    value: Option<FromJson>,
    expires: Option<Lasts>,
    options: Option<StoredOptions>,
}

#[derive(Default, Serialize)]
struct LineOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    keyspace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<JsonBytes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<JsonBytes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Lasts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<StoredOptions>,
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
    keyspace: Option<String>,
    number: u64,
    position: u64,
}

impl JsonlSource {
    /// Reads from `path`.
    pub fn open(path: &Path, layout: &Layout) -> Result<Self> {
        let reader = BufReader::with_capacity(BUFFER, Text::open(path)?);
        let (path, key_field) = (path.to_owned(), layout.key_field.clone());
        let (line, keyspace) = (Vec::new(), None);
        Ok(Self { reader, path, key_field, line, keyspace, number: 0, position: 0 })
    }

    /// Key and value of the line, or its keyspace.
    fn parse(&mut self) -> std::result::Result<Input, String> {
        if let Some(field) = &self.key_field {
            let object = self.line.trim_ascii();
            return Ok(Input::Pair(key_of(object, field)?, object.to_vec(), None));
        }
        let line: LineIn = serde_json::from_slice(&self.line).map_err(reason)?;
        let missing = |field| format!("missing field `{field}`");
        if let Some(options) = line.options {
            if line.key.is_some() || line.value.is_some() || line.expires.is_some() {
                return Err(
                    "a line with `options` is a keyspace, and has no other field".to_owned()
                );
            }
            return Ok(Input::Keyspace(
                line.keyspace.ok_or(missing("keyspace"))?,
                options.parse()?,
            ));
        }
        self.keyspace = line.keyspace;
        let (key, value) = (line.key.ok_or(missing("key"))?, line.value.ok_or(missing("value"))?);
        Ok(Input::Pair(key.0, value.0, line.expires))
    }
}

impl ItemSource for JsonlSource {
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
            let parsed = self.parse();
            return parsed.map(Some).map_err(|reason| {
                let message = format!("line {}: {reason}", self.number);
                Failure::Input { path: self.path.clone(), message }
            });
        }
    }

    fn place(&self) -> String {
        format!("line {}", self.number)
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn keyspace(&self) -> Option<&str> {
        self.keyspace.as_deref()
    }
}

/// Writes JSON lines.
pub struct JsonlSink {
    writer: BufWriter<Box<dyn Write>>,
    target: PendingFile,
    path: PathBuf,
    key_field: Option<String>,
    /// The keyspace of the items, unless it is the default one.
    keyspace: Option<String>,
}

impl JsonlSink {
    /// Writes `path`.
    pub fn create(path: &Path, layout: &Layout) -> Result<Self> {
        let (output, target) = PendingFile::create(path)?;
        let writer = BufWriter::with_capacity(BUFFER, output);
        let (path, key_field) = (path.to_owned(), layout.key_field.clone());
        Ok(Self { writer, target, path, key_field, keyspace: None })
    }
}

impl Sink for JsonlSink {
    fn begin(&mut self, keyspace: &str, options: KeyspaceOptions) -> Result<()> {
        self.keyspace = (keyspace != DEFAULT).then(|| keyspace.to_owned());
        if self.keyspace.is_none() {
            return Ok(());
        }
        let (keyspace, options) = (Some(keyspace), Some(options.into()));
        let line = LineOut { keyspace, options, ..LineOut::default() };
        let written = serde_json::to_writer(&mut self.writer, &line).map_err(Into::into);
        let written = written.and_then(|()| self.writer.write_all(b"\n"));
        written.map_err(|e| write_failed(&self.path, e))
    }

    fn put(&mut self, key: &[u8], value: &[u8], expires: Option<Lasts>) -> Result<Option<String>> {
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
            let bytes = |bytes| Some(JsonBytes { bytes, hex: false });
            let (key, value) = (bytes(key), bytes(value));
            let line =
                LineOut { keyspace: self.keyspace.as_deref(), key, value, expires, options: None };
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
