//! What a migration looks at before the exchange: every key, value and expiry of both databases.

use std::io::BufRead;

use cleavedb_base::{Error, ErrorKind, Result};

use crate::api::db::{Db, Keyspace};
use crate::control::progress::Progress;
use crate::reads::cursor::Cursor;
use crate::reads::value_reader::ValueReader;

/// Fails unless both databases hold the same; returns the bytes of their keys and values.
pub(super) fn check_same(source: &Db, copy: &Db, progress: &Progress) -> Result<u64> {
    progress.begin(source.metrics().data_bytes());
    let mut bytes = check_keyspace(&source.default, &copy.default, progress)?;
    for keyspace in source.keyspaces()? {
        let other = copy.find_keyspace(keyspace.name())?;
        let other = other.ok_or_else(|| differs("a keyspace", keyspace.name().as_bytes()))?;
        bytes += check_keyspace(&keyspace, &other, progress)?;
    }
    Ok(bytes)
}

fn check_keyspace(source: &Keyspace, copy: &Keyspace, progress: &Progress) -> Result<u64> {
    let (mut one, mut other, mut bytes) = (source.cursor(..), copy.cursor(..), 0);
    loop {
        let (is_there, is_copied) = (one.next()?, other.next()?);
        let key = one.key().or(other.key()).unwrap_or_default().to_vec();
        if is_there != is_copied || one.key() != other.key() {
            return Err(differs("a key", &key));
        }
        if !is_there {
            return Ok(bytes);
        }
        let len = key.len() as u64 + check_value([source, copy], &key, [&mut one, &mut other])?;
        bytes += len;
        progress.add(len)?;
    }
}

/// Fails unless `cursors`, both on `key`, have the same value, or the same operands that cannot be
/// applied; returns the length of the value.
fn check_value(keyspaces: [&Keyspace; 2], key: &[u8], cursors: [&mut Cursor; 2]) -> Result<u64> {
    let [one, other] = cursors.map(|cursor| match cursor.reader() {
        Err(e) if e.kind() == ErrorKind::Merge => Ok(None),
        reader => reader,
    });
    match (one?, other?) {
        (Some(one), Some(other)) if one.len() == other.len() => {
            let (len, same) = (one.len(), one.expires() == other.expires());
            if same && is_same(one, other)? { Ok(len) } else { Err(differs("a value", key)) }
        }
        (None, None) => {
            let [one, other] = keyspaces.map(|keyspace| keyspace.unmerged(key));
            if one? == other? { Ok(0) } else { Err(differs("an operand", key)) }
        }
        _ => Err(differs("a value", key)),
    }
}

/// Whether two values of one length have the same bytes.
fn is_same(mut one: ValueReader, mut other: ValueReader) -> Result<bool> {
    let failed = |e| Error::io("read a value", e);
    loop {
        let (left, right) = (one.fill_buf().map_err(failed)?, other.fill_buf().map_err(failed)?);
        let len = left.len().min(right.len());
        if len == 0 || left[..len] != right[..len] {
            return Ok(len == 0);
        }
        one.consume(len);
        other.consume(len);
    }
}

#[cold]
fn differs(what: &str, key: &[u8]) -> Error {
    let what = format!(
        "{what} of the copy differs from that of the database, which stays as it was; remove the \
         subdirectory `cleavedb-migration`, and migrate again"
    );
    Error::corruption(what).with("key", key.escape_ascii())
}
