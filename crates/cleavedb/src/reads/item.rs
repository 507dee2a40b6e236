//! What ranges and cursors return: a key and its value.

use bytes::Bytes;

/// A key and its value. Either may share memory with its neighbours (a value with the cached block
/// that holds it), so copy the few items that are to be kept from a long scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The key.
    pub key: Bytes,
    /// The value of the key; empty in a range of keys only.
    pub value: Bytes,
}
