//! Bytes as text: escaped in a listing, hex on a command line, JSON.
//!
//! Keys and values are bytes; every form here keeps all of them.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use data_encoding::{BASE64, HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::failure::{Failure, Result};

/// The bytes of an argument: its own, or those of its hex digits.
pub fn from_argument(argument: &OsStr, hex: bool) -> Result<Vec<u8>> {
    if hex { from_hex(argument.as_bytes()) } else { Ok(argument.as_bytes().to_vec()) }
}

/// The bytes of hex digits; white space around them is ignored.
pub fn from_hex(digits: &[u8]) -> Result<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(digits.trim_ascii()).map_err(|error| {
        let shown = escape(&digits[..digits.len().min(40)]);
        Failure::Usage(format!("\"{shown}\" is not hex, which --hex asks for: {error}"))
    })
}

/// Hex digits, two a byte.
pub fn to_hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Printable text as it is, everything else as C would write it: `\t`, `\n`, `\r`, `\\`, `\x00`.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\\' => text.push_str("\\\\"),
                control if control.is_control() => {
                    let mut buffer = [0; 4];
                    escape_bytes(control.encode_utf8(&mut buffer).as_bytes(), &mut text);
                }
                printable => text.push(printable),
            }
        }
        escape_bytes(chunk.invalid(), &mut text);
    }
    text
}

fn escape_bytes(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        text.push_str("\\x");
        text.push_str(&HEXLOWER.encode(&[*byte]));
    }
}

/// Bytes in JSON, to be written: a string if they are UTF-8, else `{"base64": "..."}`; if `hex` is
/// set, `{"hex": "..."}`.
#[derive(Clone, Copy, Debug)]
pub struct JsonBytes<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether the user asked for hex.
    pub hex: bool,
}

impl Serialize for JsonBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let (form, text) = match str::from_utf8(self.bytes) {
            _ if self.hex => ("hex", to_hex(self.bytes)),
            Ok(text) => return serializer.serialize_str(text),
            Err(_) => ("base64", BASE64.encode(self.bytes)),
        };
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(form, &text)?;
        map.end()
    }
}

/// Bytes in JSON, as read: any of the three forms that [`JsonBytes`] writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromJson(pub Vec<u8>);

impl<'de> Deserialize<'de> for FromJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = FromJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, {\"base64\": \"...\"} or {\"hex\": \"...\"}")
    }

    fn visit_str<E: Error>(self, text: &str) -> std::result::Result<FromJson, E> {
        Ok(FromJson(text.as_bytes().to_vec()))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> std::result::Result<FromJson, M::Error> {
        let Some((form, text)) = map.next_entry::<String, String>()? else {
            return Err(M::Error::invalid_length(0, &self));
        };
        let decoded = match form.as_str() {
            "base64" => BASE64.decode(text.as_bytes()),
            "hex" => HEXLOWER_PERMISSIVE.decode(text.as_bytes()),
            other => return Err(M::Error::unknown_field(other, &["base64", "hex"])),
        };
        let bytes = decoded.map_err(|e| M::Error::custom(format!("bad {form}: {e}")))?;
        match map.next_key::<String>()? {
            None => Ok(FromJson(bytes)),
            Some(_) => Err(M::Error::invalid_length(2, &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_show_every_byte_and_leave_text_alone() {
        assert_eq!(escape("héllo, 世界".as_bytes()), "héllo, 世界");
        assert_eq!(escape(b"a\tb\nc\r\\"), "a\\tb\\nc\\r\\\\");
        assert_eq!(escape(b"\0\x1b[31m\xff\xc3"), "\\x00\\x1b[31m\\xff\\xc3");
        assert_eq!(escape("\u{85}".as_bytes()), "\\xc2\\x85", "a control character of two bytes");
    }

    #[test]
    fn json_gives_back_what_it_was_given() {
        for bytes in [&b"text \"quoted\""[..], b"\xff\x00", b"", "\u{1f600}".as_bytes()] {
            for hex in [false, true] {
                let json = serde_json::to_string(&JsonBytes { bytes, hex }).unwrap();
                assert_eq!(serde_json::from_str::<FromJson>(&json).unwrap().0, bytes, "{json}");
            }
        }
        for wrong in ["1", "{}", "{\"base64\":\"?\"}", "{\"octal\":\"7\"}", "null"] {
            assert!(serde_json::from_str::<FromJson>(wrong).is_err(), "{wrong}");
        }
        let two = "{\"hex\":\"00\",\"base64\":\"AA==\"}";
        assert!(serde_json::from_str::<FromJson>(two).is_err());
    }

    #[test]
    fn hex_is_refused_with_a_reason() {
        assert_eq!(from_hex(b" 00fFa1\n").unwrap(), [0, 0xff, 0xa1]);
        let refused = from_hex(b"0g").unwrap_err().to_string();
        assert!(refused.contains("\"0g\" is not hex"), "{refused}");
        assert!(from_hex(b"123").is_err());
    }
}
