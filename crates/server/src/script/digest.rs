//! The digests that scripts are named by.

use sha1::{Digest, Sha1};

/// The digest of a text, in hexadecimal digits.
pub fn sha1_hex(text: &[u8]) -> String {
    Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
