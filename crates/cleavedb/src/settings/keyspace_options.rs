//! Options of a keyspace, and how they are stored (`docs/format.md`, "System keyspace").

use std::time::Duration;

use cleavedb_base::codec::{Cursor, put_varint};
use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_values::ValueCompression;

use crate::settings::time::{Lifetime, whole_millis};

/// Tags of stored options.
const MIN_SEPARATED: u64 = 1;
const TTL: u64 = 2;
const COMPRESSION: u64 = 3;

/// Options of a keyspace, stored with it.
///
/// All keyspaces share the memory, the index and the files of their database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// Length from which on values leave the index, in bytes; 0 separates every value. Default:
    /// that of the database ([`crate::Options::min_separated`]).
    pub min_separated: Option<usize>,
    /// How long values live that are put without a time to live of their own: after that they are
    /// not there any more. Stored in milliseconds, rounded up. Default: for good.
    pub ttl: Option<Duration>,
    /// How values that leave the index are compressed; those that stay in it are with its blocks,
    /// of all keyspaces alike ([`crate::Options::compression`]). Default: as those of the database
    /// ([`crate::Options::value_compression`]).
    pub compression: Option<ValueCompression>,
}

impl KeyspaceOptions {
    /// How long values live that have no lifetime of their own.
    pub(crate) fn lifetime(&self) -> Lifetime {
        Lifetime::after(self.ttl)
    }

    /// Appends the options that are set, each behind its tag.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let ttl = self.ttl.map(whole_millis);
        let options = [
            (MIN_SEPARATED, self.min_separated.map(|least| least as u64)),
            (TTL, ttl),
            (COMPRESSION, self.compression.map(|compression| compression as u64)),
        ];
        for (tag, option) in options {
            if let Some(option) = option {
                put_varint(out, tag);
                put_varint(out, option);
            }
        }
    }

    /// Reads what is left as options.
    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let mut options = Self::default();
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
        Ok(options)
    }
}

fn decode_compression(stored: u64) -> Result<ValueCompression> {
    let mut all = ValueCompression::ALL.into_iter().map(|(_, compression)| compression);
    all.find(|compression| *compression as u64 == stored).ok_or_else(|| {
        let what = "a keyspace is compressed in a way that this release does not know";
        Error::new(ErrorKind::NewerFormat, what).with("compression", stored)
    })
}
