//! Keys as YCSB makes them: `user`, then the hashed number of the record, 24 bytes in all.
//!
//! Numbers are hashed so that records inserted one after another are scattered over the key space
//! (`insertorder=hashed`, the default of YCSB's `CoreWorkload`), and padded to 20 digits
//! (`zeropadding=20`), so that key order is the order of the hashes.

/// Bytes of every key.
pub const KEY_LEN: usize = 24;

/// A key.
pub type Key = [u8; KEY_LEN];

const PREFIX: [u8; 4] = *b"user";

/// YCSB's `Utils.fnvhash64`: FNV-1a over the eight octets of `number`, lowest first, made positive.
pub fn fnv_hash(number: u64) -> u64 {
    const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 1_099_511_628_211;
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(OFFSET_BASIS, |hash, &octet| (hash ^ u64::from(octet)).wrapping_mul(PRIME));
    hash.cast_signed().unsigned_abs()
}

/// The key of the record whose number hashes to `hash`.
pub fn key_of_hash(hash: u64) -> Key {
    let mut key = [b'0'; KEY_LEN];
    key[..PREFIX.len()].copy_from_slice(&PREFIX);
    let mut rest = hash;
    // Two digits a step: the harness makes a key for every operation, and divisions dominate it.
    for pair in key[PREFIX.len()..].rchunks_exact_mut(2) {
        let digits = (rest % 100) as u8;
        rest /= 100;
        pair[0] = b'0' + digits / 10;
        pair[1] = b'0' + digits % 10;
    }
    key
}

/// The hash that `key` spells, or `None` if it is not a key of ours.
pub fn hash_of_key(key: &[u8]) -> Option<u64> {
    let digits = key.strip_prefix(&PREFIX)?;
    if key.len() != KEY_LEN {
        return None;
    }
    digits.iter().try_fold(0u64, |hash, &digit| {
        let digit = digit.checked_sub(b'0').filter(|&digit| digit < 10)?;
        hash.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::{fnv_hash, hash_of_key, key_of_hash};

    #[test]
    fn keys_are_those_of_ycsb() {
        // "user6284781860667377211" is the first key of every YCSB load.
        assert_eq!(fnv_hash(0), 6_284_781_860_667_377_211);
        assert_eq!(&key_of_hash(fnv_hash(0)), b"user06284781860667377211");
    }

    #[test]
    fn a_key_gives_its_hash_back() {
        for number in (0..1000).chain([u64::MAX]) {
            let hash = fnv_hash(number);
            assert_eq!(hash_of_key(&key_of_hash(hash)), Some(hash));
        }
        for alien in [&b"user0628478186066737721x"[..], b"user0", b"", b"u"] {
            assert_eq!(hash_of_key(alien), None);
        }
    }

    #[test]
    fn key_order_is_hash_order() {
        assert!(key_of_hash(9) < key_of_hash(10));
        assert!(key_of_hash(99_999) < key_of_hash(u64::MAX >> 1));
    }
}
