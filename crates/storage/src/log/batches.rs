//! Whole batches of a log file, in their order: what a replay, and a reader beside the writer, take
//! from it.

use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{HEADER_LEN, Header, PayloadCheck};
use cleavedb_base::{Error, Result};

use super::reader::LogReader;

/// An operation of a batch.
pub struct LoggedOp {
    /// Where its record begins in the log file.
    pub offset: u64,
    /// The header of its record.
    pub header: Header,
    /// The user key of the operation.
    pub key: Vec<u8>,
    /// The value of the operation; of a separated one only its expiry, unless `whole`.
    pub value: Vec<u8>,
    /// Whether the value is here although it is separated: the file may not have it yet.
    pub whole: bool,
}

/// Which separated values are read with their records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// None: a pointer to the record suffices.
    None,
    /// All of them.
    All,
    /// Values of records that the log file does not hold whole: a writer may overwrite the window.
    InWindow,
}

/// Reads a log file batch by batch.
pub struct Batches<'r, 'f> {
    reader: &'r mut LogReader<'f>,
    values: Values,
    /// Offset behind the last whole batch, and behind the sync marker that follows it.
    end: u64,
}

impl<'r, 'f> Batches<'r, 'f> {
    /// The batches from where `reader` stands.
    pub fn new(reader: &'r mut LogReader<'f>, values: Values) -> Self {
        let end = reader.offset();
        Self { reader, values, end }
    }

    /// Offset behind the last whole batch; a sync marker behind it is passed, since it stays valid
    /// even if the batch that begins there is torn. A later reader may begin here.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Fills `batch` with the next whole batch; false if there is none.
    pub fn next(&mut self, batch: &mut Vec<LoggedOp>) -> Result<bool> {
        batch.clear();
        loop {
            let Some((offset, record)) = self.reader.next_record()? else {
                if batch.is_empty() {
                    // The mark of a close is behind the last record.
                    self.end = self.reader.offset();
                }
                return Ok(false);
            };
            let header = record.header;
            let (key, value) = (record.key.to_vec(), record.value.to_vec());
            if batch.is_empty() && !planted(Bug::TornBatchTakesMark) {
                self.end = offset;
            }
            if header.kind.is_operation() {
                let mut op = LoggedOp { offset, header, key, value, whole: false };
                if self.is_wanted(&op) && !self.complete(&mut op)? {
                    return Ok(false);
                }
                batch.push(op);
            }
            if header.kind.is_operation() && header.more && !planted(Bug::HalfBatch) {
                continue;
            }
            self.end = self.reader.offset();
            return Ok(true);
        }
    }

    /// Whether the value of a record is to be read with it.
    fn is_wanted(&self, op: &LoggedOp) -> bool {
        let end = op.offset + op.header.record_len() as u64;
        let in_file = || end <= self.reader.file_len() || planted(Bug::WindowPointedTo);
        op.header.kind.is_separated()
            && match self.values {
                Values::None => false,
                Values::InWindow => !in_file(),
                Values::All => true,
            }
    }

    /// Reads the value of a separated record. False if its writer, another process, has overwritten
    /// the window since the record was checked: the log ends in front of it, for this reader.
    fn complete(&mut self, op: &mut LoggedOp) -> Result<bool> {
        let value_at = op.offset + (HEADER_LEN + op.key.len()) as u64;
        op.value = self.reader.read(value_at, op.header.value_len as usize)?;
        op.whole = true;
        let mut check = PayloadCheck::new(&op.header);
        check.update(&op.value);
        let matches = check.matches(&op.header, &op.key);
        if !matches && self.values == Values::All {
            let what = "a value in the log does not match its checksum";
            return Err(Error::corruption(what).with("offset", op.offset));
        }
        Ok(matches)
    }
}
