//! A key that was saved, as users get it.

use std::time::SystemTime;

use cleavedb_base::Lasting;

/// A key that was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved<'a> {
    /// Name of its keyspace.
    pub keyspace: &'a str,
    /// The key.
    pub key: &'a [u8],
    /// The value of the key.
    pub value: &'a [u8],
    /// When the value expires, or has expired; `None` if it stays.
    pub expires: Option<SystemTime>,
}

impl<'a> Saved<'a> {
    pub(super) fn of(keyspace: &'a str, key: &'a [u8], found: Lasting<&'a [u8]>) -> Self {
        Self { keyspace, key, value: found.value, expires: found.until.time() }
    }
}
