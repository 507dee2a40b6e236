//! Expiry: the moment from which on a value is not there any more.
//!
//! A value that expires is stored behind its expiry: in its record, and in its index entry, where
//! the pointer takes the place of a separated value. Kinds of their own say so, so that values
//! without one cost nothing (`docs/format.md`, "Record").

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};
use crate::planted::{Bug, planted};

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

    /// The moment as users see it; `None` for never, and for what no clock can show.
    pub fn time(self) -> Option<SystemTime> {
        let since = Duration::from_millis(self.0);
        if self.is_never() { None } else { UNIX_EPOCH.checked_add(since) }
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

    /// Number of bytes that stand in front of the value; none if it stays.
    #[inline]
    pub fn front_len(self) -> usize {
        if self.is_never() { 0 } else { Self::LEN }
    }
}

/// A value, or where it lies, and until when it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lasting<T> {
    /// The value.
    pub value: T,
    /// The moment from which on it is not there any more.
    pub until: Expiry,
}

impl<T> Lasting<T> {
    /// A value that stays.
    #[inline]
    pub fn for_good(value: T) -> Self {
        Self { value, until: Expiry::NEVER }
    }

    /// What `of` makes of the value, until the same moment.
    #[inline]
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Lasting<U> {
        Lasting { value: of(self.value), until: self.until }
    }

    /// Whether the value is there at `now`, in milliseconds since 1970, which is asked for only if
    /// the value does not stay.
    #[inline]
    pub fn is_there(&self, now: impl FnOnce() -> u64) -> bool {
        self.until.is_never() || !self.until.is_over(now())
    }

    /// As [`Lasting::is_there`], for reads.
    #[inline]
    pub fn is_seen(&self, now: impl FnOnce() -> u64) -> bool {
        self.is_there(now) || planted(Bug::ExpiredIsRead)
    }
}

impl<'s> Lasting<&'s [u8]> {
    /// The value behind the expiry in front of `stored`, if it `expires`.
    #[inline]
    pub(crate) fn split(expires: bool, stored: &'s [u8]) -> Result<Self> {
        if !expires {
            return Ok(Self::for_good(stored));
        }
        let (front, value) = stored
            .split_first_chunk::<{ Expiry::LEN }>()
            .ok_or_else(|| Error::corruption("a value that expires has no expiry"))?;
        Ok(Self { value, until: Expiry(u64::from_le_bytes(*front)) })
    }

    /// The value as it is stored: behind its expiry, if it has one.
    pub fn stored(self) -> Cow<'s, [u8]> {
        match self.until.is_never() {
            true => Cow::Borrowed(self.value),
            false => Cow::Owned([&self.until.encode()[..], self.value].concat()),
        }
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
        assert_eq!(expiry.time(), Some(UNIX_EPOCH + Duration::from_secs(1)));
        assert_eq!(Expiry::NEVER.time(), None);
        let value = Lasting { value: (), until: expiry };
        assert!(value.is_there(|| 999) && !value.is_there(|| 1000));
        assert!(
            Lasting::for_good(()).is_there(|| unreachable!("a value that stays needs no time"))
        );
    }

    #[test]
    fn an_expiry_stands_in_front_of_its_value() {
        for until in [Expiry::at(7), Expiry::NEVER] {
            let value = Lasting { value: &b"value"[..], until };
            let stored = value.stored();
            assert_eq!(stored.len(), until.front_len() + 5);
            assert_eq!(Lasting::split(!until.is_never(), &stored).unwrap(), value);
        }
        assert!(Lasting::split(true, &[0; 7]).is_err());
    }
}
