//! The digests that scripts are named by.

use sha1::{Digest, Sha1};

/// The digest of a text, in hexadecimal digits.
pub fn sha1_hex(text: &[u8]) -> String {
    let digits = Sha1::digest(text).into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
