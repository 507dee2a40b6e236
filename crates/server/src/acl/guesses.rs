//! Wrong passwords, by the address that sends them: after a few, answers come late.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Wrong passwords of an address that are answered at once.
const FREE: u32 = 5;

/// How late further answers come.
const DELAY: Duration = Duration::from_secs(3);

/// How long an address is remembered after its last wrong password.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Addresses that are remembered at once; beyond, all are forgotten that may be.
const ADDRESSES_MAX: usize = 4096;

/// Wrong passwords by address. Those from this machine do not count, since all clients behind a
/// proxy come from there.
#[derive(Default)]
pub struct Guesses(Mutex<HashMap<IpAddr, (u32, Instant)>>);

impl Guesses {
    /// Notes a password of an address, and says how late the answer is to come, right or wrong: an
    /// early answer would tell which it is.
    pub fn note(&self, address: Option<IpAddr>, is_right: bool) -> Duration {
        let Some(address) = address.filter(|address| !address.is_loopback()) else {
            return Duration::ZERO;
        };
        let (address, now) = (network(address), Instant::now());
        let mut known = self.0.lock();
        if known.len() >= ADDRESSES_MAX {
            known.retain(|_, (_, last)| now - *last < REMEMBERED);
        }
        let recent = known.get(&address).filter(|(_, last)| now - *last < REMEMBERED);
        let before = recent.map_or(0, |(count, _)| *count);
        if !is_right && (known.len() < ADDRESSES_MAX || before > 0) {
            known.insert(address, (before.saturating_add(1), now));
        }
        if before >= FREE { DELAY } else { Duration::ZERO }
    }
}

/// What one owner has: an address, or of version 6 its first half.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => IpAddr::V6((six.to_bits() >> 64 << 64).into()),
        four @ IpAddr::V4(_) => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixth_wrong_password_is_answered_late_and_so_is_the_right_one() {
        let guesses = Guesses::default();
        let note = |address: &str, is_right| guesses.note(Some(address.parse().unwrap()), is_right);
        for _ in 0..FREE {
            assert_eq!(note("2001:db8::1", false), Duration::ZERO);
            assert_eq!(note("192.0.2.1", true), Duration::ZERO);
            assert_eq!(note("127.0.0.1", false), Duration::ZERO);
        }
        assert_eq!(note("2001:db8::2", false), DELAY, "one network");
        assert_eq!(note("2001:db8::1", true), DELAY);
        for address in ["192.0.2.1", "127.0.0.1", "2001:db8:0:1::1"] {
            assert_eq!(note(address, false), Duration::ZERO, "{address}");
        }
        assert_eq!(guesses.note(None, false), Duration::ZERO);
    }

    #[test]
    fn memory_is_bounded() {
        let guesses = Guesses::default();
        for number in 0..2 * ADDRESSES_MAX as u32 {
            guesses.note(Some(IpAddr::V4(number.wrapping_add(0x0a00_0000).into())), false);
        }
        assert_eq!(guesses.0.lock().len(), ADDRESSES_MAX);
    }
}
