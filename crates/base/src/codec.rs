//! Little-endian and varint encoding, and a bounds-checked cursor to read them back.
//!
//! Every decoder of the project reads through [`Cursor`], so a length taken from a file is checked
//! against the bytes that are there before anything is sliced or allocated.

use crate::error::{Error, Result};

/// Longest varint, in bytes: 64 bits at 7 a byte.
pub const VARINT_LEN_MAX: usize = 10;

/// Appends `value` as a varint, 7 bits a byte, lowest first.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Length of `value` as a varint, in bytes.
pub fn varint_len(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Writes `value` as a varint to the front of `out`, which has room for it; returns its length.
#[inline]
pub fn write_varint(out: &mut [u8], mut value: u64) -> usize {
    let mut at = 0;
    while value >= 0x80 {
        out[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    out[at] = value as u8;
    at + 1
}

/// Appends `bytes` behind their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads a varint from the front of `bytes`: the value and its length, or `None` if it is cut or
/// longer than 64 bits.
#[inline]
pub fn get_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().enumerate().take(VARINT_LEN_MAX) {
        if i == VARINT_LEN_MAX - 1 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Reads fields off the front of a slice; `what` names it in errors.
pub struct Cursor<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    #[cold]
    fn cut(&self) -> Error {
        Error::corruption(format!("{} ends before its last field", self.what))
    }

    /// Bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.cut())?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.cut())?;
        self.rest = rest;
        Ok(*head)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// The next 16-bit little-endian integer.
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// The next 32-bit little-endian integer.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next 64-bit little-endian integer.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// The next varint.
    pub fn varint(&mut self) -> Result<u64> {
        let (value, len) = get_varint(self.rest).ok_or_else(|| self.cut())?;
        self.rest = &self.rest[len..];
        Ok(value)
    }

    /// The next varint, which must fit `u32`.
    pub fn varint_u32(&mut self) -> Result<u32> {
        let value = self.varint()?;
        u32::try_from(value)
            .map_err(|_| Error::corruption(format!("{} holds a number above its range", self.what)))
    }

    /// The next length-prefixed bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.varint()?;
        let len = usize::try_from(len).map_err(|_| self.cut())?;
        self.take(len)
    }

    /// Fails unless everything was read: trailing bytes mean that reader and writer disagree.
    pub fn end(&self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(Error::corruption(format!("{} has bytes after its last field", self.what)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_length() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(varint_len(value), out.len());
                assert_eq!(get_varint(&out), Some((value, out.len())));
                assert_eq!(get_varint(&out[..out.len() - 1]), None, "a cut varint is refused");
            }
        }
    }

    #[test]
    fn a_varint_above_64_bits_is_refused() {
        assert_eq!(get_varint(&[0xff; 11]), None);
        assert_eq!(get_varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), None);
    }

    #[test]
    fn a_length_beyond_the_end_is_corruption() {
        let mut out = Vec::new();
        put_varint(&mut out, u64::MAX);
        out.extend_from_slice(b"abc");
        assert!(Cursor::new(&out, "test field").bytes().is_err());
    }
}
