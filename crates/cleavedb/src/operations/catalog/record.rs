//! What is stored of a keyspace: its name is the key of a record, its id and its options the value.

use cleavedb_base::codec::{Cursor, put_varint};
use cleavedb_base::{Error, KeyspaceId, Result};

use crate::settings::keyspace_options::KeyspaceOptions;

/// First byte of a key of the system keyspace, by what its record is about: the name of a keyspace,
/// a dictionary, a range delete, and which of these were forgotten.
pub(crate) const NAMES: u8 = b'k';
pub(crate) const DICTIONARIES: u8 = b'd';
pub(crate) const RANGES: u8 = b'r';
pub(crate) const FORGOTTEN: u8 = b'f';

/// The kinds that change nothing for users.
pub(crate) const UNTOLD: [u8; 2] = [DICTIONARIES, FORGOTTEN];

/// The key, in the system keyspace, of the keyspace `name`.
pub(crate) fn name_key(name: &str) -> Vec<u8> {
    [&[NAMES], name.as_bytes()].concat()
}

/// What is stored of a keyspace under its name.
pub(crate) fn encode(id: KeyspaceId, options: KeyspaceOptions) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, u64::from(id.0));
    options.encode(&mut out);
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
    Ok((name.to_owned(), id, KeyspaceOptions::decode(&mut cursor)?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cleavedb_base::ErrorKind;
    use cleavedb_values::ValueCompression;

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
