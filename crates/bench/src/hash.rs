//! Two hashes of a number: the one of YCSB, and a quick one that mixes well.

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

/// The finalizer of SplitMix64: every bit of the result depends on every bit of the input.
pub fn mix(input: u64) -> u64 {
    let mut z = input.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::{fnv_hash, mix};

    #[test]
    fn the_first_hash_is_that_of_ycsb() {
        assert_eq!(fnv_hash(0), 6_284_781_860_667_377_211);
    }

    #[test]
    fn one_bit_changes_half_of_all() {
        let changed: u32 = (0..64).map(|bit| (mix(7) ^ mix(7 ^ 1 << bit)).count_ones()).sum();
        assert!((64 * 28..64 * 36).contains(&changed), "{changed}");
    }
}
