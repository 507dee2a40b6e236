//! Two hashes of a number: the one of YCSB, and a quick one that mixes well.

/// YCSB's `Utils.fnvhash64`: FNV-1a over the eight octets of `number`, lowest first, made positive.
pub fn fnv_hash(number: u64) -> u64 {
    const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 1_099_511_628_211;
    const PRIME_TO_THE_FOURTH: u64 = PRIME.wrapping_pow(4);
    let octets = number.to_le_bytes();
    let (lower, upper) = octets.split_at(4);
    let fold = |hash, octets: &[u8]| {
        octets.iter().fold(hash, |hash: u64, &octet| (hash ^ u64::from(octet)).wrapping_mul(PRIME))
    };
    let hash = fold(OFFSET_BASIS, lower);
    // Record numbers are small, and multiplications that wait for each other are slow.
    let hash = match number >> 32 {
        0 => hash.wrapping_mul(PRIME_TO_THE_FOURTH),
        _ => fold(hash, upper),
    };
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
        let by_octets = |number: u64| {
            let fold = |hash: u64, octet| (hash ^ u64::from(octet)).wrapping_mul(0x100_0000_01B3);
            let hash = number.to_le_bytes().into_iter().fold(0xCBF2_9CE4_8422_2325, fold);
            hash.cast_signed().unsigned_abs()
        };
        for number in (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1]).chain([u64::MAX]) {
            assert_eq!(fnv_hash(number), by_octets(number), "{number}");
        }
    }

    #[test]
    fn one_bit_changes_half_of_all() {
        let changed: u32 = (0..64).map(|bit| (mix(7) ^ mix(7 ^ 1 << bit)).count_ones()).sum();
        assert!((64 * 28..64 * 36).contains(&changed), "{changed}");
    }
}
