//! Expiry: the moment from which on a value is not there any more.
//!
//! A value that expires is stored behind its expiry: in its record, and in its index entry, where
//! the pointer takes the place of a separated value. Kinds of their own say so, so that values
//! without one cost nothing (`docs/format.md`, "Record").

use crate::error::{Error, Result};

/// The moment from which on a value is not there any more, in milliseconds since the beginning of
/// 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expiry(u64);

impl Expiry {
    /// The expiry of a value that stays.
    pub const NEVER: Self = Self(u64::MAX);

    /// Length of its encoding, in bytes.
    pub const LEN: usize = 8;

    /// The expiry at this moment, in milliseconds since the beginning of 1970. The greatest number
    /// means never.
    pub fn at(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the beginning of 1970; the greatest number if it never is.
    pub fn millis(self) -> u64 {
        self.0
    }

    /// Whether the value stays.
    #[inline]
    pub fn is_never(self) -> bool {
        self == Self::NEVER
    }

    /// Whether the value is not there any more at `now`, in milliseconds since 1970.
    #[inline]
    pub fn is_over(self, now: u64) -> bool {
        self.0 <= now
    }

    /// What stands in front of the value.
    #[inline]
    pub fn encode(self) -> [u8; Self::LEN] {
        self.0.to_le_bytes()
    }

    /// The expiry in front of `stored`, if it `expires`, and the value behind it.
    #[inline]
    pub fn split(expires: bool, stored: &[u8]) -> Result<(Self, &[u8])> {
        if !expires {
            return Ok((Self::NEVER, stored));
        }
        let (front, value) = stored
            .split_first_chunk::<{ Self::LEN }>()
            .ok_or_else(|| Error::corruption("a value that expires has no expiry"))?;
        Ok((Self(u64::from_le_bytes(*front)), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_over_from_its_expiry_on() {
        let expiry = Expiry::at(1000);
        assert!(!expiry.is_over(999) && expiry.is_over(1000) && expiry.is_over(1001));
        assert!(Expiry::NEVER.is_never() && !Expiry::NEVER.is_over(u64::MAX - 1));
    }

    #[test]
    fn an_expiry_stands_in_front_of_its_value() {
        let stored = [&Expiry::at(7).encode()[..], b"value"].concat();
        assert_eq!(Expiry::split(true, &stored).unwrap(), (Expiry::at(7), &b"value"[..]));
        assert_eq!(Expiry::split(false, b"value").unwrap(), (Expiry::NEVER, &b"value"[..]));
        assert!(Expiry::split(true, &stored[..7]).is_err());
    }
}
