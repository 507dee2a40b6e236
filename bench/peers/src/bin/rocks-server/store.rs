//! The store: strings as the server keeps them, read and written with a wait or without one.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{BufMut, BytesMut};
use rocksdb::{DB, Error, ErrorKind, Options, ReadOptions, ReadTier, WriteBatch, WriteOptions};

use crate::resp::reply::{Protocol, Reply};

/// What stands in front of the bytes of a string without an end: the server's `model/record.rs`.
const STRING: u8 = 0;

/// An open RocksDB.
pub struct RocksStore {
    db: DB,
    /// Of reads that find what is in memory, and fail for the rest.
    resident: ReadOptions,
    /// Of writes that fail where they would be slowed down.
    at_once: WriteOptions,
    /// Whether something was written since the last sync.
    is_written: AtomicBool,
}

impl RocksStore {
    /// Opens the store in `dir`, which is made if it is not there.
    pub fn open(options: &Options, dir: &Path) -> Result<Self, Error> {
        let (mut resident, mut at_once) = (ReadOptions::default(), WriteOptions::default());
        resident.set_read_tier(ReadTier::BlockCache);
        at_once.set_no_slowdown(true);
        let is_written = AtomicBool::new(false);
        Ok(Self { db: DB::open(options, dir)?, resident, at_once, is_written })
    }

    /// Adds the reply of a GET to `output`, if no device is needed for it; whether it is there.
    pub fn get_resident(&self, key: &[u8], output: &mut BytesMut) -> bool {
        let found = self.db.get_pinned_opt(key, &self.resident);
        if is_elsewhere(&found) {
            return false;
        }
        reply(found.as_ref().map(Option::as_deref), output);
        true
    }

    /// The replies of GETs.
    pub fn get(&self, keys: &[&[u8]]) -> BytesMut {
        let mut output = BytesMut::new();
        if let [key] = keys {
            reply(self.db.get_pinned(key).as_ref().map(Option::as_deref), &mut output);
            return output;
        }
        for found in self.db.multi_get(keys) {
            reply(found.as_ref().map(Option::as_deref), &mut output);
        }
        output
    }

    /// Writes pairs of ranges of `input` as one and adds their replies to `output`, unless that
    /// takes a wait which the caller may not; whether it is done.
    pub fn set(
        &self,
        input: &[u8],
        pairs: &[[Range<usize>; 2]],
        may_wait: bool,
        output: &mut BytesMut,
    ) -> bool {
        let (mut batch, mut record) = (WriteBatch::default(), Vec::new());
        for [key, value] in pairs {
            record.clear();
            record.push(STRING);
            record.extend_from_slice(&input[value.clone()]);
            batch.put(&input[key.clone()], &record);
        }
        let written = match may_wait {
            true => self.db.write(batch),
            false => self.db.write_opt(batch, &self.at_once),
        };
        if is_elsewhere(&written) {
            return false;
        }
        self.is_written.store(true, Ordering::Relaxed);
        let reply = written.map_or_else(|error| failed(&error), |()| Reply::OK);
        pairs.iter().for_each(|_| reply.write(Protocol::Two, output));
        true
    }

    /// Has what was written so far survive a loss of power.
    pub fn sync(&self) -> Result<(), Error> {
        match self.is_written.swap(false, Ordering::Relaxed) {
            true => self.db.flush_wal(true),
            false => Ok(()),
        }
    }
}

/// Whether a call has failed because it may not wait.
fn is_elsewhere<T>(result: &Result<T, Error>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Incomplete)
}

fn failed(error: &Error) -> Reply {
    Reply::error(format!("ERR {error}"))
}

/// Adds the reply of a GET that has found this record.
fn reply(found: Result<Option<&[u8]>, &Error>, output: &mut BytesMut) {
    match found {
        Ok(Some([STRING, value @ ..])) => {
            output.put_u8(b'$');
            output.put_slice(itoa::Buffer::new().format(value.len()).as_bytes());
            output.put_slice(b"\r\n");
            output.put_slice(value);
            output.put_slice(b"\r\n");
        }
        Ok(Some(_)) => Reply::error("ERR no record of a string").write(Protocol::Two, output),
        Ok(None) => Reply::Nil.write(Protocol::Two, output),
        Err(error) => failed(error).write(Protocol::Two, output),
    }
}
