//! What is stored of a keyspace: its name is the key of a record, its id and its options the value.

use std::time::Duration;

use cleavedb_base::codec::{Cursor, put_varint};
use cleavedb_base::{Error, ErrorKind, KeyspaceId, Result};
use cleavedb_values::ValueCompression;

use super::KeyspaceOptions;

/// First byte of the keys of the system keyspace that name a keyspace.
pub(crate) const NAMES: u8 = b'k';

/// Tags of options in a record.
const MIN_SEPARATED: u64 = 1;
const TTL: u64 = 2;
const COMPRESSION: u64 = 3;

/// The key, in the system keyspace, of the keyspace `name`.
pub(crate) fn name_key(name: &str) -> Vec<u8> {
    [&[NAMES], name.as_bytes()].concat()
}

/// What is stored of a keyspace under its name.
pub(crate) fn encode(id: KeyspaceId, options: KeyspaceOptions) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, u64::from(id.0));
    if let Some(least) = options.min_separated {
        put_varint(&mut out, MIN_SEPARATED);
        put_varint(&mut out, least as u64);
    }
    if let Some(ttl) = options.ttl {
        put_varint(&mut out, TTL);
        put_varint(&mut out, u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX));
    }
    if let Some(compression) = options.compression {
        put_varint(&mut out, COMPRESSION);
        put_varint(&mut out, compression as u64);
    }
    out
}

/// Reads the name of a keyspace from its key, and its id and its options from its value.
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<(String, KeyspaceId, KeyspaceOptions)> {
    let name = key.strip_prefix(&[NAMES]).and_then(|name| str::from_utf8(name).ok());
    let name = name.ok_or_else(|| Error::corruption("a keyspace has no name"))?;
    let mut cursor = Cursor::new(value, "keyspace");
    let id = u16::try_from(cursor.varint()?).ok().map(KeyspaceId);
    let id = id.filter(|id| ![KeyspaceId::DEFAULT, KeyspaceId::SYSTEM].contains(id));
    let id = id.ok_or_else(|| Error::corruption("a keyspace has an id that it cannot have"))?;
    let mut options = KeyspaceOptions::default();
    while !cursor.is_empty() {
        match cursor.varint()? {
            MIN_SEPARATED => {
                let least = usize::try_from(cursor.varint()?).unwrap_or(usize::MAX);
                options.min_separated = Some(least);
            }
            TTL => options.ttl = Some(Duration::from_millis(cursor.varint()?)),
            COMPRESSION => options.compression = Some(decode_compression(cursor.varint()?)?),
            tag => {
                let what = "a keyspace has an option that this release does not know";
                return Err(Error::new(ErrorKind::NewerFormat, what).with("option", tag));
            }
        }
    }
    Ok((name.to_owned(), id, options))
}

fn decode_compression(stored: u64) -> Result<ValueCompression> {
    let mut all = ValueCompression::ALL.into_iter().map(|(_, compression)| compression);
    all.find(|compression| *compression as u64 == stored).ok_or_else(|| {
        let what = "a keyspace is compressed in a way that this release does not know";
        Error::new(ErrorKind::NewerFormat, what).with("compression", stored)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_every_truncation_is_refused() {
        for min_separated in [None, Some(0), Some(70_000)] {
            let ttl = min_separated.map(|least| Duration::from_millis(least as u64));
            let compression = min_separated.map(|_| ValueCompression::ZstdDictionary);
            let options = KeyspaceOptions { min_separated, ttl, compression };
            let (key, value) = (name_key("users"), encode(KeyspaceId(513), options));
            assert_eq!(decode(&key, &value).unwrap(), ("users".into(), KeyspaceId(513), options));
            // Without some of its options a record is whole, too.
            let len = |options| encode(KeyspaceId(513), options).len();
            let one = KeyspaceOptions { min_separated, ..KeyspaceOptions::default() };
            let whole = [KeyspaceOptions::default(), one, KeyspaceOptions { ttl, ..one }].map(len);
            for len in (0..value.len()).filter(|len| !whole.contains(len)) {
                assert!(decode(&key, &value[..len]).is_err(), "{len} of {} bytes", value.len());
            }
        }
        let refused = [(&b"k\xff"[..], &[1][..]), (b"kname", &[0]), (b"kname", &[255, 255, 3])];
        for (key, value) in refused {
            assert_eq!(decode(key, value).unwrap_err().kind(), ErrorKind::Corruption);
        }
        let newer = decode(b"kname", &[1, 77]).unwrap_err();
        assert_eq!(newer.kind(), ErrorKind::NewerFormat);
    }
}
