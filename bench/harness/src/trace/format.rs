//! The bytes of a trace: a header, then one zstd stream of records, then an end record.
//!
//! A record is the microseconds since the one before, the action, the key and a size, numbers as
//! varints. There are no values: a replay makes its own. The end record holds the number of
//! records, so that a trace that was cut is known as one.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{BenchError, Result};
use crate::workload::Action;

/// The first bytes of every trace; the last one is the version of the format.
const MAGIC: [u8; 9] = *b"CLVTRACE\x01";
/// Where an action's code would be, at the end.
const END: u8 = 0xFF;
/// Longest key that is believed.
const KEY_MAX: u64 = 1 << 20;
/// Level of compression: keys repeat a prefix and little else.
const LEVEL: i32 = 3;

/// One operation of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Microseconds since the trace began.
    pub at: u64,
    /// What was done; never an insert, which is an update to a store, nor an expiry.
    pub action: Action,
    /// The key, or the key that a scan starts at.
    pub key: Vec<u8>,
    /// Bytes of the value that was written, or records that a scan asked for; 0 otherwise.
    pub size: u64,
}

impl Default for Record {
    fn default() -> Self {
        Self { at: 0, action: Action::Read, key: Vec::new(), size: 0 }
    }
}

fn code_of(action: Action) -> u8 {
    match action {
        Action::Read => 0,
        Action::Update | Action::Insert => 1,
        Action::Delete | Action::Expire => 2,
        Action::Scan => 3,
        Action::ReadModifyWrite => 4,
    }
}

fn action_of(code: u8) -> Option<Action> {
    let actions =
        [Action::Read, Action::Update, Action::Delete, Action::Scan, Action::ReadModifyWrite];
    actions.get(usize::from(code)).copied()
}

fn has_size(action: Action) -> bool {
    !matches!(action, Action::Read | Action::Delete | Action::Expire)
}

/// Writes a trace.
pub struct Writer {
    path: PathBuf,
    output: zstd::Encoder<'static, BufWriter<File>>,
    records: u64,
    last: u64,
}

impl Writer {
    /// Creates `path`; what was there is lost.
    pub fn create(path: &Path) -> Result<Self> {
        let create = || {
            let mut file = BufWriter::new(File::create(path)?);
            file.write_all(&MAGIC)?;
            zstd::Encoder::new(file, LEVEL)
        };
        let output = create().map_err(BenchError::io("create", path))?;
        Ok(Self { path: path.to_owned(), output, records: 0, last: 0 })
    }

    /// Adds an operation at `at` microseconds; a time before that of the last one becomes that.
    pub fn add(&mut self, at: u64, action: Action, key: &[u8], size: u64) -> Result<()> {
        let at = at.max(self.last);
        let mut bytes = Vec::with_capacity(key.len() + 24);
        put_varint(&mut bytes, at - self.last);
        bytes.push(code_of(action));
        put_varint(&mut bytes, key.len() as u64);
        bytes.extend_from_slice(key);
        if has_size(action) {
            put_varint(&mut bytes, size);
        }
        self.output.write_all(&bytes).map_err(BenchError::io("write to", &self.path))?;
        (self.last, self.records) = (at, self.records + 1);
        Ok(())
    }

    /// Ends the trace; returns its number of records. Without this it reads as one that was cut.
    pub fn finish(self) -> Result<u64> {
        let Self { path, mut output, records, .. } = self;
        let mut bytes = Vec::new();
        put_varint(&mut bytes, 0);
        bytes.push(END);
        put_varint(&mut bytes, records);
        let finished = output
            .write_all(&bytes)
            .and_then(|()| output.finish())
            .and_then(|file| file.into_inner().map_err(io::IntoInnerError::into_error))
            .and_then(|file| file.sync_all());
        finished.map_err(BenchError::io("write to", &path))?;
        Ok(records)
    }
}

/// Reads a trace, record by record.
pub struct Reader {
    path: PathBuf,
    input: BufReader<zstd::Decoder<'static, BufReader<File>>>,
    records: u64,
    ended: bool,
}

impl Reader {
    /// Opens `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = || BenchError::io("read", path);
        let mut file = BufReader::new(File::open(path).map_err(failed())?);
        let mut magic = [0; MAGIC.len()];
        let read = file.read_exact(&mut magic);
        if read.is_err() || magic[..8] != MAGIC[..8] {
            return Err(bad(path, "is no trace; `cleave trace record` writes one".into()));
        }
        if magic != MAGIC {
            return Err(bad(path, format!("has version {} of the format, not 1", magic[8])));
        }
        let input = zstd::Decoder::with_buffer(file).map_err(failed())?;
        let (path, input) = (path.to_owned(), BufReader::with_capacity(1 << 16, input));
        Ok(Self { path, input, records: 0, ended: false })
    }

    /// Reads the next record over `record`; false at the end.
    pub fn next(&mut self, record: &mut Record) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let read = self.read(record).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                bad(&self.path, format!("was cut after {} records", self.records))
            }
            _ => bad(&self.path, format!("record {}: {error}", self.records + 1)),
        })?;
        self.ended = !read;
        self.records += u64::from(read);
        Ok(read)
    }

    fn read(&mut self, record: &mut Record) -> io::Result<bool> {
        let invalid = |what: &str| io::Error::new(ErrorKind::InvalidData, what.to_owned());
        let after = varint(&mut self.input)?;
        let code = byte(&mut self.input)?;
        if code == END {
            let records = varint(&mut self.input)?;
            return match records == self.records {
                true => Ok(false),
                false => Err(invalid("the end counts other records than there are")),
            };
        }
        record.action = action_of(code).ok_or_else(|| invalid("unknown action"))?;
        record.at = record.at.saturating_add(after);
        let len = varint(&mut self.input)?;
        if len > KEY_MAX {
            return Err(invalid("the key is longer than 1 MiB"));
        }
        record.key.resize(len as usize, 0);
        self.input.read_exact(&mut record.key)?;
        record.size = if has_size(record.action) { varint(&mut self.input)? } else { 0 };
        Ok(true)
    }
}

fn bad(path: &Path, what: String) -> BenchError {
    BenchError::Usage(format!("{} {what}", path.display()))
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn byte(input: &mut impl Read) -> io::Result<u8> {
    let mut byte = [0];
    input.read_exact(&mut byte)?;
    Ok(byte[0])
}

fn varint(input: &mut impl Read) -> io::Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = byte(input)?;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(io::Error::new(ErrorKind::InvalidData, "a number has more than 64 bits"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Reader, Record, Writer};
    use crate::error::Result;
    use crate::workload::Action;

    fn records() -> Vec<Record> {
        let record = |at, action, key: &[u8], size| Record { at, action, key: key.to_vec(), size };
        vec![
            record(0, Action::Update, b"one", 1 << 20),
            record(5, Action::Read, b"", 0),
            record(5, Action::Scan, &[0xFF; 300], 100),
            record(1 << 40, Action::Delete, b"\n", 0),
            record(1 << 40, Action::ReadModifyWrite, b"one", 0),
        ]
    }

    fn write(path: &Path) {
        let mut writer = Writer::create(path).unwrap();
        for Record { at, action, key, size } in records() {
            writer.add(at, action, &key, size).unwrap();
        }
        assert_eq!(writer.finish().unwrap(), 5);
    }

    fn read(path: &Path) -> Result<Vec<Record>> {
        let (mut reader, mut record) = (Reader::open(path)?, Record::default());
        let mut records = Vec::new();
        while reader.next(&mut record)? {
            records.push(record.clone());
        }
        assert!(!reader.next(&mut record)?, "the end stays the end");
        Ok(records)
    }

    #[test]
    fn a_trace_reads_back_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        write(&path);
        assert_eq!(read(&path).unwrap(), records());
    }

    #[test]
    fn a_cut_or_foreign_file_is_refused_in_words() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        write(&path);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(read(&path).is_err(), "cut to {cut} of {}", whole.len());
        }
        let mut newer = whole.clone();
        newer[8] = 2;
        std::fs::write(&path, newer).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("version 2"));
        std::fs::write(&path, "a text").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("is no trace"));
    }

    #[test]
    fn an_action_is_recorded_as_the_store_sees_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let mut writer = Writer::create(&path).unwrap();
        writer.add(9, Action::Insert, b"k", 7).unwrap();
        writer.add(3, Action::Expire, b"k", 7).unwrap();
        writer.finish().unwrap();
        let read = read(&path).unwrap();
        assert_eq!((read[0].action, read[0].size), (Action::Update, 7));
        assert_eq!((read[1].action, read[1].size, read[1].at), (Action::Delete, 0, 9));
    }
}
