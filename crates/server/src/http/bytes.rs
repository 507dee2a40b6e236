//! Bytes as JSON has them: a text, or hexadecimal digits.

use serde::{Deserialize, Serialize};

/// Bytes as JSON: a text, or hexadecimal digits.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum ShownBytes {
    Text(String),
    Hex { hex: String },
}

impl ShownBytes {
    /// The first bytes, at most `most`; of a text whole letters.
    pub(super) fn begin(bytes: &[u8], most: usize) -> Self {
        let begin = &bytes[..bytes.len().min(most)];
        match str::from_utf8(begin) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(why) if begin.len() < bytes.len() && why.error_len().is_none() => {
                Self::Text(String::from_utf8_lossy(&begin[..why.valid_up_to()]).into_owned())
            }
            Err(_) => Self::Hex { hex: hex(begin) },
        }
    }

    /// The bytes; none if the digits are not pairs of hexadecimal ones.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into()),
            Self::Hex { hex } => unhex(hex),
        }
    }
}

/// Two hexadecimal digits for each byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of [`hex`].
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_the_bytes_that_they_were() {
        for bytes in [&b""[..], b"a", b"\0\xff\x10"] {
            assert_eq!(unhex(&hex(bytes)), Some(bytes.to_vec()));
        }
        for text in ["0", "0g", "é", "+1", "00 "] {
            assert_eq!(unhex(text), None, "{text}");
        }
    }

    #[test]
    fn the_begin_of_a_text_is_a_text() {
        let text = |text: &str| ShownBytes::Text(text.to_owned());
        assert_eq!(ShownBytes::begin("aé".as_bytes(), 2), text("a"));
        assert_eq!(ShownBytes::begin("aé".as_bytes(), 3), text("aé"));
        assert_eq!(ShownBytes::begin(b"a\xc3", 9), ShownBytes::Hex { hex: "61c3".to_owned() });
        assert_eq!(ShownBytes::begin(b"\xff\xff", 1), ShownBytes::Hex { hex: "ff".to_owned() });
    }
}
