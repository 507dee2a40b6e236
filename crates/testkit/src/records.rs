//! Numbered records, for tests that need many and choose them themselves.

/// The key of record `i`; keys have the order of their numbers.
pub fn key(i: u32) -> Vec<u8> {
    format!("key {i:05}").into_bytes()
}

/// The value of record `i` in `round`: 700 to 999 bytes.
pub fn value(i: u32, round: u32) -> Vec<u8> {
    let mut value = vec![i as u8; 700 + (i % 300) as usize];
    value[..4].copy_from_slice(&round.to_le_bytes());
    value
}
