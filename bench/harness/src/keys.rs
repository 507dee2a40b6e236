//! Keys as YCSB makes them: `user`, then the hashed number of the record, 24 bytes in all; or the
//! same number in hexadecimal digits, 16 bytes, as many as the keys of `db_bench` have.
//!
//! Numbers are hashed so that records inserted one after another are scattered over the key space
//! (`insertorder=hashed`, the default of YCSB's `CoreWorkload`), and padded to 20 digits
//! (`zeropadding=20`), so that key order is the order of the hashes. Where neighbours matter the
//! number itself is spelled ([`KeyOrder`]); "hash" means whatever number a key spells. A key from
//! elsewhere (a trace) has a hash too, which no key of ours spells.

use std::ops::Deref;

use clap::ValueEnum;

use crate::hash::{fnv_hash, mix};

const LONGEST: usize = 24;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Deref for Key {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// How many bytes a key has, and so how it spells a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum KeySize {
    /// `user` and 20 decimal digits, as in YCSB
    #[default]
    #[value(name = "24")]
    Long,
    /// 16 hexadecimal digits
    #[value(name = "16")]
    Short,
}

impl KeySize {
    /// Bytes of a key.
    pub fn bytes(self) -> usize {
        match self {
            Self::Long => LONGEST,
            Self::Short => 16,
        }
    }

    /// The key of the record whose number hashes to `hash`.
    #[inline(always)]
    pub fn key(self, hash: u64) -> Key {
        let bytes = match self {
            Self::Long => decimal(hash),
            Self::Short => hexadecimal(hash),
        };
        Key { bytes, len: self.bytes() }
    }
}

const PREFIX: [u8; 4] = *b"user";

/// Set in the hash of every key that is not one of ours.
const FOREIGN: u64 = 1 << 63;

/// Numbers from here on are no record's: this one more than a record's has a key that is not there,
/// between others in every key order.
pub const ABSENT: u64 = 1 << ABSENT_BIT;
const ABSENT_BIT: u32 = 48;

/// Which key a record has, and in which order a load inserts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum KeyOrder {
    /// Keys are hashes of record numbers: a load inserts in random key order
    #[default]
    Hashed,
    /// Keys ascend with record numbers: a load inserts in key order
    Ordered,
    /// Keys ascend with record numbers: a load inserts in random key order
    Shuffled,
}

impl KeyOrder {
    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hashed => "hashed",
            Self::Ordered => "ordered",
            Self::Shuffled => "shuffled",
        }
    }

    /// What the key of record `number` spells.
    pub fn hash(self, number: u64) -> u64 {
        match self {
            Self::Hashed => fnv_hash(number),
            // Twice the number; one more beside it if that is absent.
            Self::Ordered | Self::Shuffled => (number % ABSENT) << 1 | number >> ABSENT_BIT,
        }
    }

    /// The number of the record whose key spells `hash`, where keys ascend with the numbers.
    pub fn number(self, hash: u64) -> Option<u64> {
        (self != Self::Hashed).then_some(hash >> 1)
    }
}

/// A permutation of the numbers below a bound: a Feistel network over the next power of four,
/// walked until it falls below the bound. Its rounds are a multiplication each, of which the upper
/// bits are kept: a load asks for every operation.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle {
    bound: u64,
    half_bits: u32,
    /// Odd factors, one for each round.
    factors: [u64; 4],
}

impl Shuffle {
    /// Of the numbers below `bound`, which is at least one.
    pub fn new(bound: u64, seed: u64) -> Self {
        let bits = u64::BITS - (bound - 1).leading_zeros();
        let factors = [0, 1, 2, 3].map(|round| mix(seed.wrapping_add(round)) | 1);
        Self { bound, half_bits: bits.div_ceil(2).max(1), factors }
    }

    /// Where `number` goes. Those beyond the bound begin again: walked from outside, the network
    /// need not come back.
    pub fn of(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let mut at = number % self.bound;
        loop {
            let (mut left, mut right) = (at >> self.half_bits, at & mask);
            for factor in self.factors {
                // Zero would stay zero.
                let scrambled = (right ^ factor).wrapping_mul(factor) >> (64 - self.half_bits);
                (left, right) = (right, left ^ scrambled);
            }
            at = left << self.half_bits | right;
            if at < self.bound {
                return at;
            }
        }
    }
}

/// FNV-1a over the bytes of a key that is not one of ours, with a mark that ours lack.
fn foreign_hash(key: &[u8]) -> u64 {
    mix(key.iter().fold(key.len() as u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
    })) | FOREIGN
}

/// A hash of any key: what one of ours spells, a marked one otherwise.
pub fn hash_of_any(key: &[u8]) -> u64 {
    hash_of_key(key).unwrap_or_else(|| foreign_hash(key))
}

/// The long key of `hash`.
#[inline(always)]
fn decimal(hash: u64) -> [u8; LONGEST] {
    const EIGHT_DIGITS: u64 = 100_000_000;
    let mut key = [b'0'; LONGEST];
    key[..4].copy_from_slice(&PREFIX);
    let (upper, lowest) = (hash / EIGHT_DIGITS, hash % EIGHT_DIGITS);
    let (highest, middle) = (upper / EIGHT_DIGITS, upper % EIGHT_DIGITS);
    // The highest number has four digits at most: its other four places are the prefix's.
    key[4..8].copy_from_slice(&digits_of_fours(highest << 32)[4..]);
    key[8..16].copy_from_slice(&eight_digits(middle));
    key[16..].copy_from_slice(&eight_digits(lowest));
    key
}

/// The decimal digits of `number`, which is below 10^8, all eight at once: the harness makes a key
/// for every operation, and divisions one after another would dominate it. Each step halves every
/// lane of the word: one of eight digits, two of four, four of two, eight of one.
fn eight_digits(number: u64) -> [u8; 8] {
    digits_of_fours((number / 10_000) | ((number % 10_000) << 32))
}

/// The decimal digits from two lanes of four digits, the first in the lower one.
fn digits_of_fours(fours: u64) -> [u8; 8] {
    const FOURS: u64 = 0x0000_007F_0000_007F;
    const TWOS: u64 = 0x000F_000F_000F_000F;
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    // Division by 100 as multiplication by 10486 / 2^20, by 10 as 103 / 2^10: exact in their
    // ranges.
    let hundreds = ((fours * 10_486) >> 20) & FOURS;
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & TWOS;
    let ones = tens | ((twos - tens * 10) << 8);
    (ones | ZEROS).to_le_bytes()
}

/// The short key of `hash`, with room behind it.
#[inline(always)]
fn hexadecimal(hash: u64) -> [u8; LONGEST] {
    let mut key = [0; LONGEST];
    key[..8].copy_from_slice(&hexadecimal_digits((hash >> 32) as u32));
    key[8..16].copy_from_slice(&hexadecimal_digits(hash as u32));
    key
}

/// The eight hexadecimal digits of `number`, all at once: each step spreads the halves of every
/// lane, until each digit has a byte.
fn hexadecimal_digits(number: u32) -> [u8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let fours = (u64::from(number) | u64::from(number) << 16) & 0x0000_FFFF_0000_FFFF;
    let twos = (fours | fours << 8) & 0x00FF_00FF_00FF_00FF;
    let digits = (twos | twos << 4) & (0x0F * ONES);
    let letters = ((digits + 6 * ONES) >> 4) & ONES;
    (digits + u64::from(b'0') * ONES + letters * u64::from(b'a' - b'0' - 10)).to_be_bytes()
}

/// The number that eight hexadecimal digits spell: the reverse of [`hexadecimal_digits`].
fn number_of_hexadecimal(digits: &[u8; 8]) -> Option<u32> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_be_bytes(*digits);
    let digits_alone = (word & (0x0F * ONES)) + ((word >> 6) & ONES) * 9;
    let digits_alone = digits_alone & (0x0F * ONES);
    let twos = (digits_alone | digits_alone >> 4) & 0x00FF_00FF_00FF_00FF;
    let fours = (twos | twos >> 8) & 0x0000_FFFF_0000_FFFF;
    let number = (fours | fours >> 16) as u32;
    // Whatever is no digit spells another number.
    (hexadecimal_digits(number) == *digits).then_some(number)
}

/// The hash that `key` spells, or `None` if it is not a key of ours: hashes have 63 bits.
pub fn hash_of_key(key: &[u8]) -> Option<u64> {
    let hash = match *key.as_chunks::<8>().0 {
        [upper, lower] if key.len() == KeySize::Short.bytes() => {
            let upper = u64::from(number_of_hexadecimal(&upper)?);
            upper << 32 | u64::from(number_of_hexadecimal(&lower)?)
        }
        _ => number_of_decimal(key)?,
    };
    (hash & FOREIGN == 0).then_some(hash)
}

/// The hash that a long key spells.
fn number_of_decimal(key: &[u8]) -> Option<u64> {
    let key: &[u8; LONGEST] = key.try_into().ok()?;
    let [prefixed, middle, lowest] = key.as_chunks::<8>().0 else { return None };
    let mut highest = [b'0'; 8];
    highest[4..].copy_from_slice(prefixed[..4].eq(&PREFIX).then_some(&prefixed[4..])?);
    let highest = number_of(&highest)?.checked_mul(10_000_000_000_000_000)?;
    let lower = number_of(middle)? * 100_000_000 + number_of(lowest)?;
    highest.checked_add(lower)
}

/// The number that eight decimal digits spell, all at once: the reverse of [`eight_digits`].
fn number_of(digits: &[u8; 8]) -> Option<u64> {
    const HIGH: u64 = 0xF0F0_F0F0_F0F0_F0F0;
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    const SIXES: u64 = 0x0606_0606_0606_0606;
    const BYTES: u64 = 0x00FF_00FF_00FF_00FF;
    const PAIRS: u64 = 0x0000_FFFF_0000_FFFF;
    let word = u64::from_le_bytes(*digits);
    if word & HIGH != ZEROS || word.wrapping_add(SIXES) & HIGH != ZEROS {
        return None;
    }
    let ones = word & !HIGH;
    let twos = (ones & BYTES) * 10 + ((ones >> 8) & BYTES);
    let fours = (twos & PAIRS) * 100 + ((twos >> 16) & PAIRS);
    Some((fours & 0xFFFF_FFFF) * 10_000 + (fours >> 32))
}

#[cfg(test)]
mod tests {
    use super::{ABSENT, FOREIGN, KeyOrder, KeySize, Shuffle, hash_of_any, hash_of_key};
    use crate::hash::fnv_hash;

    #[test]
    fn keys_are_those_of_ycsb() {
        // "user6284781860667377211" is the first key of every YCSB load.
        assert_eq!(fnv_hash(0), 6_284_781_860_667_377_211);
        assert_eq!(&*KeySize::Long.key(fnv_hash(0)), b"user06284781860667377211");
    }

    #[test]
    fn a_key_is_what_formatting_would_give() {
        let edges = (0..20).flat_map(|power| [10u64.pow(power) - 1, 10u64.pow(power)]);
        let many = (0..100_000).map(|number| fnv_hash(number) >> (number % 64));
        for hash in edges.chain(many).chain([u64::MAX]) {
            assert_eq!(&*KeySize::Long.key(hash), format!("user{hash:020}").as_bytes(), "{hash}");
            assert_eq!(&*KeySize::Short.key(hash), format!("{hash:016x}").as_bytes(), "{hash}");
        }
    }

    #[test]
    fn a_key_gives_its_hash_back() {
        for number in (0..1000).chain([u64::MAX]) {
            let hash = fnv_hash(number);
            for size in [KeySize::Long, KeySize::Short] {
                assert_eq!(hash_of_key(&size.key(hash)), Some(hash));
            }
        }
        for alien in [
            &b"user0628478186066737721x"[..],
            b"user0628478:86066737721/",
            b"user99999999999999999999",
            b"uzer06284781860667377211",
            b"user0",
            b"",
            b"0123456789ABCDEF",
            b"0123456789abcdeg",
            b"01234567 9abcdef",
            b"0123456789abcde",
            b"8000000000000000",
        ] {
            assert_eq!(hash_of_key(alien), None);
        }
    }

    #[test]
    fn key_order_is_hash_order() {
        for size in [KeySize::Long, KeySize::Short] {
            assert!(*size.key(9) < *size.key(10));
            assert!(*size.key(99_999) < *size.key(u64::MAX >> 1));
        }
    }

    #[test]
    fn absent_keys_lie_between_those_of_records() {
        for order in [KeyOrder::Ordered, KeyOrder::Shuffled] {
            for number in [0, 1, 9, 10_000_000, ABSENT - 2] {
                let [key, absent, next] = [number, ABSENT + number, number + 1]
                    .map(|number| KeySize::Long.key(order.hash(number)));
                assert!(*key < *absent && *absent < *next, "{number}");
            }
        }
        let hash = |number| KeyOrder::Hashed.hash(number);
        let (absent, records) = (hash(ABSENT), (0..1000).map(hash));
        assert!((200..800).contains(&records.filter(|hash| *hash < absent).count()));
    }

    #[test]
    fn a_shuffle_meets_every_number_once_and_no_order() {
        for bound in [1, 2, 3, 5, 1000, 4096, 4097] {
            let shuffle = Shuffle::new(bound, 9);
            let mut shuffled: Vec<_> = (0..bound).map(|number| shuffle.of(number)).collect();
            let kept = shuffled.iter().enumerate().filter(|(at, to)| *at as u64 == **to).count();
            assert!(bound < 1000 || kept < 10, "{kept} of {bound} stay");
            assert_eq!(shuffle.of(bound), shuffled[0]);
            shuffled.sort_unstable();
            assert!(shuffled.into_iter().eq(0..bound));
        }
    }

    #[test]
    fn foreign_keys_have_hashes_of_their_own() {
        assert_eq!(hash_of_any(&KeySize::Long.key(5)), 5);
        let (one, other) = (hash_of_any(b"user5"), hash_of_any(b"user6"));
        assert!(one != other && one & FOREIGN != 0 && other & FOREIGN != 0);
    }
}
